// A group's dependencies by levels: a task is one level behind the last of those that it waits for. Tasks of a level that are
// alike are one bundle, so that a fan of any size is one edge; what failed stands alone.

import { beginningOf } from "./matrix.js";
import { byName, isWrong, named } from "./words.js";

/** @typedef {import("./types").Member} Member */
/** @typedef {object} Node a task, or a bundle of them @property {string} id the task's, or a bundle's key
 * @property {number} level from 0 @property {Member[]} members those that failed first
 * @property {string} name what the bundle's tasks have in common
 * @property {boolean} blocked whether they wait for a task that did not complete */
/** @typedef {{from: string, to: string, count: number, blocked: boolean}} Edge `count` of dependencies in one bundle */

const FEW = 3;
const MOST_ALONE = 40;
const MOST_NODES = 220;

/** The level of each task. @param {Member[]} members @returns {Map<string, number>} */
export function levelsOf(members) {
  const byId = new Map(members.map((member) => [member.status.taskId, member]));
  /** @type {Map<string, number>} */
  const levels = new Map();
  const entered = new Set();
  for (const { status } of members) {
    const ahead = [status.taskId];
    while (ahead.length > 0) {
      const id = /** @type {string} */ (ahead.at(-1));
      const needed = (byId.get(id)?.task.dependencies ?? []).filter((one) => byId.has(one) && one !== id);
      const unknown = entered.has(id) ? [] : needed.filter((one) => !levels.has(one) && !entered.has(one));
      entered.add(id); // also ends at a circle, which no group has
      if (unknown.length > 0) {
        ahead.push(...unknown);
        continue;
      }
      levels.set(id, Math.max(-1, ...needed.map((one) => levels.get(one) ?? -1)) + 1);
      ahead.pop();
    }
  }
  return levels;
}

/** The nodes and edges to be drawn. @param {Member[]} members @param {Set<string>} blocked
 * @param {(member: Member) => string} kindOf
 * @returns {{nodes: Node[], edges: Edge[], levels: number[]}} `levels`: how many tasks each has */
export function bundled(members, blocked, kindOf) {
  const levels = levelsOf(members);
  const levelOf = (/** @type {Member} */ { status }) => levels.get(status.taskId) ?? 0;
  const isBlocked = (/** @type {Member} */ { status }) => blocked.has(status.taskId);
  const byKind = (/** @type {Member} */ member) => kindOf(member);
  // The roots of what failed, as they are read from left to right.
  const alone = new Set(
    members
      .filter(({ status }) => isWrong(status))
      .sort((a, b) => levelOf(a) - levelOf(b))
      .slice(0, MOST_ALONE),
  );
  let nodes = nodesOf(members, levelOf, isBlocked, byKind, alone);
  if (nodes.length > MOST_NODES) nodes = nodesOf(members, levelOf, isBlocked, () => "tasks", alone);
  const counts = /** @type {number[]} */ (Array(Math.max(-1, ...levels.values()) + 1).fill(0));
  for (const level of levels.values()) counts[level] = (counts[level] ?? 0) + 1;
  return { nodes, edges: edgesOf(members, nodes, blocked), levels: counts };
}

/** @param {Member[]} members @param {(member: Member) => number} levelOf @param {(member: Member) => boolean} isBlocked
 * @param {(member: Member) => string} kindOf @param {Set<Member>} alone @returns {Node[]} */
function nodesOf(members, levelOf, isBlocked, kindOf, alone) {
  /** @type {Map<string, Node>} */
  const found = new Map();
  for (const member of members) {
    const [level, isOne, kind, waits] = [levelOf(member), alone.has(member), kindOf(member), isBlocked(member)];
    const id = isOne ? member.status.taskId : JSON.stringify([level, kind, waits]);
    const node = found.get(id) ?? { id, level, members: [], name: kind, blocked: waits };
    node.members.push(member);
    found.set(id, node);
  }
  return [...found.values()].flatMap((node) => (node.members.length < FEW ? singles(node) : [sorted(node)]));
}

/** @param {Node} node @returns {Node[]} */
const singles = ({ members, ...node }) =>
  members.map((member) => ({ ...node, id: member.status.taskId, name: named(member.task), members: [member] }));

/** @param {Node} node @returns {Node} */
const sorted = (node) => ({
  ...node,
  members: [...node.members].sort(
    (a, b) => Number(isWrong(b.status)) - Number(isWrong(a.status)) || byName(named(a.task), named(b.task)),
  ),
});

/** One edge between two nodes, however many dependencies it stands for. @param {Member[]} members @param {Node[]} nodes
 * @param {Set<string>} blocked @returns {Edge[]} */
function edgesOf(members, nodes, blocked) {
  const nodeOf = new Map(nodes.flatMap((node) => node.members.map(({ status }) => [status.taskId, node.id])));
  const stateOf = new Map(members.map((member) => [member.status.taskId, member.status]));
  /** @type {Map<string, Edge>} */
  const edges = new Map();
  for (const { task, status } of members) {
    const to = nodeOf.get(status.taskId) ?? "";
    for (const needed of task.dependencies) {
      const from = nodeOf.get(needed);
      if (from === undefined || from === to) continue;
      const edge = edges.get(`${from} ${to}`) ?? { from, to, count: 0, blocked: false };
      const state = stateOf.get(needed)?.state;
      edge.count += 1;
      if (blocked.has(status.taskId) && (blocked.has(needed) || state === "failed" || state === "exception"))
        edge.blocked = true;
      edges.set(`${from} ${to}`, edge);
    }
  }
  return [...edges.values()];
}

/** What a graph's bundles go by: a tag if tasks have it, or how their names begin. @param {Member[]} members @param {string} tag */
export const kindBy = (members, tag) =>
  members.some(({ task }) => Object.hasOwn(task.tags, tag))
    ? (/** @type {Member} */ { task }) => task.tags[tag] ?? beginningOf(named(task))
    : (/** @type {Member} */ { task }) => beginningOf(named(task));
