// A task group: how far it is, what failed, and what to do about many tasks at once.

import { ofGroup } from "../core/audit.js";
import { html, useEffect, useMemo, useRef, useState } from "../core/html.js";
import { blockedTasks, countByState, distrust, endings, readGroup, restOf } from "../core/group.js";
import { useNow, usePolled } from "../core/polling.js";
import { setQuery, to } from "../core/router.js";
import { duration } from "../core/time.js";
import { counted, isFinal, runtime, shortReason, STATES } from "../core/words.js";
import { AuditHistory } from "../parts/audit.js";
import { BulkProgress, useBulk } from "../parts/bulk.js";
import { Copy, Empty, Loaded } from "../parts/feedback.js";
import { DependencyGraph } from "../parts/graph.js";
import { GroupActions, SelectionActions } from "../parts/group-actions.js";
import { GroupSigns } from "../parts/group-signs.js";
import { Facts, Id, State, StateBar, Time } from "../parts/states.js";
import { Table } from "../parts/table.js";
import { Tabs } from "../parts/tabs.js";
import { Timeline } from "../parts/timeline.js";

/** @typedef {import("../core/types").Member} Member */
/** @typedef {import("../core/group.js").GroupTasks} GroupTasks */

/** @param {import("../core/types").PageProperties} properties */
export default function GroupPage({ params, query }) {
  const groupId = params["taskGroupId"] ?? "";
  const named = query.get("view") ?? params["view"] ?? "list";
  const view = named === "profiler" ? "timeline" : named; // as upstream's addresses call it
  const [partial, setPartial] = useState(/** @type {GroupTasks | undefined} */ (undefined));
  const polled = usePolled(
    (signal, previous) => readGroup(groupId, signal, /** @type {GroupTasks | undefined} */ (previous), setPartial),
    [groupId],
    { rest: restOf, same: Object.is }, // it compares by itself, a part of what is read
  );
  const data = polled.data ?? partial;
  const latest = useRef(polled.data);
  latest.current = polled.data;
  const refresh = () => {
    distrust(latest.current);
    polled.refresh();
  };
  useTitle(data);
  return html`<article>
    <div class="title"><h1>Task group <${Id}>${groupId}<//></h1> <${Copy} text=${groupId} /></div>
    <${Loaded} of=${{ ...polled, data }} label="Loading the group">
      ${(/** @type {GroupTasks} */ found) => html`<${Group} found=${found} view=${view} query=${query} refresh=${refresh} />`}
    <//>
  </article>`;
}

/** @param {{found: GroupTasks, view: string, query: URLSearchParams, refresh: () => void}} properties */
function Group({ found, view, query, refresh }) {
  const { group, members, complete } = found;
  const now = useNow(members.some(({ status }) => !isFinal(status.state)) ? 1000 : 60_000);
  const [selected, setSelected] = useState(/** @type {Set<string>} */ (new Set()));
  const bulk = useBulk(refresh);
  const counts = useMemo(() => countByState(members), [members]);
  const blocked = useMemo(() => blockedTasks(members), [members]);
  const filter = {
    state: query.get("state") ?? "",
    name: query.get("name") ?? decodeURIComponent(location.hash.slice(1)),
    queue: query.get("queue") ?? "",
  };
  const listed = useMemo(
    () => members.filter((member) => matches(member, filter)),
    [members, filter.state, filter.name, filter.queue],
  );
  const queues = useMemo(() => [...new Set(members.map(({ status }) => status.taskQueueId))].sort(), [members]);
  const decision = members.find(({ status }) => status.taskId === group.taskGroupId);
  const href = (/** @type {string} */ name) => {
    const next = new URLSearchParams(query);
    next.set("view", name);
    return `${to.group(group.taskGroupId)}?${next}`;
  };
  return html`
    ${decision && html`<p class="lead">${decision.task.metadata.name} · ${decision.task.metadata.owner}</p>`}
    <${Facts} of=${[
      ["Tasks", `${members.length.toLocaleString()}${complete ? "" : " so far"}`],
      ["Scheduler", group.schedulerId],
      ["Sealed", group.sealed ? html`<${Time} at=${group.sealed} now=${now} />` : "no"],
      ["Expires", html`<${Time} at=${group.expires} now=${now} />`],
    ]} />
    <${GroupSigns} members=${members} blocked=${blocked} />
    <${StateBar} counts=${counts} selected=${filter.state} select=${(/** @type {string} */ state) => setQuery({ state })} />
    <${GroupActions} group=${group} members=${members} bulk=${bulk} refresh=${refresh} />
    <${BulkProgress} bulk=${bulk} />
    <div class="buttons filters">
      <input type="search" aria-label="Filter by name" placeholder="Filter by name" value=${filter.name} onInput=${(/** @type {any} */ event) => setQuery({ name: event.target.value })} />
      <select aria-label="Filter by task queue" value=${filter.queue} onChange=${(/** @type {any} */ event) => setQuery({ queue: event.target.value })}>
        <option value="">All task queues</option>
        ${queues.map((id) => html`<option key=${id} value=${id}>${id}</option>`)}
      </select>
      <span role="status">${listed.length === members.length ? "" : `${listed.length.toLocaleString()} of ${counted(members.length, "task")}`}</span>
    </div>
    <${Tabs} label="Views of the group" current=${view} views=${[
      { name: "list", title: "List", href: href("list") },
      { name: "graph", title: "Graph", href: href("graph") },
      { name: "timeline", title: "Timeline", href: href("timeline") },
    ]} />
    ${view === "graph" && html`<${DependencyGraph} members=${listed} blocked=${blocked} />`}
    ${view === "timeline" && html`<${Timeline} members=${listed} now=${now} />`}
    ${
      view !== "graph" &&
      view !== "timeline" &&
      html`
      <${SelectionActions} selected=${selected} members=${members} bulk=${bulk} clear=${() => setSelected(new Set())} />
      ${listed.length === 0 ? html`<${Empty}>${members.length ? "No task matches the filter." : "The group has no task yet."}<//>` : html`<${TaskTable} members=${listed} blocked=${blocked} now=${now} sort=${query.get("sort") ?? "state"} selected=${selected} select=${setSelected} />`}
    `
    }
    <${AuditHistory} read=${ofGroup(group.taskGroupId)} />`;
}

