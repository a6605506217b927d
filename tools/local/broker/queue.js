"use strict";
// The messages of one subscription, or of its dead-letter queue: what is ready and locked, and who gets it.

const { randomBytes } = require("node:crypto");
const { types } = require("rhea");
const { SequenceList } = require("./sequence-list.js");

const MAX_TIMER_MS = 2 ** 31 - 1; // longer timers fire at once

/**
 * @typedef {object} Entry a message in a queue
 * @property {number} sequence
 * @property {import("./message.js").Message} message
 * @property {"ready" | "locked"} state
 * @property {number} deliveryCount deliveries that failed
 * @property {number} enqueuedAt milliseconds since 1970
 * @property {number} expiresAt milliseconds since 1970, or Infinity
 * @property {string | undefined} token lock token, 32 hexadecimal digits, while locked
 * @property {number | undefined} lockedUntil milliseconds since 1970, while locked
 * @property {Record<string, string>} applicationProperties added by the broker
 */

/**
 * @typedef {object} Consumer where deliveries go
 * @property {boolean} deletes whether a message is gone once sent (RECEIVE_AND_DELETE)
 * @property {() => number} credit how many messages it takes now
 * @property {(entry: Entry) => void} deliver
 */

/** A queue of messages; delivers to its consumers in turn, oldest message first. */
class MessageQueue {
  /**
   * @param {object} options
   * @param {number} options.lockMs how long a lock lasts
   * @param {number} options.maxDeliveryCount failed deliveries after which a message is dead; Infinity for never
   * @param {() => number} options.now milliseconds since 1970
   * @param {(entry: Entry, reason: string, description: string) => void} options.onDead takes a dead message over
   * @param {(entry: Entry) => void} options.onExpired takes over a message whose time to live is over
   * @param {(bytes: number) => void} options.onBytes told by how much the stored size changed
   */
  constructor(options) {
    this.options = options;
    /** @type {Map<number, Entry>} */
    this.entries = new Map();
    this.ready = new SequenceList();
    /** @type {Map<string, Entry>} */
    this.locked = new Map();
    /** @type {Consumer[]} */
    this.consumers = [];
    this.mortalCount = 0;
    this.lastSequence = 0;
    this.settled = { completed: 0, delivered: 0 };
    this.pumping = false;
    this.lockTimer = undefined;
    this.lockTimerAt = Infinity;
  }

  /** Add a message at the end. */
  add(message, { expiresAt = Infinity, applicationProperties = {} } = {}) {
    this.lastSequence += 1;
    const entry = {
      sequence: this.lastSequence,
      message,
      state: "ready",
      deliveryCount: 0,
      enqueuedAt: this.options.now(),
      expiresAt,
      token: undefined,
      lockedUntil: undefined,
      applicationProperties,
    };
    this.entries.set(entry.sequence, entry);
    if (expiresAt !== Infinity) this.mortalCount += 1;
    this.options.onBytes(message.size);
    this.ready.add(entry.sequence);
    this.pump();
  }

  addConsumer(consumer) {
    this.consumers.push(consumer);
    this.pump();
  }

  removeConsumer(consumer) {
    const at = this.consumers.indexOf(consumer);
    if (at >= 0) this.consumers.splice(at, 1);
  }

  /** Deliver soon; calls before that are one. By then the AMQP engine has accounted for what was sent before. */
  pump() {
    if (this.pumping) return;
    this.pumping = true;
    setImmediate(() => {
      this.pumping = false;
      this.deliverReady();
    });
  }

  /** Deliver what is ready to consumers that have credit. */
  deliverReady() {
    let idle = 0;
    while (this.ready.size > 0 && idle < this.consumers.length) {
      const consumer = this.consumers.shift();
      this.consumers.push(consumer);
      const entry = consumer.credit() > 0 ? this.nextReady() : undefined;
      idle = entry ? 0 : idle + 1;
      if (entry) this.deliver(consumer, entry);
    }
  }

  deliver(consumer, entry) {
    this.settled.delivered += 1;
    if (consumer.deletes) {
      this.remove(entry);
      this.settled.completed += 1;
    } else {
      this.lock(entry);
    }
    consumer.deliver(entry);
  }

  nextReady() {
    while (this.ready.size > 0) {
      const entry = this.entries.get(this.ready.shift());
      if (entry?.state !== "ready") continue;
      if (entry.expiresAt > this.options.now()) return entry;
      this.expire(entry);
    }
    return undefined;
  }

