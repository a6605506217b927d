"use strict";
// The control port: faults and numbers for tests, as JSON over HTTP. README.md lists the requests.

const { readSubscription, readTopic } = require("./config.js");
const { BrokerError } = require("./errors.js");
const { makeHttpServer } = require("./http.js");

/**
 * The server of the control port.
 * @param {object} broker
 * @param {object} broker.settings what `readBroker` gave
 * @param {import("./topics.js").Namespace} broker.namespace
 * @param {import("./faults.js").Faults} broker.faults
 * @param {import("./amqp.js").AmqpServer} broker.amqp
 * @param {import("./listener.js").Listener} broker.listener
 */
function makeControlServer({ settings, namespace, faults, amqp, listener }) {
  const state = () => {
    const topics = {};
    for (const topic of namespace.topics.values()) topics[topic.name] = topic.counts();
    const connections = amqp.connections.size;
    return { connections, listening: listener.server.listening, ...faults.state(), topics };
  };
  const reset = async () => {
    faults.clear();
    await amqp.dropConnections();
    await listener.listen();
    namespace.topics.clear();
    for (const topic of settings.topics) namespace.addTopic(topic);
  };
  const actions = {
    "GET /state": state,
    "POST /pause": () => faults.pause(),
    "POST /resume": () => faults.resume(),
    "POST /fault": (fault) => faults.set(fault),
    "POST /close-connections": ({ condition } = {}) => amqp.closeConnections(condition),
    "POST /reset": reset,
    "POST /stop-listening": () => listener.stop(),
    "POST /listen": () => listener.listen(),
    "POST /topics": (topic) => void namespace.addTopic(readTopic(topic, settings)),
    "POST /subscriptions": ({ topic, ...subscription }) => {
      namespace.topic(topic).addSubscription(readSubscription(subscription, settings));
    },
  };
  const handle = async (request, body) => {
    const action = actions[`${request.method} ${request.url}`];
    if (!action) throw new BrokerError("not-found", `no such request: ${request.method} ${request.url}`);
    const result = await action(body === "" ? undefined : JSON.parse(body));
    return { status: 200, body: JSON.stringify(result ?? {}) };
  };
  const renderError = (status, message) => JSON.stringify({ status, error: message });
  return makeHttpServer({ type: "application/json", handle, renderError });
}

module.exports = { makeControlServer };