/** @param {{members: Member[], blocked: Set<string>, now: number, sort: string, selected: Set<string>, select: (ids: Set<string>) => void}} properties */
function TaskTable({ members, blocked, now, sort, selected, select }) {
  const columns = useMemo(
    () => [
      {
        key: "name",
        title: "Name",
        class: "wide",
        sort: (/** @type {Member} */ { task }) => task.metadata.name,
        cell: (/** @type {Member} */ { task, status }) =>
          html`<a href=${to.task(status.taskId)}>${task.metadata.name}</a>`,
      },
      {
        key: "state",
        title: "State",
        sort: byState,
        cell: (/** @type {Member} */ { status }) =>
          html`<${State} state=${status.state} reason=${blocked.has(status.taskId) ? "waits for a task that did not complete" : shortReason(status)} />`,
      },
      {
        key: "queue",
        title: "Task queue",
        sort: (/** @type {Member} */ { status }) => status.taskQueueId,
        cell: (/** @type {Member} */ { status }) =>
          html`<a href=${to.queue(status.taskQueueId)}>${status.taskQueueId}</a>`,
      },
      {
        key: "duration",
        title: "Duration",
        sort: (/** @type {Member} */ { status }) => runtime(status, now) ?? -1,
        cell: (/** @type {Member} */ { status }) => durationOf(runtime(status, now)),
      },
      {
        key: "resolved",
        title: "Resolved",
        sort: (/** @type {Member} */ { status }) => status.runs.at(-1)?.resolved ?? "",
        cell: (/** @type {Member} */ { status }) => html`<${Time} at=${status.runs.at(-1)?.resolved} now=${now} />`,
      },
    ],
    [blocked, now],
  );
  return html`<${Table} rows=${members} columns=${columns} id=${(/** @type {Member} */ { status }) => status.taskId} caption="Tasks of the group"
    sort=${sort} onSort=${(/** @type {string} */ by) => setQuery({ sort: by })} selected=${selected} onSelect=${select} />`;
}

/** What is wrong first, and what is done last. @param {Member} member */
const byState = ({ task, status }) => `${STATES.indexOf(status.state)} ${task.metadata.name}`;

/** @param {number | null} milliseconds */
const durationOf = (milliseconds) => (milliseconds === null ? "–" : duration(milliseconds));

/**
 * @param {Member} member
 * @param {{state: string, name: string, queue: string}} filter
 */
function matches({ task, status }, { state, name, queue: taskQueueId }) {
  if (state && status.state !== state) return false;
  if (taskQueueId && status.taskQueueId !== taskQueueId) return false;
  return !name || task.metadata.name.toLowerCase().includes(name.toLowerCase());
}

/** Show in the tab's title how far the group is. @param {GroupTasks | undefined} data */
function useTitle(data) {
  useEffect(() => {
    if (!data) return;
    const done = data.members.filter(({ status }) => isFinal(status.state)).length;
    const { wrong, canceled } = endings(data.members);
    const ended = [wrong, canceled].filter(Boolean).join(", ");
    document.title = `${ended && `${ended} · `}${done}/${data.members.length} · ${data.group.taskGroupId}`;
  }, [data]);
}
