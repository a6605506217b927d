// A worker that lays out a graph of dependencies, so that the page stays responsive.

import { Graph, layout } from "../vendor/dagre.js";

const NODE = { width: 180, height: 34 };

addEventListener("message", ({ data: { id, nodes, edges } }) => {
  const graph = new Graph();
  graph.setGraph({
    rankdir: "LR",
    nodesep: 10,
    ranksep: 60,
    ranker: nodes.length > 300 ? "longest-path" : "network-simplex",
  });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of nodes) graph.setNode(node, { ...NODE });
  for (const [from, to] of edges) graph.setEdge(from, to);
  layout(graph);
  postMessage({
    id,
    width: graph.graph().width,
    height: graph.graph().height,
    nodes: nodes.map((/** @type {string} */ node) => ({ id: node, x: graph.node(node).x, y: graph.node(node).y })),
    edges: edges.map((/** @type {string[]} */ [from, to]) => ({ from, to, points: graph.edge(from, to).points })),
  });
});
