"use strict";
// Errors that a client sees: each kind has one AMQP condition and one HTTP status, as Service Bus answers.

const KINDS = {
  "argument": { condition: "com.microsoft:argument-error", status: 400 },
  "decode": { condition: "amqp:decode-error", status: 400 },
  "exists": { condition: "com.microsoft:entity-already-exists", status: 409 },
  "lock-lost": { condition: "com.microsoft:message-lock-lost", status: 410 },
  "not-found": { condition: "amqp:not-found", status: 404 },
  "not-implemented": { condition: "amqp:not-implemented", status: 501 },
  "quota": { condition: "amqp:resource-limit-exceeded", status: 403 },
  "too-large": { condition: "amqp:link:message-size-exceeded", status: 413 },
};

/** An error for the client; anything else that is thrown is a fault of the broker itself. */
class BrokerError extends Error {
  /**
   * @param {keyof typeof KINDS} kind
   * @param {string} message shown to the client
   */
  constructor(kind, message) {
    super(message);
    this.kind = kind;
    this.condition = KINDS[kind].condition;
    this.status = KINDS[kind].status;
  }
}

/**
 * An AMQP error. All three fields are always set: the Python SDK reads each of them without asking.
 * @param {string} condition
 * @param {string} description
 */
function amqpError(condition, description) {
  return { condition, description, info: {} };
}

module.exports = { BrokerError, amqpError };
