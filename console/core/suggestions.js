// What somebody may mean who has typed a part of a name: of what a few requests bring, which are remembered for a minute.

import { now } from "./clock.js";
import { nameOf } from "./group-name.js";
import { listNamespaces, listTasks } from "./index-service.js";
import { isSilence } from "./live.js";
import { listTaskGroups, listTaskQueues, listWorkers, taskGroupPage } from "./queue.js";
import { to } from "./router.js";
import { label, named, shownState } from "./words.js";

const REMEMBERED = 60_000;
const SHORTEST = 2;
export const GROUPS = 100;
const OF_A_KIND = 5;
/** Of so many task queues the workers are looked through for one whose queue was not named. */
const QUEUES_SEARCHED = 8;
/** Of so many groups the tasks are looked through, up to a page of each, where nothing else is found. */
export const GROUPS_SEARCHED = 10;
const PAGE = 1000;

/** @typedef {{kind: "task group" | "task" | "task queue" | "worker" | "index", title: string, detail: string, href: string}} Suggestion */
/** @typedef {import("./types").RecentGroup} Group */
/** @typedef {import("./types").Member} Member */

/** @type {Map<string, {until: number, page: Promise<any[]>}>} */
const remembered = new Map();

/** The items of the first page of a list; none where the caller may not read it. Throws ApiError where nothing answers.
 * @param {string} key names the list, and who reads it @param {() => Promise<any>} read @param {string} field
 * @returns {Promise<any[]>} */
function firstPage(key, read, field) {
  for (const [other, { until }] of remembered) if (until < now()) remembered.delete(other);
  const known = remembered.get(key);
  if (known) return known.page;
  const page = read().then(
    (value) => value?.[field] ?? [],
    (error) => {
      if (error.status !== 403 && error.status !== 404) remembered.delete(key); // that may pass
      if (isSilence(error)) throw error;
      return [];
    },
  );
  remembered.set(key, { until: now() + REMEMBERED, page });
  return page;
}

/** @param {string} key @param {() => AsyncGenerator<any>} list @param {string} field */
const listed = (key, list, field) => firstPage(key, async () => (await list().next()).value, field);

/** What was read by one who has signed out is not for the next one. */
export const forgetSuggestions = () => remembered.clear();

/** @returns {Promise<Group[]>} */
const groups = () => listed("groups", () => listTaskGroups({ limit: GROUPS }), "taskGroups");
const queues = async () =>
  (await listed("queues", () => listTaskQueues(), "taskQueues")).map(({ taskQueueId }) => String(taskQueueId));
/** @param {string} id */
const workers = (id) => listed(`workers ${id}`, () => listWorkers(id, { limit: PAGE }), "workers");
/** @param {string} id @returns {Promise<Member[]>} */
const tasksOf = (id) =>
  firstPage(`tasks ${id}`, () => taskGroupPage(id, undefined, AbortSignal.timeout(REMEMBERED)), "tasks");

/** What a text may mean, the most likely first. @param {string} text
 * @param {boolean} [thorough] whether to look through the tasks of groups, too, where nothing else has this name
 * @returns {Promise<Suggestion[]>} */
export async function suggestions(text, thorough = false) {
  const wanted = text.trim().toLowerCase();
  if (wanted.length < SHORTEST || /^https?:/.test(wanted)) return [];
  const [inGroups, inQueues, inIndex] = await Promise.all([
    groupsOf(wanted),
    queuesOf(wanted),
    wanted.includes("/") ? [] : indexOf(text.trim()),
  ]);
  const found = [...inGroups, ...inQueues, ...inIndex];
  const all = [...found, ...(await workersOf(wanted, found.length === 0))];
  return all.length === 0 && thorough ? tasksNamed(wanted) : all;
}

/** Groups of a name, a revision or an owner. @param {string} wanted @returns {Promise<Suggestion[]>} */
async function groupsOf(wanted) {
  const found = (await groups()).filter((group) =>
    [nameOf(group).name, group.name, group.owner, group.source, group.taskGroupId].some((each) =>
      each.toLowerCase().includes(wanted),
    ),
  );
  return found.slice(0, OF_A_KIND).map((group) => ({
    kind: "task group",
    title: nameOf(group).name,
    detail: `${label(group.owner)} ${group.taskGroupId}`,
    href: to.group(group.taskGroupId),
  }));
}

/** Tasks of the latest groups. @param {string} wanted @returns {Promise<Suggestion[]>} */
async function tasksNamed(wanted) {
  const latest = (await groups()).slice(0, GROUPS_SEARCHED);
  const pages = await Promise.all(
    latest.map(async (group) => (await tasksOf(group.taskGroupId)).map((member) => ({ group, ...member }))),
  );
  const alike = pages.flat().filter(({ task }) => named(task).toLowerCase().includes(wanted));
  alike.sort((a, b) => named(a.task).length - named(b.task).length); // what has this very name comes first
  return alike.slice(0, 2 * OF_A_KIND).map(({ group, task, status }) => ({
    kind: "task",
    title: named(task),
    detail: `${shownState(status)}, ${nameOf(group).name}`,
    href: to.task(status.taskId),
  }));
}

/** @param {string} wanted @returns {Promise<Suggestion[]>} */
async function queuesOf(wanted) {
  const found = (await queues()).filter((id) => id.toLowerCase().includes(wanted));
  return found.slice(0, OF_A_KIND).map((id) => ({ kind: "task queue", title: id, detail: "", href: to.queue(id) }));
}

/** Of the task queue that the text begins with; where it names nothing else, of some task queues.
 * @param {string} wanted @param {boolean} anywhere @returns {Promise<Suggestion[]>} */
async function workersOf(wanted, anywhere) {
  const ids = await queues();
  const own = ids.find((id) => wanted.startsWith(`${id.toLowerCase()}/`));
  if (!own && (!anywhere || wanted.length <= SHORTEST)) return [];
  const rest = own ? wanted.slice(own.length + 1) : wanted;
  const of = own ? [own] : ids.slice(0, QUEUES_SEARCHED);
  const found = await Promise.all(of.map(async (id) => (await workers(id)).map((worker) => ({ id, ...worker }))));
  const alike = found.flat().filter((one) => `${one.workerGroup}/${one.workerId}`.toLowerCase().includes(rest));
  return alike.slice(0, OF_A_KIND).map(({ id, workerGroup, workerId }) => ({
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
    listed(`namespaces ${namespace}`, () => listNamespaces(namespace), "namespaces"),
    namespace ? listed(`entries ${namespace}`, () => listTasks(namespace), "tasks") : [],
  ]);
  const lastKey = (/** @type {string} */ path) => path.slice(path.lastIndexOf(".") + 1).toLowerCase();
  const paths = [...entries, ...below].map((each) => String(each.namespace));
  const found = [...new Set(paths.filter((path) => lastKey(path).startsWith(begins)))];
  return found.slice(0, OF_A_KIND).map((path) => ({ kind: "index", title: path, detail: "", href: to.index(path) }));
}
