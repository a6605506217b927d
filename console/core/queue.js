// The endpoints that the console calls, by their names in the API reference.

import { arg, call, pages } from "./api.js";

/** @typedef {import("./api.js").Options} Options */

const QUEUE = "/api/queue/v1";
const BATCH = 500;

/** @param {string} taskId @param {Options} [options] @returns {Promise<import("./types").Definition>} */
export const task = (taskId, options) => call(`${QUEUE}/task/${arg(taskId)}`, options);

/** @param {string} taskId @param {Options} [options] @returns {Promise<import("./types").Status>} */
export const status = async (taskId, options) => (await call(`${QUEUE}/task/${arg(taskId)}/status`, options)).status;

/** Definitions of many tasks; those that are gone are left out. @param {string[]} taskIds
 * @returns {Promise<Map<string, import("./types").Definition>>} */
export async function tasks(taskIds) {
  const found = new Map();
  for await (const page of batches(`${QUEUE}/tasks`, taskIds)) {
    for (const { taskId, task } of page.tasks) found.set(taskId, task);
  }
  return found;
}

/** Statuses of many tasks; those that are gone are left out. @param {string[]} taskIds @param {AbortSignal} [signal]
 * @returns {Promise<Map<string, import("./types").Status>>} */
export async function statuses(taskIds, signal) {
  const found = new Map();
  for await (const page of batches(`${QUEUE}/tasks/status`, taskIds, signal)) {
    for (const { taskId, status } of page.statuses) found.set(taskId, status);
  }
  return found;
}

/** @param {string} path @param {string[]} taskIds @param {AbortSignal} [signal] */
async function* batches(path, taskIds, signal) {
  for (let start = 0; start < taskIds.length; start += BATCH) {
    yield* pages(path, {
      method: "POST",
      body: { taskIds: taskIds.slice(start, start + BATCH) },
      ...(signal && { signal }),
    });
  }
}

/** @param {string} taskId @param {unknown} definition @param {Options} [options] */
export const createTask = async (taskId, definition, options) =>
  (await call(`${QUEUE}/task/${arg(taskId)}`, { ...options, method: "PUT", body: definition })).status;

/** @param {string} taskId */
export const scheduleTask = (taskId) => act(`/task/${arg(taskId)}/schedule`);
/** @param {string} taskId */
export const rerunTask = (taskId) => act(`/task/${arg(taskId)}/rerun`);
/** @param {string} taskId */
export const cancelTask = (taskId) => act(`/task/${arg(taskId)}/cancel`);
/** @param {string} taskId @param {string} newPriority */
export const changeTaskPriority = (taskId, newPriority) => act(`/task/${arg(taskId)}/priority`, { newPriority });

/** @param {string} groupId @param {Options} [options] @returns {Promise<import("./types").GroupSummary>} */
export const getTaskGroup = (groupId, options) => call(`${QUEUE}/task-group/${arg(groupId)}`, options);
/** A page of a group: the first one, or the one at a token. @param {string} groupId
 * @param {string | undefined} continuationToken @param {AbortSignal} signal @param {number} [limit]
 * @returns {Promise<import("./types").GroupSummary & {tasks: import("./types").Member[], continuationToken?: string}>}
 */
export const taskGroupPage = (groupId, continuationToken, signal, limit) =>
  call(`${QUEUE}/task-group/${arg(groupId)}/list`, { signal, query: { continuationToken, limit } });
/** @param {string} groupId */
export const sealTaskGroup = (groupId) => act(`/task-group/${arg(groupId)}/seal`);
/** @param {string} groupId */
export const cancelTaskGroup = (groupId) => act(`/task-group/${arg(groupId)}/cancel`);
/** @param {string} groupId @param {string} newPriority */
export const changeTaskGroupPriority = (groupId, newPriority) =>
  act(`/task-group/${arg(groupId)}/priority`, { newPriority });
/** @param {Options & {limit?: number}} [options] */
export const listTaskGroups = (options) => pages(`${QUEUE}/task-groups`, options);

/** @param {string} taskId @param {Options & {limit?: number}} [options] */
export const listDependentTasks = (taskId, options) => pages(`${QUEUE}/task/${arg(taskId)}/dependents`, options);

