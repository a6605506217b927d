// What somebody may mean who has typed a part of a name: of what a few requests bring, which are remembered for a minute.

import { nameOf } from "./group-name.js";
import { listNamespaces, listTasks } from "./index-service.js";
import { listTaskGroups, listTaskQueues, listWorkers } from "./queue.js";
import { to } from "./router.js";

const REMEMBERED = 60_000;
const SHORTEST = 2;
const GROUPS = 100;
const OF_A_KIND = 5;
/** Of so many task queues the workers are looked through for one whose queue was not named. */
const QUEUES_SEARCHED = 8;
const PAGE = 1000;

/**
 * @typedef {object} Suggestion
 * @property {"task group" | "task queue" | "worker" | "index"} kind
 * @property {string} title
 * @property {string} detail
 * @property {string} href
 */
/** @typedef {import("./types").RecentGroup} Group */

/** @type {Map<string, {until: number, page: Promise<any[]>}>} */
const remembered = new Map();

/**
 * The items of the first page of a list; none where the caller may not read it.
 * @param {string} key names the list, and who reads it
 * @param {() => AsyncGenerator<any>} list
 * @param {string} field
 * @returns {Promise<any[]>}
 */
function firstPage(key, list, field) {
  const now = Date.now();
  for (const [other, { until }] of remembered) if (until < now) remembered.delete(other);
  const known = remembered.get(key);
  if (known) return known.page;
  const page = list()
    .next()
    .then(
      ({ value }) => value?.[field] ?? [],
      (error) => {
        if (error.status !== 403 && error.status !== 404) remembered.delete(key); // that may pass
        return [];
      },
    );
  remembered.set(key, { until: now + REMEMBERED, page });
  return page;
}

/** What was read by one who has signed out is not for the next one. */
export const forgetSuggestions = () => remembered.clear();

const groups = () => firstPage("groups", () => listTaskGroups({ limit: GROUPS }), "taskGroups");
const queues = async () =>
  (await firstPage("queues", () => listTaskQueues(), "taskQueues")).map(({ taskQueueId }) => String(taskQueueId));
/** @param {string} id */
const workers = (id) => firstPage(`workers ${id}`, () => listWorkers(id, { limit: PAGE }), "workers");

/**
 * What a text may mean, the most likely first.
 * @param {string} text
 * @returns {Promise<Suggestion[]>}
 */
export async function suggestions(text) {
  const wanted = text.trim().toLowerCase();
  if (wanted.length < SHORTEST || /^https?:/.test(wanted)) return [];
  const [inGroups, inQueues, inIndex] = await Promise.all([
    groupsOf(wanted),
    queuesOf(wanted),
    wanted.includes("/") ? [] : indexOf(text.trim()),
  ]);
  const named = [...inGroups, ...inQueues, ...inIndex];
  return [...named, ...(await workersOf(wanted, named.length === 0))];
}

/** @param {string} wanted @returns {Promise<Suggestion[]>} */
async function groupsOf(wanted) {
  const found = /** @type {Group[]} */ (await groups()).filter((group) =>
    [nameOf(group), group.name, group.owner, group.taskGroupId].some((each) => each.toLowerCase().includes(wanted)),
  );
  return found.slice(0, OF_A_KIND).map((group) => ({
    kind: "task group",
    title: nameOf(group),
    detail: `${group.owner} ${group.taskGroupId}`,
    href: to.group(group.taskGroupId),
  }));
}

/** @param {string} wanted @returns {Promise<Suggestion[]>} */
async function queuesOf(wanted) {
  const found = (await queues()).filter((id) => id.toLowerCase().includes(wanted));
  return found.slice(0, OF_A_KIND).map((id) => ({ kind: "task queue", title: id, detail: "", href: to.queue(id) }));
}

/**
 * Of the task queue that the text begins with; where it names nothing else, of some task queues.
 * @param {string} wanted
 * @param {boolean} anywhere
 * @returns {Promise<Suggestion[]>}
 */
async function workersOf(wanted, anywhere) {
  const ids = await queues();
  const own = ids.find((id) => wanted.startsWith(`${id.toLowerCase()}/`));
  if (!own && (!anywhere || wanted.length <= SHORTEST)) return [];
  const rest = own ? wanted.slice(own.length + 1) : wanted;
  const of = own ? [own] : ids.slice(0, QUEUES_SEARCHED);
  const found = await Promise.all(of.map(async (id) => (await workers(id)).map((worker) => ({ id, ...worker }))));
  return found
    .flat()
    .filter(({ workerGroup, workerId }) => `${workerGroup}/${workerId}`.toLowerCase().includes(rest))
    .slice(0, OF_A_KIND)
    .map(({ id, workerGroup, workerId }) => ({
      kind: "worker",
      title: `${workerGroup}/${workerId}`,
      detail: id,
      href: to.worker(id, workerGroup, workerId),
    }));
}

/** What is right in the namespace that the text names, up to its last dot. @param {string} text @returns {Promise<Suggestion[]>} */
async function indexOf(text) {
  const namespace = text.includes(".") ? text.slice(0, text.lastIndexOf(".")) : "";
  const begins = text.slice(namespace ? namespace.length + 1 : 0).toLowerCase();
  const [below, entries] = await Promise.all([
    firstPage(`namespaces ${namespace}`, () => listNamespaces(namespace), "namespaces"),
    namespace ? firstPage(`entries ${namespace}`, () => listTasks(namespace), "tasks") : [],
  ]);
  /** @type {string[]} */
  const paths = [...entries, ...below].map((each) => each.namespace);
  const found = paths.filter((path) =>
    path
      .slice(path.lastIndexOf(".") + 1)
      .toLowerCase()
      .startsWith(begins),
  );
  return [...new Set(found)]
    .slice(0, OF_A_KIND)
    .map((path) => ({ kind: "index", title: path, detail: "", href: to.index(path) }));
}
