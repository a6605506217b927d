// For those who operate the deployment: what was given up, what waits, and what the timers did last.

import { html, useState } from "../core/html.js";
import { useNow, usePolled } from "../core/polling.js";
import { listPoisonMessages, movePoisonMessages, operations } from "../core/queue.js";
import { to } from "../core/router.js";
import { useTitle } from "../core/title.js";
import { counted } from "../core/words.js";
import { ActionButton, Empty, Failure, Loaded, Loading } from "../parts/feedback.js";
import { Findings, NoVerdict, useVerdict } from "../parts/health.js";
import { Facts, Time } from "../parts/states.js";

/** @typedef {import("../core/types").Operations} Found */
/** @typedef {import("../core/types").PoisonMessage} Message */

/** What a queue's messages are for, and what it means that one was given up. */
const MEANING = /** @type {Record<string, string>} */ ({
  claim: "Ends claims that were not renewed. Until it is handled, the run of a lost worker may stay running.",
  deadline: "Ends tasks at their deadline. Until it is handled, such a task may stay open.",
  resolved: "Frees what waits for a task, and ends its group. Until it is handled, dependents may wait in vain.",
  events: "Sends events that Service Bus did not take. Until it is handled, subscribers do not hear of what happened.",
  "group-jobs": "Finishes a call on a whole group. Until it is handled, some of its tasks may be unchanged.",
});

/** Operators look here when something is wrong: milliseconds. */
const OFTEN = 30_000;

const QUERIES = [
  {
    title: "Errors of the last day",
    remedy: "Look for the call and its incident in the lines before; `health` says what does not answer.",
    query: `AppTraces
| where TimeGenerated > ago(1d) and SeverityLevel >= 3
| summarize count(), latest = max(TimeGenerated) by action = tostring(Properties.action), call = tostring(Properties.call)
| order by count_ desc`,
  },
  {
    title: "Slow calls of the last day",
    remedy: "Many storage operations: a long list was asked for. Few: storage or a cold start was slow.",
    query: `AppTraces
| where TimeGenerated > ago(1d) and Properties.action == "call_done" and todouble(Properties.milliseconds) > 1000
| summarize count(), p95 = percentile(todouble(Properties.milliseconds), 95), operations = avg(todouble(Properties.storageOperations)) by call = tostring(Properties.call)
| order by count_ desc`,
  },
  {
    title: "Starts of the service's processes",
    remedy: "Many in an hour: look for restarts for lack of memory, or for scaling back and forth.",
    query: `AppTraces
| where TimeGenerated > ago(1d) and Properties.action == "telemetry_started"
| summarize starts = count() by bin(TimeGenerated, 1h), AppRoleInstance
| order by TimeGenerated asc`,
  },
];

export default function OperationsPage() {
  useTitle("Operations");
  const polled = usePolled((signal) => operations({ signal }), [], { interval: 60_000 });
  return html`<article>
    <h1>Operations</h1>
    <${Health} />
    <${Loaded} of=${polled} label="Loading">${(/** @type {Found} */ found) => html`
      <${Queues} found=${found} refresh=${polled.refresh} />
      <${Timers} found=${found} />
      <${Workers} found=${found} />`}<//>
    <${Queries} />
  </article>`;
}

function Health() {
  const { findings, at, asked } = useVerdict(OFTEN);
  if (!findings) return asked && html`<${NoVerdict} />`;
  if (findings.length === 0)
    return html`<p class="notice good">${at ? `Nothing was wrong at ${at}.` : "Nothing is wrong."} <span class="reason">Task queues that nothing takes tasks from are looked for every five minutes; <a href="/provisioners">their list</a> shows them at once.</span></p>`;
  return html`<${Findings} of=${findings} at=${at} operator=${true} />`;
}

