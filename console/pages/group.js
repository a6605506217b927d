// A task group: how far it is, what failed, and what to do about many tasks at once.

import { ofGroup } from "../core/audit.js";
import { useCancelling } from "../core/cancelling.js";
import { nameOfMembers, pushLabel } from "../core/group-name.js";
import { html, useEffect, useMemo, useRef, useState } from "../core/html.js";
import { blockedTasks, countByState, distrust, endings, readGroup, restOf } from "../core/group.js";
import { titleOf, valueOf } from "../core/matrix.js";
import { useNow, usePolled } from "../core/polling.js";
import { setQuery, to } from "../core/router.js";
import { duration } from "../core/time.js";
import { counted, isFinal, runtime, shortReason, shownState, STATES } from "../core/words.js";
import { AuditHistory } from "../parts/audit.js";
import { BulkProgress, useBulk } from "../parts/bulk.js";
import { Controls } from "../parts/controls.js";
import { Copy, Empty, Loaded } from "../parts/feedback.js";
import { DependencyGraph } from "../parts/graph.js";
import { CancelProgress, GroupActions, SelectionActions } from "../parts/group-actions.js";
import { GroupBefore } from "../parts/group-before.js";
import { GroupSigns } from "../parts/group-signs.js";
import { Look } from "../parts/look.js";
import { NotifyButton, useNotification } from "../parts/notify.js";
import { chosenAxes, Matrix } from "../parts/matrix.js";
import { Facts, Id, Source, State, StateBar, Time } from "../parts/states.js";
import { Table } from "../parts/table.js";
import { Tabs } from "../parts/tabs.js";
import { Timeline } from "../parts/timeline.js";

/** @typedef {import("../core/types").Member} Member */
/** @typedef {import("../core/group.js").GroupTasks} GroupTasks */

/** What is remembered of a group is not another one's. @param {import("../core/types").PageProperties} properties */
export default function OfAddress(properties) {
  return html`<${GroupPage} key=${properties.params["taskGroupId"]} ...${properties} />`;
}

