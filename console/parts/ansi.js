// ANSI colours of log lines as elements with classes: the text itself is never taken as markup.

import { createAnsiSequenceParser } from "ansi-sequence-parser";
import { html } from "../core/html.js";

const SHOWN = 8000;
const ESCAPE = "\u001b";

/**
 * A line with its colours; of a very long one the beginning.
 * @param {string} line
 */
export function colored(line) {
  const cut = line.length > SHOWN ? line.slice(0, SHOWN) : line;
  const rest = line.length - cut.length;
  const tail = rest > 0 ? html`<span class="cut"> … ${rest.toLocaleString()} more characters</span>` : null;
  if (!cut.includes(ESCAPE)) return [cut, tail];
  const spans = createAnsiSequenceParser()
    .parse(onlyColors(cut))
    .map(({ value, foreground, background, decorations }) => {
      const classes = [...decorations];
      if (foreground?.type === "named") classes.push(/** @type {any} */ (`fg-${foreground.name}`));
      if (background?.type === "named") classes.push(/** @type {any} */ (`bg-${background.name}`));
      const style = {
        ...(exact(foreground) && { color: exact(foreground) }),
        ...(exact(background) && { backgroundColor: exact(background) }),
      };
      return html`<span class=${classes.join(" ")} style=${style}>${value}</span>`;
    });
  return [spans, tail];
}

// Control sequences (colours, cursor) and operating-system commands (titles, links).
const SEQUENCES = new RegExp(
  `${ESCAPE}\\[[0-?]*[ -/]*[@-~]|${ESCAPE}\\][^\\u0007${ESCAPE}]*(?:\\u0007|${ESCAPE}\\\\)`,
  "g",
);

/** A line of whose escape sequences those remain that set colours: the parser shows others as text. @param {string} line */
const onlyColors = (line) => line.replace(SEQUENCES, (found) => (/^.\[.*m$/.test(found) ? found : ""));

/** A line without its escape sequences. @param {string} line */
export const plain = (line) => line.replace(SEQUENCES, "");

/**
 * The colour of a palette's number or of an RGB triple, as CSS.
 * @param {import("ansi-sequence-parser").Color | null} color
 */
function exact(color) {
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
