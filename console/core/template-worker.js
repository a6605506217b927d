// A worker that renders a JSON-e template: it has neither the page nor its storage, can be ended, and makes no more than so much.

import "../vendor/json-e.js"; // a script that defines a global

const MOST_CHARACTERS = 2 ** 20;
/** Items of all the lists that a rendering makes on its way. */
const MOST_ITEMS = 2_000_000;

let items = 0;
/** @param {number} more */
function count(more) {
  items += more;
  if (items > MOST_ITEMS) throw new Error("it makes too many values");
}

// Lists are what templates grow by, and these are all ways in which JSON-e makes them.
const lists = /** @type {any} */ (Array.prototype);
for (const name of ["map", "filter", "slice", "concat", "push"]) {
  const own = lists[name];
  lists[name] = function (/** @type {any[]} */ ...given) {
    count(name === "push" ? 1 : this.length);
    if (name === "concat") for (let at = 0; at < given.length; at++) count(given[at]?.length ?? 1);
    return own.apply(this, given);
  };
}
const from = Array.from;
Array.from = (/** @type {any} */ source, /** @type {any[]} */ ...more) => {
  count(source.length ?? 0);
  return from(source, .../** @type {[any]} */ (more));
};

/** Characters of all texts in a value, at least; a text that was put together is not copied for that. @param {any} value @returns {number} */
function sizeOf(value) {
  if (typeof value === "string") return value.length;
  if (typeof value !== "object" || value === null) return 1;
  let size = 0;
  for (const key in value) {
    size += key.length + sizeOf(value[key]);
    if (size > MOST_CHARACTERS) break;
  }
  return size;
}

addEventListener("message", ({ data: { template, context } }) => {
  try {
    const made = /** @type {any} */ (globalThis).jsone(template, context);
    const text = sizeOf(made) > MOST_CHARACTERS ? "" : (JSON.stringify(made) ?? "null");
    postMessage(
      text === "" || text.length > MOST_CHARACTERS
        ? { error: "The action's template makes too large a task." }
        : { made: text },
    );
  } catch (error) {
    postMessage({ error: `The action's template cannot be rendered: ${String(error).slice(0, 500)}` });
  }
});
