// Controls that stand above a list: on a phone they are folded away, so that the list comes first.

import { html, useEffect, useState } from "../core/html.js";

export const NARROW = "(max-width: 760px)"; // as in style.css

/** @param {{title: string, children?: any}} properties */
export function Controls({ title, children }) {
  const [open, setOpen] = useState(!matchMedia(NARROW).matches);
  useEffect(() => {
    const media = matchMedia(NARROW);
    const change = () => setOpen(!media.matches);
    media.addEventListener("change", change);
    return () => media.removeEventListener("change", change);
  }, []);
  return html`<details class="controls" open=${open} onToggle=${(/** @type {any} */ event) => setOpen(event.target.open)}>
    <summary>${title}</summary>
    ${children}
  </details>`;
}
