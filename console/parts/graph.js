// The graph of a group's dependencies: laid out by dagre in a worker, drawn as SVG, moved and zoomed by pointer or keys.

import { html, useEffect, useMemo, useRef, useState } from "../core/html.js";
import { navigate, to } from "../core/router.js";
import { Empty, Loading } from "./feedback.js";

/** @typedef {import("../core/types").Member} Member */
/** @typedef {{x: number, y: number, width: number, height: number}} View */

const MOST = 1500;
const NAME_SHOWN = 26;
const NODE = { width: 180, height: 34 };

/**
 * @param {{members: Member[], blocked: Set<string>}} properties `blocked`: tasks that wait for one that failed
 */
export function DependencyGraph({ members, blocked }) {
  const shape = useMemo(() => edgesOf(members), [members.map(({ status }) => status.taskId).join()]);
  const drawing = useLayout(shape);
  const byId = useMemo(() => new Map(members.map((member) => [member.status.taskId, member])), [members]);
  const drawn = useMemo(() => drawing && draw(drawing, byId, blocked), [drawing, byId, blocked]);
  const { view, handlers, zoom, reset } = useView(drawing);
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
    </div>
    <svg role="group" aria-label="Dependencies of the tasks" tabindex="0" viewBox=${`${view.x} ${view.y} ${view.width} ${view.height}`} ...${handlers}>
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
  const open = (/** @type {Event} */ event) => {
    event.preventDefault();
    navigate(to.task(node.id));
  };
  return html`<a href=${to.task(node.id)} onClick=${open}>
    <g transform=${`translate(${node.x - NODE.width / 2} ${node.y - NODE.height / 2})`} class=${`node ${state} ${blocked ? "blocked" : ""}`}>
      ${name.length > NAME_SHOWN && html`<title>${name}</title>`}
      <rect width=${NODE.width} height=${NODE.height} rx="4" />
      <text x="8" y="15">${name.length > NAME_SHOWN ? `${name.slice(0, NAME_SHOWN - 1)}…` : name}</text>${" "}
      <text x="8" y="28" class="small">${state}${blocked ? ", blocked" : ""}</text>
    </g>
  </a>`;
}

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

/**
 * What part of the drawing is in view.
 * @param {any} drawing
 */
function useView(drawing) {
  const [view, setView] = useState(/** @type {View | null} */ (null));
  const drag = useRef(/** @type {{x: number, y: number} | null} */ (null));
  const reset = () => drawing && setView({ x: -20, y: -20, width: drawing.width + 40, height: drawing.height + 40 });
  useEffect(() => {
    if (drawing && !view) reset();
  }, [drawing]);
  const zoom = (/** @type {number} */ factor) =>
    setView(
      (v) =>
        v && {
          x: v.x + (v.width * (1 - factor)) / 2,
          y: v.y + (v.height * (1 - factor)) / 2,
          width: v.width * factor,
          height: v.height * factor,
        },
    );
  const move = (/** @type {number} */ dx, /** @type {number} */ dy) =>
    setView((v) => v && { ...v, x: v.x + dx * v.width, y: v.y + dy * v.height });
  const handlers = {
    onWheel: (/** @type {WheelEvent} */ event) => {
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.15 : 0.87);
    },
    onPointerDown: (/** @type {PointerEvent} */ event) => void (drag.current = { x: event.clientX, y: event.clientY }),
    onPointerMove: (/** @type {PointerEvent} */ event) => {
      if (!drag.current || event.buttons === 0) return;
      const size = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
      move((drag.current.x - event.clientX) / size.width, (drag.current.y - event.clientY) / size.height);
      drag.current = { x: event.clientX, y: event.clientY };
    },
    onPointerUp: () => void (drag.current = null),
    onKeyDown: (/** @type {KeyboardEvent} */ event) => {
      /** @type {Record<string, () => void>} */
      const keys = {
        ArrowLeft: () => move(-0.1, 0),
        ArrowRight: () => move(0.1, 0),
        ArrowUp: () => move(0, -0.1),
        ArrowDown: () => move(0, 0.1),
        "+": () => zoom(0.8),
        "-": () => zoom(1.25),
        0: reset,
      };
      const action = keys[event.key];
      if (!action) return;
      event.preventDefault();
      action();
    },
  };
  return { view, handlers, zoom, reset };
}
