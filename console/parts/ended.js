// The sign-in has ended while a page is open: a layer over it, which keeps the page and what was written on it.

import { session, signOut } from "../core/credentials.js";
import { html, useState } from "../core/html.js";
import { Dialog } from "./feedback.js";
import { SignIn } from "./sign-in.js";

export function Ended() {
  const [later, setLater] = useState(false);
  if (later) return null;
  return html`<${Dialog} title="Your sign-in has ended" close=${() => setLater(true)}>
    <p>Sign in again as <strong>${session()?.clientId}</strong> to go on. What you have written on this page stays, and so does what it was to tell you. Until then nothing is read or changed.</p>
    <${SignIn} then="" />
    <div class="buttons"><button type="button" onClick=${() => setLater(true)}>Later</button><button type="button" class="quiet" onClick=${signOut}>Go on without signing in</button></div>
  <//>`;
}
