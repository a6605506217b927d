// One role, or a new one.

import { html, useState } from "../core/html.js";
import * as auth from "../core/auth.js";
import { ofEntity } from "../core/audit.js";
import { usePolled } from "../core/polling.js";
import { navigate, to } from "../core/router.js";
import { useTitle } from "../core/title.js";
import { AuditHistory } from "../parts/audit.js";
import { Editing } from "../parts/editing.js";
import { ActionButton, Loaded } from "../parts/feedback.js";
import { Scopes } from "../parts/scopes.js";
import { Crumbs } from "../parts/tabs.js";

/** @typedef {import("../core/types").Role} Role */

/** @param {import("../core/types").PageProperties} properties */
export default function RolePage({ params }) {
  const id = params["roleId"] ?? "";
  useTitle(id === "create" ? "Create a role" : `Role ${id}`);
  return id === "create" ? html`<${New} />` : html`<${Existing} key=${id} id=${id} />`;
}

/** @param {{id: string}} properties */
function Existing({ id }) {
  const polled = usePolled((signal) => auth.role(id, { signal }), [id], { interval: 60_000 });
  const remove = async () => {
    await auth.deleteRole(id);
    navigate("/auth/roles");
  };
  return html`<article>
    <${Crumbs} of=${[{ title: "Roles", href: "/auth/roles" }]} />
    <h1>Role ${id}</h1>
    <${Loaded} of=${polled} label="Loading the role">${(/** @type {Role} */ role) => html`
      <${Editing} present=${role} refresh=${polled.refresh} save=${(/** @type {any} */ body, /** @type {string} */ read) => auth.updateRole(id, body, read)}>
        <${ActionButton} kind="danger" action=${remove} verb="Delete the role" confirm="Whoever has the role loses its scopes.">Delete<//><//>
      <h2>Expanded scopes</h2><${Scopes} of=${role.expandedScopes} />
      <${AuditHistory} read=${ofEntity("role", id)} />`}<//>
  </article>`;
}

const NOTHING = { description: "", scopes: [], expandedScopes: [], lastModified: "" };

function New() {
  const [id, setId] = useState("");
  const create = async (/** @type {any} */ body) => {
    await auth.createRole(id, body);
    navigate(to.role(id));
  };
  return html`<article><h1>Create a role</h1>
    <label>Role id<input type="text" value=${id} onInput=${(/** @type {any} */ event) => setId(event.target.value)} /></label>
    <${Editing} present=${NOTHING} creates="the role" ready=${id !== ""} save=${create} refresh=${() => {}} />
  </article>`;
}
