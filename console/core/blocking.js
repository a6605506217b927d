// What failed in a group, what that led to, and what waits for it in vain.

import { duration } from "./time.js";
import { counted, isFinal, isWrong, named, shortReason, shownState } from "./words.js";

/** @typedef {import("./types").Member} Member */

/** Of the failures that one task waits for, so many are named. */
const NAMED = 5;
/** Of what one task waits for, directly or not, so much is watched. */
const WATCHED = 100;

/** Whether what needs a task to complete waits for it in vain. @param {import("./types").Status} status */
export const isLost = ({ state }) => state === "failed" || state === "exception";

/** Tasks by the id of what they depend on. @param {Member[]} members */
function dependentsOf(members) {
  /** @type {Map<string, Member[]>} */
  const found = new Map();
  for (const member of members)
    for (const needed of member.task.dependencies) found.set(needed, [...(found.get(needed) ?? []), member]);
  return found;
}

/** Go through what a lost task keeps from being scheduled, directly or not, as long as `visit` says so.
 * @param {Map<string, Member[]>} dependents @param {string} lost @param {(member: Member) => boolean} visit */
function follow(dependents, lost, visit) {
  const ahead = (dependents.get(lost) ?? []).filter(({ task }) => task.requires !== "all-resolved");
  const seen = new Set();
  for (let member = ahead.pop(); member; member = ahead.pop()) {
    const { taskId, state } = member.status;
    if (state !== "unscheduled" || seen.has(taskId) || !visit(member)) continue;
    seen.add(taskId);
    ahead.push(...(dependents.get(taskId) ?? []));
  }
  return seen;
}

/** Unscheduled tasks that wait, directly or not, for a task of the group that did not complete; and the first of those.
 * @param {Member[]} members @returns {Map<string, Member[]>} */
export function blockedTasks(members) {
  const dependents = dependentsOf(members);
  /** @type {Map<string, Member[]>} */
  const blocked = new Map();
  for (const failure of inOrder(
    members.filter(({ status }) => isLost(status)),
    members,
  ))
    follow(dependents, failure.status.taskId, ({ status: { taskId } }) => {
      const roots = blocked.get(taskId) ?? [];
      if (roots.length < NAMED) blocked.set(taskId, [...roots, failure]);
      return roots.length < NAMED;
    });
  return blocked;
}

/** What a task waits for, directly or not, and is not resolved: the nearest first. @param {Member[]} members @param {string} taskId */
export function awaited(members, taskId) {
  const byId = new Map(members.map((member) => [member.status.taskId, member]));
  const found = new Set([taskId]);
  for (const id of found) {
    const needed = byId.get(id)?.task.dependencies ?? [];
    for (const one of needed) if (!isFinal(byId.get(one)?.status.state ?? "completed")) found.add(one);
    if (found.size > WATCHED) break;
  }
  return [...found].slice(1, WATCHED + 1);
}

/** How many tasks a lost one keeps from being scheduled, directly or not. @param {Member[]} members @param {string} taskId */
export const blockedBy = (members, taskId) => follow(dependentsOf(members), taskId, () => true).size;

/** What failed or ended as an exception: what nothing else that went wrong led to first, then in the order of time.
 * @param {Member[]} members */
export const failures = (members) =>
  inOrder(
    members.filter(({ status }) => isWrong(status)),
    members,
  );

/** @param {Member[]} some @param {Member[]} members */
function inOrder(some, members) {
  const isLed = ledIn(members);
  const key = (/** @type {Member} */ member) =>
    `${isLed(member) ? 1 : 0}${member.status.runs.at(-1)?.resolved ?? ""}${named(member.task)}`;
  const keyed = some.map((member) => ({ member, key: key(member) }));
  return keyed.sort((a, b) => (a.key < b.key ? -1 : 1)).map(({ member }) => member);
}

/** Whether something that a task waits for, directly or not, did not complete. @param {Member[]} members */
function ledIn(members) {
  const byId = new Map(members.map((member) => [member.status.taskId, member]));
  /** @type {Map<string, boolean>} */
  const led = new Map();
  return (/** @type {Member} */ start) => {
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
      led.set(id, needed.some(({ status }) => isLost(status) || led.get(status.taskId))); // prettier-ignore
      ahead.pop();
    }
    return led.get(start.status.taskId) === true;
  };
}

/** Why a task has its state, in two or three words. @param {import("./types").Status} status
 * @param {Map<string, Member[]>} [blocked] what waits in vain, and for which failures; nothing: that is not known */
export function reasonOf(status, blocked) {
  const [root] = blocked?.get(status.taskId) ?? [];
  if (root) return `blocked by ${named(root.task)}`;
  return status.state === "unscheduled" && blocked ? "waiting for dependencies" : shortReason(status);
}

/** Why a task without a run has none, and the failures that keep it from one.
 * @param {import("./types").Definition} task @param {{name: string, status: import("./types").Status | undefined}[]}
 * needed what it depends on, as far as that is known
 * @param {Member[]} roots the failures that it waits for in vain, the first ones @param {number} now */
export function whyUnscheduled(task, needed, roots, now) {
  const all = task.dependencies.length;
  if (all === 0) return "It depends on nothing and has no run: it is scheduled by hand.";
  const lost = needed.filter(({ status }) => status && isLost(status));
  const open = needed.filter(({ status }) => status && !isFinal(status.state));
  const unseen = all - needed.filter(({ status }) => status).length;
  const [first] = roots;
  const ends = (/** @type {import("./types").Status | undefined} */ status) => ENDS[status ? shownState(status) : ""];
  if (task.requires !== "all-resolved" && lost.length > 0) {
    const name = first ? named(first.task) : lost[0]?.name;
    if (all === 1) return `It cannot be scheduled: its only dependency, ${name}, ${ends(lost[0]?.status)}.`;
    const some = `${lost.length.toLocaleString()} of its ${counted(all, "dependency")}`;
    return `It cannot be scheduled: ${some} did not complete, first ${name}. All must complete.`;
  }
  if (first)
    return `It cannot be scheduled: what it waits for is blocked by ${named(first.task)}, which ${ends(first.status)}.`;
  if (open.length === 0)
    return unseen > 0
      ? `It depends on ${counted(unseen, "task")} that cannot be seen here.`
      : "All its dependencies are resolved: it is about to be scheduled.";
  const within = duration(Math.max(...open.map(({ status }) => Date.parse(status?.deadline ?? ""))) - now);
  const then =
    open.length === 1 ? `It ends within ${within}, by its deadline.` : `They end within ${within}, by their deadlines.`;
  if (all === 1) return `It is waiting for its only dependency, ${open[0]?.name}. ${then}`;
  const others = unseen > 0 ? `; ${counted(unseen, "other")} cannot be seen here` : "";
  return `It is waiting for ${open.length.toLocaleString()} of its ${counted(all, "dependency")}${others}. ${then}`;
}

/** @type {Record<string, string>} */
const ENDS = { failed: "failed", exception: "ended as an exception", cancelled: "was cancelled" };
