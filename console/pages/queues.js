// All task queues: what waits, what runs, and since when.

import { html, useMemo } from "../core/html.js";
import { gather, useNow, usePolled } from "../core/polling.js";
import { listTaskQueueStates } from "../core/queue.js";
import { setQuery, to } from "../core/router.js";
import { useTitle } from "../core/title.js";
import { NOTED_EVERY } from "../core/words.js";
import { Empty, Loaded } from "../parts/feedback.js";
import { Time } from "../parts/states.js";
import { columnOf, Table } from "../parts/table.js";

/** @typedef {Omit<import("../core/types").TaskQueueState, "stalled"> & {stalled: keyof typeof STALLED | undefined}} Row */

/** So many workers of a task queue are counted. */
const MOST_WORKERS = 1000;

/** Why the tasks of a task queue wait. */
const STALLED = { "no-worker": "no worker", "not-asked": "no worker asks", quarantined: "all in quarantine" };

const column = /** @type {import("../parts/table.js").ColumnOf<Row>} */ (columnOf);
const number = (/** @type {(row: Row) => number} */ sort) => ({ class: "number", sort });

/** @param {import("../core/types").PageProperties} properties */
export default function QueuesPage({ params, query }) {
  const provisioner = params["provisionerId"];
  useTitle(provisioner ? `Task queues of ${provisioner}` : "Task queues");
  const polled = usePolled(read, [], { interval: 5000 });
  const now = useNow(10_000);
  const filter = query.get("name") ?? "";
  const columns = useMemo(
    () => [
      column("name", "Task queue", ({ taskQueueId }) => html`<a href=${to.queue(taskQueueId)}>${taskQueueId}</a>`, {
        class: "wide",
        sort: ({ taskQueueId }) => taskQueueId,
      }),
      column("stalled", "State", ({ stalled }) => stalled && html`<strong class="state failed">starved: ${STALLED[stalled]}</strong>`, { sort: (row) => (row.stalled ? -1e9 : 0) - row.pendingTasks }), // prettier-ignore
      column("pending", "Pending", (row) => row.pendingTasks.toLocaleString(), number((row) => row.pendingTasks)), // prettier-ignore
      column("oldest", "Oldest pending", (row) => row.oldestPending && html`<${Time} at=${row.oldestPending} now=${now} />`, { sort: (row) => (row.oldestPending ? -Date.parse(row.oldestPending) : -Infinity) }), // prettier-ignore
      column("claimed", "Running", (row) => row.claimedTasks.toLocaleString(), number((row) => row.claimedTasks)), // prettier-ignore
      column("workers", "Workers", (row) => html`<${WorkerCounts} row=${row} now=${now} />`, number((row) => row.workers)), // prettier-ignore
      column("active", "Last active", (row) => row.lastDateActive && html`<${Time} at=${row.lastDateActive} now=${now} />`, { sort: (row) => row.lastDateActive ?? "" }), // prettier-ignore
      column("description", "Description", (row) => row.description, { class: "wide" }),
    ],
    [now],
  );
  return html`<article>
    <h1>Task queues${provisioner ? ` of ${provisioner}` : ""}</h1>
    <p class="reason">A task queue with its workers is also called a pool.</p>
    <${Loaded} of=${polled} label="Loading the task queues">
      ${(/** @type {Row[]} */ rows) => {
        const listed = rows.filter(
          (row) => row.taskQueueId.includes(filter) && (!provisioner || row.taskQueueId.startsWith(`${provisioner}/`)),
        );
        return html`
          <div class="buttons filters"><input type="search" aria-label="Filter by name" placeholder="Filter by name" value=${filter} onInput=${(/** @type {any} */ event) => setQuery({ name: event.target.value })} /></div>
          ${listed.length === 0 ? html`<${Empty}>${rows.length ? "No task queue matches." : "No worker has asked for work, and no task is waiting for one."}<//>` : html`<${Table} rows=${listed} columns=${columns} id=${(/** @type {Row} */ row) => row.taskQueueId} caption="Task queues" sort=${query.get("sort") ?? "stalled"} onSort=${(/** @type {string} */ sort) => setQuery({ sort })} />`}`;
      }}
    <//>
  </article>`;
}

/** Workers that are known: one that has ended stays known for days. @param {{row: Row, now: number}} properties */
function WorkerCounts({ row: { workers, quarantinedWorkers, claimedTasks, lastDateActive }, now }) {
  const silent = claimedTasks === 0 && !(now - Date.parse(lastDateActive ?? "") < NOTED_EVERY);
  const about = [
    ...(quarantinedWorkers > 0 ? [`${quarantinedWorkers.toLocaleString()} in quarantine`] : []),
    ...(workers > 0 && silent ? ["none seen lately"] : []),
  ];
  return html`${workers.toLocaleString()}${workers >= MOST_WORKERS && "+"}${about.length > 0 && html` <span class="reason">${about.join(", ")}</span>`}`;
}

/** Without the text that says for how long tasks have waited, and so changes. @param {AbortSignal} signal */
const read = async (signal) =>
  (await gather(listTaskQueueStates({ signal }), "taskQueues")).items.map(
    (row) => /** @type {Row} */ ({ ...row, stalled: row.stalled?.reason }),
  );
