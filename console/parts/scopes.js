// Scopes, one a line.

import { html } from "../core/html.js";
import { Empty } from "./feedback.js";

/** @param {{of: string[]}} properties */
export const Scopes = ({ of }) =>
  of.length === 0
    ? html`<${Empty}>None.<//>`
    : html`<ul class="scopes">${of.map((scope) => html`<li key=${scope}><code>${scope}</code></li>`)}</ul>`;

/** The scopes of a text with one a line. @param {string} text */
export const scopesOf = (text) =>
  [
    ...new Set(
      text
        .split("\n")
        .map((line) => line.trim())
        .filter(Boolean),
    ),
  ].sort();

/** @param {{value: string, change: (value: string) => void, label?: string, readOnly?: boolean}} properties */
export const ScopesField = ({ value, change, label = "Scopes, one a line", readOnly = false }) =>
  html`<label>${label}<textarea class="code" rows="8" spellcheck="false" readonly=${readOnly} value=${value} onInput=${(/** @type {any} */ event) => change(event.target.value)}></textarea></label>`;
