"use strict";
// The AMQP side: which links clients may attach, and what happens to the messages that they send.

const { once } = require("node:events");
const rhea = require("rhea");
const { LinkConsumer } = require("./consumer.js");
const { BrokerError, amqpError } = require("./errors.js");
const { Management } = require("./management.js");
const { decodeTransfer } = require("./message.js");
const { parseAddress } = require("./names.js");

const SENDER_CREDIT = 250; // messages that a client may have under way; also what a pause holds at most per link
const MAX_UNSETTLED = 65536; // deliveries under way per session; a lasting lock holds back the places after it
const REQUEST_CREDIT = 50;
const CLOSE_MS = 200; // what a client gets to answer the end of its connection; an idle one does not look

const decodeRequest = rhea.message.decode;
// Messages are passed on as they came: have the engine hand over the bytes, and decode them here.
rhea.message.decode = (bytes) => bytes;

/** What a client is told of its send. */
function outcome(refusal, action) {
  if (action === "release") return rhea.message.released();
  if (action === "modify") return rhea.message.modified({ delivery_failed: true });
  return refusal ? rhea.message.rejected({ error: refusal }) : rhea.message.accepted();
}

/** One client connection. */
class ClientConnection {
  constructor(server, socket) {
    this.server = server;
    this.socket = socket;
    this.consumers = new Set();
    this.cleanups = new Set();
    this.replyLinks = new Map();
    this.amqp = server.container.create_connection({
      max_frame_size: 65536,
      session_buffer_size: { outgoing: MAX_UNSETTLED },
    });
    for (const event of ["sender_open", "receiver_open", "message", "sender_flow", "sender_draining"]) {
      this.amqp.on(event, (context) => this.guard(() => this[event](context)));
    }
    for (const state of ["accepted", "released", "rejected", "modified"]) {
      this.amqp.on(state, ({ sender, delivery }) => sender.consumer?.settled(delivery, state));
    }
    for (const event of ["sender_close", "receiver_close"]) {
      this.amqp.on(event, ({ sender, receiver }) => (sender ?? receiver).cleanup?.());
    }
    // The engine wants these handled; the end of the socket, which follows, does the work.
    for (const event of ["connection_error", "connection_close", "session_error", "session_close", "disconnected"]) {
      this.amqp.on(event, () => this.endSessions());
    }
    for (const event of ["sender_error", "receiver_error"]) this.amqp.on(event, () => undefined);
    for (const event of ["protocol_error", "error"]) this.amqp.on(event, (error) => this.fail(error));
    this.amqp.accept(socket);
  }

  guard(handle) {
    try {
      handle();
    } catch (error) {
      this.fail(error);
    }
  }

  fail(error) {
    process.stderr.write(`broker: connection closed: ${error.stack}\n`);
    this.socket.destroy();
  }

  /** Let go of links whose session or connection is over. */
  endSessions() {
    for (const cleanup of [...this.cleanups]) if (cleanup.link.session.is_closed()) cleanup();
  }

  /** The socket is gone. */
  end() {
    for (const cleanup of [...this.cleanups]) cleanup();
  }

  onLinkEnd(link, action) {
    const cleanup = () => {
      if (this.cleanups.delete(cleanup)) action();
    };
    cleanup.link = link;
    link.cleanup = cleanup;
    this.cleanups.add(cleanup);
  }

  /** Confirm a link's terminus, attach it to an entity, or refuse it. */
  attach(link, terminus, handle) {
    link.set_source({ address: link.source?.address ?? "" });
    link.set_target({ address: link.target?.address ?? "" });
    const attach = link.local.attach;
    attach.snd_settle_mode = link.snd_settle_mode;
    attach.rcv_settle_mode = link.rcv_settle_mode;
    attach.max_message_size = this.server.maxMessageBytes;
    try {
      handle(parseAddress(terminus?.address));
    } catch (error) {
      if (!(error instanceof BrokerError)) throw error;
      attach.source = undefined; // a terminus of null announces that the link is closed at once
      attach.target = undefined;
      this.refuse(link, amqpError(error.condition, error.message));
    }
  }

  /** Close a link with an error. The Python SDK may have sent on it by then: those messages get the same answer. */
  refuse(link, error) {
    link.refusal = error;
    if (link.is_receiver()) link.add_credit(SENDER_CREDIT);
    link.close(error);
  }

  closeOnDelete(link, entity, action) {
    const close = (reason) => {
      link.cleanup();
      this.refuse(link, amqpError("amqp:not-found", reason));
    };
    entity.closers.add(close);
    this.onLinkEnd(link, () => {
      entity.closers.delete(close);
      action();
    });
  }

  /** A client that sends. */
  receiver_open({ receiver }) {
    this.attach(receiver, receiver.target, (address) => {
      if (address.node === "entity") {
        if (address.subscription) throw new BrokerError("argument", "messages are sent to a topic, not a subscription");
        receiver.topic = this.server.namespace.topic(address.topic);
        this.closeOnDelete(receiver, receiver.topic, () => undefined);
        receiver.add_credit(SENDER_CREDIT);
      } else {
        receiver.management = this.server.management.node(address);
        receiver.nodePath = address.path.toLowerCase();
        receiver.add_credit(REQUEST_CREDIT);
      }
    });
  }

