// The artifacts of a run, and which of them is its log.

import { html, useState } from "../core/html.js";
import { gather, usePolled } from "../core/polling.js";
import { listArtifacts } from "../core/queue.js";
import { to } from "../core/router.js";
import { label } from "../core/words.js";
import { ActionButton, Copy, Empty, Loaded } from "./feedback.js";

const FEW = 10;
/** What generic-worker keeps of a log that was a stream. */
const BACKING = "public/logs/live_backing.log";

/** @typedef {import("../core/types").Artifact} Artifact */

/** The artifacts of a run, read until it has ended. None of one that has not begun. @param {string} taskId
 * @param {import("../core/types").Run} run */
export function useArtifacts(taskId, run) {
  const ended = run.resolved !== undefined;
  const begun = run.state !== "pending";
  return usePolled(
    async (signal) =>
      /** @type {Artifact[]} */ (
        begun ? (await gather(listArtifacts(taskId, run.runId, { signal }), "artifacts")).items : []
      ),
    [taskId, run.runId, ended, begun],
    { interval: 5000, until: () => ended || !begun },
  );
}

/** Those that are no part of the run's log, which has a place of its own. @param {{polled: ReturnType<typeof
 * useArtifacts>, task: import("../core/types").Definition, taskId: string, run: import("../core/types").Run}}
 * properties */
export function Artifacts({ polled, task, taskId, run }) {
  const ended = run.resolved !== undefined;
  if (run.state === "pending") return null;
  return html`<h2>Artifacts</h2>
    <${Loaded} of=${polled} label="Loading the artifacts">
      ${(/** @type {Artifact[]} */ found) => {
        const log = logOf(task, found);
        const artifacts = found.filter((one) => one !== log && !(log && one.name === BACKING));
        if (artifacts.length === 0)
          return html`<${Empty}>${ended ? "The run has no artifacts" : "There are none yet"}${log ? " but its log." : "."}<//>`;
        return html`<${ArtifactList} artifacts=${artifacts} taskId=${taskId} runId=${run.runId} live=${!ended} />`;
      }}
    <//>`;
}

/** Artifacts that open, and whose addresses can be copied; of many, those that one looks for. @param {{artifacts:
 * Artifact[], taskId: string, runId: number, live?: boolean, addressOf?: (name: string) => string}} properties
 * `addressOf` gives another address to copy than that of the run's artifact */
export function ArtifactList({ artifacts, taskId, runId, live = false, addressOf }) {
  const [filter, setFilter] = useState("");
  const listed = ordered(artifacts).filter(({ name }) => name.toLowerCase().includes(filter.toLowerCase()));
  return html`
    ${artifacts.length > FEW && html`<input type="search" aria-label="Filter artifacts" placeholder="Filter ${artifacts.length} artifacts" onInput=${(/** @type {any} */ event) => setFilter(event.target.value)} />`}
    <ul class="artifacts">${listed.map((one) => html`<${Row} key=${one.name} artifact=${one} taskId=${taskId} runId=${runId} live=${live} address=${addressOf?.(one.name)} />`)}</ul>`;
}

/** The log of a run: that which the payload names, or what workers call theirs; undefined if there is none.
 * @param {import("../core/types").Definition} task @param {Artifact[]} artifacts */
export function logOf(task, artifacts) {
  const usable = artifacts.filter(({ storageType }) => storageType !== "error");
  const named = (/** @type {string} */ name) => usable.find((one) => one.name === name);
  return named(logName(task)) ?? named(BACKING) ?? usable.find((one) => isLog(one) && one.name.endsWith(".log"));
}

/** @param {{artifact: Artifact, taskId: string, runId: number, live: boolean, address?: string | undefined}} properties */
function Row({ artifact, taskId, runId, live, address }) {
  const { name, contentLength, storageType } = artifact;
  if (storageType === "error")
    return html`<li><code>${label(name)}</code> <span class="reason">the worker could not create it</span></li>`;
  return html`<li>
    <a href=${isLog(artifact) ? to.log(taskId, runId, name, live) : to.artifact(taskId, runId, name)}>${label(name)}</a>${isLog(artifact) && html` <span class="tag">log</span>`}
    ${" "}<span class="reason">${size(contentLength)}</span>${" "}
    ${address ? html`<${Copy} text=${address} label="Copy link" />` : html`<${CopyLink} taskId=${taskId} runId=${runId} name=${name} />`}
  </li>`;
}

/** @param {{taskId: string, runId: number, name: string}} properties */
export function CopyLink({ taskId, runId, name }) {
  const copy = () => navigator.clipboard.writeText(new URL(to.artifact(taskId, runId, name), location.origin).href);
  return html`<${ActionButton} kind="quiet" title="Copy a link that asks for the reader's own credentials" action=${copy}>Copy link<//>`;
}

/** @param {Artifact} artifact */
const isLog = ({ name, contentType }) =>
  contentType.startsWith("text/plain") && (name.endsWith(".log") || name.endsWith(".txt"));

/** The name of the log that the payload states, or that workers use. @param {import("../core/types").Definition} task @returns {string} */
export const logName = ({ payload }) => {
  const stated = payload?.["logs"]?.live ?? payload?.["log"];
  return typeof stated === "string" ? stated : "public/logs/live.log";
};

/** @param {Artifact[]} artifacts */
function ordered(artifacts) {
  const rank = (/** @type {string} */ name) => (name.endsWith(".log") ? 0 : name.startsWith("public/") ? 1 : 2);
  return [...artifacts].sort((a, b) => rank(a.name) - rank(b.name) || (a.name < b.name ? -1 : 1));
}

/** @param {number | undefined} bytes */
function size(bytes) {
  if (bytes === undefined) return "";
  if (bytes < 1024) return `${bytes} bytes`;
  if (bytes < 2 ** 20) return `${(bytes / 1024).toFixed(1)} KiB`;
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`;
}
