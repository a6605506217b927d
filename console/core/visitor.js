// Whether somebody who has not signed in may see anything of the page that is shown.

/** @typedef {{open: number, seen: boolean, refusal: string, closed: boolean}} Reading what of a page is being read, and was */

const begun = () => /** @type {Reading} */ ({ open: 0, seen: false, refusal: "", closed: false });

let current = begun();

/** @type {Set<() => void>} */
const listeners = new Set();

/** A page begins, or somebody else looks at it. */
export function pageBegins() {
  current = begun();
}

/** Why nothing of the page is shown: what the service said, once all that was read first was refused; else nothing.
 * @returns {string} */
export const closedBy = () => (current.closed ? current.refusal : "");

/** Note that something is read without credentials.
 * @returns {(error?: Error & {status?: number}) => void} to be called with how that ended */
export function reads() {
  const page = current;
  page.open += 1;
  return (error) => {
    page.open -= 1;
    if (error?.status === 403) page.refusal = error.message;
    else if (!error || error.status) page.seen = true; // neither given up, nor without an answer
    if (page.open > 0 || page.seen || !page.refusal || page.closed) return;
    page.closed = true;
    if (page === current) for (const listener of listeners) listener();
  };
}

/** Call back when a page turns out to be closed. @param {() => void} listener @returns {() => void} ends it */
export function onClosed(listener) {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}
