// One task: its state with the reason, its runs and their logs, what it waits for, and what can be done with it.

import { ofTask } from "../core/audit.js";
import { awaited, blockedTasks, isLost, reasonOf, whyUnscheduled } from "../core/blocking.js";
import { distrust, originalOf, readGroup } from "../core/group.js";
import { pushLabel } from "../core/group-name.js";
import { html, useEffect, useMemo, useRef, useState } from "../core/html.js";
import { pathsOf } from "../core/index-service.js";
import { useNow, usePolled } from "../core/polling.js";
import * as queue from "../core/queue.js";
import { compareHref, to } from "../core/router.js";
import { duration } from "../core/time.js";
import { isFinal, label, named, ranFor, reasonCreated, shownState } from "../core/words.js";
import { Artifacts, useArtifacts } from "../parts/artifacts.js";
import { AuditHistory } from "../parts/audit.js";
import { Before } from "../parts/before.js";
import { Copy, Loaded, Loading } from "../parts/feedback.js";
import { Dependencies, useRelatives } from "../parts/dependencies.js";
import { Definition } from "../parts/definition.js";
import { Blocks, Roots } from "../parts/look.js";
import { Markdown } from "../parts/markdown.js";
import { NotifyButton, useNotification } from "../parts/notify.js";
import { Facts, Id, Source, State, Time } from "../parts/states.js";
import { Crumbs } from "../parts/tabs.js";
import { TaskActions } from "../parts/task-actions.js";
import { Why } from "../parts/why.js";

/** @typedef {import("../core/types").Run} Run */
/** @typedef {import("../core/types").Status} Status */
/** @typedef {import("../core/types").Member} Member */

/** A task that is resolved changes only when somebody reruns it. */
const RESOLVED_RESTS = 20_000;

/** @param {import("../core/types").PageProperties} properties */
export default function TaskPage({ params }) {
  const taskId = params["taskId"] ?? "";
  const [notified, setNotified] = useState(false);
  const polled = usePolled((signal, previous) => read(taskId, signal, previous), [taskId], {
    rest: ({ status }) => (isFinal(status.state) ? RESOLVED_RESTS : 0),
    hidden: notified,
    name: `task ${taskId}`,
  });
  const name = polled.data && named(polled.data.task);
  const state = polled.data && shownState(polled.data.status);
  const push = polled.data && pushLabel(polled.data.task.metadata.source);
  useEffect(() => {
    if (name) document.title = [state, name, push].filter(Boolean).join(" · ");
  }, [name, state]);
  useNotification(
    notified,
    polled.data !== undefined && isFinal(polled.data.status.state),
    () => ({ title: `${name}: ${state}`, body: push ?? "", tag: taskId }),
    () => setNotified(false),
  );
  return html`<article>
    <${Loaded} of=${polled} label="Loading the task">
      ${(/** @type {Member} */ member) => html`<${Task} member=${member} runId=${params["runId"]} refresh=${polled.refresh} notified=${notified} notify=${setNotified} />`}
    <//>
  </article>`;
}

/** @param {string} taskId @param {AbortSignal} signal @param {Member | undefined} previous */
async function read(taskId, signal, previous) {
  const asked = [previous?.task ?? queue.task(taskId, { signal }), queue.status(taskId, { signal })];
  const [task, status] = await Promise.all(asked);
  return { task, status };
}

/** The group of a task that keeps others waiting, or waits itself: which failures are at the root, and what they block.
 * It is read again when what is watched of it changes. @param {Status} status
 * @param {[string | undefined, string | undefined]} watched what is no longer as it was read, and how many wait for it, once that was seen
 * @param {boolean} when whether it is read yet */
function useGroup({ taskGroupId, state }, watched, when) {
  const wanted = state !== "completed" && state !== "pending" && state !== "running";
  const seen = useRef(/** @type {typeof watched} */ (["", undefined]));
  const polled = usePolled(
    async (signal, previous) =>
      wanted ? readGroup(taskGroupId, signal, /** @type {any} */ (previous), () => {}) : null,
    [taskGroupId, state],
    { interval: 15_000, until: () => !seen.current[0], when, ...(wanted ? { name: `group ${taskGroupId}` } : {}) },
  );
  useEffect(() => {
    const changed = watched.some((one, at) => one && seen.current[at] !== undefined && one !== seen.current[at]);
    seen.current = [watched[0] ?? seen.current[0], watched[1] ?? seen.current[1]];
    if (!changed || !polled.data) return;
    distrust(polled.data);
    polled.refresh();
  }, watched);
  return { group: polled.data ?? undefined, known: !wanted || polled.data !== undefined || polled.error !== undefined };
}

