// Who the browser acts as: kept until sign-out, shared by the tabs of this origin, never part of a URL. What has ended is kept
// as well: nobody becomes anonymous while a page is open.

import { isSet, now } from "./clock.js";

/** @typedef {import("./types").Credentials} Credentials */
/** @typedef {import("./types").Session} Session */

const KEY = "taskcluster-queue.session";
const PERMANENT_FOR = 8 * 3600 * 1000;

/** @type {Set<() => void>} */
const listeners = new Set();

/** The session of now, also one that has ended; null when nobody is signed in. @returns {Session | null} */
export function session() {
  try {
    const { clientId, accessToken, certificate, until, renewal } = JSON.parse(localStorage.getItem(KEY) ?? "");
    return typeof until === "number" ? { clientId, accessToken, certificate, until, renewal } : null;
  } catch {
    return null; // nobody is signed in, or something else wrote there
  }
}

/** Whether the credentials of the session have ended. */
export const hasEnded = () => isSet() && (session()?.until ?? Infinity) <= now();

/** Access tokens that the service has refused. @type {Set<string>} */
const refused = new Set();

/** Whether the service has refused the credentials of the session, as far as this tab knows. */
export const isRefused = () => refused.has(session()?.accessToken ?? "");

/** Note whether the service has accepted credentials. @param {Credentials} credentials @param {boolean} accepted */
export function noteAnswer({ accessToken }, accepted) {
  if (accepted !== refused.has(accessToken)) return;
  if (accepted) refused.delete(accessToken);
  else refused.add(accessToken);
  announce();
}

/** Until when this browser would use credentials: temporary ones until they expire, permanent ones for eight hours.
 * Throws an Error that says what is wrong with what was given. @param {Credentials} credentials */
export function lifeOf({ clientId, accessToken, certificate }) {
  if (!/^[A-Za-z0-9!@/:.+|_-]+$/.test(clientId)) throw new Error("A clientId is needed.");
  if (!accessToken) throw new Error("An access token is needed.");
  const until = certificate ? expiryOf(certificate) : now() + PERMANENT_FOR;
  if (until <= now()) throw new Error("These credentials have expired.");
  return until;
}

/** Remember credentials that the service accepts, and with what they can be renewed. Throws as `lifeOf`.
 * @param {Credentials} credentials @param {Session["renewal"]} [renewal] */
export function signIn({ clientId, accessToken, certificate }, renewal) {
  const until = lifeOf({ clientId, accessToken, certificate });
  localStorage.setItem(KEY, JSON.stringify({ clientId, accessToken, certificate, until, renewal }));
  announce();
}

/** Forget with what the session was renewed: its provider gives nothing more for it. */
export function forgetRenewal() {
  localStorage.setItem(KEY, JSON.stringify({ ...session(), renewal: undefined }));
}

/** Forget the credentials, in every tab of this origin. */
export function signOut() {
  localStorage.removeItem(KEY);
  announce();
}

/** Call back whenever the session changes, here or in another tab, or ends. @param {() => void} listener
 * @returns {() => void} ends it */
export function onChange(listener) {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

addEventListener("storage", (event) => {
  if (event.key === KEY || event.key === null) announce();
});

/** @type {number | undefined} */
let timer;

/** Look at the session again: it may have changed, or be about to end. */
export function announce() {
  clearTimeout(timer);
  const left = (session()?.until ?? 0) - now();
  if (left > 0) timer = setTimeout(announce, Math.min(left + 50, 2 ** 31 - 1));
  for (const listener of listeners) listener();
}

/** @param {string} certificate */
function expiryOf(certificate) {
  let expiry;
  try {
    expiry = JSON.parse(certificate).expiry;
  } catch {
    throw new Error("The certificate is not JSON.");
  }
  if (typeof expiry !== "number") throw new Error("The certificate has no expiry.");
  return expiry;
}
