// The task groups that were created last: what they are called, how far they are, and whose they are.

import { session } from "../core/credentials.js";
import { nameOf, ownerOf } from "../core/group-name.js";
import { GROUP_STATES, isIn, useGroupStates } from "../core/group-states.js";
import { html, useMemo, useState } from "../core/html.js";
import { gather, useNow, usePolled } from "../core/polling.js";
import { listTaskGroups } from "../core/queue.js";
import { setQuery, to } from "../core/router.js";
import { counted, label, STATES } from "../core/words.js";
import { Controls } from "./controls.js";
import { Empty, Loaded } from "./feedback.js";
import { Bar, Source, Time } from "./states.js";
import { columnOf, Table } from "./table.js";

const LISTED = 50;
/** How far the latest groups are is read without being asked for. */
const COUNTED = 10;
const OWNER_KEY = "taskcluster-queue.owner";
/** So many groups of one task are folded. */
const FOLDED = 2;

/** @typedef {import("../core/types").RecentGroup} Group */
/** @typedef {import("../core/group-states.js").GroupState} GroupState */
/** @typedef {{name: string, owner: string, project: string, state: string}} Filter */

/** @param {{query: URLSearchParams}} properties */
export function RecentGroups({ query }) {
  const [most, setMost] = useState(LISTED);
  const polled = usePolled(
    async (signal) =>
      /** @type {{items: Group[], more: boolean}} */ (
        await gather(listTaskGroups({ signal, limit: Math.min(most, 100) }), "taskGroups", most)
      ),
    [most],
    { interval: 15_000, name: `groups ${most}` },
  );
  return html`<${Loaded} of=${polled} label="Loading task groups">${(
    /** @type {{items: Group[], more: boolean}} */ { items, more },
  ) =>
    items.length === 0
      ? html`<${Empty}>No task group yet. <a href="/tasks/create">Create a task</a>.<//>`
      : html`<${Listed} groups=${items} query=${query} />
        ${more && html`<p><button type="button" onClick=${() => setMost(most + LISTED)}>Older groups</button></p>`}`}<//>`;
}

const column = /** @type {import("./table.js").ColumnOf<Group>} */ (columnOf);

/** @param {{groups: Group[], query: URLSearchParams}} properties */
function Listed({ groups, query }) {
  const now = useNow(10_000);
  /** @type {Filter} */
  const filter = {
    name: query.get("name") ?? "",
    owner: query.get("owner") ?? "",
    project: query.get("project") ?? "",
    state: query.get("state") ?? "",
  };
  const alike = groups.filter((group) => matches(group, filter));
  const singles = alike.filter(({ single }) => single).length;
  const foldable = singles >= FOLDED && singles < alike.length;
  const folded = foldable && query.get("single") !== "show";
  const unfolded = folded ? alike.filter(({ single }) => !single) : alike;
  const looked = filter.state ? unfolded : unfolded.slice(0, COUNTED);
  const states = useGroupStates(looked.map(({ taskGroupId }) => taskGroupId));
  const listed = filter.state
    ? unfolded.filter(({ taskGroupId }) => isIn(states[taskGroupId], filter.state))
    : unfolded;
  const unread = filter.state ? looked.filter(({ taskGroupId }) => states[taskGroupId] === undefined).length : 0;
  const projects = valuesOf(groups, ({ projectId }) => (projectId === "none" ? undefined : projectId));
  const columns = useMemo(
    () => [
      column("name", "Push or group", (group) => html`<a href=${to.group(group.taskGroupId)} title=${group.taskGroupId}>${nameOf(group).name}</a>`, { class: "wide" }), // prettier-ignore
      column("state", "State", ({ taskGroupId }) => html`<${StateOf} state=${states[taskGroupId]} asked=${taskGroupId in states} />`), // prettier-ignore
      column("owner", "By", ({ owner }) => label(owner)),
      ...(projects.length > 0
        ? [column("project", "Project", ({ projectId }) => (projectId === "none" ? "" : projectId))]
        : []),
      column("source", "Source", ({ source }) => source && html`<${Source} url=${source} />`, { class: "wide" }),
      column("created", "Created", ({ created }) => html`<${Time} at=${created} now=${now} />`),
    ],
    [now, states, projects.length],
  );
  return html`
    <${Controls} title="Filters">
      <${Filters} filter=${filter} owners=${valuesOf(groups, ({ owner }) => owner)} projects=${projects} />
    <//>
    <p class="counts" role="status">${counted(listed.length, "group")}${listed.length < groups.length ? ` of the last ${groups.length.toLocaleString()}` : ""}${unread > 0 ? `; ${unread.toLocaleString()} are being looked at` : ""}
      ${foldable && html` · <button type="button" class="link" aria-expanded=${!folded} onClick=${() => setQuery({ single: folded ? "show" : "" })}>${folded ? `${counted(singles, "group")} of one task` : `Fold ${counted(singles, "group")} of one task`}</button>`}</p>
    ${listed.length === 0 ? html`<${Empty}>No group matches.<//>` : html`<${Table} rows=${listed} columns=${columns} id=${(/** @type {Group} */ group) => group.taskGroupId} caption="Task groups, newest first" />`}`;
}

