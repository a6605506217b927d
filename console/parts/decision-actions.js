// The actions that a decision task offers for a task or for its whole group, read when somebody opens them. One of the kind
// `task` is created with the user's credentials, restricted to the scopes of the decision task, after it was shown; one of the
// kind `hook` needs a service that does not exist here.

import { offered, relevant, rendered, UnusableActions } from "../core/actions.js";
import { ApiError } from "../core/api.js";
import { currentScopes } from "../core/auth.js";
import { now } from "../core/clock.js";
import { html, useEffect, useMemo, useState } from "../core/html.js";
import { createTask } from "../core/queue.js";
import { leave, to } from "../core/router.js";
import { slugid } from "../core/slugid.js";
import { label } from "../core/words.js";
import { ActionButton, Dialog, Empty, Failure, Loading } from "./feedback.js";
import { Markdown } from "./markdown.js";
import { InputForm, useInput } from "./schema-form.js";
import { beyond, Scopes } from "./scopes.js";

/** @typedef {import("../core/actions.js").Action} Action */
/** @typedef {import("../core/actions.js").Offer} Offer */
/** @typedef {import("../core/types").Definition} Definition */

const LISTED = 50;
const NO_HOOKS = "This action needs the hooks service, which this deployment does not have.";

/** @param {{taskGroupId: string, taskId?: string, task?: Definition}} properties without a task: for the group */
export function DecisionActions({ taskGroupId, taskId, task }) {
  const [open, setOpen] = useState(false);
  return html`<details class="menu" onToggle=${(/** @type {any} */ event) => setOpen(event.currentTarget.open)}><summary class="button">Actions of the project</summary>
    ${open && html`<${Offered} taskGroupId=${taskGroupId} taskId=${taskId} task=${task} />`}</details>`;
}

/** @param {{taskGroupId: string, taskId?: string, task?: Definition}} properties */
function Offered({ taskGroupId, taskId, task }) {
  const [offer, setOffer] = useState(/** @type {Offer | null | undefined} */ (undefined));
  const [error, setError] = useState(/** @type {(Error & {status?: number}) | null} */ (null));
  const [chosen, setChosen] = useState(/** @type {Action | null} */ (null));
  useEffect(() => {
    const control = new AbortController();
    offered(taskGroupId, control.signal).then(setOffer, (caught) => control.signal.aborted || setError(caught));
    return () => control.abort();
  }, [taskGroupId]);
  const found = useMemo(() => (offer ? relevant(offer.actions, task?.tags ?? null) : []), [offer, task]);
  if (error instanceof UnusableActions) return html`<${Empty}>No actions of the project: ${error.message}<//>`;
  if (error && error.status !== 404) return html`<${Failure} error=${error} />`;
  if (offer === undefined && !error) return html`<${Loading} />`;
  if (!offer || found.length === 0)
    return html`<${Empty}>The project offers no actions for ${task ? "this task" : "the group"}.<//>`;
  return html`<ul>${found.slice(0, LISTED).map(
    (action) => html`<li key=${action.name}>
        <button type="button" disabled=${action.kind !== "task"} title=${action.kind === "task" ? action.description : NO_HOOKS} onClick=${() => setChosen(action)}>${label(action.title)}</button>
      </li>`,
  )}</ul>
    ${found.length > LISTED && html`<p class="reason">The first ${LISTED} of ${found.length}.</p>`}
    ${chosen && html`<${ActionDialog} action=${chosen} offer=${offer} taskGroupId=${taskGroupId} taskId=${taskId} task=${task} close=${() => setChosen(null)} />`}`;
}

/** @param {{action: Action, offer: Offer, taskGroupId: string, taskId?: string, task?: Definition, close: () => void}} properties */
function ActionDialog({ action, offer, taskGroupId, taskId = "", task, close }) {
  const asks = action.schema !== undefined;
  const [made, setMade] = useState(/** @type {Made | null} */ (null));
  const [error, setError] = useState("");
  const input = useInput(action.schema, () => setMade(null));
  const make = async () => {
    const ownTaskId = slugid();
    const context = { taskGroupId, taskId: taskId || null, task: task ?? null, ownTaskId };
    const values = { ...offer.variables, ...context, now: new Date(now()).toISOString(), input: input.value() };
    setMade(await written(ownTaskId, await rendered(action.task, values)));
  };
  useEffect(() => {
    if (!asks) make().catch((caught) => setError(caught.message));
  }, []);
  const submit = async () => {
    if (made === null) return;
    await createTask(made.id, made.definition, { authorizedScopes: offer.scopes }).catch((error) =>
      explained(offer.scopes, error),
    );
    close();
    leave(to.task(made.id));
  };
  return html`<${Dialog} title=${label(action.title)} close=${close}>
    <${Markdown} text=${action.description} />
    ${asks && html`<${InputForm} of=${input} />`}
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
  html`<p>This task is created in your name. It is refused if the group's decision task may not create it, whatever your own scopes are.</p>
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

/** @param {string[]} scopes of the decision task @param {unknown} error @returns {Promise<never>} */
async function explained(scopes, error) {
  if (!(error instanceof ApiError && error.status === 401)) throw error;
  const lacking = beyond(scopes, await currentScopes());
  throw new Error(
    `An action may use no more than the scopes of its decision task, and you need all of these. ${lacking.length > 0 ? `You lack ${lacking.join(", ")}.` : `The service says: ${error.message}`}`,
  );
}
