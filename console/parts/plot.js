// Time series as plots.

import uPlot from "uplot";
import { html, useEffect, useRef, useState } from "../core/html.js";
import { absolute } from "../core/time.js";

/**
 * @param {{title: string, times: number[], series: {label: string, color: string, values: (number | null)[]}[], unit?: string}} properties
 *   times in seconds since the epoch
 */
export function Plot({ title, times, series, unit = "" }) {
  const element = useRef(/** @type {HTMLDivElement | null} */ (null));
  const theme = useTheme();
  useEffect(() => {
    const parent = element.current;
    if (!parent) return undefined;
    const grid = { stroke: colorOf(parent, "--line"), width: 1 };
    // Where no pointer says which sample is meant, it is the last one.
    const shown = (/** @type {number | null | undefined} */ value) =>
      value === null || value === undefined ? "–" : `${value.toLocaleString()}${unit}`;
    const axis = { stroke: colorOf(parent, "--text"), grid };
    const plot = new uPlot(
      {
        width: parent.clientWidth,
        height: 220,
        axes: [
          axis,
          { ...axis, size: 60, values: (_plot, values) => values.map((value) => `${value.toLocaleString()}${unit}`) },
        ],
        series: [
          { value: (_plot, value) => absolute((value ?? times.at(-1) ?? 0) * 1000) },
          ...series.map(({ label, color, values }) => ({
            label,
            value: (/** @type {any} */ _plot, /** @type {number | null} */ value) => shown(value ?? values.at(-1)),
            stroke: colorOf(parent, color),
            width: 2,
            points: { show: times.length < 40 },
          })),
        ],
      },
      [times, ...series.map(({ values }) => values)],
      parent,
    );
    const fit = new ResizeObserver(() => plot.setSize({ width: parent.clientWidth, height: 220 }));
    fit.observe(parent);
    return () => {
      fit.disconnect();
      plot.destroy();
    };
  }, [times, series, unit, theme]);
  const latest = series
    .map(({ label, values }) => `${label} ${values.at(-1)?.toLocaleString() ?? "unknown"}${unit}`)
    .join(", ");
  return html`<figure class="plot"><figcaption>${title}</figcaption><div ref=${element} role="img" aria-label=${`${title}; latest: ${latest}`}></div></figure>`;
}

/**
 * What a custom property of the style sheet says now: a canvas does not understand `light-dark()`.
 * @param {Element} parent
 * @param {string} name
 */
function colorOf(parent, name) {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  parent.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/** Which colours apply, by a value that changes with them. */
function useTheme() {
  const [theme, setTheme] = useState(themeNow);
  useEffect(() => {
    const update = () => setTheme(themeNow());
    const observer = new MutationObserver(update);
    observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    const system = matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", update);
    return () => {
      observer.disconnect();
      system.removeEventListener("change", update);
    };
  }, []);
  return theme;
}

const themeNow = () =>
  `${document.documentElement.dataset["theme"]} ${matchMedia("(prefers-color-scheme: dark)").matches}`;
