// What states and reasons mean, in sentences for people who look at a task for the first time.

import { duration } from "./time.js";

/** @typedef {import("./types").Run} Run */
/** @typedef {import("./types").Status} Status */

/** Characters that turn the text around them, or show nothing. */
// eslint-disable-next-line no-control-regex
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

/** @param {string} found */
const numbered = (found) => `[U+${(found.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}]`;

/** A text of others as one line that changes nothing around it. @param {string} text */
export const label = (text) => text.replace(CONTROLS, numbered);

/** The same for one of several lines. @param {string} text */
export const prose = (text) => text.replace(CONTROLS, (found) => (/\s/.test(found) ? found : numbered(found)));

const { compare } = new Intl.Collator(undefined, { numeric: true });

/** The order of names as people expect it: `test-2` before `test-10`. */
export const byName = compare;

/** What a task is called. @param {{metadata: {name: string}}} task */
export const named = ({ metadata }) => label(metadata.name);

/** The same of one that may be gone. @param {{metadata: {name: string}} | undefined} task @param {string} id */
export const namedOr = (task, id) => (task ? named(task) : id);

/** States as they are shown, in their order: what somebody cancelled is apart from other exceptions. @type {string[]} */
export const STATES = ["failed", "exception", "running", "pending", "unscheduled", "cancelled", "completed"];

/** @type {string[]} */
export const PRIORITIES = ["highest", "very-high", "high", "medium", "low", "very-low", "lowest"];

/** @param {import("./types").State} state */
export const isFinal = (state) => state === "completed" || state === "failed" || state === "exception";

/** Whether somebody cancelled a task: that is no failure. @param {Status} status */
export const isCanceled = ({ state, runs }) => state === "exception" && runs.at(-1)?.reasonResolved === "canceled";

/** One of STATES. @param {Status} status */
export const shownState = (status) => (isCanceled(status) ? "cancelled" : status.state);

/** Whether a task failed or ended as an exception, and nobody wanted that. @param {Status} status */
export const isWrong = (status) => (status.state === "failed" || status.state === "exception") && !isCanceled(status);

/** @type {Record<string, string>} */
const RESOLVED = {
  completed: "The worker reported success.",
  failed: "The worker reported that the task failed.",
  "deadline-exceeded": "The deadline passed before the task was resolved.",
  canceled: "The task was cancelled.",
  "claim-expired": "The claim expired: the worker did not renew it in time. It may have crashed or lost its network.",
  "worker-shutdown": "The worker was shut down while the task ran.",
  "malformed-payload": "The worker could not read the payload. Correct the definition and create the task again.",
  "resource-unavailable": "The worker could not get something that the payload names, a download for example.",
  "internal-error": "The worker had an internal error. Try again, or ask whoever runs it.",
  "intermittent-task": "The worker recognised a failure that may pass, and asked for another try.",
};

/** @type {Record<string, string>} */
const CREATED = {
  scheduled: "scheduled",
  retry: "retried, because the run before ended without a result",
  "task-retry": "retried, because the worker asked for it",
  rerun: "rerun by hand",
  exception: "created only to record the resolution; it never ran",
};

/** @param {Run} run */
export const reasonCreated = (run) => CREATED[run.reasonCreated] ?? run.reasonCreated;

/** What a run's state means. @param {Run} run @param {number} now */
export function explainRun(run, now) {
  if (run.state === "pending") return `It has waited for a worker for ${duration(now - Date.parse(run.scheduled))}.`;
  if (run.state === "running") {
    const left = Date.parse(run.takenUntil ?? "") - now;
    const worker = `${run.workerGroup}/${run.workerId}`;
    if (left < 0) return `${worker} should have renewed its claim ${duration(-left)} ago: the run is about to expire.`;
    return `Running on ${worker}. Its claim ends in ${duration(left)} unless it is renewed.`;
  }
  return RESOLVED[run.reasonResolved ?? ""] ?? `Resolved: ${run.reasonResolved}.`;
}

/** The reason to show beside a state, if the state alone does not tell. @param {Status} status */
export function shortReason(status) {
  const last = status.runs.at(-1);
  if (!last) return "";
  if (last.state === "exception") return last.reasonResolved ?? "";
  return status.runs.length > 1 ? `run ${last.runId}` : "";
}

/** Milliseconds that a run has been running, or null if it never ran. @param {Run | undefined} run @param {number} now */
export const ranFor = (run, now) =>
  run?.started ? (run.resolved ? Date.parse(run.resolved) : now) - Date.parse(run.started) : null;

/** The same for the last run of a task. @param {Status} status @param {number} now */
export const runtime = (status, now) => ranFor(status.runs.at(-1), now);

/** Calls of a worker that finds nothing to do are noted so often. */
export const NOTED_EVERY = 31 * 60_000;

/** What a worker does that is in no quarantine, as far as its calls tell. Those of one that finds nothing to do are
 * noted every half hour; a poll with a signed URL does not reach the service. @param {{lastDateActive?: string}} worker
 * @param {number} running runs that it holds @param {number} now */
export function workerState({ lastDateActive }, running, now) {
  if (running > 0) return `running ${counted(running, "task")}`;
  const silent = now - Date.parse(lastDateActive ?? "");
  return silent < NOTED_EVERY ? "seen in the last half hour" : `not seen for ${duration(silent)}`;
}

/** Plural of a count: `1 task`, `3 tasks`. @param {number} count @param {string} noun */
export const counted = (count, noun) =>
  `${count.toLocaleString()} ${count === 1 ? noun : noun.endsWith("y") ? `${noun.slice(0, -1)}ies` : `${noun}s`}`;
