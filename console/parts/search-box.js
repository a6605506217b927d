// A box that takes what people have at hand: an id, a queue, a worker, or an address of this service.

import { html, useState } from "../core/html.js";
import { getTaskGroup, task } from "../core/queue.js";
import { navigate, resolve, to } from "../core/router.js";

const SLUGID = /^[A-Za-z0-9_-]{8}[Q-T][A-Za-z0-9_-][CGKOSWaeimquy26-][A-Za-z0-9_-]{10}[AQgw]$/;

export function SearchBox() {
  const [message, setMessage] = useState("");
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const text = String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get("id")).trim();
    setMessage("");
    const found = await placeOf(text);
    if (found) navigate(found);
    else setMessage("No task or task group has this id, and it is no task queue, worker or address of this service.");
  };
  return html`<form class="search" role="search" onSubmit=${submit}>
    <label>Find a task, task group, task queue or worker<input name="id" type="search" placeholder="id, provisioner/worker-type, or address" required /></label>
    <button type="submit">Go</button>
    <span role="status">${message}</span>
  </form>`;
}

/**
 * The page of what a text names, or null.
 * @param {string} text
 */
async function placeOf(text) {
  if (/^https?:\/\//.test(text)) {
    const url = new URL(text);
    return resolve(url.pathname) ? url.pathname + url.search + url.hash : null;
  }
  if (SLUGID.test(text))
    return (await exists(getTaskGroup(text))) ? to.group(text) : (await exists(task(text))) ? to.task(text) : null;
  const [provisioner, workerType, group, worker, ...rest] = text.split("/");
  if (rest.length > 0 || !provisioner || !workerType) return null;
  const queue = `${provisioner}/${workerType}`;
  return group && worker ? to.worker(queue, group, worker) : to.queue(queue);
}

/** @param {Promise<unknown>} reading */
async function exists(reading) {
  try {
    await reading;
    return true;
  } catch (error) {
    if (/** @type {{status?: number}} */ (error).status === 404) return false;
    throw error;
  }
}
