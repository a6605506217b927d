// Who one is, what one may do, and how to sign in.

import { html, useState } from "../core/html.js";
import { checkAccepted, currentScopes, signInOptions } from "../core/auth.js";
import { isRefused, lifeOf, session, signIn, signOut } from "../core/credentials.js";
import { begin } from "../core/openid.js";
import { useNow, usePolled } from "../core/polling.js";
import { navigate } from "../core/router.js";
import { useTitle } from "../core/title.js";
import { ActionButton, Loaded } from "../parts/feedback.js";
import { Scopes } from "../parts/scopes.js";
import { Facts, Time } from "../parts/states.js";

/** @param {import("../core/types").PageProperties} properties */
export default function SignInPage({ query }) {
  useTitle("Who you are");
  const refused = isRefused();
  const current = refused ? null : session();
  const then = query.get("then") ?? "/";
  return html`<article>
    <h1>${current ? "Who you are" : "Sign in"}</h1>
    ${refused && html`<${Refused} clientId=${session()?.clientId ?? ""} />`}
    ${current ? html`<${Who} clientId=${current.clientId} until=${current.until} />` : html`<${Choices} then=${then} />`}
    ${current && html`<h2>What you may do</h2><${Held} who=${current.clientId} />`}
  </article>`;
}

/** @param {{clientId: string}} properties */
const Refused = ({ clientId }) =>
  html`<div class="notice critical" role="alert">
    <p>The credentials of ${clientId} are not accepted. Sign in again.</p>
    <button type="button" onClick=${signOut}>Forget them</button>
  </div>`;

/** @param {{clientId: string, until: number}} properties */
function Who({ clientId, until }) {
  const now = useNow(10_000);
  return html`<${Facts} of=${[
    ["Client", clientId],
    ["This browser forgets it", html`<${Time} at=${new Date(until).toISOString()} now=${now} />`],
  ]} />
    <div class="buttons"><button type="button" class="primary" onClick=${signOut}>Sign out</button></div>`;
}

/** @param {{who: string}} properties */
function Held({ who }) {
  const polled = usePolled((signal) => currentScopes({ signal }), [who], { interval: 300_000 });
  return html`<${Loaded} of=${polled} label="Loading your scopes">${(/** @type {string[]} */ scopes) => html`<${Scopes} of=${scopes} />`}<//>`;
}

/** @param {{then: string}} properties */
function Choices({ then }) {
  const polled = usePolled(signInOptions, [], { interval: 300_000 });
  const provider = polled.data?.provider;
  const back = then.startsWith("/") && !then.startsWith("//") ? then : "/";
  return html`
    <p>Without credentials you see what the role <code>anonymous</code> allows.</p>
    ${provider && html`<div class="buttons"><${ActionButton} kind="primary" action=${() => begin(provider, back)}>Sign in with ${provider.name}<//></div>`}
    <${ByHand} done=${() => navigate(back)} />`;
}

/** @param {{done: () => void}} properties */
function ByHand({ done }) {
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const text = (/** @type {string} */ name) => String(form.get(name) ?? "").trim();
    const certificate = text("certificate");
    const given = { clientId: text("clientId"), accessToken: text("accessToken"), ...(certificate && { certificate }) };
    setBusy(true);
    try {
      lifeOf(given);
      await checkAccepted(given);
      signIn(given);
      done();
    } catch (caught) {
      setError(problemOf(/** @type {Error} */ (caught)));
      setBusy(false);
    }
  };
  return html`<form onSubmit=${submit}>
    <h2>With a client's credentials</h2>
    <label>Client id<input name="clientId" type="text" autocomplete="username" required /></label>
    <label>Access token<input name="accessToken" type="password" autocomplete="off" required /></label>
    <label>Certificate, of temporary credentials<textarea name="certificate" rows="3" spellcheck="false"></textarea></label>
    ${error && html`<p class="notice critical" role="alert">${error}</p>`}
    <div class="buttons"><button type="submit" class="primary" disabled=${busy}>Sign in</button></div>
  </form>`;
}

/** @param {Error & {status?: number}} error */
const problemOf = ({ status, message }) =>
  status === 401 ? `These credentials are not accepted. The service says: ${message}` : message;
