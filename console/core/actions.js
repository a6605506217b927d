// Actions that a group's decision task offers in public/actions.json. Whoever may create a task writes what it says: what
// is malformed is left out, its size is bounded, and templates are rendered where they reach nothing of the page.

import { artifact, task as taskOf } from "./queue.js";

const FILE = "public/actions.json";
const MOST_BYTES = 2 * 2 ** 20;
const RENDERED_WITHIN = 2000;

/** @typedef {object} Action @property {"task" | "hook"} kind @property {string} name @property {string} title
 * @property {string} description @property {Record<string, string>[]} context @property {unknown} [schema]
 * @property {Record<string, unknown>} [task] the template of an action of the kind `task` */

/** @typedef {object} Offer @property {Action[]} actions @property {Record<string, unknown>} variables
 * @property {string[]} scopes of the decision task: what its actions may use at most */

/** The file is there and cannot be used. */
export class UnusableActions extends Error {}

/** What the decision task of a group offers; null if there is no such task. One that has the id of the group and is in
 * another group is none: everybody can create it. Throws UnusableActions, ApiError, TypeError.
 * @param {string} taskGroupId @param {AbortSignal} signal @returns {Promise<Offer | null>} */
export async function offered(taskGroupId, signal) {
  const decision = await taskOf(taskGroupId, { signal });
  if (decision.taskGroupId !== taskGroupId) return null;
  const { url } = await artifact(taskGroupId, null, FILE, { signal });
  if (!url) return null;
  const response = await fetch(url, { signal, credentials: "omit", cache: "no-store" });
  if (!response.ok) return null;
  const { actions, variables } = parsed(await text(response));
  return {
    actions: actions.filter(isAction),
    variables: isObject(variables) ? variables : {},
    scopes: decision.scopes,
  };
}

/** Those of the actions that are for a task with these tags, or for the whole group, the first of each name.
 * @param {Action[]} actions @param {Record<string, string> | null} tags null: for the group */
export function relevant(actions, tags) {
  const names = new Set();
  return actions.filter(({ name, context }) => {
    const fits = tags
      ? context.some((set) => Object.entries(set).every(([tag, value]) => tags[tag] === value))
      : context.length === 0;
    if (!fits || names.has(name)) return false;
    names.add(name);
    return true;
  });
}

/** The task that a template makes. Throws an Error if it makes none, or takes too long. @param {unknown} template
 * @param {Record<string, unknown>} context @returns {Promise<Record<string, unknown>>} */
export async function rendered(template, context) {
  const worker = new Worker(new URL("./template-worker.js", import.meta.url), { type: "module" });
  /** @type {number | undefined} */
  let timer;
  try {
    const made = await new Promise((resolve, reject) => {
      timer = setTimeout(() => reject(new Error("The action's template takes too long.")), RENDERED_WITHIN);
      worker.onmessage = ({ data }) => (data.error ? reject(new Error(data.error)) : resolve(JSON.parse(data.made)));
      worker.onerror = () => reject(new Error("The action's template cannot be rendered."));
      worker.postMessage({ template, context });
    });
    if (!isObject(made)) throw new Error("The action's template makes no task.");
    return made;
  } finally {
    clearTimeout(timer);
    worker.terminate();
  }
}

/** What a form begins with: the default of a schema, or those of its properties. @param {unknown} schema */
export function defaults(schema) {
  if (!isObject(schema)) return null;
  if ("default" in schema) return schema["default"];
  if (schema["type"] !== "object") return null;
  const properties = isObject(schema["properties"]) ? schema["properties"] : {};
  return Object.fromEntries(
    Object.entries(properties).flatMap(([name, part]) =>
      isObject(part) && "default" in part ? [[name, part["default"]]] : [],
    ),
  );
}

const MOST_FIELDS = 40;

/** @typedef {object} FormField of a form for the input of an action @property {string} name @property {string} title
 * @property {string} about @property {"choice" | "text" | "number" | "yes" | "lines" | "json"} kind
 * @property {string[]} choices @property {boolean} required @property {number | undefined} least
 * @property {number | undefined} most */

/** The fields for the properties of a schema; null if it is not of an object, or has too many: then the input is JSON.
 * @param {unknown} schema @returns {FormField[] | null} */
export function fieldsOf(schema) {
  if (!isObject(schema) || schema["type"] !== "object" || !isObject(schema["properties"])) return null;
  const properties = Object.entries(schema["properties"]);
  if (properties.length === 0 || properties.length > MOST_FIELDS || !properties.every(([, part]) => isObject(part)))
    return null;
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  const text = (/** @type {unknown} */ value) => (isText(value, 1000) ? /** @type {string} */ (value) : "");
  const bound = (/** @type {unknown} */ value) => (typeof value === "number" ? value : undefined);
  return properties.map(([name, given]) => {
    const part = /** @type {Record<string, unknown>} */ (given);
    const choices = Array.isArray(part["enum"]) && part["enum"].every((one) => isText(one, 200)) ? part["enum"] : [];
    const isLines = part["type"] === "array" && isObject(part["items"]) && part["items"]["type"] === "string";
    /** @type {Record<string, FormField["kind"]>} */
    const kinds = { string: "text", integer: "number", number: "number", boolean: "yes" };
    return {
      name,
      title: text(part["title"]) || name,
      about: text(part["description"]),
      kind: choices.length > 0 ? "choice" : isLines ? "lines" : (kinds[String(part["type"])] ?? "json"),
      choices,
      required: required.includes(name),
      least: bound(part["minimum"]),
      most: bound(part["maximum"]),
    };
  });
}

/** @param {Response} response */
async function text(response) {
  const decoder = new TextDecoder();
  let read = "";
  let bytes = 0;
  for (const reader = response.body?.getReader(); reader;) {
    const { done, value } = await reader.read();
    if (done) break;
    bytes += value.length;
    if (bytes > MOST_BYTES) {
      await reader.cancel();
      throw new UnusableActions(`${FILE} of the decision task is larger than ${MOST_BYTES / 2 ** 20} MiB.`);
    }
    read += decoder.decode(value, { stream: true });
  }
  return read + decoder.decode();
}

/** @param {string} content @returns {{actions: unknown[], variables?: unknown}} */
function parsed(content) {
  let file;
  try {
    file = JSON.parse(content);
  } catch {
    throw new UnusableActions(`${FILE} of the decision task is not JSON.`);
  }
  if (!isObject(file) || file["version"] !== 1 || !Array.isArray(file["actions"]))
    throw new UnusableActions(`${FILE} of the decision task has no actions of version 1.`);
  return /** @type {any} */ (file);
}

/** @param {any} action @returns {action is Action} */
const isAction = (action) =>
  isObject(action) &&
  (action["kind"] === "hook" || (action["kind"] === "task" && isObject(action["task"]))) &&
  isText(action["name"], 255) &&
  isText(action["title"], 255) &&
  isText(action["description"], 4096) &&
  Array.isArray(action["context"]) &&
  action["context"].every((set) => isObject(set) && Object.values(set).every((value) => typeof value === "string"));

/** @param {unknown} value @param {number} most */
const isText = (value, most) => typeof value === "string" && value.length <= most;

/** @param {unknown} value @returns {value is Record<string, unknown>} */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
