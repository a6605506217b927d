// The endpoints of the auth service that the console calls.

import { ApiError, arg, call, pages } from "./api.js";

/** @typedef {import("./api.js").Options} Options */

const AUTH = "/api/auth/v1";

/** The scopes of who is signed in, expanded. @param {Options} [options] @returns {Promise<string[]>} */
export const currentScopes = async (options) => (await call(`${AUTH}/scopes/current`, options)).scopes;
/** Throws an Error unless the service accepts credentials. @param {import("./types").Credentials} credentials */
export async function checkAccepted(credentials) {
  try {
    await currentScopes({ credentials });
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 403)) throw error; // they hold, whatever they allow
  }
}
/** @param {string[]} scopes @returns {Promise<string[]>} */
export const expandScopes = async (scopes) =>
  (await call(`${AUTH}/scopes/expand`, { method: "POST", body: { scopes } })).scopes;

/** @param {string} prefix */
export const listClients = (prefix) => pages(`${AUTH}/clients/`, { query: { prefix: prefix || undefined } });
/** @param {string} id @param {Options} [options] @returns {Promise<import("./types").Client>} */
export const client = (id, options) => call(`${AUTH}/clients/${arg(id)}`, options);
/** @param {string} id @param {unknown} body @returns {Promise<import("./types").Client>} */
export const createClient = (id, body) => call(`${AUTH}/clients/${arg(id)}`, { method: "PUT", body });
/** Change a client, if it is as it was read last. @param {string} id @param {unknown} body @param {string} read @returns {Promise<import("./types").Client>} */
export const updateClient = (id, body, read) => call(`${AUTH}/clients/${arg(id)}`, { method: "POST", body, read });
/** @param {string} id */
export const enableClient = (id) => call(`${AUTH}/clients/${arg(id)}/enable`, { method: "POST" });
/** @param {string} id */
export const disableClient = (id) => call(`${AUTH}/clients/${arg(id)}/disable`, { method: "POST" });
/** @param {string} id @returns {Promise<import("./types").Client>} */
export const resetAccessToken = (id) => call(`${AUTH}/clients/${arg(id)}/reset`, { method: "POST" });
/** @param {string} id */
export const deleteClient = (id) => call(`${AUTH}/clients/${arg(id)}`, { method: "DELETE" });

/** @param {Options} [options] @returns {Promise<import("./types").Role[]>} */
export const listRoles = (options) => call(`${AUTH}/roles/`, options);
/** @param {string} id @param {Options} [options] @returns {Promise<import("./types").Role>} */
export const role = (id, options) => call(`${AUTH}/roles/${arg(id)}`, options);
/** @param {string} id @param {unknown} body */
export const createRole = (id, body) => call(`${AUTH}/roles/${arg(id)}`, { method: "PUT", body });
/** Change a role, if it is as it was read last. @param {string} id @param {unknown} body @param {string} read @returns {Promise<import("./types").Role>} */
export const updateRole = (id, body, read) => call(`${AUTH}/roles/${arg(id)}`, { method: "POST", body, read });
/** @param {string} id */
export const deleteRole = (id) => call(`${AUTH}/roles/${arg(id)}`, { method: "DELETE" });

/** How people sign in here: with an OpenID Connect provider, if there is one.
 * @returns {Promise<{provider?: import("./openid.js").Provider}>} */
export const signInOptions = () => call(`${AUTH}/sign-in`, { credentials: null });
/** Exchange an ID token for temporary credentials. @param {{idToken: string, nonce?: string, refreshed?: boolean}} body */
export const credentialsOf = (body) => call(`${AUTH}/sign-in`, { method: "POST", body, credentials: null });
