// Where in its task queue a pending run stands.

import { html } from "../core/html.js";
import { gather, usePolled } from "../core/polling.js";
import { listPendingTasks, taskQueueLoad } from "../core/queue.js";
import { to } from "../core/router.js";
import { counted, PRIORITIES } from "../core/words.js";

const LOOKED_AT = 1000;

/** @param {{status: import("../core/types").Status, run: import("../core/types").Run}} properties */
export function Position({ status, run }) {
  const polled = usePolled((signal) => look(status, run.runId, signal), [status.taskId, run.runId, status.priority], {
    interval: 10_000,
  });
  if (!polled.data) return null;
  const { ahead, exact, load } = polled.data;
  const queue = html`<a href=${to.queue(status.taskQueueId, "pending-tasks")}>${status.taskQueueId}</a>`;
  if (load.stalled)
    return html`<p>${load.stalled.message} See ${queue}: the task waits until a worker asks for work.</p>`;
  const { claimedTasks: claimed } = load;
  const place =
    ahead === 0
      ? "It is next"
      : `${exact ? "" : "At least "}${counted(ahead, "task")} ${ahead === 1 ? "is" : "are"} ahead of it`;
  return html`<p>${place} in ${queue}, where ${counted(claimed, "task")} ${claimed === 1 ? "is" : "are"} running.</p>`;
}

/** @param {import("../core/types").Status} status @param {number} runId @param {AbortSignal} signal */
async function look(status, runId, signal) {
  const [{ items, more }, load] = await Promise.all([
    gather(listPendingTasks(status.taskQueueId, { signal, limit: LOOKED_AT }), "tasks", LOOKED_AT),
    taskQueueLoad(status.taskQueueId, { signal }),
  ]);
  const tasks = /** @type {import("../core/types").PendingTask[]} */ (items);
  const own = tasks.find((one) => one.taskId === status.taskId && one.runId === runId);
  const rank = (/** @type {string} */ priority) => PRIORITIES.indexOf(priority);
  const ahead = tasks.filter((one) => {
    if (one === own) return false;
    const difference = rank(one.task.priority) - rank(status.priority);
    return difference < 0 || (difference === 0 && (own === undefined || one.inserted < own.inserted));
  }).length;
  return { ahead, exact: !more, load };
}
