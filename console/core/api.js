// Calls of the public API: signed when somebody is signed in, repeated with back-off when the service asks for it.

import { setClock } from "./clock.js";
import { announce, hasEnded, noteAnswer, session } from "./credentials.js";
import { authorization, signedUrl } from "./hawk.js";
import { reads } from "./visitor.js";

const ATTEMPTS = 4;
const FIRST_PAUSE = 300;
const TIMEOUT = 40_000;

/** A refusal of the service, or a request that did not arrive. */
export class ApiError extends Error {
  /** @param {number} status the HTTP status, 0 if there was no answer @param {string} code @param {string} message */
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** @typedef {object} Options @property {"GET" | "POST" | "PUT" | "DELETE"} [method]
 * @property {Record<string, string | number | undefined>} [query] @property {unknown} [body]
 * @property {AbortSignal} [signal]
 * @property {import("./types").Credentials | null} [credentials] in place of those of the session; null: no signature
 * @property {string[]} [authorizedScopes] all that the call may use of what the user may do
 * @property {string} [read] the `lastModified` of what the call changes, as it was read: it changes nothing else
 * @property {number} [attempts] how often it is sent at most */

/** When the service gave an answer last, by `performance.now()`: an error of its own is none. */
export const heard = { at: 0 };

/** Renews a session that has ended, if its provider lets it: set by renewal.js. @type {{renew: () => Promise<boolean>}} */
export const renewing = { renew: async () => false };

/** Call an endpoint and return the JSON of its answer. Throws ApiError.
 * @param {string} path from `/api` on, with its arguments percent-encoded @param {Options} [options]
 * @returns {Promise<any>} */
export async function call(path, options = {}) {
  const { method = "GET", credentials } = options;
  const ended = method === "GET" && credentials === undefined && !session() ? reads() : undefined;
  try {
    const answer = await repeated(path, options);
    ended?.();
    return answer;
  } catch (error) {
    ended?.(/** @type {Error} */ (error));
    throw error;
  }
}

/** @param {string} path @param {Options} options */
async function repeated(path, options) {
  const url = addressOf(path, options.query);
  const cut = (/** @type {unknown} */ error) => Promise.reject(lost(error)); // after the head of the answer
  let isSetAnew = false; // the clock, by an answer that may have refused the call for it
  for (let attempt = 1; ; attempt++) {
    const last = attempt === (options.attempts ?? ATTEMPTS);
    const signer = options.credentials === undefined ? await current() : options.credentials;
    const headers = await headersOf(url, signer, options);
    const sent = performance.now();
    let response;
    try {
      response = await send(url, headers, options);
    } catch (error) {
      if (options.signal?.aborted || last) throw lost(error);
      await pause(attempt, null, options.signal);
      continue;
    }
    if (response.status < 500) heard.at = performance.now();
    const hasMoved = setClock(response.headers.get("date"), sent);
    if (hasMoved) announce();
    if (response.status === 401 && signer && hasMoved && !isSetAnew) {
      isSetAnew = true;
      continue;
    }
    if (signer && !options.authorizedScopes && (response.ok || [401, 403].includes(response.status)))
      noteAnswer(signer, response.status !== 401);
    if (response.ok) return response.status === 204 ? null : await response.json().catch(cut);
    if (response.status < 500 || last) throw await refusal(response);
    await pause(attempt, response.headers.get("retry-after"), options.signal);
  }
}

/** Who signs: never nobody in place of somebody whose sign-in has ended. */
async function current() {
  if (hasEnded() && !(await renewing.renew()))
    throw new ApiError(401, "SignInEnded", "Your sign-in has ended. Sign in again: what you have written stays.");
  return session();
}

/** All pages of a list, one after the other. @param {string} path @param {Options & {limit?: number}} [options]
 * @returns {AsyncGenerator<any, void, void>} */
export async function* pages(path, options = {}) {
  let continuationToken;
  do {
    const query = { ...options.query, limit: options.limit, continuationToken };
    const page = await call(path, { ...options, query });
    yield page;
    continuationToken = page.continuationToken;
  } while (continuationToken !== undefined);
}

/** A URL of this service that works in another tab or program for some minutes. @param {string} path
 * @param {number} [seconds] */
export async function shareable(path, seconds = 900) {
  const url = addressOf(path);
  const signer = await current();
  return signer ? signedUrl(signer, url, seconds) : url.href;
}

/** Percent-encode one argument of a path. @param {string | number} value */
export const arg = (value) => encodeURIComponent(String(value));

/** @param {string} path @param {Options["query"]} [query] */
function addressOf(path, query = {}) {
  const url = new URL(path, location.origin);
  for (const [name, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(name, String(value));
  return url;
}

/** @param {URL} url @param {import("./types").Credentials | null} signer @param {Options} options */
async function headersOf(url, signer, { method = "GET", body, authorizedScopes, read }) {
  /** @type {Record<string, string>} */
  const headers = {};
  if (signer) headers["authorization"] = await authorization(signer, method, url, authorizedScopes);
  if (body !== undefined) headers["content-type"] = "application/json";
  if (read) headers["if-match"] = `"${read}"`;
  return headers;
}

/** @param {URL} url @param {Record<string, string>} headers @param {Options} options */
function send(url, headers, { method = "GET", body, signal }) {
  const limit = AbortSignal.timeout(TIMEOUT);
  return fetch(url, {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: signal ? AbortSignal.any([signal, limit]) : limit,
    credentials: "omit",
    cache: "no-store",
    referrerPolicy: "no-referrer",
  });
}

/** @param {Response} response */
async function refusal(response) {
  let code = "";
  let message = `The service answered ${response.status}.`;
  try {
    const body = await response.json();
    code = body.code ?? "";
    message = said(String(body.message ?? body.error ?? message));
  } catch {
    // A gateway's answer is no JSON: the status says what is known.
  }
  return new ApiError(response.status, code, message);
}

/** An error's message as people read it: without its marks of code, what the request was, and what else would do. @param {string} message */
function said(message) {
  const text = (message.split(/\n\n(?:---|This request requires)/)[0] ?? message).replaceAll(/\n*```\n?/g, "\n").trim();
  const [, who, lacks] = /^(?:Client ID )?(.+) does not have sufficient scopes .*:\n([^]+)$/.exec(text) ?? [];
  if (lacks === undefined) return text;
  return `${who} may not do this: it needs ${/^\{[^]*\}$/.test(lacks) ? inWords(JSON.parse(lacks)) : lacks}.`;
}

/** A scope expression as people say it. @param {any} expression @returns {string} */
const inWords = (expression) =>
  expression.AnyOf?.map(inWords).join(", or ") ?? expression.AllOf?.map(inWords).join(" with ") ?? expression;

/** @param {unknown} error */
function lost(error) {
  if (error instanceof DOMException && error.name === "AbortError") return error;
  return new ApiError(0, "", "The service cannot be reached. Is the network up, and the service running?");
}

/** @param {number} attempt @param {string | null} retryAfter seconds @param {AbortSignal} [signal] */
function pause(attempt, retryAfter, signal) {
  const backOff = FIRST_PAUSE * 2 ** (attempt - 1) * (0.75 + Math.random() / 2);
  const milliseconds = Math.min(Math.max(backOff, Number(retryAfter ?? 0) * 1000), 10_000);
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}