/** @param {string} taskId @param {number} runId @param {Options} [options] */
export const listArtifacts = (taskId, runId, options) =>
  pages(`${QUEUE}/task/${arg(taskId)}/runs/${runId}/artifacts`, options);
/** The path at which an artifact can be opened. @param {string} taskId @param {number | string} runId @param {string} name */
export const artifactPath = (taskId, runId, name) =>
  `${QUEUE}/task/${arg(taskId)}/runs/${runId}/artifacts/${arg(name)}`;
/** Where an artifact's content is: `{storageType, url}` and the like. @param {string} taskId @param {number | string |
 * null} runId the last run if null @param {string} name @param {Options} [options] */
export const artifact = (taskId, runId, name, options) => {
  const run = runId === null ? "" : `/runs/${runId}`;
  return call(`${QUEUE}/task/${arg(taskId)}${run}/artifact-content/${arg(name)}`, options);
};

/** Task queues that are in use. @param {Options & {limit?: number}} [options] */
export const listTaskQueues = (options) => pages(`${QUEUE}/task-queues`, options);
/** All task queues with their counts, those without workers too. @param {Options} [options] */
export const listTaskQueueStates = (options) => pages(`${QUEUE}/task-queue-states`, options);
/** Counts as a scaler wants them, and why nothing takes what waits. @param {string} id @param {Options} [options] @returns {Promise<import("./types").Load>} */
export const taskQueueLoad = (id, options) => call(`${QUEUE}/task-queues/${arg(id)}/load`, options);
/** @param {string} id @param {Options & {limit?: number}} [options] */
export const listPendingTasks = (id, options) => pages(`${QUEUE}/task-queues/${arg(id)}/pending`, options);
/** @param {string} id @param {Options & {limit?: number}} [options] */
export const listClaimedTasks = (id, options) => pages(`${QUEUE}/task-queues/${arg(id)}/claimed`, options);

/** @param {string} taskQueueId */
function workersOf(taskQueueId) {
  const [provisionerId = "", workerType = ""] = taskQueueId.split("/");
  return `${QUEUE}/provisioners/${arg(provisionerId)}/worker-types/${arg(workerType)}/workers`;
}
/** @param {string} id @param {Options & {limit?: number}} [options] */
export const listWorkers = (id, options) => pages(workersOf(id), options);
/** @param {string} id @param {string} group @param {string} worker @param {Options} [options] @returns {Promise<import("./types").WorkerDetails>} */
export const getWorker = (id, group, worker, options) => call(`${workersOf(id)}/${arg(group)}/${arg(worker)}`, options);
/** @param {string} id @param {string} group @param {string} worker @param {string} until @param {string} reason */
export const quarantineWorker = (id, group, worker, until, reason) =>
  call(`${workersOf(id)}/${arg(group)}/${arg(worker)}`, {
    method: "PUT",
    body: { quarantineUntil: until, quarantineInfo: reason },
  });
/** @param {string} id @param {string} group @param {string} worker */
export const workerRemoved = (id, group, worker) =>
  call(`${workersOf(id)}/${arg(group)}/${arg(worker)}/removed`, { method: "POST" });

/** @param {Options} [options] @returns {Promise<import("./types").Operations>} */
export const operations = (options) => call(`${QUEUE}/operations`, options);
/** @param {string} name @param {Options} [options] @returns {Promise<{messages: import("./types").PoisonMessage[]}>} */
export const listPoisonMessages = (name, options) => call(`${QUEUE}/poison-messages/${arg(name)}`, options);
/** Send what a queue gave up once more, or delete it: one message, or all. @param {string} name @param {"redrive" |
 * "delete"} how @param {string} [messageId] @returns {Promise<{moved: number, left: number}>} */
export const movePoisonMessages = (name, how, messageId) =>
  act(`/poison-messages/${arg(name)}/${how}`, messageId === undefined ? {} : { messageId });
/** @param {Options} [options] @returns {Promise<{healthy: boolean, findings: import("./types").Finding[]}>} */
export const health = (options) => call(`${QUEUE}/health`, options);

/** @param {string} path @param {unknown} [body] */
const act = (path, body) => call(QUEUE + path, { method: "POST", ...(body === undefined ? {} : { body }) });
