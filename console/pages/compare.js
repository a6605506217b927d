// Two runs side by side: of one task, or of a task and the one before it. What differs, and both logs.

import { html, useEffect, useMemo, useRef, useState } from "../core/html.js";
import { differences } from "../core/before.js";
import { causeIn } from "../core/log-cause.js";
import { counterpart } from "../core/log-match.js";
import { useNow, usePolled } from "../core/polling.js";
import * as queue from "../core/queue.js";
import { to } from "../core/router.js";
import { duration } from "../core/time.js";
import { useTitle } from "../core/title.js";
import { explainRun, isFinal, named, ranFor } from "../core/words.js";
import { logOf, useArtifacts } from "../parts/artifacts.js";
import { Empty, Loaded, Loading } from "../parts/feedback.js";
import { useLogEnd } from "../parts/log-end.js";
import { LINE_HEIGHT, LogLines, ONE_ROW_EACH } from "../parts/log-lines.js";
import { State, Time } from "../parts/states.js";

/** @typedef {import("../core/types").Run} Run */
/** @typedef {import("../core/types").Definition} Definition */
/** @typedef {import("../core/types").Status} Status */
/** @typedef {{task: Definition, status: Status, run: Run | undefined}} Side */

/** What is read at least of the end of each log. */
const READ = 4 * 2 ** 20;

/** @param {import("../core/types").PageProperties} properties */
export default function ComparePage({ query }) {
  const [one, other] = [sideOf(query.get("one") ?? ""), sideOf(query.get("other") ?? "")];
  const polled = usePolled(
    async (signal) => /** @type {[Side, Side]} */ (await Promise.all([read(one, signal), read(other, signal)])),
    [one.id, one.runId, other.id, other.runId],
    { until: () => true },
  );
  useTitle(polled.data && `Compare ${named(polled.data[0].task)}`);
  return html`<article class="compare">
    <h1>${(polled.data && named(polled.data[0].task)) ?? "Compare"}</h1>
    <${Loaded} of=${polled} label="Loading both tasks">
      ${(/** @type {[Side, Side]} */ sides) => html`<${Compared} sides=${sides} />`}
    <//>
  </article>`;
}

/** @param {string} text */
function sideOf(text) {
  const [id = "", runId = "0"] = text.split("/");
  return { id, runId: Number(runId) };
}

/** @param {{id: string, runId: number}} of @param {AbortSignal} signal @returns {Promise<Side>} */
async function read({ id, runId }, signal) {
  const [task, status] = await Promise.all([queue.task(id, { signal }), queue.status(id, { signal })]);
  return { task, status, run: status.runs[runId] };
}

/** @param {{sides: [Side, Side]}} properties */
function Compared({ sides: [one, other] }) {
  const now = useNow(60_000);
  const changed = useMemo(() => differences(one.task, other.task), [one, other]);
  const same = one.status.taskId === other.status.taskId;
  return html`
    <div class="columns even">${[one, other].map((side, at) => html`<${Head} key=${at} place=${PLACES[at]} side=${side} now=${now} />`)}</div>
    ${
      !same &&
      html`<details open=${changed.length > 0 && changed.length < 8}><summary>${changed.length === 0 ? "The definitions are the same" : `${changed.length} differences of the definitions`}</summary>
      <div class="table-frame"><table class="differences"><thead><tr><th scope="col">Part</th><th scope="col">First</th><th scope="col">Second</th></tr></thead>
        <tbody>${changed.map(({ path, one: a, other: b }) => html`<tr key=${path}><th scope="row"><code>${path}</code></th><td><code>${a}</code></td><td><code>${b}</code></td></tr>`)}</tbody></table></div>
    </details>`
    }
    ${one.run && other.run ? html`<${Logs} one=${one} other=${other} first=${one.run} second=${other.run} />` : html`<${Empty}>One of them has no such run.<//>`}`;
}

const PLACES = ["First", "Second"];

/** @param {{place: string, side: Side, now: number}} properties */
function Head({ place, side: { task, status, run }, now }) {
  const ran = ranFor(run, now);
  return html`<section class=${`why ${run?.state ?? ""}`} aria-label=${`${place}: run ${run?.runId ?? ""} of ${named(task)}`}>
    <p class="verdict"><a href=${to.task(status.taskId, run?.runId)}>Run ${run?.runId ?? "?"}</a> ${run && html`<${State} state=${run.state} reason=${run.state === "exception" ? run.reasonResolved : ""} />`}
      ${ran !== null && html` <span class="reason">ran ${duration(ran)}</span>`}</p>
    ${run && html`<p>${explainRun(run, now)}</p>`}
    <p class="reason"><${Time} at=${run?.started ?? run?.scheduled} now=${now} /> · ${run?.workerId ?? "no worker"} · ${status.taskQueueId} · <a href=${to.group(status.taskGroupId)}>Task group</a></p>
  </section>`;
}

