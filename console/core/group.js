// The tasks of a group, read again cheaply: the whole list at first, then the pages on which something can still change.

import { taskGroupPage } from "./queue.js";
import { isCanceled, isFinal, isWrong, shownState, STATES } from "./words.js";

/** @typedef {import("./types").Member} Member */
/** @typedef {import("./types").Status} Status */

// A page of 1,000 tasks takes this long between two readings, so that a large group costs no more than a small one.
const PAUSE_PER_TASK = 3;
// The whole list is read for tasks that were added and for tasks that were rerun: of a large group more seldom.
const WHOLE_EVERY = 30_000;
const WHOLE_EVERY_PER_TASK = 150;
const READINGS_A_WHOLE = 4;

/**
 * @typedef {object} Part a page of the list, as it was read last
 * @property {string | undefined} token where it starts
 * @property {Member[]} members
 */

/**
 * @typedef {object} GroupTasks
 * @property {import("./types").GroupSummary} group
 * @property {Part[]} parts
 * @property {Member[]} members ordered by taskId
 * @property {boolean} complete whether all pages were read
 * @property {number} readAt when the whole list was read, milliseconds since the epoch
 */

/**
 * Read a group, or what has changed of it since. Returns the previous value itself if nothing has.
 * @param {string} groupId
 * @param {AbortSignal} signal
 * @param {GroupTasks | undefined} previous
 * @param {(partial: GroupTasks) => void} progress called with each page of the first reading
 * @returns {Promise<GroupTasks>}
 */
export async function readGroup(groupId, signal, previous, progress) {
  if (previous && Date.now() - previous.readAt < wholeEvery(previous)) return refreshed(groupId, previous, signal);
  /** @type {Part[]} */
  const parts = [];
  /** @type {string | undefined} */
  let token;
  for (;;) {
    const { tasks, continuationToken, ...group } = await taskGroupPage(groupId, token, signal);
    parts.push({ token, members: tasks });
    const complete = continuationToken === undefined;
    const next = { group, parts: [...parts], members: membersOf(parts), complete, readAt: complete ? Date.now() : 0 };
    if (complete) return latestOf(previous, next);
    if (!previous) progress(next);
    token = continuationToken;
  }
}

/** Milliseconds that a page of so many tasks rests before it looks again. @param {GroupTasks} of */
export const restOf = ({ members }) => members.length * PAUSE_PER_TASK;

/** @param {GroupTasks} of */
const wholeEvery = (of) =>
  Math.max(Math.min(WHOLE_EVERY, of.members.length * WHOLE_EVERY_PER_TASK), READINGS_A_WHOLE * restOf(of));

/** Have the whole list read next time, after an action that may have changed any task. @param {GroupTasks | undefined} of */
export function distrust(of) {
  if (of) of.readAt = 0;
}

/**
 * @param {string} groupId
 * @param {GroupTasks} previous
 * @param {AbortSignal} signal
 */
async function refreshed(groupId, previous, signal) {
  /** @type {Part[]} */
  const parts = [];
  let group = previous.group;
  for (const part of previous.parts) {
    if (part.members.every(({ status }) => isFinal(status.state))) {
      parts.push(part);
      continue;
    }
    const { tasks, continuationToken: _, ...summary } = await taskGroupPage(groupId, part.token, signal);
    group = summary;
    // Tasks that were added push others off the end of their page: those stay as they were until the list is read.
    parts.push({ token: part.token, members: membersOf([part, { token: part.token, members: tasks }]) });
  }
  return latestOf(previous, { ...previous, group, parts, members: membersOf(parts) });
}

/** Each task once, as in the last of the parts that has it, ordered by taskId. @param {Part[]} parts */
function membersOf(parts) {
  const found = new Map(parts.flatMap(({ members }) => members.map((member) => [member.status.taskId, member])));
  return [...found.values()].sort((a, b) => (a.status.taskId < b.status.taskId ? -1 : 1));
}

/**
 * @param {GroupTasks | undefined} previous
 * @param {GroupTasks} next
 */
function latestOf(previous, next) {
  if (!previous || fingerprint(previous) !== fingerprint(next)) return next;
  previous.readAt = next.readAt;
  previous.parts = next.parts;
  return previous;
}

