// Artifacts: opened in tabs of their own, on the origin of the storage; saved as files; read for a preview.

import { shareable } from "./api.js";
import { artifact, artifactPath } from "./queue.js";

const SECONDS = 60;
/** So much is saved from here: a file that is kept compressed says nothing of how large it becomes. */
const MOST_SAVED = 512 * 2 ** 20;

/** Open an artifact by an address that is signed now and works for a minute. Throws ApiError, or an Error if the
 * browser lets no tab be opened. @param {string} taskId @param {number | string} runId @param {string} name */
export async function openArtifact(taskId, runId, name) {
  const tab = window.open("about:blank", "_blank"); // now: browsers allow it only while a click is handled
  if (!tab) throw new Error("The browser has not let this page open a tab. Allow it to, then try again.");
  tab.opener = null;
  try {
    tab.location.replace(await shareable(artifactPath(taskId, runId, name), SECONDS));
  } catch (error) {
    tab.close();
    throw error;
  }
}

/** Read the content of an artifact, up to so many bytes. Throws ApiError, TypeError. @param {string} taskId
 * @param {number | string} runId @param {string} name @param {number} most
 * @returns {Promise<{blob: Blob, isWhole: boolean}>} */
export async function readArtifact(taskId, runId, name, most) {
  const { url, message } = await artifact(taskId, runId, name);
  if (!url) throw new Error(message ?? "This artifact is kept in object storage; open it with a client.");
  const response = await fetch(url, { credentials: "omit", referrerPolicy: "no-referrer", cache: "no-store" });
  if (!response.ok) throw new Error(`Its storage answered ${response.status}.`);
  /** @type {BlobPart[]} */
  const parts = [];
  let bytes = 0;
  for (const reader = response.body?.getReader(); reader;) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value.subarray(0, most - bytes));
    bytes += value.length;
    if (bytes <= most) continue;
    await reader.cancel();
    return { blob: new Blob(parts), isWhole: false };
  }
  return { blob: new Blob(parts), isWhole: true };
}

/** Save an artifact as a file. Throws as `readArtifact`, and an Error for one that is too large. @param {string} taskId @param {number | string} runId @param {string} name */
export async function saveArtifact(taskId, runId, name) {
  const { blob, isWhole } = await readArtifact(taskId, runId, name, MOST_SAVED);
  if (!isWhole) throw new Error(`It has more than ${MOST_SAVED / 2 ** 20} MiB: open it raw, and save that.`);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name.split("/").at(-1) ?? name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