/** @param {{filter: Filter, owners: string[], projects: string[]}} properties */
function Filters({ filter, owners, projects }) {
  const clientId = session()?.clientId ?? "";
  const [said, setSaid] = useState(() => localStorage.getItem(`${OWNER_KEY} ${clientId}`) ?? "");
  const mine = said || ownerOf(clientId, owners);
  const remember = () => {
    localStorage.setItem(`${OWNER_KEY} ${clientId}`, filter.owner);
    setSaid(filter.owner);
  };
  return html`<div class="buttons filters">
    <input type="search" aria-label="Filter by name" placeholder="Name, revision, owner" value=${filter.name} onInput=${(/** @type {any} */ event) => setQuery({ name: event.target.value })} />
    <${Choice} label="State" all="Any state" of=${GROUP_STATES} value=${filter.state} change=${(/** @type {string} */ state) => setQuery({ state })} />
    <${Choice} label="Owner" all="All owners" of=${owners} value=${filter.owner} change=${(/** @type {string} */ owner) => setQuery({ owner })} />
    ${projects.length > 0 && html`<${Choice} label="Project" all="All projects" of=${projects} value=${filter.project} change=${(/** @type {string} */ project) => setQuery({ project })} />`}
    ${mine && html`<button type="button" aria-pressed=${filter.owner === mine} onClick=${() => setQuery({ owner: filter.owner === mine ? "" : mine })}>Mine</button>`}
    ${filter.owner && filter.owner !== mine && html`<button type="button" class="quiet" title="Mine shows the groups of this owner from now on, in this browser" onClick=${remember}>That is me</button>`}
  </div>`;
}

/** @param {{label: string, all: string, of: readonly string[], value: string, change: (value: string) => void}} properties */
const Choice = ({ label, all, of, value, change }) =>
  html`<select aria-label=${label} value=${value} onChange=${(/** @type {any} */ event) => change(event.target.value)}>
    <option value="">${all}</option>
    ${(value && !of.includes(value) ? [value, ...of] : of).map((one) => html`<option key=${one} value=${one} selected=${one === value}>${one}</option>`)}
  </select>`;

/** @param {{state: GroupState | null | undefined, asked: boolean}} properties */
function StateOf({ state, asked }) {
  if (!state) return asked ? html`<span class="reason">not readable</span>` : "";
  const { counts, wrong, all, open, more } = state;
  const rest = open > 0 ? `, ${open.toLocaleString()} open` : "";
  const both = all && `${more ? "at least " : ""}${all}`;
  const total = STATES.reduce((sum, one) => sum + (counts[one] ?? 0), 0);
  const said = both
    ? html`<span class=${`state ${wrong ? "failed" : "unscheduled"}`}>${both}</span>${rest}`
    : open > 0
      ? html`<span class="state running">${open.toLocaleString()}${more ? "+" : ""} open</span>`
      : html`<span class=${`state ${more ? "unscheduled" : "completed"}`}>${total.toLocaleString()} completed</span>`;
  const of =
    both || open > 0 || more ? html` <span class="reason">of ${total.toLocaleString()}${more ? "+" : ""}</span>` : "";
  return html`<span class="progress"><${Bar} counts=${counts} /><span>${said}${of}</span></span>`;
}

/** @param {Group} group @param {Filter} filter */
function matches(group, { name, owner, project }) {
  if (owner && group.owner !== owner) return false;
  if (project && group.projectId !== project) return false;
  const wanted = name.trim().toLowerCase();
  return [nameOf(group).name, group.name, group.owner, group.taskGroupId, group.source].some((each) =>
    each.toLowerCase().includes(wanted),
  );
}

/** @param {Group[]} groups @param {(group: Group) => string | undefined} of */
const valuesOf = (groups, of) => [...new Set(groups.flatMap((group) => of(group) || []))].sort();
