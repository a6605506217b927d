// Reads a log as it grows: whole, as a stream while it is served as one, and by ranges from where it was left.

import { ApiError } from "./api.js";
import { artifact, status } from "./queue.js";

const FOLLOW_EVERY = 2000;
const SLOWEST = 15_000;
const GROWTH = 1.3;
/** While it comes. */
const SHOWN_EVERY = 200;
/** After what may pass: a service or a storage that does not answer. */
const SLOWEST_RETRY = 60_000;
/** Of a longer log so much of the end is shown. */
export const SHOWN_FROM_END = 16 * 2 ** 20;
/** Of a log that is kept compressed so much is unpacked: what is stored says nothing of how much that becomes. */
const MOST_UNPACKED = 256 * 2 ** 20;
/** Of a longer line the beginning is kept. */
export const LONGEST_LINE = 20_000;
/** What a line takes besides its characters. */
const LINE_TAKES = 16;
/** An address of an artifact is good for at least a quarter of an hour. */
const ADDRESS_LIVES = 10 * 60_000;

/** The last lines of a growing text; a carriage return lets a line be written again, as progress bars do. */
export class Lines {
  /** @param {number} [keep] how many characters of the end are kept at least */
  constructor(keep = SHOWN_FROM_END) {
    this.keep = keep;
    /** @type {string[]} */
    this.lines = [];
    /** Lines that came before those, and are kept no more. */
    this.dropped = 0;
    this.kept = 0;
    this.bytes = 0;
    this.unfinished = "";
    this.decoder = new TextDecoder();
  }

  /** @param {Uint8Array} chunk */
  add(chunk) {
    this.bytes += chunk.length;
    // Only what is new is split: of a line of megabytes, what came before would be looked through with each chunk.
    const parts = this.decoder.decode(chunk, { stream: true }).split("\n");
    parts[0] = this.unfinished + (parts[0] ?? "");
    this.unfinished = bounded(parts.pop() ?? "");
    for (const part of parts) {
      const line = bounded(overwritten(part));
      this.lines.push(line);
      this.kept += line.length + LINE_TAKES;
    }
    if (this.kept > 2 * this.keep) this.shorten();
  }

  /** Keep only as much of the end as is shown. */
  shorten() {
    let count = 0;
    for (; this.kept > this.keep; count++) this.kept -= (this.lines[count] ?? "").length + LINE_TAKES;
    this.lines = this.lines.slice(count);
    this.dropped += count;
  }

  /** All lines, the one that has no end yet included. */
  all() {
    return this.unfinished ? [...this.lines, overwritten(this.unfinished)] : this.lines;
  }
}

/** @param {string} line */
const bounded = (line) => (line.length > LONGEST_LINE ? overwritten(line).slice(0, LONGEST_LINE) : line);

/** @param {string} line */
function overwritten(line) {
  const text = line.endsWith("\r") ? line.slice(0, -1) : line;
  return text.includes("\r") ? text.slice(text.lastIndexOf("\r") + 1) : text;
}

/** @typedef {object} LogState @property {string[]} lines @property {number} bytes
 * @property {boolean} ended nothing more will come
 * @property {number | null} before lines before the first that is shown; null: not known, as only the end was read
 * @property {string} outcome the state of the run, as far as it is known
 * @property {string} cut why the rest was not read; empty: all was read */

/** Follow a log until it ends or the signal aborts: less often the longer nothing comes, and not while the tab is
 * hidden. What may pass does not end it. @param {{taskId: string, runId: number, name: string, keep?: number, over?: ()
 * => boolean, asks?: () => void}} of `keep`: how many bytes of the end to read at least; `over`: whether the run is resolved, if the
 * caller follows it; `asks` is called before each look @param {(state: LogState) => void} show
 * @param {(error: Error) => void} fail told of what may pass; the next `show` says that it has
 * @param {AbortSignal} signal */
export async function followLog({ taskId, runId, name, keep = SHOWN_FROM_END, over, asks }, show, fail, signal) {
  let lines = new Lines(keep);
  let begun = false;
  let outcome = "";
  /** @type {() => boolean | Promise<boolean>} */
  const isOver =
    over ??
    (async () => {
      outcome = (await status(taskId, { signal })).runs[runId]?.state ?? "";
      return outcome !== "running";
    });
  let skipped = 0;
  let cut = "";
  const tell = (/** @type {boolean} */ ended) =>
    show({ lines: lines.all(), bytes: lines.bytes, ended, before: skipped > 0 ? null : lines.dropped, outcome, cut });
  let resolved = false;
  let pause = FOLLOW_EVERY;
  let address = { url: "", askedAt: -ADDRESS_LIVES };
  for (;;) {
    try {
      asks?.();
      const ended = await isOver();
      // What a name stands for may change when the run ends: a stream becomes a file.
      if (ended !== resolved || performance.now() - address.askedAt > ADDRESS_LIVES)
        address = { url: (await contentOf(taskId, runId, name, signal)).url, askedAt: performance.now() };
      resolved = ended;
      const before = lines.bytes;
      const got = await readOn(address.url, lines, skipped, signal, () => tell(false));
      skipped = got.skipped;
      cut = got.cut ?? "";
      begun = true;
      if (got.whole || resolved) break; // what was read after the run had ended is all of it
      tell(false);
      pause = lines.bytes > before ? FOLLOW_EVERY : Math.min(pause * GROWTH, SLOWEST);
    } catch (error) {
      if (signal.aborted || !(error instanceof ApiError) || (error.status !== 0 && error.status < 500)) throw error;
      if (!begun) lines = new Lines(keep); // where to go on is not known: it may have been unpacked, or begun near the end
      fail(error);
      pause = Math.min(pause * 2, SLOWEST_RETRY);
    }
    await delay(pause, signal);
    await shown(signal);
  }
  tell(true);
}

