// Time series as plots.

import uPlot from "uplot";
import { html, useEffect, useRef } from "../core/html.js";

/**
 * @param {{title: string, times: number[], series: {label: string, color: string, values: (number | null)[]}[], unit?: string}} properties
 *   times in seconds since the epoch
 */
export function Plot({ title, times, series, unit = "" }) {
  const element = useRef(/** @type {HTMLDivElement | null} */ (null));
  useEffect(() => {
    const parent = element.current;
    if (!parent) return undefined;
    const style = getComputedStyle(parent);
    const axis = { stroke: style.color, grid: { stroke: style.getPropertyValue("--line").trim(), width: 1 } };
    const plot = new uPlot(
      {
        width: parent.clientWidth,
        height: 220,
        axes: [
          axis,
          { ...axis, size: 60, values: (_plot, values) => values.map((value) => `${value.toLocaleString()}${unit}`) },
        ],
        series: [
          {},
          ...series.map(({ label, color }) => ({
            label,
            stroke: style.getPropertyValue(color).trim(),
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
  }, [times, series, unit]);
  const latest = series
    .map(({ label, values }) => `${label} ${values.at(-1)?.toLocaleString() ?? "unknown"}${unit}`)
    .join(", ");
  return html`<figure class="plot"><figcaption>${title}</figcaption><div ref=${element} role="img" aria-label=${`${title}; latest: ${latest}`}></div></figure>`;
}
