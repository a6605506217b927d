"use strict";
// Topics and subscriptions: what a message sent to a topic becomes.

const { BrokerError } = require("./errors.js");
const { checkName } = require("./names.js");
const { MAX_TIMER_MS, MessageQueue } = require("./queue.js");
const { Rule } = require("./rules.js");

const MAX_REMEMBERED_IDS = 500_000; // per topic, the oldest are forgotten first; memory, whatever the window

/** A subscription of a topic. */
class Subscription {
  /**
   * @param {Topic} topic
   * @param {import("./config.js").SubscriptionConfig} config
   */
  constructor(topic, config) {
    checkName("subscription", config.name);
    this.topic = topic;
    this.name = config.name;
    this.createdAt = topic.now();
    this.rules = new Map();
    this.closers = new Set();
    this.config = config;
    this.queue = this.makeQueue(config);
    this.deadLetters = this.makeQueue({ ...config, maxDeliveryCount: Infinity });
    for (const rule of config.rules) this.addRule(rule.name, rule.filter);
    this.touch();
  }

  makeQueue(config) {
    return new MessageQueue({
      lockMs: config.lockSeconds * 1000,
      maxDeliveryCount: config.maxDeliveryCount,
      now: this.topic.now,
      onDead: (entry, reason, description) => this.bury(entry, reason, description),
      onExpired: (entry) => {
        if (!this.config.deadLetterOnExpiration) return;
        this.bury(entry, "TTLExpiredException", "The message expired and was dead lettered.");
      },
      onBytes: (bytes) => {
        this.topic.bytes += bytes;
      },
    });
  }

  bury(entry, reason, description) {
    const applicationProperties = { DeadLetterReason: reason, DeadLetterErrorDescription: description };
    this.deadLetters.add(entry.message, { applicationProperties });
  }

  /** Whether any rule selects the message; however many do, the subscription gets one copy. */
  selects(message) {
    for (const rule of this.rules.values()) if (rule.matches(message)) return true;
    return false;
  }

  add(message) {
    const lifetimes = [message.timeToLive, this.config.timeToLiveSeconds * 1000].filter((ms) => ms > 0);
    this.queue.add(message, { expiresAt: this.topic.now() + Math.min(Infinity, ...lifetimes) });
  }

  addRule(name, filter) {
    const rule = new Rule(name, filter, this.topic.now());
    if (this.rules.has(rule.name.toLowerCase())) throw new BrokerError("exists", `rule ${name} exists`);
    this.rules.set(rule.name.toLowerCase(), rule);
    return rule;
  }

  rule(name) {
    const rule = this.rules.get(name.toLowerCase());
    if (!rule) throw new BrokerError("not-found", `rule ${name} of subscription ${this.name} does not exist`);
    return rule;
  }

  removeRule(name) {
    this.rule(name);
    this.rules.delete(name.toLowerCase());
  }

  /** The subscription is in use: count the time to its deletion for idleness anew. */
  touch() {
    clearTimeout(this.idleTimer);
    const idleMs = this.config.autoDeleteSeconds * 1000;
    if (!Number.isFinite(idleMs)) return;
    this.idleTimer = setTimeout(
      () => {
        if (this.closers.size > 0) this.touch();
        else this.topic.deleteSubscription(this.name);
      },
      Math.min(idleMs, MAX_TIMER_MS),
    );
  }

  /** Detach all clients and forget all messages. */
  close() {
    clearTimeout(this.idleTimer);
    for (const close of [...this.closers]) close(`subscription ${this.name} was deleted`);
    this.queue.clear();
    this.deadLetters.clear();
  }
}

/** MessageIds seen within the window. */
class RecentIds {
  constructor(windowMs, now) {
    this.windowMs = windowMs;
    this.now = now;
    this.seenAt = new Map();
  }

  /** Note an id; true if it was seen within the window before. */
  isRepeated(id) {
    if (this.windowMs === 0 || id === undefined) return false;
    for (const [old, at] of this.seenAt) {
      if (at > this.now() - this.windowMs && this.seenAt.size <= MAX_REMEMBERED_IDS) break;
      this.seenAt.delete(old);
    }
    if (this.seenAt.has(id)) return true;
    this.seenAt.set(id, this.now());
    return false;
  }
}