  /** A client that receives. */
  sender_open({ sender }) {
    this.attach(sender, sender.source, (address) => {
      if (address.node !== "entity") {
        const key = address.path.toLowerCase();
        sender.replies = [];
        this.replyLinks.set(key, sender);
        this.onLinkEnd(sender, () => {
          if (this.replyLinks.get(key) === sender) this.replyLinks.delete(key);
        });
        return;
      }
      const topic = this.server.namespace.topic(address.topic);
      if (!address.subscription) throw new BrokerError("argument", "messages are received from a subscription");
      const subscription = topic.subscription(address.subscription);
      const queue = address.deadLetters ? subscription.deadLetters : subscription.queue;
      sender.consumer = new LinkConsumer(sender, queue);
      this.closeOnDelete(sender, subscription, () => {
        sender.consumer.close();
        subscription.touch();
      });
      queue.addConsumer(sender.consumer);
    });
  }

  sender_flow({ sender }) {
    // A client that takes credit back while messages are on their way leaves less than none. The engine counts down
    // to zero when it drains, and would never arrive.
    sender.credit = Math.max(0, sender.credit);
    if (sender.consumer) sender.consumer.queue.pump();
    if (sender.replies) this.sendReplies(sender);
  }

  sender_draining({ sender }) {
    sender.consumer?.queue.deliverReady();
    sender.set_drained(true);
  }

  message({ receiver, delivery, message, format }) {
    if (receiver.refusal) {
      delivery.update(true, rhea.message.rejected({ error: receiver.refusal }).described());
    } else if (receiver.management) {
      this.request(receiver, delivery, message);
    } else {
      this.server.faults.whenRunning(() => this.guard(() => this.send(receiver, delivery, message, format ?? 0)));
    }
  }

  /** A transfer to a topic: take it and say so, or refuse it. */
  send(receiver, delivery, bytes, format) {
    const { topic } = receiver;
    topic.counters.sends += 1;
    const fault = this.server.faults.next(topic.name, () => decodeTransfer(bytes, format).map(({ id }) => id));
    let refusal = fault && amqpError(fault.condition, fault.description);
    try {
      if (!fault || fault.stored) this.publish(topic, bytes, format);
    } catch (error) {
      if (!(error instanceof BrokerError)) throw error;
      refusal = amqpError(error.condition, error.message);
    }
    if (refusal) topic.counters.refused += 1;
    if (fault?.action === "drop") {
      this.socket.destroy();
      return;
    }
    delivery.update(true, outcome(refusal, fault?.action).described());
    if (receiver.credit <= SENDER_CREDIT / 2) receiver.add_credit(SENDER_CREDIT - receiver.credit);
  }

  publish(topic, bytes, format) {
    const limit = this.server.maxMessageBytes;
    if (bytes?.length > limit) {
      throw new BrokerError("too-large", `a message of ${bytes.length} bytes is over the limit of ${limit}`);
    }
    topic.publish(decodeTransfer(bytes, format));
  }

  /** A request to a management node: the answer goes out on the client's link from that node. */
  request(receiver, delivery, bytes) {
    const request = decodeRequest(bytes);
    delivery.update(true, rhea.message.accepted().described());
    receiver.add_credit(1);
    const link = this.replyLinks.get(receiver.nodePath);
    if (!link) return;
    link.replies.push(receiver.management(request));
    this.sendReplies(link);
  }

  sendReplies(link) {
    while (link.replies.length > 0 && link.sendable()) {
      const delivery = link.send(link.replies.shift());
      delivery.settled = true;
      delivery.remote_settled = true;
    }
  }
}

/** All AMQP connections of the broker. */
class AmqpServer {
  /**
   * @param {object} options
   * @param {import("./topics.js").Namespace} options.namespace
   * @param {import("./faults.js").Faults} options.faults
   * @param {number} options.maxMessageBytes
   */
  constructor({ namespace, faults, maxMessageBytes }) {
    this.namespace = namespace;
    this.faults = faults;
    this.maxMessageBytes = maxMessageBytes;
    this.management = new Management(namespace);
    /** @type {Set<ClientConnection>} */
    this.connections = new Set();
    this.container = rhea.create_container({
      id: "local-service-bus",
      sender_options: { autosettle: false, treat_modified_as_released: false },
      receiver_options: { autosettle: false, autoaccept: false, credit_window: 0 },
    });
  }

  /** Serve a socket that speaks AMQP. */
  accept(socket) {
    const connection = new ClientConnection(this, socket);
    this.connections.add(connection);
    socket.once("close", () => {
      this.connections.delete(connection);
      connection.end();
    });
  }

  /**
   * End all connections: cut, or closed in the protocol with an error condition.
   * @param {string | undefined} condition
   */
  closeConnections(condition) {
    for (const { amqp, socket } of [...this.connections]) {
      if (condition) amqp.close(amqpError(condition, "closed on request of a test"));
      setTimeout(() => socket.destroy(), condition ? CLOSE_MS : 0);
    }
  }

  /** Cut all connections, and wait until they have gone. */
  async dropConnections() {
    const gone = [...this.connections].map(({ socket }) => once(socket, "close"));
    for (const { socket } of this.connections) socket.destroy();
    await Promise.all(gone);
  }
}

module.exports = { AmqpServer };