/** @param {import("../core/types").PageProperties} properties */
function GroupPage({ params, query }) {
  const groupId = params["taskGroupId"] ?? "";
  const named = query.get("view") ?? params["view"] ?? "list";
  const view = named === "profiler" ? "timeline" : named; // as upstream's addresses call it
  const [partial, setPartial] = useState(/** @type {GroupTasks | undefined} */ (undefined));
  const [notified, setNotified] = useState(false);
  const polled = usePolled(
    (signal, previous) => readGroup(groupId, signal, /** @type {GroupTasks | undefined} */ (previous), setPartial),
    [groupId],
    { rest: restOf, same: Object.is, hidden: notified }, // it compares by itself, a part of what is read
  );
  const data = polled.data ?? partial;
  const latest = useRef(polled.data);
  latest.current = polled.data;
  const refresh = () => {
    distrust(latest.current);
    polled.refresh();
  };
  useTitle(data);
  useNotification(
    notified,
    hasEnded(data),
    () => ending(data),
    () => setNotified(false),
  );
  return html`<article class="group-page">
    ${!data && html`<h1>Task group <${Id}>${groupId}<//></h1>`}
    <${Loaded} of=${{ ...polled, data }} label="Loading the group">
      ${(/** @type {GroupTasks} */ found) => html`<${Group} found=${found} view=${view} query=${query} refresh=${refresh} notified=${notified} notify=${setNotified} />`}
    <//>
  </article>`;
}

/** @param {{found: GroupTasks, view: string, query: URLSearchParams, refresh: () => void, notified: boolean, notify: (on: boolean) => void}} properties */
function Group({ found, view, query, refresh, notified, notify }) {
  const { group, members, complete } = found;
  const now = useNow(members.some(({ status }) => !isFinal(status.state)) ? 1000 : 60_000);
  const [selected, setSelected] = useState(/** @type {Set<string>} */ (new Set()));
  const bulk = useBulk(refresh);
  const unresolved = members.filter(({ status }) => !isFinal(status.state)).length;
  const cancelling = useCancelling(group.taskGroupId, complete ? unresolved : undefined);
  const counts = useMemo(() => countByState(members), [members]);
  const blocked = useMemo(() => blockedTasks(members), [members]);
  const axes = useMemo(() => chosenAxes(members, query), [members, query.get("rows"), query.get("columns")]);
  const filter = {
    state: query.get("state") ?? "",
    name: query.get("name") ?? decodeURIComponent(location.hash.slice(1)),
    queue: query.get("queue") ?? "",
    row: query.get("row") ?? "",
    column: query.get("column") ?? "",
  };
  const listed = useMemo(
    () => members.filter((member) => matches(member, filter, axes)),
    [members, axes, ...Object.values(filter)],
  );
  const named =
    members.find(({ status }) => status.taskId === group.taskGroupId) ??
    (members.length === 1 ? members[0] : undefined);
  const name = useMemo(() => nameOfMembers(group.taskGroupId, members), [members]);
  const push = pushLabel(named?.task.metadata.source ?? "");
  const href = (/** @type {Record<string, string>} */ changes) => {
    const next = new URLSearchParams(query);
    for (const [name, value] of Object.entries(changes)) value ? next.set(name, value) : next.delete(name);
    return `${to.group(group.taskGroupId)}?${next}`;
  };
  const open = query.get("open") ?? "";
  return html`
    <div class="title"><h1>${name || html`Task group <${Id}>${group.taskGroupId}<//>`}</h1>
      ${name && html`<span class="reason">Task group <${Id}>${group.taskGroupId}<//></span>`} <${Copy} text=${group.taskGroupId} />
      ${!hasEnded(found) && html`<${NotifyButton} wanted=${notified} want=${notify} />`}</div>
    <${Facts} of=${[
      ["Tasks", `${members.length.toLocaleString()}${complete ? "" : " so far"}`],
      ...(named ? [["Owner", named.task.metadata.owner]] : []),
      ...(named && push ? [["Push", html`<${Source} url=${named.task.metadata.source} text=${push} />`]] : []),
      ["Scheduler", group.schedulerId],
      ["Sealed", group.sealed ? html`<${Time} at=${group.sealed} now=${now} />` : "no"],
      ["Expires", html`<${Time} at=${group.expires} now=${now} />`],
    ]} />
    <${GroupSigns} members=${members} blocked=${blocked} />
    <${StateBar} counts=${counts} selected=${filter.state} select=${(/** @type {string} */ state) => setQuery({ state })} />
    <${BulkProgress} bulk=${bulk} />
    <${CancelProgress} cancelling=${cancelling} now=${now} />
    <${Controls} title="Actions and filters">
      <div class="controls-row">
        <${Filters} members=${members} filter=${filter} axes=${axes} />
        <${GroupActions} group=${group} members=${members} bulk=${bulk} refresh=${refresh} cancelling=${cancelling} />
      </div>
    <//>
    <div class="tabs-line">
      <${Tabs} label="Views of the group" current=${view} views=${VIEWS.map(([name, title]) => ({ name, title, href: href({ view: name }) }))} />
      <span role="status">${listed.length === members.length ? "" : `${listed.length.toLocaleString()} of ${counted(members.length, "task")}`}</span>
    </div>
    ${listed.length === 0 && html`<${Empty}>${members.length ? "No task matches the filter." : "The group has no task yet."}<//>`}
    ${view === "matrix" && html`<${Matrix} members=${listed} all=${members} axes=${axes} open=${open} now=${now} href=${href} refresh=${refresh} />`}
    ${view === "graph" && html`<${DependencyGraph} members=${listed} blocked=${blocked} />`}
    ${view === "timeline" && html`<${Timeline} members=${listed} now=${now} />`}
    ${view === "before" && html`<${GroupBefore} groupId=${group.taskGroupId} members=${listed} chosen=${query.get("before") ?? ""} now=${now} sort=${query.get("sort") ?? ""} />`}
    ${
      !VIEWS.slice(1).some(([name]) => name === view) &&
      html`
      <${SelectionActions} selected=${selected} members=${members} bulk=${bulk} clear=${() => setSelected(new Set())} />
      ${listed.length > 0 && html`<${TaskTable} members=${listed} all=${members} blocked=${blocked} now=${now} sort=${query.get("sort") ?? "state"} selected=${selected} select=${setSelected} open=${open} refresh=${refresh} />`}
    `
    }
    <${AuditHistory} read=${ofGroup(group.taskGroupId)} />`;
}

const VIEWS = /** @type {const} */ ([
  ["list", "List"],
  ["matrix", "Matrix"],
  ["graph", "Graph"],
  ["timeline", "Timeline"],
  ["before", "Before"],
]);

/** @typedef {{state: string, name: string, queue: string, row: string, column: string}} Filter */

/** @param {{members: Member[], filter: Filter, axes: import("../core/matrix.js").Axes}} properties */
function Filters({ members, filter, axes }) {
  const queues = useMemo(() => [...new Set(members.map(({ status }) => status.taskQueueId))].sort(), [members]);
  const chosen = /** @type {const} */ (["row", "column"]).filter((axis) => filter[axis]);
  return html`<div class="buttons filters">
    <input type="search" aria-label="Filter by name" placeholder="Filter by name" value=${filter.name} onInput=${(/** @type {any} */ event) => setQuery({ name: event.target.value })} />
    <select aria-label="Filter by task queue" value=${filter.queue} onChange=${(/** @type {any} */ event) => setQuery({ queue: event.target.value })}>
      <option value="">All task queues</option>
      ${queues.map((id) => html`<option key=${id} value=${id}>${id}</option>`)}
    </select>
    ${chosen.map((axis) => html`<button type="button" key=${axis} onClick=${() => setQuery({ [axis]: "" })} aria-label=${`Remove the filter ${filter[axis]}`}>${titleOf(axis === "row" ? axes.rows : axes.columns)}: ${filter[axis]} ✕</button>`)}
  </div>`;
}

/** @param {{members: Member[], all: Member[], blocked: Set<string>, now: number, sort: string, selected: Set<string>, select: (ids: Set<string>) => void, open: string, refresh: () => void}} properties */
function TaskTable({ members, all, blocked, now, sort, selected, select, open, refresh }) {
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
    sort=${sort} onSort=${(/** @type {string} */ by) => setQuery({ sort: by })} selected=${selected} onSelect=${select}
    name=${(/** @type {Member} */ { task }) => task.metadata.name} opened=${open} onOpen=${(/** @type {string} */ id) => setQuery({ open: id })}
    detail=${(/** @type {Member} */ member) => html`<${Look} member=${member} members=${all} now=${now} refresh=${refresh} />`} />`;
}

