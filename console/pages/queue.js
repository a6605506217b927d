// One task queue: what waits in which order, what runs where, and its workers.

import { html, useMemo } from "../core/html.js";
import { pushLabel } from "../core/group-name.js";
import { gather, useNow, usePolled } from "../core/polling.js";
import { listClaimedTasks, listPendingTasks, taskQueueLoad } from "../core/queue.js";
import { setQuery, to } from "../core/router.js";
import { useTitle } from "../core/title.js";
import { counted, label, named, PRIORITIES } from "../core/words.js";
import { Empty, Loaded } from "../parts/feedback.js";
import { Facts, Id, Time } from "../parts/states.js";
import { columnOf, Table } from "../parts/table.js";
import { Crumbs, Tabs } from "../parts/tabs.js";
import { Workers } from "../parts/workers.js";

const MOST = 2000;

/** @typedef {import("../core/types").PendingTask} Pending */
/** @typedef {import("../core/types").ClaimedTask} Claimed */
/** @typedef {import("../core/types").Load} Load */

/** @param {import("../core/types").PageProperties} properties */
export default function QueuePage({ params, query }) {
  const id = params["taskQueueId"] ?? `${params["provisionerId"]}/${params["workerType"]}`;
  const view = params["view"] ?? "workers";
  const [provisionerId = ""] = id.split("/");
  useTitle(id);
  const load = usePolled((signal) => taskQueueLoad(id, { signal }), [id], { interval: 5000 });
  return html`<article>
    <${Crumbs} of=${[
      { title: "Task queues", href: "/provisioners" },
      { title: provisionerId, href: `/provisioners/${encodeURIComponent(provisionerId)}` },
    ]} />
    <div class="title"><h1>${id}</h1></div>
    <${Loaded} of=${load}>${(
      /** @type {Load} */ { pendingTasks, claimedTasks, unresolvedTasks, waitingWorkers, stalled },
    ) =>
      html`${stalled && html`<p class="notice critical" role="status">${stalled.message}</p>`}<${Facts} large=${true} of=${[
        ["Pending", pendingTasks.toLocaleString()],
        ["Running", claimedTasks.toLocaleString()],
        ["Workers wanted", unresolvedTasks.toLocaleString()],
        ["Workers waiting", waiting(waitingWorkers)],
      ]} />`}<//>
    <${Tabs} label="Views of the task queue" current=${view} views=${[
      { name: "workers", title: "Workers", href: to.queue(id) },
      { name: "pending-tasks", title: titled("Pending", load.data?.pendingTasks), href: to.queue(id, "pending-tasks") },
      { name: "claimed-tasks", title: titled("Running", load.data?.claimedTasks), href: to.queue(id, "claimed-tasks") },
    ]} />
    ${view === "pending-tasks" ? html`<${PendingList} id=${id} query=${query} />` : view === "claimed-tasks" ? html`<${ClaimedList} id=${id} query=${query} />` : html`<${Workers} id=${id} query=${query} />`}
  </article>`;
}

/** @param {string} title @param {number | undefined} count */
const titled = (title, count) => (count ? `${title} ${count.toLocaleString()}` : title);

/** @param {Load["waitingWorkers"]} number */
const waiting = ({ claimWork, pollTaskUrls }) =>
  [
    ...(claimWork > 0 ? [`${claimWork.toLocaleString()} in claimWork`] : []),
    ...(pollTaskUrls > 0 ? [`${pollTaskUrls.toLocaleString()} hold signed URLs, if they still poll`] : []),
  ].join(", ") || "0";

/** A list of the task queue that is read again now and then. @template T
 * @param {(options: {signal: AbortSignal}) => AsyncGenerator<any>} list @param {string} field @param {string} id */
function useList(list, field, id) {
  return usePolled(
    async (signal) => /** @type {{items: T[], more: boolean}} */ (await gather(list({ signal }), field, MOST)),
    [id, field],
    { interval: 5000 },
  );
}

const pending = /** @type {import("../parts/table.js").ColumnOf<Pending>} */ (columnOf);
const claimed = /** @type {import("../parts/table.js").ColumnOf<Claimed>} */ (columnOf);
const rank = (/** @type {Pending} */ { task }) => PRIORITIES.indexOf(task.priority);
const onSort = (/** @type {string} */ sort) => setQuery({ sort });

/** @param {{id: string, query: URLSearchParams}} properties */
function PendingList({ id, query }) {
  const polled = useList((options) => listPendingTasks(id, options), "tasks", id);
  const now = useNow(1000);
  const columns = useMemo(
    () => [
      pending("name", "Task", ({ task, taskId }) => html`<a href=${to.task(taskId)}>${named(task)}</a>`, {
        class: "wide",
        sort: ({ task }) => named(task),
      }),
      pending("priority", "Priority", ({ task }) => task.priority, { sort: rank }),
      pending("inserted", "Pending since", ({ inserted }) => html`<${Time} at=${inserted} now=${now} />`, {
        sort: ({ inserted }) => inserted,
      }),
      pending("owner", "Owner", ({ task }) => label(task.metadata.owner), { sort: ({ task }) => task.metadata.owner }),
      pending("group", "Push", ({ task }) => html`<a href=${to.group(task.taskGroupId)}>${pushLabel(task.metadata.source) ?? html`<${Id}>${task.taskGroupId}<//>`}</a>`), // prettier-ignore
    ],
    [now],
  );
  return html`<${Loaded} of=${polled}>${(/** @type {{items: Pending[], more: boolean}} */ { items, more }) => {
    const ordered = [...items].sort((a, b) => rank(a) - rank(b) || (a.inserted < b.inserted ? -1 : 1));
    return listed(
      ordered,
      more,
      "No task is pending here.",
      html`<${Table} rows=${ordered} columns=${columns} id=${(/** @type {Pending} */ row) => row.taskId} caption="Pending tasks in the order in which they are handed out" sort=${query.get("sort") ?? ""} onSort=${onSort} />`,
    );
  }}<//>`;
}

/** @param {{id: string, query: URLSearchParams}} properties */
function ClaimedList({ id, query }) {
  const polled = useList((options) => listClaimedTasks(id, options), "tasks", id);
  const now = useNow(1000);
  const columns = useMemo(
    () => [
      claimed("name", "Task", ({ task, taskId, runId }) => html`<a href=${to.task(taskId, runId)}>${named(task)}</a>`, {
        class: "wide",
        sort: ({ task }) => named(task),
      }),
      claimed("worker", "Worker", ({ workerGroup, workerId }) => html`<a href=${to.worker(id, workerGroup, workerId)}>${workerGroup}/${workerId}</a>`, { sort: ({ workerId }) => workerId }), // prettier-ignore
      claimed("claimed", "Running since", (row) => html`<${Time} at=${row.claimed} now=${now} />`, {
        sort: (row) => row.claimed,
      }),
    ],
    [now],
  );
  return html`<${Loaded} of=${polled}>${(/** @type {{items: Claimed[], more: boolean}} */ { items, more }) =>
    listed(
      items,
      more,
      "No task is running here.",
      html`<${Table} rows=${items} columns=${columns} id=${(/** @type {Claimed} */ row) => `${row.taskId}/${row.runId}`} caption="Running tasks" sort=${query.get("sort") ?? "claimed"} onSort=${onSort} />`,
    )}<//>`;
}

/** @param {unknown[]} items @param {boolean} more @param {string} nothing @param {any} table */
const listed = (items, more, nothing, table) =>
  items.length === 0
    ? html`<${Empty}>${nothing}<//>`
    : html`${more && html`<p>The first ${counted(items.length, "row")}; there are more.</p>`}${table}`;
