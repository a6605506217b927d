// One client: its scopes, and what can be done with it.

import { html, useState } from "../core/html.js";
import * as auth from "../core/auth.js";
import { byClient, ofEntity } from "../core/audit.js";
import { useNow, usePolled } from "../core/polling.js";
import { navigate } from "../core/router.js";
import { useTitle } from "../core/title.js";
import { AuditHistory } from "../parts/audit.js";
import { ActionButton, Copy, Loaded } from "../parts/feedback.js";
import { Scopes, ScopesField, scopesOf } from "../parts/scopes.js";
import { Facts, Time } from "../parts/states.js";

/** @typedef {import("../core/types").Client} Client */

/** @param {import("../core/types").PageProperties} properties */
export default function ClientPage({ params }) {
  const id = params["clientId"] ?? "";
  useTitle(`Client ${id}`);
  const polled = usePolled((signal) => auth.client(id, { signal }), [id], { interval: 60_000 });
  return html`<article>
    <h1>Client ${id}</h1>
    <p><a href="/auth/clients">All clients</a></p>
    <${Loaded} of=${polled} label="Loading the client">${(/** @type {Client} */ client) => html`<${Details} key=${client.lastModified} client=${client} refresh=${polled.refresh} />`}<//>
  </article>`;
}

/** @param {{client: Client, refresh: () => void}} properties */
function Details({ client, refresh }) {
  const id = client.clientId;
  const now = useNow(30_000);
  const [scopes, setScopes] = useState(client.scopes.join("\n"));
  const [description, setDescription] = useState(client.description);
  const [token, setToken] = useState("");
  const then = (/** @type {Promise<unknown>} */ done) => done.then(refresh);
  const save = () => then(auth.updateClient(id, { expires: client.expires, description, scopes: scopesOf(scopes) }));
  const reset = async () => {
    setToken((await auth.resetAccessToken(id)).accessToken ?? "");
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
      ["Token of", html`<${Time} at=${client.lastRotated} now=${now} />`],
      ["Deleted on expiration", client.deleteOnExpiration ? "yes" : "no"],
    ]} />
    ${token && html`<div class="notice warning" role="status"><p>The new access token, shown once:</p><p><code>${token}</code> <${Copy} text=${token} /></p></div>`}
    <label>Description<textarea rows="3" readonly=${fixed} value=${description} onInput=${(/** @type {any} */ event) => setDescription(event.target.value)}></textarea></label>
    <${ScopesField} value=${scopes} change=${setScopes} readOnly=${fixed} />
    ${
      fixed
        ? html`<p class="notice">A client whose id begins with <code>static/</code> belongs to the deployment's settings; it is not changed here.</p>`
        : html`<div class="buttons">
      <${ActionButton} kind="primary" action=${save}>Save<//>
      ${client.disabled ? html`<${ActionButton} action=${() => then(auth.enableClient(id))}>Enable<//>` : html`<${ActionButton} action=${() => then(auth.disableClient(id))} verb="Disable the client" confirm="Its requests are refused from then on.">Disable<//>`}
      <${ActionButton} kind="danger" action=${reset} verb="Reset the access token" confirm="The present one stops working.">Reset token<//>
      <${ActionButton} kind="danger" action=${remove} verb="Delete the client" confirm="Its requests are refused from then on.">Delete<//>
    </div>`
    }
    <${AuditHistory} title="What was done to it" read=${ofEntity("client", id)} />
    <${AuditHistory} title="What it did" who=${false} read=${byClient(id)} />
    <h2>Expanded scopes</h2>
    <${Scopes} of=${client.expandedScopes} />`;
}
