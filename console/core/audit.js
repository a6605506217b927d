// Who did what: the endpoints that say it.

import { arg, pages } from "./api.js";

/** @typedef {(options: import("./api.js").Options) => AsyncGenerator<any>} Read */

const QUEUE = "/api/queue/v1";
const AUTH = "/api/auth/v1";

/** What was done to a task and to its group. @param {string} taskId @returns {Read} */
export const ofTask = (taskId) => (options) => pages(`${QUEUE}/task/${arg(taskId)}/audit`, options);
/** What was done to a group and to its tasks. @param {string} groupId @returns {Read} */
export const ofGroup = (groupId) => (options) => pages(`${QUEUE}/task-group/${arg(groupId)}/audit`, options);
/** Who quarantined and released a worker. @param {string} taskQueueId @param {string} group @param {string} worker @returns {Read} */
export const ofWorker = (taskQueueId, group, worker) => (options) => {
  const [provisionerId = "", workerType = ""] = taskQueueId.split("/");
  const of = `provisioners/${arg(provisionerId)}/worker-types/${arg(workerType)}/workers/${arg(group)}/${arg(worker)}`;
  return pages(`${QUEUE}/${of}/audit`, options);
};
/** Who created and changed a client or a role. @param {"client" | "role"} kind @param {string} id @returns {Read} */
export const ofEntity = (kind, id) => (options) => pages(`${AUTH}/audit-details/${kind}/${arg(id)}`, options);
/** What a client did. @param {string} clientId @returns {Read} */
export const byClient = (clientId) => (options) => pages(`${AUTH}/audit-details/by/${arg(clientId)}`, options);
