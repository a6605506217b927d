// One worker: what it does and did, and quarantine with its reason and history.

import { ofWorker } from "../core/audit.js";
import { html } from "../core/html.js";
import { useNow, usePolled } from "../core/polling.js";
import { getWorker, statuses, tasks, workerRemoved } from "../core/queue.js";
import { to } from "../core/router.js";
import { useTitle } from "../core/title.js";
import { counted, namedOr, workerState } from "../core/words.js";
import { AuditHistory } from "../parts/audit.js";
import { ActionButton, Empty, Loaded } from "../parts/feedback.js";
import { lacks, QuarantineFields, useQuarantine } from "../parts/quarantine.js";
import { Facts, LastActive, State, Time, Until } from "../parts/states.js";

/** @typedef {import("../core/types").WorkerDetails} Worker */
/** @typedef {{taskId: string, runId: number, name: string, status?: import("../core/types").Status}} Recent */

/** @param {import("../core/types").PageProperties} properties */
export default function WorkerPage({ params }) {
  const { provisionerId, workerType, workerGroup = "", workerId = "" } = params;
  const id = `${provisionerId}/${workerType}`;
  useTitle(`Worker ${workerGroup}/${workerId}`);
  const polled = usePolled((signal) => read(id, workerGroup, workerId, signal), [id, workerGroup, workerId], {
    interval: 10_000,
  });
  return html`<article>
    <h1>${workerGroup}/${workerId}</h1>
    <p>Worker of <a href=${to.queue(id)}>${id}</a></p>
    <${Loaded} of=${polled} label="Loading the worker">
      ${(/** @type {{worker: Worker, recent: Recent[]}} */ { worker, recent }) => html`<${Details} id=${id} worker=${worker} recent=${recent} refresh=${polled.refresh} />`}
    <//>
  </article>`;
}

/** @param {string} id @param {string} group @param {string} name @param {AbortSignal} signal */
async function read(id, group, name, signal) {
  const worker = await getWorker(id, group, name, { signal });
  const ids = [...new Set(worker.recentTasks.map(({ taskId }) => taskId))];
  const [definitions, states] = await Promise.all([tasks(ids), statuses(ids, signal)]);
  const recent = worker.recentTasks
    .map(({ taskId, runId }) => ({
      taskId,
      runId,
      name: namedOr(definitions.get(taskId), taskId),
      status: states.get(taskId),
    }))
    .reverse();
  return { worker, recent };
}

/** @param {{id: string, worker: Worker, recent: Recent[], refresh: () => void}} properties */
function Details({ id, worker, recent, refresh }) {
  const now = useNow(5000);
  const until = worker.quarantineUntil ? Date.parse(worker.quarantineUntil) : 0;
  const quarantined = until > now;
  const running = recent.filter(({ runId, status }) => {
    const run = status?.runs[runId];
    return run?.state === "running" && run.workerGroup === worker.workerGroup && run.workerId === worker.workerId;
  }).length;
  const quarantine = useQuarantine();
  return html`
    <${Facts} of=${[
      [
        "State",
        quarantined
          ? html`<span class="state exception">quarantined</span>${running > 0 && `, running ${counted(running, "task")}`}`
          : workerState(worker, running, now),
      ],
      ["Last active", html`<${LastActive} at=${worker.lastDateActive} busy=${running > 0} now=${now} />`],
      ["First claim", html`<${Time} at=${worker.firstClaim} now=${now} />`],
      ["Expires", html`<${Time} at=${worker.expires} now=${now} />`],
      ...(quarantined ? [["Quarantined until", html`<${Until} at=${worker.quarantineUntil} now=${now} />`]] : []),
    ]} />
    <section aria-labelledby="quarantine">
      <h2 id="quarantine">Quarantine</h2>
      <p>A quarantined worker is given no more work. What it is running continues.</p>
      <${QuarantineFields} of=${quarantine} />
      <div class="buttons">
        ${
          quarantined
            ? html`<${ActionButton} kind="primary" action=${() => quarantine.end(id, worker).then(refresh)}>Release<//>`
            : html`<${ActionButton} kind="primary" disabled=${lacks(quarantine) !== ""} title=${lacks(quarantine)} action=${() => quarantine.begin(id, worker).then(refresh)}>Quarantine<//>`
        }
        <${ActionButton} action=${() => workerRemoved(id, worker.workerGroup, worker.workerId).then(refresh)} verb="Report the worker as gone" confirm="The tasks that it is running are retried at once.">Report as gone<//>
      </div>
      ${
        (worker.quarantineDetails ?? []).length > 0 &&
        html`<h3>History</h3><ul>
        ${[...(worker.quarantineDetails ?? [])]
          .reverse()
          .map(
            (entry) =>
              html`<li key=${entry.updatedAt}><${Time} at=${entry.updatedAt} now=${now} /> by <code>${entry.clientId}</code>, until <${Until} at=${entry.quarantineUntil} now=${now} />: ${entry.quarantineInfo || "no reason given"}</li>`,
          )}
      </ul>`
      }
    </section>
    <${AuditHistory} read=${ofWorker(id, worker.workerGroup, worker.workerId)} />
    <section aria-labelledby="recent">
      <h2 id="recent">Recent tasks</h2>
      ${
        recent.length === 0
          ? html`<${Empty}>None.<//>`
          : html`<ul class="related">
        ${recent.map(
          ({ taskId, runId, name, status }) => html`<li key=${`${taskId}/${runId}`}>
          <a href=${to.task(taskId, runId)}>${name}</a> ${status ? html`<${State} state=${status.runs[runId]?.state ?? status.state} reason=${status.runs[runId]?.reasonResolved !== status.runs[runId]?.state ? status.runs[runId]?.reasonResolved : ""} />` : html`<span class="reason">expired</span>`}
          ${" "}<span class="reason">${status && html`started <${Time} at=${status.runs[runId]?.started} now=${now} />`}</span></li>`,
        )}
      </ul>`
      }
    </section>`;
}
