// What a task waits for, and what waits for it: those that block first.

import { reasonOf } from "../core/blocking.js";
import { html, useRef } from "../core/html.js";
import { gather, usePolled } from "../core/polling.js";
import { listDependentTasks, statuses, tasks } from "../core/queue.js";
import { to } from "../core/router.js";
import { byName, isFinal, named } from "../core/words.js";
import { Empty, Loaded } from "./feedback.js";
import { State } from "./states.js";

const MOST_DEPENDENTS = 500;

/** @typedef {{taskId: string, name: string, status: import("../core/types").Status | undefined}} Related */

/** What a task waits for and what waits for it. @param {import("../core/types").Definition} task
 * @param {import("../core/types").Status} status */
export function useRelatives(task, status) {
  const names = useRef(/** @type {Map<string, string>} */ (new Map()));
  const required = usePolled((signal) => namesAndStates(task.dependencies, names.current, signal), [status.taskId], {
    interval: 15_000,
    until: () => isFinal(status.state) || task.dependencies.length === 0,
  });
  const dependents = usePolled((signal) => dependentsOf(status.taskId, signal), [status.taskId], { interval: 30_000 });
  return { required, dependents };
}

/** @param {{task: import("../core/types").Definition, relatives: ReturnType<typeof useRelatives>, blocked: Map<string,
 * import("../core/types").Member[]>}} properties `blocked`: what waits in vain, and for which failures */
export function Dependencies({ task, relatives: { required, dependents }, blocked }) {
  return html`
    <h3>Waits for</h3>
    ${
      task.dependencies.length === 0
        ? html`<${Empty}>Nothing.<//>`
        : html`<p class="reason">${task.requires === "all-completed" ? "All must complete." : "All must be resolved, whatever the outcome."}</p>
          <${Loaded} of=${required}>${(/** @type {Related[]} */ found) => html`<${List} of=${found} blocked=${blocked} />`}<//>`
    }
    <h3>Needed by</h3>
    <${Loaded} of=${dependents}>
      ${(/** @type {{related: Related[], more: boolean}} */ { related, more }) =>
        related.length === 0
          ? html`<${Empty}>No task.<//>`
          : html`<${List} of=${related} blocked=${blocked} />${more && html`<p>There are more than ${MOST_DEPENDENTS}.</p>`}`}
    <//>`;
}

/** @param {{of: Related[], blocked: Map<string, import("../core/types").Member[]>}} properties */
const List = ({ of, blocked }) =>
  html`<ul class="related">
    ${[...of].sort(blockingFirst).map(
      ({ taskId, name, status }) => html`<li key=${taskId}>
        ${status ? html`<a href=${to.task(taskId)}>${name}</a> <${State} state=${status.state} reason=${reasonOf(status, blocked.get(taskId))} />` : html`<code>${taskId}</code> <span class="reason">expired</span>`}
      </li>`,
    )}
  </ul>`;

/** @param {Related} a @param {Related} b */
function blockingFirst(a, b) {
  const rank = (/** @type {Related} */ { status }) =>
    !status ? 3 : status.state === "completed" ? 2 : isFinal(status.state) ? 0 : 1;
  return rank(a) - rank(b) || byName(a.name, b.name);
}

/** @param {import("../core/types").Definition | undefined} task */
const nameIn = (task) => task && named(task);

/** @param {string[]} taskIds @param {Map<string, string>} names those that are known already, and never change
 * @param {AbortSignal} signal @returns {Promise<Related[]>} */
async function namesAndStates(taskIds, names, signal) {
  const unknown = taskIds.filter((taskId) => !names.has(taskId));
  const [definitions, states] = await Promise.all([tasks(unknown), statuses(taskIds, signal)]);
  for (const taskId of unknown) names.set(taskId, nameIn(definitions.get(taskId)) ?? taskId);
  return taskIds.map((taskId) => ({ taskId, name: names.get(taskId) ?? taskId, status: states.get(taskId) }));
}

/** @param {string} taskId @param {AbortSignal} signal */
async function dependentsOf(taskId, signal) {
  const { items, more } = await gather(listDependentTasks(taskId, { signal }), "tasks", MOST_DEPENDENTS);
  const members = /** @type {import("../core/types").Member[]} */ (items);
  return {
    related: members.map(({ task, status }) => ({ taskId: status.taskId, name: named(task), status })),
    more,
  };
}
