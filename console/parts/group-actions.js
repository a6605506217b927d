// What can be done with a whole group, and with those of its tasks that are selected.

import { html, useState } from "../core/html.js";
import * as queue from "../core/queue.js";
import { counted, isCanceled, isFinal, isWrong, PRIORITIES } from "../core/words.js";
import { ActionButton } from "./feedback.js";

/** @typedef {import("../core/types").Member} Member */
/** @typedef {ReturnType<typeof import("./bulk.js").useBulk>} Bulk */

/**
 * @param {{group: import("../core/types").GroupSummary, members: Member[], bulk: Bulk, refresh: () => void, onCancel: (open: number) => void}} properties
 *   `onCancel` is told how many tasks were open when the group was cancelled
 */
export function GroupActions({ group, members, bulk, refresh, onCancel }) {
  const id = group.taskGroupId;
  const failed = members.filter(({ status }) => isWrong(status)).map(({ status }) => status.taskId);
  const open = members.filter(({ status }) => !isFinal(status.state)).length;
  const then = (/** @type {Promise<unknown>} */ done) => done.then(refresh);
  return html`<div class="buttons" role="group" aria-label="Actions on the group">
    <${ActionButton} kind="primary" disabled=${failed.length === 0} action=${() => bulk.start("Rerun", failed, queue.rerunTask)}
      confirm=${`Rerun ${counted(failed.length, "task")} that failed or ended as an exception?`}>Rerun all that failed<//>
    ${!group.sealed && html`<${ActionButton} action=${() => then(queue.sealTaskGroup(id))} confirm="Seal the group? No task can be added to it after that.">Seal<//>`}
    <${PriorityChoice} label="Priority of all" change=${(/** @type {string} */ priority) => then(queue.changeTaskGroupPriority(id, priority))} disabled=${open === 0} />
    <span class="apart"><${ActionButton} kind="danger" verb=${`Cancel ${counted(open, "task")}`} disabled=${!group.sealed || open === 0} title=${group.sealed ? "" : "Only a sealed group can be cancelled"}
      action=${() => (onCancel(open), then(queue.cancelTaskGroup(id)))} confirm=${`Cancel ${counted(open, "task")} that are not resolved?`}>Cancel<//></span>
  </div>`;
}

/**
 * How far the cancellation of a group is: the service goes on with a large one after it has answered.
 * @param {{all: number, open: number}} properties
 */
export function Cancelling({ all, open }) {
  const done = Math.max(all - open, 0);
  return html`<div class="notice" role="status">
    <p>Cancelling goes on in the background: ${done.toLocaleString()} of ${counted(all, "task")} so far.</p>
    <progress max=${all} value=${done} aria-label="Cancel the group"></progress>
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
    <${ActionButton} disabled=${resolved.length === 0} action=${() => bulk.start("Rerun", resolved, queue.rerunTask)} confirm=${`Rerun ${counted(resolved.length, "task")}${canceled > 0 ? `, including ${canceled} cancelled` : ""}?`}>Rerun ${resolved.length}<//>
    <${ActionButton} kind="danger" disabled=${open.length === 0} action=${() => bulk.start("Cancel", open, queue.cancelTask)} confirm=${`Cancel ${counted(open.length, "task")}?`}>Cancel ${open.length}<//>
    <${ActionButton} disabled=${waiting.length === 0} action=${() => bulk.start("Schedule", waiting, queue.scheduleTask)} confirm=${`Schedule ${counted(waiting.length, "task")} whatever their dependencies?`}>Schedule ${waiting.length}<//>
    <${PriorityChoice} label="Priority" disabled=${open.length === 0} change=${(/** @type {string} */ priority) => bulk.start("Change priority", open, (id) => queue.changeTaskPriority(id, priority))} />
    <button type="button" class="quiet" onClick=${clear}>Clear selection</button>
  </div>`;
}

/** @param {{label: string, disabled?: boolean, change: (priority: string) => Promise<unknown>}} properties */
export function PriorityChoice({ label, disabled = false, change }) {
  const [priority, setPriority] = useState("high");
  return html`<span class="choice">
    <select aria-label=${label} value=${priority} disabled=${disabled} onChange=${(/** @type {any} */ event) => setPriority(event.target.value)}>
      ${PRIORITIES.map((one) => html`<option key=${one}>${one}</option>`)}
    </select>
    <${ActionButton} disabled=${disabled} action=${() => change(priority)} confirm=${`Change the priority to ${priority}?`}>Set priority<//>
  </span>`;
}
