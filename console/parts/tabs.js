// Views of one thing, each with an address of its own.

import { html } from "../core/html.js";

/** What a page belongs to, from the whole to the part. @param {{of: {title: any, href: string}[]}} properties */
export const Crumbs = ({ of }) =>
  html`<nav class="crumbs" aria-label="What this belongs to">
    ${of.map(({ title, href }, at) => html`${at > 0 && html`<span aria-hidden="true"> / </span>`}<a key=${href} href=${href}>${title}</a>`)}
  </nav>`;

/** @param {{label: string, views: {name: string, title: any, href: string}[], current: string}} properties */
export const Tabs = ({ label, views, current }) =>
  html`<nav class="tabs" aria-label=${label}>
    ${views.map(({ name, title, href }) => html`<a key=${name} href=${href} aria-current=${name === current ? "page" : undefined}>${title}</a>`)}
  </nav>`;
