// Create a task: from nothing, or from another task's definition.

import { now } from "../core/clock.js";
import { html, useEffect, useState } from "../core/html.js";
import { editable } from "../core/definition.js";
import { createTask, task as taskOf } from "../core/queue.js";
import { forgetTask, recentTasks, rememberTask } from "../core/recent.js";
import { navigate, to } from "../core/router.js";
import { slugid } from "../core/slugid.js";
import { useTitle } from "../core/title.js";
import { ActionButton, Failure, Loading } from "../parts/feedback.js";

/** Where the draft of a new task is kept in this tab, and that of each copy apart. @param {string | undefined} source */
const draftOf = (source) => `taskcluster-queue.draft${source ? `.${source}` : ""}`;

/** @param {import("../core/types").PageProperties} properties */
export default function CreatePage({ params }) {
  const [text, setText] = useState(/** @type {string | null} */ (null));
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const source = params["taskId"];
  useTitle("Create a task");
  useEffect(() => {
    setText(null);
    setError(null);
    let left = false;
    start(source).then(
      (found) => left || setText(found),
      (caught) => {
        if (source && caught.status === 404) forgetTask(source);
        if (!left) setError(caught);
      },
    );
    return () => void (left = true);
  }, [source]);
  const edit = (/** @type {string} */ value) => {
    setText(value);
    sessionStorage.setItem(draftOf(source), value);
  };
  const submit = async () => {
    const { load } = await import("js-yaml");
    const id = slugid();
    const definition = /** @type {any} */ (load(text ?? ""));
    const { taskQueueId } = await createTask(id, definition);
    rememberTask({ taskId: id, name: definition.metadata.name, taskQueueId });
    sessionStorage.removeItem(draftOf(source));
    navigate(to.task(id));
  };
  const reset = async () => {
    sessionStorage.removeItem(draftOf(source));
    setText(await start(source));
  };
  return html`<article>
    <h1>Create a task</h1>
    <p>The definition in YAML or JSON. ${source && "It is a copy without group, routes and dependencies; its times count from now."}</p>
    <${Lately} source=${source} />
    ${error && html`<${Failure} error=${error} />`}
    ${text === null && !error && html`<${Loading} />`}
    ${
      text !== null &&
      html`
      <label>Definition<textarea class="code" rows="28" spellcheck="false" value=${text} onInput=${(/** @type {any} */ event) => edit(event.target.value)}></textarea></label>
      <div class="buttons"><${ActionButton} kind="primary" action=${submit}>Create<//> <${ActionButton} action=${reset}>Start over<//></div>`
    }
  </article>`;
}

/** What one created here lately, to begin with. @param {{source: string | undefined}} properties */
function Lately({ source }) {
  const tasks = recentTasks();
  if (tasks.length === 0) return null;
  return html`<nav class="lately" aria-label="Used lately">
    <span class="reason">Used lately:</span>
    ${tasks.map(({ taskId, name, taskQueueId }) => html`<a key=${taskId} href=${to.copy(taskId)} title=${`For ${taskQueueId}`} aria-current=${taskId === source ? "page" : undefined}>${name}</a>`)}
  </nav>`;
}

/** @param {string | undefined} source */
async function start(source) {
  const draft = sessionStorage.getItem(draftOf(source));
  if (draft !== null) return draft;
  const { dump } = await import("js-yaml");
  if (source) return dump(editable(await taskOf(source), now()), { lineWidth: 120, noRefs: true });
  return dump(example(now()));
}

/** @param {number} now */
const example = (now) => ({
  taskQueueId: "my-team/linux",
  created: new Date(now).toISOString(),
  deadline: new Date(now + 3_600_000).toISOString(),
  payload: { command: ["echo", "hello"], maxRunTime: 600 },
  metadata: { name: "hello", description: "My first task", owner: "me@example.com", source: "https://example.com" },
});
