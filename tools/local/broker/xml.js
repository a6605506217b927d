"use strict";
// The little XML that the administration API needs. Namespace prefixes are dropped: no name is used in two of them.

const { BrokerError } = require("./errors.js");

const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };
const TOKEN = new RegExp(
  [
    String.raw`<\?[^]*?\?>|<!--[^]*?-->`,
    String.raw`<!\[CDATA\[([^]*?)\]\]>`,
    String.raw`<(\/?)([\w:.-]+)((?:\s+[\w:.-]+\s*=\s*(?:"[^"]*"|'[^']*'))*)\s*(\/?)>`,
    String.raw`([^<]+)`,
  ].join("|"),
  "y",
);
const ATTRIBUTE = /([\w:.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')/g;

/**
 * @typedef {object} Element
 * @property {string} name without prefix
 * @property {Record<string, string>} attributes by name without prefix
 * @property {Element[]} children
 * @property {string} text
 */

function unescape(text) {
  return text.replace(/&(?:#(\d+)|#x([0-9a-f]+)|(\w+));/gi, (whole, decimal, hex, name) => {
    if (name) return ENTITIES[name] ?? whole;
    return String.fromCodePoint(decimal ? Number(decimal) : Number.parseInt(hex, 16));
  });
}

function local(name) {
  return name.slice(name.indexOf(":") + 1);
}

function attributesOf(text) {
  const found = [...text.matchAll(ATTRIBUTE)];
  return Object.fromEntries(found.map(([, name, double, single]) => [local(name), unescape(double ?? single)]));
}

/**
 * Parse a document.
 * @param {string} text
 * @returns {Element} its root
 * @throws {BrokerError} `argument`
 */
function parseXml(text) {
  const root = { name: "", attributes: {}, children: [], text: "" };
  const open = [root];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const match = TOKEN.exec(text);
    if (!match) throw new BrokerError("argument", "the body is not well-formed XML");
    const [, cdata, closing, name, attributes, empty, characters] = match;
    const parent = open.at(-1);
    if (cdata !== undefined || characters !== undefined) {
      parent.text += cdata ?? unescape(characters);
    } else if (closing) {
      if (parent.name !== local(name)) throw new BrokerError("argument", `the body is not well-formed XML: </${name}>`);
      open.pop();
    } else if (name) {
      const element = { name: local(name), attributes: attributesOf(attributes), children: [], text: "" };
      parent.children.push(element);
      if (!empty) open.push(element);
    }
  }
  if (open.length !== 1 || root.children.length !== 1) {
    throw new BrokerError("argument", "the body is not well-formed XML");
  }
  return root.children[0];
}

/** The first child with a name, or undefined. */
function child(element, name) {
  return element?.children.find((one) => one.name === name);
}

/** The first element with a name, at any depth, or undefined. */
function descendant(element, name) {
  if (element.name === name) return element;
  for (const one of element.children) {
    const found = descendant(one, name);
    if (found) return found;
  }
  return undefined;
}

/** Text for element content and attribute values. */
function escapeXml(text) {
  return String(text).replace(/[&<>"']/g, (character) => `&#${character.codePointAt(0)};`);
}

module.exports = { child, descendant, escapeXml, parseXml };
