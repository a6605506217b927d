// All task queues: what waits, what runs, and since when.

import { html, useMemo } from "../core/html.js";
import { gather, useNow, usePolled } from "../core/polling.js";
import { listTaskQueueStates } from "../core/queue.js";
import { setQuery, to } from "../core/router.js";
import { useTitle } from "../core/title.js";
import { Empty, Loaded } from "../parts/feedback.js";
import { Time } from "../parts/states.js";
import { Table } from "../parts/table.js";

/** @typedef {import("../core/types").TaskQueueState} Row */

/** So many workers of a task queue are counted. */
const MOST_WORKERS = 1000;

/** Why the tasks of a task queue wait. */
const STALLED = { "no-worker": "no worker", "not-asked": "no worker asks", quarantined: "all in quarantine" };

/** @param {import("../core/types").PageProperties} properties */
export default function QueuesPage({ params, query }) {
  const provisioner = params["provisionerId"];
  useTitle(provisioner ? `Task queues of ${provisioner}` : "Task queues");
  const polled = usePolled(read, [], { interval: 5000 });
  const now = useNow(10_000);
  const filter = query.get("name") ?? "";
  const columns = useMemo(
    () => [
      {
        key: "name",
        title: "Task queue",
        class: "wide",
        sort: (/** @type {Row} */ row) => row.taskQueueId,
        cell: (/** @type {Row} */ row) => html`<a href=${to.queue(row.taskQueueId)}>${row.taskQueueId}</a>`,
      },
      {
        key: "stalled",
        title: "State",
        sort: (/** @type {Row} */ row) => (row.stalled ? -1e9 : 0) - row.pendingTasks,
        cell: (/** @type {Row} */ row) =>
          row.stalled
            ? html`<strong class="state failed" title=${row.stalled.message}>starved: ${STALLED[row.stalled.reason]}</strong>`
            : "",
      },
      {
        key: "pending",
        title: "Pending",
        class: "number",
        sort: (/** @type {Row} */ row) => row.pendingTasks,
        cell: (/** @type {Row} */ row) => row.pendingTasks.toLocaleString(),
      },
      {
        key: "oldest",
        title: "Oldest pending",
        sort: (/** @type {Row} */ row) => (row.oldestPending ? -Date.parse(row.oldestPending) : -Infinity),
        cell: (/** @type {Row} */ row) => row.oldestPending && html`<${Time} at=${row.oldestPending} now=${now} />`,
      },
      {
        key: "claimed",
        title: "Running",
        class: "number",
        sort: (/** @type {Row} */ row) => row.claimedTasks,
        cell: (/** @type {Row} */ row) => row.claimedTasks.toLocaleString(),
      },
      {
        key: "workers",
        title: "Workers",
        class: "number",
        sort: (/** @type {Row} */ row) => row.workers,
        cell: (/** @type {Row} */ { workers, quarantinedWorkers }) =>
          html`${workers.toLocaleString()}${workers >= MOST_WORKERS ? "+" : ""}${quarantinedWorkers > 0 && html` <span class="reason">${quarantinedWorkers.toLocaleString()} in quarantine</span>`}`,
      },
      {
        key: "active",
        title: "Last active",
        sort: (/** @type {Row} */ row) => row.lastDateActive ?? "",
        cell: (/** @type {Row} */ row) => row.lastDateActive && html`<${Time} at=${row.lastDateActive} now=${now} />`,
      },
      { key: "description", title: "Description", class: "wide", cell: (/** @type {Row} */ row) => row.description },
    ],
    [now],
  );
  return html`<article>
    <h1>Task queues${provisioner ? ` of ${provisioner}` : ""}</h1>
    <p class="reason">A task queue with its workers is what operators call a pool.</p>
    <${Loaded} of=${polled} label="Loading the task queues">
      ${(/** @type {Row[]} */ rows) => {
        const listed = rows.filter(
          (row) => row.taskQueueId.includes(filter) && (!provisioner || row.taskQueueId.startsWith(`${provisioner}/`)),
        );
        return html`
          <div class="buttons filters"><input type="search" aria-label="Filter by name" placeholder="Filter by name" value=${filter} onInput=${(/** @type {any} */ event) => setQuery({ name: event.target.value })} /></div>
          ${listed.length === 0 ? html`<${Empty}>${rows.length ? "No task queue matches." : "No worker has asked for work, and no task waits for one."}<//>` : html`<${Table} rows=${listed} columns=${columns} id=${(/** @type {Row} */ row) => row.taskQueueId} caption="Task queues" sort=${query.get("sort") ?? "stalled"} onSort=${(/** @type {string} */ sort) => setQuery({ sort })} />`}`;
      }}
    <//>
  </article>`;
}

/** @param {AbortSignal} signal */
const read = async (signal) =>
  /** @type {Row[]} */ ((await gather(listTaskQueueStates({ signal }), "taskQueues")).items);
