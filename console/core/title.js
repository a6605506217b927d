// What the tab, the history and screen readers call a page.

import { useEffect } from "./html.js";

/** Name the page; nothing, as long as its name is not known. @param {string | undefined} title */
export function useTitle(title) {
  useEffect(() => {
    if (title) document.title = `${title} · Taskcluster Queue`;
  }, [title]);
}
