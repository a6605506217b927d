// The same task in the last ten groups before: whether its failure is new, and whether it is flaky. Read when somebody asks.

import { html, useEffect, useState } from "../core/html.js";
import { earlierRuns, GROUPS, verdictOn } from "../core/before.js";
import { useNow } from "../core/polling.js";
import { compareHref, to } from "../core/router.js";
import { distance, duration } from "../core/time.js";
import { runtime, shortReason, shownState } from "../core/words.js";
import { Failure, Loading } from "./feedback.js";
import { signOf, State, Time } from "./states.js";

/** @typedef {import("../core/types").Member} Member */
/** @typedef {import("../core/before.js").Earlier} Earlier */

/** @param {{member: Member}} properties */
export function Before({ member }) {
  const [asked, setAsked] = useState(false);
  if (!asked)
    return html`<div class="buttons"><button type="button" onClick=${() => setAsked(true)}>The last ${GROUPS} pushes</button></div>`;
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
  const mate = found.find(({ member: { status } }) => status.state === "completed") ?? found.find(({ member: { status } }) => status.runs.length > 0); // prettier-ignore
  const own = { id: member.status.taskId, runId: member.status.runs.at(-1)?.runId ?? 0 };
  return html`<section class="before" aria-label="Before">
    ${error && html`<${Failure} error=${error} />`}
    ${found.length > 0 && html`<p class="verdict">${done ? verdictOn(member, found) : ""}</p><p class="marks" aria-hidden="true">${[...found].reverse().map(({ member: { task, status }, how }) => html`<a key=${status.taskId} tabindex="-1" class=${`mark ${shownState(status)}`} href=${to.task(status.taskId)} title=${`${how}: ${shownState(status)}, ${distance(task.created, now)}`}>${signOf(status)}</a>`)}</p>`}
    ${mate && html`<p><a href=${compareHref(own, { id: mate.member.status.taskId, runId: mate.member.status.runs.at(-1)?.runId ?? 0 })}>Compare the logs with ${mate.how}</a></p>`}
    ${
      found.length > 0 &&
      html`<details><summary>Each of them</summary><ul class="related">${found.map(
        ({ member: { task, status }, how }) => {
          const run = status.runs.at(-1);
          const ran = runtime(status, now);
          return html`<li key=${status.taskId}>
        <${State} state=${status.state} reason=${shortReason(status)} /> ${ran !== null && html`<span class="reason">in ${duration(ran)},</span>`} <${Time} at=${run?.resolved ?? task.created} now=${now} />
        ${" · "}<a href=${to.task(status.taskId)}>Task</a> · <a href=${to.group(status.taskGroupId)}>${how}</a>
        ${run && html` · <a href=${compareHref(own, { id: status.taskId, runId: run.runId })}>Compare the logs</a>`}
      </li>`;
        },
      )}</ul></details>`
    }
    ${!done && html`<${Loading} label="Looking at the groups before" />`}
    ${done && !error && found.length === 0 && html`<p class="empty">No task of this name was found in the groups before.</p>`}
  </section>`;
}
