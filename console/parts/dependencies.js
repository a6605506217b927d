// What a task waits for, and what waits for it: those that block first.

import { isLost, reasonOf } from "../core/blocking.js";
import { html, useRef } from "../core/html.js";
import { gather, usePolled } from "../core/polling.js";
import { listDependentTasks, statuses, tasks } from "../core/queue.js";
import { to } from "../core/router.js";
import { byName, isFinal, named, namedOr } from "../core/words.js";
import { Empty, Loaded } from "./feedback.js";
import { State } from "./states.js";

const MOST_DEPENDENTS = 500;

/** @typedef {{taskId: string, name: string, status: import("../core/types").Status | undefined}} Related */

/** What a task waits for and what waits for it. @param {import("../core/types").Definition} task
 * @param {import("../core/types").Status} status
 * @param {{current: Map<string, boolean>}} watched with what it waits for, which costs nothing: what else is on the way to it, and
 * whether that had failed
 * @param {boolean} when whether that is read yet */
export function useRelatives(task, status, watched, when) {
  const names = useRef(/** @type {Map<string, string>} */ (new Map()));
  const required = usePolled(
    (signal) => namesAndStates(task, watched.current, names.current, signal),
    [status.taskId],
    { interval: 15_000, until: () => isFinal(status.state) || task.dependencies.length === 0, when },
  );
  const dependents = usePolled((signal) => dependentsOf(status.taskId, signal), [status.taskId], {
    interval: 30_000,
    when,
  });
  return { required, dependents };
}

/** @param {{task: import("../core/types").Definition, relatives: ReturnType<typeof useRelatives>, blocked: Map<string,
 * import("../core/types").Member[]> | undefined}} properties `blocked`: what waits in vain, and for which failures, if that is known */
export function Dependencies({ task, relatives: { required, dependents }, blocked }) {
  return html`
    <h3>Waits for</h3>
    ${
      task.dependencies.length === 0
        ? html`<${Empty}>Nothing.<//>`
        : html`<p class="reason">${task.requires === "all-completed" ? "All must complete." : "All must be resolved, whatever the outcome."}</p>
          <${Loaded} of=${required}>${(/** @type {{related: Related[]}} */ { related }) => html`<${List} of=${related} blocked=${blocked} />`}<//>`
    }
    <h3>Needed by</h3>
    <${Loaded} of=${dependents}>
      ${(/** @type {{related: Related[], more: boolean}} */ { related, more }) =>
        related.length === 0
          ? html`<${Empty}>No task.<//>`
          : html`<${List} of=${related} blocked=${blocked} />${more && html`<p>There are more than ${MOST_DEPENDENTS}.</p>`}`}
    <//>`;
}

/** @param {{of: Related[], blocked: Map<string, import("../core/types").Member[]> | undefined}} properties */
const List = ({ of, blocked }) =>
  html`<ul class="related">
    ${[...of].sort(blockingFirst).map(
      ({ taskId, name, status }) => html`<li key=${taskId}>
        ${status ? html`<a href=${to.task(taskId)}>${name}</a> <${State} state=${status.state} reason=${reasonOf(status, blocked)} />` : html`<code>${taskId}</code> <span class="reason">expired</span>`}
      </li>`,
    )}
  </ul>`;

/** @param {Related} a @param {Related} b */
function blockingFirst(a, b) {
  const rank = (/** @type {Related} */ { status }) =>
    !status ? 3 : status.state === "completed" ? 2 : isFinal(status.state) ? 0 : 1;
  return rank(a) - rank(b) || byName(a.name, b.name);
}

/** @param {import("../core/types").Definition} task @param {Map<string, boolean>} watched
 * @param {Map<string, string>} names those that are known already, and never change @param {AbortSignal} signal
 * @returns {Promise<{related: Related[], turned: string}>} `turned`: what of the watched has failed since, or no longer */
async function namesAndStates({ dependencies }, watched, names, signal) {
  const unknown = dependencies.filter((taskId) => !names.has(taskId));
  const asked = [...new Set([...dependencies, ...watched.keys()])];
  const [definitions, states] = await Promise.all([tasks(unknown), statuses(asked, signal)]);
  for (const taskId of unknown) names.set(taskId, namedOr(definitions.get(taskId), taskId));
  const lost = new Set([...states].flatMap(([taskId, status]) => (isLost(status) ? [taskId] : [])));
  const turned = [...watched.keys()].filter((taskId) => lost.has(taskId) !== watched.get(taskId));
  const related = dependencies.map((taskId) => ({
    taskId,
    name: names.get(taskId) ?? taskId,
    status: states.get(taskId),
  }));
  return { related, turned: turned.join() };
}

/** @param {string} taskId @param {AbortSignal} signal */
async function dependentsOf(taskId, signal) {
  const { items, more } = await gather(listDependentTasks(taskId, { signal }), "tasks", MOST_DEPENDENTS);
  const members = /** @type {import("../core/types").Member[]} */ (items);
  return { related: members.map(({ task, status }) => ({ taskId: status.taskId, name: named(task), status })), more };
}
