// In place of a page of which somebody who has not signed in may see nothing: what this is, and how to sign in.

import { html } from "../core/html.js";
import { useTitle } from "../core/title.js";
import { SignIn } from "./sign-in.js";

const IS_LOCAL = ["localhost", "127.0.0.1"].includes(location.hostname);

/** @param {{refusal: string, then: string}} properties what the service said, and the page that was wanted */
export function Welcome({ refusal, then }) {
  useTitle("Sign in");
  return html`<article class="welcome">
    <h1>Taskcluster Queue</h1>
    <p class="lead">Projects submit tasks: builds, tests, releases. Workers run them. Here you see what ran, why it failed and what is waiting, and act on it.</p>
    <p>You have not signed in, and this page is not public. <a href="https://docs.taskcluster.net/" target="_blank" rel="noreferrer">What Taskcluster is</a></p>
    <h2>Sign in</h2>
    <p>You return to this page afterwards. If you have no way to sign in, ask the people who run this deployment.${IS_LOCAL && html` On a local stack, <code>./dev ui</code> prints an address that signs in.`}</p>
    <${SignIn} then=${then} />
    <details><summary>What the service said</summary><p class="said">${refusal}</p></details>
  </article>`;
}
