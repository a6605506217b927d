// How busy the service was: samples of the last hours and days, by task queue and in all.

import { html, useMemo } from "../core/html.js";
import { gather, usePolled } from "../core/polling.js";
import { history, listTaskQueueStates } from "../core/queue.js";
import { setQuery } from "../core/router.js";
import { useTitle } from "../core/title.js";
import { Empty, Loaded } from "../parts/feedback.js";
import { Plot } from "../parts/plot.js";

/** @type {Record<string, number>} */
const SPANS = { "6 hours": 6, "24 hours": 24, "7 days": 168, "30 days": 720 };

/** @typedef {import("../core/types").Sample} Sample */

/** @param {import("../core/types").PageProperties} properties */
export default function HistoryPage({ query }) {
  const queue = query.get("queue") ?? "";
  useTitle(queue ? `History of ${queue}` : "History");
  const span = query.get("span") ?? "24 hours";
  const hours = SPANS[span] ?? 24;
  const polled = usePolled(
    (signal) =>
      history(
        { from: new Date(Date.now() - hours * 3_600_000).toISOString(), taskQueueId: queue || undefined },
        { signal },
      ),
    [queue, hours],
    { interval: 60_000 },
  );
  const queues = usePolled(
    async (signal) =>
      /** @type {import("../core/types").TaskQueueState[]} */ (
        (await gather(listTaskQueueStates({ signal }), "taskQueues")).items
      ),
    [],
    { interval: 300_000 },
  );
  const known = (queues.data ?? []).map(({ taskQueueId }) => taskQueueId);
  const offered = [...new Set([...known, ...(queue ? [queue] : [])])].sort();
  return html`<article>
    <h1>History</h1>
    <div class="buttons filters">
      <select aria-label="Task queue" value=${queue} onChange=${(/** @type {any} */ event) => setQuery({ queue: event.target.value })}>
        <option value="">All task queues</option>
        ${offered.map((id) => html`<option key=${id} value=${id}>${id}</option>`)}
      </select>
      <select aria-label="Time span" value=${span} onChange=${(/** @type {any} */ event) => setQuery({ span: event.target.value })}>
        ${Object.keys(SPANS).map((one) => html`<option key=${one}>${one}</option>`)}
      </select>
    </div>
    <${Loaded} of=${polled} label="Loading the samples">
      ${(/** @type {{samples: Sample[]}} */ { samples }) => (samples.length < 2 ? html`<${Empty}>There are fewer than two samples of this time yet, and no line is drawn through less; one is taken every five minutes, and summed up by the hour for longer spans.<//>` : html`<${Plots} samples=${samples} />`)}
    <//>
  </article>`;
}

/** @param {{samples: Sample[]}} properties */
function Plots({ samples }) {
  const series = useMemo(() => {
    /** @typedef {Exclude<keyof Sample, "time">} Figure */
    const of = (/** @type {Figure} */ name) => samples.map((sample) => sample[name] ?? null);
    const minutes = (/** @type {Figure} */ name) =>
      of(name).map((seconds) => (seconds === null ? null : Math.round(seconds / 6) / 10));
    return {
      times: samples.map(({ time }) => Date.parse(time) / 1000),
      load: [
        { label: "pending", color: "--pending", values: of("pending") },
        { label: "running", color: "--running", values: of("claimed") },
      ],
      age: [{ label: "oldest pending", color: "--pending", values: minutes("oldestPendingSeconds") }],
      resolved: [
        { label: "completed", color: "--completed", values: of("completed") },
        { label: "failed", color: "--failed", values: of("failed") },
        { label: "exception", color: "--exception", values: of("exception") },
      ],
      waits: [
        { label: "half waited less than", color: "--running", values: minutes("waitP50Seconds") },
        { label: "95 % waited less than", color: "--exception", values: minutes("waitP95Seconds") },
      ],
    };
  }, [samples]);
  return html`
    <${Plot} title="Tasks" times=${series.times} series=${series.load} />
    <${Plot} title="Age of the oldest pending task" times=${series.times} series=${series.age} unit=" min" />
    <${Plot} title="Runs resolved between samples" times=${series.times} series=${series.resolved} />
    <${Plot} title="Time from scheduled to started" times=${series.times} series=${series.waits} unit=" min" />`;
}
