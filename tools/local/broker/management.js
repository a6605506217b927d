"use strict";
// Requests over AMQP: tokens on $cbs, and the operations of an entity's $management node.

const { types } = require("rhea");
const { BrokerError } = require("./errors.js");
const { uuidText } = require("./message.js");

const TIMESTAMP = 0x83;

const OUTCOMES = { completed: "completed", abandoned: "abandoned", suspended: "suspended" };

function token(bytes) {
  return Buffer.from(bytes).toString("hex");
}

/** Operations on a queue of messages (a subscription's, or its dead letters), by name without the vendor's prefix. */
const QUEUE_OPERATIONS = {
  "renew-lock": (queue, { "lock-tokens": tokens }) => {
    const expirations = tokens.map((bytes) => queue.renew(token(bytes)));
    if (expirations.includes(undefined)) throw new BrokerError("lock-lost", "the lock of the message has expired");
    return { expirations: types.wrap_array(expirations, TIMESTAMP) };
  },

  "update-disposition": (queue, body) => {
    const outcome = OUTCOMES[body["disposition-status"]];
    if (!outcome) throw new BrokerError("argument", `unknown disposition ${body["disposition-status"]}`);
    const details = { reason: body["deadletter-reason"], description: body["deadletter-description"] };
    for (const bytes of body["lock-tokens"]) {
      if (!queue.settle(token(bytes), outcome, details)) {
        throw new BrokerError("lock-lost", `the lock ${uuidText(Buffer.from(bytes))} has expired`);
      }
    }
    return {};
  },
};

function reply(request, status, description, body, condition) {
  return {
    correlation_id: request.message_id,
    application_properties: {
      // $cbs names the status one way, $management the other.
      "status-code": types.wrap_int(status),
      "status-description": description,
      "statusCode": types.wrap_int(status),
      "statusDescription": description,
      ...(condition && { errorCondition: types.wrap_symbol(condition) }),
    },
    body,
  };
}

/** Answers requests. */
class Management {
  /** @param {import("./topics.js").Namespace} namespace */
  constructor(namespace) {
    this.namespace = namespace;
  }

  /**
   * The handler of requests to a node: takes a request, gives the message that answers it.
   * @param {import("./names.js").Address} address
   * @throws {BrokerError} `not-found` if there is no such entity
   */
  node(address) {
    // Any token will do: the broker listens on this machine only.
    if (address.node === "cbs") return (request) => reply(request, 200, "OK", null);
    this.perform(address, undefined);
    return (request) => this.answer(address, request);
  }

  answer(address, request) {
    try {
      const operation = String(request.application_properties?.operation).replace(/^com\.microsoft:/, "");
      const body = this.perform(address, operation, request.body ?? {});
      return body === undefined ? reply(request, 204, "No content", null) : reply(request, 200, "OK", body);
    } catch (error) {
      if (!(error instanceof BrokerError)) throw error;
      return reply(request, error.status, error.message, null, error.condition);
    }
  }

  perform(address, operation, body) {
    const topic = this.namespace.topic(address.topic);
    const subscription = address.subscription && topic.subscription(address.subscription);
    if (operation === undefined) return undefined;
    subscription?.touch();
    const queue = address.deadLetters ? subscription?.deadLetters : subscription?.queue;
    if (!queue || !Object.hasOwn(QUEUE_OPERATIONS, operation)) {
      throw new BrokerError("not-implemented", `${operation} is not offered by the local broker`);
    }
    return QUEUE_OPERATIONS[operation](queue, body);
  }
}

module.exports = { Management };
