// Roles: scopes by name.

import { html } from "../core/html.js";
import { listRoles } from "../core/auth.js";
import { usePolled } from "../core/polling.js";
import { setQuery, to } from "../core/router.js";
import { useTitle } from "../core/title.js";
import { Empty, Loaded } from "../parts/feedback.js";
import { columnOf, Table } from "../parts/table.js";

/** @typedef {import("../core/types").Role} Role */

const column = /** @type {import("../parts/table.js").ColumnOf<Role>} */ (columnOf);
const COLUMNS = [
  column("name", "Role", ({ roleId }) => html`<a href=${to.role(roleId)}>${roleId}</a>`, {
    class: "wide",
    sort: ({ roleId }) => roleId,
  }),
  column("scopes", "Scopes", ({ scopes }) => scopes.length, { class: "number", sort: ({ scopes }) => scopes.length }),
  column("description", "Description", ({ description }) => description, { class: "wide" }),
];

/** @param {import("../core/types").PageProperties} properties */
export default function RolesPage({ query }) {
  useTitle("Roles");
  const filter = query.get("name") ?? "";
  const polled = usePolled((signal) => listRoles({ signal }), [], { interval: 60_000 });
  return html`<article>
    <h1>Roles</h1>
    <p><a href="/auth/roles/create">Create a role</a> · <a href="/auth/clients">Clients</a> · <a href="/auth/scopes">Scopes</a></p>
    <div class="buttons filters"><input type="search" aria-label="Filter by name" placeholder="Filter by name" value=${filter} onInput=${(/** @type {any} */ event) => setQuery({ name: event.target.value })} /></div>
    <${Loaded} of=${polled} label="Loading the roles">${(/** @type {Role[]} */ roles) => {
      const listed = roles.filter(({ roleId }) => roleId.includes(filter));
      return listed.length === 0
        ? html`<${Empty}>No role ${roles.length ? "matches" : "yet"}.<//>`
        : html`<${Table} rows=${listed} columns=${COLUMNS} id=${(/** @type {Role} */ role) => role.roleId} caption="Roles" sort=${query.get("sort") ?? "name"} onSort=${(/** @type {string} */ sort) => setQuery({ sort })} />`;
    }}<//>
  </article>`;
}
