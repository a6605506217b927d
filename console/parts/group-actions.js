// What can be done with a whole group, and with those of its tasks that are selected.

import { now } from "../core/clock.js";
import { retriggered } from "../core/definition.js";
import { html, useState } from "../core/html.js";
import * as queue from "../core/queue.js";
import { slugid } from "../core/slugid.js";
import { duration } from "../core/time.js";
import { counted, isCanceled, isFinal, isWrong, PRIORITIES } from "../core/words.js";
import { DecisionActions } from "./decision-actions.js";
import { ActionButton } from "./feedback.js";

/** @typedef {import("../core/types").Member} Member */
/** @typedef {ReturnType<typeof import("./bulk.js").useBulk>} Bulk */
/** @typedef {ReturnType<typeof import("../core/cancelling.js").useCancelling>} Cancelling */

/** Longer than the page of a large group rests between two looks. */
const SILENT = 120_000;

/** @param {{group: import("../core/types").GroupSummary, members: Member[], complete: boolean, open: number, bulk: Bulk, refresh: () =>
 * void, cancelling: Cancelling, now: number}} properties `complete`: whether these are all its members; `open`: how many of its tasks are not resolved */
export function GroupActions({ group, members, complete, open, bulk, refresh, cancelling, now }) {
  const id = group.taskGroupId;
  const wrong = members.filter(({ status }) => isWrong(status));
  const useful = wrong.filter((member) => unfit(member, now) === "");
  const left = [LATE, MALFORMED].flatMap((why) => {
    const count = wrong.filter((member) => unfit(member, now) === why).length;
    return count > 0 ? [`${count.toLocaleString()} (${why})`] : [];
  });
  const unread = complete ? "" : "The group is still being read";
  const then = (/** @type {Promise<unknown>} */ done) => done.then(refresh);
  const rerun = () => bulk.start("Rerun", useful.map(idOf), queue.rerunTask);
  return html`<div class="buttons" role="group" aria-label="Actions on the group">
    <${ActionButton} kind="primary" disabled=${!complete || useful.length === 0} title=${unread} action=${rerun} verb=${`Rerun ${counted(useful.length, "task")}`}
      confirm=${`All that failed or ended as an exception, and nothing that was cancelled.${left.length > 0 ? ` Left out: ${left.join(", ")}.` : ""}`}>Rerun all that failed<//>
    ${!group.sealed && html`<${ActionButton} action=${() => then(queue.sealTaskGroup(id))} verb="Seal the group" confirm="No task can be added to it after that.">Seal<//>`}
    <${PriorityChoice} label="Priority of all" of=${counted(open, "task")} change=${(/** @type {string} */ priority) => then(queue.changeTaskGroupPriority(id, priority))} disabled=${!complete || open === 0} />
    <${DecisionActions} taskGroupId=${id} />
    <span class="apart"><${ActionButton} kind="danger" verb=${`Cancel ${counted(open, "task")}`} disabled=${!group.sealed || !complete || open === 0} title=${group.sealed ? unread : "Only a sealed group can be cancelled"}
      action=${() => then(cancelling.during(open, queue.cancelTaskGroup(id)))} confirm="All tasks of the group that are not resolved.">Cancel<//></span>
  </div>`;
}

/** @param {Member} member */
const idOf = ({ status }) => status.taskId;

export const LATE = "the deadline has passed";
export const MALFORMED = "the payload is malformed";

/** Why a task cannot be rerun, or would fail again in any case; empty if neither is so. @param {Member} member @param {number} now */
export const unfit = ({ status }, now) =>
  Date.parse(status.deadline) < now
    ? LATE
    : status.runs.at(-1)?.reasonResolved === "malformed-payload"
      ? MALFORMED
      : "";

/** How far the cancellation of a group is: the service goes on with a large one after it has answered.
 * @param {{cancelling: Cancelling, now: number}} properties */
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

/** @param {{selected: Set<string>, members: Member[], bulk: Bulk, now: number, clear: () => void}} properties */
export function SelectionActions({ selected, members, bulk, now, clear }) {
  const chosen = members.filter(({ status }) => selected.has(status.taskId));
  if (chosen.length === 0) return null;
  const resolved = chosen.filter(({ status }) => isFinal(status.state));
  const inTime = resolved.filter((member) => unfit(member, now) !== LATE).map(idOf);
  const canceled = chosen.filter(({ status }) => isCanceled(status)).length;
  const late = resolved.length - inTime.length;
  const open = chosen.filter(({ status }) => !isFinal(status.state)).map(idOf);
  const waiting = chosen.filter(({ status }) => status.state === "unscheduled").map(idOf);
  const about = [...(canceled > 0 ? [`Including ${canceled} cancelled.`] : []), ...(late > 0 ? [`Left out: ${late} (${LATE}).`] : [])]; // prettier-ignore
  return html`<div class="buttons selection" role="group" aria-label="Actions on the selected tasks">
    <strong>${counted(chosen.length, "task")} selected</strong>
    <${ActionButton} disabled=${inTime.length === 0} action=${() => bulk.start("Rerun", inTime, queue.rerunTask)} verb=${`Rerun ${counted(inTime.length, "task")}`} confirm=${about.join(" ") || "Tasks that wait for them go on when they complete."}>Rerun ${inTime.length}<//>
    <${Retrigger} members=${chosen} bulk=${bulk}>Retrigger ${chosen.length}<//>
    <${ActionButton} disabled=${waiting.length === 0} action=${() => bulk.start("Schedule", waiting, queue.scheduleTask)} verb=${`Schedule ${counted(waiting.length, "task")}`} confirm="They may run whatever becomes of their dependencies.">Schedule ${waiting.length}<//>
    <${PriorityChoice} label="Priority" of=${counted(open.length, "task")} disabled=${open.length === 0} change=${(/** @type {string} */ priority) => bulk.start("Change priority", open, (id) => queue.changeTaskPriority(id, priority))} />
    <button type="button" class="quiet" onClick=${clear}>Clear selection</button>
    <span class="apart"><${ActionButton} kind="danger" disabled=${open.length === 0} action=${() => bulk.start("Cancel", open, queue.cancelTask)} verb=${`Cancel ${counted(open.length, "task")}`} confirm="Tasks that need them to complete will not run.">Cancel ${open.length}<//></span>
  </div>`;
}

const MOST_COPIES = 20;

/** Copies of tasks: so many of each as one says. @param {{members: Member[], bulk: Bulk, children?: any, done?: (ids:
 * string[]) => void}} properties `done` is told the ids of the copies */
export function Retrigger({ members, bulk, children, done }) {
  const [times, setTimes] = useState(1);
  const total = members.length * times;
  const copies = () => {
    /** @type {string[]} */
    const made = [];
    const wanted = members.flatMap(({ status }) =>
      Array.from({ length: times }, (_, at) => `${status.taskId} ${at + 1}`),
    );
    const create = async (/** @type {string} */ key) => {
      const member = members.find(({ status }) => key.startsWith(status.taskId));
      if (!member) return;
      const id = slugid();
      await queue.createTask(id, retriggered(member.task, member.status.taskId, now()));
      made.push(id);
    };
    return bulk.start("Retrigger", wanted, create).then(() => done?.(made));
  };
  const scopes = [...new Set(members.flatMap(({ task }) => task.scopes))].sort();
  const confirm = html`<label>Copies of each <input type="number" min="1" max=${MOST_COPIES} value=${times} onInput=${(/** @type {any} */ event) => setTimes(Math.max(1, Math.min(MOST_COPIES, Number(event.target.value) || 1)))} /></label>
    <p>They are created in the same group, in your name. ${scopes.length === 0 ? "They have no scopes." : `They get the scopes of what they copy: ${scopes.join(", ")}`}</p>`;
  return html`<${ActionButton} action=${copies} verb=${total === 1 ? "Create a copy of the task" : `Create ${total.toLocaleString()} copies`} confirm=${confirm}>${children}<//>`;
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
