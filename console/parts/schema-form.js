// The input of an action: a field for each property of its schema, or JSON where that is more than fields can say.

import { defaults, fieldsOf } from "../core/actions.js";
import { html, useMemo, useState } from "../core/html.js";

/** @typedef {import("../core/actions.js").FormField} Field */

/** An input that somebody writes: what its fields show, and its value, which throws an Error as long as it is none.
 * @param {unknown} schema absent: the action takes no input @param {() => void} changed */
export function useInput(schema, changed) {
  const fields = useMemo(() => fieldsOf(schema), [schema]);
  const begun = useMemo(() => (schema === undefined ? null : defaults(schema)), [schema]);
  const [asJson, setAsJson] = useState(fields === null);
  const [json, setJson] = useState(() => JSON.stringify(begun, null, 2));
  const [texts, setTexts] = useState(() => textsOf(fields ?? [], begun));
  const write = (/** @type {string} */ name, /** @type {string} */ text) => {
    setTexts({ ...texts, [name]: text });
    changed();
  };
  const value = () => (asJson || !fields ? JSON.parse(json) : valueOf(fields, texts));
  const toggle = () => {
    if (!asJson) setJson(JSON.stringify(value(), null, 2));
    else setTexts(textsOf(fields ?? [], JSON.parse(json)));
    setAsJson(!asJson);
    changed();
  };
  const writeJson = (/** @type {string} */ text) => {
    setJson(text);
    changed();
  };
  return { fields, asJson, json, texts, write, writeJson, toggle, value };
}

/** @param {{of: ReturnType<typeof useInput>}} properties */
export function InputForm({ of: { fields, asJson, json, texts, write, writeJson, toggle } }) {
  const [problem, setProblem] = useState("");
  const change = () => {
    try {
      toggle();
      setProblem("");
    } catch (error) {
      setProblem(/** @type {Error} */ (error).message);
    }
  };
  return html`<div class="form">
    ${
      asJson || !fields
        ? html`<label>Input (JSON)<textarea class="code" rows="10" spellcheck="false" value=${json} onInput=${(/** @type {any} */ event) => writeJson(event.target.value)}></textarea></label>`
        : fields.map(
            (field) =>
              html`<${FieldOf} key=${field.name} field=${field} text=${texts[field.name] ?? ""} write=${(/** @type {string} */ text) => write(field.name, text)} />`,
          )
    }
    ${fields && html`<button type="button" class="link" onClick=${change}>${asJson ? "As a form" : "As JSON"}</button>`}
    ${problem && html`<span class="action-error" role="alert">${problem}</span>`}
  </div>`;
}

/** @param {{field: Field, text: string, write: (text: string) => void}} properties */
function FieldOf({ field: { title, about, kind, choices, required, least, most }, text, write }) {
  const onInput = (/** @type {any} */ event) => write(event.target.value);
  const said = html`${title}${required && html`<span class="reason"> (required)</span>`}${about && html`<span class="reason about">${about}</span>`}`;
  if (kind === "yes")
    return html`<label><input type="checkbox" checked=${text === "true"} onChange=${(/** @type {any} */ event) => write(String(event.target.checked))} /> ${said}</label>`;
  if (kind === "choice")
    return html`<label>${said}<select value=${text} onChange=${onInput}>${["", ...choices].map((one) => html`<option key=${one} value=${one}>${one || "–"}</option>`)}</select></label>`;
  if (kind === "lines" || kind === "json")
    return html`<label>${said}<textarea class="code" rows="4" spellcheck="false" placeholder=${kind === "lines" ? "One a line" : "JSON"} value=${text} onInput=${onInput}></textarea></label>`;
  return html`<label>${said}<input type=${kind} min=${least} max=${most} value=${text} onInput=${onInput} /></label>`;
}

/** What fields show of a value. @param {Field[]} fields @param {any} value @returns {Record<string, string>} */
const textsOf = (fields, value) =>
  Object.fromEntries(
    fields.flatMap(({ name, kind }) => {
      const given = value?.[name];
      if (given === undefined) return [];
      if (kind === "lines" && Array.isArray(given)) return [[name, given.join("\n")]];
      return [[name, kind === "json" ? JSON.stringify(given, null, 2) : String(given)]];
    }),
  );

/** The value that fields stand for: what is empty is left out. @param {Field[]} fields @param {Record<string, string>} texts */
function valueOf(fields, texts) {
  /** @type {Record<string, unknown>} */
  const value = {};
  for (const { name, title, kind, required, least, most } of fields) {
    const text = texts[name] ?? "";
    if (text.trim() === "") {
      if (required) throw new Error(`${title} is needed.`);
      continue;
    }
    if (kind === "yes") value[name] = text === "true";
    else if (kind === "json") value[name] = JSON.parse(text);
    else if (kind === "lines")
      value[name] = text.split("\n").map((line) => line.trim()).filter(Boolean); // prettier-ignore
    else value[name] = kind === "number" ? numberOf(title, text, least, most) : text;
  }
  return value;
}

/** @param {string} title @param {string} text @param {number | undefined} least @param {number | undefined} most */
function numberOf(title, text, least = -Infinity, most = Infinity) {
  const number = Number(text);
  if (number >= least && number <= most) return number;
  const from = Number.isFinite(least) ? `, at least ${least}` : "";
  throw new Error(`${title} must be a number${from}${Number.isFinite(most) ? `, at most ${most}` : ""}.`);
}
