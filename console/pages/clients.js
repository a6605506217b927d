// Clients: who may sign requests.

import { html, useMemo } from "../core/html.js";
import { listClients } from "../core/auth.js";
import { gather, useNow, usePolled } from "../core/polling.js";
import { setQuery, to } from "../core/router.js";
import { useTitle } from "../core/title.js";
import { Empty, Loaded } from "../parts/feedback.js";
import { Time } from "../parts/states.js";
import { columnOf, Table } from "../parts/table.js";

/** @typedef {import("../core/types").Client} Client */

const column = /** @type {import("../parts/table.js").ColumnOf<Client>} */ (columnOf);

/** @param {import("../core/types").PageProperties} properties */
export default function ClientsPage({ query }) {
  const filter = query.get("name") ?? "";
  useTitle("Clients");
  const polled = usePolled(async () => /** @type {Client[]} */ ((await gather(listClients(""), "clients")).items), [], {
    interval: 30_000,
  });
  const now = useNow(30_000);
  const columns = useMemo(
    () => [
      column("name", "Client", ({ clientId }) => html`<a href=${to.client(clientId)}>${clientId}</a>`, {
        class: "wide",
        sort: ({ clientId }) => clientId,
      }),
      column("state", "State", ({ disabled }) => disabled && html`<span class="state exception">disabled</span>`, {
        sort: ({ disabled }) => Number(disabled),
      }),
      column("used", "Last used", ({ lastDateUsed }) => html`<${Time} at=${lastDateUsed} now=${now} />`, {
        sort: ({ lastDateUsed }) => lastDateUsed,
      }),
      column("expires", "Expires", ({ expires }) => html`<${Time} at=${expires} now=${now} />`, {
        sort: ({ expires }) => expires,
      }),
      column("description", "Description", ({ description }) => description, { class: "wide" }),
    ],
    [now],
  );
  return html`<article>
    <h1>Clients</h1>
    <p><a href="/auth/clients/create">Create a client</a> · <a href="/auth/roles">Roles</a> · <a href="/auth/scopes">Scopes</a></p>
    <div class="buttons filters"><input type="search" aria-label="Filter by name" placeholder="Filter by name" value=${filter} onInput=${(/** @type {any} */ event) => setQuery({ name: event.target.value })} /></div>
    <${Loaded} of=${polled} label="Loading the clients">${(/** @type {Client[]} */ clients) => {
      const listed = clients.filter(({ clientId }) => clientId.includes(filter));
      return listed.length === 0
        ? html`<${Empty}>No client matches.<//>`
        : html`<${Table} rows=${listed} columns=${columns} id=${(/** @type {Client} */ client) => client.clientId} caption="Clients" sort=${query.get("sort") ?? "name"} onSort=${(/** @type {string} */ sort) => setQuery({ sort })} />`;
    }}<//>
  </article>`;
}
