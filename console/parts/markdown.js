// Descriptions as Markdown. Whoever creates a task writes them: elements are made here, of the few kinds below, and no HTML
// is ever parsed. Markup in the text stays text, an image is a link, and a link leads to a website or a mailbox.

import { html, useEffect, useMemo, useState } from "../core/html.js";
import { prose } from "../core/words.js";

/** @typedef {import("markdown-it").MarkdownIt} Parser */
/** @typedef {import("markdown-it").Token} Token */

/** Characters that mean something in Markdown. A text without them is shown as it is, and loads nothing. */
const MARKS = /[\\`*_[\]<>#+|~&\n-]|\d[.)]|:\/\/|@/;
const ALLOWED = ["http:", "https:", "mailto:"];
/** Elements without attributes. Titles are not among them: the outline of a page is its own. */
const PLAIN = new Set("p strong em s ul ol li blockquote table thead tbody tr th td".split(" "));

/** @type {Parser | undefined} */
let parser;
/** @type {Promise<Parser> | undefined} */
let loading;

async function load() {
  const { default: MarkdownIt } = await import("markdown-it");
  parser = new MarkdownIt({ html: false, linkify: true });
  parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false }); // a name with a dot is no address
  return parser;
}

/** @param {{text: string, when?: boolean}} properties `when`: whether what that takes is loaded yet */
export function Markdown({ text: written, when = true }) {
  const text = prose(written);
  const [ready, setReady] = useState(parser);
  const needed = when && MARKS.test(text);
  useEffect(() => {
    let gone = false;
    if (needed && !ready) {
      loading ??= load();
      loading.then(
        (made) => gone || setReady(made),
        () => void (loading = undefined), // the text stays as it was written, and the next one asks again
      );
    }
    return () => void (gone = true);
  }, [needed, ready]);
  const drawn = useMemo(() => needed && ready && elements(ready.parse(text, {})), [needed, ready, text]);
  if (!text) return null;
  return drawn ? html`<div class="lead markdown">${drawn}</div>` : html`<p class="lead">${text}</p>`;
}

/** The elements that tokens stand for. @param {Token[]} tokens
 * @param {boolean} [linked] whether they are in a link, in which there can be no other @returns {any[]} */
function elements(tokens, linked = false) {
  /** @type {any[][]} */
  const open = [[]];
  let links = linked ? 1 : 0;
  const add = (/** @type {any} */ element) => /** @type {any[]} */ (open.at(-1)).push(element);
  for (const token of tokens) {
    if (token.nesting > 0) {
      if (token.type === "link_open") links += 1;
      open.push([token]);
    } else if (token.nesting < 0) {
      const [opened, ...children] = /** @type {any[]} */ (open.pop());
      if (token.type === "link_close") links -= 1;
      add(around(opened, children, links > 0));
    } else if (token.type === "inline") add(elements(token.children ?? [], links > 0));
    else add(single(token, links > 0));
  }
  return /** @type {any[]} */ (open[0]);
}

/** @param {Token} opened @param {any[]} children @param {boolean} linked */
function around(opened, children, linked) {
  if (opened.hidden) return children; // a paragraph of a tight list
  if (opened.type === "link_open") return linked ? children : link(opened.attrGet("href"), children);
  if (opened.type === "heading_open") return html`<p><strong>${children}</strong></p>`;
  if (opened.tag === "ol") return html`<ol start=${opened.attrGet("start") ?? undefined}>${children}</ol>`;
  return PLAIN.has(opened.tag) ? html`<${opened.tag}>${children}<//>` : children;
}

/** @param {Token} token @param {boolean} linked */
function single(token, linked) {
  if (token.type === "softbreak" || token.type === "hardbreak") return html`<br />`;
  if (token.type === "hr") return html`<hr />`;
  if (token.type === "code_inline") return html`<code>${token.content}</code>`;
  if (token.type === "fence" || token.type === "code_block")
    return html`<pre class="code" tabindex="0">${token.content}</pre>`;
  if (token.type !== "image") return token.content;
  const said = token.content || "image";
  return linked ? said : link(token.attrGet("src"), said);
}

/** A link that opens elsewhere, and says nothing of where it was opened; the text alone, if it leads to no website.
 * @param {string | number | null} given @param {any} children */
function link(given, children) {
  const address = String(given);
  if (!ALLOWED.some((scheme) => address.toLowerCase().startsWith(scheme))) return children;
  return html`<a href=${address} target="_blank" rel="noreferrer noopener nofollow">${children}</a>`;
}
