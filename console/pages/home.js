// The first page: is the service well, and what ran lately.

import { html } from "../core/html.js";
import { useTitle } from "../core/title.js";
import { counted } from "../core/words.js";
import { Controls } from "../parts/controls.js";
import { Findings, NoVerdict, useVerdict } from "../parts/health.js";
import { RecentGroups } from "../parts/recent-groups.js";
import { SearchBox } from "../parts/search-box.js";

/** @param {import("../core/types").PageProperties} properties */
export default function HomePage({ query }) {
  useTitle("Home");
  return html`<article class="home">
    <div class="title"><h1>Taskcluster Queue</h1><${Health} /></div>
    <${SearchBox} />
    <section aria-labelledby="groups"><h2 id="groups">What ran lately</h2><${RecentGroups} query=${query} /></section>
  </article>`;
}

function Health() {
  const { findings, at, asked } = useVerdict();
  if (!findings) return asked && html`<${NoVerdict} />`;
  const operations = html`<a href="/operations">Operations</a>`;
  if (findings.length === 0)
    return html`<p class="well"><span class="state completed">${at ? `The service was well at ${at}` : "The service is well"}</span> ${operations}</p>`;
  const list = html`<${Findings} of=${findings} at=${at}><li>${operations}</li><//>`;
  if (findings.some(({ severity }) => severity === "critical")) return list;
  return html`<${Controls} title=${`${counted(findings.length, "warning")} about the service`}>${list}<//>`;
}
