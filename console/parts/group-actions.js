// What can be done with a whole group, and with those of its tasks that are selected.

import { html, useState } from "../core/html.js";
import * as queue from "../core/queue.js";
import { duration } from "../core/time.js";
import { counted, isCanceled, isFinal, isWrong, PRIORITIES } from "../core/words.js";
import { ActionButton } from "./feedback.js";

/** @typedef {import("../core/types").Member} Member */
/** @typedef {ReturnType<typeof import("./bulk.js").useBulk>} Bulk */
/** @typedef {ReturnType<typeof import("../core/cancelling.js").useCancelling>} Cancelling */

/** Longer than the page of a large group rests between two looks. */
const SILENT = 120_000;

/**
 * @param {{group: import("../core/types").GroupSummary, members: Member[], bulk: Bulk, refresh: () => void, cancelling: Cancelling}} properties
 */
export function GroupActions({ group, members, bulk, refresh, cancelling }) {
  const id = group.taskGroupId;
  const failed = members.filter(({ status }) => isWrong(status)).map(({ status }) => status.taskId);
  const open = members.filter(({ status }) => !isFinal(status.state)).length;
  const then = (/** @type {Promise<unknown>} */ done) => done.then(refresh);
  return html`<div class="buttons" role="group" aria-label="Actions on the group">
    <${ActionButton} kind="primary" disabled=${failed.length === 0} action=${() => bulk.start("Rerun", failed, queue.rerunTask)}
      verb=${`Rerun ${counted(failed.length, "task")}`} confirm="All that failed or ended as an exception, and nothing that was cancelled.">Rerun all that failed<//>
    ${!group.sealed && html`<${ActionButton} action=${() => then(queue.sealTaskGroup(id))} verb="Seal the group" confirm="No task can be added to it after that.">Seal<//>`}
    <${PriorityChoice} label="Priority of all" of=${counted(open, "task")} change=${(/** @type {string} */ priority) => then(queue.changeTaskGroupPriority(id, priority))} disabled=${open === 0} />
    <span class="apart"><${ActionButton} kind="danger" verb=${`Cancel ${counted(open, "task")}`} disabled=${!group.sealed || open === 0} title=${group.sealed ? "" : "Only a sealed group can be cancelled"}
      action=${() => then(cancelling.during(open, queue.cancelTaskGroup(id)))} confirm="All tasks of the group that are not resolved.">Cancel<//></span>
  </div>`;
}

/**
 * How far the cancellation of a group is: the service goes on with a large one after it has answered.
 * @param {{cancelling: Cancelling, now: number}} properties
 */
export function CancelProgress({ cancelling: { known, dismiss }, now }) {
  if (!known) return null;
  const done = `${(known.all - known.open).toLocaleString()} of ${counted(known.all, "task")}`;
  const silent = now - known.changed;
  return html`<div class="notice" role="status">
    ${
      silent < SILENT
        ? html`<p>Cancelling goes on in the background: ${done} so far.</p>`
        : html`<p>The group was cancelled here: ${done} have ended since, none seen in the last ${duration(silent)}. <em>Cancel</em> again if the others are to end, too.</p>
      <button type="button" onClick=${dismiss}>Close</button>`
    }
    <progress max=${known.all} value=${known.all - known.open} aria-label="Cancel the group"></progress>
  </div>`;
}

/** @param {{selected: Set<string>, members: Member[], bulk: Bulk, clear: () => void}} properties */
export function SelectionActions({ selected, members, bulk, clear }) {
  const chosen = members.filter(({ status }) => selected.has(status.taskId));
  if (chosen.length === 0) return null;
  const resolved = chosen.filter(({ status }) => isFinal(status.state)).map(({ status }) => status.taskId);
  const canceled = chosen.filter(({ status }) => isCanceled(status)).length;
  const open = chosen.filter(({ status }) => !isFinal(status.state)).map(({ status }) => status.taskId);
  const waiting = chosen.filter(({ status }) => status.state === "unscheduled").map(({ status }) => status.taskId);
  return html`<div class="buttons selection" role="group" aria-label="Actions on the selected tasks">
    <strong>${counted(chosen.length, "task")} selected</strong>
    <${ActionButton} disabled=${resolved.length === 0} action=${() => bulk.start("Rerun", resolved, queue.rerunTask)} verb=${`Rerun ${counted(resolved.length, "task")}`} confirm=${canceled > 0 ? `Including ${canceled} cancelled.` : "Tasks that wait for them go on when they complete."}>Rerun ${resolved.length}<//>
    <${ActionButton} kind="danger" disabled=${open.length === 0} action=${() => bulk.start("Cancel", open, queue.cancelTask)} verb=${`Cancel ${counted(open.length, "task")}`} confirm="Tasks that need them to complete will not run.">Cancel ${open.length}<//>
    <${ActionButton} disabled=${waiting.length === 0} action=${() => bulk.start("Schedule", waiting, queue.scheduleTask)} verb=${`Schedule ${counted(waiting.length, "task")}`} confirm="They may run whatever becomes of their dependencies.">Schedule ${waiting.length}<//>
    <${PriorityChoice} label="Priority" of=${counted(open.length, "task")} disabled=${open.length === 0} change=${(/** @type {string} */ priority) => bulk.start("Change priority", open, (id) => queue.changeTaskPriority(id, priority))} />
    <button type="button" class="quiet" onClick=${clear}>Clear selection</button>
  </div>`;
}

/** @param {{label: string, of: string, disabled?: boolean, change: (priority: string) => Promise<unknown>}} properties */
export function PriorityChoice({ label, of, disabled = false, change }) {
  const [priority, setPriority] = useState("high");
  return html`<span class="choice">
    <select aria-label=${label} value=${priority} disabled=${disabled} onChange=${(/** @type {any} */ event) => setPriority(event.target.value)}>
      ${PRIORITIES.map((one) => html`<option key=${one}>${one}</option>`)}
    </select>
    <${ActionButton} disabled=${disabled} action=${() => change(priority)} verb=${`Set the priority of ${of} to ${priority}`} confirm="What is pending is claimed in the new order.">Set priority<//>
  </span>`;
}
