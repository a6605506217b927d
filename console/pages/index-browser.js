// The index: what is right below a namespace, and the task that a path names.

import { html, useState } from "../core/html.js";
import { ApiError } from "../core/api.js";
import { findTask, latestArtifact, listNamespaces, listTasks } from "../core/index-service.js";
import { gather, useNow, usePolled } from "../core/polling.js";
import { listArtifacts, status } from "../core/queue.js";
import { navigate, to } from "../core/router.js";
import { useTitle } from "../core/title.js";
import { ArtifactList } from "../parts/artifacts.js";
import { Copy, Empty, Loaded } from "../parts/feedback.js";
import { Facts, Id, Time } from "../parts/states.js";

const MOST = 2000;

/** @typedef {import("../core/types").IndexedTask} Entry */
/** @typedef {{namespaces: {namespace: string, name: string}[], tasks: Entry[], more: boolean, entry: Entry | null}} Found */

/** @param {import("../core/types").PageProperties} properties */
export default function IndexPage({ params }) {
  const path = [params["namespace"], params["name"]].filter(Boolean).join(".");
  useTitle(path ? `Index: ${path}` : "Index");
  const polled = usePolled((signal) => read(path, signal), [path], { interval: 60_000 });
  const now = useNow(60_000);
  return html`<article>
    <h1>Index</h1>
    <${Jump} key=${path} from=${path} />
    <${Path} of=${path} />
    <${Loaded} of=${polled} label="Loading the index">${(/** @type {Found} */ found) => html`
      ${found.entry && html`<${Details} entry=${found.entry} now=${now} />`}
      <${Below} found=${found} now=${now} />`}<//>
  </article>`;
}

/** @param {string} path @param {AbortSignal} signal @returns {Promise<Found>} */
async function read(path, signal) {
  const [namespaces, tasks, entry] = await Promise.all([
    gather(listNamespaces(path, { signal }), "namespaces", MOST),
    gather(listTasks(path, { signal }), "tasks", MOST),
    path ? findTask(path, { signal }).catch(absent) : null,
  ]);
  return { namespaces: namespaces.items, tasks: tasks.items, more: namespaces.more || tasks.more, entry };
}

/** @param {unknown} error */
function absent(error) {
  if (error instanceof ApiError && error.status === 404) return null;
  throw error;
}

/** Goes to a path that is typed: a namespace or an entry, or a route as tasks have it. @param {{from: string}} properties */
function Jump({ from }) {
  const [path, setPath] = useState(from);
  const wanted = path
    .trim()
    .replace(/^index\./, "")
    .replace(/\.+$/, "");
  const go = (/** @type {Event} */ event) => {
    event.preventDefault();
    navigate(to.index(wanted));
  };
  return html`<form class="jump" onSubmit=${go}>
    <label>Path<input type="text" value=${path} placeholder="project.v2.branch.latest" autocomplete="off" spellcheck=${false} onInput=${(/** @type {any} */ event) => setPath(event.target.value)} /></label>
    <button type="submit">Go</button>
  </form>`;
}

/** Each key leads to what is below it. @param {{of: string}} properties */
function Path({ of }) {
  const keys = of ? of.split(".") : [];
  return html`<p><a href=${to.index()}>All namespaces</a>${keys.map((key, at) => {
    const above = keys.slice(0, at + 1).join(".");
    return html`<span key=${above}> . <a href=${to.index(above)} aria-current=${above === of ? "page" : undefined}>${key}</a></span>`;
  })}</p>`;
}

/** @param {{entry: Entry, now: number}} properties */
const Details = ({ entry, now }) =>
  html`<section aria-labelledby="entry">
    <h2 id="entry">Latest task</h2>
    <${Facts} of=${[
      ["Task", html`<a href=${to.task(entry.taskId)}><${Id}>${entry.taskId}<//></a>`],
      ["Rank", entry.rank],
      ["Expires", html`<${Time} at=${entry.expires} now=${now} />`],
      [
        "Artifacts",
        html`<${Copy} text=${latestArtifact(entry.namespace, "")} label="Copy the address of its artifacts" />`,
      ],
    ]} />
    ${Object.keys(entry.data).length > 0 && html`<pre class="code" tabindex="0">${JSON.stringify(entry.data, null, 2)}</pre>`}
    <${LatestArtifacts} key=${entry.taskId} entry=${entry} />
  </section>`;

/** @typedef {{runId: number, artifacts: import("../core/types").Artifact[]} | null} Latest */

/** What the last run of the task left; read once, since the task was resolved when it was entered. @param {{entry: Entry}} properties */
function LatestArtifacts({ entry }) {
  const polled = usePolled((signal) => artifactsOf(entry.taskId, signal), [entry.taskId], { until: () => true });
  return html`<h3>Artifacts</h3>
    <${Loaded} of=${polled} label="Loading the artifacts">${(/** @type {Latest} */ found) =>
      found === null
        ? html`<${Empty}>There is no such task here: it has expired, or is one of another service.<//>`
        : found.artifacts.length > 0
          ? html`<${ArtifactList} artifacts=${found.artifacts} taskId=${entry.taskId} runId=${found.runId} addressOf=${(/** @type {string} */ name) => latestArtifact(entry.namespace, name)} />`
          : html`<${Empty}>The task has none.<//>`}<//>`;
}

/** @param {string} taskId @param {AbortSignal} signal @returns {Promise<Latest>} */
async function artifactsOf(taskId, signal) {
  const found = await status(taskId, { signal }).catch(absent);
  if (found === null) return null;
  const runId = found.runs.at(-1)?.runId;
  if (runId === undefined) return { runId: 0, artifacts: [] };
  return { runId, artifacts: (await gather(listArtifacts(taskId, runId, { signal }), "artifacts", MOST)).items };
}

/** @param {{found: Found, now: number}} properties */
function Below({ found, now }) {
  const { namespaces, tasks, more, entry } = found;
  if (namespaces.length === 0 && tasks.length === 0) {
    return entry ? null : html`<${Empty}>Nothing is indexed here.<//>`;
  }
  return html`
    ${
      namespaces.length > 0 &&
      html`<h2>Namespaces</h2>
      <ul>${namespaces.map(({ namespace, name }) => html`<li key=${namespace}><a href=${to.index(namespace)}>${name}</a></li>`)}</ul>`
    }
    ${
      tasks.length > 0 &&
      html`<h2>Tasks</h2>
      <ul>${tasks.map((task) => html`<li key=${task.namespace}><a href=${to.index(task.namespace)}>${lastKey(task.namespace)}</a> <span class="reason">rank ${task.rank}, expires <${Time} at=${task.expires} now=${now} /></span></li>`)}</ul>`
    }
    ${more && html`<p>Only the first ${MOST} of each are listed.</p>`}`;
}

/** @param {string} path */
const lastKey = (path) => path.slice(path.lastIndexOf(".") + 1);
