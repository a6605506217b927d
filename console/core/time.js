// Times and durations for people.

import { useEffect, useState } from "./html.js";

export const THEME_KEY = "taskcluster-queue.theme";
const TIMES_KEY = "taskcluster-queue.times";
const CHANGED = "console:times";

/** How times can be shown. @type {Record<string, string>} */
export const TIMES = { ago: "Relative times", local: "Local times", utc: "UTC" };

const UNITS = /** @type {const} */ ([
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1000],
]);

/** How times are shown in this browser: one of TIMES. */
export const timesShown = () => localStorage.getItem(TIMES_KEY) ?? "ago";

/** Show times otherwise, on this page at once. @param {string} style */
export function showTimes(style) {
  localStorage.setItem(TIMES_KEY, style);
  dispatchEvent(new Event(CHANGED));
}

/** How times are shown, also when that is changed. */
export function useTimes() {
  const [style, setStyle] = useState(timesShown);
  useEffect(() => {
    const update = () => setStyle(timesShown());
    addEventListener(CHANGED, update);
    return () => removeEventListener(CHANGED, update);
  }, []);
  return style;
}

/** A duration in its two largest units: `2 h 5 min`, `43 s`. @param {number} milliseconds */
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

/** How far a time is from now: `5 min ago`, `in 2 h`. @param {string | number} time @param {number} now */
export function distance(time, now) {
  const difference = new Date(time).getTime() - now;
  if (Math.abs(difference) < 1000) return "now";
  const amount = Math.abs(difference) > 100 * 365 * 86_400_000 ? "a very long time" : duration(Math.abs(difference));
  return difference < 0 ? `${amount} ago` : `in ${amount}`;
}

/** Made once for each zone: to make one takes longer than all else that a row of a table does. @type {Map<string, Intl.DateTimeFormat>} */
const formats = new Map();

/** @param {Intl.DateTimeFormatOptions} options @param {number} time */
function formatted(options, time) {
  const timeZone = timesShown() === "utc" ? "UTC" : undefined;
  const key = JSON.stringify([options, timeZone]);
  const format = formats.get(key) ?? new Intl.DateTimeFormat(undefined, { ...options, timeZone, hourCycle: "h23" });
  formats.set(key, format);
  return format.format(time);
}

const IN_FULL = /** @type {const} */ ({
  year: "numeric",
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  timeZoneName: "short",
});

/** A date and time to the second, with its zone: that of this browser, or UTC if that was chosen.
 * @param {string | number} time */
export function absolute(time) {
  const date = new Date(time).getTime();
  return Number.isNaN(date) ? "Invalid Date" : formatted(IN_FULL, date);
}

/** The time of day, to the second. @param {number} time */
export const ofDay = (time) => formatted({ hour: "2-digit", minute: "2-digit", second: "2-digit" }, time);

/** Milliseconds of a text such as `1d`, `3 days`, `2h30min`, or null. @param {string} text */
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
