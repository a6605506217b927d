// The lines of a log: numbered, coloured, and only those in view are in the document.

import { html, useState } from "../core/html.js";
import { colored } from "./ansi.js";

export const LINE_HEIGHT = 18;
const MARGIN = 30;

/**
 * @param {{frame: {current: HTMLDivElement | null}, lines: string[], before: number | null, range: [number, number] | null, marked: number,
 *   choose: (line: number, extend: boolean) => void, scrolled: () => void}} properties
 *   `before` is the number of lines that come before the first of these; null if that is not known: then none is numbered
 */
export function LogLines({ frame, lines, before, range, marked, choose, scrolled }) {
  const [top, setTop] = useState(0);
  // Listens from the moment when the element is there: it is scrolled to the end or to a line before it is painted.
  const onScroll = (/** @type {any} */ event) => {
    setTop(Math.floor(event.currentTarget.scrollTop / LINE_HEIGHT));
    scrolled();
  };
  const first = Math.max(0, Math.min(top, lines.length) - MARGIN);
  const shown = lines.slice(first, first + Math.ceil(innerHeight / LINE_HEIGHT) + 2 * MARGIN);
  const lineClass = (/** @type {number} */ place, /** @type {number} */ line) =>
    `line${range && line >= range[0] && line <= range[1] ? " chosen" : ""}${place === marked ? " marked" : ""}`;
  return html`<div class="log" ref=${frame} onScroll=${onScroll} tabindex="0" role="region" aria-label="Log">
    <div style=${{ height: `${lines.length * LINE_HEIGHT}px` }}>
      <div style=${{ transform: `translateY(${first * LINE_HEIGHT}px)` }}>
        ${shown.map((text, index) => {
          const place = first + index + 1;
          if (before === null)
            return html`<div key=${place} class=${lineClass(place, 0)}><span class="text">${colored(text)}</span></div>`;
          const line = before + place;
          const click = (/** @type {MouseEvent} */ event) => {
            event.preventDefault();
            choose(line, event.shiftKey);
          };
          return html`<div key=${line} class=${lineClass(place, line)}><a class="number" href=${`#L${line}`} onClick=${click}>${line}</a><span class="text">${colored(text)}</span></div>`;
        })}
      </div>
    </div>
  </div>`;
}
