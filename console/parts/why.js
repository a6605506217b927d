// Why a run ended as it did, or what it does now: in one look, on the page of a task and in the list of a group.

import { html, useEffect, useMemo, useState } from "../core/html.js";
import { causeIn } from "../core/log-cause.js";
import { to } from "../core/router.js";
import { duration } from "../core/time.js";
import { explainRun, isFinal, label } from "../core/words.js";
import { plain } from "./ansi.js";
import { CopyLink, logName, logOf } from "./artifacts.js";
import { Loading } from "./feedback.js";
import { Live } from "./health.js";
import { LogEnd, logHref, useLogEnd } from "./log-end.js";
import { Position } from "./position.js";

/** @typedef {import("../core/types").Run} Run */
/** @typedef {import("../core/types").Definition} Definition */
/** @typedef {import("../core/types").Artifact} Artifact */
/** @typedef {import("../core/log-cause.js").Cause} Cause */

/** @param {{task: Definition, status: import("../core/types").Status, run: Run, now: number, artifacts:
 * import("../core/polling.js").Polled<Artifact[]>, blocks?: any, said?: () => void}} properties `blocks`: what its failure keeps from
 * being scheduled, if that is known; `said` is called once the cause of a failure is shown, or that there is none */
export function Why({ task, status, run, now, artifacts, blocks, said }) {
  const [wanted, setWanted] = useState(false);
  const [began] = useState(run.state);
  const over = isFinal(run.state);
  const wrong = run.state === "failed" || run.state === "exception";
  const log = artifacts.data && logOf(task, artifacts.data);
  const read = wrong || run.state === "running" || wanted;
  // Where it mostly is, without waiting for the list: one way less to the server before the cause is known.
  const name = read ? (artifacts.data || began !== "failed" ? log?.name : logName(task)) : undefined;
  const { state, error, reader } = useLogEnd({ taskId: status.taskId, runId: run.runId, name, over });
  const found = useMemo(() => (state && run.state !== "completed" ? causeIn(state.lines) : null), [state, run.state]);
  const cause = over || found?.sure ? found : null;
  const missing = over ? missingOf(task, found, artifacts.data ?? []) : [];
  const line =
    wrong && cause?.sure
      ? plain(state?.lines[cause.to] ?? "")
          .replace(STAMP, "")
          .trim()
      : "";
  const isSaid = line !== "" || (artifacts.data ? !name || state?.ended || error : artifacts.error);
  useEffect(() => {
    if (isSaid) said?.();
  }, [!isSaid]);
  const href = log && logHref({ taskId: status.taskId, runId: run.runId, name: log.name, live: !over, state, cause });
  return html`<section class=${`why ${run.state}`} aria-label=${TITLES[run.state]}>
    ${line && html`<p class="headline"><code>${label(line.slice(0, LONGEST))}</code></p>`}
    <p class=${line ? "reason" : "verdict"}>${explainRun(run, now)}</p>
    ${blocks}
    ${wrong && html`<${Findings} task=${task} cause=${found} missing=${missing} />`}
    ${run.state === "pending" && html`<${Position} status=${status} run=${run} />`}
    ${run.state !== "pending" && !artifacts.data && !artifacts.error && html`<${Loading} label="Looking for the log" />`}
    ${artifacts.data && !log && run.state !== "pending" && html`<p class="empty">${over ? "The run has no log." : "It has no log yet."}</p>`}
    ${log && name && !state && !error && html`<${Loading} label="Loading the end of the log" />`}
    ${error && log && html`<p class="empty" role="status">The end of the log cannot be shown: ${error.message}</p>`}
    ${state?.cut && html`<p class="notice">${state.cut}</p>`}
    ${state && log && html`<${LogEnd} state=${state} cause=${cause} href=${to.log(status.taskId, run.runId, log.name, !over)} />`}
    ${
      log &&
      html`<div class="buttons">
      <a class="button" href=${href}>Open the log</a>
      ${!read && html`<button type="button" onClick=${() => setWanted(true)}>Show its end</button>`}
      <${CopyLink} taskId=${status.taskId} runId=${run.runId} name=${log.name} />
      ${state && !state.ended && html`<${Live} reader=${reader} />`}
    </div>`
    }
  </section>`;
}

const LONGEST = 300;
/** When and by whom a line was written, which its headline leaves out. */
const STAMP = /^\[[\w:.-]+ \d{4}-\d\d-\d\dT[^\]]*\]\s*/;

/** @type {Record<Run["state"], string>} */
const TITLES = {
  failed: "Why it failed",
  exception: "Why it ended",
  running: "What it does",
  pending: "What it waits for",
  completed: "How it ended",
};

/** Artifacts that the worker missed: those that the task could do without are left out, and so are all where an error
 * came first. @param {Definition} task @param {Cause | null} cause @param {Artifact[]} artifacts */
function missingOf({ payload }, cause, artifacts) {
  const stated = Array.isArray(payload?.["artifacts"]) ? payload["artifacts"] : [];
  const optional = new Set(stated.flatMap((one) => (one?.optional === true ? [one.name] : [])));
  const all = [...new Set([...(cause?.missing ?? []), ...unmade(artifacts)])].filter((name) => !optional.has(name));
  return cause?.kind === "error" || cause?.kind === "limit" ? [] : all;
}

/** What the log and the artifacts say in a word each. @param {{task: Definition, cause: Cause | null, missing: string[]}} properties */
function Findings({ task, cause, missing }) {
  const found = [
    ...(cause?.limit ? [limitReached(cause.limit, task.payload["maxRunTime"])] : []),
    ...(cause?.exit ? [EXITS[cause.exit] ? `${cause.exit}: ${EXITS[cause.exit]}` : cause.exit] : []),
    ...missing.map((name) => `missing: ${label(name)}`),
  ];
  if (found.length === 0) return null;
  return html`<ul class="findings" aria-label="What the log says">${found.map((one) => html`<li key=${one}>${one}</li>`)}</ul>`;
}

/** What shells and systems mean by a number. @type {Record<string, string>} */
const EXITS = {
  "exit code 126": "the command cannot be executed",
  "exit code 127": "the command was not found",
  "exit code 137": "killed, often for want of memory",
  "exit code 139": "it broke the memory it was given (segmentation fault)",
  "exit code 143": "it was told to end",
  "signal 9": "killed, often for want of memory",
  "signal 11": "it broke the memory it was given (segmentation fault)",
  "signal 15": "it was told to end",
};

/** @param {"maxRunTime" | "memory" | "disk"} limit @param {unknown} seconds */
function limitReached(limit, seconds) {
  if (limit === "memory") return "out of memory";
  if (limit === "disk") return "the disk was full";
  return `maxRunTime reached${typeof seconds === "number" ? `: ${duration(seconds * 1000)}` : ""}`;
}

/** Artifacts of which the worker said that it could not make them. @param {Artifact[]} artifacts */
const unmade = (artifacts) => artifacts.filter(({ storageType }) => storageType === "error").map(({ name }) => name);
