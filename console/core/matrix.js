// Tasks of a group in rows and columns: by two of their tags, or by what else sorts them where they have none.

import { byName, isCanceled, isFinal, isWrong, named } from "./words.js";

/** @typedef {import("./types").Member} Member */
/** @typedef {object} Axes what rows and columns stand for: `tag:<name>`, `queue` or `name` @property {string} rows
 * @property {string} columns */
/** @typedef {{value: string, tasks: number, wrong: number}} Head */

const TAG = "tag:";
const PLATFORMS = ["test-platform", "platform", "build-platform", "os", "arch", "test-variant"];
const KINDS = ["kind", "label-kind", "type"];
/** A tag that fewer tasks have sorts too little. */
const SHARE = 0.5;
export const OTHERS = "others";
export const NONE = "–";

/** What tasks can be sorted by. @param {Member[]} members @returns {string[]} */
export function axesOf(members) {
  const counts = tagCounts(members);
  return [...[...counts.keys()].sort().map((name) => TAG + name), "queue", "name"];
}

/** How an axis is called. @param {string} axis */
export const titleOf = (axis) =>
  axis.startsWith(TAG) ? axis.slice(TAG.length) : axis === "queue" ? "task queue" : "name";

/** Platforms and kinds by the tags that most tasks have; else task queues, and how names begin.
 * @param {Member[]} members @returns {Axes} */
export function usualAxes(members) {
  const counts = tagCounts(members);
  const first = (/** @type {string[]} */ names) =>
    names.find((name) => (counts.get(name) ?? 0) >= members.length * SHARE);
  const [platform, kind] = [first(PLATFORMS), first(KINDS)];
  return { rows: platform ? TAG + platform : "queue", columns: kind ? TAG + kind : "name" };
}

/** @param {Member[]} members */
function tagCounts(members) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const { task } of members)
    for (const name of Object.keys(task.tags)) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

/** Where a task stands on an axis. @param {Member} member @param {string} axis */
export function valueOf({ task, status }, axis) {
  if (axis.startsWith(TAG)) {
    const name = axis.slice(TAG.length);
    return (Object.hasOwn(task.tags, name) && task.tags[name]) || NONE;
  }
  return axis === "queue" ? status.taskQueueId : beginningOf(named(task));
}

/** The kind of a task by its name: its first word. @param {string} name */
export const beginningOf = (name) => /^[^\s\-_/:.\d]+/.exec(name)?.[0] ?? NONE;

/** Rows, columns, and the tasks of each cell, those that are wrong first. Rows with what is wrong come first; of many
 * columns those with the fewest tasks are one. @param {Member[]} members @param {Axes} axes @param {number} mostColumns
 */
export function matrixOf(members, axes, mostColumns) {
  const columns = heads(members, axes.columns).sort(headsByName);
  const kept = new Set(
    [...columns]
      .sort((a, b) => b.tasks - a.tasks)
      .slice(0, columns.length > mostColumns ? mostColumns - 1 : mostColumns)
      .map(({ value }) => value),
  );
  const columnOf = (/** @type {Member} */ member) => {
    const value = valueOf(member, axes.columns);
    return kept.has(value) ? value : OTHERS;
  };
  /** @type {Map<string, Map<string, Member[]>>} */
  const cells = new Map();
  for (const member of members) {
    const row = valueOf(member, axes.rows);
    const line = cells.get(row) ?? new Map();
    const column = columnOf(member);
    line.set(column, [...(line.get(column) ?? []), member]);
    cells.set(row, line);
  }
  for (const line of cells.values()) for (const cell of line.values()) cell.sort(byUrgency);
  return {
    rows: heads(members, axes.rows).sort((a, b) => Number(b.wrong > 0) - Number(a.wrong > 0) || headsByName(a, b)),
    columns: [
      ...columns.filter(({ value }) => kept.has(value)).map(({ value }) => value),
      ...(columns.length > kept.size ? [OTHERS] : []),
    ],
    cell: (/** @type {string} */ row, /** @type {string} */ column) => cells.get(row)?.get(column) ?? [],
    /** Whether a task is in a cell's column. */
    isIn: (/** @type {Member} */ member, /** @type {string} */ column) => columnOf(member) === column,
  };
}

/** @param {Member[]} members @param {string} axis @returns {Head[]} */
function heads(members, axis) {
  /** @type {Map<string, Head>} */
  const found = new Map();
  for (const member of members) {
    const value = valueOf(member, axis);
    const head = found.get(value) ?? { value, tasks: 0, wrong: 0 };
    head.tasks += 1;
    if (isWrong(member.status)) head.wrong += 1;
    found.set(value, head);
  }
  return [...found.values()];
}

/** @param {Head} a @param {Head} b */
const headsByName = (a, b) => Number(a.value === NONE) - Number(b.value === NONE) || byName(a.value, b.value);

/** @param {Member} a @param {Member} b */
const byUrgency = (a, b) =>
  urgency(a) - urgency(b) || byName(named(a.task), named(b.task)) || (a.status.taskId < b.status.taskId ? -1 : 1);

/** @param {Member} member */
function urgency({ status }) {
  if (isWrong(status)) return 0;
  if (!isFinal(status.state)) return status.state === "running" ? 1 : status.state === "pending" ? 2 : 3;
  return isCanceled(status) ? 4 : 5;
}
