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

/** Asks whether anything answers, and shows nothing: it counts until something has. @type {Reader} */
const pulse = { asked: 0, at: 0, error: null, patience: SILENT_PING };

/** When that was asked last. */
let last = 0;

/** Ask the service for a sign of life, which is no work for its storage, when somebody uses a page that has read nothing
 * for some seconds: a quiet page reads once a minute. One that does not answer is asked again and again. */
export function askWhileUsed() {
  const ask = async () => {
    const began = performance.now();
    if (document.hidden || readers.size === 0 || pulse.asked > 0 || began - Math.max(heard.at, last) < USED) return;
    last = pulse.asked = began;
    try {
      await call("/api/queue/v1/ping", { credentials: null });
      pulse.error = null;
    } catch (error) {
      pulse.error = /** @type {Error} */ (error);
      setTimeout(ask, USED);
    }
    pulse.asked = 0;
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
  const silent = [...all, ...(heard.at < last ? [pulse] : [])].filter(isSilent);
  const oldest = (/** @type {Reader[]} */ of) => of.map(({ at }) => at).filter(Boolean).sort((a, b) => a - b)[0] ?? 0; // prettier-ignore
  const reason = silent.find(({ error }) => error)?.error?.message;
  return {
    at: oldest(all),
    silence: silent.length === 0 ? "" : (reason ?? "It has not answered for some seconds."),
    since: oldest(silent.includes(pulse) ? all : silent),
  };
}
