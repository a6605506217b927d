// The end of a run's log, as far as one needs it to see why the run failed: the first error, and the last lines.

import { html, useEffect, useMemo, useRef, useState } from "../core/html.js";
import { useReader } from "../core/live.js";
import { followLog } from "../core/log-source.js";
import { to } from "../core/router.js";
import { colored, plain } from "./ansi.js";

/** What is read at least of the end, where a part of the file can be read. */
const READ = 512 * 1024;
const BEFORE = 4;
const AFTER = 6;
const LAST = 8;
/** Without an error in it. */
const LAST_ALONE = 16;
/** So few lines are shown rather than left out. */
const LEAST_GAP = 3;
/** Of a longer line the beginning is shown; the page of the log has more of it. */
const LONGEST = 1000;

/** @typedef {import("../core/log-source.js").LogState} LogState */
/** @typedef {import("../core/log-cause.js").Cause} Cause */

/** The end of a log, followed while its run goes on. @param {{taskId: string, runId: number, name: string | undefined,
 * over?: boolean, keep?: number, attempt?: number}} of
 * no name: nothing is read; `over`: whether the run is resolved, where that is followed
 * @returns {{state: LogState | null, error: Error | null, reader: ReturnType<typeof useReader>}} */
export function useLogEnd({ taskId, runId, name, over, keep = READ, attempt }) {
  const [read, setRead] = useState(/** @type {{state: LogState | null, error: Error | null}} */ (NOTHING));
  const ended = useRef(over);
  const reader = useReader();
  ended.current = over;
  useEffect(() => {
    setRead(NOTHING);
    if (!name) return undefined;
    const control = new AbortController();
    const show = (/** @type {LogState} */ state) => {
      setRead({ state, error: null });
      if (state.ended) reader.ends();
      else reader.answered();
    };
    const fail = (/** @type {Error} */ error) => {
      if (control.signal.aborted) return;
      setRead(({ state }) => ({ state, error }));
      reader.failed(error);
    };
    const isOver = over === undefined ? undefined : () => ended.current === true;
    followLog({ taskId, runId, name, keep, over: isOver, asks: reader.asks }, show, fail, control.signal).catch(fail);
    return () => {
      control.abort();
      reader.ends();
    };
  }, [taskId, runId, name, attempt]);
  return { ...read, reader };
}

const NOTHING = { state: null, error: null };

/** Some lines of a log: around its first error, and its last ones. Each leads to its place in the log. @param {{state:
 * LogState, cause: Cause | null, href: string}} properties `cause`: what to mark; null: the last lines alone */
export function LogEnd({ state, cause, href }) {
  const { lines, before } = state;
  const marked = cause && cause.at >= 0 ? cause : null;
  const parts = useMemo(() => excerpt(lines.length, marked), [lines, marked?.at, marked?.to]);
  if (lines.length === 0) return html`<p class="empty">The log is empty${state.ended ? "" : " yet"}.</p>`;
  const line = (/** @type {number} */ place) => {
    const isMarked = marked !== null && place >= marked.at && place <= marked.to;
    const text = lines[place] ?? "";
    return html`<div key=${place} class=${`line${isMarked ? " cause" : ""}`}>
      ${before !== null && html`<a class="number" href=${`${href}#L${before + place + 1}`}>${before + place + 1}</a>`}<span class="text">${place === marked?.at && html`<span class="visually-hidden">First error: </span>`}${text.length > LONGEST ? `${plain(text).slice(0, LONGEST)} …` : colored(text)}</span>
    </div>`;
  };
  return html`<div class="log excerpt" tabindex="0" role="region" aria-label="End of the log">
    ${parts.map(({ from, to: end, skipped }) => html`${skipped > 0 && html`<div class="line gap" key=${`gap-${from}`}><span class="text">… ${skipped.toLocaleString()} lines</span></div>`}${Array.from({ length: end - from }, (_, at) => line(from + at))}`)}
  </div>`;
}

/** Where the log leads: to its first error, if that has a number. @param {{taskId: string, runId: number, name: string, live: boolean, state: LogState | null, cause: Cause | null}} of */
export function logHref({ taskId, runId, name, live, state, cause }) {
  const href = to.log(taskId, runId, name, live);
  return state && state.before !== null && cause && cause.at >= 0 ? `${href}#L${state.before + cause.at + 1}` : href;
}

/** Which lines are shown, as half-open ranges, and how many are left out before each. @param {number} count
 * @param {{at: number, to: number} | null} marked */
function excerpt(count, marked) {
  const last = Math.max(0, count - (marked ? LAST : LAST_ALONE));
  if (!marked) return [{ from: last, to: count, skipped: last }];
  const from = Math.max(0, Math.min(marked.at - BEFORE, last));
  const end = Math.min(count, marked.to + 1 + AFTER);
  if (end + LEAST_GAP >= last) return [{ from, to: count, skipped: from }];
  return [
    { from, to: end, skipped: from },
    { from: last, to: count, skipped: last - end },
  ];
}
