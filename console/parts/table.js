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
 *   selected?: Set<string>, onSelect?: (selected: Set<string>) => void, rowClass?: (row: T) => string}} properties
 *   `sort` is the key of a column, with a minus in front for the other direction
 */
export function Table({ rows, columns, id, caption, sort = "", onSort, selected, onSelect, rowClass }) {
  const ordered = useMemo(() => sorted(rows, columns, sort), [rows, columns, sort]);
  const { element, first, last } = useWindow(ordered.length);
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
        ${columns.map((column) => html`<${Head} key=${column.key} column=${column} sort=${sort} onSort=${onSort} />`)}
      </tr></thead>
      <tbody>
        ${first > 0 && html`<tr key="above" aria-hidden="true" class="spacer"><td style=${{ height: `${first * ROW_HEIGHT}px` }}></td></tr>`}
        ${ordered.slice(first, last).map((row, index) => {
          const key = id(row);
          return html`<tr key=${key} aria-rowindex=${first + index + 2} class=${rowClass?.(row)}>
            ${
              selected &&
              html`<td class="tick"><input type="checkbox" aria-label=${`Select ${key}`} checked=${selected.has(key)}
              onChange=${() => toggle([key], !selected.has(key))} /></td>`
            }
            ${columns.map((column) => html`<td key=${column.key} class=${column.class}>${column.cell(row)}</td>`)}
          </tr>`;
        })}
        ${
          last < ordered.length &&
          html`<tr key="below" aria-hidden="true" class="spacer"><td style=${{ height: `${(ordered.length - last) * ROW_HEIGHT}px` }}></td></tr>`
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
 * Which rows are near the window.
 * @param {number} count
 */
function useWindow(count) {
  const element = useRef(/** @type {HTMLTableElement | null} */ (null));
  const [range, setRange] = useState({ first: 0, last: 60 });
  useEffect(() => {
    const update = () => {
      const top = element.current?.getBoundingClientRect().top ?? 0;
      const first = Math.max(0, Math.floor(-top / ROW_HEIGHT) - MARGIN);
      const last = first + Math.ceil(innerHeight / ROW_HEIGHT) + 2 * MARGIN;
      setRange((old) =>
        Math.abs(old.first - first) < MARGIN / 2 && old.last >= last - MARGIN / 2 ? old : { first, last },
      );
    };
    update();
    addEventListener("scroll", update, { passive: true });
    addEventListener("resize", update);
    return () => {
      removeEventListener("scroll", update);
      removeEventListener("resize", update);
    };
  }, [count]);
  const first = Math.min(range.first, Math.max(0, count - 1));
  return { element, first, last: Math.min(range.last, count) };
}
