// From URLs to the names of pages. Upstream's URL shapes are kept: links in mails, checks and dashboards go on working. The
// service reads the routes here as well, to know which addresses are pages.

import { useEffect } from "./html.js";

/** @typedef {"home" | "search" | "group" | "index-browser" | "index-group" | "task" | "log" | "artifact" | "compare" |
 * "create" | "queues" | "queue" | "worker" | "operations" | "clients" | "client-create" | "client" |
 * "roles" | "role" | "scopes" | "signin" | "callback"} PageName @typedef {object} Route @property {RegExp} pattern
 * @property {string[]} names of the groups of the pattern @property {PageName} page */

const SLUG = "([A-Za-z0-9_-]{22})";

/** A route: `:name` matches one segment, `*name` the rest, `:name!` a slugid. @param {string} shape
 * @param {PageName} page @returns {Route} */
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
  route("/", "home"),
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

/** The route of a path and its decoded arguments, or null. @param {string} path */
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
const LEAVING = "console:leaving";

/** Go to another page of the console. @param {string} href @param {{replace?: boolean}} [options] */
export function navigate(href, { replace = false } = {}) {
  const isElsewhere = new URL(href, location.href).pathname !== location.pathname;
  if (replace) window.history.replaceState(null, "", href);
  else {
    notePlace();
    window.history.pushState(null, "", href);
  }
  shown = location.href;
  dispatchEvent(new Event(NAVIGATED));
  if (isElsewhere && !replace) scrollTo(0, 0);
}

/** Go to another page, unless what was written on this one is not to be lost. @param {string} href */
export const leave = (href) => unless(() => navigate(href));

/** Change parameters of the query of this page without a new entry in the history; an empty value removes one.
 * @param {Record<string, string>} changes */
export function setQuery(changes) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  navigate(`${location.pathname}${text && `?${text}`}${location.hash}`, { replace: true });
}

/** Call back after each change of the address. @param {() => void} listener @returns {() => void} ends it */
export const onNavigation = (listener) => listening([NAVIGATED, "popstate"], listener);

/** Call back when a page with something unsaved is to be left, with what leaves it.
 * @param {(go: () => void) => void} listener @returns {() => void} ends it */
export const onLeaving = (listener) =>
  listening([LEAVING], (event) => listener(/** @type {CustomEvent} */ (event).detail));

/** @param {string[]} types @param {(event: Event) => void} listener */
function listening(types, listener) {
  for (const type of types) addEventListener(type, listener);
  return () => types.forEach((type) => removeEventListener(type, listener));
}

/** What is written and not saved, each part by a key of its own. */
const unsaved = new Set();

/** Ask before what was written on the page is left, as long as there is something unsaved. @param {boolean} dirty */
export function useUnsaved(dirty) {
  useEffect(() => {
    if (!dirty) return undefined;
    const key = {};
    const ask = (/** @type {Event} */ event) => event.preventDefault();
    unsaved.add(key);
    addEventListener("beforeunload", ask);
    return () => {
      unsaved.delete(key);
      removeEventListener("beforeunload", ask);
    };
  }, [dirty]);
}

/** Do what leaves the page, at once or once somebody has said yes. @param {() => void} go */
function unless(go) {
  if (unsaved.size === 0) return go();
  const anyway = () => {
    unsaved.clear();
    go();
  };
  dispatchEvent(new CustomEvent(LEAVING, { detail: anyway }));
}

/** The address that is shown: the browser goes back before anybody can be asked. */
let shown = location.href;
addEventListener("popstate", (event) => {
  if (unsaved.size > 0 && new URL(shown).pathname !== location.pathname) {
    event.stopImmediatePropagation();
    window.history.pushState(null, "", shown);
    return unless(() => window.history.back());
  }
  shown = location.href;
  returnTo(event.state?.top ?? 0);
});

// Where one was on a page is kept with its entry of the history: what is shown there comes later than the browser looks.
window.history.scrollRestoration = "manual";
const RESTS = 150;
const PATIENCE = 5000;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let scrolled;
const notePlace = () => {
  clearTimeout(scrolled);
  window.history.replaceState({ ...window.history.state, top: scrollY }, "");
};
addEventListener("scroll", () => {
  clearTimeout(scrolled);
  scrolled = setTimeout(notePlace, RESTS);
});

/** Scroll to where one was, as soon as the page is long enough, unless one scrolls oneself. @param {number} top */
function returnTo(top) {
  clearTimeout(scrolled);
  const control = new AbortController();
  for (const type of ["wheel", "pointerdown", "keydown", NAVIGATED, "popstate"])
    addEventListener(type, () => control.abort(), { signal: control.signal, passive: true });
  const began = performance.now();
  const attempt = () => {
    if (control.signal.aborted) return;
    const isLong = document.documentElement.scrollHeight - innerHeight >= top;
    if (isLong || performance.now() - began > PATIENCE) {
      control.abort();
      scrollTo(0, top);
    } else requestAnimationFrame(attempt);
  };
  requestAnimationFrame(attempt);
}

/** After a reload, too. */
if (window.history.state?.top) returnTo(window.history.state.top);

/** Follow links of the console without loading it anew; what opens elsewhere or belongs to the API is left to the
 * browser. @param {MouseEvent} event */
export function followLink(event) {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return;
  const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
  if (!link || link.hasAttribute("target") || link.hasAttribute("download")) return;
  const url = new URL(link.getAttribute("href") ?? "", location.href); // of links in drawings as well
  if (url.origin !== location.origin || resolve(url.pathname) === null) return;
  if (url.pathname === location.pathname && url.search === location.search && url.hash) return;
  event.preventDefault();
  const href = url.pathname + url.search + url.hash;
  if (url.pathname === location.pathname) return navigate(href);
  unless(() => {
    navigate(href);
    // As after a load: screen readers begin at the new page, not at the link that has gone.
    document.getElementById("content")?.focus({ preventScroll: true });
  });
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

/** The page of two runs side by side. @param {{id: string, runId: number}} one
 * @param {{id: string, runId: number}} other */
export const compareHref = (one, other) => `/tasks/compare?one=${one.id}/${one.runId}&other=${other.id}/${other.runId}`;
