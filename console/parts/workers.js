// The workers of a task queue, and what can be done with those that are selected.

import { html, useMemo, useRef, useState } from "../core/html.js";
import { gather, useNow, usePolled } from "../core/polling.js";
import { listWorkers, statuses, tasks } from "../core/queue.js";
import { setQuery, to } from "../core/router.js";
import { counted, isFinal, named, NOTED_EVERY, workerState } from "../core/words.js";
import { BulkProgress, useBulk } from "./bulk.js";
import { ActionButton, Empty, Loaded } from "./feedback.js";
import { lacks, QuarantineFields, useQuarantine } from "./quarantine.js";
import { LastActive, Time } from "./states.js";
import { columnOf, Table } from "./table.js";

const MOST = 2000;

/** @typedef {import("../core/types").Worker} Worker */

const column = /** @type {import("./table.js").ColumnOf<Worker>} */ (columnOf);

/** @param {{id: string, query: URLSearchParams}} properties */
export function Workers({ id, query }) {
  const names = useRef(/** @type {Map<string, string>} */ (new Map()));
  const over = useRef(/** @type {Set<string>} */ (new Set()));
  const polled = usePolled(
    async (signal) => {
      const found = /** @type {{items: Worker[], more: boolean}} */ (
        await gather(listWorkers(id, { signal }), "workers", MOST)
      );
      const ids = new Set(found.items.flatMap(({ latestTask }) => (latestTask ? [latestTask.taskId] : [])));
      const fresh = await tasks([...ids].filter((taskId) => !names.current.has(taskId)));
      for (const [taskId, task] of fresh) names.current.set(taskId, named(task));
      const open = await statuses(
        [...ids].filter((taskId) => !over.current.has(taskId)),
        signal,
      );
      for (const [taskId, { state }] of open) if (isFinal(state)) over.current.add(taskId);
      const busy = Object.fromEntries(
        found.items.filter((worker) => holds(worker, open)).map((worker) => [keyOf(worker), true]),
      );
      return { ...found, names: names.current, busy }; // no Set, since looks are compared as JSON
    },
    [id],
    { interval: 10_000 },
  );
  const now = useNow(10_000);
  const [selected, setSelected] = useState(/** @type {Set<string>} */ (new Set()));
  const bulk = useBulk(polled.refresh, "worker");
  const busy = polled.data?.busy ?? {};
  const stateOf = (/** @type {Worker} */ worker) => {
    if (isQuarantined(worker, now)) return html`<span class="state exception">quarantined</span>`;
    return busy[keyOf(worker)] ? "running its last task" : workerState(worker, 0, now);
  };
  const columns = useMemo(
    () => [
      column("worker", "Worker", ({ workerGroup, workerId }) => html`<a href=${to.worker(id, workerGroup, workerId)}>${workerGroup}/${workerId}</a>`, { class: "wide", sort: ({ workerId }) => workerId }), // prettier-ignore
      column("state", "State", stateOf, { sort: (worker) => Number(isQuarantined(worker, now)) }),
      column("active", "Last active", (worker) => html`<${LastActive} at=${worker.lastDateActive} busy=${busy[keyOf(worker)]} now=${now} />`, { sort: ({ lastDateActive }) => lastDateActive ?? "" }), // prettier-ignore
      column("first", "First claim", ({ firstClaim }) => html`<${Time} at=${firstClaim} now=${now} />`, {
        sort: ({ firstClaim }) => firstClaim,
      }),
      column("latest", "Last task", ({ latestTask }) => (latestTask ? html`<a href=${to.task(latestTask.taskId, latestTask.runId)}>${polled.data?.names.get(latestTask.taskId) ?? latestTask.taskId}</a>` : "–"), { class: "wide" }), // prettier-ignore
    ],
    [id, now, polled.data],
  );
  return html`<${BulkProgress} bulk=${bulk} />
    <${Loaded} of=${polled}>${(/** @type {{items: Worker[], more: boolean}} */ { items, more }) => {
      if (items.length === 0)
        return html`<${Empty}>No worker has asked this task queue for work lately. Pending tasks wait until one does.<//>`;
      const chosen = items.filter((worker) => selected.has(keyOf(worker)));
      return html`${more && html`<p>The first ${counted(items.length, "row")}; there are more.</p>`}
        <${Summary} items=${items} busy=${Object.keys(polled.data?.busy ?? {}).length} now=${now} />
        <${SelectedWorkers} id=${id} chosen=${chosen} now=${now} bulk=${bulk} clear=${() => setSelected(new Set())} />
        <${Table} rows=${items} columns=${columns} id=${keyOf} caption="Workers" sort=${query.get("sort") ?? "-active"} onSort=${(/** @type {string} */ sort) => setQuery({ sort })}
          selected=${selected} onSelect=${setSelected} />`;
    }}<//>`;
}

