// A worker that renders a JSON-e template: it has neither the page nor its storage, and can be ended.

import "../vendor/json-e.js"; // a script that defines a global

const MOST_CHARACTERS = 2 ** 20;

addEventListener("message", ({ data: { template, context } }) => {
  try {
    const made = JSON.stringify(/** @type {any} */ (globalThis).jsone(template, context)) ?? "null";
    postMessage(made.length > MOST_CHARACTERS ? { error: "The action's template makes too large a task." } : { made });
  } catch (error) {
    postMessage({ error: `The action's template cannot be rendered: ${String(error).slice(0, 500)}` });
  }
});
