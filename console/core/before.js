// What ran before: the groups before one, of the same scheduler and source, and a task's namesakes in them.

import { nameOf } from "./group-name.js";
import { findTask, pathsOf } from "./index-service.js";
import { listTaskGroups, status as statusOf, task as taskOf, taskGroupPage } from "./queue.js";
import { isCanceled, isFinal, isWrong } from "./words.js";

/** @typedef {import("./types").RecentGroup} RecentGroup */
/** @typedef {import("./types").Member} Member */
/** @typedef {{member: Member, how: string}} Earlier `how` it was found: the name of its group, or its path in the index */

const LISTED = 500;
/** So many groups before one are looked at, and so many at a time. */
export const GROUPS = 10;
const AT_ONCE = 3;
/** Of a group of more tasks the first are looked at: up to 1,000 on each page. */
const PAGES = 5;

/** The groups before one, the latest first, as many as are looked at. Throws ApiError: it needs
 * `queue:list-task-groups`, as the home page does. @param {string} taskGroupId @param {AbortSignal} signal
 * @returns {Promise<RecentGroup[]>} */
export async function groupsBefore(taskGroupId, signal) {
  /** @type {RecentGroup | undefined} */
  let own;
  /** @type {RecentGroup[]} */
  const alike = [];
  let listed = 0;
  for await (const { taskGroups } of listTaskGroups({ signal, limit: 100 })) {
    for (const group of /** @type {RecentGroup[]} */ (taskGroups)) {
      if (group.taskGroupId === taskGroupId) own = group;
      else if (own && group.schedulerId === own.schedulerId && originOf(group.source) === originOf(own.source))
        alike.push(group);
    }
    listed += taskGroups.length;
    if (listed >= LISTED || alike.filter(({ name }) => name === own?.name).length >= GROUPS) break;
  }
  const ofName = alike.filter(({ name }) => name === own?.name);
  return ofName.length > 0 ? ofName : alike;
}

/** Where something comes from, whatever its revision. @param {string} source */
export const originOf = (source) => source.replace(/[?#].*$/, "").replace(/\b[0-9a-f]{7,40}\b/g, "");

/** The same task before: where it is indexed, and its namesakes in the groups before. @param {Member} member
 * @param {AbortSignal} signal @param {(found: Earlier[]) => void} progress called with each that is found
 * @returns {Promise<Earlier[]>} the latest first */
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
  const groups = (await groupsBefore(status.taskGroupId, signal)).slice(0, GROUPS);
  const look = async () => {
    for (let group = groups.shift(); group; group = groups.shift()) {
      const member = await namesake(group.taskGroupId, task, status, signal);
      if (member) add([{ member, how: nameOf(group).name }]);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, look));
  await indexed;
  return found;
}

/** @param {string} groupId @param {Member["task"]} task @param {Member["status"]} status @param {AbortSignal} signal */
async function namesake(groupId, task, status, signal) {
  /** @type {string | undefined} */
  let token;
  for (let page = 0; page < PAGES; page++) {
    const { tasks, continuationToken } = await taskGroupPage(groupId, token, signal);
    const alike = tasks.filter(
      (one) => one.task.metadata.name === task.metadata.name && one.status.projectId === status.projectId,
    );
    const [last] = alike.sort((a, b) => (a.task.created < b.task.created ? 1 : -1));
    if (last || !continuationToken) return last;
    token = continuationToken;
  }
  return undefined;
}

/** The last task that completed under a path of this one that is not of one push alone. @param {Member["task"]} task
 * @param {string} taskId @param {AbortSignal} signal @returns {Promise<Earlier[]>} */
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

/** Whether a task went wrong at some time: in its last run, or in one before. @param {Member} member */
const hasFailed = ({ status }) => isWrong(status) || status.runs.some(({ state }) => state === "failed");

/** Whether a task goes as before, fails since some push, or fails now and then. @param {Member} member
 * @param {Earlier[]} found the latest first */
export function verdictOn({ status }, found) {
  const before = found.filter(({ member }) => isFinal(member.status.state) && !isCanceled(member.status));
  if (before.length === 0) return "It is not resolved where it ran before.";
  const count = (/** @type {number} */ number) =>
    number === 1 ? "the push before" : `the last ${number} pushes that ran it`;
  const failed = before.map((one) => hasFailed(one.member));
  const failures = failed.filter(Boolean).length;
  const wrong = isWrong(status);
  const inARow = failed.indexOf(false) < 0 ? failed.length : failed.indexOf(false);
  if (failures === 0)
    return wrong
      ? `This failure is new: it completed in ${count(before.length)}.`
      : `It completed in ${count(before.length)}.`;
  if (failures === before.length)
    return wrong || !isFinal(status.state)
      ? `It failed in ${count(before.length)} as well.`
      : `It failed in ${count(before.length)}; now it did not.`;
  if (wrong && failures === inARow)
    return `It has failed since ${before[inARow - 1]?.how}, ${inARow + 1} times in a row.`;
  const isSteady = [{ member: { status } }, ...before].every(
    ({ member }) => isWrong(member.status) === hasFailed(/** @type {Member} */ (member)),
  );
  if (!wrong && isSteady && failed.indexOf(true) + failures === failed.length)
    return `It failed in ${failures} of ${count(before.length)}, and completed in all after those.`;
  return `It is flaky: it failed in ${failures} of ${count(before.length)}, and completed in between.`;
}

/** Times, ids and what follows from them: they differ in any two tasks. */
const OWN = new Set(["created", "deadline", "expires", "taskGroupId", "dependencies"]);
const MOST_DIFFERENCES = 60;

/** What differs between two definitions, part by part. @param {unknown} one @param {unknown} other
 * @returns {{path: string, one: string, other: string}[]} */
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
