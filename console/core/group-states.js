// How far task groups are, by the first page of each: the latest ones, or all that are listed when one asks for a state.

import { now } from "./clock.js";
import { ApiError } from "./api.js";
import { countByState, endings } from "./group.js";
import { useRef } from "./html.js";
import { usePolled } from "./polling.js";
import { taskGroupPage } from "./queue.js";

const COUNT_LIMIT = 1000;
const AT_ONCE = 6;
const EVERY = 40_000;
/** Seldom enough for ten requests a minute, one for each group: who follows a group looks at its page. */
const OPEN_RESTS = 70_000;
/** A group whose tasks are resolved changes only when somebody reruns one, or adds one. */
const RESOLVED_RESTS = 120_000;

/** States of groups, as one looks for them. */
export const GROUP_STATES = /** @type {const} */ (["failed", "open", "cancelled", "completed"]);

/** @typedef {object} GroupState @property {Record<string, number>} counts by state
 * @property {string} wrong as in `endings` @property {string} canceled @property {string} all @property {number} open
 * @property {boolean} more whether there are tasks that were not counted @property {number} readAt */

/** States by taskGroupId, of those that were read so far; null for one that may not be read, or is gone.
 * @param {string[]} ids @returns {Record<string, GroupState | null>} */
export function useGroupStates(ids) {
  const known = useRef(/** @type {Map<string, GroupState | null>} */ (new Map()));
  const polled = usePolled(
    async (signal) => {
      const due = ids.filter((id) => isDue(known.current.get(id)));
      const next = async () => {
        for (let id = due.shift(); id !== undefined; id = due.shift()) known.current.set(id, await stateOf(id, signal));
      };
      await Promise.all(Array.from({ length: AT_ONCE }, next));
      return Object.fromEntries(known.current);
    },
    [ids.join()],
    { interval: EVERY, at: (found) => Math.min(...ids.map((id) => found[id]?.readAt ?? Infinity), now()) },
  );
  return polled.data ?? Object.fromEntries(known.current);
}

/** @param {GroupState | null | undefined} state */
function isDue(state) {
  if (!state) return state === undefined;
  return now() - state.readAt >= (state.open > 0 || state.more ? OPEN_RESTS : RESOLVED_RESTS);
}

/** @param {string} id @param {AbortSignal} signal @returns {Promise<GroupState | null>} */
async function stateOf(id, signal) {
  try {
    const { tasks, continuationToken } = await taskGroupPage(id, undefined, signal, COUNT_LIMIT);
    const counts = countByState(tasks);
    const open = (counts["running"] ?? 0) + (counts["pending"] ?? 0) + (counts["unscheduled"] ?? 0);
    return { counts, ...endings(tasks), open, more: continuationToken !== undefined, readAt: now() };
  } catch (error) {
    if (error instanceof ApiError && [403, 404].includes(error.status)) return null;
    throw error;
  }
}

/** Whether a group is found under a state. @param {GroupState | null | undefined} state @param {string} wanted */
export function isIn(state, wanted) {
  if (!state) return false;
  if (wanted === "failed") return state.wrong !== "";
  if (wanted === "open") return state.open > 0;
  if (wanted === "cancelled") return state.canceled !== "";
  return state.open === 0 && !state.wrong && !state.canceled && !state.more;
}
