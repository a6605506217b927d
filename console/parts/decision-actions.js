// Actions that a decision task offers in public/actions.json: those of kind `task` are created with the user's own
// credentials; those of kind `hook` need a service that does not exist here.

import { html, useEffect, useState } from "../core/html.js";
import { artifact, createTask, task as taskOf } from "../core/queue.js";
import { navigate, to } from "../core/router.js";
import { slugid } from "../core/slugid.js";
import { ActionButton, Dialog } from "./feedback.js";

/**
 * @typedef {object} Action
 * @property {string} kind
 * @property {string} name
 * @property {string} title
 * @property {string} description
 * @property {Record<string, string>[]} context
 * @property {any} [schema]
 * @property {any} [task]
 */

/** @param {{task: import("../core/types").Definition, status: import("../core/types").Status}} properties */
export function DecisionActions({ task, status }) {
  const [found, setFound] = useState(
    /** @type {{actions: Action[], variables: Record<string, any>}} */ ({ actions: [], variables: {} }),
  );
  const [chosen, setChosen] = useState(/** @type {Action | null} */ (null));
  useEffect(() => {
    const control = new AbortController();
    offered(status.taskGroupId, control.signal).then(setFound, () => {});
    return () => control.abort();
  }, [status.taskGroupId]);
  const relevant = found.actions.filter(
    ({ context }, index, all) =>
      context.some((tags) => Object.entries(tags).every(([name, value]) => task.tags[name] === value)) &&
      all.findIndex(({ name }) => name === all[index]?.name) === index,
  );
  if (relevant.length === 0) return null;
  return html`<details class="menu"><summary>Actions of the project</summary>
      <ul>${relevant.map(
        (action) => html`<li key=${action.name}>
        <button type="button" disabled=${action.kind !== "task"} title=${action.kind === "task" ? action.description : "This action needs the hooks service, which this deployment does not have."} onClick=${() => setChosen(action)}>${action.title}</button>
      </li>`,
      )}</ul>
    </details>
    ${chosen && html`<${ActionDialog} action=${chosen} variables=${found.variables} task=${task} status=${status} close=${() => setChosen(null)} />`}`;
}

/** @param {{action: Action, variables: Record<string, any>, task: import("../core/types").Definition, status: import("../core/types").Status, close: () => void}} properties */
function ActionDialog({ action, variables, task, status, close }) {
  const [input, setInput] = useState(JSON.stringify(defaults(action.schema), null, 2));
  const submit = async () => {
    const value = action.schema ? JSON.parse(input) : null;
    const ownTaskId = slugid();
    const render = await jsonE();
    const definition = render(action.task, {
      ...variables,
      taskGroupId: status.taskGroupId,
      taskId: status.taskId,
      task,
      input: value,
      ownTaskId,
    });
    await createTask(ownTaskId, definition);
    navigate(to.task(ownTaskId));
  };
  return html`<${Dialog} title=${action.title} close=${close}>
    <p>${action.description}</p>
    ${action.schema && html`<label>Input (JSON)<textarea rows="10" value=${input} onInput=${(/** @type {any} */ event) => setInput(event.target.value)}></textarea></label>`}
    <div class="buttons"><${ActionButton} kind="primary" action=${submit}>Create the action task<//><button type="button" onClick=${close}>Close</button></div>
  <//>`;
}

/** @param {any} schema */
function defaults(schema) {
  if (!schema || typeof schema !== "object") return null;
  if ("default" in schema) return schema.default;
  if (schema.type !== "object") return null;
  return Object.fromEntries(
    Object.entries(schema.properties ?? {}).flatMap(([name, part]) =>
      part && "default" in /** @type {any} */ (part) ? [[name, /** @type {any} */ (part).default]] : [],
    ),
  );
}

/**
 * The actions of a group's decision task; none if there is no such task or file.
 * @param {string} taskGroupId
 * @param {AbortSignal} signal
 */
async function offered(taskGroupId, signal) {
  await taskOf(taskGroupId, { signal });
  const { url } = await artifact(taskGroupId, null, "public/actions.json", { signal });
  const response = await fetch(url, { signal, credentials: "omit" });
  const { version, actions, variables } = await response.json();
  if (version !== 1 || !Array.isArray(actions)) return { actions: [], variables: {} };
  return {
    actions: actions.filter(
      ({ kind, context }) => (kind === "task" || kind === "hook") && Array.isArray(context) && context.length > 0,
    ),
    variables: variables ?? {},
  };
}

/** JSON-e is delivered as a script that defines a global. @returns {Promise<(template: unknown, context: Record<string, unknown>) => unknown>} */
async function jsonE() {
  await import("../vendor/json-e.js");
  return /** @type {any} */ (globalThis).jsone;
}
