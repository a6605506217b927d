// A task of a group in place: why it failed, or what it does or waits for, without leaving the group.

import { html, useMemo } from "../core/html.js";
import { rerunTask } from "../core/queue.js";
import { to } from "../core/router.js";
import { duration } from "../core/time.js";
import { isFinal, runtime, shortReason } from "../core/words.js";
import { useArtifacts } from "./artifacts.js";
import { Before } from "./before.js";
import { ActionButton } from "./feedback.js";
import { State } from "./states.js";
import { Why } from "./why.js";

/** @typedef {import("../core/types").Member} Member */

const NAMED = 8;

/** @param {{member: Member, members: Member[], now: number, close?: () => void, refresh: () => void}} properties `close`: where no row names the task already */
export function Look({ member, members, now, close, refresh }) {
  const { task, status } = member;
  const run = status.runs.at(-1);
  const ran = runtime(status, now);
  const over = Date.parse(status.deadline) < now;
  return html`<section class="look" aria-label=${`About ${task.metadata.name}`}>
    <div class="buttons">
      ${close && html`<strong><a href=${to.task(status.taskId)}>${task.metadata.name}</a></strong> <span><${State} state=${status.state} reason=${shortReason(status)} /></span>`}
      ${ran !== null && html`<span class="reason">ran ${duration(ran)}${run?.workerId && html` on <a href=${to.worker(status.taskQueueId, run.workerGroup ?? "", run.workerId)}>${run.workerId}</a>`}</span>`}
      <span class="apart">
        ${isFinal(status.state) && html`<${ActionButton} disabled=${over} title=${over ? "The deadline has passed" : ""} action=${() => rerunTask(status.taskId).then(refresh)} verb="Rerun the task" confirm="Tasks that wait for it go on when it completes.">Rerun<//>`}
        ${close && html`<button type="button" class="quiet" onClick=${close}>Close</button>`}
      </span>
    </div>
    ${run ? html`<${LastRun} key=${run.runId} task=${task} status=${status} run=${run} now=${now} />` : html`<${Blockers} task=${task} members=${members} />`}
  </section>`;
}

/** @param {{task: Member["task"], status: Member["status"], run: import("../core/types").Run, now: number}} properties */
function LastRun({ task, status, run, now }) {
  const artifacts = useArtifacts(status.taskId, run);
  return html`<${Why} task=${task} status=${status} run=${run} now=${now} artifacts=${artifacts} />
    <${Before} member=${{ task, status }} />`;
}

/** What a task without a run waits for, as far as it is in the group. @param {{task: Member["task"], members: Member[]}} properties */
function Blockers({ task, members }) {
  const waits = useMemo(() => {
    const needed = new Set(task.dependencies);
    return members.filter(({ status }) => needed.has(status.taskId) && status.state !== "completed");
  }, [task, members]);
  if (waits.length === 0)
    return html`<p class="why">It has no run yet: it is scheduled when its dependencies are resolved, or by hand.</p>`;
  return html`<div class="why"><p class="verdict">It waits for:</p><ul class="related">
    ${waits.slice(0, NAMED).map(({ task: needed, status }) => html`<li key=${status.taskId}><a href=${to.task(status.taskId)}>${needed.metadata.name}</a> <${State} state=${status.state} reason=${shortReason(status)} /></li>`)}
    ${waits.length > NAMED && html`<li>and ${waits.length - NAMED} more</li>`}
  </ul></div>`;
}
