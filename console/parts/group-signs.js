// Signs of what is wrong with a group, above everything else.

import { html } from "../core/html.js";
import { usePolled } from "../core/polling.js";
import { taskQueueLoad } from "../core/queue.js";
import { to } from "../core/router.js";
import { counted } from "../core/words.js";

const QUEUES_LOOKED_AT = 8;
const NAMED = 5;

/** @typedef {import("../core/types").Member} Member */

/** @param {{members: Member[], counts: Record<string, number>, blocked: Set<string>}} properties */
export function GroupSigns({ members, counts, blocked }) {
  const { failed = 0, exception = 0 } = counts;
  const failures = failed + exception;
  const ended = [
    ...(failed > 0 ? [`${counted(failed, "task")} failed`] : []),
    ...(exception > 0 ? [`${counted(exception, "task")} ended as an exception`] : []),
  ];
  const waiting = [
    ...new Set(members.filter(({ status }) => status.state === "pending").map(({ status }) => status.taskQueueId)),
  ].sort();
  const looked = usePolled((signal) => stalledQueues(waiting.slice(0, QUEUES_LOOKED_AT), signal), [waiting.join()], {
    interval: 30_000,
  });
  const stalled = looked.data ?? [];
  if (ended.length === 0 && stalled.length === 0) return null;
  return html`<ul class="notice warning" aria-label="What is wrong">
    ${
      ended.length > 0 &&
      html`<li>${ended.join(", ")}:
      ${firstFailures(members).map(({ task, status }, at) => html`${at > 0 ? ", " : " "}<a key=${status.taskId} href=${to.task(status.taskId)}>${task.metadata.name}</a>`)}${failures > NAMED && ` and ${failures - NAMED} more`}.${
        blocked.size > 0 &&
        ` ${counted(blocked.size, "task")} wait${blocked.size === 1 ? "s" : ""} for ${failures === 1 ? "it" : "them"}.`
      }</li>`
    }
    ${stalled.map(({ id, message }) => html`<li key=${id}>${message} <a href=${to.queue(id)}>Task queue ${id}</a></li>`)}
  </ul>`;
}

/** @param {Member[]} members */
const firstFailures = (members) =>
  members.filter(({ status }) => status.state === "failed" || status.state === "exception").slice(0, NAMED);

/**
 * Of these task queues, those whose tasks nothing takes, and why.
 * @param {string[]} ids
 * @param {AbortSignal} signal
 */
async function stalledQueues(ids, signal) {
  const looks = ids.map(async (id) => {
    const { stalled } = await taskQueueLoad(id, { signal });
    return stalled ? [{ id, message: stalled.message }] : [];
  });
  return (await Promise.all(looks)).flat();
}
