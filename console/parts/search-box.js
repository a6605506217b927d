// A box that takes what people have at hand: an id, a name, an owner, an index path, a queue, a worker, or an address of
// this service; it suggests what is meant.

import { html, useEffect, useId, useLayoutEffect, useRef, useState } from "../core/html.js";
import { findTask } from "../core/index-service.js";
import { getTaskGroup, task } from "../core/queue.js";
import { leave, resolve, to } from "../core/router.js";
import { GROUPS, GROUPS_SEARCHED, suggestions } from "../core/suggestions.js";

const SLUGID = /^[A-Za-z0-9_-]{8}[Q-T][A-Za-z0-9_-][CGKOSWaeimquy26-][A-Za-z0-9_-]{10}[AQgw]$/;
/** Milliseconds without a key until something is asked for. */
const REST = 250;

const NOT_FOUND = `Not found in what was searched: the names, revisions and owners of the latest ${GROUPS} groups, the first 1,000 tasks of each of the latest ${GROUPS_SEARCHED}, task queues, workers and the index. Anything older is found by its id.`;
const MORE = `Nothing found yet in recent groups, task queues, workers and the index. Press Enter to search the tasks of the latest ${GROUPS_SEARCHED} groups as well.`;

const UNREACHED = "Nothing could be searched: the service does not answer.";

/** @param {{then?: () => void, focused?: boolean}} properties `then`: after something was chosen */
export function SearchBox({ then, focused = false }) {
  const [text, setText] = useState("");
  const [found, setFound] = useState(/** @type {import("../core/suggestions.js").Suggestion[]} */ ([]));
  const [active, setActive] = useState(-1);
  const [message, setMessage] = useState("");
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const latest = useRef(0); // of what was asked for: an answer to what came before is late
  const list = useId();
  useEffect(() => {
    if (focused) input.current?.focus();
  }, []);
  useLayoutEffect(() => {
    // Before the next key: after paint, it would take the place of the search that Enter has begun meanwhile.
    setActive(-1);
    const own = ++latest.current;
    const timer = setTimeout(async () => {
      const next = await suggestions(text).catch(() => null);
      if (own !== latest.current) return;
      setFound(next ?? []);
      setMessage(next === null ? UNREACHED : next.length === 0 && /^[^/:]{2,}$/.test(text.trim()) ? MORE : "");
    }, REST);
    return () => clearTimeout(timer);
  }, [text]);
  const go = (/** @type {string} */ href) => {
    setText("");
    setFound([]);
    then?.();
    leave(href);
  };
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const own = ++latest.current;
    setMessage("");
    find(own).catch(() => own === latest.current && setMessage(UNREACHED));
  };
  const find = async (/** @type {number} */ own) => {
    const chosen = found[active]?.href ?? (await placeOf(text.trim()));
    if (chosen) return go(chosen);
    setMessage(`Searching the tasks of the latest ${GROUPS_SEARCHED} groups …`);
    const all = await suggestions(text, true);
    if (own !== latest.current) return;
    setFound(all);
    if (all.length === 1 && all[0]) return go(all[0].href);
    setMessage(
      all.length > 1 ? "Several things have this in their name, of which the first are listed: choose one." : NOT_FOUND,
    );
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && found.length > 0) {
      event.preventDefault();
      const places = found.length + 1; // the text itself, then what is suggested
      setActive(((active + 1 + step + places) % places) - 1);
    } else if (event.key === "Escape" && found.length > 0) {
      event.preventDefault();
      event.stopPropagation();
      setFound([]);
    }
  };
  return html`<form class="search" role="search" onSubmit=${submit}>
    <label>Find a push, task, task queue or worker<input ref=${input} name="id" type="text" placeholder="name, revision, owner, id, index path, address" required autocomplete="off" spellcheck=${false}
      role="combobox" aria-autocomplete="list" aria-expanded=${found.length > 0} aria-controls=${list} aria-activedescendant=${active >= 0 ? `${list}-${active}` : undefined}
      value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)} onKeyDown=${onKeyDown} /></label>
    <button type="submit" class="primary">Go</button>
    <ul id=${list} role="listbox" aria-label="Suggestions" class="suggestions" hidden=${found.length === 0}>
      ${found.map(
        (
          { kind, title, detail, href },
          index,
        ) => html`<li key=${href} id=${`${list}-${index}`} role="option" aria-selected=${index === active}
          onMouseDown=${(/** @type {Event} */ event) => event.preventDefault()} onClick=${() => go(href)}>
          <span class="kind">${kind}</span> <strong>${title}</strong> <span class="reason">${detail}</span></li>`,
      )}
    </ul>
    <span role="status">${message}</span>
  </form>`;
}

/** The page of what a text names, or null. @param {string} text */
async function placeOf(text) {
  if (/^https?:\/\//.test(text)) {
    const url = new URL(text);
    return resolve(url.pathname) ? url.pathname + url.search + url.hash : null;
  }
  if (SLUGID.test(text))
    return (await exists(getTaskGroup(text))) ? to.group(text) : (await exists(task(text))) ? to.task(text) : null;
  if (text.includes(".") && !text.includes("/")) return (await exists(findTask(text))) ? to.index(text) : null;
  const [provisioner, workerType, group, worker, ...rest] = text.split("/");
  if (rest.length > 0 || !provisioner || !workerType) return null;
  const queue = `${provisioner}/${workerType}`;
  if (group) return worker ? to.worker(queue, group, worker) : null;
  return to.queue(queue);
}

/** @param {Promise<unknown>} reading */
async function exists(reading) {
  try {
    await reading;
    return true;
  } catch (error) {
    const { status } = /** @type {{status?: number}} */ (error);
    if (status === 404 || status === 403 || status === 400) return false;
    throw error;
  }
}
