// An OpenID Connect provider for tests: any name signs in, and is in the group of the same name.
import http from "node:http";
import Provider from "oidc-provider";

const [port, callback] = process.argv.slice(2);
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    {
      client_id: "console",
      token_endpoint_auth_method: "none",
      application_type: "native",
      redirect_uris: [callback],
      grant_types: ["authorization_code"],
      response_types: ["code"],
    },
  ],
  pkce: { required: () => true },
  cookies: { keys: ["tests only"] },
  conformIdTokenClaims: false,
  scopes: ["openid", "groups"],
  claims: { openid: ["sub"], groups: ["groups"] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, groups: [id] }) }),
});
http.createServer(provider.callback()).listen(Number(port), "127.0.0.1", () => console.log("ready"));
