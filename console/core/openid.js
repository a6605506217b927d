// Sign-in by OpenID Connect: authorization code with PKCE. The browser gets the ID token; the service checks it and
// returns temporary credentials.

import { credentialsOf } from "./auth.js";
import { signIn } from "./credentials.js";

const KEY = "taskcluster-queue.sign-in";
const encoder = new TextEncoder();

/** @typedef {{issuer: string, clientId: string, scopes: string, name: string}} Provider */

/**
 * Send the browser to the provider.
 * @param {Provider} provider
 * @param {string} then the page to return to
 */
export async function begin(provider, then) {
  const { authorization_endpoint: endpoint, response_modes_supported: modes = ["fragment"] } = await metadata(
    provider.issuer,
  );
  const verifier = random();
  const state = random();
  const nonce = random();
  sessionStorage.setItem(KEY, JSON.stringify({ provider, verifier, state, nonce, then }));
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
  location.assign(url);
}

/**
 * Finish a sign-in at the callback address. Throws an Error that says what went wrong.
 * @param {URLSearchParams} query what the provider says, if it says it in the query
 * @param {URLSearchParams} fragment the same in the fragment
 * @returns {Promise<string>} the page to return to
 */
export async function complete(query, fragment) {
  const said = fragment.has("state") ? fragment : query;
  const stored = sessionStorage.getItem(KEY);
  sessionStorage.removeItem(KEY);
  if (stored === null) throw new Error("No sign-in is under way in this tab.");
  const { provider, verifier, state, nonce, then } = JSON.parse(stored);
  if (said.get("state") !== state) throw new Error("This answer belongs to another sign-in.");
  const refused = said.get("error");
  if (refused) throw new Error(`The provider refused: ${said.get("error_description") ?? refused}`);
  const idToken = await redeem(provider, said.get("code") ?? "", verifier);
  signIn(await credentialsOf(idToken, nonce));
  return then.startsWith("/") && !then.startsWith("//") ? then : "/";
}

/** @param {Provider} provider @param {string} code @param {string} verifier */
async function redeem(provider, code, verifier) {
  const { token_endpoint: endpoint } = await metadata(provider.issuer);
  const form = {
    grant_type: "authorization_code",
    code,
    redirect_uri: callbackAddress(),
    client_id: provider.clientId,
    code_verifier: verifier,
  };
  const response = await reached(provider.issuer, endpoint, { method: "POST", body: new URLSearchParams(form) });
  const answer = await response.json();
  if (!response.ok || typeof answer.id_token !== "string")
    throw new Error(`The provider gave no ID token: ${answer.error_description ?? answer.error ?? response.status}`);
  return answer.id_token;
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
