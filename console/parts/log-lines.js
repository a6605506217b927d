// The lines of a log: numbered, coloured, and only those in view are in the document.

import { html, useEffect, useMemo, useState } from "../core/html.js";
import { colored, plain } from "./ansi.js";

export const LINE_HEIGHT = 18;
const MARGIN = 30;
/** The width of a number's place, as in style.css, and what the frame itself takes. */
const NUMBERS = 84;
const OF_A_ROW = 100;

/** Places of lines that are not wrapped. */
export const ONE_ROW_EACH = {
  top: (/** @type {number} */ at) => at * LINE_HEIGHT,
  at: (/** @type {number} */ y) => Math.floor(y / LINE_HEIGHT),
};

/** Where lines are, in pixels from the top: each is one row, or as many as it takes where it is wrapped.
 * @param {string[]} lines @param {{current: HTMLElement | null}} frame @param {boolean} wrap */
export function usePlaces(lines, frame, wrap) {
  const [columns, setColumns] = useState(0);
  useEffect(() => {
    if (!wrap || !frame.current) return undefined;
    const element = frame.current;
    const probe = document.createElement("span");
    probe.textContent = "0".repeat(OF_A_ROW);
    const measure = () => {
      element.append(probe);
      const width = probe.getBoundingClientRect().width / OF_A_ROW;
      probe.remove();
      setColumns(Math.max(20, Math.floor((element.clientWidth - NUMBERS) / width)));
    };
    const watch = new ResizeObserver(measure);
    watch.observe(element);
    return () => watch.disconnect();
  }, [wrap, lines.length > 0]);
  return useMemo(() => {
    if (!wrap || columns === 0) return ONE_ROW_EACH;
    const tops = new Float64Array(lines.length + 1);
    lines.forEach((line, at) => {
      tops[at + 1] = (tops[at] ?? 0) + Math.max(1, Math.ceil(plain(line).length / columns)) * LINE_HEIGHT;
    });
    return {
      top: (/** @type {number} */ at) => tops[Math.min(at, lines.length)] ?? 0,
      at: (/** @type {number} */ y) => Math.max(0, tops.findIndex((top) => top > y) - 1),
    };
  }, [lines, lines.length, wrap, columns]);
}

/** @param {{frame: {current: HTMLDivElement | null}, lines: string[], before: number | null, range: [number, number] |
 * null, marked: number, places: ReturnType<typeof usePlaces>, wrap?: boolean, choose: (line: number, extend: boolean)
 * => void, scrolled: () => void, label: string}} properties `before` is the number of lines that come before the first of these; null
 * if that is not known: then none is numbered */
export function LogLines({ frame, lines, before, range, marked, places, wrap = false, choose, scrolled, label }) {
  const [top, setTop] = useState(0);
  // Listens from the moment when the element is there: it is scrolled to the end or to a line before it is painted.
  const onScroll = (/** @type {any} */ event) => {
    setTop(Math.floor(event.currentTarget.scrollTop / LINE_HEIGHT) * LINE_HEIGHT);
    scrolled();
  };
  const first = Math.max(0, Math.min(places.at(top), lines.length) - MARGIN);
  const shown = lines.slice(first, first + Math.ceil(innerHeight / LINE_HEIGHT) + 2 * MARGIN);
  const row = (/** @type {string} */ text, /** @type {number} */ index) => {
    const place = first + index + 1;
    const line = before === null ? 0 : before + place;
    const name = `line${range && line >= range[0] && line <= range[1] ? " chosen" : ""}${place === marked ? " marked" : ""}`;
    const click = (/** @type {MouseEvent} */ event) => {
      event.preventDefault();
      choose(line, event.shiftKey);
    };
    return html`<div key=${place} class=${name}>${line > 0 && html`<a class="number" href=${`#L${line}`} onClick=${click}>${line}</a>`}<span class="text">${colored(text)}</span></div>`;
  };
  return html`<div class=${`log${wrap ? " wrap" : ""}`} ref=${frame} onScroll=${onScroll} tabindex="0" role="region" aria-label=${label}>
    <div style=${{ height: `${places.top(lines.length)}px` }}><div style=${{ transform: `translateY(${places.top(first)}px)` }}>${shown.map(row)}</div></div>
  </div>`;
}
