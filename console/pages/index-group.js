// The group of the task that a path of the index names: what lists of builds link to.

import { html, useEffect, useState } from "../core/html.js";
import { findTask } from "../core/index-service.js";
import { status } from "../core/queue.js";
import { navigate, to } from "../core/router.js";
import { useTitle } from "../core/title.js";
import { Failure, Loading } from "../parts/feedback.js";

/** @param {import("../core/types").PageProperties} properties */
export default function IndexGroupPage({ params }) {
  const path = `${params["namespace"]}.${params["name"]}`;
  useTitle(`Task group of ${path}`);
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  useEffect(() => {
    const control = new AbortController();
    groupOf(path, control.signal).then(
      (group) => control.signal.aborted || navigate(to.group(group), { replace: true }),
      (caught) => control.signal.aborted || setError(caught),
    );
    return () => control.abort();
  }, [path]);
  return html`<article>
    <h1>Task group of ${path}</h1>
    <p><a href=${to.index(path)}>In the index</a></p>
    ${error ? html`<${Failure} error=${error} />` : html`<${Loading} label="Looking for the task" />`}
  </article>`;
}

/** @param {string} path @param {AbortSignal} signal */
async function groupOf(path, signal) {
  const { taskId } = await findTask(path, { signal });
  return (await status(taskId, { signal })).taskGroupId;
}
