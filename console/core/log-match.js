// Where in one log the other one is at the same point.

const BACK = 400;
const LOOKED_AT = 400;
/** Times and hexadecimal ids differ in any two logs; numbers differ in many. */
const TIMES = /\d{4}-\d\d-\d\d[T ]?|\d\d:\d\d:\d\d(?:[.,]\d+)?Z?|0x[0-9a-f]+|\b[0-9a-f]{7,40}\b/gi;
const NUMBERS = /\d+/g;

/** The place in the other log of the last line before a place that both have once, moved on by as many lines; -1 if
 * there is none. @param {string[]} lines @param {number} at @param {string[]} others */
export function counterpart(lines, at, others) {
  const place = matched(lines, at, others, essence);
  return place >= 0 ? place : matched(lines, at, others, (line) => essence(line).replace(NUMBERS, ""));
}

/** @param {string[]} lines @param {number} at @param {string[]} others
 * @param {(line: string) => string} keyOf what lines are compared by */
function matched(lines, at, others, keyOf) {
  /** @type {Map<string, number>} */
  const places = new Map();
  others.forEach((line, place) => {
    const key = keyOf(line);
    places.set(key, places.has(key) ? -1 : place);
  });
  for (let back = at; back >= Math.max(0, at - BACK); back--) {
    const key = keyOf(lines[back] ?? "");
    const place = key ? (places.get(key) ?? -1) : -1;
    if (place >= 0) return Math.min(others.length - 1, place + at - back);
  }
  return -1;
}

/** @param {string} line */
const essence = (line) => line.slice(0, LOOKED_AT).replace(TIMES, "").trim();
