// The endpoints of the index service that the console calls.

import { arg, call, pages } from "./api.js";

/** @typedef {import("./api.js").Options} Options */

const INDEX = "/api/index/v1";
const ROUTE = "index.";

/** @param {string} namespace @param {Options} [options] */
export const listNamespaces = (namespace, options) =>
  pages(`${INDEX}/namespaces${namespace && `/${arg(namespace)}`}`, options);
/** @param {string} namespace @param {Options} [options] */
export const listTasks = (namespace, options) => pages(`${INDEX}/tasks${namespace && `/${arg(namespace)}`}`, options);
/** @param {string} path @param {Options} [options] @returns {Promise<import("./types").IndexedTask>} */
export const findTask = (path, options) => call(`${INDEX}/task/${arg(path)}`, options);

/** The address that always leads to an artifact of the latest task. @param {string} path @param {string} name */
export const latestArtifact = (path, name) =>
  `${location.origin}${INDEX}/task/${arg(path)}/artifacts/${name.split("/").map(arg).join("/")}`;

/** The paths that a task's routes ask for. @param {string[]} routes */
export const pathsOf = (routes) =>
  routes.filter((route) => route.startsWith(ROUTE)).map((route) => route.slice(ROUTE.length));
