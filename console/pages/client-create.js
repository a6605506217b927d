// Create a client; `taskcluster signin` opens this page with a callback to the command line that waits for it.

import { now } from "../core/clock.js";
import { html, useEffect, useState } from "../core/html.js";
import { createClient, currentScopes } from "../core/auth.js";
import { session } from "../core/credentials.js";
import { useUnsaved } from "../core/router.js";
import { parseDuration } from "../core/time.js";
import { useTitle } from "../core/title.js";
import { ActionButton, Copy, Failure } from "../parts/feedback.js";
import { covers, ScopesField, scopesOf } from "../parts/scopes.js";

const LOCAL = /^https?:\/\/localhost(:[0-9]+)?(\/|$)/;

/** @param {import("../core/types").PageProperties} properties */
export default function ClientCreatePage({ query }) {
  useTitle("Create a client");
  const callback = query.get("callback_url");
  const current = session();
  const name = query.get("name") ?? "";
  // Ids that begin with static/ are those of the settings: the service creates no others.
  const [clientId, setClientId] = useState(
    current && name ? `${current.clientId.replace(/^static\//, "")}/${name}` : name,
  );
  const [scopes, setScopes] = useState("");
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const [expires, setExpires] = useState(query.get("expires") || "1d");
  const [description, setDescription] = useState(query.get("description") ?? "");
  const [token, setToken] = useState("");
  const [touched, setTouched] = useState(false);
  useUnsaved(touched && callback === null && !token);
  useEffect(() => {
    const wanted = query
      .getAll("scope")
      .flatMap((scope) => scope.split(" "))
      .filter(Boolean);
    if (!current || wanted.length === 0) return;
    currentScopes().then((held) => setScopes(intersection(wanted, held).join("\n")), setError);
  }, []);
  if (callback !== null && !LOCAL.test(callback)) {
    return html`<article><h1>Create a client</h1><div class="notice critical" role="alert"><p>This link wants to send credentials to ${callback}. Only addresses of this machine (localhost) are allowed: nothing was created.</p></div></article>`;
  }
  if (!current) {
    const back = encodeURIComponent(location.pathname + location.search);
    return html`<article><h1>Create a client</h1><p>The new client gets no more than you may do. <a href=${`/login?then=${back}`}>Sign in</a> first.</p></article>`;
  }
  const submit = async () => {
    const milliseconds = parseDuration(expires);
    if (milliseconds === null) throw new Error("Say for how long it is valid: 1d, 3 days, 2h30min.");
    const made = await createClient(clientId, {
      expires: new Date(now() + milliseconds).toISOString(),
      description,
      scopes: scopesOf(scopes),
      deleteOnExpiration: callback !== null,
    });
    if (callback === null) return setToken(made.accessToken ?? "");
    const target = new URL(callback);
    target.searchParams.set("clientId", clientId);
    target.searchParams.set("accessToken", made.accessToken ?? "");
    location.replace(target);
  };
  return html`<article onInput=${() => setTouched(true)}>
    <h1>Create a client</h1>
    ${callback !== null && html`<p>The command line on this machine waits for credentials. It gets those of a new client with what you leave below.</p>`}
    ${error && html`<${Failure} error=${error} />`}
    <label>Client id<input type="text" value=${clientId} onInput=${(/** @type {any} */ event) => setClientId(event.target.value)} /></label>
    <label>Valid for<input type="text" value=${expires} onInput=${(/** @type {any} */ event) => setExpires(event.target.value)} /></label>
    <label>Description<textarea rows="2" value=${description} onInput=${(/** @type {any} */ event) => setDescription(event.target.value)}></textarea></label>
    <${ScopesField} value=${scopes} change=${setScopes} />
    <div class="buttons"><${ActionButton} kind="primary" disabled=${!clientId} action=${submit}>Create<//></div>
    ${token && html`<div class="notice good" role="status"><p>Created. Its access token, shown once:</p><p><code>${token}</code> <${Copy} text=${token} /></p></div>`}
  </article>`;
}

/** The scopes that both sets satisfy. @param {string[]} wanted @param {string[]} held */
function intersection(wanted, held) {
  const both = [
    ...wanted.filter((scope) => held.some((one) => covers(one, scope))),
    ...held.filter((scope) => wanted.some((one) => covers(one, scope))),
  ];
  const unique = [...new Set(both)];
  return unique.filter((scope) => !unique.some((other) => other !== scope && covers(other, scope))).sort();
}
