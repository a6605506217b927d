// Where the OpenID Connect provider sends the browser back to.

import { html, useEffect, useState } from "../core/html.js";
import { complete } from "../core/openid.js";
import { navigate } from "../core/router.js";
import { Loading } from "../parts/feedback.js";

/** @param {import("../core/types").PageProperties} properties */
export default function CallbackPage({ query }) {
  const [error, setError] = useState("");
  const [done, setDone] = useState(false);
  useEffect(() => {
    const fragment = new URLSearchParams(location.hash.slice(1));
    history.replaceState(null, "", location.pathname);
    complete(query, fragment).then(
      ({ then, beside }) => {
        if (!beside) return navigate(then, { replace: true });
        setDone(true);
        window.close();
      },
      (caught) => setError(caught.message),
    );
  }, []);
  if (done)
    return html`<article><h1>You are signed in</h1><p>Close this window to continue where you were.</p></article>`;
  if (!error) return html`<article><h1>Signing in</h1><${Loading} label="Checking" /></article>`;
  return html`<article><h1>Signing in failed</h1><div class="notice critical" role="alert"><p>${error}</p><p><a href="/login">Try again</a></p></div></article>`;
}