/** @param {string} taskId @param {number} runId @param {string} name @param {AbortSignal} signal */
async function contentOf(taskId, runId, name, signal) {
  const found = await artifact(taskId, runId, name, { signal });
  if (found.storageType === "error")
    throw new Error(`The worker reported that there is no such file: ${found.message}`);
  if (!found.url) throw new Error("This artifact is kept in object storage; open it with a client.");
  return found;
}

/** Read what has come since the last time. @param {string} url @param {Lines} lines @param {number} skipped
 * @param {AbortSignal} signal @param {() => void} progress */
async function readOn(url, lines, skipped, signal, progress) {
  const from = lines.bytes + skipped;
  /** @type {HeadersInit} */
  const headers = from > 0 ? { range: `bytes=${from}-` } : {};
  // What the browser keeps of a file that was opened in a tab does not say that this origin may read it.
  /** @type {RequestInit} */
  const options = { signal, credentials: "omit", referrerPolicy: "no-referrer", cache: "no-store" };
  const response = await fetch(url, { ...options, headers }).catch(unreached);
  if (response.status === 416) return { skipped, whole: false };
  const said = `The log cannot be read: its storage answered ${response.status}.`;
  if (response.status >= 500) throw new ApiError(response.status, "", said);
  if (!response.ok) throw new Error(said);
  const encoded = response.headers.has("content-encoding");
  const length = Number(response.headers.get("content-length") ?? 0);
  if (from === 0 && !encoded && length > lines.keep) {
    await response.body?.cancel();
    const start = length - lines.keep;
    const end = await fetch(url, { ...options, headers: { range: `bytes=${start}-` } }).catch(unreached);
    await drain(end, lines, 0, progress);
    return { skipped: start, whole: false };
  }
  const isWhole = await drain(response, lines, response.status === 206 ? 0 : from, progress, encoded);
  return { skipped, whole: encoded, cut: isWhole ? "" : TOO_LARGE };
}

const TOO_LARGE = `The log is kept compressed and unpacks to more than ${MOST_UNPACKED / 2 ** 20} MiB: only its beginning was read.`;

/** Add the body of a response as it arrives, without its first bytes if these are known. Returns whether that was all
 * of it. @param {Response} response @param {Lines} lines @param {number} known @param {() => void} progress
 * @param {boolean} [encoded] whether it is unpacked on its way */
async function drain(response, lines, known, progress, encoded = false) {
  const reader = response.body?.getReader();
  if (!reader) return true;
  const streams = !response.headers.has("content-length"); // what comes may be all for a while
  let drop = known;
  let shown = performance.now();
  for (;;) {
    const rests = streams ? setTimeout(progress, SHOWN_EVERY) : undefined;
    const { done, value } = await reader.read().finally(() => clearTimeout(rests)).catch(unreached); // prettier-ignore
    if (done) return true;
    if (encoded && lines.bytes > MOST_UNPACKED) {
      await reader.cancel();
      return false;
    }
    const fresh = value.subarray(Math.min(drop, value.length));
    drop -= value.length - fresh.length;
    if (fresh.length > 0) lines.add(fresh);
    if (performance.now() - shown > SHOWN_EVERY) {
      progress();
      shown = performance.now();
    }
  }
}

/** No answer, or a half of one. @param {Error} error @returns {never} */
function unreached(error) {
  throw error.name === "AbortError" ? error : new ApiError(0, "", "The storage of the log cannot be reached.");
}

/** @param {number} milliseconds @param {AbortSignal} signal */
const delay = (milliseconds, signal) =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });

/** Resolves when the tab is shown. @param {AbortSignal} signal */
const shown = (signal) =>
  new Promise((resolve, reject) => {
    if (!document.hidden) return void resolve(undefined);
    const look = () => {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", look);
      resolve(undefined);
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", () => {
      document.removeEventListener("visibilitychange", look);
      reject(signal.reason);
    });
  });
