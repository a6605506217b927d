// One artifact: what is in it, if that can be shown without opening it. It opens in a tab of its own, never on this origin.

import { html, useEffect, useRef, useState } from "../core/html.js";
import { openArtifact, readArtifact, saveArtifact } from "../core/open-artifact.js";
import { to } from "../core/router.js";
import { useTitle } from "../core/title.js";
import { label } from "../core/words.js";
import { ActionButton, Empty, Failure, Loading } from "../parts/feedback.js";
import { Crumbs } from "../parts/tabs.js";

const TEXT_SHOWN = 256 * 1024;
const PICTURE_READ = 8 * 2 ** 20;
/** A small file may be a picture that no memory holds. */
const MOST_PIXELS = 40e6;

/** @param {import("../core/types").PageProperties} properties */
export default function ArtifactPage({ params }) {
  const { taskId = "", runId = "0", name = "" } = params;
  useTitle(label(name));
  return html`<article>
    <${Crumbs} of=${[{ title: `Task ${taskId}, run ${runId}`, href: to.task(taskId, runId) }]} />
    <h1>${label(name)}</h1>
    <div class="buttons">
      <${ActionButton} kind="primary" action=${() => openArtifact(taskId, runId, name)}>Open the artifact<//>
      <${ActionButton} action=${() => saveArtifact(taskId, runId, name)}>Download<//>
    </div>
    <${Preview} key=${name} taskId=${taskId} runId=${runId} name=${name} />
  </article>`;
}

/** @param {{taskId: string, runId: string, name: string}} properties */
function Preview({ taskId, runId, name }) {
  const [shown, setShown] = useState(/** @type {Shown | null} */ (null));
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  useEffect(() => {
    preview(taskId, runId, name).then(setShown, setError);
  }, []);
  useEffect(() => {
    const { picture } = shown ?? {};
    if (!picture || !canvas.current) return;
    Object.assign(canvas.current, { width: picture.width, height: picture.height });
    canvas.current.getContext("2d")?.drawImage(picture, 0, 0);
  }, [shown]);
  if (error) return html`<${Failure} error=${error} />`;
  if (!shown) return html`<${Loading} label="Loading a preview" />`;
  if (shown.picture) return html`<canvas class="preview" ref=${canvas} role="img" aria-label=${label(name)}></canvas>`;
  if (shown.text === undefined) return html`<${Empty}>There is no preview of such a file.<//>`;
  return html`<pre class="code" tabindex="0">${shown.text}</pre>${!shown.isWhole && html`<p class="reason">The first ${TEXT_SHOWN / 1024} KiB.</p>`}`;
}

/** @typedef {{text?: string, picture?: ImageBitmap, isWhole?: boolean}} Shown */

/** @param {string} taskId @param {string} runId @param {string} name @returns {Promise<Shown>} */
async function preview(taskId, runId, name) {
  const { blob, isWhole } = await readArtifact(taskId, runId, name, PICTURE_READ);
  const head = new DataView(await blob.slice(0, 32).arrayBuffer());
  const pixels = pixelsOf(head);
  if (pixels > 0) return isWhole && pixels <= MOST_PIXELS ? { picture: await createImageBitmap(blob) } : {};
  const bytes = await blob.slice(0, TEXT_SHOWN).arrayBuffer();
  const text = new TextDecoder().decode(bytes);
  if (/[\0\ufffd]/.test(text.slice(0, -4))) return {}; // no text; its last character may have been cut
  return { text: pretty(text, isWhole && blob.size <= TEXT_SHOWN), isWhole: isWhole && blob.size <= TEXT_SHOWN };
}

/** @param {string} text @param {boolean} isWhole */
function pretty(text, isWhole) {
  try {
    return isWhole ? JSON.stringify(JSON.parse(text), null, 2) : text;
  } catch {
    return text; // it is no JSON
  }
}

/** How many pixels a picture has, of those kinds whose beginning says it: PNG and GIF; 0: it is none. @param {DataView} head */
function pixelsOf(head) {
  if (head.byteLength < 24) return 0;
  if (head.getUint32(0) === 0x89504e47) return head.getUint32(16) * head.getUint32(20);
  return head.getUint32(0) === 0x47494638 ? head.getUint16(6, true) * head.getUint16(8, true) : 0;
}
