// What a task group is called: as its decision task, as the one task that it has, or as the push that it comes from. Never as
// any one of its tasks.

/** @typedef {import("./types").RecentGroup} RecentGroup */
/** @typedef {import("./types").Member} Member */

const REVISION = /\b(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b/;
/** What stands between a project and a revision in the addresses of repositories. */
const BETWEEN = /^(-|_?git|src|raw|rev|file|raw-file|raw-rev|blob|tree|commits?|pull|browse|log|changeset)$/;
const OF_PROJECT = 2;
const SHOWN = 12;

/**
 * The push that a source names: its project and revision. Null for a source without one.
 * @param {string} source
 */
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

/** As people write a push. @param {string} source */
export function pushLabel(source) {
  const push = pushOf(source);
  return push && `${push.project} @ ${push.revision}`.trim();
}

/**
 * @param {RecentGroup} group
 * @returns {string}
 */
export function nameOf({ taskGroupId, taskId, single, name, owner, source }) {
  if ((single || taskId === undefined || taskId === taskGroupId) && name) return name;
  return pushLabel(source) ?? (owner ? `Tasks of ${owner}` : taskGroupId);
}

/**
 * What a group is called whose tasks are known; empty if nothing is common to them.
 * @param {string} taskGroupId
 * @param {Member[]} members
 */
export function nameOfMembers(taskGroupId, members) {
  const [first] = members;
  const named =
    members.find(({ status }) => status.taskId === taskGroupId) ?? (members.length === 1 ? first : undefined);
  if (named) return named.task.metadata.name;
  if (!first) return "";
  const common = (/** @type {(member: Member) => string | null} */ of) =>
    members.every((member) => of(member) === of(first)) ? of(first) : null;
  const owner = common(({ task }) => task.metadata.owner);
  return common(({ task }) => pushLabel(task.metadata.source)) ?? (owner ? `Tasks of ${owner}` : "");
}

/**
 * The owner that a caller's groups have, as far as the clientId tells: its last part, or the address that begins with it.
 * @param {string} clientId
 * @param {string[]} owners
 */
export function ownerOf(clientId, owners) {
  const parts = clientId.toLowerCase().split(/[/|]/).filter(Boolean).reverse();
  for (const part of parts) {
    const own = owners.find((owner) => [owner, owner.split("@")[0]].some((one) => one?.toLowerCase() === part));
    if (own) return own;
  }
  return "";
}
