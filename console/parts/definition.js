// A definition as YAML, folded away until somebody wants to read it.

import { html, useEffect, useState } from "../core/html.js";
import { Copy, Loading } from "./feedback.js";

/** @param {{task: import("../core/types").Definition}} properties */
export function Definition({ task }) {
  const [open, setOpen] = useState(location.pathname.endsWith("/definition"));
  const [text, setText] = useState("");
  useEffect(() => {
    if (open) void import("js-yaml").then(({ dump }) => setText(dump(task, { lineWidth: 120, noRefs: true })));
  }, [open, task]);
  return html`<details open=${open} onToggle=${(/** @type {any} */ event) => setOpen(event.target.open)}>
    <summary>Definition</summary>
    ${text ? html`<${Copy} text=${JSON.stringify(task, null, 2)} label="Copy as JSON" /><pre class="code" tabindex="0">${text}</pre>` : html`<${Loading} />`}
  </details>`;
}
