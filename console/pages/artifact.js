// Links of checks and mails to one artifact: it is opened in a tab of its own, never on this origin.

import { html, useEffect, useState } from "../core/html.js";
import { shareable } from "../core/api.js";
import { artifactPath } from "../core/queue.js";
import { to } from "../core/router.js";

/** @param {import("../core/types").PageProperties} properties */
export default function ArtifactPage({ params }) {
  const { taskId = "", runId = "0", name = "" } = params;
  const [url, setUrl] = useState("");
  useEffect(() => {
    void shareable(artifactPath(taskId, runId, name), 60).then(setUrl);
  }, [taskId, runId, name]);
  return html`<article>
    <h1>${name}</h1>
    <p><a href=${to.task(taskId, runId)}>Task ${taskId}, run ${runId}</a></p>
    <p>${url && html`<a class="button" href=${url} target="_blank" rel="noreferrer noopener">Open the artifact</a>`} <span class="reason">The link works for a minute.</span></p>
  </article>`;
}
