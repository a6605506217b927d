// ANSI colours of log lines as elements with classes: the text itself is never taken as markup.

import { createAnsiSequenceParser } from "ansi-sequence-parser";
import { html } from "../core/html.js";
import { LONGEST_LINE } from "../core/log-source.js";

const SHOWN = 8000;
const ESCAPE = "\u001b";

/** A line with its colours; of a very long one the beginning. @param {string} line */
export function colored(line) {
  const cut = line.length > SHOWN ? line.slice(0, SHOWN) : line;
  const rest = line.length - cut.length;
  const more = line.length >= LONGEST_LINE ? "many" : rest.toLocaleString();
  const tail = rest > 0 ? html`<span class="cut"> … ${more} more characters</span>` : null;
  if (!cut.includes(ESCAPE)) return [cut, tail];
  const spans = createAnsiSequenceParser()
    .parse(onlyColors(cut))
    .map(({ value, foreground, background, decorations }) => {
      const [color, backgroundColor] = [exact(foreground, COLORS), exact(background, GROUNDS)];
      const styles = [...decorations].map((one) => DECORATIONS[one] ?? {});
      const name = foreground?.type === "named" ? `fg-${foreground.name}` : "";
      return html`<span class=${name} style=${Object.assign({}, ...styles, color && { color }, backgroundColor && { backgroundColor })}>${value}</span>`;
    });
  return [spans, tail];
}

/** Of text and of what is behind it, on the dark ground of logs. @type {Record<string, string>} */
// prettier-ignore
const COLORS = { black: "#9aa4af", red: "#ff8b8b", green: "#5fd38a", yellow: "#e8bd5b", blue: "#79b0ff", magenta: "#dca0f5", cyan: "#6fd3dd", white: "#ffffff" };
/** @type {Record<string, string>} */
// prettier-ignore
const GROUNDS = { black: "#000000", red: "#7a1f24", green: "#14532d", yellow: "#5c4300", blue: "#173f7a", magenta: "#56266a", cyan: "#10535b", white: "#57606a" };
/** @type {Record<string, object>} */
const DECORATIONS = {
  bold: { fontWeight: 700 },
  dim: { opacity: 0.7 },
  italic: { fontStyle: "italic" },
  underline: { textDecoration: "underline" },
  strikethrough: { textDecoration: "line-through" },
  reverse: { filter: "invert(1)" },
  hidden: { visibility: "hidden" },
};

// Control sequences (colours, cursor) and operating-system commands (titles, links).
const SEQUENCES = new RegExp(
  `${ESCAPE}\\[[0-?]*[ -/]*[@-~]|${ESCAPE}\\][^\\u0007${ESCAPE}]*(?:\\u0007|${ESCAPE}\\\\)`,
  "g",
);

/** A line of whose escape sequences those remain that set colours: the parser shows others as text. @param {string} line */
const onlyColors = (line) => line.replace(SEQUENCES, (found) => (/^.\[.*m$/.test(found) ? found : ""));

/** A line without its escape sequences. @param {string} line */
export const plain = (line) => line.replace(SEQUENCES, "");

/** A colour by its name, by the number of a palette, or as an RGB triple, as CSS.
 * @param {import("ansi-sequence-parser").Color | null} color @param {Record<string, string>} named */
function exact(color, named) {
  if (color?.type === "named") return named[color.name.replace("bright", "").toLowerCase()];
  if (color?.type === "rgb") return `rgb(${color.rgb.join(" ")})`;
  if (color?.type !== "table") return undefined;
  const { index } = color;
  if (index >= 232)
    return `rgb(${Array(3)
      .fill(8 + (index - 232) * 10)
      .join(" ")})`;
  const level = (/** @type {number} */ n) => (n === 0 ? 0 : 55 + n * 40);
  const cube = index - 16;
  return `rgb(${level(Math.floor(cube / 36))} ${level(Math.floor(cube / 6) % 6)} ${level(cube % 6)})`;
}
