"use strict";
/*
 * Loaded into each Azurite process before its main script (`node -r tools/local/azurite-preload.cjs .../main.js`).
 * It changes twelve things, without touching the package:
 *
 * 1. Speed. LokiJS, Azurite's store, handles an array given to remove() or update() by marking every index of
 *    the collection dirty, and sorts them all again at the next search. Azurite's queue calls remove([]) before
 *    each get, peek, update and delete, so each of those costs a sort of all resident messages, hidden ones
 *    included: 480 gets a second with an empty queue become 24 with 5,000 hidden messages. Taken one document at
 *    a time, the indexes are kept up to date in place, and an empty array costs nothing. The same goes for a search
 *    whose results are removed: once a minute Azurite removes the contents of deleted messages in this way, one
 *    message after the other, and serves nothing meanwhile, half a minute for a few thousand messages.
 *
 * 2. Keep-alive. Azurite closes sockets that were idle for 5 s, and its --*KeepAliveTimeout options have no effect
 *    (it reads them under another name). A client that reuses a socket at that moment sees a reset connection.
 *    Azure keeps idle sockets for minutes; here they stay for an hour.
 *
 * 3. Life. The parent holds the other end of standard input and never writes: its end means that the parent is
 *    gone, however it died, and Azurite follows.
 *
 * 4. End. The table service knows SIGINT only and would lose its last writes on a SIGTERM; and a second signal
 *    would cut any of them short while it writes its data out. Here a SIGTERM ends it once, in order.
 *
 * 5. Tables. A row is looked for among all rows of its partition, and a query looks at every row of the table, each
 *    by an interpreter of its filter; and two sorted indexes, which no query uses, are kept up to date in time that
 *    grows with the table. Here rows are found by table, partition and row key, as in Azure, and a query for a range
 *    of one partition looks at the rows of that range alone.
 *
 * 6. Messages. Each request looks at all messages of all queues, hidden ones included, one by one: with 5,000 of them
 *    it takes three times as long. Here those of a queue are in the order in which they become visible, and in that
 *    in which they expire.
 *
 * 7. Blobs. A blob is looked for among all blobs of the account, since a query begins with what it names first. Here it
 *    begins with the blob's name, for which there is an index.
 *
 * 8. Port. Asked for any free port, the table service does not say which one it got; all three say it here.
 *
 * 9. Start. Half of a start goes into loading packages for what is not used here: telemetry and logs, which are off, a
 *    database instead of Loki, requests to other services, the deletion of all data. They are not installed
 *    (tools/package.json), and one stand-in takes the place of all. What reads tokens of identities is loaded when the
 *    first one comes.
 *
 * 10. Each request. The templates of all paths are parsed again, and the random bytes of each id (three or more) are
 *    fetched by a call of the system. Templates are remembered, and bytes fetched in advance.
 *
 * 11. Text. The body of a message or a row is decoded piece by piece, as it comes from the connection, and a character
 *    that is in two pieces is lost. Here one decoder takes all pieces.
 *
 * 12. Faults. A line of JSON on standard input makes a service fail until the next line for its port: refuse requests
 *    with a status and an error code, cut their connections, or carry them out and lose the answers.
 */
const crypto = require("node:crypto");
const http = require("node:http");
const https = require("node:https");
const Module = require("node:module");
const path = require("node:path");

const KEEP_ALIVE_MS = 3_600_000;
const EXIT_MS = 3_000;

/* Azurite's own scripts: azurite.js has all services, <service>/main.js one. */
const script = process.argv[1];
const isAlone = path.basename(script) === "main.js";
const source = isAlone ? path.dirname(path.dirname(script)) : path.dirname(script);

/* What may be called, made and asked for anything, and does nothing. */
const nothing = new Proxy(function () {}, { get: () => nothing, apply: () => nothing, construct: () => ({}) });
const UNUSED = new Set(["applicationinsights", "axios", "morgan", "rimraf", "sequelize", "tough-cookie", "winston"]);
const NEEDED_LATER = "jsonwebtoken";
const MADE_QUICKER = { "uri-templates": remembering, "./lib/rng": () => randomBytesInAdvance };
const { _load } = Module;
Module._load = function (name, ...rest) {
  if (UNUSED.has(name)) return nothing;
  if (name === NEEDED_LATER) return new Proxy({}, { get: (_, key) => _load.call(this, name, ...rest)[key] });
  const loaded = _load.call(this, name, ...rest);
  return Object.hasOwn(MADE_QUICKER, name) ? MADE_QUICKER[name](loaded) : loaded;
};

