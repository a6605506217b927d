// What ran before: the groups before one, of the same scheduler and source, and a task's namesakes in them.

import { nameOf } from "./group-name.js";
import { findTask, pathsOf } from "./index-service.js";
import { gather } from "./polling.js";
import { listTaskGroups, status as statusOf, task as taskOf, taskGroupPage } from "./queue.js";

/** @typedef {import("./types").RecentGroup} RecentGroup */
/** @typedef {import("./types").Member} Member */
/** @typedef {{member: Member, how: string}} Earlier `how` it was found: the name of its group, or its path in the index */

const LISTED = 500;
const GROUPS = 4;
/** Of a group of more tasks the first are looked at: up to 1,000 on each page. */
const PAGES = 5;

/**
 * The groups before one, the latest first. Throws ApiError: it needs `queue:list-task-groups`, as the home page does.
 * @param {string} taskGroupId
 * @param {AbortSignal} signal
 * @returns {Promise<RecentGroup[]>}
 */
export async function groupsBefore(taskGroupId, signal) {
  const listed = await gather(listTaskGroups({ signal, limit: LISTED }), "taskGroups", LISTED);
  const groups = /** @type {RecentGroup[]} */ (listed.items);
  const at = groups.findIndex((group) => group.taskGroupId === taskGroupId);
  const own = groups[at];
  if (!own) return [];
  const alike = groups
    .slice(at + 1)
    .filter((one) => one.schedulerId === own.schedulerId && originOf(one.source) === originOf(own.source));
  const named = alike.filter(({ name }) => name === own.name);
  return named.length > 0 ? named : alike;
}

/** Where something comes from, whatever its revision. @param {string} source */
export const originOf = (source) => source.replace(/[?#].*$/, "").replace(/\b[0-9a-f]{7,40}\b/g, "");

/**
 * The same task before: where it is indexed, and its namesakes in the groups before.
 * @param {Member} member
 * @param {AbortSignal} signal
 * @param {(found: Earlier[]) => void} progress called with each that is found
 * @returns {Promise<Earlier[]>} the latest first
 */
export async function earlierRuns({ task, status }, signal, progress) {
  /** @type {Earlier[]} */
  const found = [];
  const add = (/** @type {Earlier[]} */ more) => {
    for (const one of more)
      if (![status.taskId, ...found.map((other) => other.member.status.taskId)].includes(one.member.status.taskId))
        found.push(one);
    found.sort((a, b) => (a.member.task.created < b.member.task.created ? 1 : -1));
    progress([...found]);
  };
  const indexed = indexedBefore(task, status.taskId, signal).then(add);
  for (const group of (await groupsBefore(status.taskGroupId, signal)).slice(0, GROUPS)) {
    const member = await namesake(group.taskGroupId, task, status, signal);
    if (member) add([{ member, how: nameOf(group) }]);
  }
  await indexed;
  return found;
}

/** @param {string} groupId @param {Member["task"]} task @param {Member["status"]} status @param {AbortSignal} signal */
async function namesake(groupId, task, status, signal) {
  /** @type {string | undefined} */
  let token;
  for (let page = 0; page < PAGES; page++) {
    const { tasks, continuationToken } = await taskGroupPage(groupId, token, signal);
    const found = tasks.find(
      (one) => one.task.metadata.name === task.metadata.name && one.status.projectId === status.projectId,
    );
    if (found || !continuationToken) return found;
    token = continuationToken;
  }
  return undefined;
}

/**
 * The last task that completed under a path of this one that is not of one push alone.
 * @param {Member["task"]} task
 * @param {string} taskId
 * @param {AbortSignal} signal
 * @returns {Promise<Earlier[]>}
 */
async function indexedBefore(task, taskId, signal) {
  const [path] = pathsOf(task.routes).filter((one) => one.split(".").includes("latest"));
  if (!path) return [];
  try {
    const entry = await findTask(path, { signal });
    if (entry.taskId === taskId) return [];
    const [other, status] = await Promise.all([taskOf(entry.taskId, { signal }), statusOf(entry.taskId, { signal })]);
    return [{ member: { task: other, status }, how: path }];
  } catch (error) {
    if ([403, 404].includes(/** @type {{status?: number}} */ (error).status ?? 0)) return []; // not there, or not for everybody
    throw error;
  }
}

/** Times, ids and what follows from them: they differ in any two tasks. */
const OWN = new Set(["created", "deadline", "expires", "taskGroupId", "dependencies"]);
const MOST_DIFFERENCES = 60;

/**
 * What differs between two definitions, part by part.
 * @param {unknown} one
 * @param {unknown} other
 * @returns {{path: string, one: string, other: string}[]}
 */
export function differences(one, other) {
  const [a, b] = [flat(one), flat(other)];
  return [...new Set([...a.keys(), ...b.keys()])]
    .filter((path) => !OWN.has(path.split(/[.[]/)[0] ?? "") && a.get(path) !== b.get(path))
    .slice(0, MOST_DIFFERENCES)
    .map((path) => ({ path, one: a.get(path) ?? "–", other: b.get(path) ?? "–" }));
}

/** @param {unknown} value @returns {Map<string, string>} texts by their paths */
function flat(value, path = "", found = /** @type {Map<string, string>} */ (new Map())) {
  if (typeof value !== "object" || value === null) return found.set(path, String(value));
  for (const [name, part] of Object.entries(value))
    flat(part, Array.isArray(value) ? `${path}[${name}]` : path ? `${path}.${name}` : name, found);
  return found;
}
