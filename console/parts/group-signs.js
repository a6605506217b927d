// Signs of what is wrong with a group, above everything else.

import { html, useMemo } from "../core/html.js";
import { usePolled } from "../core/polling.js";
import { taskQueueLoad } from "../core/queue.js";
import { to } from "../core/router.js";
import { failures } from "../core/group.js";
import { counted, isCanceled } from "../core/words.js";

const QUEUES_LOOKED_AT = 8;
const NAMED = 5;

/** @typedef {import("../core/types").Member} Member */

/** @param {{members: Member[], blocked: Set<string>}} properties */
export function GroupSigns({ members, blocked }) {
  const wrong = useMemo(() => failures(members), [members]);
  const canceled = members.filter(({ status }) => isCanceled(status)).length;
  const failed = wrong.filter(({ status }) => status.state === "failed").length;
  const exception = wrong.length - failed;
  const waits = (/** @type {number} */ of) =>
    blocked.size > 0 &&
    ` ${counted(blocked.size, "task")} wait${blocked.size === 1 ? "s" : ""} for ${of === 1 ? "it" : "them"}.`;
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
  const cancellation =
    canceled > 0 &&
    html`<p class="notice" role="status">${counted(canceled, "task")} ${canceled === 1 ? "was" : "were"} cancelled.${wrong.length === 0 && waits(canceled)}</p>`;
  if (ended.length === 0 && stalled.length === 0) return cancellation;
  return html`${cancellation}<ul class=${`notice ${ended.length > 0 ? "critical" : "warning"}`} aria-label="What is wrong">
    ${
      ended.length > 0 &&
      html`<li>${ended.join(", ")}:
      ${wrong.slice(0, NAMED).map(({ task, status }, at) => html`${at > 0 ? ", " : " "}<a key=${status.taskId} href=${`${to.group(status.taskGroupId)}?open=${status.taskId}`}>${task.metadata.name}</a>`)}${wrong.length > NAMED && ` and ${wrong.length - NAMED} more`}.${waits(wrong.length + canceled)}</li>`
    }
    ${stalled.map(({ id, message }) => html`<li key=${id}>${message} <a href=${to.queue(id)}>Task queue<span class="visually-hidden"> ${id}</span></a></li>`)}
  </ul>`;
}

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
