// An OAuth authorization server: `node issuer.mjs PORT RESOURCE`. It says "ready" on standard output, and then takes
// commands on standard input, each answered by a line: `keys ALG` (sign with a new key from now on; the old one is
// withdrawn), `clock SECONDS` (be that far ahead of the real time).
import { createServer } from "node:http";
import { generateKeyPairSync, randomUUID } from "node:crypto";
import { createInterface } from "node:readline";
import Provider from "oidc-provider";

const [port, resource] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;

const KINDS = {
  RS256: ["rsa", { modulusLength: 2048 }],
  PS256: ["rsa", { modulusLength: 2048 }],
  ES256: ["ec", { namedCurve: "P-256" }],
  ES384: ["ec", { namedCurve: "P-384" }],
  EdDSA: ["ed25519", {}],
};

const realNow = Date.now;
let ahead = 0;
Date.now = () => realNow() + ahead * 1000;

function provider(alg) {
  const [kind, options] = KINDS[alg];
  const { privateKey } = generateKeyPairSync(kind, options);
  // Its own ID tokens are always signed with RS256, which needs a key, too.
  const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey;
  const key = (key, alg) => ({ ...key.export({ format: "jwk" }), kid: randomUUID(), use: "sig", alg });
  const machine = (client_id, scope) => ({
    client_id,
    scope,
    client_secret: `${client_id}-secret`,
    grant_types: ["client_credentials"],
    response_types: [],
    redirect_uris: [],
  });
  const made = new Provider(issuer, {
    clients: [machine("agent", "call read"), machine("reader", "call read"), machine("other", "call read")],
    scopes: ["call", "read"],
    jwks: { keys: [key(privateKey, alg), ...(alg === "RS256" ? [] : [key(rsa, "RS256")])] },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        // Any resource may be asked for: the host has to refuse tokens for others.
        getResourceServerInfo: (_ctx, audience) => ({
          scope: "call read",
          audience,
          accessTokenTTL: 600,
          accessTokenFormat: "jwt",
          jwt: { sign: { alg } },
        }),
        defaultResource: () => resource,
      },
    },
  });
  made.on("server_error", (_ctx, error) => console.error(error));
  return made.callback();
}

let callback = provider("ES256");
const server = createServer((request, response) => callback(request, response));
server.listen(Number(port), "127.0.0.1", () => console.log("ready"));

for await (const line of createInterface({ input: process.stdin })) {
  const [command, argument] = line.split(" ");
  if (command === "keys") callback = provider(argument);
  else if (command === "clock") ahead = Number(argument);
  else throw new Error(`unknown command ${line}`);
  console.log("done");
}
process.exit(0);
