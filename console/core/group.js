// The tasks of a group, read again cheaply: the whole list at first, then the statuses of what can still change.

import { listTaskGroup, statuses } from "./queue.js";
import { isFinal, STATES } from "./words.js";

/** @typedef {import("./types").Member} Member */
/** @typedef {import("./types").Status} Status */

// The whole list is read for tasks that were added and for tasks that were rerun: of a large group more seldom.
const WHOLE_EVERY = 30_000;
const WHOLE_EVERY_PER_TASK = 150;

/**
 * @typedef {object} GroupTasks
 * @property {import("./types").GroupSummary} group
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
  if (previous && Date.now() - previous.readAt < wholeEvery(previous)) return refreshed(previous, signal);
  /** @type {Member[]} */
  const members = [];
  /** @type {import("./types").GroupSummary | undefined} */
  let group;
  for await (const page of listTaskGroup(groupId, { signal })) {
    const { tasks, continuationToken, ...summary } = page;
    group = summary;
    members.push(...tasks);
    if (!previous && continuationToken) progress({ group: summary, members: [...members], complete: false, readAt: 0 });
  }
  if (!group) throw new Error("The group has no page.");
  const next = { group, members, complete: true, readAt: Date.now() };
  if (!previous || fingerprint(previous) !== fingerprint(next)) return next;
  previous.readAt = next.readAt;
  return previous;
}

/** @param {GroupTasks} of */
const wholeEvery = ({ members }) => Math.min(WHOLE_EVERY, members.length * WHOLE_EVERY_PER_TASK);

/** Have the whole list read next time, after an action that may have changed any task. @param {GroupTasks | undefined} of */
export function distrust(of) {
  if (of) of.readAt = 0;
}

/**
 * @param {GroupTasks} previous
 * @param {AbortSignal} signal
 */
async function refreshed(previous, signal) {
  const open = previous.members.filter(({ status }) => !isFinal(status.state)).map(({ status }) => status.taskId);
  if (open.length === 0) return previous;
  const found = await statuses(open, signal);
  let changed = false;
  const members = previous.members.map((member) => {
    const status = found.get(member.status.taskId);
    if (!status || sameStatus(status, member.status)) return member;
    changed = true;
    return { task: member.task, status };
  });
  return changed ? { ...previous, members } : previous;
}

/** @param {GroupTasks} of */
const fingerprint = ({ group, members }) =>
  `${group.sealed}|${members.map(({ status }) => `${status.taskId}${versionOf(status)}`).join()}`;

/** @param {Status} a @param {Status} b */
const sameStatus = (a, b) => versionOf(a) === versionOf(b);

/** @param {Status} status */
const versionOf = ({ state, runs, priority }) => `${state}${runs.length}${priority}${runs.at(-1)?.takenUntil ?? ""}`;

/** @param {Member[]} members */
export function countByState(members) {
  /** @type {Record<string, number>} */
  const counts = Object.fromEntries(STATES.map((state) => [state, 0]));
  for (const { status } of members) counts[status.state] = (counts[status.state] ?? 0) + 1;
  return counts;
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