/** @param {{one: Side, other: Side, first: Run, second: Run}} properties */
function Logs({ one, other, first, second }) {
  const left = useSide(one, first);
  const right = useSide(other, second);
  const [together, setTogether] = useState(true);
  const frames = [
    useRef(/** @type {HTMLDivElement | null} */ (null)),
    useRef(/** @type {HTMLDivElement | null} */ (null)),
  ];
  const active = useRef(-1);
  const tops = useRef([0, 0]);
  const places = useMemo(() => placesOf(left, right), [isRead(left), isRead(right)]);
  useEffect(() => {
    if (!places) return;
    frames.forEach((frame, at) => {
      const line = places[at] ?? -1;
      if (!frame.current || line < 0) return;
      frame.current.scrollTop = Math.max(0, line * LINE_HEIGHT - frame.current.clientHeight / 3);
      tops.current[at] = frame.current.scrollTop;
    });
  }, [places]);
  const scrolled = (/** @type {number} */ at) => {
    const [own, mate] = [frames[at]?.current, frames[1 - at]?.current];
    if (!own || !mate) return;
    const moved = own.scrollTop - (tops.current[at] ?? 0);
    tops.current[at] = own.scrollTop;
    if (!together || active.current !== at) return;
    mate.scrollTop += moved;
    tops.current[1 - at] = mate.scrollTop;
  };
  return html`<div class="buttons"><label><input type="checkbox" checked=${together} onChange=${() => setTogether(!together)} /> Scroll together</label></div>
    <div class="columns even logs">
      ${[left, right].map(({ state, error, name, missing, live, id, runId }, at) => {
        const marked = (places?.[at] ?? -1) + 1;
        return html`<section key=${at} onPointerEnter=${() => void (active.current = at)} onFocusIn=${() => void (active.current = at)}>
          <p>${name ? html`<a href=${to.log(id, runId, name, live)}>Open the log</a>` : ""}</p>
          ${error && html`<p class="empty" role="status">The log cannot be shown: ${error.message}</p>`}
          ${missing && html`<${Empty}>The run has no log.<//>`}
          ${!state && !error && !missing && html`<${Loading} label="Loading the log" />`}
          ${state && html`<${LogLines} places=${ONE_ROW_EACH} frame=${frames[at]} lines=${state.lines} before=${state.before} range=${null} marked=${marked} choose=${() => {}} scrolled=${() => scrolled(at)} label=${`${PLACES[at]} log`} />`}
        </section>`;
      })}
    </div>`;
}

/** @param {Side} side @param {Run} run */
function useSide({ task, status }, run) {
  const artifacts = useArtifacts(status.taskId, run);
  const name = artifacts.data && logOf(task, artifacts.data)?.name;
  const over = isFinal(run.state);
  const read = useLogEnd({ taskId: status.taskId, runId: run.runId, name, over, keep: READ });
  const missing = artifacts.data !== undefined && !name;
  return { ...read, run, name, missing, live: !over, id: status.taskId, runId: run.runId };
}

/** Which lines to show first: the first error of the one that failed, and where the other one is at the same point.
 * @param {ReturnType<typeof useSide>} left @param {ReturnType<typeof useSide>} right @returns {[number, number] | null}
 */
function placesOf(left, right) {
  if (!isRead(left) || !isRead(right)) return null;
  const [a, b] = [left.state?.lines ?? [], right.state?.lines ?? []];
  const failed = (/** @type {ReturnType<typeof useSide>} */ { run }) => run.state !== "completed";
  if (failed(left) || !failed(right)) {
    const { at } = causeIn(a);
    const own = failed(left) && at >= 0 ? at : a.length - 1;
    return [own, failed(left) ? counterpart(a, own, b) : b.length - 1];
  }
  const { at } = causeIn(b);
  return [counterpart(b, at, a), at];
}

/** Whether nothing more of a log will come. @param {ReturnType<typeof useSide>} side */
const isRead = ({ state, error, missing }) => missing || error !== null || state?.ended === true;
