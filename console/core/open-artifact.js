// Artifacts open in tabs of their own, on the origin of the storage.

import { shareable } from "./api.js";
import { artifactPath } from "./queue.js";

const SECONDS = 60;

/**
 * Open an artifact by an address that is signed now and works for a minute.
 * Throws ApiError, or an Error if the browser lets no tab be opened.
 * @param {string} taskId
 * @param {number | string} runId
 * @param {string} name
 */
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
