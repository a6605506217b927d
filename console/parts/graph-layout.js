// A worker that lays out a graph of dependencies, so that the page stays responsive.

import { Graph, layout } from "../vendor/dagre.js";

const MANY = 150;

addEventListener("message", ({ data: { id, nodes, edges } }) => {
  const graph = new Graph();
  graph.setGraph({
    rankdir: "LR",
    nodesep: 12,
    ranksep: 70,
    ranker: nodes.length > MANY ? "longest-path" : "network-simplex",
  });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { id: node, width, height } of nodes) graph.setNode(node, { width, height });
  for (const [from, to] of edges) graph.setEdge(from, to);
  layout(graph);
  postMessage({
    id,
    width: graph.graph().width,
    height: graph.graph().height,
    nodes: nodes.map((/** @type {any} */ { id: node, width, height }) => {
      const { x, y } = graph.node(node);
      return { id: node, x, y, width, height };
    }),
    edges: edges.map((/** @type {string[]} */ [from, to]) => ({ from, to, points: graph.edge(from, to).points })),
  });
});
