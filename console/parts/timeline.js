// Who ran when: each run's waiting and running time as a bar, on one time axis.

import { html, useMemo } from "../core/html.js";
import { absolute, duration } from "../core/time.js";
import { to } from "../core/router.js";
import { counted, named } from "../core/words.js";
import { columnOf, Table } from "./table.js";

/** @typedef {import("../core/types").Run} Run */

const column = /** @type {import("./table.js").ColumnOf<{name: string, taskId: string, run: Run}>} */ (columnOf);

/** @param {{members: import("../core/types").Member[], now: number}} properties */
export function Timeline({ members, now }) {
  const runs = useMemo(
    () =>
      members
        .flatMap(({ task, status }) => status.runs.map((run) => ({ name: named(task), taskId: status.taskId, run })))
        .sort((a, b) => Date.parse(a.run.started ?? a.run.scheduled) - Date.parse(b.run.started ?? b.run.scheduled)),
    [members],
  );
  const begin = Math.min(...runs.map(({ run }) => Date.parse(run.scheduled)));
  const end = Math.max(...runs.map(({ run }) => (run.resolved ? Date.parse(run.resolved) : now)));
  const span = Math.max(end - begin, 1000);
  const columns = useMemo(
    () => [
      column("name", "Task", ({ name, taskId, run }) => html`<a href=${to.task(taskId, run.runId)}>${name}</a>`, {
        class: "wide",
      }),
      column("worker", "Worker", ({ run }) => run.workerId ?? "–"),
      column("bar", "Runs", ({ run }) => html`<${Bar} run=${run} begin=${begin} span=${span} now=${now} />`, {
        class: "track",
      }),
    ],
    [begin, end, now],
  );
  const without = members.filter(({ status }) => status.runs.length === 0).length;
  if (runs.length === 0) return html`<p class="empty">No task has been scheduled yet.</p>`;
  return html`<p class="reason">${absolute(begin)} to ${absolute(end)}, ${duration(span)}${without > 0 && `; ${counted(without, "task")} without a run ${without === 1 ? "is" : "are"} not shown`}</p>
    <${Table} rows=${runs} columns=${columns} caption="Runs by time" id=${(/** @type {any} */ row) => `${row.taskId}/${row.run.runId}`} />`;
}

/** @param {{run: Run, begin: number, span: number, now: number}} properties */
function Bar({ run, begin, span, now }) {
  const scheduled = Date.parse(run.scheduled);
  const resolved = run.resolved ? Date.parse(run.resolved) : now;
  const started = run.started ? Date.parse(run.started) : resolved;
  const x = (/** @type {number} */ time) => ((time - begin) / span) * 1000;
  const label = `waited ${duration(started - scheduled)}${run.started ? `, ran ${duration(resolved - started)}` : ""}, ${run.state}`;
  return html`<svg class="run" viewBox="0 0 1000 20" preserveAspectRatio="none" role="img" aria-label=${label}>
    <title>${label}</title>
    <rect class="waiting" x=${x(scheduled)} y="7" height="6" width=${Math.max(x(started) - x(scheduled), 1)} />
    ${run.started && html`<rect class=${run.state} x=${x(started)} y="3" height="14" width=${Math.max(x(resolved) - x(started), 6)} />`}
  </svg>`;
}