  lock(entry) {
    entry.state = "locked";
    entry.token = randomBytes(16).toString("hex");
    entry.lockedUntil = this.options.now() + this.options.lockMs;
    this.locked.set(entry.token, entry);
    this.armLockTimer(entry.lockedUntil);
  }

  unlock(entry) {
    this.locked.delete(entry.token);
    entry.token = undefined;
    entry.lockedUntil = undefined;
  }

  armLockTimer(at) {
    if (at >= this.lockTimerAt) return;
    clearTimeout(this.lockTimer);
    this.lockTimerAt = at;
    const wait = Math.min(Math.max(0, at - this.options.now()) + 1, MAX_TIMER_MS);
    this.lockTimer = setTimeout(() => this.endLocks(), wait);
  }

  endLocks() {
    this.lockTimerAt = Infinity;
    let next = Infinity;
    for (const entry of [...this.locked.values()]) {
      if (entry.lockedUntil <= this.options.now()) this.giveBack(entry, true);
      else next = Math.min(next, entry.lockedUntil);
    }
    if (next !== Infinity) this.armLockTimer(next);
  }

  giveBack(entry, failed) {
    this.unlock(entry);
    if (failed) entry.deliveryCount += 1;
    if (entry.deliveryCount >= this.options.maxDeliveryCount) {
      const times = `${entry.deliveryCount} delivery attempts`;
      this.kill(entry, "MaxDeliveryCountExceeded", `Message could not be consumed after ${times}.`);
    } else {
      entry.state = "ready";
      this.ready.add(entry.sequence);
      this.pump();
    }
  }

  kill(entry, reason, description) {
    this.remove(entry);
    this.options.onDead(entry, reason, description);
  }

  expire(entry) {
    this.remove(entry);
    this.options.onExpired(entry);
  }

  remove(entry) {
    if (entry.token) this.unlock(entry);
    if (entry.expiresAt !== Infinity) this.mortalCount -= 1;
    this.entries.delete(entry.sequence);
    this.options.onBytes(-entry.message.size);
  }

  /**
   * Settle a locked message.
   * @param {string} token
   * @param {"completed" | "abandoned" | "released" | "suspended"} outcome
   * @param {{reason?: string, description?: string}} [details] of a suspended (dead-lettered) message
   * @returns {boolean} false if the lock is no longer held
   */
  settle(token, outcome, { reason = "", description = "" } = {}) {
    const entry = this.locked.get(token);
    if (!entry) return false;
    if (outcome === "completed") {
      this.remove(entry);
      this.settled.completed += 1;
    } else if (outcome === "suspended" && this.options.maxDeliveryCount !== Infinity) {
      this.kill(entry, reason, description);
    } else {
      this.giveBack(entry, outcome === "abandoned");
    }
    return true;
  }

  /**
   * Prolong a lock.
   * @returns {number | undefined} until when, milliseconds since 1970; undefined if the lock is no longer held
   */
  renew(token) {
    const entry = this.locked.get(token);
    if (!entry) return undefined;
    entry.lockedUntil = this.options.now() + this.options.lockMs;
    return entry.lockedUntil;
  }

  expireDue() {
    if (this.mortalCount === 0) return;
    for (const entry of [...this.entries.values()]) {
      if (entry.state !== "locked" && entry.expiresAt <= this.options.now()) this.expire(entry);
    }
  }

  /** Numbers for tests and the administration API. */
  counts() {
    this.expireDue();
    const { size } = this.entries;
    return {
      active: size,
      locked: this.locked.size,
      consumers: this.consumers.length,
      ...this.settled,
    };
  }

  /** Forget everything; for a subscription that is deleted. */
  clear() {
    clearTimeout(this.lockTimer);
    for (const entry of [...this.entries.values()]) this.remove(entry);
  }
}

/** The message of an entry as a client gets it, encoded. */
function encodeEntry(entry) {
  const annotations = {
    "x-opt-enqueued-time": types.wrap_timestamp(entry.enqueuedAt),
    "x-opt-sequence-number": types.wrap_long(entry.sequence),
    "x-opt-enqueue-sequence-number": types.wrap_long(entry.sequence),
  };
  if (entry.lockedUntil !== undefined) annotations["x-opt-locked-until"] = types.wrap_timestamp(entry.lockedUntil);
  const { deliveryCount, applicationProperties } = entry;
  return entry.message.encode({ deliveryCount, annotations, applicationProperties });
}

module.exports = { MAX_TIMER_MS, MessageQueue, encodeEntry };
