// Until when and why workers get no work: asked in the same words for one worker and for many.

import { now } from "../core/clock.js";
import { html, useState } from "../core/html.js";
import { quarantineWorker } from "../core/queue.js";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const FOR_EVER = 1000 * 365.25 * DAY;
const PAST = -1000;
const LONGEST_REASON = 4000;

/** For how long, in milliseconds, by what people choose. */
const SPANS = /** @type {const} */ ([
  ["until further notice", FOR_EVER],
  ["for an hour", HOUR],
  ["for a day", DAY],
  ["for a week", 7 * DAY],
]);

/** @typedef {{workerGroup: string, workerId: string}} Named */

/** What was chosen, and what changes it. */
export function useQuarantine() {
  const [reason, setReason] = useState("");
  const [span, setSpan] = useState(/** @type {string} */ (SPANS[0][0]));
  const set = (/** @type {string} */ taskQueueId, /** @type {Named} */ worker, /** @type {number} */ milliseconds) =>
    quarantineWorker(
      taskQueueId,
      worker.workerGroup,
      worker.workerId,
      new Date(now() + milliseconds).toISOString(),
      reason,
    );
  return {
    reason,
    setReason,
    span,
    setSpan,
    /** Give a worker no work until then. @param {string} taskQueueId @param {Named} worker */
    begin: (taskQueueId, worker) => set(taskQueueId, worker, SPANS.find(([name]) => name === span)?.[1] ?? FOR_EVER),
    /** Give a worker work again. @param {string} taskQueueId @param {Named} worker */
    end: (taskQueueId, worker) => set(taskQueueId, worker, PAST),
  };
}

/** What a quarantine needs to be said. @param {{of: ReturnType<typeof useQuarantine>}} properties */
export const QuarantineFields = ({ of: { reason, setReason, span, setSpan } }) =>
  html`<div class="fields">
    <label>Reason<input type="text" maxlength=${LONGEST_REASON} value=${reason} onInput=${(/** @type {any} */ event) => setReason(event.target.value)} /></label>
    <label>How long<select value=${span} onChange=${(/** @type {any} */ event) => setSpan(event.target.value)}>${SPANS.map(([name]) => html`<option key=${name}>${name}</option>`)}</select></label>
  </div>`;

/** Why a quarantine cannot begin; empty if it can. @param {ReturnType<typeof useQuarantine>} of */
export const lacks = ({ reason }) => (reason.trim() ? "" : "Give a reason for those who will ask");
