// The graph of a group's dependencies, by levels: laid out by dagre in a worker, drawn as SVG. Bundles open and close.

import { html, useEffect, useMemo, useRef, useState } from "../core/html.js";
import { bundled, kindBy } from "../core/levels.js";
import { to } from "../core/router.js";
import { counted, isWrong, named, shownState, STATES } from "../core/words.js";
import { Loading } from "./feedback.js";
import { useView } from "./graph-view.js";
import { signOf } from "./states.js";

/** @typedef {import("../core/types").Member} Member */
/** @typedef {import("../core/levels.js").Node} Node */
/** @typedef {{id: string, x: number, y: number, width: number, height: number}} Place */

/** So few tasks are drawn one by one unless one closes a level. */
const FEW = 24;
const MOST_NODES = 600;
/** Tasks of an open bundle that are drawn: those that failed are among the first. */
const MOST_IN_BUNDLE = 200;
const NAME_SHOWN = 24;
const WIDTH = 180;
const HEIGHT = 34;
const PADDING = 8;
const HEAD = 24;

/** @param {{members: Member[], blocked: Set<string>}} properties `blocked`: tasks that wait for one that failed */
export function DependencyGraph({ members, blocked }) {
  const version = members.map(({ status }) => `${status.taskId}${isWrong(status) ? "!" : ""}`).join();
  const blockedIds = [...blocked].sort().join();
  const graph = useMemo(() => bundled(members, blocked, kindBy(members, "kind")), [version, blockedIds]);
  const [toggled, setToggled] = useState(/** @type {Map<string, boolean>} */ (new Map()));
  const isOpen = (/** @type {Node} */ { id }) => toggled.get(id) ?? members.length <= FEW;
  const many = (/** @type {Node} */ { members: own }) => own.length > 1;
  const open = new Set(graph.nodes.filter((node) => many(node) && isOpen(node)).map(({ id }) => id));
  const openIds = [...open].join();
  const shape = useMemo(
    () => ({
      nodes: graph.nodes.map((node) => ({ id: node.id, ...sizeOf(node, open) })),
      edges: graph.edges.map((edge) => [edge.from, edge.to]),
    }),
    [graph, openIds],
  );
  const tooMany = graph.nodes.length > MOST_NODES;
  const drawing = useLayout(shape, tooMany);
  const byId = useMemo(() => new Map(members.map((member) => [member.status.taskId, member])), [members]);
  const kept = useRef(""); // the node to be seen when the graph is laid out anew
  const toggle = (/** @type {Node[]} */ nodes, /** @type {boolean} */ on) => {
    kept.current = nodes[0]?.id ?? "";
    setToggled((old) => new Map([...old, ...nodes.map(({ id }) => /** @type {[string, boolean]} */ ([id, on]))]));
  };
  const drawn = useMemo(
    () => drawing && draw(drawing, graph, open, byId, (node) => toggle([node], !open.has(node.id))),
    [drawing, graph, byId],
  );
  const trouble = useMemo(() => (drawing ? troubleIn(drawing, graph.nodes) : []), [drawing, graph]);
  const { view, handlers, zoom, reset, show } = useView(drawing, () => trouble[0] ?? { x: 0, y: 0 });
  useEffect(() => {
    const place = drawing?.nodes.find((/** @type {Place} */ { id }) => id === kept.current);
    kept.current = "";
    if (place) show({ x: place.x, y: place.y });
  }, [drawing]);
  const seen = useRef(0);
  const frame = useRef(/** @type {Element | null} */ (null));
  const follow = (/** @type {any} */ { target }) => {
    if (!target.matches(":focus-visible") || target === frame.current) return;
    const at = target.getAttribute("data-at")?.split(" ").map(Number);
    if (!at) return;
    show({ x: at[0], y: at[1] });
    // After the browser has scrolled to where the node was.
    requestAnimationFrame(() => frame.current?.scrollIntoView({ block: "nearest" }));
  };
  const next = () => {
    seen.current = (seen.current + 1) % trouble.length;
    const place = trouble[seen.current];
    if (place) show(place);
  };
  const drawnOnce = view !== null;
  useEffect(() => frame.current?.scrollIntoView({ block: "nearest" }), [drawnOnce]);
  if (members.length === 0) return null; // the page says so
  if (tooMany)
    return html`<p class="empty">The ${counted(members.length, "task")} make ${counted(graph.nodes.length, "bundle")}, too many to draw: filter by state, name or queue.</p>`;
  if (!drawing || !view) return html`<${Loading} label="Laying out the graph" />`;
  const bundles = graph.nodes.filter(many);
  return html`<div class="graph">
    <div class="buttons">
      <button type="button" onClick=${() => zoom(0.8)} aria-label="Zoom in">+</button>
      <button type="button" onClick=${() => zoom(1.25)} aria-label="Zoom out">−</button>
      <button type="button" onClick=${reset}>Whole graph</button>
      ${trouble.length > 0 && html`<button type="button" onClick=${next}>Next failure</button>`}
      ${bundles.length > 0 && html`<${Levels} counts=${graph.levels} bundles=${bundles} open=${open} toggle=${toggle} />`}
    </div>
    <svg ref=${frame} onFocusIn=${follow} role="group" aria-label="Dependencies of the tasks" tabindex="0" viewBox=${`${view.x} ${view.y} ${view.width} ${view.height}`} ...${handlers}>
      ${drawn}
    </svg>
  </div>`;
}