/* The same function, which makes a result for each argument once: for few arguments, and results that do not change. */
function remembering(make) {
  const made = new Map();
  return (argument) => {
    if (!made.has(argument)) made.set(argument, make(argument));
    return made.get(argument);
  };
}

const UUID_BYTES = 16;
const inAdvance = Buffer.alloc(256 * UUID_BYTES);
let nextByte = inAdvance.length;

/* What a uuid is made of. */
function randomBytesInAdvance() {
  if (nextByte === inAdvance.length) {
    crypto.randomFillSync(inAdvance);
    nextByte = 0;
  }
  nextByte += UUID_BYTES;
  return inAdvance.subarray(nextByte - UUID_BYTES, nextByte);
}

const Loki = require(require.resolve("lokijs", { paths: [source] }));
const { Collection } = Loki;
for (const method of ["remove", "update"]) {
  const original = Collection.prototype[method];
  Collection.prototype[method] = function (documents) {
    if (!Array.isArray(documents)) return original.call(this, documents);
    for (const document of [...documents]) this[method](document);
    return undefined;
  };
}
Loki.Resultset.prototype.remove = function () {
  for (const document of this.data()) this.collection.remove(document);
  this.filteredrows = [];
  return this;
};

/* Ids of documents in the order of a value of theirs. */
class Ordered {
  entries = [];

