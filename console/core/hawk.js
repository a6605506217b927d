// Hawk signatures by WebCrypto (docs/contract.md, sections 11.1, 11.2 and 11.6).

import { now } from "./clock.js";

/** @typedef {import("./types").Credentials} Credentials */

const encoder = new TextEncoder();

const LONGEST_HEADER = 4096;

/** The Authorization header of a request. Path and query are signed exactly as they are sent. Throws an Error if the
 * scopes are too long to be sent. @param {Credentials} credentials @param {string} method @param {URL} url
 * @param {string[]} [authorizedScopes] all that the request may use of what the credentials allow
 * @returns {Promise<string>} */
export async function authorization(credentials, method, url, authorizedScopes) {
  const ts = String(Math.floor(now() / 1000));
  const nonce = base64url(crypto.getRandomValues(new Uint8Array(9)));
  const ext = extension(credentials, authorizedScopes);
  const mac = await sign(credentials.accessToken, normalized("header", ts, nonce, method, url, ext));
  const header = `Hawk id="${credentials.clientId}", ts="${ts}", nonce="${nonce}", ${ext && `ext="${ext}", `}mac="${mac}"`;
  if (header.length > LONGEST_HEADER) throw new Error("The scopes to be sent are too long for one request.");
  return header;
}

/** A URL that works for anybody until it expires: for GET requests alone. @param {Credentials} credentials
 * @param {URL} url @param {number} seconds @returns {Promise<string>} */
export async function signedUrl(credentials, url, seconds) {
  const expires = String(Math.floor(now() / 1000) + seconds);
  const ext = extension(credentials);
  const mac = await sign(credentials.accessToken, normalized("bewit", expires, "", "GET", url, ext));
  const signed = new URL(url);
  const bewit = base64url(encoder.encode([credentials.clientId, expires, mac, ext].join("\\")));
  signed.search += `${signed.search ? "&" : "?"}bewit=${bewit}`;
  return signed.href;
}

/** @param {Credentials} credentials @param {string[]} [authorizedScopes] */
function extension({ certificate }, authorizedScopes) {
  if (!certificate && !authorizedScopes) return "";
  const ext = { ...(certificate && { certificate: JSON.parse(certificate) }), authorizedScopes };
  return base64(encoder.encode(JSON.stringify(ext)));
}

/** @param {"header" | "bewit"} type @param {string} ts @param {string} nonce @param {string} method @param {URL} url
 * @param {string} ext */
function normalized(type, ts, nonce, method, url, ext) {
  const port = url.port || (url.protocol === "https:" ? "443" : "80");
  const lines = [
    `hawk.1.${type}`,
    ts,
    nonce,
    method,
    url.pathname + url.search,
    url.hostname.toLowerCase(),
    port,
    "",
    ext,
  ];
  return lines.join("\n") + "\n";
}

/** @param {string} secret @param {string} text */
async function sign(secret, text) {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", encoder.encode(secret), algorithm, false, ["sign"]);
  return base64(new Uint8Array(await crypto.subtle.sign("HMAC", key, encoder.encode(text))));
}

/** @param {Uint8Array} bytes */
function base64(bytes) {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

/** @param {Uint8Array} bytes */
export const base64url = (bytes) => base64(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
