// The artifacts of a run; logs first, since that is what people look for.

import { html, useState } from "../core/html.js";
import { openArtifact } from "../core/open-artifact.js";
import { gather, usePolled } from "../core/polling.js";
import { listArtifacts } from "../core/queue.js";
import { to } from "../core/router.js";
import { ActionButton, Empty, Loaded } from "./feedback.js";

const FEW = 10;

/** @typedef {import("../core/types").Artifact} Artifact */

/** @param {{task: import("../core/types").Definition, taskId: string, run: import("../core/types").Run}} properties */
export function Artifacts({ task, taskId, run }) {
  const [filter, setFilter] = useState("");
  const ended = run.resolved !== undefined;
  const polled = usePolled(
    async (signal) =>
      /** @type {Artifact[]} */ ((await gather(listArtifacts(taskId, run.runId, { signal }), "artifacts")).items),
    [taskId, run.runId, ended],
    { interval: 5000, until: () => ended },
  );
  if (run.state === "pending") return null;
  return html`<h3>Artifacts</h3>
    <${Loaded} of=${polled} label="Loading the artifacts">
      ${(/** @type {Artifact[]} */ artifacts) => {
        if (artifacts.length === 0)
          return html`<${Empty}>${ended ? "The run has no artifacts." : "There are none yet."}<//>`;
        const listed = ordered(artifacts, logName(task)).filter(({ name }) =>
          name.toLowerCase().includes(filter.toLowerCase()),
        );
        return html`
          ${artifacts.length > FEW && html`<input type="search" aria-label="Filter artifacts" placeholder="Filter ${artifacts.length} artifacts" onInput=${(/** @type {any} */ event) => setFilter(event.target.value)} />`}
          <ul class="artifacts">${listed.map((one) => html`<${Row} key=${one.name} artifact=${one} taskId=${taskId} runId=${run.runId} live=${!ended} />`)}</ul>`;
      }}
    <//>`;
}

/** @param {{artifact: Artifact, taskId: string, runId: number, live: boolean}} properties */
function Row({ artifact, taskId, runId, live }) {
  const { name, contentLength, storageType } = artifact;
  if (storageType === "error")
    return html`<li><code>${name}</code> <span class="reason">the worker could not make it</span></li>`;
  const copy = () => navigator.clipboard.writeText(new URL(to.artifact(taskId, runId, name), location.origin).href);
  return html`<li>
    ${isLog(artifact) ? html`<a href=${to.log(taskId, runId, name, live)}>${name}</a> <span class="tag">log</span>` : html`<${ActionButton} kind="link" action=${() => openArtifact(taskId, runId, name)}>${name}<//>`}
    ${" "}<span class="reason">${size(contentLength)}</span>${" "}
    <${ActionButton} kind="quiet" title="Copy a link that asks for the reader's own credentials" action=${copy}>Copy link<//>
  </li>`;
}

/** @param {Artifact} artifact */
const isLog = ({ name, contentType }) =>
  contentType.startsWith("text/plain") && (name.endsWith(".log") || name.endsWith(".txt"));

/** The name of the log that the payload states. @param {import("../core/types").Definition} task @returns {string} */
const logName = ({ payload }) => {
  const stated = payload?.["logs"]?.live ?? payload?.["log"];
  return typeof stated === "string" ? stated : "public/logs/live.log";
};

/** @param {Artifact[]} artifacts @param {string} log */
function ordered(artifacts, log) {
  const rank = (/** @type {string} */ name) =>
    name === log ? 0 : name.endsWith("live_backing.log") ? 1 : name.startsWith("public/") ? 2 : 3;
  return [...artifacts].sort((a, b) => rank(a.name) - rank(b.name) || (a.name < b.name ? -1 : 1));
}

/** @param {number | undefined} bytes */
function size(bytes) {
  if (bytes === undefined) return "";
  if (bytes < 1024) return `${bytes} bytes`;
  if (bytes < 2 ** 20) return `${(bytes / 1024).toFixed(1)} KiB`;
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`;
}