  /* The position of the first entry that is not before this one. */
  position(value, id = -Infinity) {
    let [low, high] = [0, this.entries.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const entry = this.entries[middle];
      if (entry.value < value || (entry.value === value && entry.id < id)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  add(value, id) {
    const last = this.entries.at(-1);
    if (last === undefined || last.value < value) this.entries.push({ value, id });
    else this.entries.splice(this.position(value, id), 0, { value, id });
  }

  remove(value, id) {
    const at = this.position(value, id);
    const found = this.entries[at];
    if (found?.value === value && found.id === id) this.entries.splice(at, 1);
  }

  ids(from, to) {
    return this.entries.slice(from, to).map(({ id }) => id);
  }
}

/* What is remembered of a collection: made when it is first needed, since one that is loaded from disk gets its
 * documents all at once. */
class Remembered {
  #collections = new WeakMap();

  constructor(Index, isOfIt) {
    this.Index = Index;
    this.isOfIt = isOfIt;
  }

  known(collection) {
    return this.#collections.get(collection);
  }

  of(collection) {
    let index = this.#collections.get(collection);
    if (index === undefined) {
      this.#collections.set(collection, (index = new this.Index()));
      for (const document of collection.data) if (this.isOfIt(document)) index.add(document);
    }
    return index;
  }
}

/* The rows of a table by partition, in the order of their keys. */
class Rows {
  #partitions = new Map();

  add({ PartitionKey, RowKey, $loki }) {
    let rows = this.#partitions.get(PartitionKey);
    if (rows === undefined) this.#partitions.set(PartitionKey, (rows = new Ordered()));
    rows.add(RowKey, $loki);
  }

  remove({ PartitionKey, RowKey, $loki }) {
    const rows = this.#partitions.get(PartitionKey);
    rows?.remove(RowKey, $loki);
    if (rows?.entries.length === 0) this.#partitions.delete(PartitionKey);
  }

  find(partition, row) {
    const rows = this.#partitions.get(partition);
    const found = rows?.entries[rows.position(row)];
    return found?.value === row ? found.id : undefined;
  }

  range(partition, start, end) {
    const rows = this.#partitions.get(partition);
    return rows === undefined ? [] : rows.ids(rows.position(start), rows.position(end));
  }
}

/* The messages by queue. What a message was filed under is kept beside it, as Azurite changes documents in place. */
class Messages {
  #queues = new Map();
  #filed = new Map();

  add({ accountName, queueName, messageId, timeNextVisible, expirationTime, $loki }) {
    const name = `${accountName}/${queueName}`;
    let queue = this.#queues.get(name);
    if (queue === undefined) {
      queue = { byId: new Map(), timeNextVisible: new Ordered(), expirationTime: new Ordered() };
      this.#queues.set(name, queue);
    }
    const filed = { name, messageId, timeNextVisible: Number(timeNextVisible), expirationTime: Number(expirationTime) };
    this.#filed.set($loki, filed);
    queue.byId.set(messageId, $loki);
    for (const property of ["timeNextVisible", "expirationTime"]) queue[property].add(filed[property], $loki);
  }

  remove({ $loki }) {
    const filed = this.#filed.get($loki);
    if (filed === undefined) return;
    const queue = this.#queues.get(filed.name);
    this.#filed.delete($loki);
    queue.byId.delete(filed.messageId);
    for (const property of ["timeNextVisible", "expirationTime"]) queue[property].remove(filed[property], $loki);
  }

  update(document) {
    this.remove(document);
    this.add(document);
  }

  /* Ids of the messages that a query of Azurite's asks for; undefined for one of another form. */
  find({ accountName, queueName, ...rest }) {
    const queue = this.#queues.get(`${accountName}/${queueName}`);
    const names = Object.keys(rest);
    if (names.length > 1) return undefined;
    if (queue === undefined) return [];
    if (names.length === 0) return queue.timeNextVisible.ids(0);
    const [name] = names;
    if (name === "messageId") return queue.byId.has(rest.messageId) ? [queue.byId.get(rest.messageId)] : [];
    const latest = rest[name]?.$lte;
    if (typeof latest !== "number" || queue[name] === undefined) return undefined;
    return queue[name].ids(0, queue[name].position(latest, Infinity));
  }
}

const isRow = (document) => typeof document.PartitionKey === "string" && typeof document.RowKey === "string";
const isMessage = (document) => typeof document.queueName === "string" && document.messageId !== undefined;
const rowsOf = new Remembered(Rows, isRow);
const messagesOf = new Remembered(Messages, isMessage);

function positions(collection, ids) {
  return ids.map((id) => collection.get(id, true)[1]);
}

const { addCollection } = Loki.prototype;
Loki.prototype.addCollection = function (name, options) {
  const isTable = options?.indices?.includes?.("RowKey");
  return addCollection.call(this, name, isTable ? { ...options, indices: [] } : options);
};

const { insertOne, remove, update, findOne } = Collection.prototype;
Collection.prototype.insertOne = function (...args) {
  const document = insertOne.apply(this, args);
  if (document !== undefined) {
    if (isRow(document)) rowsOf.known(this)?.add(document);
    else if (isMessage(document)) messagesOf.known(this)?.add(document);
  }
  return document;
};
Collection.prototype.update = function (document) {
  const updated = update.call(this, document);
  if (!Array.isArray(document) && isMessage(document)) messagesOf.known(this)?.update(document);
  return updated;
};
Collection.prototype.remove = function (document) {
  if (!Array.isArray(document) && isRow(document)) rowsOf.known(this)?.remove(document);
  else if (!Array.isArray(document) && isMessage(document)) messagesOf.known(this)?.remove(document);
  return remove.call(this, document);
};
Collection.prototype.findOne = function (query) {
  if (!query || !isRow(query) || Object.keys(query).length !== 2) return findOne.call(this, query);
  const id = rowsOf.of(this).find(query.PartitionKey, query.RowKey);
  return id === undefined ? null : this.get(id);
};
const { find, where, compoundsort } = Loki.Resultset.prototype;
function byName(query) {
  const names = Object.keys(query).filter((key) => key === "name" || key === "blobName");
  return Object.assign(Object.fromEntries(names.map((key) => [key, query[key]])), query);
}
const BY_TIME = JSON.stringify([["timeNextVisible", false], ["$loki", false]]);
const inOrder = new WeakSet();
Loki.Resultset.prototype.find = function (query, firstOnly) {
  if (query?.containerName !== undefined) query = byName(query);
  const isOfQueue = query && query.accountName !== undefined && query.queueName !== undefined;
  const ids = isOfQueue && !this.filterInitialized ? messagesOf.of(this.collection).find(query) : undefined;
  if (ids === undefined) return find.call(this, query, firstOnly);
  this.filteredrows = positions(this.collection, firstOnly ? ids.slice(0, 1) : ids);
  this.filterInitialized = true;
  if (query.timeNextVisible !== undefined) inOrder.add(this);
  return this;
};
Loki.Resultset.prototype.compoundsort = function (properties) {
  return inOrder.has(this) && JSON.stringify(properties) === BY_TIME ? this : compoundsort.call(this, properties);
};
Loki.Resultset.prototype.where = function (condition, ...rest) {
  if (condition.range === undefined || this.filterInitialized) return where.call(this, condition, ...rest);
  const { partition, start, end } = condition.range;
  this.filteredrows = positions(this.collection, rowsOf.of(this.collection).range(partition, start, end));
  this.filterInitialized = true;
  return this;
};

const RANGE = /^PartitionKey eq '((?:[^']|'')*)' and RowKey ge '((?:[^']|'')*)' and RowKey lt '((?:[^']|'')*)'$/;
if (!isAlone || path.basename(path.dirname(script)) === "table") {
  const generator = require(path.join(source, "table/persistence/LokiTableStoreQueryGenerator.js")).default;
  const { generateQueryForPersistenceLayer } = generator;
  generator.generateQueryForPersistenceLayer = function (options, context) {
    const condition = generateQueryForPersistenceLayer.call(this, options, context);
    const range = RANGE.exec(options?.filter ?? "");
    if (range !== null) {
      const [partition, start, end] = range.slice(1).map((text) => text.replaceAll("''", "'"));
      condition.range = { partition, start, end };
    }
    return condition;
  };
}