/** Quarantine and release of the workers that are selected.
 * @param {{id: string, chosen: Worker[], now: number, bulk: ReturnType<typeof useBulk>, clear: () => void}} properties
 */
function SelectedWorkers({ id, chosen, now, bulk, clear }) {
  const quarantine = useQuarantine();
  if (chosen.length === 0) return null;
  const held = chosen.filter((worker) => isQuarantined(worker, now));
  const byKey = new Map(chosen.map((worker) => [keyOf(worker), worker]));
  const run = (
    /** @type {string} */ title,
    /** @type {Worker[]} */ workers,
    /** @type {(id: string, worker: Worker) => Promise<unknown>} */ action,
  ) => bulk.start(title, workers.map(keyOf), async (key) => action(id, /** @type {Worker} */ (byKey.get(key))));
  const missing = lacks(quarantine);
  const workers = counted(chosen.length, "worker");
  return html`<div class="selection" role="group" aria-label="Actions on the selected workers">
    <strong>${workers} selected</strong>
    <${QuarantineFields} of=${quarantine} />
    <div class="buttons">
      <${ActionButton} kind="primary" verb=${`Quarantine ${workers}`} disabled=${missing !== ""} title=${missing} action=${() => run("Quarantine", chosen, quarantine.begin)}
        confirm=${`No work ${quarantine.span}. What they are running continues.${held.length > 0 ? ` ${held.length === 1 ? "One is" : `${held.length} are`} in quarantine already, and get this one instead.` : ""}`}>Quarantine ${chosen.length}<//>
      <${ActionButton} verb=${`Release ${counted(held.length, "worker")}`} disabled=${held.length === 0} action=${() => run("Release", held, quarantine.end)} confirm="They are given work again.">Release ${held.length}<//>
      <button type="button" class="quiet" onClick=${clear}>Clear selection</button>
    </div>
  </div>`;
}

/** @param {Worker} worker */
const keyOf = ({ workerGroup, workerId }) => `${workerGroup}/${workerId}`;

/** Whether a worker runs its last task. @param {Worker} worker @param {Map<string, import("../core/types").Status>} open statuses by taskId */
function holds({ workerGroup, workerId, latestTask }, open) {
  const run = latestTask && open.get(latestTask.taskId)?.runs[latestTask.runId];
  return run?.state === "running" && run.workerGroup === workerGroup && run.workerId === workerId;
}

/** @param {Worker} worker @param {number} now */
const isQuarantined = ({ quarantineUntil }, now) => quarantineUntil !== undefined && Date.parse(quarantineUntil) > now;

/** @param {{items: Worker[], busy: number, now: number}} properties */
function Summary({ items, busy, now }) {
  const quarantined = items.filter((worker) => isQuarantined(worker, now)).length;
  const seen = items.filter(({ lastDateActive }) => now - Date.parse(lastDateActive ?? "") < NOTED_EVERY).length;
  return html`<p>${counted(items.length, "worker")} known: ${busy.toLocaleString()} running the last task, ${seen.toLocaleString()} seen in the last half hour, ${quarantined.toLocaleString()} in quarantine</p>`;
}
