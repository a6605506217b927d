"use strict";
// Topics, subscriptions and rules as the Atom entries of the administration API, both ways.

const { BrokerError } = require("./errors.js");
const { CORRELATION_FIELDS } = require("./rules.js");
const { child, descendant, escapeXml } = require("./xml.js");

const SERVICE_BUS = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect";
const COUNTS = "http://schemas.microsoft.com/netservices/2011/06/servicebus";
const INSTANCE = "http://www.w3.org/2001/XMLSchema-instance";
const SCHEMA = "http://www.w3.org/2001/XMLSchema";
const FOREVER = "P10675199DT2H48M5.4775807S"; // the longest time span there is; stands for no limit
const FOREVER_SECONDS = 10675199 * 86400;
const FILTER_TYPES = { true: "TrueFilter", false: "FalseFilter", sql: "SqlFilter", correlation: "CorrelationFilter" };
const CONSTANT_FILTERS = { true: "1=1", false: "1=0" };

function element(name, content, attributes = "") {
  return `<${name}${attributes}>${content}</${name}>`;
}

function elements(values) {
  return Object.entries(values).map(([name, value]) => element(name, escapeXml(value))).join("");
}

function duration(seconds) {
  return Number.isFinite(seconds) ? `PT${seconds}S` : FOREVER;
}

function seconds(text) {
  const match = /^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?)?$/.exec(text);
  if (!match) throw new BrokerError("argument", `${text} is not a duration`);
  const [days, hours, minutes, rest] = match.slice(1).map((part) => Number(part ?? 0));
  const total = ((days * 24 + hours) * 60 + minutes) * 60 + rest;
  return total >= FOREVER_SECONDS ? Infinity : total;
}

function time(milliseconds) {
  return new Date(milliseconds).toISOString();
}

/** Fields of descriptions, each with the key of our configuration and how its text is read. */
const TOPIC_FIELDS = {
  DuplicateDetectionHistoryTimeWindow: ["duplicateDetectionSeconds", seconds],
};
const SUBSCRIPTION_FIELDS = {
  LockDuration: ["lockSeconds", seconds],
  DefaultMessageTimeToLive: ["timeToLiveSeconds", seconds],
  DeadLetteringOnMessageExpiration: ["deadLetterOnExpiration", (text) => text === "true"],
  MaxDeliveryCount: ["maxDeliveryCount", Number],
  AutoDeleteOnIdle: ["autoDeleteSeconds", seconds],
};

/** Settings that the local broker lacks, and that change what a message goes through: refused, not ignored. */
const REFUSED = {
  RequiresSession: (text) => text === "true",
  ForwardTo: (text) => text !== "",
  ForwardDeadLetteredMessagesTo: (text) => text !== "",
};

function readFields(description, fields) {
  const config = {};
  for (const { name, text } of description.children) {
    if (REFUSED[name]?.(text)) throw new BrokerError("not-implemented", `${name} is not offered by the local broker`);
    if (fields[name]) config[fields[name][0]] = fields[name][1](text);
  }
  return config;
}

function find(document, name) {
  const found = descendant(document, name);
  if (!found) throw new BrokerError("argument", `the body holds no ${name}`);
  return found;
}

/** Configuration of a topic from a request's body. */
function readTopicEntry(document) {
  const description = find(document, "TopicDescription");
  const config = readFields(description, TOPIC_FIELDS);
  if (child(description, "RequiresDuplicateDetection")?.text !== "true") config.duplicateDetectionSeconds = 0;
  return config;
}

/** Configuration of a subscription from a request's body. */
function readSubscriptionEntry(document) {
  return readFields(find(document, "SubscriptionDescription"), SUBSCRIPTION_FIELDS);
}

function readValue({ text, attributes }) {
  const type = (attributes.type ?? "").split(":").at(-1);
  if (type === "boolean") return text === "true";
  if (type === "string") return text;
  if (["int", "long", "double"].includes(type)) return Number(text);
  throw new BrokerError("not-implemented", `values of type ${type} are not offered by the local broker`);
}

function readPairs(parent) {
  const pairs = parent?.children ?? [];
  return Object.fromEntries(pairs.map((pair) => [child(pair, "Key")?.text ?? "", readValue(child(pair, "Value"))]));
}

/** Filter of a rule from a request's body. */
function readRuleEntry(document) {
  const description = find(document, "RuleDescription");
  const action = child(description, "Action")?.attributes.type ?? "EmptyRuleAction";
  if (action !== "EmptyRuleAction") {
    throw new BrokerError("not-implemented", "rule actions are not offered by the local broker");
  }
  const filter = child(description, "Filter");
  const type = Object.keys(FILTER_TYPES).find((key) => FILTER_TYPES[key] === filter?.attributes.type);
  if (!type) throw new BrokerError("argument", "the rule has no known filter");
  if (type === "sql") {
    const sql = child(filter, "SqlExpression")?.text ?? "";
    return { type, sql, parameters: readPairs(child(filter, "Parameters")) };
  }
  if (type !== "correlation") return { type };
  const correlation = { properties: readPairs(child(filter, "Properties")) };
  for (const field of Object.keys(CORRELATION_FIELDS)) {
    const given = child(filter, field[0].toUpperCase() + field.slice(1));
    if (given) correlation[field] = given.text;
  }
  return { type, correlation };
}