/** @param {GroupTasks} of */
const fingerprint = ({ group, members }) =>
  `${group.sealed}|${members.map(({ status }) => `${status.taskId}${versionOf(status)}`).join()}`;

/** @param {Status} status */
const versionOf = ({ state, runs, priority }) => `${state}${runs.length}${priority}${runs.at(-1)?.takenUntil ?? ""}`;

/** @param {Member[]} members */
export function countByState(members) {
  /** @type {Record<string, number>} */
  const counts = Object.fromEntries(STATES.map((state) => [state, 0]));
  for (const { status } of members) {
    const state = shownState(status);
    counts[state] = (counts[state] ?? 0) + 1;
  }
  return counts;
}

/**
 * How many tasks ended without completing: `2 failed, 1 exception`, `5 cancelled`, which is no failure; empty if none did.
 * @param {Member[]} members
 */
export function endings(members) {
  const wrong = countByState(members.filter(({ status }) => isWrong(status)));
  const canceled = members.filter(({ status }) => isCanceled(status)).length;
  const said = (/** @type {number} */ count, /** @type {string} */ word) =>
    count ? [`${count.toLocaleString()} ${word}`] : [];
  return {
    wrong: [...said(wrong["failed"] ?? 0, "failed"), ...said(wrong["exception"] ?? 0, "exception")].join(", "),
    canceled: said(canceled, "cancelled").join(),
  };
}

/**
 * What failed or ended as an exception: what nothing else that went wrong led to first, then in the order of time.
 * @param {Member[]} members
 */
export function failures(members) {
  const byId = new Map(members.map((member) => [member.status.taskId, member]));
  /** @type {Map<string, boolean>} whether something that a task waits for, directly or not, did not complete */
  const led = new Map();
  const isLed = (/** @type {Member} */ start) => {
    const ahead = [start];
    while (ahead.length > 0) {
      const member = /** @type {Member} */ (ahead.at(-1));
      const id = member.status.taskId;
      const needed = member.task.dependencies.flatMap((one) => byId.get(one) ?? []);
      const unknown = needed.filter(({ status }) => !led.has(status.taskId) && status.state !== "completed");
      if (!led.has(id)) led.set(id, false); // also ends at a circle, which no group has
      if (unknown.length > 0) {
        ahead.push(...unknown);
        continue;
      }
      led.set(
        id,
        needed.some(
          ({ status }) => status.state === "failed" || status.state === "exception" || led.get(status.taskId),
        ),
      );
      ahead.pop();
    }
    return led.get(start.status.taskId) === true;
  };
  const key = (/** @type {Member} */ member) =>
    `${isLed(member) ? 1 : 0}${member.status.runs.at(-1)?.resolved ?? ""}${member.task.metadata.name}`;
  const keyed = members.filter(({ status }) => isWrong(status)).map((member) => ({ member, key: key(member) }));
  return keyed.sort((a, b) => (a.key < b.key ? -1 : 1)).map(({ member }) => member);
}

/**
 * Unscheduled tasks that wait, directly or not, for a task of the group that did not complete.
 * @param {Member[]} members
 * @returns {Set<string>}
 */
export function blockedTasks(members) {
  /** @type {Map<string, string[]>} */
  const dependents = new Map();
  const open = new Set(
    members.filter(({ status }) => status.state === "unscheduled").map(({ status }) => status.taskId),
  );
  for (const { task, status } of members) {
    if (!open.has(status.taskId)) continue;
    for (const required of task.dependencies)
      dependents.set(required, [...(dependents.get(required) ?? []), status.taskId]);
  }
  const requires = new Map(members.map(({ task, status }) => [status.taskId, task.requires]));
  const failed = members.filter(({ status }) => status.state === "failed" || status.state === "exception");
  /** @type {Set<string>} */
  const blocked = new Set();
  /** @type {string[]} */
  const ahead = failed.flatMap(({ status }) =>
    (dependents.get(status.taskId) ?? []).filter((id) => requires.get(id) !== "all-resolved"),
  );
  for (let id = ahead.pop(); id !== undefined; id = ahead.pop()) {
    if (blocked.has(id)) continue;
    blocked.add(id);
    ahead.push(...(dependents.get(id) ?? []));
  }
  return blocked;
}
