"use strict";
// A receiving client's link: messages go out, and the client's verdicts come back.

const { message: amqp } = require("rhea");
const { amqpError } = require("./errors.js");
const { encodeEntry } = require("./queue.js");

/** Outcome that a client asks for, for each AMQP delivery state; see also `modifiedOutcome`. */
const OUTCOMES = { accepted: "completed", released: "released", rejected: "suspended" };

function swap(hex, from, to) {
  return hex.slice(from, to).match(/../g).reverse().join("");
}

/** Delivery tag of a lock token: the UUID's bytes in the order that .NET gives them. */
function deliveryTag(token) {
  const start = swap(token, 0, 8) + swap(token, 8, 12) + swap(token, 12, 16);
  return Buffer.from(start + token.slice(16), "hex");
}

function modifiedOutcome(state) {
  return state.delivery_failed ? "abandoned" : "released";
}

function deadLetterDetails(state) {
  const info = state.error?.info ?? {};
  return {
    reason: String(info.DeadLetterReason ?? ""),
    description: String(info.DeadLetterErrorDescription ?? state.error?.description ?? ""),
  };
}

/** Implements `Consumer` of queue.js on a rhea sender link. */
class LinkConsumer {
  /**
   * @param {object} sender rhea's link
   * @param {import("./queue.js").MessageQueue} queue
   */
  constructor(sender, queue) {
    this.sender = sender;
    this.queue = queue;
    this.deletes = sender.snd_settle_mode === 1;
    this.closed = false;
    /** @type {Map<string, object>} deliveries that the client has not settled, by lock token */
    this.unsettled = new Map();
    this.unsent = [];
  }

  credit() {
    if (this.closed || !this.sender.is_open()) return 0;
    const { outgoing } = this.sender.session;
    if (outgoing.available() * 2 < outgoing.deliveries.capacity) this.forgetLost();
    // Credit goes down when a transfer is written, not when it is queued: take off what is still in the queue.
    this.unsent = this.unsent.filter((id) => id >= outgoing.next_pending_delivery);
    return Math.min(this.sender.credit - this.unsent.length, outgoing.available());
  }

  deliver(entry) {
    const tag = entry.token ? deliveryTag(entry.token) : this.sender.next_tag();
    const delivery = this.sender.send(encodeEntry(entry), tag, 0);
    this.unsent.push(delivery.id);
    if (!entry.token) return;
    delivery.token = entry.token;
    this.unsettled.set(entry.token, delivery);
  }

  /** The client's verdict on a delivery: apply it, and confirm it or say why not. */
  settled(delivery, stateName) {
    if (!this.unsettled.delete(delivery.token)) return;
    const state = delivery.remote_state;
    const outcome = stateName === "modified" ? modifiedOutcome(state) : OUTCOMES[stateName];
    const details = stateName === "rejected" ? deadLetterDetails(state) : {};
    const held = this.queue.settle(delivery.token, outcome, details);
    if (state.undeliverable_here) {
      const error = amqpError("amqp:not-implemented", "messages are not deferred by the local broker");
      finish(delivery, amqp.rejected({ error }).described());
    } else if (held) {
      // A confirmed rejection carries no error: with one it would say that dead-lettering failed.
      const echo = stateName === "modified" ? { ...modifiedFields(state) } : {};
      finish(delivery, amqp[stateName](echo).described());
    } else {
      const error = amqpError("com.microsoft:message-lock-lost", "the lock of the message has expired");
      finish(delivery, amqp.rejected({ error }).described());
    }
  }

  /** Free the places of deliveries whose lock is lost, and whose client never said anything. */
  forgetLost() {
    for (const [token, delivery] of this.unsettled) {
      if (this.queue.locked.has(token)) continue;
      this.unsettled.delete(token);
      finish(delivery);
    }
  }

  /** The link is gone. Locks stay until they expire, as on Azure. */
  close() {
    this.closed = true;
    this.queue.removeConsumer(this);
    // Verdicts that came just before the link's end are not announced by the engine yet.
    for (const delivery of [...this.unsettled.values()]) {
      const state = delivery.remote_state?.constructor.composite_type;
      if (state) this.settled(delivery, state);
    }
    for (const delivery of this.unsettled.values()) {
      delivery.settled = true;
      delivery.remote_settled = true;
    }
    this.unsettled.clear();
  }
}

function modifiedFields({ delivery_failed, undeliverable_here }) {
  return { delivery_failed: Boolean(delivery_failed), undeliverable_here: Boolean(undeliverable_here) };
}

/** Settle a delivery for good. The engine keeps its place until both sides are done; the client's part is over. */
function finish(delivery, state) {
  delivery.update(true, state);
  delivery.remote_settled = true;
}

module.exports = { LinkConsumer };
