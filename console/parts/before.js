// The same task in the groups before: whether its failure is new. Read when somebody asks.

import { html, useEffect, useState } from "../core/html.js";
import { earlierRuns } from "../core/before.js";
import { useNow } from "../core/polling.js";
import { compareHref, to } from "../core/router.js";
import { duration } from "../core/time.js";
import { counted, isFinal, isWrong, runtime, shortReason } from "../core/words.js";
import { Failure, Loading } from "./feedback.js";
import { State, Time } from "./states.js";

/** @typedef {import("../core/types").Member} Member */
/** @typedef {import("../core/before.js").Earlier} Earlier */

/** @param {{member: Member}} properties */
export function Before({ member }) {
  const [asked, setAsked] = useState(false);
  if (!asked)
    return html`<div class="buttons"><button type="button" onClick=${() => setAsked(true)}>Compare with before</button></div>`;
  return html`<${Found} key=${member.status.taskId} member=${member} />`;
}

/** @param {{member: Member}} properties */
function Found({ member }) {
  const now = useNow(60_000);
  const [state, setState] = useState(
    /** @type {{found: Earlier[], done: boolean, error?: Error}} */ ({ found: [], done: false }),
  );
  useEffect(() => {
    const control = new AbortController();
    const show = (/** @type {Earlier[]} */ found) => setState({ found, done: false });
    earlierRuns(member, control.signal, show).then(
      (found) => setState({ found, done: true }),
      (error) => control.signal.aborted || setState(({ found }) => ({ found, done: true, error })),
    );
    return () => control.abort();
  }, []);
  const { found, done, error } = state;
  const own = { id: member.status.taskId, runId: member.status.runs.at(-1)?.runId ?? 0 };
  return html`<section class="before" aria-label="Before">
    ${error && html`<${Failure} error=${error} />`}
    ${found.length > 0 && html`<p class="verdict">${verdict(member, found)}</p>`}
    <ul class="related">${found.map(({ member: { task, status }, how }) => {
      const run = status.runs.at(-1);
      const ran = runtime(status, now);
      return html`<li key=${status.taskId}>
        <${State} state=${status.state} reason=${shortReason(status)} /> ${ran !== null && html`<span class="reason">in ${duration(ran)},</span>`} <${Time} at=${run?.resolved ?? task.created} now=${now} />
        ${" · "}<a href=${to.task(status.taskId)}>Task</a> · <a href=${to.group(status.taskGroupId)}>${how}</a>
        ${run && html` · <a href=${compareHref(own, { id: status.taskId, runId: run.runId })}>Compare the logs</a>`}
      </li>`;
    })}</ul>
    ${!done && html`<${Loading} label="Looking at the groups before" />`}
    ${done && !error && found.length === 0 && html`<p class="empty">No group before has a task of this name, as far as was looked.</p>`}
  </section>`;
}

/** Whether it went as before. @param {Member} member @param {Earlier[]} found */
function verdict({ status }, found) {
  const resolved = found.filter((one) => isFinal(one.member.status.state));
  const [last] = resolved;
  if (!last) return "It is not resolved where it ran before.";
  if (!isFinal(status.state)) return `Where it ran before it ${isWrong(last.member.status) ? "failed" : "went well"}.`;
  if (!isWrong(status)) return isWrong(last.member.status) ? "It failed before; now it did not." : "It went as before.";
  const same = resolved.findIndex((one) => !isWrong(one.member.status));
  if (same === 0) return "This failure is new: before, the task completed.";
  const times = same < 0 ? resolved.length : same;
  return `It failed before as well, ${counted(times, "time")} in a row${same < 0 ? " at least" : ""}.`;
}
