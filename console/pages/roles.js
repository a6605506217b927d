// Roles: scopes by name.

import { html, useMemo } from "../core/html.js";
import { listRoles } from "../core/auth.js";
import { usePolled } from "../core/polling.js";
import { setQuery, to } from "../core/router.js";
import { useTitle } from "../core/title.js";
import { Empty, Loaded } from "../parts/feedback.js";
import { Table } from "../parts/table.js";

/** @typedef {import("../core/types").Role} Role */

/** @param {import("../core/types").PageProperties} properties */
export default function RolesPage({ query }) {
  useTitle("Roles");
  const filter = query.get("name") ?? "";
  const polled = usePolled((signal) => listRoles({ signal }), [], { interval: 60_000 });
  const columns = useMemo(
    () => [
      {
        key: "name",
        title: "Role",
        class: "wide",
        sort: (/** @type {Role} */ role) => role.roleId,
        cell: (/** @type {Role} */ role) => html`<a href=${to.role(role.roleId)}>${role.roleId}</a>`,
      },
      {
        key: "scopes",
        title: "Scopes",
        class: "number",
        sort: (/** @type {Role} */ role) => role.scopes.length,
        cell: (/** @type {Role} */ role) => role.scopes.length,
      },
      { key: "description", title: "Description", class: "wide", cell: (/** @type {Role} */ role) => role.description },
    ],
    [],
  );
  return html`<article>
    <h1>Roles</h1>
    <p><a href="/auth/roles/create">Create a role</a> · <a href="/auth/clients">Clients</a> · <a href="/auth/scopes">Scopes</a></p>
    <div class="buttons filters"><input type="search" aria-label="Filter by name" placeholder="Filter by name" value=${filter} onInput=${(/** @type {any} */ event) => setQuery({ name: event.target.value })} /></div>
    <${Loaded} of=${polled} label="Loading the roles">${(/** @type {Role[]} */ roles) => {
      const listed = roles.filter(({ roleId }) => roleId.includes(filter));
      return listed.length === 0
        ? html`<${Empty}>No role ${roles.length ? "matches" : "yet"}.<//>`
        : html`<${Table} rows=${listed} columns=${columns} id=${(/** @type {Role} */ role) => role.roleId} caption="Roles" sort=${query.get("sort") ?? "name"} onSort=${(/** @type {string} */ sort) => setQuery({ sort })} />`;
    }}<//>
  </article>`;
}
