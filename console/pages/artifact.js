// Links of checks and mails to one artifact: it is opened in a tab of its own, never on this origin.

import { html } from "../core/html.js";
import { openArtifact } from "../core/open-artifact.js";
import { to } from "../core/router.js";
import { useTitle } from "../core/title.js";
import { ActionButton } from "../parts/feedback.js";

/** @param {import("../core/types").PageProperties} properties */
export default function ArtifactPage({ params }) {
  const { taskId = "", runId = "0", name = "" } = params;
  useTitle(name);
  return html`<article>
    <h1>${name}</h1>
    <p><a href=${to.task(taskId, runId)}>Task ${taskId}, run ${runId}</a></p>
    <${ActionButton} kind="primary" action=${() => openArtifact(taskId, runId, name)}>Open the artifact<//>
  </article>`;
}
