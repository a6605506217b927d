// What can be done with a task: by the queue itself, and by the actions that its group's decision task offers.

import { now } from "../core/clock.js";
import { html } from "../core/html.js";
import * as queue from "../core/queue.js";
import { navigate, to } from "../core/router.js";
import { isFinal } from "../core/words.js";
import { BulkProgress, useBulk } from "./bulk.js";
import { ActionButton } from "./feedback.js";
import { DecisionActions } from "./decision-actions.js";
import { LATE, MALFORMED, PriorityChoice, Retrigger, unfit } from "./group-actions.js";

/** @param {{task: import("../core/types").Definition, status: import("../core/types").Status, refresh: () => void}} properties */
export function TaskActions({ task, status, refresh }) {
  const id = status.taskId;
  const why = unfit({ task, status }, now());
  const over = why === LATE;
  const late = over ? `Of no use: ${LATE}` : "";
  const mended = why === MALFORMED; // it fails again, until somebody corrects the definition
  const bulk = useBulk(refresh, "copy");
  const then = (/** @type {Promise<unknown>} */ done) => done.then(refresh);
  const rerun = async () => {
    await queue.rerunTask(id);
    refresh();
    navigate(to.task(id));
  };
  const copied = (/** @type {string[]} */ ids) => {
    if (ids.length === 1 && ids[0]) navigate(to.task(ids[0]));
  };
  const edit = html`<a class=${mended ? "button primary" : "button"} href=${to.copy(id)}>Edit as new</a>`;
  return html`<div class="buttons" role="group" aria-label="Actions on the task">
    ${mended && edit}
    ${isFinal(status.state) && html`<${ActionButton} kind=${status.state === "completed" || mended ? "" : "primary"} disabled=${over} title=${late} action=${rerun} verb="Rerun the task" confirm=${mended ? "Its payload is malformed: without a change it fails again." : "Tasks that wait for it go on when it completes."}>Rerun<//>`}
    ${status.state === "unscheduled" && html`<${ActionButton} disabled=${over} title=${late} action=${() => then(queue.scheduleTask(id))} verb="Schedule the task" confirm="It may run whatever becomes of its dependencies.">Schedule<//>`}
    <${Retrigger} members=${[{ task, status }]} bulk=${bulk} done=${copied}>Retrigger<//>
    ${!mended && edit}
    ${!isFinal(status.state) && html`<${PriorityChoice} label="Priority" of="the task" disabled=${over} change=${(/** @type {string} */ priority) => then(queue.changeTaskPriority(id, priority))} />`}
    <${DecisionActions} taskGroupId=${status.taskGroupId} taskId=${id} task=${task} />
    ${!isFinal(status.state) && html`<span class="apart"><${ActionButton} kind="danger" verb="Cancel the task" disabled=${over} title=${late} action=${() => then(queue.cancelTask(id))} confirm="Tasks that need it to complete will not run.">Cancel<//></span>`}
  </div>
  <${BulkProgress} bulk=${bulk} />`;
}
