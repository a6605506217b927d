// Whether what is shown is fresh, and the service well. A verdict that nobody has just given is none.

import { heard } from "../core/api.js";
import { now } from "../core/clock.js";
import { html, useEffect, useRef } from "../core/html.js";
import { liveness } from "../core/live.js";
import { useNow, usePolled } from "../core/polling.js";
import { health } from "../core/queue.js";
import { duration, ofDay, useTimes } from "../core/time.js";

/** Longer than a page on which nothing happens rests between two looks: an older verdict is none. */
const KEPT = 75_000;
/** From then on, so within ten seconds, a page says that nothing was heard; what is older has its age. */
const FRESH = 9000;

/** What is to be said of the page, each second anew. */
function useLiveness() {
  const time = useNow();
  const found = liveness();
  return { ...found, time, silence: navigator.onLine ? found.silence : "This browser is offline." };
}

/** As of when what the page shows is; where it is long, how long ago that was, or nothing was heard of the service. */
export function AsOf() {
  const { at, time } = useLiveness();
  useTimes();
  const quiet = performance.now() - heard.at;
  const age = quiet > FRESH ? `, nothing heard for ${duration(quiet)}` : time - at > FRESH ? `, ${duration(time - at)} ago` : ""; // prettier-ignore
  return at > 0 && html`<span class="reason as-of">as of <time>${ofDay(at)}</time>${age}</span>`;
}

/** That the service does not answer. */
export function Silence() {
  const { silence, since, time } = useLiveness();
  if (!silence) return null;
  const shown =
    since > 0 ? `What is shown is as of ${ofDay(since)}, ${duration(time - since)} ago.` : "Nothing has been read yet.";
  return html`<div class="notice critical silence" role="alert"><p><strong>No answer from the service.</strong> ${silence} ${shown} It is asked again automatically.</p>
    <button type="button" onClick=${() => dispatchEvent(new Event("online"))}>Ask now</button></div>`;
}

/** That something is followed; not while that has no answer. @param {{reader: ReturnType<typeof import("../core/live.js").useReader>}} properties */
export function Live({ reader }) {
  useNow();
  return html`<span class=${reader.isSilent() ? "reason" : "live"} role="status">${reader.isSilent() ? "no answer" : "live"}</span>`;
}

/** @typedef {import("../core/types").Finding} FindingOf */

/** The verdict on the service, and when it was given, if that is no longer now. @param {number} [steady] milliseconds
 * between two looks, also when nothing changes */
export function useVerdict(steady) {
  const answered = useRef(0);
  const polled = usePolled(
    async (signal) => {
      const found = await health({ signal });
      answered.current = now();
      return found;
    },
    [],
    { interval: steady ?? 30_000, ...(steady ? { longest: steady } : {}) },
  );
  const { silence, time } = useLiveness();
  useEffect(() => {
    if (silence) polled.refresh();
  }, [silence !== ""]);
  const findings = polled.data?.findings;
  const age = time - answered.current;
  const isKept = !polled.error && age < KEPT;
  const isRefused = /** @type {{status?: number} | undefined} */ (polled.error)?.status === 403;
  const asked = !isRefused && (polled.data !== undefined || polled.error !== undefined);
  const at = age < FRESH ? "" : ofDay(answered.current);
  return { findings: findings && isKept && (findings.length > 0 || !silence) ? findings : null, at, asked };
}

/** That there is no verdict. */
export const NoVerdict = () =>
  html`<p class="notice warning" role="status">The state of the service is unknown: it has not answered lately.</p>`;

/** What is wrong with the service, and what to do about it; for operators, with which command.
 * @param {{of: FindingOf[], at: string, operator?: boolean, children?: any}} properties `at`: as of when, if not now */
export const Findings = ({ of, at, operator = false, children }) =>
  html`<ul class=${`notice ${of.some(({ severity }) => severity === "critical") ? "critical" : "warning"}`} aria-label="Health">
    ${at && html`<li class="reason">As of ${at}:</li>`}
    ${of.map((finding) => html`<${Finding} key=${finding.code} finding=${finding} operator=${operator} />`)}${children}
  </ul>`;

/** @param {{finding: FindingOf, operator: boolean}} properties */
const Finding = ({ finding: { code, message, remedy, command }, operator }) =>
  html`<li><p>${message}${code === "task-queues-stalled" && html` <a href="/provisioners">Task queues</a>`}</p>
    <p class="reason">${remedy}${operator && command && html` <code>${command}</code>`}</p></li>`;
