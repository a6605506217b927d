"use strict";
// The configuration: JSON checked key by key, with defaults filled in.

const { BrokerError } = require("./errors.js");
const { DEFAULT_RULE } = require("./rules.js");

/**
 * @typedef {object} RuleConfig
 * @property {string} name
 * @property {import("./rules.js").Filter} filter
 */

/**
 * @typedef {object} SubscriptionConfig
 * @property {string} name
 * @property {number} lockSeconds how long a message stays locked for its receiver
 * @property {number} maxDeliveryCount failed deliveries before a message is dead-lettered
 * @property {number} timeToLiveSeconds Infinity for no limit
 * @property {boolean} deadLetterOnExpiration
 * @property {number} autoDeleteSeconds idle time after which the subscription is deleted; Infinity for never
 * @property {RuleConfig[]} rules
 */

/**
 * @typedef {object} TopicConfig
 * @property {string} name
 * @property {number} duplicateDetectionSeconds 0 for no duplicate detection
 * @property {number} maxMegabytes size of all stored messages beyond which sends are refused
 * @property {SubscriptionConfig[]} subscriptions
 */

const POSITIVE = { type: "number", good: (value) => value > 0, text: "a number above 0" };
const NOT_NEGATIVE = { type: "number", good: (value) => value >= 0, text: "a number of 0 or more" };
const PORT = { type: "number", good: (v) => Number.isInteger(v) && v >= 0 && v < 65536, text: "a port, or 0 for any" };
const COUNT = { type: "number", good: (value) => Number.isInteger(value) && value > 0, text: "a whole number above 0" };
const TEXT = { type: "string", good: (value) => value !== "", text: "a string that is not empty" };
const FLAG = { type: "boolean", good: () => true, text: "true or false" };
const LIST = { type: "object", good: Array.isArray, text: "a list" };
const MAP = { type: "object", good: (value) => value !== null && !Array.isArray(value), text: "an object" };

const SUBSCRIPTION_DEFAULTS = {
  lockSeconds: [POSITIVE, 60],
  maxDeliveryCount: [COUNT, 10],
  timeToLiveSeconds: [POSITIVE, Infinity],
  deadLetterOnExpiration: [FLAG, false],
  autoDeleteSeconds: [POSITIVE, Infinity],
};
const TOPIC_DEFAULTS = {
  duplicateDetectionSeconds: [NOT_NEGATIVE, 600],
  maxMegabytes: [POSITIVE, 256],
};
const BROKER = {
  ...SUBSCRIPTION_DEFAULTS,
  ...TOPIC_DEFAULTS,
  host: [TEXT, "127.0.0.1"],
  amqpPort: [PORT, 0],
  controlPort: [PORT, 0],
  maxMessageKilobytes: [POSITIVE, 256],
  minimumAutoDeleteSeconds: [NOT_NEGATIVE, 300],
  topics: [LIST, []],
};

/** Read the keys that `schema` knows; any other key, and any wrong value, is an error that names it. */
function read(what, given, schema) {
  if (typeof given !== "object" || !MAP.good(given)) throw new BrokerError("argument", `${what} must be an object`);
  const unknown = Object.keys(given).find((key) => !(key in schema));
  if (unknown !== undefined) throw new BrokerError("argument", `${what} has an unknown key: ${unknown}`);
  const result = {};
  for (const [key, [check, fallback]] of Object.entries(schema)) {
    const value = given[key] ?? fallback;
    const good = value === fallback || (typeof value === check.type && check.good(value));
    if (!good || value === undefined) throw new BrokerError("argument", `${what}: ${key} must be ${check.text}`);
    result[key] = value;
  }
  return result;
}

function defaultsFrom(settings, schema) {
  return Object.fromEntries(Object.entries(schema).map(([key, [check]]) => [key, [check, settings[key]]]));
}

const RULE_KINDS = {
  sql: { name: [TEXT], sql: [TEXT], parameters: [MAP, {}] },
  correlation: { name: [TEXT], correlation: [MAP] },
  match: { name: [TEXT], match: [{ type: "string", good: (v) => v === "all" || v === "none", text: "all or none" }] },
};

/**
 * A rule: `{name, sql, parameters?}`, `{name, correlation}` or `{name, match: "all" | "none"}`.
 * @returns {RuleConfig}
 */
function readRule(given) {
  const kind = Object.keys(RULE_KINDS).find((key) => given?.[key] !== undefined);
  if (!kind) throw new BrokerError("argument", "a rule needs one of the keys sql, correlation and match");
  const { name, match, ...filter } = read("rule", given, RULE_KINDS[kind]);
  if (kind === "match") return { name, filter: { type: match === "all" ? "true" : "false" } };
  return { name, filter: { type: kind, ...filter } };
}

/**
 * A subscription; without `rules` it gets every message, with an empty list none.
 * @param {object} settings what `readBroker` gave
 * @returns {SubscriptionConfig}
 */
function readSubscription(given, settings) {
  const schema = { name: [TEXT], ...defaultsFrom(settings, SUBSCRIPTION_DEFAULTS), rules: [LIST, null] };
  const config = read("subscription", given, schema);
  const everything = [{ name: DEFAULT_RULE, match: "all" }];
  return { ...config, rules: (config.rules ?? everything).map(readRule) };
}

/**
 * A topic.
 * @param {object} settings what `readBroker` gave
 * @returns {TopicConfig}
 */
function readTopic(given, settings) {
  const schema = { name: [TEXT], ...defaultsFrom(settings, TOPIC_DEFAULTS), subscriptions: [LIST, []] };
  const config = read("topic", given, schema);
  return { ...config, subscriptions: config.subscriptions.map((one) => readSubscription(one, settings)) };
}

/**
 * The whole configuration. Keys of topics and subscriptions at the top level are defaults for all of them.
 * @throws {BrokerError} `argument`, naming the key
 */
function readBroker(given) {
  const settings = read("configuration", given, BROKER);
  return { ...settings, topics: settings.topics.map((topic) => readTopic(topic, settings)) };
}

module.exports = { readBroker, readSubscription, readTopic };
