// The service's clock, by the dates of its answers: pages show, sign and count by it. A browser's own may be minutes off, and
// may be set while the page is open.

/** Bounds of what has to be added to `performance.now()`: dates are of whole seconds, and answers take a while. */
let low = -Infinity;
let high = Infinity;

/** What the service's clock shows, in milliseconds since the epoch; before its first answer, the browser's. */
export const now = () => (high === Infinity ? Date.now() : performance.now() + (low + high) / 2);

/** Whether the service has answered, so that what ends at a time can be said to have ended. */
export const isSet = () => high < Infinity;

/** Set the clock by an answer. Returns whether that moved it by more than some seconds.
 * @param {string | null} date the header of that name
 * @param {number} sent when the request was sent, by `performance.now()` */
export function setClock(date, sent) {
  const shown = Date.parse(date ?? "");
  if (Number.isNaN(shown)) return false;
  const [least, most] = [shown - performance.now(), shown + 1000 - sent];
  const before = now();
  const agrees = least <= high && most >= low;
  [low, high] = agrees ? [Math.max(low, least), Math.min(high, most)] : [least, most];
  return Math.abs(now() - before) > MOVED;
}

const MOVED = 5000;
