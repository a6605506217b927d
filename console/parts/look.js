// A task of a group in place: why it failed, or what it does or waits for, without leaving the group.

import { blockedBy, reasonOf, whyUnscheduled } from "../core/blocking.js";
import { html, useMemo } from "../core/html.js";
import { rerunTask } from "../core/queue.js";
import { to } from "../core/router.js";
import { duration } from "../core/time.js";
import { counted, isFinal, named, runtime } from "../core/words.js";
import { useArtifacts } from "./artifacts.js";
import { Before } from "./before.js";
import { ActionButton } from "./feedback.js";
import { unfit } from "./group-actions.js";
import { State } from "./states.js";
import { Why } from "./why.js";

/** @typedef {import("../core/types").Member} Member */

const NAMED = 8;

/** @param {{member: Member, members: Member[], blocked: Map<string, Member[]>, now: number, close?: () => void, refresh: () => void}} properties `close`: where no row names the task already */
export function Look({ member, members, blocked, now, close, refresh }) {
  const { task, status } = member;
  const run = status.runs.at(-1);
  const ran = runtime(status, now);
  const why = unfit(member, now);
  return html`<section class="look" aria-label=${`About ${named(task)}`}>
    <div class="buttons">
      ${close && html`<strong><a href=${to.task(status.taskId)}>${named(task)}</a></strong> <span><${State} state=${status.state} reason=${reasonOf(status, blocked)} /></span>`}
      ${ran !== null && html`<span class="reason">ran ${duration(ran)}${run?.workerId && html` on <a href=${to.worker(status.taskQueueId, run.workerGroup ?? "", run.workerId)}>${run.workerId}</a>`}</span>`}
      <span class="apart">
        ${isFinal(status.state) && html`<${ActionButton} disabled=${why !== ""} title=${why && `Of no use: ${why}`} action=${() => rerunTask(status.taskId).then(refresh)} verb="Rerun the task" confirm="Tasks that wait for it go on when it completes.">Rerun<//>`}
        ${close && html`<button type="button" class="quiet" onClick=${close}>Close</button>`}
      </span>
    </div>
    ${run ? html`<${LastRun} key=${run.runId} member=${member} members=${members} run=${run} now=${now} />` : html`<${Unscheduled} member=${member} members=${members} blocked=${blocked} now=${now} />`}
  </section>`;
}

/** @param {{member: Member, members: Member[], run: import("../core/types").Run, now: number}} properties */
function LastRun({ member, members, run, now }) {
  const { task, status } = member;
  const artifacts = useArtifacts(status.taskId, run);
  return html`<${Why} task=${task} status=${status} run=${run} now=${now} artifacts=${artifacts} blocks=${html`<${Blocks} member=${member} members=${members} />`} />
    <${Before} member=${member} />`;
}

/** How many tasks the failure of one keeps from being scheduled. @param {{member: Member, members: Member[], complete?: boolean}} properties */
export function Blocks({ member: { status }, members, complete = true }) {
  const lost = status.state === "failed" || status.state === "exception";
  const count = useMemo(() => (lost ? blockedBy(members, status.taskId) : 0), [members, lost]);
  return (
    count > 0 &&
    html`<p><strong>Blocks ${complete ? "" : "at least "}${counted(count, "task")}</strong> ${count === 1 ? "that waits" : "that wait"} for it, directly or not.</p>`
  );
}

/** Why a task has no run, and what it waits for first. @param {{member: Member, members: Member[], blocked: Map<string, Member[]>, now: number}} properties */
function Unscheduled({ member: { task, status }, members, blocked, now }) {
  const roots = blocked.get(status.taskId) ?? [];
  const needed = useMemo(() => {
    const ids = new Set(task.dependencies);
    return members.flatMap((one) =>
      ids.has(one.status.taskId) ? [{ name: named(one.task), status: one.status }] : [],
    );
  }, [task, members]);
  const waits = needed.filter(({ status: { state } }) =>
    task.requires === "all-resolved" ? !isFinal(state) : state !== "completed",
  );
  return html`<div class="why"><p class="verdict">${whyUnscheduled(task, needed, roots, now)}</p>
    <${Roots} of=${roots} />
    ${
      waits.length > 0 &&
      html`<p class="reason">It waits for:</p><ul class="related">
      ${waits.slice(0, NAMED).map(({ name, status }) => html`<li key=${status.taskId}><a href=${to.task(status.taskId)}>${name}</a> <${State} state=${status.state} reason=${reasonOf(status, blocked)} /></li>`)}
      ${waits.length > NAMED && html`<li>and ${(waits.length - NAMED).toLocaleString()} more</li>`}</ul>`
    }</div>`;
}

/** The failures that a task waits for in vain, and what to do. @param {{of: Member[]}} properties */
export const Roots = ({ of }) =>
  of.length > 0 &&
  html`<p>Rerun ${of.map(({ task, status }, at) => html`${at > 0 && (at === of.length - 1 ? " and " : ", ")}<a key=${status.taskId} href=${to.task(status.taskId)}>${named(task)}</a>`)}, or schedule this task by hand.</p>`;
