// One task: its state with the reason, its runs and their logs, what it waits for, and what can be done with it.

import { html, useEffect } from "../core/html.js";
import { pathsOf } from "../core/index-service.js";
import { useNow, usePolled } from "../core/polling.js";
import * as queue from "../core/queue.js";
import { to } from "../core/router.js";
import { explainRun, isFinal, reasonCreated, shortReason } from "../core/words.js";
import { Artifacts } from "../parts/artifacts.js";
import { Copy, Loaded } from "../parts/feedback.js";
import { Dependencies } from "../parts/dependencies.js";
import { Definition } from "../parts/definition.js";
import { Position } from "../parts/position.js";
import { Facts, Id, Source, State, Time } from "../parts/states.js";
import { TaskActions } from "../parts/task-actions.js";

/** @typedef {import("../core/types").Run} Run */
/** @typedef {import("../core/types").Status} Status */
/** @typedef {import("../core/types").Definition} TaskDefinition */

/** @param {import("../core/types").PageProperties} properties */
export default function TaskPage({ params }) {
  const taskId = params["taskId"] ?? "";
  const polled = usePolled((signal, previous) => read(taskId, signal, previous), [taskId]);
  const name = polled.data?.task.metadata.name;
  const state = polled.data?.status.state;
  useEffect(() => {
    if (name) document.title = `${state} · ${name}`;
  }, [name, state]);
  return html`<article>
    <${Loaded} of=${polled} label="Loading the task">
      ${(/** @type {{task: TaskDefinition, status: Status}} */ { task, status }) =>
        html`<${Task} task=${task} status=${status} runId=${params["runId"]} refresh=${polled.refresh} />`}
    <//>
  </article>`;
}

/**
 * @param {string} taskId
 * @param {AbortSignal} signal
 * @param {{task: TaskDefinition, status: Status} | undefined} previous
 */
async function read(taskId, signal, previous) {
  if (!previous) {
    const [task, status] = await Promise.all([queue.task(taskId, { signal }), queue.status(taskId, { signal })]);
    return { task, status };
  }
  const status = await queue.status(taskId, { signal });
  return JSON.stringify(status) === JSON.stringify(previous.status) ? previous : { task: previous.task, status };
}

/** @param {{task: TaskDefinition, status: Status, runId?: string, refresh: () => void}} properties */
function Task({ task, status, runId, refresh }) {
  const now = useNow(isFinal(status.state) ? 60_000 : 1000);
  const shown = Number(runId ?? status.runs.length - 1);
  const run = status.runs[shown];
  const tags = Object.entries(task.tags);
  return html`
    <h1>${task.metadata.name} <${State} state=${status.state} reason=${shortReason(status)} /></h1>
    <p class="lead">${task.metadata.description}</p>
    <p>
      <a href=${to.group(status.taskGroupId)}>Task group</a> · ${task.metadata.owner}
      ${tags.map(([name, value]) => html` <span class="tag" key=${name}>${name}: ${value}</span>`)}
    </p>
    <${TaskActions} task=${task} status=${status} refresh=${refresh} />
    <div class="columns">
      <section aria-labelledby="runs">
        <h2 id="runs">Runs</h2>
        <${Runs} status=${status} shown=${shown} />
        ${run ? html`<${RunDetails} task=${task} status=${status} run=${run} now=${now} />` : html`<p>It has no run yet: it is scheduled when its dependencies are resolved, or by hand.</p>`}
      </section>
      <section aria-labelledby="about">
        <h2 id="about">About</h2>
        <${Facts} of=${[
          ["Task", html`<${Id}>${status.taskId}<//> <${Copy} text=${status.taskId} />`],
          ["Task queue", html`<a href=${to.queue(status.taskQueueId)}>${status.taskQueueId}</a>`],
          ["Priority", status.priority],
          ["Created", html`<${Time} at=${task.created} now=${now} />`],
          ["Deadline", html`<${Time} at=${status.deadline} now=${now} />`],
          ["Expires", html`<${Time} at=${status.expires} now=${now} />`],
          ["Retries left", status.retriesLeft],
          ["Scheduler", status.schedulerId],
          ["Project", status.projectId],
          ["Source", html`<${Source} url=${task.metadata.source} />`],
          ...indexed(task.routes),
        ]} />
        <${Dependencies} task=${task} status=${status} />
      </section>
    </div>
    <${Definition} task=${task} />`;
}

/** The paths that it is entered under when it completes. @param {string[]} routes */
function indexed(routes) {
  const paths = pathsOf(routes);
  if (paths.length === 0) return [];
  return [["Indexed as", html`${paths.map((path) => html`<a key=${path} href=${to.index(path)}>${path}</a> `)}`]];
}

/** @param {{status: Status, shown: number}} properties */
function Runs({ status, shown }) {
  if (status.runs.length < 2) return null;
  return html`<ol class="runs">
    ${status.runs.map(
      (
        run,
      ) => html`<li key=${run.runId}><a href=${to.task(status.taskId, run.runId)} aria-current=${run.runId === shown ? "true" : undefined}>
        Run ${run.runId}</a> <${State} state=${run.state} reason=${run.state === "exception" ? run.reasonResolved : undefined} /></li>`,
    )}
  </ol>`;
}

/** @param {{task: TaskDefinition, status: Status, run: Run, now: number}} properties */
function RunDetails({ task, status, run, now }) {
  const worker =
    run.workerId &&
    html`<a href=${to.worker(status.taskQueueId, run.workerGroup ?? "", run.workerId)}>${run.workerGroup}/${run.workerId}</a>`;
  return html`
    <p class="explanation">${explainRun(run, now)}</p>
    ${run.state === "pending" && html`<${Position} status=${status} run=${run} />`}
    <${Facts} of=${[
      ["Created as", reasonCreated(run)],
      ["Scheduled", html`<${Time} at=${run.scheduled} now=${now} />`],
      ["Started", html`<${Time} at=${run.started} now=${now} />`],
      ["Resolved", html`<${Time} at=${run.resolved} now=${now} />`],
      ["Worker", worker || "–"],
    ]} />
    <${Artifacts} task=${task} taskId=${status.taskId} run=${run} />`;
}
