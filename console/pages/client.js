// One client: its scopes, and what can be done with it.

import { html, useState } from "../core/html.js";
import * as auth from "../core/auth.js";
import { byClient, ofEntity } from "../core/audit.js";
import { useNow, usePolled } from "../core/polling.js";
import { navigate } from "../core/router.js";
import { useTitle } from "../core/title.js";
import { AuditHistory } from "../parts/audit.js";
import { Editing } from "../parts/editing.js";
import { ActionButton, Copy, Loaded } from "../parts/feedback.js";
import { Scopes } from "../parts/scopes.js";
import { Facts, Time } from "../parts/states.js";
import { Crumbs } from "../parts/tabs.js";

/** @typedef {import("../core/types").Client} Client */

/** @param {import("../core/types").PageProperties} properties */
export default function ClientPage({ params }) {
  const id = params["clientId"] ?? "";
  useTitle(`Client ${id}`);
  const polled = usePolled((signal) => auth.client(id, { signal }), [id], { interval: 60_000 });
  return html`<article>
    <${Crumbs} of=${[{ title: "Clients", href: "/auth/clients" }]} />
    <h1>Client ${id}</h1>
    <${Loaded} of=${polled} label="Loading the client">${(/** @type {Client} */ client) => html`<${Details} key=${id} client=${client} refresh=${polled.refresh} />`}<//>
  </article>`;
}

/** @param {{client: Client, refresh: () => void}} properties */
function Details({ client, refresh }) {
  const id = client.clientId;
  const now = useNow(30_000);
  const [token, setToken] = useState("");
  const then = (/** @type {Promise<unknown>} */ done) => done.then(refresh);
  const save = (/** @type {any} */ body, /** @type {string} */ read) =>
    auth.updateClient(id, { expires: client.expires, deleteOnExpiration: client.deleteOnExpiration, ...body }, read);
  const reset = async () => {
    setToken((await auth.resetAccessToken(id)).accessToken ?? "");
    refresh();
  };
  const remove = async () => {
    await auth.deleteClient(id);
    navigate("/auth/clients");
  };
  // The service makes these from its settings, and refuses to change them.
  const fixed = id.startsWith("static/");
  return html`
    <${Facts} of=${[
      ["State", client.disabled ? "disabled" : "enabled"],
      ["Expires", html`<${Time} at=${client.expires} now=${now} />`],
      ["Last used", html`<${Time} at=${client.lastDateUsed} now=${now} />`],
      ["Token issued", html`<${Time} at=${client.lastRotated} now=${now} />`],
      ["Deleted when it expires", client.deleteOnExpiration ? "yes" : "no"],
    ]} />
    ${token && html`<div class="notice warning" role="status"><p>The new access token, shown once:</p><p><code>${token}</code> <${Copy} text=${token} /></p></div>`}
    <${Editing} present=${client} save=${save} refresh=${refresh} fixed=${fixed}>${
      !fixed &&
      html`
      ${client.disabled ? html`<${ActionButton} action=${() => then(auth.enableClient(id))}>Enable<//>` : html`<${ActionButton} action=${() => then(auth.disableClient(id))} verb="Disable the client" confirm="Its requests are refused from then on.">Disable<//>`}
      <${ActionButton} kind="danger" action=${reset} verb="Reset the access token" confirm="The present one stops working.">Reset token<//>
      <${ActionButton} kind="danger" action=${remove} verb="Delete the client" confirm="Its requests are refused from then on.">Delete<//>`
    }<//>
    ${fixed && html`<p class="notice">A client whose id begins with <code>static/</code> belongs to the deployment's settings; it is not changed here.</p>`}
    <h2>Expanded scopes</h2>
    <${Scopes} of=${client.expandedScopes} />
    <${AuditHistory} title="What was done to it" read=${ofEntity("client", id)} />
    <${AuditHistory} title="What it did" who=${false} read=${byClient(id)} />`;
}
