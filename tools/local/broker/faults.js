"use strict";
// Faults on request: what happens to sends, decided by counting, never by chance.

const { BrokerError } = require("./errors.js");

/**
 * @typedef {object} Fault
 * @property {"reject" | "release" | "modify" | "drop"} action answer with an error or with another outcome that does not
 *   take the messages, or cut the connection without an answer
 * @property {boolean} stored whether the messages are taken all the same, as when only the answer is lost
 * @property {string} condition AMQP error condition of a rejection
 * @property {string} description
 * @property {number} every hit every n-th send: the n-th, the 2n-th, and so on
 * @property {number} count sends to hit before the fault is over; Infinity for all
 * @property {string | null} topic only sends to this topic; null for all
 * @property {string | null} messageId only sends with this message among theirs; null for all
 */

const DEFAULTS = {
  action: "reject",
  stored: false,
  condition: "com.microsoft:server-busy",
  description: "refused on request of a test",
  every: 1,
  count: Infinity,
  topic: null,
  messageId: null,
};

const ACTIONS = ["reject", "release", "modify", "drop"];

function isCount(value) {
  return value === Infinity || (Number.isInteger(value) && value > 0);
}

/** Whether sends are held or refused. */
class Faults {
  constructor() {
    this.paused = false;
    /** @type {(() => void)[]} */
    this.held = [];
    /** @type {Fault | null} */
    this.fault = null;
    this.seen = 0;
    this.hits = 0;
  }

  /** Take sends in without answering them, until `resume`. */
  pause() {
    this.paused = true;
  }

  /** Answer what was held, oldest first. */
  resume() {
    this.paused = false;
    for (const handle of this.held.splice(0)) handle();
  }

  /** End every fault; what was held is never answered. */
  clear() {
    this.paused = false;
    this.held = [];
    this.fault = null;
    this.seen = 0;
    this.hits = 0;
  }

  /** Run `handle` now, or when sends are no longer held. */
  whenRunning(handle) {
    if (this.paused) this.held.push(handle);
    else handle();
  }

  /**
   * Replace the fault and start counting anew.
   * @param {Partial<Fault> | null} given null for none
   * @throws {BrokerError} `argument`
   */
  set(given) {
    if (given === null) {
      this.fault = null;
      return;
    }
    const unknown = Object.keys(given).find((key) => !(key in DEFAULTS));
    if (unknown !== undefined) throw new BrokerError("argument", `a fault has no field ${unknown}`);
    const fault = { ...DEFAULTS, ...given };
    if (!isCount(fault.every) || !isCount(fault.count)) {
      throw new BrokerError("argument", "every and count must be whole numbers above 0");
    }
    if (!ACTIONS.includes(fault.action)) {
      throw new BrokerError("argument", `action must be one of ${ACTIONS.join(", ")}`);
    }
    this.fault = fault;
    this.seen = 0;
    this.hits = 0;
  }

  /**
   * Count a send to a topic.
   * @param {string} topic
   * @param {() => string[]} messageIds of the messages of the send
   * @returns {Fault | null} what is to happen to it
   */
  next(topic, messageIds) {
    const { fault } = this;
    if (!fault || (fault.topic !== null && fault.topic.toLowerCase() !== topic.toLowerCase())) return null;
    if (fault.messageId !== null && !messageIds().includes(fault.messageId)) return null;
    this.seen += 1;
    if (this.seen % fault.every !== 0 || this.hits >= fault.count) return null;
    this.hits += 1;
    return fault;
  }

  /** Numbers for tests. */
  state() {
    return { paused: this.paused, held: this.held.length, fault: this.fault, seen: this.seen, hits: this.hits };
  }
}

module.exports = { Faults };
