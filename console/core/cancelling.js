// How far a group is that was cancelled in this tab. The service goes on with a large one after it has answered, and no
// answer of it tells so: the tab remembers it, also when it is loaded anew.

import { now } from "./clock.js";
import { useEffect, useState } from "./html.js";

const KEY = "taskcluster-queue.cancelling";

/** @typedef {object} Known @property {number} all tasks that were open when the group was cancelled
 * @property {number} open those of them that were when the page looked last
 * @property {number} changed when they became fewer, or the group was cancelled; milliseconds since the epoch */

/** @param {string} groupId
 * @param {number | undefined} open tasks of the group that are not resolved, if all of its tasks were read */
export function useCancelling(groupId, open) {
  const key = `${KEY} ${groupId}`;
  const [known, setKnown] = useState(() => read(key));
  const keep = (/** @type {Known | null} */ next) => {
    if (next) sessionStorage.setItem(key, JSON.stringify(next));
    else sessionStorage.removeItem(key);
    setKnown(next);
  };
  useEffect(() => {
    if (!known || open === undefined) return;
    if (open === 0)
      keep(null); // what is open later was rerun
    else if (open < known.open) keep({ ...known, open, changed: now() });
  }, [open]);
  return {
    known: open === undefined ? null : known,
    /** Remember that the group is cancelled, unless that is refused. @template T @param {number} all @param {Promise<T>} call */
    during: async (all, call) => {
      keep({ all, open: all, changed: now() });
      try {
        return await call;
      } catch (error) {
        keep(null);
        throw error;
      }
    },
    dismiss: () => keep(null),
  };
}

/** @param {string} key @returns {Known | null} */
function read(key) {
  try {
    return JSON.parse(sessionStorage.getItem(key) ?? "null");
  } catch {
    return null; // something else wrote there
  }
}
