// Signs of what is wrong with a group, above everything else.

import { html } from "../core/html.js";
import { gather, usePolled } from "../core/polling.js";
import { listWorkers } from "../core/queue.js";
import { to } from "../core/router.js";
import { counted } from "../core/words.js";

const QUEUES_LOOKED_AT = 8;

/** @typedef {import("../core/types").Member} Member */

/** @param {{members: Member[], counts: Record<string, number>, blocked: Set<string>}} properties */
export function GroupSigns({ members, counts, blocked }) {
  const failed = (counts["failed"] ?? 0) + (counts["exception"] ?? 0);
  const waiting = [
    ...new Set(members.filter(({ status }) => status.state === "pending").map(({ status }) => status.taskQueueId)),
  ].sort();
  const idle = usePolled(
    (signal) => queuesWithoutWorkers(waiting.slice(0, QUEUES_LOOKED_AT), signal),
    [waiting.join()],
    { interval: 30_000 },
  );
  const empty = idle.data ?? [];
  if (failed === 0 && empty.length === 0) return null;
  return html`<ul class="notice warning" aria-label="What is wrong">
    ${
      failed > 0 &&
      html`<li>${counted(failed, "task")} failed${blocked.size > 0 ? `; ${blocked.size} wait${blocked.size === 1 ? "s" : ""} for ${failed === 1 ? "it" : "them"}` : ""}.
      ${firstFailures(members).map(({ task, status }) => html` <a key=${status.taskId} href=${to.task(status.taskId)}>${task.metadata.name}</a>`)}</li>`
    }
    ${empty.map((id) => html`<li key=${id}>Task queue <a href=${to.queue(id)}>${id}</a> has no worker: nothing of it starts until one claims work.</li>`)}
  </ul>`;
}

/** @param {Member[]} members */
const firstFailures = (members) =>
  members.filter(({ status }) => status.state === "failed" || status.state === "exception").slice(0, 5);

/**
 * Of these task queues, those that no worker has asked for work lately.
 * @param {string[]} ids
 * @param {AbortSignal} signal
 */
async function queuesWithoutWorkers(ids, signal) {
  const found = await Promise.all(
    ids.map(async (id) => {
      const { items } = await gather(
        listWorkers(id, { limit: 5, signal, query: { quarantined: "false" } }),
        "workers",
        1,
      );
      return items.length === 0 ? [id] : [];
    }),
  );
  return found.flat();
}
