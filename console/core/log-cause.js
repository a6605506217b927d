// What a log says of why its run failed: the lines of generic-worker, docker-worker, scriptworker and of this repository's
// worker, and those of the usual programs. What a task writes is not to be trusted, so this finds places and names, no more.

/** @typedef {object} Cause @property {number} at the place of the line to look at first, from 0; -1: none stands out
 * @property {number} to the last line that belongs to it, as of a traceback
 * @property {boolean} sure whether it says more than a word that errors have in common with much else
 * @property {string} exit how the command ended: `exit code 1`, `signal 9`; empty if that is not said
 * @property {"maxRunTime" | "memory" | "disk" | ""} limit that was reached
 * @property {string[]} missing artifacts that were to be there
 * @property {string} kind of the line: `limit`, `error`, `worker`, `word`, `exit`; empty: none stands out */

/** Of a longer line the beginning is looked at. */
const LOOKED_AT = 2000;
const LONGEST_TRACEBACK = 60;

// eslint-disable-next-line no-control-regex
const SEQUENCES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\))/g;

/** Said by a worker, of which lines begin so. */
const WORKER = /^\[taskcluster(?::(?:error|warn))?(?: [^\]]*)?\]/;
/** What precedes a line's own text: who said it, and when. */
const PREFIX = /^(?:\[[\w:.-]+ \d{4}-\d\d-\d\dT[^\]]*\]\s*)?(?:\d\d:\d\d:\d\d(?:[.,]\d+)?\s+)?/;

/** @type {[RegExp, "maxRunTime" | "memory" | "disk"][]} */
const LIMITS = [
  [/^\[taskcluster.*(?:max run time exceeded|ended after maxRunTime|Task timeout after \d+ seconds)/, "maxRunTime"],
  [/\bExceeded task_max_timeout\b/, "maxRunTime"],
  [
    /^\[taskcluster.*(?:task aborted due to sustained memory usage|Memory usage above \d+% and available memory)/,
    "memory",
  ],
  [
    /\b(?:out of memory|OOM[- ]?kill(?:ed|er)?|Cannot allocate memory|MemoryError|OutOfMemoryError|heap out of memory)\b/i,
    "memory",
  ],
  [
    /\b(?:no space left on device|ENOSPC|not able to free up enough disk space|not enough space on the disk|disk quota exceeded)\b/i,
    "disk",
  ],
];

const EXITS = [
  /^\[taskcluster[^\]]*\] Exit code (\d+)$/,
  /^\[taskcluster[^\]]*\]\s+Exit Code: (\d+)$/,
  /^\[taskcluster[^\]]*\] Unsuccessful task run with exit code: (\d+)/,
  /^\[taskcluster:error\] exit status (\d+)$/,
  /^exit code: (\d+)$/,
];
const SIGNALS = [
  /^\[taskcluster[^\]]*\] Ended by signal (\d+)$/,
  /^Automation Error: python exited with signal -?(\d+)$/,
];

const MISSING = [
  /^\[taskcluster[^\]]*\] Artifact (\S+) is (?:missing|refused): /,
  /^\[taskcluster[^\]]*\] Artifact "([^"]+)" not found/,
  /^\[taskcluster:error\] TASK FAILURE during artifact upload: [\w-]+-on-worker: .*?'([^']+)'/,
];

const TRACEBACK = /^Traceback \(most recent call last\)/;
const NO_ERROR = /\b(?:0|no|without) (?:errors?|failures?|failed)\b|\b(?:errors?|failures?|failed)\s*[:=]\s*0\b/i;
const ERRORS = [
  /\bTEST-UNEXPECTED-/,
  /\bPROCESS-CRASH\b/,
  TRACEBACK,
  /(?:^|[\s\]):])(?:fatal error|fatal|error|exception)(?:\[\w+\]| [A-Z]+\d+)?: /i,
  /\b(?:ERROR|FATAL|CRITICAL|FAIL|FAILED|FAILURE)\b(?!\s*[:=]?\s*0\b)/,
  /\[(?:error|fatal)\]/i,
  /^(?:E {3}|not ok \d)/,
  /\bpanicked at\b|^panic: /,
  /\b(?:Segmentation fault|AssertionError|Exception in thread|core dumped)\b/,
  /\*\*\* \[.*\] Error \d+/,
  /\b(?:npm ERR!|command not found)/,
];
const WORDS = /\b(?:error|fatal|exception|traceback|panicked|failed|failure|killed|aborted|timed out)\b/i;

/** Whether a line tells of an error, however weakly. @param {string} line */
export const tellsOfError = (line) => {
  const text = textOf(line);
  return !NO_ERROR.test(text) && (WORDS.test(text) || ERRORS.some((one) => one.test(text.replace(PREFIX, ""))));
};

/** What the end of a log says of a failure. @param {string[]} lines @returns {Cause} */
export function causeIn(lines) {
  /** @type {Cause} */
  const cause = { at: -1, to: -1, sure: false, exit: "", limit: "", missing: [], kind: "" };
  const first = { limit: -1, error: -1, worker: -1, word: -1, exit: -1 };
  const note = (/** @type {keyof typeof first} */ kind, /** @type {number} */ at) => {
    if (first[kind] < 0) first[kind] = at;
  };
  lines.forEach((line, at) => {
    const text = textOf(line);
    const [, limit] = LIMITS.find(([pattern]) => pattern.test(text)) ?? [];
    if (limit) {
      if (!cause.limit) cause.limit = limit;
      note("limit", at);
    }
    const exit = found(EXITS, text);
    const signal = found(SIGNALS, text);
    if ((exit && exit !== "0") || signal) {
      cause.exit = signal ? `signal ${signal}` : `exit code ${exit}`;
      note("exit", at);
      return;
    }
    const missing = found(MISSING, text);
    if (missing && !cause.missing.includes(missing)) cause.missing.push(missing);
    if (missing) return note("worker", at);
    if (WORKER.test(text)) {
      if (text.startsWith("[taskcluster:error]")) note("worker", at);
      return;
    }
    const own = text.replace(PREFIX, "");
    if (NO_ERROR.test(own)) return;
    if (ERRORS.some((one) => one.test(own))) note("error", at);
    else if (WORDS.test(own)) note("word", at);
  });
  const order = [first.limit, first.error, first.worker, first.word, first.exit];
  cause.at = order.find((at) => at >= 0) ?? -1;
  cause.sure = cause.at >= 0 && cause.at !== first.word;
  cause.kind = Object.entries(first).find(([, at]) => at >= 0 && at === cause.at)?.[0] ?? "";
  cause.to = endOf(lines, cause.at);
  return cause;
}

/** The line that ends a traceback, which names the exception; of another line itself. @param {string[]} lines @param {number} at */
function endOf(lines, at) {
  const own = (/** @type {number} */ place) => textOf(lines[place] ?? "").replace(PREFIX, "");
  if (at < 0 || !TRACEBACK.test(own(at))) return at;
  for (let place = at + 1; place < Math.min(lines.length, at + LONGEST_TRACEBACK); place++)
    if (!/^\s/.test(own(place))) return place;
  return at;
}

/** @param {RegExp[]} patterns @param {string} text */
function found(patterns, text) {
  for (const pattern of patterns) {
    const match = pattern.exec(text);
    if (match) return match[1] ?? "";
  }
  return "";
}

/** A line as it is read, without its colours. @param {string} line */
const textOf = (line) => line.slice(0, LOOKED_AT).replace(SEQUENCES, "");
