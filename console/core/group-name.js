// What a task group is called: as the push that it comes from, or as the one task that it has, or as its decision task. Never as
// any one of several tasks.

import { label, named } from "./words.js";

/** @typedef {import("./types").RecentGroup} RecentGroup */
/** @typedef {import("./types").Member} Member */

const REVISION = /\b(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b/;
/** What stands between a project and a revision in the addresses of repositories. */
const BETWEEN = /^(-|_?git|src|raw|rev|file|raw-file|raw-rev|blob|tree|commits?|pull|browse|log|changeset)$/;
const OF_PROJECT = 2;
const SHOWN = 7;

/** The push that a source names: its project and revision. Null for a source without one. @param {string} source */
export function pushOf(source) {
  if (!/^https?:\/\//.test(source) || !URL.canParse(source)) return null;
  const { pathname, search, hash } = new URL(source);
  const revision = REVISION.exec(pathname + search + hash)?.[0];
  if (!revision) return null;
  const parts = pathname.split("/").filter(Boolean);
  const end = parts.findIndex((part) => BETWEEN.test(part) || part.includes(revision));
  const project = parts
    .slice(0, end < 0 ? parts.length : end)
    .slice(-OF_PROJECT)
    .join("/");
  return { project: project.replace(/\.git$/, ""), revision: revision.slice(0, SHOWN) };
}

/** As people write a push: `webapp @ 4f2a9c1`; null for a source without one. @param {string} source */
export function pushLabel(source) {
  const push = pushOf(source);
  return push && label(`${push.project} @ ${push.revision}`.trim());
}

/** What a group is called, and by whom it is, where that is another matter. @param {RecentGroup} group
 * @returns {{name: string, by: string}} */
export function nameOf({ taskGroupId, taskId, single, name, owner, source }) {
  const isDecision = taskId === undefined || taskId === taskGroupId;
  const push = single && !isDecision ? null : pushLabel(source);
  if (push) return { name: push, by: label(owner) };
  if ((single || isDecision) && name) return { name: label(name), by: label(owner) };
  return { name: owner ? `Tasks of ${label(owner)}` : taskGroupId, by: "" };
}

/** What a group is called whose tasks are known; nothing if nothing is common to them. @param {string} taskGroupId
 * @param {Member[]} members @returns {{name: string, by: string}} */
export function nameOfMembers(taskGroupId, members) {
  const [first] = members;
  const decision = members.find(({ status }) => status.taskId === taskGroupId);
  const one = decision ?? (members.length === 1 ? first : undefined);
  const common = (/** @type {(member: Member) => string | null} */ of) => {
    const value = one ? of(one) : first && members.every((member) => of(member) === of(first)) ? of(first) : null;
    return value ?? "";
  };
  const owner = label(common(({ task }) => task.metadata.owner));
  const push = one && !decision ? "" : common(({ task }) => pushLabel(task.metadata.source));
  if (push) return { name: push, by: owner };
  if (one) return { name: named(one.task), by: owner };
  return { name: owner && `Tasks of ${owner}`, by: "" };
}

/** The owner that a caller's groups have, as far as the clientId tells: its last part, or the address that begins with
 * it. @param {string} clientId @param {string[]} owners */
export function ownerOf(clientId, owners) {
  const parts = clientId.toLowerCase().split(/[/|]/).filter(Boolean).reverse();
  for (const part of parts) {
    const own = owners.find((owner) => [owner, owner.split("@")[0]].some((one) => one?.toLowerCase() === part));
    if (own) return own;
  }
  return "";
}
