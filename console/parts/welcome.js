// In place of a page of which somebody who has not signed in may see nothing: what this is, and how to sign in.

import { html } from "../core/html.js";
import { useTitle } from "../core/title.js";
import { SignIn } from "./sign-in.js";

/** @param {{refusal: string, then: string}} properties what the service said, and the page that was wanted */
export function Welcome({ refusal, then }) {
  useTitle("Sign in");
  return html`<article class="welcome">
    <h1>Taskcluster Queue</h1>
    <p class="lead">Projects hand it tasks: builds, tests, releases. Workers run them. Here one sees what ran and why it failed, what waits and for what, and does something about it.</p>
    <p>You have not signed in, and this page is not public. <a href="https://docs.taskcluster.net/" target="_blank" rel="noreferrer">What Taskcluster is</a></p>
    <h2>Sign in</h2>
    <p>Then you come back to this page. Who has no way to sign in asks the people who run this deployment; on a local stack, <code>./dev ui</code> prints an address that signs in.</p>
    <${SignIn} then=${then} />
    <details><summary>What the service said</summary><p class="said">${refusal}</p></details>
  </article>`;
}
