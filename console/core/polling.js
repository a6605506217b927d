// Reading again and again without being a burden: hidden tabs ask nothing, quiet pages ask less, errors back off.

import { now } from "./clock.js";
import { onChange, session } from "./credentials.js";
import { useCallback, useEffect, useRef, useState } from "./html.js";
import { useReader } from "./live.js";

const LONGEST = 60_000;
const GROWTH = 1.4;
/** A tab that nobody looks at, and that has to tell when something ends, looks so often at most. */
const HIDDEN_RESTS = 30_000;
/** Of the time a page takes to be read, at most one part in this many is spent reading. */
const SHARE = 10;
/** What so many readers have read last is shown at once to one who comes back, while it is read again. */
const MOST_KEPT = 30;

/** @template T @typedef {object} Polled @property {T | undefined} data
 * @property {Error | undefined} error of the last attempt, undefined after a success @property {boolean} loading
 * @property {() => void} refresh */

/** @type {Map<string, {data: any, at: number, who: string}>} */
const kept = new Map();
const who = () => session()?.clientId ?? "";

/** What was kept under a name, for who is signed in. @param {string | undefined} name */
export function keptAs(name) {
  const found = name === undefined ? undefined : kept.get(name);
  return found?.who === who() ? found : undefined;
}

/** @param {string} name @param {unknown} data @param {number} at as of when it is */
function keep(name, data, at) {
  kept.delete(name);
  kept.set(name, { data, at, who: who() });
  for (const old of [...kept.keys()].slice(0, -MOST_KEPT)) kept.delete(old);
}

/** Read something now and then for as long as the component is shown: less often the longer it stays the same.
 * @template T @param {(signal: AbortSignal, previous: T | undefined) => Promise<T>} read returns the previous value
 * itself if it has found that nothing changed
 * @param {readonly unknown[]} dependencies read anew, from nothing, when one of them changes @param {{interval?:
 * number, rest?: (data: T) => number, until?: (data: T) => boolean, same?: (a: T, b: T) => boolean, hidden?: boolean,
 * longest?: number, name?: string, at?: (data: T) => number, when?: boolean}} [options] milliseconds between two looks, at least so many for what was read last; when to stop;
 * whether two values show the same; whether to go on, seldom, in a hidden tab; milliseconds between two looks at most; under which name it is kept for one who
 * comes back; as of when it is, of what not every look reads anew; false: nothing is read yet @returns {Polled<T>} */
export function usePolled(read, dependencies, options = {}) {
  const { interval = 3000, same = alike, name, when = true } = options;
  const [state, setState] = useState(() => begun(name));
  const latest = useRef({ read, ...options });
  latest.current = { read, ...options };
  const wake = useRef(() => {});
  const reader = useReader();

  useEffect(() => {
    if (!when) return undefined;
    const control = new AbortController();
    const before = keptAs(name);
    /** @type {T | undefined} */
    let data = before?.data;
    if (before) reader.answered(before.at);
    const longest = options.longest ?? Math.max(interval, LONGEST);
    let pause = interval;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    let busy = false;
    let asked = false; // for a look that begins after the one that is going on
    let failed = false;
    setState(begun(name));

    const look = async () => {
      if (control.signal.aborted) return;
      if (busy) {
        asked = true;
        return;
      }
      if (document.hidden && data !== undefined && !latest.current.hidden) return;
      busy = true;
      clearTimeout(timer);
      const started = performance.now();
      reader.asks();
      try {
        const next = await latest.current.read(control.signal, data);
        const unchanged = data !== undefined && (next === data || same(next, data));
        pause = unchanged ? Math.min(pause * GROWTH, longest) : interval;
        if (!unchanged) data = next;
        failed = false;
        const at = latest.current.at?.(next) ?? now();
        reader.answered(at);
        if (name) keep(name, data, at);
        if (!control.signal.aborted) setState({ data, loading: false });
      } catch (error) {
        if (control.signal.aborted) return reader.rests();
        pause = Math.min(pause * 2, longest);
        failed = true;
        const seen = error instanceof Error ? error : new Error(String(error));
        reader.failed(seen);
        setState({ ...(data === undefined ? {} : { data }), error: seen, loading: false });
      } finally {
        busy = false;
      }
      if (asked && !control.signal.aborted) {
        asked = false;
        return void look();
      }
      if (control.signal.aborted) return;
      if (!failed && data !== undefined && latest.current.until?.(data)) return reader.ends();
      const rests = data === undefined ? 0 : (latest.current.rest?.(data) ?? 0);
      const least = document.hidden ? Math.max(rests, HIDDEN_RESTS) : rests;
      timer = setTimeout(look, Math.min(Math.max(pause, least, (performance.now() - started) * SHARE), longest));
    };
    const again = () => {
      pause = interval;
      void look();
    };
    const shown = () => {
      if (!document.hidden) again();
    };
    wake.current = again;
    document.addEventListener("visibilitychange", shown);
    const heard = onChange(() => failed && again()); // somebody has signed in again
    addEventListener("online", again);
    void look();
    return () => {
      control.abort();
      clearTimeout(timer);
      heard();
      removeEventListener("online", again);
      document.removeEventListener("visibilitychange", shown);
    };
  }, [...dependencies, interval, when]);

  const refresh = useCallback(() => wake.current(), []);
  return { data: state.data, error: state.error, loading: state.loading, refresh };
}

/** @param {string | undefined} name @returns {{data?: any, error?: Error, loading: boolean}} */
const begun = (name) => ({ data: keptAs(name)?.data, loading: true });

/** @param {unknown} a @param {unknown} b */
const alike = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/** The time, as often as durations on the page need it; not while the tab is hidden.
 * @param {number} [every] milliseconds */
export function useNow(every = 1000) {
  const [time, setTime] = useState(now);
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) setTime(now());
    }, every);
    return () => clearInterval(timer);
  }, [every]);
  return time;
}

/** All items of a paged list, or as many as asked for. @template T @param {AsyncGenerator<any>} pages
 * @param {string} field @param {number} [most] @returns {Promise<{items: T[], more: boolean}>} */
export async function gather(pages, field, most = 5000) {
  /** @type {T[]} */
  const items = [];
  for await (const page of pages) {
    items.push(...page[field]);
    if (items.length >= most)
      return { items: items.slice(0, most), more: page.continuationToken !== undefined || items.length > most };
  }
  return { items, more: false };
}
