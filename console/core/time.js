// Times and durations for people.

const UNITS = /** @type {const} */ ([
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1000],
]);

/**
 * A duration in its two largest units: `2 h 5 min`, `43 s`.
 * @param {number} milliseconds
 */
export function duration(milliseconds) {
  const parts = [];
  let rest = Math.max(0, Math.round(milliseconds / 1000) * 1000);
  for (const [name, size] of UNITS) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0) parts.push(`${count} ${name}`);
    else if (parts.length > 0) break;
    if (parts.length === 2) break;
  }
  return parts.join(" ") || "0 s";
}

/**
 * How far a time is from now: `5 min ago`, `in 2 h`.
 * @param {string | number} time
 * @param {number} now
 */
export function distance(time, now) {
  const difference = new Date(time).getTime() - now;
  if (Math.abs(difference) < 1000) return "now";
  const amount = Math.abs(difference) > 100 * 365 * 86_400_000 ? "a very long time" : duration(Math.abs(difference));
  return difference < 0 ? `${amount} ago` : `in ${amount}`;
}

/** Made once: to make one takes longer than all else that a row of a table does. */
const TO_THE_SECOND = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/**
 * A date and time of this browser's time zone, to the second.
 * @param {string | number} time
 */
export function absolute(time) {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? String(date) : TO_THE_SECOND.format(date);
}

/**
 * Milliseconds of a text such as `1d`, `3 days`, `2h30min`, or null.
 * @param {string} text
 */
export function parseDuration(text) {
  const pattern = /(\d+(?:\.\d+)?)\s*(d(?:ays?)?|h(?:ours?|rs?)?|m(?:in(?:utes?)?)?|s(?:ec(?:onds?)?)?|w(?:eeks?)?)/gi;
  /** @type {Record<string, number>} */
  const sizes = { w: 604_800_000, d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000 };
  let total = 0;
  const rest = text.replace(pattern, (_all, amount, unit) => {
    total += Number(amount) * (sizes[unit[0].toLowerCase()] ?? 0);
    return "";
  });
  return total > 0 && rest.trim() === "" ? total : null;
}
