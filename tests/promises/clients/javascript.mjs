// Makes calls with the public JavaScript client: reads JSON arrays of calls from stdin, one a line, and writes one of
// outcomes for each.
import { createInterface } from "node:readline";

import { createRequire } from "node:module";

const { resolve } = createRequire(new URL("../../../tools/package.json", import.meta.url));
const { default: taskcluster } = await import(resolve("taskcluster-client"));

const operations = {
  call: ({ service, options, method, args }) => new taskcluster[service](options)[method](...args),
  signedUrl: ({ service, options, method, args }) => {
    const client = new taskcluster[service](options);
    return client.buildSignedUrl(client[method], ...args);
  },
  temporary: ({ start, expiry, ...options }) =>
    taskcluster.createTemporaryCredentials({ ...options, start: new Date(start), expiry: new Date(expiry) }),
};

for await (const line of createInterface({ input: process.stdin })) {
  const outcomes = [];
  for (const { operation, ...parameters } of JSON.parse(line)) {
    try {
      outcomes.push({ result: (await operations[operation](parameters)) ?? null });
    } catch (error) {
      const { statusCode: status = null, code = null, body = null } = error;
      outcomes.push({ status, code, message: String(error.message), body });
    }
  }
  process.stdout.write(`${JSON.stringify(outcomes)}\n`);
}
