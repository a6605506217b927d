// A group against the one before it: what fails now and did not, what takes longer, what is new or gone.

import { html, useMemo } from "../core/html.js";
import { groupsBefore } from "../core/before.js";
import { reasonOf } from "../core/blocking.js";
import { latestCopies, readGroup } from "../core/group.js";
import { nameOf } from "../core/group-name.js";
import { usePolled } from "../core/polling.js";
import { compareHref, setQuery, to } from "../core/router.js";
import { absolute, duration } from "../core/time.js";
import { counted, isFinal, isWrong, named, runtime } from "../core/words.js";
import { Failure, Loading } from "./feedback.js";
import { State } from "./states.js";
import { columnOf, Table } from "./table.js";

/** @typedef {import("../core/types").Member} Member */
/** @typedef {{key: string, name: string, member: Member | undefined, old: Member | undefined, change: string, rank: number}} Row */

/** @param {{groupId: string, members: Member[], listed: Member[], blocked: Map<string, Member[]>, chosen: string, now: number, sort: string}} properties `chosen`: the other group's id, if that is in the address */
export function GroupBefore({ groupId, members, listed, blocked, chosen, now, sort }) {
  const { data: groups, error: unlisted } = usePolled((signal) => groupsBefore(groupId, signal), [groupId], ONCE);
  const other = chosen || groups?.[0]?.taskGroupId || "";
  const { data: old, error: unread } = usePolled(
    async (signal) => (other ? latestCopies((await readGroup(other, signal, undefined, () => {})).members) : null),
    [other],
    ONCE,
  );
  const error = unlisted ?? unread;
  const rows = useMemo(() => {
    const [all, shown] = [old ? compared(members, old) : [], new Set(listed)];
    return listed.length === members.length ? all : all.filter(({ member }) => member && shown.has(member)); // what is gone matches no filter
  }, [members, listed, old]);
  if (error) return html`<${Failure} error=${error} />`;
  if (groups && !other)
    return html`<p class="empty">No earlier group with the same scheduler and source was found.</p>`;
  if (!old) return html`<${Loading} label="Reading the group before" />`;
  const fails = rows.filter(({ rank }) => rank === 0).length;
  return html`<div class="buttons">
      ${
        groups &&
        groups.length > 0 &&
        html`<label>Against <select value=${other} onChange=${(/** @type {any} */ event) => setQuery({ before: event.target.value })}>
        ${groups.slice(0, 20).map((group) => html`<option key=${group.taskGroupId} value=${group.taskGroupId}>${nameOf(group).name}, ${absolute(group.created)}</option>`)}
      </select></label>`
      }
      <a href=${to.group(other)}>The group before</a>
      <strong role="status">${fails === 0 ? "Nothing fails that did not before." : `${counted(fails, "task")} fail${fails === 1 ? "s" : ""} that did not before.`}</strong>
    </div>
    <${Table} rows=${rows} columns=${columns(blocked, now)} id=${(/** @type {Row} */ { key }) => key} caption="Tasks against those before" sort=${SORTS.includes(sort.replace("-", "")) ? sort : "change"} onSort=${(/** @type {string} */ by) => setQuery({ sort: by })} />`;
}

const ONCE = { until: () => true };

/** Columns that rows can be ordered by: the address may name one of another view. */
const SORTS = ["name", "change", "longer"];

const column = /** @type {import("./table.js").ColumnOf<Row>} */ (columnOf);
const took = (/** @type {Member | undefined} */ member, /** @type {number} */ now) =>
  member ? runtime(member.status, now) : null;

/** @param {Map<string, Member[]>} blocked @param {number} now */
const columns = (blocked, now) => {
  const shown = (/** @type {Member | undefined} */ member, /** @type {Map<string, Member[]> | undefined} */ known) => {
    const ran = took(member, now);
    return member
      ? html`<${State} state=${member.status.state} reason=${reasonOf(member.status, known)} /> ${ran !== null && html`<span class="reason">in ${duration(ran)}</span>`}`
      : "–";
  };
  const longer = (/** @type {Row} */ { member, old }) => {
    const [a, b] = [took(member, now), took(old, now)];
    if (a === null || b === null) return "–";
    return `${Math.round((b - a) / 1000) > 0 ? "−" : ""}${duration(Math.abs(a - b))}`;
  };
  const compare = (/** @type {Row} */ { member, old }) => {
    const [a, b] = [member?.status.runs.at(-1), old?.status.runs.at(-1)];
    if (!member || !old || !a || !b) return "–";
    const one = { id: member.status.taskId, runId: a.runId };
    return html`<a href=${compareHref(one, { id: old.status.taskId, runId: b.runId })}>Compare</a>`;
  };
  return [
    column("name", "Name", ({ name, member, old }) => html`<a href=${to.task((member ?? old)?.status.taskId ?? "")}>${name}</a>`, { class: "wide", sort: ({ name }) => name }), // prettier-ignore
    column("change", "Change", ({ change, rank }) => html`<span class=${rank === 0 ? "state failed" : ""}>${change}</span>`, { sort: ({ rank, name }) => `${rank} ${name}` }), // prettier-ignore
    column("now", "Now", ({ member }) => shown(member, blocked)),
    column("before", "Before", ({ old }) => shown(old, undefined)),
    column("longer", "Longer by", longer, { sort: ({ member, old }) => (took(old, now) ?? 0) - (took(member, now) ?? 0) }), // prettier-ignore
    column("compare", "Logs", compare),
  ];
};

/** Tasks of two groups by their names; of several of one name each with its like in the order of their creation.
 * @param {Member[]} members @param {Member[]} old @returns {Row[]} */
function compared(members, old) {
  /** @type {Map<string, Member[]>} */
  const before = new Map();
  for (const member of [...old].sort(byCreation)) {
    const name = named(member.task);
    before.set(name, [...(before.get(name) ?? []), member]);
  }
  const rows = [...members].sort(byCreation).map((member) => {
    const match = before.get(named(member.task))?.shift();
    return rowOf(member, match);
  });
  return [...rows, ...[...before.values()].flat().map((member) => rowOf(undefined, member))];
}

/** @param {Member} a @param {Member} b */
const byCreation = (a, b) => (a.task.created < b.task.created ? -1 : 1);

/** @param {Member | undefined} member @param {Member | undefined} old @returns {Row} */
function rowOf(member, old) {
  const one = /** @type {Member} */ (member ?? old);
  const said = (/** @type {number} */ rank, /** @type {string} */ change) => ({
    key: one.status.taskId,
    name: named(one.task),
    member,
    old,
    change,
    rank,
  });
  if (!member) return said(5, "gone");
  const wrong = isWrong(member.status);
  if (!old) return said(wrong ? 0 : 4, wrong ? "new, and fails" : "new");
  const was = isWrong(old.status);
  if (wrong) return was ? said(1, "still fails") : said(0, "fails now");
  if (!isFinal(member.status.state)) return said(3, "not resolved yet");
  return was ? said(2, "fixed") : said(6, "as before");
}