/** A topic. */
class Topic {
  /**
   * @param {import("./config.js").TopicConfig} config
   * @param {() => number} now milliseconds since 1970
   */
  constructor(config, now) {
    checkName("topic", config.name);
    this.now = now;
    this.name = config.name;
    this.config = config;
    this.createdAt = now();
    this.bytes = 0;
    this.subscriptions = new Map();
    this.closers = new Set();
    this.recentIds = new RecentIds(config.duplicateDetectionSeconds * 1000, now);
    this.counters = { sends: 0, messages: 0, duplicates: 0, refused: 0, unmatched: 0 };
    for (const subscription of config.subscriptions) this.addSubscription(subscription);
  }

  addSubscription(config) {
    if (this.subscriptions.has(config.name.toLowerCase())) {
      throw new BrokerError("exists", `subscription ${config.name} of topic ${this.name} exists`);
    }
    const subscription = new Subscription(this, config);
    this.subscriptions.set(config.name.toLowerCase(), subscription);
    return subscription;
  }

  subscription(name) {
    const subscription = this.subscriptions.get(name.toLowerCase());
    if (!subscription) {
      throw new BrokerError("not-found", `subscription ${name} of topic ${this.name} does not exist`);
    }
    return subscription;
  }

  deleteSubscription(name) {
    this.subscription(name).close();
    this.subscriptions.delete(name.toLowerCase());
  }

  /**
   * Take the messages of one send: all of them, or none.
   * @param {import("./message.js").Message[]} messages
   * @throws {BrokerError} `quota` if the topic is full, `not-implemented` for scheduled messages
   */
  publish(messages) {
    const limit = this.config.maxMegabytes * 1024 * 1024;
    if (this.bytes + messages.reduce((sum, message) => sum + message.size, 0) > limit) {
      throw new BrokerError("quota", `topic ${this.name} holds ${this.config.maxMegabytes} MB and is full`);
    }
    if (messages.some((message) => message.scheduledFor > this.now())) {
      throw new BrokerError("not-implemented", "scheduled messages are not offered by the local broker");
    }
    for (const message of messages) {
      this.counters.messages += 1;
      if (this.recentIds.isRepeated(message.id)) this.counters.duplicates += 1;
      else this.distribute(message);
    }
  }

  distribute(message) {
    let copies = 0;
    for (const subscription of this.subscriptions.values()) {
      if (!subscription.selects(message)) continue;
      subscription.add(message);
      copies += 1;
    }
    if (copies === 0) this.counters.unmatched += 1;
  }

  /** Detach all clients and forget all messages. */
  close() {
    for (const close of [...this.closers]) close(`topic ${this.name} was deleted`);
    for (const subscription of this.subscriptions.values()) subscription.close();
  }

  /** Numbers for tests. */
  counts() {
    const subscriptions = {};
    for (const { name, queue, deadLetters } of this.subscriptions.values()) {
      subscriptions[name] = { ...queue.counts(), deadLettered: deadLetters.counts().active };
    }
    return { ...this.counters, bytes: this.bytes, subscriptions };
  }
}

/** All topics of the broker. */
class Namespace {
  /** @param {() => number} now milliseconds since 1970 */
  constructor(now) {
    this.now = now;
    /** @type {Map<string, Topic>} */
    this.topics = new Map();
  }

  addTopic(config) {
    if (this.topics.has(config.name.toLowerCase())) throw new BrokerError("exists", `topic ${config.name} exists`);
    const topic = new Topic(config, this.now);
    this.topics.set(topic.name.toLowerCase(), topic);
    return topic;
  }

  topic(name) {
    const topic = this.topics.get(name.toLowerCase());
    if (!topic) throw new BrokerError("not-found", `topic ${name} does not exist`);
    return topic;
  }

  deleteTopic(name) {
    this.topic(name).close();
    this.topics.delete(name.toLowerCase());
  }
}

module.exports = { Namespace };
