// Scopes, one a line, and what differs between two lists of them.

import { html } from "../core/html.js";
import { Empty } from "./feedback.js";

/** @param {{of: string[]}} properties */
export const Scopes = ({ of }) =>
  of.length === 0
    ? html`<${Empty}>None.<//>`
    : html`<ul class="scopes">${of.map((scope) => html`<li key=${scope}><code>${scope}</code></li>`)}</ul>`;

/** The scopes of a text with one a line. @param {string} text */
export const scopesOf = (text) => [...new Set(text.split("\n").map((line) => line.trim()).filter(Boolean))].sort(); // prettier-ignore

/** Whether one scope grants another. @param {string} one @param {string} other */
export const covers = (one, other) => one === other || (one.endsWith("*") && other.startsWith(one.slice(0, -1)));

/** What of a list another one does not grant. @param {string[]} scopes @param {string[]} others */
export const beyond = (scopes, others) => scopes.filter((scope) => !others.some((one) => covers(one, scope)));

/** What is granted and what is taken away from one list of scopes to another. @param {{from: string[], to: string[]}} properties */
export function ScopesDifference({ from, to }) {
  const [granted, taken] = [beyond(to, from), beyond(from, to)];
  if (granted.length + taken.length === 0) return html`<${Empty}>Nothing is granted or taken away.<//>`;
  return html`<ul class="scopes difference">
    ${granted.map((scope) => html`<li key=${`+${scope}`} class="granted"><span>grants</span> <code>${scope}</code></li>`)}
    ${taken.map((scope) => html`<li key=${`-${scope}`} class="taken"><span>takes away</span> <code>${scope}</code></li>`)}
  </ul>`;
}

/** @param {{value: string, change: (value: string) => void, label?: string, readOnly?: boolean}} properties */
export const ScopesField = ({ value, change, label = "Scopes, one a line", readOnly = false }) =>
  html`<label>${label}<textarea class="code" rows="8" spellcheck="false" readonly=${readOnly} value=${value} onInput=${(/** @type {any} */ event) => change(event.target.value)}></textarea></label>`;