function countDetails(active, dead) {
  const counts = {
    ActiveMessageCount: active,
    DeadLetterMessageCount: dead,
    ScheduledMessageCount: 0,
    TransferMessageCount: 0,
    TransferDeadLetterMessageCount: 0,
  };
  const prefixed = Object.entries(counts).map(([name, value]) => element(`c:${name}`, value));
  return element("CountDetails", prefixed.join(""), ` xmlns:c="${COUNTS}"`);
}

function history(createdAt) {
  return elements({ CreatedAt: time(createdAt), UpdatedAt: time(createdAt), AccessedAt: time(createdAt) });
}

/** Description of a topic. */
function topicDescription(topic) {
  const { config, subscriptions } = topic;
  const fields = elements({
    DefaultMessageTimeToLive: FOREVER,
    MaxSizeInMegabytes: config.maxMegabytes,
    RequiresDuplicateDetection: config.duplicateDetectionSeconds > 0,
    DuplicateDetectionHistoryTimeWindow: duration(config.duplicateDetectionSeconds),
    EnableBatchedOperations: true,
    SizeInBytes: topic.bytes,
    Status: "Active",
  });
  const rest = elements({
    SubscriptionCount: subscriptions.size,
    AutoDeleteOnIdle: FOREVER,
    EnablePartitioning: false,
    EntityAvailabilityStatus: "Available",
  });
  return ["TopicDescription", fields + history(topic.createdAt) + countDetails(0, 0) + rest];
}

/** Description of a subscription. */
function subscriptionDescription({ config, queue, deadLetters, createdAt }) {
  const [active, dead] = [queue.counts().active, deadLetters.counts().active];
  const fields = elements({
    LockDuration: duration(config.lockSeconds),
    RequiresSession: false,
    DefaultMessageTimeToLive: duration(config.timeToLiveSeconds),
    DeadLetteringOnMessageExpiration: config.deadLetterOnExpiration,
    DeadLetteringOnFilterEvaluationExceptions: false,
    MessageCount: active + dead,
    MaxDeliveryCount: config.maxDeliveryCount,
    EnableBatchedOperations: true,
    Status: "Active",
  });
  const rest = elements({
    AutoDeleteOnIdle: duration(config.autoDeleteSeconds),
    EntityAvailabilityStatus: "Available",
  });
  return ["SubscriptionDescription", fields + history(createdAt) + countDetails(active, dead) + rest];
}

function typeOf(value) {
  if (typeof value === "boolean") return "boolean";
  if (typeof value === "string") return "string";
  return Number.isInteger(value) ? "long" : "double";
}

function pairs(values) {
  const one = ([key, value]) =>
    element(
      "KeyValueOfstringanyType",
      element("Key", escapeXml(key)) +
        element("Value", escapeXml(value), ` xmlns:d6p1="${SCHEMA}" i:type="d6p1:${typeOf(value)}"`),
    );
  return Object.entries(values).map(one).join("");
}

function filterContent({ type, sql, parameters = {}, correlation }) {
  if (type === "correlation") {
    const { properties = {}, ...fields } = correlation;
    const named = Object.entries(fields).map(([field, value]) => [field[0].toUpperCase() + field.slice(1), value]);
    return elements(Object.fromEntries(named)) + element("Properties", pairs(properties));
  }
  const expression = type === "sql" ? sql : CONSTANT_FILTERS[type];
  return elements({ SqlExpression: expression, CompatibilityLevel: 20 }) + element("Parameters", pairs(parameters));
}

/** Description of a rule. */
function ruleDescription({ name, filter, createdAt }) {
  const content =
    element("Filter", filterContent(filter), ` i:type="${FILTER_TYPES[filter.type]}"`) +
    element("Action", "", ' i:type="EmptyRuleAction"') +
    elements({ CreatedAt: time(createdAt), Name: name });
  return ["RuleDescription", content];
}

/** Description of the namespace. */
function namespaceDescription(createdAt) {
  const fields = {
    Alias: "",
    CreatedTime: time(createdAt),
    MessagingSKU: "Standard",
    ModifiedTime: time(createdAt),
    Name: "local",
    NamespaceType: "Messaging",
  };
  return ["NamespaceInfo", elements(fields)];
}

/** An Atom entry around a description. */
function entry(href, title, createdAt, [kind, content]) {
  const description = element(kind, content, ` xmlns="${SERVICE_BUS}" xmlns:i="${INSTANCE}"`);
  const body =
    elements({ id: href }) +
    element("title", escapeXml(title), ' type="text"') +
    elements({ published: time(createdAt), updated: time(createdAt) }) +
    `<author><name>local</name></author><link rel="self" href="${escapeXml(href)}"/>` +
    element("content", description, ' type="application/xml"');
  return element("entry", body, ' xmlns="http://www.w3.org/2005/Atom"');
}

/**
 * An Atom feed.
 * @param {string} href
 * @param {string[]} entries
 * @param {string | undefined} next where the next page is
 */
function feed(href, updated, entries, next) {
  const links = [["self", href], ...(next ? [["next", next]] : [])];
  const body =
    elements({ id: href }) +
    '<title type="text">List</title>' +
    elements({ updated: time(updated) }) +
    links.map(([rel, to]) => `<link rel="${rel}" href="${escapeXml(to)}"/>`).join("") +
    entries.join("");
  return element("feed", body, ' xmlns="http://www.w3.org/2005/Atom"');
}

module.exports = {
  entry,
  feed,
  namespaceDescription,
  readRuleEntry,
  readSubscriptionEntry,
  readTopicEntry,
  ruleDescription,
  subscriptionDescription,
  topicDescription,
};
