// The modules of the pages, each loaded when it is first shown.

/** @typedef {{default: (properties: import("./core/types").PageProperties) => any}} Page */

/** @type {Record<import("./core/router.js").PageName, () => Promise<Page>>} */
export const PAGES = {
  home: () => import("./pages/home.js"),
  search: () => import("./pages/search.js"),
  group: () => import("./pages/group.js"),
  "index-browser": () => import("./pages/index-browser.js"),
  "index-group": () => import("./pages/index-group.js"),
  task: () => import("./pages/task.js"),
  log: () => import("./pages/log.js"),
  artifact: () => import("./pages/artifact.js"),
  compare: () => import("./pages/compare.js"),
  create: () => import("./pages/create.js"),
  queues: () => import("./pages/queues.js"),
  queue: () => import("./pages/queue.js"),
  worker: () => import("./pages/worker.js"),
  operations: () => import("./pages/operations.js"),
  clients: () => import("./pages/clients.js"),
  "client-create": () => import("./pages/client-create.js"),
  client: () => import("./pages/client.js"),
  roles: () => import("./pages/roles.js"),
  role: () => import("./pages/role.js"),
  scopes: () => import("./pages/scopes.js"),
  signin: () => import("./pages/signin.js"),
  callback: () => import("./pages/callback.js"),
};
