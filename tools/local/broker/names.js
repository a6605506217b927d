"use strict";
// Names of entities, and the addresses under which AMQP clients attach to them.

const { BrokerError } = require("./errors.js");

// As strict as Azure documents its names, so that a name that works here works there.
const NAMES = {
  topic: { limit: 260, pattern: /^[a-z0-9](?:[\w.~/-]*[a-z0-9])?$/i, of: "letters, digits and . - _ / ~" },
  subscription: { limit: 50, pattern: /^[a-z0-9](?:[\w.-]*[a-z0-9])?$/i, of: "letters, digits and . - _" },
  rule: { limit: 50, pattern: /^(?:\$Default|[a-z0-9](?:[\w.-]*[a-z0-9])?)$/i, of: "letters, digits and . - _" },
};

const SUBSCRIPTION = /^(.+)\/subscriptions\/([^/]+)$/i;
const DEAD_LETTERS = "/$deadletterqueue";
const MANAGEMENT = "/$management";

/**
 * Check the name of an entity.
 * @param {"topic" | "subscription" | "rule"} what
 * @param {unknown} name
 * @throws {BrokerError} `argument`
 */
function checkName(what, name) {
  const { limit, pattern, of } = NAMES[what];
  if (typeof name === "string" && name.length <= limit && pattern.test(name)) return;
  throw new BrokerError(
    "argument",
    `a ${what} needs a name of 1 to ${limit} characters (${of}; the first and last a letter or digit)`,
  );
}

function withoutSuffix(path, suffix) {
  return path.toLowerCase().endsWith(suffix) ? path.slice(0, -suffix.length) : undefined;
}

/**
 * @typedef {object} Address
 * @property {string} path without scheme and host; management nodes are told apart by it
 * @property {"cbs" | "management" | "entity"} node
 * @property {string} topic
 * @property {string | undefined} subscription
 * @property {boolean} deadLetters
 */

/**
 * Take an address apart: `[amqp[s]://host/]<topic>[/Subscriptions/<name>[/$DeadLetterQueue]][/$management]` or `$cbs`.
 * @param {string | null | undefined} text
 * @returns {Address}
 */
function parseAddress(text) {
  const path = (text ?? "").replace(/^[a-z]+:\/\/[^/]*\//i, "").replace(/^\//, "");
  if (path.toLowerCase() === "$cbs") {
    return { path, node: "cbs", topic: "", subscription: undefined, deadLetters: false };
  }
  const managed = withoutSuffix(path, MANAGEMENT);
  const entity = managed ?? path;
  const dead = withoutSuffix(entity, DEAD_LETTERS);
  const match = SUBSCRIPTION.exec(dead ?? entity);
  return {
    path,
    node: managed === undefined ? "entity" : "management",
    topic: match ? match[1] : (dead ?? entity),
    subscription: match ? match[2] : undefined,
    deadLetters: dead !== undefined,
  };
}

module.exports = { checkName, parseAddress };
