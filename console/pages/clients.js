// Clients: who may sign requests.

import { html, useMemo } from "../core/html.js";
import { listClients } from "../core/auth.js";
import { gather, useNow, usePolled } from "../core/polling.js";
import { setQuery, to } from "../core/router.js";
import { useTitle } from "../core/title.js";
import { Empty, Loaded } from "../parts/feedback.js";
import { Time } from "../parts/states.js";
import { Table } from "../parts/table.js";

/** @typedef {import("../core/types").Client} Client */

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
      {
        key: "name",
        title: "Client",
        class: "wide",
        sort: (/** @type {Client} */ client) => client.clientId,
        cell: (/** @type {Client} */ client) => html`<a href=${to.client(client.clientId)}>${client.clientId}</a>`,
      },
      {
        key: "state",
        title: "State",
        sort: (/** @type {Client} */ client) => Number(client.disabled),
        cell: (/** @type {Client} */ client) =>
          client.disabled ? html`<span class="state exception">disabled</span>` : "",
      },
      {
        key: "used",
        title: "Last used",
        sort: (/** @type {Client} */ client) => client.lastDateUsed,
        cell: (/** @type {Client} */ client) => html`<${Time} at=${client.lastDateUsed} now=${now} />`,
      },
      {
        key: "expires",
        title: "Expires",
        sort: (/** @type {Client} */ client) => client.expires,
        cell: (/** @type {Client} */ client) => html`<${Time} at=${client.expires} now=${now} />`,
      },
      {
        key: "description",
        title: "Description",
        class: "wide",
        cell: (/** @type {Client} */ client) => client.description,
      },
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
