// A table of any length: sorted by a click, and only the rows in view are in the document.

import { html, useEffect, useMemo, useRef, useState } from "../core/html.js";

const ROW_HEIGHT = 34;
const MARGIN = 12;

/**
 * @template T
 * @typedef {object} Column
 * @property {string} key
 * @property {any} title
 * @property {(row: T) => any} cell
 * @property {(row: T) => string | number} [sort] what rows are ordered by
 * @property {string} [class]
 */

/**
 * @template T
 * @param {{rows: T[], columns: Column<T>[], id: (row: T) => string, caption: string, sort?: string, onSort?: (sort: string) => void,
 *   selected?: Set<string>, onSelect?: (selected: Set<string>) => void, rowClass?: (row: T) => string,
 *   name?: (row: T) => string, detail?: (row: T) => any, opened?: string, onOpen?: (id: string) => void}} properties
 *   `sort` is the key of a column, with a minus in front for the other direction; `detail` is shown below the row whose id is
 *   `opened`, which a button changes that is labelled with `name`
 */
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
  useOpenedInView(element, opened, openAt);
  const width = columns.length + (selected ? 1 : 0) + (detail ? 1 : 0);
  const all = selected !== undefined && rows.length > 0 && rows.every((row) => selected.has(id(row)));
  const toggle = (/** @type {string[]} */ ids, /** @type {boolean} */ on) => {
    const next = new Set(selected);
    for (const one of ids) on ? next.add(one) : next.delete(one);
    onSelect?.(next);
  };
  return html`<div class="table-frame">
    <table ref=${element} aria-rowcount=${ordered.length + 1}>
      <caption class="visually-hidden">${caption}</caption>
      <thead><tr>
        ${
          selected &&
          html`<th scope="col" class="tick"><input type="checkbox" aria-label="Select all that are listed" checked=${all}
          onChange=${() => toggle(rows.map(id), !all)} /></th>`
        }
        ${detail && html`<th scope="col" class="tick"><span class="visually-hidden">Open</span></th>`}
        ${columns.map((column) => html`<${Head} key=${column.key} column=${column} sort=${sort} onSort=${onSort} />`)}
      </tr></thead>
      <tbody>
        ${first > 0 && html`<tr key="above" aria-hidden="true" class="spacer"><td style=${{ height: `${above}px` }}></td></tr>`}
        ${ordered.slice(first, last).map((row, index) => {
          const key = id(row);
          const isOpen = first + index === openAt;
          const line = html`<tr key=${key} aria-rowindex=${first + index + 2} class=${rowClass?.(row)}>
            ${
              selected &&
              html`<td class="tick"><input type="checkbox" aria-label=${`Select ${key}`} checked=${selected.has(key)}
              onChange=${() => toggle([key], !selected.has(key))} /></td>`
            }
            ${detail && html`<td class="tick"><button type="button" class="quiet" aria-expanded=${isOpen} aria-label=${`Look at ${name?.(row) ?? key}`} onClick=${() => onOpen?.(isOpen ? "" : key)}>${isOpen ? "▾" : "▸"}</button></td>`}
            ${columns.map((column) => html`<td key=${column.key} class=${column.class}>${column.cell(row)}</td>`)}
          </tr>`;
          if (!isOpen || !detail) return line;
          return [
            line,
            html`<tr key=${`${key}/detail`} ref=${detailRow} class="detail"><td colspan=${width}><div class="detail-frame">${detail(row)}</div></td></tr>`,
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
  if (!column.sort || !onSort) return html`<th scope="col" class=${column.class}>${column.title}</th>`;
  return html`<th scope="col" class=${column.class} aria-sort=${direction}>
    <button type="button" class="sort" onClick=${() => onSort(direction === "ascending" ? `-${column.key}` : column.key)}>
      ${column.title}<span aria-hidden="true">${direction ? (direction === "ascending" ? " ▲" : " ▼") : ""}</span>
    </button>
  </th>`;
}

/**
 * @template T
 * @param {T[]} rows
 * @param {Column<T>[]} columns
 * @param {string} sort
 */
function sorted(rows, columns, sort) {
  const by = columns.find((column) => column.key === sort.replace(/^-/, ""))?.sort;
  if (!by) return rows;
  const sign = sort.startsWith("-") ? -1 : 1;
  const keyed = rows.map((row) => ({ row, value: by(row) }));
  keyed.sort((a, b) => (a.value < b.value ? -sign : a.value > b.value ? sign : 0));
  return keyed.map(({ row }) => row);
}

/**
 * Scroll to a row that is opened by an address, or by a link elsewhere on the page.
 * @param {{current: HTMLTableElement | null}} element
 * @param {string} opened
 * @param {number} at
 */
function useOpenedInView(element, opened, at) {
  useEffect(() => {
    if (at < 0 || !element.current) return;
    const top = element.current.getBoundingClientRect().top + (at + 1) * ROW_HEIGHT;
    if (top < 0 || top > innerHeight - 3 * ROW_HEIGHT) scrollTo(0, scrollY + top - innerHeight / 3);
  }, [opened, at >= 0]);
}

/**
 * Which rows are near the window.
 * @param {number} count
 * @param {number} openAt the row below which there is a detail; -1: none
 * @param {{current: HTMLElement | null}} detail
 */
function useWindow(count, openAt, detail) {
  const element = useRef(/** @type {HTMLTableElement | null} */ (null));
  const height = useRef(0); // of the detail, when it was in the document last
  const [range, setRange] = useState({ first: 0, last: 60 });
  useEffect(() => {
    const update = () => {
      if (openAt < 0) height.current = 0;
      else if (detail.current) height.current = detail.current.getBoundingClientRect().height;
      const above = -(element.current?.getBoundingClientRect().top ?? 0);
      const below = (openAt + 1) * ROW_HEIGHT;
      const rows = openAt < 0 || above <= below ? above : Math.max(below, above - height.current);
      const first = Math.max(0, Math.floor(rows / ROW_HEIGHT) - MARGIN);
      const last = first + Math.ceil(innerHeight / ROW_HEIGHT) + 2 * MARGIN;
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
    above: first * ROW_HEIGHT + (openAt >= 0 && openAt < first ? height.current : 0),
    below: (count - last) * ROW_HEIGHT + (openAt >= last ? height.current : 0),
  };
}
