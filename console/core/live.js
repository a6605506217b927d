// How old what a page shows is, and whether the service answers it: every reader of the page tells.

import { ApiError } from "./api.js";
import { now } from "./clock.js";
import { useEffect, useRef, useState } from "./html.js";

/** So long a reader waits before the page says that it has no answer. */
const SILENT = 8000;

/** @typedef {object} Reader
 * @property {number} asked when it asked what has not been answered yet, by `performance.now()`; 0: nothing
 * @property {number} at when it was answered last, by the service's clock; 0: never
 * @property {Error | null} error of its last attempt, if that failed */

/** @type {Set<Reader>} */
const readers = new Set();

/** A reader for as long as the component is shown. */
export function useReader() {
  const [reader] = useState(() => /** @type {Reader} */ ({ asked: 0, at: 0, error: null }));
  useEffect(() => () => void readers.delete(reader), []);
  return useRef({
    asks: () => {
      readers.add(reader);
      reader.asked ||= performance.now();
    },
    answered: (at = now()) => void Object.assign(reader, { asked: 0, at, error: null }),
    failed: (/** @type {Error} */ error) => void Object.assign(reader, { asked: 0, error }),
    rests: () => void (reader.asked = 0),
    /** It has read all that there is: what it shows grows no older. */
    ends: () => void readers.delete(reader),
  }).current;
}

/** Whether an error is that there was no answer, which may pass. @param {unknown} error */
export const isSilence = (error) => error instanceof ApiError && (error.status === 0 || error.status >= 500);

/** What is to be said of the page now: as of when what it shows is, and why the service is taken to be silent, if it
 * is.
 * @returns {{at: number, silence: string, since: number}} `since`: the last answer that a silent reader got; 0: none */
export function liveness() {
  const all = [...readers];
  const silent = all.filter(
    ({ asked, error }) => isSilence(error) || (asked > 0 && performance.now() - asked > SILENT),
  );
  const known = (/** @type {Reader[]} */ of) => of.flatMap(({ at }) => (at > 0 ? [at] : []));
  const reason = silent.find(({ error }) => error)?.error?.message;
  return {
    at: Math.min(...known(all), now()) * (known(all).length > 0 ? 1 : 0),
    silence: silent.length === 0 ? "" : (reason ?? "It has not answered for some seconds."),
    since: silent.length > 0 ? Math.min(...known(silent), now()) * (known(silent).length > 0 ? 1 : 0) : 0,
  };
}
