// Signs of what is wrong with a group, above everything else.

import { html, useMemo } from "../core/html.js";
import { usePolled } from "../core/polling.js";
import { taskQueueLoad } from "../core/queue.js";
import { to } from "../core/router.js";
import { failures } from "../core/blocking.js";
import { counted, isCanceled, named } from "../core/words.js";
import { NARROW } from "./controls.js";

const QUEUES_LOOKED_AT = 8;
const NAMED = matchMedia(NARROW).matches ? 2 : 5;

/** @typedef {import("../core/types").Member} Member */

/** @param {{members: Member[], blocked: Map<string, Member[]>}} properties */
export function GroupSigns({ members, blocked }) {
  const wrong = useMemo(() => failures(members), [members]);
  const canceled = members.filter(({ status }) => isCanceled(status)).length;
  const failed = wrong.filter(({ status }) => status.state === "failed").length;
  const exception = wrong.length - failed;
  const ended = [
    ...(failed > 0 ? [`${counted(failed, "task")} failed`] : []),
    ...(exception > 0 ? [`${counted(exception, "task")} ended as an exception`] : []),
  ];
  const roots = useMemo(
    () => [...new Set([...blocked.values()].map(([root]) => root))].flatMap((one) => one ?? []),
    [blocked],
  );
  const waiting = [
    ...new Set(members.filter(({ status }) => status.state === "pending").map(({ status }) => status.taskQueueId)),
  ].sort();
  const looked = usePolled((signal) => stalledQueues(waiting.slice(0, QUEUES_LOOKED_AT), signal), [waiting.join()], {
    interval: 30_000,
    until: () => waiting.length === 0,
  });
  const stalled = looked.data ?? [];
  const blocks =
    blocked.size > 0 &&
    html`<li><strong>${counted(blocked.size, "task")} ${blocked.size === 1 ? "is" : "are"} blocked</strong> by ${roots.slice(0, NAMED).map(link)}${roots.length > NAMED && ` and ${(roots.length - NAMED).toLocaleString()} more`}, directly or not.</li>`;
  if (ended.length + stalled.length + canceled + blocked.size === 0) return null;
  const kind = ended.length > 0 ? "critical" : stalled.length + blocked.size > 0 ? "warning" : "";
  return html`<ul class=${`notice ${kind}`} aria-label="What is wrong">
    ${ended.length > 0 && html`<li>${ended.join(", ")}: ${wrong.slice(0, NAMED).map(link)}${wrong.length > NAMED && ` and ${(wrong.length - NAMED).toLocaleString()} more`}.</li>`}
    ${blocks}
    ${canceled > 0 && html`<li>${counted(canceled, "task")} ${canceled === 1 ? "was" : "were"} cancelled.</li>`}
    ${stalled[0] && html`<li>${stalled.length === 1 ? stalled[0].message : `No worker takes the tasks of ${stalled.length} task queues:`} ${stalled.map(({ id, message }, at) => html`${at > 0 ? ", " : ""}<a key=${id} href=${to.queue(id)} title=${message}>${stalled.length === 1 ? html`Task queue<span class="visually-hidden"> ${id}</span>` : id}</a>`)}</li>`}
  </ul>`;
}

/** A task that opens in place. @param {Member} member @param {number} at */
const link = ({ task, status }, at) =>
  html`${at > 0 ? ", " : ""}<a key=${status.taskId} href=${`${to.group(status.taskGroupId)}?open=${status.taskId}`}>${named(task)}</a>`;

/** Of these task queues, those whose tasks nothing takes, and why. @param {string[]} ids @param {AbortSignal} signal */
async function stalledQueues(ids, signal) {
  const looks = ids.map(async (id) => {
    const { stalled } = await taskQueueLoad(id, { signal });
    return stalled ? [{ id, message: stalled.message }] : [];
  });
  return (await Promise.all(looks)).flat();
}
