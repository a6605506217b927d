// Which tasks somebody created here lately, whose definitions they may want again. Ids and names alone are kept: the
// definition is read from the service, by who may read it, when it is wanted.

import { session } from "./credentials.js";

const KEY = "taskcluster-queue.recent";
const MOST = 10;

/** @typedef {{taskId: string, name: string, taskQueueId: string}} Recent */

/** Who is signed in; nobody's are kept together. */
const owner = () => session()?.clientId ?? "";

/** Those of who is signed in, the last one first. @returns {Recent[]} */
export function recentTasks() {
  try {
    const { clientId, tasks } = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return clientId === owner() && Array.isArray(tasks) ? tasks : [];
  } catch {
    return []; // something else wrote there
  }
}

/** Remember a task that was created; of those of one name and task queue the last. @param {Recent} made */
export function rememberTask({ taskId, name, taskQueueId }) {
  const others = recentTasks().filter((one) => one.name !== name || one.taskQueueId !== taskQueueId);
  keep([{ taskId, name, taskQueueId }, ...others].slice(0, MOST));
}

/** Forget one, whose definition is gone. @param {string} taskId */
export function forgetTask(taskId) {
  const left = recentTasks().filter((one) => one.taskId !== taskId);
  if (left.length < recentTasks().length) keep(left);
}

/** Forget all, when somebody leaves. */
export const forgetTasks = () => localStorage.removeItem(KEY);

/** @param {Recent[]} tasks */
const keep = (tasks) => localStorage.setItem(KEY, JSON.stringify({ clientId: owner(), tasks }));