/** What is wrong first, and what is done last. @param {Member} member */
const byState = ({ task, status }) => `${STATES.indexOf(shownState(status))} ${task.metadata.name}`;

/** @param {number | null} milliseconds */
const durationOf = (milliseconds) => (milliseconds === null ? "–" : duration(milliseconds));

/**
 * @param {Member} member
 * @param {Filter} filter
 * @param {import("../core/matrix.js").Axes} axes
 */
function matches(member, { state, name, queue: taskQueueId, row, column }, axes) {
  const { task, status } = member;
  if (state && shownState(status) !== state) return false;
  if (taskQueueId && status.taskQueueId !== taskQueueId) return false;
  if (row && valueOf(member, axes.rows) !== row) return false;
  if (column && valueOf(member, axes.columns) !== column) return false;
  return !name || task.metadata.name.toLowerCase().includes(name.toLowerCase());
}

/** Whether all tasks of the group are resolved, as far as all are known. @param {GroupTasks | undefined} found */
const hasEnded = (found) =>
  found !== undefined && found.complete && found.members.every(({ status }) => isFinal(status.state));

/** What is said when it has. @param {GroupTasks | undefined} found */
function ending(found) {
  const { group, members } = /** @type {GroupTasks} */ (found);
  const { wrong, canceled } = endings(members);
  const ended = [wrong, canceled].filter(Boolean).join(", ");
  return {
    title: nameOfMembers(group.taskGroupId, members) || group.taskGroupId,
    body: ended ? `${ended} of ${counted(members.length, "task")}` : `${counted(members.length, "task")} completed`,
    tag: group.taskGroupId,
  };
}

/** Show in the tab's title how far the group is. @param {GroupTasks | undefined} data */
function useTitle(data) {
  useEffect(() => {
    if (!data) return;
    const done = data.members.filter(({ status }) => isFinal(status.state)).length;
    const { wrong, canceled } = endings(data.members);
    const ended = [wrong, canceled].filter(Boolean).join(", ");
    document.title = `${ended && `${ended} · `}${done.toLocaleString()}/${data.members.length.toLocaleString()} · ${data.group.taskGroupId}`;
  }, [data]);
}