/** Opens and closes all bundles of a level. @param {{counts: number[], bundles: Node[], open: Set<string>, toggle: (nodes: Node[], on: boolean) => void}} properties */
function Levels({ counts, bundles, open, toggle }) {
  const named = counts.flatMap((count, level) => {
    const own = bundles.filter((node) => node.level === level);
    return own.length > 0 ? [{ level, count, own, on: own.every(({ id }) => open.has(id)) }] : [];
  });
  return html`<span class="choice levels" role="group" aria-label="Levels">
    ${named.map(({ level, count, own, on }) => html`<button type="button" key=${level} aria-expanded=${on} onClick=${() => toggle(own, !on)}>${on ? "▾" : "▸"} Level ${level + 1} <span class="reason">${count.toLocaleString()}</span></button>`)}
    ${named.length > 1 && html`<button type="button" class="quiet" onClick=${() => toggle(bundles, open.size === 0)}>${open.size === 0 ? "Open all" : "Close all"}</button>`}
  </span>`;
}

/** The size of a node: a task, a closed bundle, or an open one with its tasks in columns. @param {Node} node @param {Set<string>} open */
function sizeOf({ id, members }, open) {
  if (members.length === 1) return { width: WIDTH, height: HEIGHT };
  if (!open.has(id)) return { width: WIDTH + 20, height: HEIGHT + 12 };
  const { rows, columns } = gridOf(members.length);
  return {
    width: columns * (WIDTH + PADDING) + PADDING,
    height: rows * (HEIGHT + PADDING) + PADDING + HEAD + (members.length > MOST_IN_BUNDLE ? HEAD : 0),
  };
}

/** Rows and columns of an open bundle, about as wide as high. @param {number} count */
function gridOf(count) {
  const shown = Math.min(count, MOST_IN_BUNDLE);
  const columns = shown <= 12 ? 1 : Math.ceil(Math.sqrt((shown * HEIGHT) / WIDTH) * 1.3);
  return { shown, columns, rows: Math.ceil(shown / columns) };
}

/** The edges and nodes: the same ones, which need no comparison, while only the view moves. @param {any} drawing
 * @param {ReturnType<typeof bundled>} graph @param {Set<string>} open @param {Map<string, Member>} byId
 * @param {(node: Node) => void} toggle */
function draw(drawing, graph, open, byId, toggle) {
  const points = new Map(drawing.edges.map((/** @type {any} */ one) => [`${one.from} ${one.to}`, one.points]));
  const places = new Map(drawing.nodes.map((/** @type {Place} */ place) => [place.id, place]));
  const edges = graph.edges.map((edge) => {
    const key = `${edge.from} ${edge.to}`;
    const line = /** @type {{x: number, y: number}[] | undefined} */ (points.get(key));
    if (!line) return null;
    const width = 1.2 + Math.min(Math.log2(edge.count), 8) * 0.7;
    return html`<polyline key=${key} class=${edge.blocked ? "edge blocked" : "edge"} style=${{ strokeWidth: width }} points=${line.map((p) => `${p.x},${p.y}`).join(" ")}>${edge.count > 1 && html`<title>${edge.count.toLocaleString()} dependencies</title>`}</polyline>`;
  });
  const nodes = graph.nodes.map((node) => {
    const place = /** @type {Place | undefined} */ (places.get(node.id));
    if (!place) return null;
    const members = node.members.map((member) => byId.get(member.status.taskId) ?? member);
    const [only] = members;
    if (members.length === 1 && only)
      return html`<${Task} key=${node.id} x=${place.x - WIDTH / 2} y=${place.y - HEIGHT / 2} member=${only} blocked=${node.blocked} />`;
    return html`<${Bundle} key=${node.id} place=${place} node=${{ ...node, members }} open=${open.has(node.id)} toggle=${() => toggle(node)} />`;
  });
  return html`<g>${edges}${nodes}</g>`;
}

