// Sign-in by OpenID Connect: authorization code with PKCE. It is renewed with a refresh token where the provider gives one,
// otherwise by asking it in a hidden frame, without a word to the user. The browser gets the ID token; the service checks it and returns temporary credentials.

import { credentialsOf } from "./auth.js";
import { now } from "./clock.js";
import { forgetRenewal, session, signIn } from "./credentials.js";
import { base64url } from "./hawk.js";

const KEY = "taskcluster-queue.sign-in";
/** Milliseconds before its end that a session is renewed. */
export const EARLY = 5 * 60_000;
/** So long the provider has to answer in a frame. */
const FRAMED_FOR = 10_000;
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
  const url = await question(provider, { verifier, state, nonce }).catch((error) => {
    if (beside) place.close();
    throw error;
  });
  place.location.assign(url);
}

/** @typedef {{verifier: string, state: string, nonce: string}} Secrets */

/** The address at which the provider is asked who this is. @param {Provider} provider @param {Secrets} secrets
 * @param {Record<string, string>} [more] */
async function question(provider, { verifier, state, nonce }, more = {}) {
  const described = await metadata(provider.issuer);
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
    ...more,
  };
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return url;
}

/** Finish a sign-in at the callback address. Throws an Error that says what went wrong. @param {URLSearchParams} query
 * what the provider says, if it says it in the query @param {URLSearchParams} fragment the same in the fragment
 * @returns {Promise<{then: string, beside: boolean}>} the page to return to, or that this window has done its work */
export async function complete(query, fragment) {
  const said = fragment.has("state") ? fragment : query;
  const stored = sessionStorage.getItem(KEY);
  sessionStorage.removeItem(KEY);
  if (stored === null) throw new Error("No sign-in is under way in this tab.");
  const { provider, then, beside, ...secrets } = JSON.parse(stored);
  const { token, ...idToken } = await redeemCode(provider, secrets, said);
  signIn(await credentialsOf(idToken), { provider, ...(token ? { token } : {}) });
  return { then: then.startsWith("/") && !then.startsWith("//") ? then : "/", beside };
}

/** The ID token for a provider's answer, and a refresh token if there is one. Throws an Error that says what went wrong.
 * @param {Provider} provider @param {Secrets} secrets @param {URLSearchParams} said */
async function redeemCode(provider, { verifier, state, nonce }, said) {
  if (said.get("state") !== state) throw new Error("This answer belongs to another sign-in.");
  const refused = said.get("error");
  if (refused) throw new Refused(`The provider refused: ${said.get("error_description") ?? refused}`);
  const tokens = await redeem(provider, {
    grant_type: "authorization_code",
    code: said.get("code") ?? "",
    redirect_uri: callbackAddress(),
    code_verifier: verifier,
  });
  return { idToken: tokens.id_token, nonce, token: tokens.refresh_token };
}

/** Renew the session, once for all tabs. Returns whether it goes on; throws an Error if that is
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
  let renewed;
  try {
    renewed = token ? await refreshed(provider, token) : await silently(provider);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    forgetRenewal(); // the provider's session is over
    return false;
  }
  const { token: next = token, ...idToken } = renewed;
  const credentials = await credentialsOf(idToken);
  if (session()?.clientId !== credentials.clientId) return true; // somebody else has signed in meanwhile
  signIn(credentials, { provider, ...(next ? { token: next } : {}) });
  return true;
}

/** @param {Provider} provider @param {string} token
 * @returns {Promise<{idToken: string, token?: string, nonce?: string, refreshed?: boolean}>} */
async function refreshed(provider, token) {
  const tokens = await redeem(provider, { grant_type: "refresh_token", refresh_token: token });
  return {
    idToken: tokens.id_token,
    refreshed: true,
    ...(tokens.refresh_token ? { token: tokens.refresh_token } : {}),
  };
}

/** Ask the provider in a hidden frame, whose session of its own says who this is: `prompt=none` forbids it to show
 * anything. Browsers that keep its cookies out of frames make it refuse. @param {Provider} provider */
async function silently(provider) {
  const secrets = { verifier: random(), state: random(), nonce: random() };
  const frame = document.createElement("iframe");
  frame.hidden = true;
  frame.src = (await question(provider, secrets, { prompt: "none" })).href;
  try {
    return await redeemCode(provider, secrets, await saidIn(frame));
  } finally {
    frame.remove();
  }
}

/** What the callback address in a frame says (app.js). @param {HTMLIFrameElement} frame @returns {Promise<URLSearchParams>} */
function saidIn(frame) {
  return new Promise((resolve, reject) => {
    const control = new AbortController();
    const timer = setTimeout(() => {
      control.abort();
      reject(new Refused("The provider shows nothing in a frame."));
    }, FRAMED_FOR);
    const heard = (/** @type {MessageEvent} */ { origin, source, data }) => {
      if (origin !== location.origin || source !== frame.contentWindow) return;
      clearTimeout(timer);
      control.abort();
      resolve(new URLSearchParams(String(data)));
    };
    addEventListener("message", heard, { signal: control.signal });
    document.body.append(frame);
  });
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
