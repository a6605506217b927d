// Find a task or a group by its id.

import { html } from "../core/html.js";
import { useTitle } from "../core/title.js";
import { SearchBox } from "../parts/search-box.js";

export default function SearchPage() {
  useTitle("Find a task");
  return html`<article><h1>Find a task</h1><${SearchBox} /><p><a href="/tasks/create">Create a task</a></p></article>`;
}