/** @param {{member: Member, runId?: string, refresh: () => void, notified: boolean, notify: (on: boolean) => void}} properties */
function Task({ member, runId, refresh, notified, notify }) {
  const { task, status } = member;
  const now = useNow(isFinal(status.state) ? 60_000 : 1000);
  const shown = Number(runId ?? status.runs.length - 1);
  const run = status.runs[shown];
  const tags = Object.entries(task.tags);
  const watched = useRef(/** @type {Map<string, boolean>} */ (new Map()));
  const [isSaid, setSaid] = useState(run?.state !== "failed"); // all else that is read would keep its cause waiting
  const relatives = useRelatives(task, status, watched, isSaid);
  const waiting = relatives.dependents.data?.related.filter((one) => one.status?.state === "unscheduled").length;
  const { group, known } = useGroup(status, [relatives.required.data?.turned, waiting?.toString()], isSaid);
  const members = group?.members ?? [member];
  const blocked = useMemo(() => group && blockedTasks(group.members), [group]);
  const roots = blocked?.get(status.taskId) ?? [];
  const open = useMemo(() => (group ? awaited(group.members, status.taskId) : []), [group]);
  watched.current = new Map([
    ...open.map((id) => /** @type {const} */ ([id, false])),
    ...roots.map((/** @type {Member} */ one) => /** @type {const} */ ([one.status.taskId, true])),
  ]);
  const needed = relatives.required.data?.related;
  const isClear = known || needed?.some((one) => one.status && isLost(one.status));
  const original = originalOf(task);
  const copies = members.filter((/** @type {Member} */ one) => originalOf(one.task) === status.taskId);
  const actions = html`<${TaskActions} task=${task} status=${status} refresh=${refresh} />`;
  const blocks = html`<${Blocks} member=${member} members=${members} complete=${group?.complete ?? false} />`;
  const reason = reasonOf(status, blocked);
  const filtered = (/** @type {string} */ word) => `${to.group(status.taskGroupId)}?name=${encodeURIComponent(word)}`;
  return html`
    <${Crumbs} of=${[
      { title: pushLabel(task.metadata.source) ?? "Task group", href: to.group(status.taskGroupId) },
      { title: status.taskQueueId, href: to.queue(status.taskQueueId) },
    ]} />
    <div class="head">
    <div class="title"><h1>${named(task)} <${State} state=${status.state} reason=${reason} /></h1>
      ${!isFinal(status.state) && html`<${NotifyButton} wanted=${notified} want=${notify} />`}</div>
    <${Markdown} text=${task.metadata.description} when=${isSaid} />
    <p>
      <bdi>${label(task.metadata.owner)}</bdi>
      ${tags.map(([name, value]) => html` <a class="tag" key=${name} href=${filtered(`${name}:${value}`)}>${label(`${name}: ${value}`)}</a>`)}
    </p>
    ${original && html`<p class="reason">A copy of <a href=${to.task(original)}>${named(task)}</a>, made by a retrigger.</p>`}
    ${copies.length > 0 && html`<p class="reason">Retriggered: ${copies.map((/** @type {Member} */ copy) => html` <a key=${copy.status.taskId} href=${to.task(copy.status.taskId)}>copy</a> <${State} state=${copy.status.state} reason="" />`)}</p>`}
    </div>
    <${Runs} status=${status} shown=${shown} />
    ${
      run
        ? html`<${RunPart} key=${run.runId} member=${member} run=${run} now=${now} actions=${actions} blocks=${blocks} said=${() => setSaid(true)} />`
        : html`<div class="first">${actions}<section class="why" aria-label="What it waits for">${needed && isClear ? html`<p class="verdict">${whyUnscheduled(task, needed, roots, now)}</p>` : html`<${Loading} label="Looking at what it waits for" />`}<${Roots} of=${roots} />${blocks}</section></div>`
    }
    <div class="columns">
      <section aria-labelledby="related">
        <h2 id="related">Dependencies</h2>
        <${Dependencies} task=${task} relatives=${relatives} blocked=${blocked} />
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
      </section>
    </div>
    <${AuditHistory} read=${ofTask(status.taskId)} members=${members} />
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
  return html`<ol class="runs" aria-label="Runs">
    ${status.runs.map(
      (
        run,
      ) => html`<li key=${run.runId}><a href=${to.task(status.taskId, run.runId)} aria-current=${run.runId === shown ? "true" : undefined}>
        Run ${run.runId}</a> <${State} state=${run.state} reason=${run.state === "exception" ? run.reasonResolved : undefined} /></li>`,
    )}
    ${shown > 0 && html`<li><a href=${compareHref({ id: status.taskId, runId: shown }, { id: status.taskId, runId: shown - 1 })}>Compare with run ${shown - 1}</a></li>`}
  </ol>`;
}

/** @param {{member: Member, run: Run, now: number, actions: any, blocks: any, said: () => void}} properties */
function RunPart({ member, run, now, actions, blocks, said }) {
  const { task, status } = member;
  const artifacts = useArtifacts(status.taskId, run);
  const worker =
    run.workerId &&
    html`<a href=${to.worker(status.taskQueueId, run.workerGroup ?? "", run.workerId)}>${run.workerGroup}/${run.workerId}</a>`;
  const ran = ranFor(run, now);
  const waited = (run.started ? Date.parse(run.started) : run.resolved ? 0 : now) - Date.parse(run.scheduled);
  return html`
    <div class="first">${actions}<${Why} task=${task} status=${status} run=${run} now=${now} artifacts=${artifacts} blocks=${blocks} said=${said} /></div>
    <${Before} member=${member} />
    <${Facts} of=${[
      ["Reason", reasonCreated(run)],
      ["Scheduled", html`<${Time} at=${run.scheduled} now=${now} />`],
      ...(waited > 0 ? [["Waited", duration(waited)]] : []),
      ...(run.started ? [["Started", html`<${Time} at=${run.started} now=${now} />`]] : []),
      ...(ran === null ? [] : [["Ran", duration(ran)]]),
      ...(run.resolved ? [["Resolved", html`<${Time} at=${run.resolved} now=${now} />`]] : []),
      ...(worker ? [["Worker", worker]] : []),
    ]} />
    <${Artifacts} polled=${artifacts} task=${task} taskId=${status.taskId} run=${run} />`;
}
