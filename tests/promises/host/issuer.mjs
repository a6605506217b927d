// An OpenID Connect provider for tests: any name signs in, is in the group and has the application role of the same name, but
// nobody has none. People have an object id (`oid`), as Entra ID's have.
//   node issuer.mjs PORT CALLBACK [ISSUER [HOURS]]
// ISSUER: what it calls itself; HOURS: how late its clock is.
import http from "node:http";
import { createRequire } from "node:module";

const { resolve } = createRequire(new URL("../../../tools/package.json", import.meta.url));
const { default: Provider } = await import(resolve("oidc-provider"));

const [port, callback, issuer = `http://127.0.0.1:${port}`, hours = "0"] = process.argv.slice(2);
const now = Date.now;
Date.now = () => now() - Number(hours) * 3_600_000;
const day = 86_400;
const client = (client_id) => ({
  client_id,
  token_endpoint_auth_method: "none",
  application_type: "web",
  redirect_uris: [callback],
  grant_types: ["authorization_code", "refresh_token"],
  response_types: ["code"],
});
const provider = new Provider(issuer, {
  clients: [client("console"), client("another")],
  pkce: { required: () => true },
  cookies: { keys: ["tests only"] },
  conformIdTokenClaims: false,
  issueRefreshToken: async (_, client) => client.grantTypeAllowed("refresh_token"),
  rotateRefreshToken: true,
  scopes: ["openid", "groups", "profile", "offline_access"],
  claims: { openid: ["sub"], groups: ["groups"], profile: ["oid", "roles"] },
  ttl: { AuthorizationCode: 600, Grant: day, IdToken: 600, Interaction: day, RefreshToken: day, Session: day },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, oid: `object-${id}`, ...(id === "nobody" ? {} : { groups: [id], roles: [id] }) }) }),
});
http.createServer(provider.callback()).listen(Number(port), "127.0.0.1", () => console.log("ready"));
