// A group as a matrix: a mark for each task, or for many of a state, in rows and columns by tags. A mark opens its cause.

import { html, useEffect, useMemo, useRef } from "../core/html.js";
import { axesOf, matrixOf, OTHERS, titleOf, usualAxes } from "../core/matrix.js";
import { setQuery } from "../core/router.js";
import { counted, isWrong, named, shownState } from "../core/words.js";
import { Look } from "./look.js";
import { signOf, SIGNS } from "./states.js";

/** @typedef {import("../core/types").Member} Member */
/** @typedef {import("../core/matrix.js").Axes} Axes */

const KEY = "taskcluster-queue.matrix";
const MOST_COLUMNS = 24;
const MOST_ROWS = 100;
/** The heads of more columns are turned. */
const HORIZONTAL = 6;
/** So many tasks of a cell have marks of their own, and in all so many: the others are counted by state. */
const IN_A_CELL = 24;
const IN_ALL = 2000;

/** What rows and columns stand for: by the address, by what was chosen last, or as usual. @param {Member[]} members
 * @param {URLSearchParams} query @returns {Axes} */
export function chosenAxes(members, query) {
  const known = axesOf(members);
  const usual = usualAxes(members);
  const kept = remembered();
  const one = (/** @type {string | null} */ named, /** @type {unknown} */ last, /** @type {string} */ otherwise) =>
    [named, last].find((axis) => typeof axis === "string" && known.includes(axis)) ?? otherwise;
  return {
    rows: /** @type {string} */ (one(query.get("rows"), kept.rows, usual.rows)),
    columns: /** @type {string} */ (one(query.get("columns"), kept.columns, usual.columns)),
  };
}

/** @returns {{rows?: unknown, columns?: unknown}} */
function remembered() {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? "{}") ?? {};
  } catch {
    return {}; // somebody else's text
  }
}

/** @param {{members: Member[], all: Member[], blocked: Map<string, Member[]>, axes: Axes, open: string, now: number, href: (changes: Record<string, string>) => string, refresh: () => void}} properties */
export function Matrix({ members, all, blocked, axes, open, now, href, refresh }) {
  const drawn = useMemo(() => grid(members, axes, open, href), [members, axes.rows, axes.columns, open]);
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    // Its cause covers the lower part of the window: the mark is to be seen above it.
    frame.current?.querySelector(".mark[aria-current]")?.scrollIntoView({ block: "center", inline: "nearest" });
  }, [open]);
  const opened = open ? all.find(({ status }) => status.taskId === open) : undefined;
  return html`<${AxisChoice} members=${all} axes=${axes} />
    <div ref=${frame}>${drawn}</div>
    ${opened && html`<div class="docked"><${Look} key=${open} member=${opened} members=${all} blocked=${blocked} now=${now} close=${() => setQuery({ open: "" })} refresh=${refresh} /></div>`}`;
}

/** @param {{members: Member[], axes: Axes}} properties */
function AxisChoice({ members, axes }) {
  const options = useMemo(() => axesOf(members), [members]);
  const choose = (/** @type {Partial<Axes>} */ change) => {
    localStorage.setItem(KEY, JSON.stringify({ ...axes, ...change }));
    setQuery({ ...change, row: "", column: "" });
  };
  const select = (/** @type {keyof Axes} */ axis, /** @type {string} */ label) =>
    html`<label>${label} <select value=${axes[axis]} onChange=${(/** @type {any} */ event) => choose({ [axis]: event.target.value })}>
      ${options.map((one) => html`<option key=${one} value=${one}>${titleOf(one)}</option>`)}
    </select></label>`;
  return html`<div class="buttons axes">${select("rows", "Rows")} ${select("columns", "Columns")}
    <span class="reason legend" aria-hidden="true">${Object.entries(SIGNS).map(([word, sign]) => html`<span key=${word}>${sign} ${word}</span> `)}</span></div>`;
}

/** @param {Member[]} members @param {Axes} axes @param {string} open @param {(changes: Record<string, string>) => string} href */
function grid(members, axes, open, href) {
  const { rows, columns, cell } = matrixOf(members, axes, MOST_COLUMNS);
  const shown = rows.slice(0, MOST_ROWS);
  const most = Math.max(2, Math.min(IN_A_CELL, Math.floor(IN_ALL / (shown.length * columns.length || 1))));
  const list = (/** @type {Record<string, string>} */ changes) =>
    href({ rows: axes.rows, columns: axes.columns, row: "", column: "", open: "", ...changes, view: "list" });
  return html`<div class="table-frame"><table class=${columns.length > HORIZONTAL ? "matrix turned" : "matrix"}>
    <caption class="visually-hidden">Tasks by ${titleOf(axes.rows)} and ${titleOf(axes.columns)}</caption>
    <thead><tr><th scope="col">${titleOf(axes.rows)}</th>${columns.map((column) => html`<th scope="col" key=${column}>${column === OTHERS ? html`<span>${column}</span>` : html`<a href=${list({ column })}>${column}</a>`}</th>`)}</tr></thead>
    <tbody>${shown.map(
      ({ value, tasks, wrong }) => html`<tr key=${value}>
        <th scope="row"><a href=${list({ row: value })}>${value}</a> <span class="reason">${wrong > 0 ? html`<strong class="state failed">${wrong.toLocaleString()}</strong> of ` : ""}${tasks.toLocaleString()}</span></th>
        ${columns.map((column) => html`<td key=${column}>${marks(cell(value, column), most, open, href, (/** @type {Record<string, string>} */ changes) => list({ row: value, column: column === OTHERS ? "" : column, ...changes }))}</td>`)}
      </tr>`,
    )}</tbody>
  </table></div>
  ${rows.length > MOST_ROWS && html`<p class="empty">And ${counted(rows.length - MOST_ROWS, "row")} more: filter by name or task queue.</p>`}`;
}

/** @param {Member[]} members @param {number} most @param {string} open
 * @param {(changes: Record<string, string>) => string} href @param {(changes: Record<string, string>) => string} list
 */
function marks(members, most, open, href, list) {
  const single = members.length <= most ? members.length : members.slice(0, most).filter(isUrgent).length;
  /** @type {Map<string, {sign: string, state: string, count: number}>} */
  const rest = new Map();
  for (const { status } of members.slice(single)) {
    const sign = signOf(status);
    const one = rest.get(sign) ?? { sign, state: shownState(status), count: 0 };
    one.count += 1;
    rest.set(sign, one);
  }
  return html`<span class="marks">
    ${members.slice(0, single).map(({ task, status }) => {
      const state = shownState(status);
      const label = `${named(task)} ${state}`;
      const isOpen = status.taskId === open;
      return html`<a key=${status.taskId} class=${`mark ${state}`} href=${href({ open: isOpen ? "" : status.taskId })} title=${label} aria-label=${label} aria-current=${isOpen ? "true" : undefined}>${signOf(status)}</a>`;
    })}
    ${[...rest.values()].map(({ sign, state, count }) => html`<a key=${sign} class=${`mark many ${state}`} href=${list({ state })} aria-label=${`${counted(count, "task")} ${state}`}>${sign} ${count.toLocaleString()}</a>`)}
  </span>`;
}

/** Shown by itself in a cell of many. @param {Member} member */
const isUrgent = ({ status }) => isWrong(status) || status.state === "running";
