"use strict";
// node main.js --config <file or inline JSON> [--follow-stdin]
//
// Prints one line {"amqpPort":…,"controlPort":…} when ready. With --follow-stdin it ends when its standard input does:
// the parent holds the other end, so the broker goes with its parent however that ends.

const fs = require("node:fs");
const { once } = require("node:events");
const { parseArgs } = require("node:util");
const { makeAdminServer } = require("./admin.js");
const { AmqpServer } = require("./amqp.js");
const { readBroker } = require("./config.js");
const { makeControlServer } = require("./control.js");
const { BrokerError } = require("./errors.js");
const { Faults } = require("./faults.js");
const { Listener } = require("./listener.js");
const { Namespace } = require("./topics.js");

const USAGE_ERROR = 2;

function readConfig(given) {
  const text = given.trimStart().startsWith("{") ? given : fs.readFileSync(given, "utf8");
  return readBroker(JSON.parse(text));
}

async function start(settings) {
  const namespace = new Namespace(Date.now);
  for (const topic of settings.topics) namespace.addTopic(topic);
  const faults = new Faults();
  const amqp = new AmqpServer({ namespace, faults, maxMessageBytes: settings.maxMessageKilobytes * 1024 });
  const admin = makeAdminServer(namespace, settings);
  const listener = new Listener({
    host: settings.host,
    port: settings.amqpPort,
    amqp: (socket) => amqp.accept(socket),
    http: (socket) => admin.emit("connection", socket),
  });
  await listener.listen();
  const control = makeControlServer({ settings, namespace, faults, amqp, listener });
  control.listen(settings.controlPort, "127.0.0.1");
  await once(control, "listening");
  return { amqpPort: listener.port, controlPort: control.address().port };
}

async function main() {
  const options = { "config": { type: "string", default: "{}" }, "follow-stdin": { type: "boolean" } };
  const { values } = parseArgs({ options });
  const ports = await start(readConfig(values.config));
  for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => process.exit(0));
  if (values["follow-stdin"]) process.stdin.once("end", () => process.exit(0)).resume();
  process.stdout.write(`${JSON.stringify(ports)}\n`);
}

main().catch((error) => {
  const expected = error instanceof BrokerError || error instanceof SyntaxError || error.code !== undefined;
  process.stderr.write(`broker: ${expected ? error.message : error.stack}\n`);
  process.exit(expected ? USAGE_ERROR : 1);
});
