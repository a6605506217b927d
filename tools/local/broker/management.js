"use strict";
// Requests over AMQP: tokens on $cbs, and the operations of an entity's $management node.

const { types } = require("rhea");
const { BrokerError } = require("./errors.js");
const { Message, uuidText } = require("./message.js");
const { encodeEntry } = require("./queue.js");
const { CORRELATION_FIELDS } = require("./rules.js");

const TIMESTAMP = 0x83;
const LONG = 0x81;

// Descriptors of rules in answers. The filters' have one digit less than the actions': so it is documented.
const RULE_DESCRIPTION = 0x13700000004;
const EMPTY_ACTION = 0x13700000005;
const FILTERS = { sql: 0x1370000006, true: 0x1370000007, false: 0x1370000008, correlation: 0x1370000009 };

const OUTCOMES = { completed: "completed", abandoned: "abandoned", defered: "deferred", suspended: "suspended" };

function described(code, fields) {
  return types.described(types.wrap_ulong(code), types.wrap_list(fields));
}

function token(bytes) {
  return Buffer.from(bytes).toString("hex");
}

function ruleFields({ name, filter, createdAt }) {
  const { type, sql, correlation = {} } = filter;
  const values = Object.keys(CORRELATION_FIELDS).map((field) => correlation[field] ?? null);
  const fields = { sql: [sql, types.wrap_int(20)], correlation: [...values, correlation.properties ?? {}] }[type] ?? [];
  return [described(FILTERS[type], fields), described(EMPTY_ACTION, []), name, types.wrap_timestamp(createdAt)];
}

function filterOf(description) {
  if (description["sql-rule-action"]?.expression) {
    throw new BrokerError("not-implemented", "rule actions are not offered by the local broker");
  }
  if (description["sql-filter"]) return { type: "sql", sql: String(description["sql-filter"].expression) };
  const given = description["correlation-filter"];
  if (!given) throw new BrokerError("argument", "a rule needs a sql-filter or a correlation-filter");
  const correlation = {};
  for (const [key, value] of Object.entries(given)) {
    if (value !== null) correlation[key.replace(/-(.)/g, (_, letter) => letter.toUpperCase())] = value;
  }
  return { type: "correlation", correlation };
}

/** Operations on a queue of messages (a subscription's, or its dead letters), by name without the vendor's prefix. */
const QUEUE_OPERATIONS = {
  "renew-lock": (queue, { "lock-tokens": tokens }) => {
    const expirations = tokens.map((bytes) => queue.renew(token(bytes)));
    if (expirations.includes(undefined)) throw new BrokerError("lock-lost", "the lock of the message has expired");
    return { expirations: types.wrap_array(expirations, TIMESTAMP) };
  },

  "peek-message": (queue, body) => {
    const entries = queue.peek(Number(body["from-sequence-number"]), Number(body["message-count"]));
    return entries.length > 0 ? { messages: entries.map((entry) => ({ message: encodeEntry(entry) })) } : undefined;
  },

  "receive-by-sequence-number": (queue, body) => {
    const deletes = Number(body["receiver-settle-mode"]) === 0;
    const entries = body["sequence-numbers"].map((sequence) => queue.takeDeferred(Number(sequence), deletes));
    if (entries.includes(undefined)) {
      for (const entry of entries) if (entry?.token) queue.settle(entry.token, "deferred");
      throw new BrokerError("message-not-found", "no deferred message has that sequence number");
    }
    return {
      messages: entries.map((entry) => ({
        message: encodeEntry(entry),
        ...(entry.token && { "lock-token": types.wrap_uuid(Buffer.from(entry.token, "hex")) }),
      })),
    };
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

/** Operations on the rules of a subscription. */
const RULE_OPERATIONS = {
  "add-rule": (subscription, body) => {
    subscription.addRule(body["rule-name"], filterOf(body["rule-description"] ?? {}));
    return {};
  },

  "remove-rule": (subscription, body) => {
    subscription.removeRule(String(body["rule-name"]));
    return {};
  },

  "enumerate-rules": (subscription, { skip = 0, top = 100 }) => {
    const rules = [...subscription.rules.values()].slice(skip, skip + top);
    if (rules.length === 0) return undefined;
    return { rules: rules.map((rule) => ({ "rule-description": described(RULE_DESCRIPTION, ruleFields(rule)) })) };
  },
};

/** Operations on a topic. */
const TOPIC_OPERATIONS = {
  "schedule-message": (topic, { messages }) => {
    const numbers = messages.map(({ message }) => {
      const decoded = Message.decode(message);
      return topic.keepForLater(decoded, decoded.scheduledFor ?? topic.now());
    });
    return { "sequence-numbers": types.wrap_array(numbers, LONG) };
  },

  "cancel-scheduled-message": (topic, body) => {
    for (const number of body["sequence-numbers"]) topic.takeScheduled(Number(number));
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
    const found = [
      [TOPIC_OPERATIONS, subscription ? undefined : topic],
      [QUEUE_OPERATIONS, queue],
      [RULE_OPERATIONS, address.deadLetters ? undefined : subscription],
    ].find(([operations, target]) => target && Object.hasOwn(operations, operation));
    if (!found) throw new BrokerError("not-implemented", `${operation} is not offered by the local broker`);
    const [operations, target] = found;
    return operations[operation](target, body);
  }
}

module.exports = { Management };
