// A task group: how far it is, what failed, and what to do about many tasks at once.

import { ofGroup } from "../core/audit.js";
import { blockedTasks, reasonOf } from "../core/blocking.js";
import { useCancelling } from "../core/cancelling.js";
import { nameOfMembers } from "../core/group-name.js";
import { html, useEffect, useMemo, useRef, useState } from "../core/html.js";
import { asOf, countByState, distrust, endings, latestCopies, originalOf, readGroup, restOf } from "../core/group.js";
import { titleOf, valueOf } from "../core/matrix.js";
import { useNow, usePolled } from "../core/polling.js";
import { setQuery, to } from "../core/router.js";
import { duration } from "../core/time.js";
import { counted, isFinal, label, named, namedOr, runtime, shownState, STATES } from "../core/words.js";
import { History } from "../parts/audit.js";
import { BulkProgress, useBulk } from "../parts/bulk.js";
import { Controls } from "../parts/controls.js";
import { Copy, Empty, Loaded, Loading } from "../parts/feedback.js";
import { DependencyGraph } from "../parts/graph.js";
import { CancelProgress, GroupActions, SelectionActions } from "../parts/group-actions.js";
import { GroupBefore } from "../parts/group-before.js";
import { GroupSigns } from "../parts/group-signs.js";
import { Look } from "../parts/look.js";
import { NotifyButton, useNotification } from "../parts/notify.js";
import { chosenAxes, Matrix } from "../parts/matrix.js";
import { Facts, Id, Source, State, StateBar, Time } from "../parts/states.js";
import { columnOf, Table } from "../parts/table.js";
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
  const view = query.get("view") ?? params["view"] ?? "list";
  const [partial, setPartial] = useState(/** @type {GroupTasks | undefined} */ (undefined));
  const [notified, setNotified] = useState(false);
  const polled = usePolled(
    (signal, previous) => readGroup(groupId, signal, /** @type {GroupTasks | undefined} */ (previous), setPartial),
    [groupId],
    { rest: restOf, at: asOf, same: Object.is, hidden: notified, name: `group ${groupId}` }, // it compares by itself
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
      ${(/** @type {GroupTasks} */ found) => html`<${Group} found=${found} view=${view === "profiler" ? "timeline" : view} query=${query} refresh=${refresh} notified=${notified} notify=${setNotified} />`}
    <//>
  </article>`;
}

/** @param {{found: GroupTasks, view: string, query: URLSearchParams, refresh: () => void, notified: boolean, notify: (on: boolean) => void}} properties */
function Group({ found, view, query, refresh, notified, notify }) {
  const { group, members: all, complete } = found;
  const now = useNow(all.some(({ status }) => !isFinal(status.state)) ? 1000 : 60_000);
  const [selected, setSelected] = useState(/** @type {Set<string>} */ (new Set()));
  const nameOfId = (/** @type {string} */ id) =>
    namedOr(all.find(({ status }) => id.startsWith(status.taskId))?.task, id);
  const bulk = useBulk(refresh, "task", nameOfId);
  const latest = useMemo(() => latestCopies(all), [all]);
  const members = query.get("copies") === "all" ? all : latest;
  const unresolved = all.filter(({ status }) => !isFinal(status.state)).length;
  const cancelling = useCancelling(group.taskGroupId, complete ? unresolved : undefined);
  const counts = useMemo(() => countByState(members), [members]);
  const blocked = useMemo(() => blockedTasks(all), [all]);
  const axes = useMemo(() => chosenAxes(members, query), [members, query.get("rows"), query.get("columns")]);
  const filter = {
    state: query.get("state") ?? "",
    text: query.get("name") ?? decodeURIComponent(location.hash.slice(1)),
    queue: query.get("queue") ?? "",
    row: query.get("row") ?? "",
    column: query.get("column") ?? "",
  };
  const listed = useMemo(
    () => members.filter((member) => matches(member, filter, axes)),
    [members, axes, ...Object.values(filter)],
  );
  const { name, by } = useMemo(() => nameOfMembers(group.taskGroupId, all), [all]);
  const decision = all.find(({ status }) => status.taskId === group.taskGroupId);
  const source = (decision ?? all[0])?.task.metadata.source ?? "";
  const href = (/** @type {Record<string, string>} */ changes) => {
    const next = new URLSearchParams(query);
    for (const [key, value] of Object.entries(changes)) value ? next.set(key, value) : next.delete(key);
    return `${to.group(group.taskGroupId)}?${next}`;
  };
  const open = query.get("open") ?? "";
  const copies = all.length - latest.length;
  return html`
    <div class="title"><h1>${name || html`Task group <${Id}>${group.taskGroupId}<//>`}</h1>${by && html`<span class="reason">by ${by}</span>`}
      ${!hasEnded(found) && html`<${NotifyButton} wanted=${notified} want=${notify} />`}</div>
    <${Controls} title="About the group"><${Facts} of=${[
      ["Tasks", `${members.length.toLocaleString()}${complete ? "" : " so far"}`],
      ...(copies > 0
        ? [["Copies", html`<a href=${href({ copies: members === all ? "" : "all" })}>${members === all ? `Hide ${counted(copies, "superseded task")}` : `${counted(copies, "task")} superseded by copies`}</a>`]] // prettier-ignore
        : []),
      ...(decision ? [["Decision task", html`<a href=${to.task(group.taskGroupId)}>${named(decision.task)}</a>`]] : []),
      ...(name.includes(" @ ") ? [["Source", html`<${Source} url=${source} text=${name} />`]] : []),
      ["Scheduler", group.schedulerId],
      ["Sealed", group.sealed ? html`<${Time} at=${group.sealed} now=${now} />` : "no"],
      ["Expires", html`<${Time} at=${group.expires} now=${now} />`],
      ["Group", html`<${Id}>${group.taskGroupId}<//> <${Copy} text=${group.taskGroupId} />`],
    ]} /><//>
    <${GroupSigns} members=${members} blocked=${blocked} />
    <${StateBar} counts=${counts} selected=${filter.state.split(",")} select=${(/** @type {string} */ state) => setQuery({ state })} />
    <${BulkProgress} bulk=${bulk} />
    <${CancelProgress} cancelling=${cancelling} now=${now} />
    <${Controls} title="Actions and filters">
      <div class="controls-row">
        <${Filters} members=${members} filter=${filter} axes=${axes} />
        <${GroupActions} group=${group} members=${members} complete=${complete} open=${unresolved} bulk=${bulk} refresh=${refresh} cancelling=${cancelling} now=${now} />
      </div>
    <//>
    <div class="tabs-line">
      <${Tabs} label="Views of the group" current=${view} views=${VIEWS.map(([key, title]) => ({ name: key, title, href: href({ view: key }) }))} />
      <span role="status">${listed.length === members.length ? "" : `${listed.length.toLocaleString()} of `}${listed.length === members.length && complete ? "" : counted(members.length, "task")}${complete ? "" : " so far …"}</span>
    </div>
    ${listed.length === 0 && view !== "audit" && html`<${Empty}>${members.length ? "No task matches the filter." : "The group has no task yet."}<//>`}
    ${view === "matrix" && html`<${Matrix} members=${listed} all=${all} blocked=${blocked} axes=${axes} open=${open} now=${now} href=${href} refresh=${refresh} />`}
    ${view === "graph" && html`<${DependencyGraph} members=${listed} blocked=${blocked} />`}
    ${view === "timeline" && html`<${Timeline} members=${listed} now=${now} />`}
    ${view === "before" && !complete && html`<${Loading} label="Reading the rest of the group" />`}
    ${view === "before" && complete && html`<${GroupBefore} groupId=${group.taskGroupId} members=${members} listed=${listed} blocked=${blocked} chosen=${query.get("before") ?? ""} now=${now} sort=${query.get("sort") ?? ""} />`}
    ${view === "audit" && html`<${History} read=${ofGroup(group.taskGroupId)} title="Who did what" members=${all} />`}
    ${
      !VIEWS.slice(1).some(([key]) => key === view) &&
      html`
      <${SelectionActions} selected=${selected} members=${members} bulk=${bulk} now=${now} clear=${() => setSelected(new Set())} />
      ${listed.length > 0 && html`<${TaskTable} members=${listed} all=${all} blocked=${blocked} now=${now} sort=${query.get("sort") ?? "state"} selected=${selected} select=${setSelected} open=${open} refresh=${refresh} />`}
    `
    }`;
}

const VIEWS = /** @type {const} */ ([
  ["list", "List"],
  ["matrix", "Matrix"],
  ["graph", "Graph"],
  ["timeline", "Timeline"],
  ["before", "Before"],
  ["audit", "Who did what"],
]);

/** @typedef {{state: string, text: string, queue: string, row: string, column: string}} Filter */

/** @param {{members: Member[], filter: Filter, axes: import("../core/matrix.js").Axes}} properties */
function Filters({ members, filter, axes }) {
  const queues = useMemo(() => [...new Set(members.map(({ status }) => status.taskQueueId))].sort(), [members]);
  const chosen = /** @type {const} */ (["row", "column"]).filter((axis) => filter[axis]);
  return html`<div class="buttons filters">
    <input type="search" aria-label="Filter by name, owner, tag or text" title="Words that tasks have in their name, owner, description, task queue, worker, reason or tags (kind:build)" placeholder="Name, owner, kind:test, text" value=${filter.text} onInput=${(/** @type {any} */ event) => setQuery({ name: event.target.value })} />
    <select aria-label="Filter by task queue" value=${filter.queue} onChange=${(/** @type {any} */ event) => setQuery({ queue: event.target.value })}>
      <option value="">All task queues</option>
      ${queues.map((id) => html`<option key=${id} value=${id}>${id}</option>`)}
    </select>
    ${chosen.map((axis) => html`<button type="button" key=${axis} onClick=${() => setQuery({ [axis]: "" })} aria-label=${`Remove the filter ${filter[axis]}`}>${titleOf(axis === "row" ? axes.rows : axes.columns)}: ${filter[axis]} ✕</button>`)}
  </div>`;
}

const column = /** @type {import("../parts/table.js").ColumnOf<Member>} */ (columnOf);

/** @param {{members: Member[], all: Member[], blocked: Map<string, Member[]>, now: number, sort: string, selected: Set<string>, select: (ids: Set<string>) => void, open: string, refresh: () => void}} properties */
function TaskTable({ members, all, blocked, now, sort, selected, select, open, refresh }) {
  const reasonIn = (/** @type {Member} */ { task, status }) =>
    [reasonOf(status, blocked), ...(originalOf(task) ? ["copy"] : [])].filter(Boolean).join(", ");
  const columns = useMemo(
    () => [
      column("name", "Name", ({ task, status }) => html`<a href=${to.task(status.taskId)}>${named(task)}</a>`, {
        class: "wide",
        sort: ({ task }) => named(task),
      }),
      column("state", "State", (member) => html`<${State} state=${member.status.state} reason=${reasonIn(member)} />`, {
        sort: byState,
      }),
      column("queue", "Task queue", ({ status }) => html`<a href=${to.queue(status.taskQueueId)}>${status.taskQueueId}</a>`, { sort: ({ status }) => status.taskQueueId }), // prettier-ignore
      column("duration", "Duration", ({ status }) => durationOf(runtime(status, now)), {
        sort: ({ status }) => runtime(status, now) ?? -1,
      }),
      column("resolved", "Resolved", ({ status: { runs } }) => runs.at(-1)?.resolved && html`<${Time} at=${runs.at(-1)?.resolved} now=${now} />`, { sort: ({ status }) => status.runs.at(-1)?.resolved ?? "" }), // prettier-ignore
    ],
    [blocked, now],
  );
  return html`<${Table} rows=${members} columns=${columns} id=${(/** @type {Member} */ { status }) => status.taskId} caption="Tasks of the group"
    sort=${sort} onSort=${(/** @type {string} */ by) => setQuery({ sort: by })} selected=${selected} onSelect=${select}
    name=${(/** @type {Member} */ { task }) => named(task)} opened=${open} onOpen=${(/** @type {string} */ id) => setQuery({ open: id })}
    detail=${(/** @type {Member} */ member) => html`<${Look} member=${member} members=${all} blocked=${blocked} now=${now} refresh=${refresh} />`} />`;
}

/** What is wrong first, and what is done last. @param {Member} member */
const byState = ({ task, status }) => `${STATES.indexOf(shownState(status))} ${named(task)}`;

/** @param {number | null} milliseconds */
const durationOf = (milliseconds) => (milliseconds === null ? "" : duration(milliseconds));

/** What a filter's words are looked for in, by the task and its state. @type {WeakMap<import("../core/types").Status, string>} */
const texts = new WeakMap();

/** @param {Member} member */
function textOf({ task, status }) {
  const known = texts.get(status);
  if (known !== undefined) return known;
  const { name, owner, description } = task.metadata;
  const run = status.runs.at(-1);
  const tags = Object.entries(task.tags).map(([tag, value]) => `${tag}:${value}`);
  const parts = [label(name), name, owner, description, status.taskId, status.taskQueueId, run?.workerId, run?.reasonResolved, ...tags]; // prettier-ignore
  const text = parts.join("\n").toLowerCase();
  texts.set(status, text);
  return text;
}

/** @param {Member} member @param {Filter} filter @param {import("../core/matrix.js").Axes} axes */
function matches(member, { state, text, queue: taskQueueId, row, column: across }, axes) {
  if (state && !state.split(",").includes(shownState(member.status))) return false;
  if (taskQueueId && member.status.taskQueueId !== taskQueueId) return false;
  if (row && valueOf(member, axes.rows) !== row) return false;
  if (across && valueOf(member, axes.columns) !== across) return false;
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return words.every((word) => textOf(member).includes(word));
}

/** Whether all tasks of the group are resolved, as far as all are known. @param {GroupTasks | undefined} found */
const hasEnded = (found) =>
  found !== undefined && found.complete && found.members.every(({ status }) => isFinal(status.state));

/** What is said when it has. @param {GroupTasks | undefined} data */
function ending(data) {
  const { group, members } = /** @type {GroupTasks} */ (data);
  const ended = endings(members).all;
  const tasks = counted(latestCopies(members).length, "task");
  return {
    title: nameOfMembers(group.taskGroupId, members).name || group.taskGroupId,
    body: ended ? `${ended} of ${tasks}` : `${tasks} completed`,
    tag: group.taskGroupId,
  };
}

/** Show in the tab's title what the group is and how far. @param {GroupTasks | undefined} data */
function useTitle(data) {
  useEffect(() => {
    if (!data) return;
    const members = latestCopies(data.members);
    const done = members.filter(({ status }) => isFinal(status.state)).length;
    const ended = endings(members).all;
    const name = nameOfMembers(data.group.taskGroupId, data.members).name || data.group.taskGroupId;
    document.title = `${ended && `${ended} · `}${done.toLocaleString()}/${members.length.toLocaleString()}${data.complete ? "" : " so far"} · ${name}`;
  }, [data]);
}
