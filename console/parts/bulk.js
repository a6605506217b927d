// One action on many tasks or workers: a few at a time, with progress, what failed by name, and a way to stop.

import { html, useRef, useState } from "../core/html.js";
import { counted } from "../core/words.js";

const AT_ONCE = 6;

/** @typedef {object} Job @property {string} title @property {string} noun what the ids are of @property {number} total
 * @property {number} done @property {{id: string, message: string}[]} failed @property {boolean} ended */

/** Run an action for each of many ids. @param {() => void} finished @param {string} [noun] what the ids are of
 * @param {(id: string) => string} [called] what people call it */
export function useBulk(finished, noun = "task", called = (id) => id) {
  const [job, setJob] = useState(/** @type {Job | null} */ (null));
  const stopped = useRef(false);

  const start = async (
    /** @type {string} */ title,
    /** @type {string[]} */ ids,
    /** @type {(id: string) => Promise<unknown>} */ action,
  ) => {
    stopped.current = false;
    const waiting = [...ids];
    /** @type {Job} */
    const state = { title, noun, total: ids.length, done: 0, failed: [], ended: false };
    setJob({ ...state });
    const work = async () => {
      for (let id = waiting.shift(); id !== undefined && !stopped.current; id = waiting.shift()) {
        try {
          await action(id);
        } catch (error) {
          state.failed.push({ id: called(id), message: error instanceof Error ? error.message : String(error) });
        }
        state.done += 1;
        setJob({ ...state });
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    setJob({ ...state, ended: true });
    finished();
  };
  return { job, start, stop: () => void (stopped.current = true), dismiss: () => setJob(null) };
}

/** @param {{bulk: ReturnType<typeof useBulk>}} properties */
export function BulkProgress({ bulk: { job, stop, dismiss } }) {
  if (!job) return null;
  const succeeded = job.done - job.failed.length;
  return html`<div class="notice" role="status">
    <p>${job.title}: ${succeeded} of ${counted(job.total, job.noun)} done${job.failed.length > 0 && `, ${job.failed.length} failed`}${job.ended && job.done < job.total && ", then stopped"}.</p>
    <progress max=${job.total} value=${job.done} aria-label=${job.title}></progress>
    ${
      job.failed[0] &&
      html`<p class="said">${job.failed[0].message}</p><details><summary>What failed</summary><ul>${job.failed.map(({ id, message }) => html`<li key=${id}><bdi>${id}</bdi>: ${message}</li>`)}</ul></details>`
    }
    ${job.ended ? html`<button type="button" onClick=${dismiss}>Close</button>` : html`<button type="button" onClick=${stop}>Stop</button>`}
  </div>`;
}
