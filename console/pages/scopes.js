// What scopes mean once roles are followed, and which roles grant one.

import { html, useState } from "../core/html.js";
import { expandScopes, listRoles } from "../core/auth.js";
import { usePolled } from "../core/polling.js";
import { to } from "../core/router.js";
import { useTitle } from "../core/title.js";
import { ActionButton, Empty, Loaded } from "../parts/feedback.js";
import { covers, Scopes, ScopesField, scopesOf } from "../parts/scopes.js";

/** @param {import("../core/types").PageProperties} properties */
export default function ScopesPage({ params }) {
  useTitle("Scopes");
  const given = params["scope"];
  const [text, setText] = useState("");
  const [expanded, setExpanded] = useState(/** @type {string[] | null} */ (null));
  const expand = async () => setExpanded(await expandScopes(scopesOf(text)));
  return html`<article>
    <h1>Scopes</h1>
    ${given && given !== "expansions" && given !== "compare" && html`<${GrantedBy} scope=${given} />`}
    <h2>Expand</h2>
    <${ScopesField} value=${text} change=${setText} />
    <div class="buttons"><${ActionButton} kind="primary" action=${expand}>Expand<//></div>
    ${expanded && html`<${Scopes} of=${expanded} />`}
  </article>`;
}

/** @param {{scope: string}} properties */
function GrantedBy({ scope }) {
  const polled = usePolled((signal) => listRoles({ signal }), [scope], { interval: 60_000 });
  return html`<h2>Roles with <code>${scope}</code></h2>
    <${Loaded} of=${polled}>${(/** @type {import("../core/types").Role[]} */ roles) => {
      const found = roles.filter(({ expandedScopes }) => expandedScopes.some((one) => covers(one, scope)));
      return found.length === 0
        ? html`<${Empty}>None.<//>`
        : html`<ul>${found.map(({ roleId }) => html`<li key=${roleId}><a href=${to.role(roleId)}>${roleId}</a></li>`)}</ul>`;
    }}<//>`;
}
