// The first page: is the service well, and what ran lately.

import { html, useMemo } from "../core/html.js";
import { countByState, endings } from "../core/group.js";
import { gather, useNow, usePolled } from "../core/polling.js";
import { health, listTaskGroups, taskGroupPage } from "../core/queue.js";
import { to } from "../core/router.js";
import { useTitle } from "../core/title.js";
import { Empty, Loaded } from "../parts/feedback.js";
import { SearchBox } from "../parts/search-box.js";
import { Source, Time } from "../parts/states.js";
import { Table } from "../parts/table.js";

const LISTED = 50;
const COUNTED = 10;
const COUNT_LIMIT = 1000;

/** @typedef {import("../core/types").RecentGroup} Group */

export default function HomePage() {
  useTitle("Home");
  return html`<article>
    <h1>Taskcluster Queue</h1>
    <${Health} />
    <${SearchBox} />
    <section aria-labelledby="groups"><h2 id="groups">What ran lately</h2><${RecentGroups} /></section>
  </article>`;
}

function Health() {
  const polled = usePolled((signal) => health({ signal }), [], { interval: 30_000 });
  if (polled.error && !polled.data) return null;
  const findings = polled.data?.findings ?? [];
  if (!polled.data) return null;
  if (findings.length === 0)
    return html`<p class="notice good" role="status">The service is well: timers run, events go out, storage answers. <a href="/operations">Operations</a></p>`;
  return html`<ul class="notice ${findings.some(({ severity }) => severity === "critical") ? "critical" : "warning"}" aria-label="Health">
    ${findings.map(({ code, message, remedy }) => html`<li key=${code}>${message} ${remedy}${code === "task-queues-stalled" && html` <a href="/provisioners">Task queues</a>`}</li>`)}
    <li><a href="/operations">Operations</a></li>
  </ul>`;
}

function RecentGroups() {
  const polled = usePolled(
    async (signal) =>
      /** @type {Group[]} */ ((await gather(listTaskGroups({ signal, limit: LISTED }), "taskGroups", LISTED)).items),
    [],
    { interval: 10_000 },
  );
  const now = useNow(10_000);
  const columns = useMemo(
    () => [
      {
        key: "name",
        title: "Group",
        class: "wide",
        cell: (/** @type {Group} */ group) =>
          html`<a href=${to.group(group.taskGroupId)}>${group.name || group.taskGroupId}</a>`,
      },
      {
        key: "state",
        title: "State",
        cell: (/** @type {Group} */ group) =>
          html`<${GroupState} id=${group.taskGroupId} asked=${(polled.data ?? []).indexOf(group) < COUNTED} />`,
      },
      { key: "owner", title: "Owner", cell: (/** @type {Group} */ group) => group.owner },
      {
        key: "created",
        title: "Created",
        cell: (/** @type {Group} */ group) => html`<${Time} at=${group.created} now=${now} />`,
      },
      {
        key: "source",
        title: "Source",
        class: "wide",
        cell: (/** @type {Group} */ { source }) => source && html`<${Source} url=${source} />`,
      },
    ],
    [now, polled.data],
  );
  return html`<${Loaded} of=${polled} label="Loading task groups">${(/** @type {Group[]} */ groups) =>
    groups.length === 0
      ? html`<${Empty}>No task group yet. <a href="/tasks/create">Create a task</a>.<//>`
      : html`<${Table} rows=${groups} columns=${columns} id=${(/** @type {Group} */ group) => group.taskGroupId} caption="Task groups, newest first" />`}<//>`;
}

/** Counts of a group by its first page. @param {{id: string, asked: boolean}} properties */
function GroupState({ id, asked }) {
  const polled = usePolled(
    async (signal) => {
      if (!asked) return null;
      const page = await taskGroupPage(id, undefined, signal, COUNT_LIMIT);
      const more = page.continuationToken !== undefined;
      return { counts: countByState(page.tasks), ended: endings(page.tasks), more };
    },
    [id, asked],
    { interval: 20_000 },
  );
  if (!polled.data) return asked ? html`<span class="reason">…</span>` : "";
  const { counts, ended, more } = polled.data;
  const open = (counts["running"] ?? 0) + (counts["pending"] ?? 0) + (counts["unscheduled"] ?? 0);
  const rest = `${open > 0 ? `, ${open} open` : ""}${more ? ` of the first ${COUNT_LIMIT.toLocaleString()}` : ""}`;
  const both = [ended.wrong, ended.canceled].filter(Boolean).join(", ");
  if (both) return html`<span class=${`state ${ended.wrong ? "failed" : "unscheduled"}`}>${both}</span>${rest}`;
  if (open > 0) return html`<span class="state running">${open}${more ? "+" : ""} open</span>`;
  return html`<span class="state completed">completed</span>`;
}
