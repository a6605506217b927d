// A table of any length: sorted by a click, and only the rows in view are in the document. On a phone each row is a card.

import { html, useEffect, useMemo, useRef, useState } from "../core/html.js";
import { NARROW } from "./controls.js";

const ROW_HEIGHT = 34;
/** Of a row that is a card, in a table of which only a part is in the document: as in style.css. */
const CARD_HEIGHT = 106;
const MARGIN = 12;
/** A table of so few rows is in the document as a whole. */
const FEW = 60;

/** @template T @typedef {object} Column @property {string} key @property {any} title @property {(row: T) => any} cell
 * @property {(row: T) => string | number} [sort] what rows are ordered by @property {string} [class] */
/** @template T @typedef {(key: string, title: any, cell: (row: T) => any, more?: {sort?: (row: T) => string | number,
 * class?: string}) => Column<T>} ColumnOf */

/** A column; its callers say of which rows. @type {ColumnOf<any>} */
export const columnOf = (key, title, cell, more = {}) => ({ key, title, cell, ...more });

/** @template T @param {{rows: T[], columns: Column<T>[], id: (row: T) => string, caption: string, sort?: string,
 * onSort?: (sort: string) => void, selected?: Set<string>, onSelect?: (selected: Set<string>) => void, rowClass?: (row:
 * T) => string, name?: (row: T) => string, detail?: (row: T) => any, opened?: string, onOpen?: (id: string) => void}}
 * properties `sort` is the key of a column, with a minus in front for the other direction; `detail` is shown below the
 * row whose id is `opened`, which a button changes that is labelled with `name` */
export function Table({
  rows,
  columns,
  id,
  caption,
  sort = "",
  onSort,
  selected,
  onSelect,
  rowClass,
  name,
  detail,
  opened = "",
  onOpen,
}) {
  const ordered = useMemo(() => sorted(rows, columns, sort), [rows, columns, sort]);
  const openAt = useMemo(() => (opened ? ordered.findIndex((row) => id(row) === opened) : -1), [ordered, opened]);
  const detailRow = useRef(/** @type {HTMLTableRowElement | null} */ (null));
  const { element, first, last, above, below } = useWindow(ordered.length, openAt, detailRow);
  const pressed = useRef(""); // from where a click with the shift key selects
  useOpenedInView(element, opened, openAt);
  const width = columns.length + (selected ? 1 : 0) + (detail ? 1 : 0);
  const all = selected !== undefined && rows.length > 0 && rows.every((row) => selected.has(id(row)));
  const toggle = (/** @type {string[]} */ ids, /** @type {boolean} */ on) => {
    const next = new Set(selected);
    for (const one of ids) on ? next.add(one) : next.delete(one);
    onSelect?.(next);
  };
  const press = (/** @type {MouseEvent} */ event, /** @type {string} */ key, /** @type {number} */ at) => {
    const from = event.shiftKey ? ordered.findIndex((row) => id(row) === pressed.current) : -1;
    const rows = from < 0 ? [key] : ordered.slice(Math.min(from, at), Math.max(from, at) + 1).map(id);
    toggle(rows, !selected?.has(key));
    pressed.current = key;
  };
  return html`<div class=${`table-frame cards${ordered.length > FEW ? " long" : ""}`}>
    <table ref=${element} role="table" aria-rowcount=${ordered.length + 1}>
      <caption class="visually-hidden">${caption}</caption>
      <thead role="rowgroup"><tr role="row">
        ${
          selected &&
          html`<th scope="col" role="columnheader" class="tick"><input type="checkbox" aria-label="Select all that are listed" checked=${all}
          onChange=${() => toggle(rows.map(id), !all)} /></th>`
        }
        ${detail && html`<th scope="col" role="columnheader" class="tick"><span class="visually-hidden">Open</span></th>`}
        ${columns.map((column) => html`<${Head} key=${column.key} column=${column} sort=${sort} onSort=${onSort} />`)}
      </tr></thead>
      <tbody role="rowgroup">
        ${first > 0 && html`<tr key="above" aria-hidden="true" class="spacer"><td style=${{ height: `${above}px` }}></td></tr>`}
        ${ordered.slice(first, last).map((row, index) => {
          const key = id(row);
          const isOpen = first + index === openAt;
          const line = html`<tr key=${key} role="row" aria-rowindex=${first + index + 2} class=${rowClass?.(row)}>
            ${
              selected &&
              html`<td role="cell" class="tick"><input type="checkbox" aria-label=${`Select ${name?.(row) ?? key}`} title="With Shift: all from the one before" checked=${selected.has(key)}
              onClick=${(/** @type {MouseEvent} */ event) => press(event, key, first + index)} /></td>`
            }
            ${detail && html`<td role="cell" class="tick"><button type="button" class="quiet" aria-expanded=${isOpen} aria-label=${`Look at ${name?.(row) ?? key}`} onClick=${() => onOpen?.(isOpen ? "" : key)}>${isOpen ? "▾" : "▸"}</button></td>`}
            ${columns.map((column) => html`<td key=${column.key} role="cell" data-title=${column.title} class=${column.class}>${column.cell(row)}</td>`)}
          </tr>`;
          if (!isOpen || !detail) return line;
          return [
            line,
            html`<tr key=${`${key}/detail`} ref=${detailRow} role="row" class="detail"><td role="cell" colspan=${width}><div class="detail-frame">${detail(row)}</div></td></tr>`,
          ];
        })}
        ${
          last < ordered.length &&
          html`<tr key="below" aria-hidden="true" class="spacer"><td style=${{ height: `${below}px` }}></td></tr>`
        }
      </tbody>
    </table>
  </div>`;
}

