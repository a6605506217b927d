// From URLs to the names of pages. Upstream's URL shapes are kept: links in mails, checks and dashboards go on working.

/**
 * @typedef {"home" | "search" | "group" | "index-browser" | "index-group" | "task" | "log" | "artifact" | "compare" | "create" | "queues" | "queue" | "worker" | "operations" | "clients" | "client-create" | "client" | "roles" | "role" | "scopes" | "signin" | "callback"} PageName
 *
 * @typedef {object} Route
 * @property {RegExp} pattern
 * @property {string[]} names of the groups of the pattern
 * @property {PageName} page
 */

const SLUG = "([A-Za-z0-9_-]{22})";

/**
 * A route: `:name` matches one segment, `*name` the rest, `:name!` a slugid.
 * @param {string} shape
 * @param {PageName} page
 * @returns {Route}
 */
function route(shape, page) {
  /** @type {string[]} */
  const names = [];
  const source = shape.replace(/:(\w+)!|:(\w+)|\*(\w+)/g, (_all, slug, segment, rest) => {
    names.push(slug ?? segment ?? rest);
    if (slug) return SLUG;
    return segment ? "([^/]+)" : "(.+)";
  });
  return { pattern: new RegExp(`^${source}/?$`), names, page };
}

/** @type {Route[]} */
const ROUTES = [
  route("/?", "home"),
  route("/tasks", "search"),
  route("/tasks/groups", "search"),
  route("/tasks/create", "create"),
  route("/tasks/compare", "compare"),
  route("/tasks/index", "index-browser"),
  route("/tasks/index/:namespace", "index-browser"),
  route("/tasks/index/:namespace/:name", "index-browser"),
  route("/tasks/index/:namespace/:name/task-group", "index-group"),
  route("/tasks/groups/:taskGroupId!", "group"),
  route("/tasks/groups/:taskGroupId!/:view", "group"),
  route("/tasks/:taskId!", "task"),
  route("/tasks/:taskId!/definition", "task"),
  route("/tasks/:taskId!/runs/:runId", "task"),
  route("/tasks/:taskId!/runs/:runId/logs/live/*name", "log"),
  route("/tasks/:taskId!/runs/:runId/logs/*name", "log"),
  route("/tasks/:taskId!/runs/:runId/*name", "artifact"),
  route("/tasks/:taskId!/:copy", "create"),
  route("/provisioners", "queues"),
  route("/provisioners/:provisionerId", "queues"),
  route("/provisioners/:provisionerId/worker-types/:workerType", "queue"),
  route("/provisioners/:provisionerId/worker-types/:workerType/workers/:workerGroup/:workerId", "worker"),
  route("/provisioners/:provisionerId/worker-types/:workerType/:view", "queue"),
  route("/worker-manager", "queues"),
  route("/worker-manager/:taskQueueId", "queue"),
  route("/worker-manager/:taskQueueId/:view", "queue"),
  route("/operations", "operations"),
  route("/auth/clients", "clients"),
  route("/auth/clients/create", "client-create"),
  route("/auth/clients/new", "client-create"),
  route("/auth/clients/*clientId", "client"),
  route("/auth/roles", "roles"),
  route("/auth/roles/*roleId", "role"),
  route("/auth/scopes", "scopes"),
  route("/auth/scopes/*scope", "scopes"),
  route("/profile", "signin"),
  route("/login", "signin"),
  route("/login/callback", "callback"),
];

/**
 * The route of a path and its decoded arguments, or null.
 * @param {string} path
 */
export function resolve(path) {
  for (const { pattern, names, page } of ROUTES) {
    const match = pattern.exec(path);
    if (!match) continue;
    try {
      const params = Object.fromEntries(names.map((name, index) => [name, decodeURIComponent(match[index + 1] ?? "")]));
      return { page, params, key: pattern.source };
    } catch {
      return null; // a path that is no UTF-8
    }
  }
  return null;
}

const NAVIGATED = "console:navigated";

/**
 * Go to another page of the console.
 * @param {string} href
 * @param {{replace?: boolean}} [options]
 */
export function navigate(href, { replace = false } = {}) {
  if (replace) window.history.replaceState(null, "", href);
  else window.history.pushState(null, "", href);
  dispatchEvent(new Event(NAVIGATED));
}

/**
 * Change one parameter of the query of this page without a new entry in the history; an empty value removes it.
 * @param {Record<string, string>} changes
 */
export function setQuery(changes) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  navigate(`${location.pathname}${text && `?${text}`}${location.hash}`, { replace: true });
}

/**
 * Call back after each change of the address.
 * @param {() => void} listener
 * @returns {() => void} ends it
 */
export function onNavigation(listener) {
  addEventListener(NAVIGATED, listener);
  addEventListener("popstate", listener);
  return () => {
    removeEventListener(NAVIGATED, listener);
    removeEventListener("popstate", listener);
  };
}

/**
 * Follow links of the console without loading it anew; what opens elsewhere or belongs to the API is left to the browser.
 * @param {MouseEvent} event
 */
export function followLink(event) {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return;
  const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
  if (!link || link.hasAttribute("target") || link.hasAttribute("download")) return;
  const url = new URL(link.getAttribute("href") ?? "", location.href); // of links in drawings as well
  if (url.origin !== location.origin || resolve(url.pathname) === null) return;
  if (url.pathname === location.pathname && url.search === location.search && url.hash) return;
  event.preventDefault();
  const elsewhere = url.pathname !== location.pathname;
  navigate(url.pathname + url.search + url.hash);
  // As after a load: screen readers begin at the new page, not at the link that has gone.
  if (!elsewhere) return;
  document.getElementById("content")?.focus({ preventScroll: true });
  scrollTo(0, 0);
}

/** Addresses of the console's own pages. */
export const to = {
  /** @param {string} id */
  group: (id) => `/tasks/groups/${id}`,
  /** @param {string} id @param {number | string} [runId] */
  task: (id, runId) => (runId === undefined ? `/tasks/${id}` : `/tasks/${id}/runs/${runId}`),
  /** A new task from the definition of one. @param {string} id */
  copy: (id) => `/tasks/${id}/create`,
  /** @param {string} id @param {number | string} runId @param {string} name @param {boolean} [live] */
  log: (id, runId, name, live = false) =>
    `/tasks/${id}/runs/${runId}/logs/${live ? "live/" : ""}${encodeURIComponent(name)}`,
  /** @param {string} id @param {number | string} runId @param {string} name */
  artifact: (id, runId, name) => `/tasks/${id}/runs/${runId}/${encodeURIComponent(name)}`,
  /** @param {string} [path] a namespace, or what names a task */
  index: (path) => (path ? `/tasks/index/${encodeURIComponent(path)}` : "/tasks/index"),
  /** @param {string} taskQueueId @param {string} [view] */
  queue: (taskQueueId, view) => `/provisioners/${taskQueueId.replace("/", "/worker-types/")}${view ? `/${view}` : ""}`,
  /** @param {string} taskQueueId @param {string} workerGroup @param {string} workerId */
  worker: (taskQueueId, workerGroup, workerId) => `${to.queue(taskQueueId)}/workers/${workerGroup}/${workerId}`,
  /** @param {string} id */
  client: (id) => `/auth/clients/${encodeURIComponent(id)}`,
  /** @param {string} id */
  role: (id) => `/auth/roles/${encodeURIComponent(id)}`,
};

/**
 * The page of two runs side by side.
 * @param {{id: string, runId: number}} one
 * @param {{id: string, runId: number}} other
 */
export const compareHref = (one, other) => `/tasks/compare?one=${one.id}/${one.runId}&other=${other.id}/${other.runId}`;
