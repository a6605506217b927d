// Makes calls with the public JavaScript client: reads a JSON array of calls from stdin, writes one of outcomes.
import taskcluster from "taskcluster-client";

const operations = {
  call: ({ service, options, method, args }) => new taskcluster[service](options)[method](...args),
  signedUrl: ({ service, options, method, args }) => {
    const client = new taskcluster[service](options);
    return client.buildSignedUrl(client[method], ...args);
  },
  temporary: ({ start, expiry, ...options }) =>
    taskcluster.createTemporaryCredentials({ ...options, start: new Date(start), expiry: new Date(expiry) }),
};

let text = "";
for await (const chunk of process.stdin) {
  text += chunk;
}
const outcomes = [];
for (const { operation, ...parameters } of JSON.parse(text)) {
  try {
    outcomes.push({ result: (await operations[operation](parameters)) ?? null });
  } catch (error) {
    const { statusCode: status = null, code = null, body = null } = error;
    outcomes.push({ status, code, message: String(error.message), body });
  }
}
process.stdout.write(JSON.stringify(outcomes));
