// Copies of task definitions for creating tasks.

import { COPY_OF, originalOf } from "./group.js";

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/;

/** A copy of a definition whose times lie as far from now as they lay from its creation.
 * @param {import("./types").Definition} definition @param {number} now */
export function renewed(definition, now) {
  const shift = now - Date.parse(definition.created);
  return /** @type {import("./types").Definition} */ (shifted(definition, shift));
}

/** A definition for a retrigger: the same task anew, in the same group, without retries. It says which task it is a
 * copy of. @param {import("./types").Definition} definition @param {string} taskId of that definition
 * @param {number} now */
export const retriggered = (definition, taskId, now) => ({
  ...renewed(definition, now),
  retries: 0,
  extra: { ...definition.extra, [COPY_OF]: originalOf(definition) ?? taskId },
});

/** A definition to be edited into another task: on its own, with nothing that needs scopes of the first one's
 * scheduler. Its scopes come first: they are given in the name of who creates it.
 * @param {import("./types").Definition} definition @param {number} now */
export function editable(definition, now) {
  const { taskGroupId, routes, priority, requires, dependencies, scopes, ...rest } = renewed(definition, now);
  return { scopes, ...rest, schedulerId: "taskcluster-ui" };
}

/** @param {unknown} value @param {number} shift milliseconds @returns {unknown} */
function shifted(value, shift) {
  if (typeof value === "string" && ISO.test(value)) return new Date(Date.parse(value) + shift).toISOString();
  if (Array.isArray(value)) return value.map((item) => shifted(item, shift));
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, shifted(item, shift)]));
  }
  return value;
}
