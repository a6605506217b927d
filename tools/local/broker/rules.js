"use strict";
// Rules of a subscription: a name and a filter that says which messages the subscription gets.

const { BrokerError } = require("./errors.js");
const { checkName } = require("./names.js");
const { parse } = require("./sql-parser.js");
const { equal, evaluate } = require("./sql-evaluator.js");

const DEFAULT_RULE = "$Default";

/** Fields of a correlation filter, each with the system property that it is compared with. */
const CORRELATION_FIELDS = {
  correlationId: "correlationid",
  messageId: "messageid",
  to: "to",
  replyTo: "replyto",
  label: "label",
  sessionId: "sessionid",
  replyToSessionId: "replytosessionid",
  contentType: "contenttype",
};

/**
 * @typedef {object} Filter
 * @property {"true" | "false" | "sql" | "correlation"} type
 * @property {string} [sql] expression of an SQL filter
 * @property {Record<string, unknown>} [parameters] values for the expression's @names
 * @property {Record<string, unknown>} [correlation] fields of `CORRELATION_FIELDS`, and `properties`
 */

function correlationMatcher(correlation) {
  const conditions = [];
  for (const [field, wanted] of Object.entries(correlation)) {
    if (field === "properties") continue;
    const name = CORRELATION_FIELDS[field];
    if (!name) throw new BrokerError("argument", `a correlation filter has no field ${field}`);
    if (typeof wanted !== "string") throw new BrokerError("argument", `correlation filter: ${field} must be a string`);
    conditions.push((message) => equal(message.system(name), wanted) === true);
  }
  for (const [name, wanted] of Object.entries(correlation.properties ?? {})) {
    conditions.push((message) => equal(message.user(name.toLowerCase()), wanted) === true);
  }
  if (conditions.length === 0) throw new BrokerError("argument", "a correlation filter needs at least one condition");
  return (message) => conditions.every((condition) => condition(message));
}

function matcher(filter) {
  switch (filter.type) {
    case "true":
      return () => true;
    case "false":
      return () => false;
    case "sql": {
      const tree = parse(filter.sql, filter.parameters);
      return (message) => evaluate(tree, message) === true;
    }
    default:
      return correlationMatcher(filter.correlation);
  }
}

/** One rule; immutable. */
class Rule {
  /**
   * @param {string} name
   * @param {Filter} filter
   * @param {number} createdAt milliseconds since 1970
   * @throws {BrokerError} `argument` for a bad name or filter
   */
  constructor(name, filter, createdAt) {
    checkName("rule", name);
    this.name = name;
    this.filter = filter;
    this.createdAt = createdAt;
    /** @type {(message: import("./sql-evaluator.js").Properties) => boolean} */
    this.matches = matcher(filter);
  }
}

module.exports = { CORRELATION_FIELDS, DEFAULT_RULE, Rule };
