// States and times as people see them: a word and a colour, never the colour alone.

import { now as clock } from "../core/clock.js";
import { html } from "../core/html.js";
import { shownState, STATES } from "../core/words.js";
import { absolute, distance, useTimes } from "../core/time.js";

/** @param {{state: string, reason?: string}} properties */
export const State = ({ state, reason }) =>
  reason === "canceled"
    ? html`<span class="state cancelled">cancelled</span>`
    : html`<span class=${`state ${state}`}>${state}</span>${reason && html` <span class="reason">${reason}</span>`}`;

/** @type {Record<string, string>} */
export const SIGNS = { failed: "✗", exception: "!", running: "▶", pending: "○", unscheduled: "·", cancelled: "⊘", completed: "✓" }; // prettier-ignore

/** A sign for a state, which says it without its colour. @param {import("../core/types").Status} status */
export const signOf = (status) => SIGNS[shownState(status)] ?? "?";

/** A time as a distance, with the exact one as its title, or the other way round; no time, and the one that means never, as a dash. @param {{at?: string | undefined, now: number}} properties `now`: as of some seconds ago, at times */
export function Time({ at, now }) {
  const style = useTimes();
  if (at === undefined || Date.parse(at) === 0) return "–";
  const [far, full] = [distance(at, Math.max(now, clock())), absolute(at)];
  return html`<time dateTime=${at} title=${style === "ago" ? full : far}>${style === "ago" ? far : full}</time>`;
}

/** When a worker was seen last: one that runs a task is at work now, however seldom its calls are noted. @param {{at?: string | undefined, busy: boolean | undefined, now: number}} properties */
export const LastActive = ({ at, busy, now }) => (busy ? "now" : html`<${Time} at=${at} now=${now} />`);

/** How long something holds: a thousand years are for good. @param {{at?: string | undefined, now: number}} properties */
export const Until = ({ at, now }) =>
  at !== undefined && Date.parse(at) - now > FOR_GOOD
    ? html`<time dateTime=${at} title=${absolute(at)}>further notice</time>`
    : html`<${Time} at=${at} now=${now} />`;

const FOR_GOOD = 100 * 365 * 86_400_000;

/** Counts by state as a bar, for those who see it: it stands beside the numbers. @param {{counts: Record<string, number>}} properties */
export function Bar({ counts }) {
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const present = STATES.filter((state) => counts[state]);
  return html`<span class="bar" aria-hidden="true">
    ${present.map((state) => html`<span class=${state} style=${{ flexGrow: (counts[state] ?? 0) / total }} key=${state}></span>`)}
  </span>`;
}

/** Counts by state as a bar; each part switches the filter for its state on or off. `select` is told all that are on.
 * @param {{counts: Record<string, number>, selected: string[], select: (states: string) => void}} properties */
export function StateBar({ counts, selected, select }) {
  const on = selected.filter(Boolean);
  const toggled = (/** @type {string} */ state) =>
    STATES.filter((one) => (one === state ? !on.includes(one) : on.includes(one))).join();
  return html`<div class="state-bar">
    <${Bar} counts=${counts} />
    <div class="buttons" role="group" aria-label="Filter by state">
      ${STATES.filter((state) => state !== "cancelled" || counts[state] || on.includes(state)).map(
        (state) =>
          html`<button type="button" key=${state} class=${`state ${state}${counts[state] || on.includes(state) ? "" : " none"}`} aria-pressed=${on.includes(state)} onClick=${() => select(toggled(state))}>${(counts[state] ?? 0).toLocaleString()} ${state}</button>`,
      )}
      ${on.length > 0 && html`<button type="button" class="quiet" onClick=${() => select("")}>All states</button>`}
    </div>
  </div>`;
}

/** Pairs of a name and a value; `large` where the values are what one has come for. @param {{of: [string, any][], large?: boolean}} properties */
export const Facts = ({ of, large = false }) =>
  html`<dl class=${large ? "facts large" : "facts"}>${of.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;

/** An identifier that people compare letter by letter. @param {{children?: any}} properties */
export const Id = ({ children }) => html`<code class="id">${children}</code>`;

/** Where a task comes from: an address that can be opened, under a shorter text if there is one, or another text. @param {{url: string, text?: string | null}} properties */
export const Source = ({ url, text }) =>
  /^https?:\/\//.test(url)
    ? html`<a href=${url} title=${url} target="_blank" rel="noreferrer noopener">${text ?? url.replace(/^https?:\/\//, "")}</a>`
    : url;