/** @param {{found: Found, refresh: () => void}} properties */
function Queues({ found, refresh }) {
  const given = found.queues.filter(({ poison }) => poison > 0);
  const events = found.queues.find(({ queue }) => queue === "events")?.messages ?? 0;
  return html`<section aria-labelledby="queues">
    <h2 id="queues">Messages</h2>
    <div class="table-frame" tabindex="0" role="region" aria-label="Internal queues"><table>
      <caption class="visually-hidden">Internal queues</caption>
      <thead><tr><th scope="col">Queue</th><th scope="col">Messages, including hidden ones</th><th scope="col">Given up</th></tr></thead>
      <tbody>${found.queues.map(({ queue, messages, poison }) => html`<tr key=${queue}><td>${queue}</td><td>${messages.toLocaleString()}</td><td class=${poison > 0 ? "state failed" : ""}>${poison.toLocaleString()}</td></tr>`)}</tbody>
    </table></div>
    <p>${events === 0 ? "No event is waiting: Service Bus accepts them at once." : `${counted(events, "event")} ${events === 1 ? "is" : "are"} waiting for Service Bus. They are sent again automatically; if their number grows, check that the namespace exists and that its topics are not full.`}</p>
    ${given.length === 0 ? html`<${Empty}>No message was given up.<//>` : given.map(({ queue, poison }) => html`<${Poison} key=${queue} queue=${queue} count=${poison} refresh=${refresh} />`)}
  </section>`;
}

/** @param {{queue: string, count: number, refresh: () => void}} properties */
function Poison({ queue, count, refresh }) {
  const [look, setLook] = useState(0);
  const polled = usePolled(
    async (signal) => (await listPoisonMessages(queue, { signal })).messages,
    [queue, count, look],
    { interval: 60_000 },
  );
  const [said, setSaid] = useState("");
  const move = async (/** @type {"redrive" | "delete"} */ how, /** @type {string} */ id = "") => {
    const { moved, left } = await movePoisonMessages(queue, how, id || undefined);
    const done = `${counted(moved, "message")} ${how === "redrive" ? "sent once more" : "deleted"}`;
    setSaid(left > 0 ? `${done}; ${left.toLocaleString()} left.` : `${done}.`);
    setLook(look + 1);
    refresh();
  };
  const now = useNow(30_000);
  return html`<section aria-label=${`Given up in ${queue}`}>
    <h3>${counted(count, "message")} given up in ${queue}</h3>
    <p>${MEANING[queue]} The error of each is in the logs (action <code>message_poisoned</code>); mend its reason first. <em>Send again</em> hands a message to its handler as if it were new: all handlers allow that it was handled before. <em>Delete</em> gives up what it was to do.</p>
    <div class="buttons">
      <${ActionButton} kind="primary" action=${() => move("redrive")}>Send all again<//>
      <${ActionButton} kind="danger" action=${() => move("delete")} verb=${`Delete ${counted(count, "message")} of ${queue}`} confirm="What they were meant to do will not be done.">Delete all<//>
      <span role="status">${said}</span>
    </div>
    ${polled.error && html`<${Failure} error=${polled.error} retry=${polled.refresh} />`}
    ${
      polled.data
        ? html`<ul class="related">${polled.data.map(
            (/** @type {Message} */ message) => html`<li key=${message.messageId}>
        <${About} message=${message} queue=${queue} /> <span class="reason">put <${Time} at=${message.put} now=${now} /></span>${" "}
        ${message.readable && html`<${ActionButton} action=${() => move("redrive", message.messageId)}>Send again<//>`}${" "}
        <${ActionButton} kind="danger" action=${() => move("delete", message.messageId)} verb="Delete the message" confirm="What it was meant to do will not be done.">Delete<//></li>`,
          )}</ul>`
        : !polled.error && html`<${Loading} />`
    }
  </section>`;
}

/** @param {{message: Message, queue: string}} properties */
function About({ message: { about, readable }, queue }) {
  if (!readable) return html`<span>It cannot be read: this service has not put it, or it is cut off.</span>`;
  const { taskId, taskGroupId, runId, kind } = about;
  if (taskId)
    return html`<span>task <a href=${to.task(String(taskId))}>${taskId}</a>${runId === undefined ? "" : `, run ${runId}`}</span>`;
  if (taskGroupId)
    return html`<span>${kind} of task group <a href=${to.group(String(taskGroupId))}>${taskGroupId}</a></span>`;
  return html`<span>${queue === "events" ? "an event" : "a message that names neither a task nor a group"}</span>`;
}

/** @param {{found: Found}} properties */
function Timers({ found }) {
  const now = useNow(30_000);
  const at = (/** @type {string | undefined} */ time) => (time ? html`<${Time} at=${time} now=${now} />` : "never");
  return html`<section aria-labelledby="timers">
    <h2 id="timers">Timers</h2>
    <${Facts} of=${[
      ["Expiry job last ran", html`${at(found.expiryNoted)} (at least every hour)`],
      ["Deleted: all that expired before", at(found.expiredBefore)],
      [
        "Reconciler last noted its position",
        found.reconcilerNoted ? at(found.reconcilerNoted) : "never: with fewer than 50 task queues it has none",
      ],
      ["Gauges noted", html`${at(found.waitingNoted)} (every five minutes)`],
    ]} />
    <p>If these are late, the timer functions are not running: the logs of <code>expire</code>, <code>reconcile</code> and <code>observe</code> say why.</p>
  </section>`;
}

/** @param {{found: Found}} properties */
const Workers = ({ found: { toldWorkers } }) => html`<section aria-labelledby="told">
    <h2 id="told">Waiting workers</h2>
    <p>Since it started, the process that answered has told ${counted(toldWorkers.repeat + toldWorkers.empty, "worker")} of work: ${toldWorkers.repeat.toLocaleString()} by 503 <code>CallAgain</code>, after which their clients repeat the call at once, and ${toldWorkers.empty.toLocaleString()} by an empty answer, after which they pause. Neither is a failure. Many of the latter: their clients do not repeat calls.</p>
  </section>`;

const Queries = () => html`<section aria-labelledby="logs">
    <h2 id="logs">What only the logs know</h2>
    <p>The service keeps no logs. Where it exports to Application Insights, ask its Log Analytics workspace; locally <code>./dev logs</code> has all lines.</p>
    ${QUERIES.map(({ title, remedy, query }) => html`<details key=${title}><summary>${title}</summary><p>${remedy}</p><pre class="query" tabindex="0">${query}</pre></details>`)}
  </section>`;
