// The actions that a decision task offers for a task. One of the kind `task` is created with the user's credentials,
// restricted to the scopes of the decision task, after it was shown; one of the kind `hook` needs a service that does not
// exist here.

import { defaults, offered, relevant, rendered, UnusableActions } from "../core/actions.js";
import { ApiError } from "../core/api.js";
import { html, useEffect, useMemo, useState } from "../core/html.js";
import { createTask } from "../core/queue.js";
import { navigate, to } from "../core/router.js";
import { slugid } from "../core/slugid.js";
import { ActionButton, Dialog, Loading } from "./feedback.js";
import { Markdown } from "./markdown.js";
import { Scopes } from "./scopes.js";

/** @typedef {import("../core/actions.js").Action} Action */
/** @typedef {import("../core/actions.js").Offer} Offer */

const LISTED = 50;
const NO_HOOKS = "This action needs the hooks service, which this deployment does not have.";

/** @param {{task: import("../core/types").Definition, status: import("../core/types").Status}} properties */
export function DecisionActions({ task, status }) {
  const [offer, setOffer] = useState(/** @type {Offer | null} */ (null));
  const [problem, setProblem] = useState("");
  const [chosen, setChosen] = useState(/** @type {Action | null} */ (null));
  useEffect(() => {
    const control = new AbortController();
    setOffer(null);
    setProblem("");
    offered(status.taskGroupId, control.signal).then(setOffer, (error) => {
      if (error instanceof UnusableActions) setProblem(error.message); // else there are none, or not for this reader
    });
    return () => control.abort();
  }, [status.taskGroupId]);
  const found = useMemo(() => (offer ? relevant(offer.actions, task.tags) : []), [offer, task]);
  if (problem) return html`<span class="reason">No actions of the project: ${problem}</span>`;
  if (offer === null || found.length === 0) return null;
  return html`<details class="menu"><summary>Actions of the project</summary>
      <ul>${found.slice(0, LISTED).map(
        (action) => html`<li key=${action.name}>
        <button type="button" disabled=${action.kind !== "task"} title=${action.kind === "task" ? action.description : NO_HOOKS} onClick=${() => setChosen(action)}>${action.title}</button>
      </li>`,
      )}</ul>
      ${found.length > LISTED && html`<p class="reason">The first ${LISTED} of ${found.length}.</p>`}
    </details>
    ${chosen && html`<${ActionDialog} action=${chosen} offer=${offer} task=${task} status=${status} close=${() => setChosen(null)} />`}`;
}

/** @param {{action: Action, offer: Offer, task: import("../core/types").Definition, status: import("../core/types").Status, close: () => void}} properties */
function ActionDialog({ action, offer, task, status, close }) {
  const asks = action.schema !== undefined;
  const [input, setInput] = useState(() => JSON.stringify(asks ? defaults(action.schema) : null, null, 2));
  const [made, setMade] = useState(/** @type {Made | null} */ (null));
  const [error, setError] = useState("");
  const make = async () => {
    const ownTaskId = slugid();
    const context = { taskGroupId: status.taskGroupId, taskId: status.taskId, task, ownTaskId };
    const values = { ...offer.variables, ...context, input: JSON.parse(input) };
    setMade(await written(ownTaskId, await rendered(action.task, values)));
  };
  useEffect(() => {
    if (!asks) make().catch((caught) => setError(caught.message));
  }, []);
  const change = (/** @type {any} */ event) => {
    setInput(event.target.value);
    setMade(null);
  };
  const submit = async () => {
    if (made === null) return;
    await createTask(made.id, made.definition, { authorizedScopes: offer.scopes }).catch(explained);
    navigate(to.task(made.id));
  };
  return html`<${Dialog} title=${action.title} close=${close}>
    <${Markdown} text=${action.description} />
    ${asks && html`<label>Input (JSON)<textarea class="code" rows="10" spellcheck="false" value=${input} onInput=${change}></textarea></label>`}
    ${error && html`<p class="notice critical" role="alert">${error}</p>`}
    ${!asks && !made && !error && html`<${Loading} label="Rendering the task" />`}
    ${made && html`<${Preview} made=${made} />`}
    <div class="buttons">
      ${made ? html`<${ActionButton} kind="primary" action=${submit}>Create the action task<//>` : asks && html`<${ActionButton} kind="primary" action=${make}>Show the action task<//>`}
      <button type="button" onClick=${close}>Close</button>
    </div>
  <//>`;
}

/** @typedef {{id: string, definition: Record<string, unknown>, scopes: string[], text: string}} Made what is sent, and how it reads */

/** @param {{made: Made}} properties */
const Preview = ({ made: { scopes, text } }) =>
  html`<p>This task is created in your name. Whatever you may do, it is refused if the group's decision task may not create it.</p>
    <h3>Its scopes</h3>
    <${Scopes} of=${scopes} />
    <h3>Its definition</h3>
    <pre class="code" tabindex="0">${text}</pre>`;

/** @param {string} id @param {Record<string, unknown>} definition @returns {Promise<Made>} */
async function written(id, definition) {
  const { dump } = await import("js-yaml");
  const { scopes = [], ...rest } = definition;
  const text = dump({ scopes, ...rest }, { lineWidth: 120, noRefs: true });
  return { id, definition, scopes: Array.isArray(scopes) ? [...new Set(scopes.map(String))] : [], text };
}

/** @param {unknown} error @returns {never} */
function explained(error) {
  if (!(error instanceof ApiError && error.status === 401)) throw error;
  throw new Error(
    `An action may use no more than the scopes of its decision task, and you need all of these. The service says: ${error.message}`,
  );
}
