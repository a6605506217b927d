// How to sign in: with the provider of this deployment, or by hand.

import { html, useState } from "../core/html.js";
import { checkAccepted, signInOptions } from "../core/auth.js";
import { lifeOf, signIn } from "../core/credentials.js";
import { begin } from "../core/openid.js";
import { usePolled } from "../core/polling.js";
import { navigate } from "../core/router.js";
import { ActionButton } from "./feedback.js";

/** @param {{then: string}} properties the page of this console to go to; another address leads to the first page; empty: stay */
export function SignIn({ then }) {
  const polled = usePolled(signInOptions, [], { interval: 300_000, until: () => true });
  const provider = polled.data?.provider;
  const back = then.startsWith("/") && !then.startsWith("//") ? then : "/";
  const isLayer = then === "";
  const byHand = html`<${ByHand} done=${() => isLayer || navigate(back)} />`;
  const title = "With a client's credentials";
  return html`
    ${provider && html`<div class="buttons"><${ActionButton} kind="primary" action=${() => begin(provider, back, isLayer)}>Sign in with ${provider.name}<//></div>`}
    ${provider && isLayer ? html`<details><summary>${title}</summary>${byHand}</details>` : html`<h2>${title}</h2>${byHand}`}`;
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
