// One role, or a new one.

import { html, useState } from "../core/html.js";
import * as auth from "../core/auth.js";
import { ofEntity } from "../core/audit.js";
import { usePolled } from "../core/polling.js";
import { navigate, to } from "../core/router.js";
import { useTitle } from "../core/title.js";
import { AuditHistory } from "../parts/audit.js";
import { ActionButton, Loaded } from "../parts/feedback.js";
import { Scopes, ScopesField, scopesOf } from "../parts/scopes.js";

/** @typedef {import("../core/types").Role} Role */

/** @param {import("../core/types").PageProperties} properties */
export default function RolePage({ params }) {
  useTitle(`Role ${params["roleId"]}`);
  const id = params["roleId"] ?? "";
  if (id === "create") return html`<article><h1>Create a role</h1><${Form} /></article>`;
  return html`<${Existing} id=${id} />`;
}

/** @param {{id: string}} properties */
function Existing({ id }) {
  const polled = usePolled((signal) => auth.role(id, { signal }), [id], { interval: 60_000 });
  return html`<article>
    <h1>Role ${id}</h1>
    <p><a href="/auth/roles">All roles</a></p>
    <${Loaded} of=${polled} label="Loading the role">${(/** @type {Role} */ role) => html`
      <${Form} key=${role.lastModified} role=${role} refresh=${polled.refresh} />
      <${AuditHistory} read=${ofEntity("role", id)} />
      <h2>Expanded scopes</h2><${Scopes} of=${role.expandedScopes} />`}<//>
  </article>`;
}

/** @param {{role?: Role, refresh?: () => void}} properties */
function Form({ role, refresh }) {
  const [id, setId] = useState(role?.roleId ?? "");
  const [description, setDescription] = useState(role?.description ?? "");
  const [scopes, setScopes] = useState((role?.scopes ?? []).join("\n"));
  const save = async () => {
    const body = { description, scopes: scopesOf(scopes) };
    if (role) await auth.updateRole(id, body);
    else await auth.createRole(id, body);
    if (refresh) refresh();
    else navigate(to.role(id));
  };
  const remove = async () => {
    await auth.deleteRole(id);
    navigate("/auth/roles");
  };
  return html`
    ${!role && html`<label>Role id<input type="text" value=${id} onInput=${(/** @type {any} */ event) => setId(event.target.value)} /></label>`}
    <label>Description<textarea rows="3" value=${description} onInput=${(/** @type {any} */ event) => setDescription(event.target.value)}></textarea></label>
    <${ScopesField} value=${scopes} change=${setScopes} />
    <div class="buttons"><${ActionButton} kind="primary" disabled=${!id} action=${save}>${role ? "Save" : "Create"}<//>
      ${role && html`<${ActionButton} kind="danger" action=${remove} verb="Delete the role" confirm="Who has it loses its scopes.">Delete<//>`}</div>`;
}
