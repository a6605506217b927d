// Keeps a sign-in going while the console is open, for as long as its provider lets it.

import { renewing } from "./api.js";
import { now } from "./clock.js";
import { hasEnded, onChange, session } from "./credentials.js";
import { EARLY, renew } from "./openid.js";

const AGAIN = 30_000;
const SHORTEST = 1000;

/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;

/** Renew the session before it ends, and after each of its changes anew. */
export function keepSignedIn() {
  renewing.renew = () => renew().catch(() => false); // the call that needs it says that the sign-in has ended
  onChange(plan);
  plan();
}

function plan() {
  clearTimeout(timer);
  const current = session();
  if (!current?.renewal) return;
  const due = current.until - now() - EARLY;
  timer = setTimeout(attempt, hasEnded() ? SHORTEST : Math.max(SHORTEST, Math.min(due, 2 ** 31 - 1)));
}

async function attempt() {
  try {
    if (!(await renew())) return; // it ends
  } catch {
    timer = setTimeout(attempt, AGAIN); // the provider, or the service, does not answer now
    return;
  }
  plan();
}
