// How old what a page shows is, and whether the service answers it: every reader of the page tells.

import { ApiError, call, heard } from "./api.js";
import { now } from "./clock.js";
import { useEffect, useRef, useState } from "./html.js";

/** So long a reader waits before the page says that it has no answer; what asks for nothing else waits shorter. */
const SILENT = 8000;
const SILENT_PING = 4500;
/** Who uses a page gets an answer to something so often. */
const USED = 4500;

/** @typedef {object} Reader
 * @property {number} asked when it asked what has not been answered yet, by `performance.now()`; 0: nothing
 * @property {number} at when it was answered last, by the service's clock; 0: never
 * @property {Error | null} error of its last attempt, if that failed
 * @property {number} patience milliseconds */

/** @type {Set<Reader>} */
const readers = new Set();

/** A reader for as long as the component is shown. */
export function useReader() {
  const [reader] = useState(() => /** @type {Reader} */ ({ asked: 0, at: 0, error: null, patience: SILENT }));
  useEffect(() => () => void readers.delete(reader), []);
  return useRef({
    asks: () => {
      readers.add(reader);
      reader.asked ||= performance.now();
    },
    /** It shows what was so at that time. */
    answered: (at = now()) => void Object.assign(reader, { asked: 0, at, error: null }),
    failed: (/** @type {Error} */ error) => void Object.assign(reader, { asked: 0, error }),
    rests: () => void (reader.asked = 0),
    isSilent: () => isSilent(reader),
    /** It has read all that there is: what it shows grows no older. */
    ends: () => {
      reader.asked = 0;
      readers.delete(reader);
    },
  }).current;
}

/** Asks whether the service and its storage answer, and shows nothing. @type {Reader} */
const pulse = { asked: 0, at: 0, error: null, patience: SILENT_PING };
/** Of what is then silent, what keeps no call from being answered. */
const HARMLESS = /: Service Bus$/;

/** Ask for a sign of life when somebody uses a page that has read nothing for some seconds: a quiet page reads once a
 * minute. The service asks its storage at most once in two seconds, for all who ask. A silent one is asked again and
 * again, and what the page shows is read anew once it answers. */
export function askWhileUsed() {
  let [last, timer] = [0, 0];
  const failed = (/** @type {Error} */ error) => (HARMLESS.test(error.message) ? null : error);
  const ask = async () => {
    clearTimeout(timer);
    const wait = Math.max(pulse.error ? 0 : heard.at, last) + USED - performance.now();
    if (document.hidden || readers.size === 0) return void (pulse.error = null);
    if (pulse.asked > 0) return;
    if (wait > 0) return void (timer = setTimeout(ask, wait));
    last = pulse.asked = performance.now();
    const was = pulse.error;
    const beat = call("/api/queue/v1/__heartbeat__", { credentials: null, attempts: 2 });
    pulse.error = await beat.then(() => null, failed);
    pulse.asked = 0;
    if (pulse.error) timer = setTimeout(ask, USED);
    else if (was) dispatchEvent(new Event("online"));
  };
  for (const used of ["pointermove", "pointerdown", "keydown", "wheel"]) addEventListener(used, ask, { passive: true });
  addEventListener("online", ask);
}

/** Whether an error is that there was no answer, which may pass. @param {unknown} error */
export const isSilence = (error) => error instanceof ApiError && (error.status === 0 || error.status >= 500);

/** @param {Reader} reader */
const isSilent = ({ asked, error, patience }) =>
  isSilence(error) || (asked > 0 && performance.now() - asked > patience);

/** What is to be said of the page now: as of when what it shows is, and why the service is taken to be silent, if it
 * is.
 * @returns {{at: number, silence: string, since: number}} `since`: the last answer that a silent reader got; 0: none */
export function liveness() {
  const all = [...readers];
  const silent = [...all, pulse].filter(isSilent);
  const oldest = (/** @type {Reader[]} */ of) => of.map(({ at }) => at).filter(Boolean).sort((a, b) => a - b)[0] ?? 0; // prettier-ignore
  const reason = silent.find(({ error }) => error)?.error?.message.replace(/^[a-z]/, (first) => first.toUpperCase());
  return {
    at: oldest(all),
    silence: silent.length === 0 ? "" : (reason?.replace(/[^.?!]$/, "$&.") ?? "It has not answered for some seconds."),
    since: oldest(silent.includes(pulse) ? all : silent),
  };
}