for (const service of ["queue", "table"]) {
  if (isAlone && path.basename(path.dirname(script)) !== service) continue;
  const adapter = require(path.join(source, service, "generated/ExpressRequestAdapter.js")).default;
  adapter.prototype.getBodyStream = function () {
    const isBatch = (this.req.headers["content-type"] ?? "").startsWith("multipart/"); // read as bytes
    return isBatch ? this.req : this.req.setEncoding("utf8");
  };
}

for (const { Server } of [http, https]) {
  const { listen } = Server.prototype;
  Server.prototype.listen = function (...args) {
    this.keepAliveTimeout = KEEP_ALIVE_MS;
    this.once("listening", () => console.log(`listening on port ${this.address().port}`));
    return listen.apply(this, args);
  };
}

const faults = new Map();

/* Whether the request was dealt with. */
function failed(request, response) {
  const fault = faults.get(request.socket.localPort);
  if (fault === undefined) return false;
  if (fault.kind === "lose") {
    response.writeHead = () => response;
    response.write = () => true;
    response.end = () => request.socket.destroy();
    return false;
  }
  if (fault.kind === "cut") request.socket.destroy();
  else {
    request.resume();
    response.writeHead(fault.status, { "content-type": "application/xml", "x-ms-error-code": fault.code });
    response.end(`<?xml version="1.0" encoding="utf-8"?><Error><Code>${fault.code}</Code><Message>A fault.</Message></Error>`);
  }
  return true;
}

const { emit } = http.Server.prototype;
http.Server.prototype.emit = function (name, ...args) {
  return name === "request" && failed(...args) ? true : emit.call(this, name, ...args);
};

let stopping = false;
process.on("SIGTERM", () => {
  if (stopping) return;
  stopping = true;
  setTimeout(() => process.exit(0), EXIT_MS).unref();
  const ownHandlerFollows = process.listenerCount("SIGTERM") > 1;
  if (!ownHandlerFollows) process.emit("SIGINT");
});
if (process.env.AZURITE_FOLLOWS_STDIN === "1") {
  const stop = () => process.emit("SIGTERM");
  require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
    const { port, ...fault } = JSON.parse(line);
    if (fault.kind === "none") faults.delete(port);
    else faults.set(port, fault);
  });
  process.stdin.once("end", stop).once("error", stop).resume();
  process.stdin.unref(); // an open pipe must not keep a closed server's process alive
}
