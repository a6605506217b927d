// What can be done with a task: by the queue itself, and by the actions that its group's decision task offers.

import { html } from "../core/html.js";
import { retriggered } from "../core/definition.js";
import * as queue from "../core/queue.js";
import { navigate, to } from "../core/router.js";
import { slugid } from "../core/slugid.js";
import { isFinal } from "../core/words.js";
import { ActionButton } from "./feedback.js";
import { DecisionActions } from "./decision-actions.js";
import { PriorityChoice } from "./group-actions.js";

/** @param {{task: import("../core/types").Definition, status: import("../core/types").Status, refresh: () => void}} properties */
export function TaskActions({ task, status, refresh }) {
  const id = status.taskId;
  const over = Date.parse(status.deadline) < Date.now();
  const late = over ? "The deadline has passed" : "";
  const then = (/** @type {Promise<unknown>} */ done) => done.then(refresh);
  const rerun = async () => {
    await queue.rerunTask(id);
    refresh();
    navigate(to.task(id));
  };
  const retrigger = async () => {
    const copy = slugid();
    await queue.createTask(copy, retriggered(task, Date.now()));
    navigate(to.task(copy));
  };
  return html`<div class="buttons" role="group" aria-label="Actions on the task">
    ${isFinal(status.state) && html`<${ActionButton} kind=${status.state === "completed" ? "" : "primary"} disabled=${over} title=${late} action=${rerun} verb="Rerun the task" confirm="Tasks that wait for it go on when it completes.">Rerun<//>`}
    ${status.state === "unscheduled" && html`<${ActionButton} disabled=${over} title=${late} action=${() => then(queue.scheduleTask(id))} verb="Schedule the task" confirm="It may run whatever becomes of its dependencies.">Schedule<//>`}
    <${ActionButton} action=${retrigger} verb="Create a copy of the task" confirm=${ofCopy(task)}>Retrigger<//>
    <a class="button" href=${to.copy(id)}>Edit as new</a>
    ${!isFinal(status.state) && html`<${PriorityChoice} label="Priority" of="the task" disabled=${over} change=${(/** @type {string} */ priority) => then(queue.changeTaskPriority(id, priority))} />`}
    <${DecisionActions} task=${task} status=${status} />
    ${!isFinal(status.state) && html`<span class="apart"><${ActionButton} kind="danger" verb="Cancel the task" disabled=${over} title=${late} action=${() => then(queue.cancelTask(id))} confirm="Tasks that need it to complete will not run.">Cancel<//></span>`}
  </div>`;
}

/** Whoever has created the task chose its scopes; the copy is made in the name of who answers. @param {import("../core/types").Definition} task */
const ofCopy = ({ scopes }) =>
  `It is created in the same group. ${scopes.length === 0 ? "It has no scopes." : `It gets the task's scopes: ${scopes.join(", ")}`}`;