/** @param {{column: Column<any>, sort: string, onSort?: (sort: string) => void}} properties */
function Head({ column, sort, onSort }) {
  const direction = sort === column.key ? "ascending" : sort === `-${column.key}` ? "descending" : undefined;
  if (!column.sort || !onSort)
    return html`<th scope="col" role="columnheader" class=${column.class}>${column.title}</th>`;
  return html`<th scope="col" role="columnheader" class=${column.class} aria-sort=${direction}>
    <button type="button" class="sort" onClick=${() => onSort(direction === "ascending" ? `-${column.key}` : column.key)}>
      ${column.title}<span aria-hidden="true">${direction ? (direction === "ascending" ? " ▲" : " ▼") : ""}</span>
    </button>
  </th>`;
}

/** @template T @param {T[]} rows @param {Column<T>[]} columns @param {string} sort */
function sorted(rows, columns, sort) {
  const by = columns.find((column) => column.key === sort.replace(/^-/, ""))?.sort;
  if (!by) return rows;
  const sign = sort.startsWith("-") ? -1 : 1;
  const keyed = rows.map((row) => ({ row, value: by(row) }));
  keyed.sort((a, b) => (a.value < b.value ? -sign : a.value > b.value ? sign : 0));
  return keyed.map(({ row }) => row);
}

/** Scroll to a row that is opened by an address, or by a link elsewhere on the page.
 * @param {{current: HTMLTableElement | null}} element @param {string} opened @param {number} at */
function useOpenedInView(element, opened, at) {
  useEffect(() => {
    if (at < 0 || !element.current) return;
    const row = rowHeight();
    const top = element.current.getBoundingClientRect().top + (at + 1) * row;
    if (top < 0 || top > innerHeight / 2) scrollTo(0, scrollY + top - innerHeight / 3);
  }, [opened, at >= 0]);
}

const rowHeight = () => (matchMedia(NARROW).matches ? CARD_HEIGHT : ROW_HEIGHT);

/** Which rows are near the window. @param {number} count
 * @param {number} openAt the row below which there is a detail; -1: none @param {{current: HTMLElement | null}} detail
 */
function useWindow(count, openAt, detail) {
  const element = useRef(/** @type {HTMLTableElement | null} */ (null));
  const height = useRef(0); // of the detail, when it was in the document last
  const [range, setRange] = useState({ first: 0, last: 60 });
  useEffect(() => {
    if (count <= FEW) return setRange({ first: 0, last: FEW });
    const update = () => {
      const row = rowHeight();
      if (openAt < 0) height.current = 0;
      else if (detail.current) height.current = detail.current.getBoundingClientRect().height;
      const above = -(element.current?.getBoundingClientRect().top ?? 0);
      const below = (openAt + 1) * row;
      const rows = openAt < 0 || above <= below ? above : Math.max(below, above - height.current);
      const first = Math.max(0, Math.floor(rows / row) - MARGIN);
      const last = first + Math.ceil(innerHeight / row) + 2 * MARGIN;
      setRange((old) => {
        const isNear = Math.abs(old.first - first) < MARGIN / 2 && old.last >= last - MARGIN / 2;
        // Near the top nothing of the margin is left above the window: the first rows must be there.
        return isNear && (first > 0 || old.first === 0) ? old : { first, last };
      });
    };
    update();
    addEventListener("scroll", update, { passive: true });
    addEventListener("resize", update);
    return () => {
      removeEventListener("scroll", update);
      removeEventListener("resize", update);
    };
  }, [count, openAt]);
  const first = Math.min(range.first, Math.max(0, count - 1));
  const last = Math.min(range.last, count);
  // A detail that is out of view, and not in the document, has its place all the same.
  return {
    element,
    first,
    last,
    above: first * rowHeight() + (openAt >= 0 && openAt < first ? height.current : 0),
    below: (count - last) * rowHeight() + (openAt >= last ? height.current : 0),
  };
}
