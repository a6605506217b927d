// The tasks of a group, read again cheaply: the whole list at first, then the pages on which something can still change.

import { now } from "./clock.js";
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

/** @typedef {object} Part a page of the list, as it was read last @property {string | undefined} token where it starts
 * @property {Member[]} members @property {number} at when it was read, milliseconds since the epoch */

/** @typedef {object} GroupTasks @property {import("./types").GroupSummary} group @property {Part[]} parts
 * @property {Member[]} members ordered by taskId @property {boolean} complete whether all pages were read
 * @property {number} readAt when the whole list was read, milliseconds since the epoch */

/** Read a group, or what has changed of it since. Returns the previous value itself if nothing has.
 * @param {string} groupId @param {AbortSignal} signal @param {GroupTasks | undefined} previous
 * @param {(partial: GroupTasks) => void} progress called with each page of the first reading
 * @returns {Promise<GroupTasks>} */
export async function readGroup(groupId, signal, previous, progress) {
  if (previous && now() - previous.readAt < wholeEvery(previous)) return refreshed(groupId, previous, signal);
  /** @type {Part[]} */
  const parts = [];
  /** @type {string | undefined} */
  let token;
  for (;;) {
    const { tasks, continuationToken, ...group } = await taskGroupPage(groupId, token, signal);
    parts.push({ token, members: tasks, at: now() });
    const complete = continuationToken === undefined;
    const next = { group, parts: [...parts], members: membersOf(parts), complete, readAt: complete ? now() : 0 };
    if (complete) return latestOf(previous, next);
    if (!previous) progress(next);
    token = continuationToken;
  }
}

/** Milliseconds that a page of so many tasks rests before it looks again. @param {GroupTasks} of */
export const restOf = ({ members }) => members.length * PAUSE_PER_TASK;

/** As of when all of it is. @param {GroupTasks} of */
export const asOf = ({ parts }) => Math.min(...parts.map(({ at }) => at));

/** @param {GroupTasks} of */
const wholeEvery = (of) =>
  Math.max(Math.min(WHOLE_EVERY, of.members.length * WHOLE_EVERY_PER_TASK), READINGS_A_WHOLE * restOf(of));

/** Have the whole list read next time, after an action that may have changed any task. @param {GroupTasks | undefined} of */
export function distrust(of) {
  if (of) of.readAt = 0;
}

/** @param {string} groupId @param {GroupTasks} previous @param {AbortSignal} signal */
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
    parts.push({ token: part.token, members: membersOf([part, { members: tasks }]), at: now() });
  }
  return latestOf(previous, { ...previous, group, parts, members: membersOf(parts) });
}

/** Each task once, as in the last of the parts that has it, ordered by taskId. @param {{members: Member[]}[]} parts */
function membersOf(parts) {
  const found = new Map(parts.flatMap(({ members }) => members.map((member) => [member.status.taskId, member])));
  return [...found.values()].sort((a, b) => (a.status.taskId < b.status.taskId ? -1 : 1));
}

/** @param {GroupTasks | undefined} previous @param {GroupTasks} next */
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

/** What a copy says that it is one of. @param {Member["task"]} task @returns {string | undefined} */
export const originalOf = ({ extra }) => (typeof extra?.[COPY_OF] === "string" ? extra[COPY_OF] : undefined);
export const COPY_OF = "retriggerOf";

/** Tasks of which there is a copy: the last one stands for all. @param {Member[]} members @returns {Set<string>} */
export const supersededTasks = (members) => {
  const lastOf = new Map();
  const root = (/** @type {Member} */ { task, status }) => originalOf(task) ?? status.taskId;
  const copied = new Set(members.flatMap(({ task }) => originalOf(task) ?? []));
  const alike = members.filter((member) => copied.has(root(member)));
  for (const member of alike) {
    if (!originalOf(member.task)) continue; // the first of them, whatever the clock of who created it says
    if (!(lastOf.get(root(member))?.task.created > member.task.created)) lastOf.set(root(member), member);
  }
  return new Set(alike.filter((member) => lastOf.get(root(member)) !== member).map(({ status }) => status.taskId));
};

/** The tasks, of those that were retriggered the last copy alone. @param {Member[]} members */
export function latestCopies(members) {
  const superseded = supersededTasks(members);
  return superseded.size === 0 ? members : members.filter(({ status }) => !superseded.has(status.taskId));
}

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

/** How many tasks ended without completing: `2 failed, 1 exception`, `5 cancelled`, which is no failure, and both;
 * empty if none did. @param {Member[]} members */
export function endings(members) {
  const latest = latestCopies(members);
  const wrong = countByState(latest.filter(({ status }) => isWrong(status)));
  const canceled = latest.filter(({ status }) => isCanceled(status)).length;
  const said = (/** @type {number} */ count, /** @type {string} */ word) =>
    count ? [`${count.toLocaleString()} ${word}`] : [];
  const failures = [...said(wrong["failed"] ?? 0, "failed"), ...said(wrong["exception"] ?? 0, "exception")];
  const cancelled = said(canceled, "cancelled");
  return { wrong: failures.join(", "), canceled: cancelled.join(), all: [...failures, ...cancelled].join(", ") };
}
