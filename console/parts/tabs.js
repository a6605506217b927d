// Views of one thing, each with an address of its own.

import { html } from "../core/html.js";

/** @param {{label: string, views: {name: string, title: any, href: string}[], current: string}} properties */
export const Tabs = ({ label, views, current }) =>
  html`<nav class="tabs" aria-label=${label}>
    ${views.map(({ name, title, href }) => html`<a key=${name} href=${href} aria-current=${name === current ? "page" : undefined}>${title}</a>`)}
  </nav>`;
