// Sign-in by OpenID Connect: authorization code with PKCE, and refresh tokens where the provider gives them. The browser gets
// the ID token; the service checks it and returns temporary credentials.

import { credentialsOf } from "./auth.js";
import { now } from "./clock.js";
import { forgetRenewal, session, signIn } from "./credentials.js";

const KEY = "taskcluster-queue.sign-in";
/** Milliseconds before its end that a session is renewed. */
export const EARLY = 5 * 60_000;
const encoder = new TextEncoder();

/** @typedef {{issuer: string, clientId: string, scopes: string, name: string}} Provider */

/** Send the browser to the provider: this page, or a window beside it that closes itself. @param {Provider} provider
 * @param {string} then the page to return to @param {boolean} [beside] */
export async function begin(provider, then, beside = false) {
  const [verifier, state, nonce] = [random(), random(), random()];
  sessionStorage.setItem(KEY, JSON.stringify({ provider, verifier, state, nonce, then, beside }));
  // Now: browsers allow it only while a click is handled. It begins with a copy of what this tab stores.
  const place = beside ? window.open("about:blank", "_blank", "popup,width=520,height=680") : window;
  if (beside) sessionStorage.removeItem(KEY);
  if (!place) throw new Error("The browser has not let this page open a window. Allow it to, then try again.");
  const described = await metadata(provider.issuer).catch((error) => {
    if (beside) place.close();
    throw error;
  });
  const { authorization_endpoint: endpoint, response_modes_supported: modes = ["fragment"] } = described;
  const url = new URL(endpoint);
  const challenge = base64url(new Uint8Array(await crypto.subtle.digest("SHA-256", encoder.encode(verifier))));
  const parameters = {
    response_type: "code",
    client_id: provider.clientId,
    redirect_uri: callbackAddress(),
    scope: provider.scopes,
    state,
    nonce,
    code_challenge: challenge,
    code_challenge_method: "S256",
    // A fragment stays in the browser. In a query the Functions host would take the code for a key of a function.
    ...(modes.includes("fragment") ? { response_mode: "fragment" } : {}),
  };
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  place.location.assign(url);
}

/** Finish a sign-in at the callback address. Throws an Error that says what went wrong. @param {URLSearchParams} query
 * what the provider says, if it says it in the query @param {URLSearchParams} fragment the same in the fragment
 * @returns {Promise<{then: string, beside: boolean}>} the page to return to, or that this window has done its work */
export async function complete(query, fragment) {
  const said = fragment.has("state") ? fragment : query;
  const stored = sessionStorage.getItem(KEY);
  sessionStorage.removeItem(KEY);
  if (stored === null) throw new Error("No sign-in is under way in this tab.");
  const { provider, verifier, state, nonce, then, beside } = JSON.parse(stored);
  if (said.get("state") !== state) throw new Error("This answer belongs to another sign-in.");
  const refused = said.get("error");
  if (refused) throw new Error(`The provider refused: ${said.get("error_description") ?? refused}`);
  const tokens = await redeem(provider, {
    grant_type: "authorization_code",
    code: said.get("code") ?? "",
    redirect_uri: callbackAddress(),
    code_verifier: verifier,
  });
  const renewal = tokens.refresh_token ? { provider, token: tokens.refresh_token } : undefined;
  signIn(await credentialsOf({ idToken: tokens.id_token, nonce }), renewal);
  return { then: then.startsWith("/") && !then.startsWith("//") ? then : "/", beside };
}

/** Renew the session with its refresh token, once for all tabs. Returns whether it goes on; throws an Error if that is
 * not known. @returns {Promise<boolean>} */
export async function renew() {
  const { locks } = navigator;
  return locks ? locks.request(KEY, renewOnce) : renewOnce();
}

async function renewOnce() {
  const current = session();
  if (current && current.until - now() > EARLY) return true; // another tab has renewed it
  if (!current?.renewal) return false;
  const { provider, token } = current.renewal;
  let tokens;
  try {
    tokens = await redeem(provider, { grant_type: "refresh_token", refresh_token: token });
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    forgetRenewal(); // the provider's session is over
    return false;
  }
  const credentials = await credentialsOf({ idToken: tokens.id_token, refreshed: true });
  if (session()?.clientId === credentials.clientId)
    signIn(credentials, { provider, token: tokens.refresh_token ?? token });
  return true;
}

/** The provider's answer is a refusal. */
class Refused extends Error {}
const REFUSALS = [400, 401, 403];

/** @param {Provider} provider @param {Record<string, string>} grant
 * @returns {Promise<{id_token: string, refresh_token?: string}>} */
async function redeem(provider, grant) {
  const { token_endpoint: endpoint } = await metadata(provider.issuer);
  const body = new URLSearchParams({ ...grant, client_id: provider.clientId });
  const response = await reached(provider.issuer, endpoint, { method: "POST", body });
  const answer = await response.json();
  if (!response.ok || typeof answer.id_token !== "string")
    throw new (response.ok || REFUSALS.includes(response.status) ? Refused : Error)(
      `The provider gave no ID token: ${answer.error_description ?? answer.error ?? response.status}`,
    );
  return answer;
}

/** @param {string} issuer @returns {Promise<{authorization_endpoint: string, token_endpoint: string, response_modes_supported?: string[]}>} */
async function metadata(issuer) {
  const response = await reached(issuer, `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`);
  if (!response.ok) throw new Error(`The provider ${issuer} answers ${response.status}.`);
  return response.json();
}

/** @param {string} issuer @param {string} url @param {RequestInit} [options] */
async function reached(issuer, url, options) {
  try {
    return await fetch(url, { ...options, credentials: "omit" });
  } catch {
    throw new Error(
      `The provider ${issuer} cannot be reached at ${url}: from this network, or from this page (its content security policy, CORS).`,
    );
  }
}

const callbackAddress = () => `${location.origin}/login/callback`;
const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)));

/** @param {Uint8Array} bytes */
const base64url = (bytes) =>
  btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
