// The graph of a group's dependencies: laid out by dagre in a worker, drawn as SVG.

import { html, useEffect, useMemo, useRef, useState } from "../core/html.js";
import { to } from "../core/router.js";
import { Empty, Loading } from "./feedback.js";
import { useView } from "./graph-view.js";

/** @typedef {import("../core/types").Member} Member */

const MOST = 1500;
const NAME_SHOWN = 24;
const NODE = { width: 180, height: 34 };

/**
 * @param {{members: Member[], blocked: Set<string>}} properties `blocked`: tasks that wait for one that failed
 */
export function DependencyGraph({ members, blocked }) {
  const shape = useMemo(() => edgesOf(members), [members.map(({ status }) => status.taskId).join()]);
  const drawing = useLayout(shape);
  const byId = useMemo(() => new Map(members.map((member) => [member.status.taskId, member])), [members]);
  const drawn = useMemo(() => drawing && draw(drawing, byId, blocked), [drawing, byId, blocked]);
  const trouble = useMemo(() => drawing && troubleIn(drawing, byId), [drawing, byId]);
  const { view, handlers, zoom, reset, show } = useView(drawing, () => trouble[0] ?? { x: 0, y: 0 });
  const seen = useRef(0);
  const frame = useRef(/** @type {Element | null} */ (null));
  const follow = (/** @type {any} */ { target }) => {
    if (!target.matches("a:focus-visible")) return;
    const node = drawing.nodes.find((/** @type {any} */ { id }) => target.getAttribute("href") === to.task(id));
    if (!node) return;
    show(node);
    // After the browser has scrolled to where the node was.
    requestAnimationFrame(() => frame.current?.scrollIntoView({ block: "nearest" }));
  };
  const next = () => {
    seen.current = (seen.current + 1) % trouble.length;
    show(trouble[seen.current]);
  };
  const drawnOnce = view !== null;
  useEffect(() => frame.current?.scrollIntoView({ block: "nearest" }), [drawnOnce]);
  if (members.length > MOST) {
    return html`<${Empty}>${members.length} tasks are too many to draw. Filter by state, name or queue: up to ${MOST} can be shown.<//>`;
  }
  if (members.length === 0) return html`<${Empty}>No task matches the filter.<//>`;
  if (!drawing || !view) return html`<${Loading} label="Laying out the graph" />`;
  return html`<div class="graph">
    <div class="buttons">
      <button type="button" onClick=${() => zoom(0.8)} aria-label="Zoom in">+</button>
      <button type="button" onClick=${() => zoom(1.25)} aria-label="Zoom out">−</button>
      <button type="button" onClick=${reset}>Whole graph</button>
      ${trouble.length > 0 && html`<button type="button" onClick=${next}>Next failure</button>`}
    </div>
    <svg ref=${frame} onFocusIn=${follow} role="group" aria-label="Dependencies of the tasks" tabindex="0" viewBox=${`${view.x} ${view.y} ${view.width} ${view.height}`} ...${handlers}>
      ${drawn}
    </svg>
  </div>`;
}

/**
 * The edges and nodes: the same ones, which need no comparison, while only the view moves.
 * @param {any} drawing
 * @param {Map<string, Member>} byId
 * @param {Set<string>} blocked
 */
function draw(drawing, byId, blocked) {
  const edges = drawing.edges.map((/** @type {any} */ { from, to: target, points }) => {
    const failing = isFailed(byId.get(from)) && blocked.has(target);
    return html`<polyline key=${`${from}>${target}`} class=${blocked.has(from) || failing ? "edge blocked" : "edge"} points=${points.map((/** @type {any} */ p) => `${p.x},${p.y}`).join(" ")} />`;
  });
  const nodes = drawing.nodes.map(
    (/** @type {any} */ node) =>
      html`<${Node} key=${node.id} node=${node} member=${byId.get(node.id)} blocked=${blocked.has(node.id)} />`,
  );
  return html`<g>${edges}${nodes}</g>`;
}

/** @param {{node: {id: string, x: number, y: number}, member?: Member, blocked: boolean}} properties */
function Node({ node, member, blocked }) {
  if (!member) return null;
  const { name } = member.task.metadata;
  const state = member.status.state;
  const shown = blocked ? `${state}, blocked` : state;
  return html`<a href=${to.task(node.id)} aria-label=${`${name} ${shown}`}>
    <g transform=${`translate(${node.x - NODE.width / 2} ${node.y - NODE.height / 2})`} class=${`node ${state} ${blocked ? "blocked" : ""}`}>
      ${name.length > NAME_SHOWN && html`<title>${name}</title>`}
      <rect width=${NODE.width} height=${NODE.height} rx="4" />
      <text x="8" y="15">${shortened(name)}</text>${" "}
      <text x="8" y="28" class="small">${shown}</text>
    </g>
  </a>`;
}

/** A name of which the middle is left out: those of many tasks differ at their ends. @param {string} name */
const shortened = (name) => {
  if (name.length <= NAME_SHOWN) return name;
  const half = (NAME_SHOWN - 1) / 2;
  return `${name.slice(0, Math.ceil(half))}…${name.slice(-Math.floor(half))}`;
};

/**
 * The places of what failed, from left to right and from the top.
 * @param {any} drawing
 * @param {Map<string, Member>} byId
 */
const troubleIn = (drawing, byId) =>
  drawing.nodes
    .filter((/** @type {any} */ { id }) => isFailed(byId.get(id)))
    .sort((/** @type {any} */ a, /** @type {any} */ b) => a.x - b.x || a.y - b.y);

/** @param {Member | undefined} member */
const isFailed = (member) => member?.status.state === "failed" || member?.status.state === "exception";

/** @param {Member[]} members */
function edgesOf(members) {
  const nodes = members.slice(0, MOST + 1).map(({ status }) => status.taskId);
  const known = new Set(nodes);
  const edges = members.flatMap(({ task, status }) =>
    task.dependencies.filter((id) => known.has(id) && id !== status.taskId).map((id) => [id, status.taskId]),
  );
  return { nodes, edges };
}

/**
 * The positions of nodes and edges, when the worker has found them.
 * @param {{nodes: string[], edges: string[][]}} shape
 */
function useLayout(shape) {
  const [drawing, setDrawing] = useState(/** @type {any} */ (null));
  useEffect(() => {
    if (shape.nodes.length === 0 || shape.nodes.length > MOST) return undefined;
    const worker = new Worker(new URL("./graph-layout.js", import.meta.url), { type: "module" });
    worker.onmessage = ({ data }) => setDrawing(data);
    worker.postMessage({ id: 1, ...shape });
    return () => worker.terminate();
  }, [shape]);
  return drawing;
}