/** @param {{place: Place, node: Node, open: boolean, toggle: () => void}} properties */
function Bundle({ place, node, open, toggle }) {
  const { members, name, blocked } = node;
  const counts = STATES.flatMap((state) => {
    const own = members.filter(({ status }) => shownState(status) === state);
    const [first] = own;
    return first ? [{ state, count: own.length, sign: signOf(first.status) }] : [];
  });
  const worst = counts[0]?.state ?? "";
  const label = `${name}, ${counted(members.length, "task")}: ${counts.map(({ count, state }) => `${count} ${state}`).join(", ")}${blocked ? ", blocked" : ""}`;
  const left = place.x - place.width / 2;
  const top = place.y - place.height / 2;
  const { shown, rows } = gridOf(members.length);
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    event.stopPropagation();
    toggle();
  };
  return html`<g class=${`bundle node ${worst} ${blocked ? "blocked" : ""}`}>
    ${!open && html`<rect class="behind" x=${left + 5} y=${top + 5} width=${place.width - 5} height=${place.height - 5} rx="4" />`}
    <g class="head" role="button" tabindex="0" aria-expanded=${open} data-at=${`${place.x} ${place.y}`} onClick=${toggle} onKeyDown=${keys}>
      <title>${label}</title>
      <rect x=${left} y=${top} width=${place.width - (open ? 0 : 5)} height=${place.height - (open ? 0 : 5)} rx="4" />
      <text x=${left + 8} y=${top + 16}>${open ? "▾" : "▸"} ${shortened(name)} × ${members.length.toLocaleString()}</text>
      ${
        !open &&
        html`<text x=${left + 8} y=${top + 32} class="small">${counts.map(({ state, count, sign }) => html`<tspan class=${`count ${state}`} key=${state}>${sign} ${count.toLocaleString()}  </tspan>`)}${blocked && "blocked"}</text>`
      }
    </g>
    ${
      open &&
      members
        .slice(0, shown)
        .map(
          (member, at) =>
            html`<${Task} key=${member.status.taskId} x=${left + PADDING + Math.floor(at / rows) * (WIDTH + PADDING)} y=${top + HEAD + PADDING + (at % rows) * (HEIGHT + PADDING)} member=${member} blocked=${blocked} />`,
        )
    }
    ${open && members.length > shown && html`<text class="small" x=${left + PADDING} y=${top + place.height - 10}>and ${(members.length - shown).toLocaleString()} more, which the list has</text>`}
  </g>`;
}

/** @param {{x: number, y: number, member: Member, blocked: boolean}} properties */
function Task({ x, y, member, blocked }) {
  const name = named(member.task);
  const { taskId } = member.status;
  const state = shownState(member.status);
  const shown = blocked ? `${state}, blocked` : state;
  return html`<a href=${to.task(taskId)} data-at=${`${x + WIDTH / 2} ${y + HEIGHT / 2}`}>
    <title>${name} ${shown}</title>
    <g transform=${`translate(${x} ${y})`} class=${`node ${state} ${blocked ? "blocked" : ""}`}>
      <rect width=${WIDTH} height=${HEIGHT} rx="4" />
      <text x="8" y="15">${shortened(name)}</text>${" "}
      <text x="8" y="28" class="small">${signOf(member.status)} ${shown}</text>
    </g>
  </a>`;
}

/** A name of which the middle is left out: those of many tasks differ at their ends. @param {string} name */
const shortened = (name) => {
  if (name.length <= NAME_SHOWN) return name;
  const half = (NAME_SHOWN - 1) / 2;
  return `${name.slice(0, Math.ceil(half))}…${name.slice(-Math.floor(half))}`;
};

/** The places of what failed, from left to right and from the top. @param {any} drawing @param {Node[]} nodes */
function troubleIn(drawing, nodes) {
  const wrong = new Set(
    nodes.filter(({ members }) => members.some(({ status }) => isWrong(status))).map(({ id }) => id),
  );
  return drawing.nodes
    .filter((/** @type {Place} */ { id }) => wrong.has(id))
    .sort((/** @type {Place} */ a, /** @type {Place} */ b) => a.x - b.x || a.y - b.y);
}

/** The positions of nodes and edges, when the worker has found them.
 * @param {{nodes: {id: string, width: number, height: number}[], edges: string[][]}} shape @param {boolean} tooMany */
function useLayout(shape, tooMany) {
  const [drawing, setDrawing] = useState(/** @type {any} */ (null));
  useEffect(() => {
    if (shape.nodes.length === 0 || tooMany) return undefined;
    const worker = new Worker(new URL("./graph-layout.js", import.meta.url), { type: "module" });
    worker.onmessage = ({ data }) => setDrawing(data);
    worker.postMessage({ id: 1, ...shape });
    return () => worker.terminate();
  }, [shape, tooMany]);
  return drawing;
}
