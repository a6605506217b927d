"use strict";
// The administration API: HTTP with Atom, as ServiceBusAdministrationClient speaks it. Served on the AMQP port.

const atom = require("./atom.js");
const { readSubscription, readTopic } = require("./config.js");
const { BrokerError } = require("./errors.js");
const { makeHttpServer } = require("./http.js");
const { escapeXml, parseXml } = require("./xml.js");

const RULES = /^(.+)\/subscriptions\/([^/]+)\/rules(?:\/([^/]+))?$/i;
const SUBSCRIPTIONS = /^(.+)\/subscriptions(?:\/([^/]+))?$/i;
const MAX_PAGE = 100;

/** The collection that a path names, its key within it if any, and how to read and write its members. */
class Admin {
  /**
   * @param {import("./topics.js").Namespace} namespace
   * @param {object} settings what `readBroker` gave
   */
  constructor(namespace, settings) {
    this.namespace = namespace;
    this.settings = settings;
    this.createdAt = namespace.now();
  }

  collection(path) {
    const rules = RULES.exec(path);
    if (rules) return this.rules(this.namespace.topic(rules[1]).subscription(rules[2]), rules[3]);
    const subscriptions = SUBSCRIPTIONS.exec(path);
    if (subscriptions) return this.subscriptions(this.namespace.topic(subscriptions[1]), subscriptions[2]);
    if (path.toLowerCase() === "$resources/queues") return { members: () => [], describe: () => "" };
    return this.topics(path.toLowerCase() === "$resources/topics" ? undefined : path);
  }

  topics(key) {
    const { namespace, settings } = this;
    const read = (document) => readTopic({ ...atom.readTopicEntry(document), name: key }, settings);
    return {
      key,
      members: () => [...namespace.topics.values()],
      describe: atom.topicDescription,
      get: () => namespace.topic(key),
      create: (document) => namespace.addTopic(read(document)),
      delete: () => namespace.deleteTopic(key),
    };
  }

  subscriptions(topic, key) {
    const read = (document) => {
      const config = readSubscription({ ...atom.readSubscriptionEntry(document), name: key }, this.settings);
      const minimum = this.settings.minimumAutoDeleteSeconds;
      if (config.autoDeleteSeconds < minimum) {
        throw new BrokerError("argument", `AutoDeleteOnIdle must be at least ${minimum} seconds`);
      }
      return config;
    };
    return {
      key,
      members: () => [...topic.subscriptions.values()],
      describe: atom.subscriptionDescription,
      get: () => topic.subscription(key),
      create: (document) => topic.addSubscription(read(document)),
      delete: () => topic.deleteSubscription(key),
    };
  }

  rules(subscription, key) {
    subscription.touch();
    return {
      key,
      members: () => [...subscription.rules.values()],
      describe: atom.ruleDescription,
      get: () => subscription.rule(key),
      create: (document) => subscription.addRule(key, atom.readRuleEntry(document)),
      delete: () => subscription.removeRule(key),
    };
  }

  /** Answer a request. */
  handle(request, body) {
    const url = new URL(request.url, `http://${request.headers.host}`);
    const path = decodeURIComponent(url.pathname).replace(/^\/|\/$/g, "");
    if (path.toLowerCase() === "$namespaceinfo") {
      const description = atom.namespaceDescription(this.createdAt);
      return { status: 200, body: atom.entry(url.href, "local", this.createdAt, description) };
    }
    const collection = this.collection(path);
    if (collection.key === undefined) return list(request, url, collection);
    return one(request, url, collection, body);
  }
}

function list(request, url, { members, describe }) {
  if (request.method !== "GET") throw new BrokerError("not-implemented", `${request.method} of a list`);
  const skip = Number(url.searchParams.get("$skip") ?? 0);
  const top = Math.min(Number(url.searchParams.get("$top") ?? MAX_PAGE), MAX_PAGE);
  const all = members();
  const page = all.slice(skip, skip + top).map((member) => {
    return atom.entry(`${url.origin}${url.pathname}/${member.name}`, member.name, member.createdAt, describe(member));
  });
  const next = new URL(url);
  next.searchParams.set("$skip", String(skip + top));
  next.searchParams.set("$top", String(top));
  return { status: 200, body: atom.feed(url.href, Date.now(), page, skip + top < all.length ? next.href : undefined) };
}

function one(request, url, collection, body) {
  const render = (status) => {
    const member = collection.get();
    return { status, body: atom.entry(url.href, member.name, member.createdAt, collection.describe(member)) };
  };
  if (request.method === "GET") return render(200);
  if (request.method === "PUT" && !request.headers["if-match"]) {
    collection.create(parseXml(body));
    return render(201);
  }
  if (request.method !== "DELETE") {
    throw new BrokerError("not-implemented", `${request.method} of what exists is not offered by the local broker`);
  }
  collection.delete();
  return { status: 200, body: "" };
}

function renderError(status, message) {
  return `<Error><Code>${status}</Code><Detail>${escapeXml(message)}</Detail></Error>`;
}

/**
 * The server of the administration API; it is given its connections, and does not listen itself.
 * @param {import("./topics.js").Namespace} namespace
 * @param {object} settings what `readBroker` gave
 */
function makeAdminServer(namespace, settings) {
  const admin = new Admin(namespace, settings);
  return makeHttpServer({ type: "application/atom+xml", handle: admin.handle.bind(admin), renderError });
}

module.exports = { makeAdminServer };
