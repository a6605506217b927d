// Who one is, what one may do, and how to sign in.

import { html } from "../core/html.js";
import { currentScopes } from "../core/auth.js";
import { isRefused, session, signOut } from "../core/credentials.js";
import { useNow, usePolled } from "../core/polling.js";
import { forgetTasks } from "../core/recent.js";
import { useTitle } from "../core/title.js";
import { Loaded } from "../parts/feedback.js";
import { Scopes } from "../parts/scopes.js";
import { SignIn } from "../parts/sign-in.js";
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
    ${current ? html`<${Who} clientId=${current.clientId} until=${current.until} />` : html`<p>Without credentials you see what the role <code>anonymous</code> allows.</p><${SignIn} then=${then} />`}
    ${current && html`<h2>What you may do</h2><${Held} who=${current.clientId} />`}
  </article>`;
}

/** Forget who somebody is, and what they did here. */
function leave() {
  forgetTasks();
  signOut();
}

/** @param {{clientId: string}} properties */
const Refused = ({ clientId }) =>
  html`<div class="notice critical" role="alert">
    <p>The credentials of ${clientId} are not accepted. Sign in again.</p>
    <button type="button" onClick=${leave}>Forget them</button>
  </div>`;

/** @param {{clientId: string, until: number}} properties */
function Who({ clientId, until }) {
  const now = useNow(10_000);
  return html`<${Facts} of=${[
    ["Client", clientId],
    ["Valid until", html`<${Time} at=${new Date(until).toISOString()} now=${now} />`],
  ]} />
    <div class="buttons"><button type="button" class="primary" onClick=${leave}>Sign out</button></div>`;
}

/** @param {{who: string}} properties */
function Held({ who }) {
  const polled = usePolled((signal) => currentScopes({ signal }), [who], { interval: 300_000 });
  return html`<${Loaded} of=${polled} label="Loading your scopes">${(/** @type {string[]} */ scopes) => html`<${Scopes} of=${scopes} />`}<//>`;
}
