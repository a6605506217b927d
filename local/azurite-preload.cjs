"use strict";
/*
 * Loaded into each Azurite process before its main script (`node -r local/azurite-preload.cjs .../main.js`).
 * It changes six things, without touching the package:
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
 *    of one partition looks at that partition alone.
 *
 * 6. Port. Asked for any free port, the table service does not say which one it got; all three say it here.
 */
const http = require("node:http");
const https = require("node:https");
const path = require("node:path");

const KEEP_ALIVE_MS = 3_600_000;
const EXIT_MS = 3_000;

const Loki = require(require.resolve("lokijs", { paths: [path.dirname(process.argv[1])] }));
const { Collection } = Loki;
for (const method of ["remove", "update"]) {
  const original = Collection.prototype[method];
  Collection.prototype[method] = function (documents) {
    if (!Array.isArray(documents)) return original.call(this, documents);
    for (const document of [...documents]) original.call(this, document);
    return undefined;
  };
}
Loki.Resultset.prototype.remove = function () {
  for (const document of this.data()) this.collection.remove(document);
  this.filteredrows = [];
  return this;
};

const isRow = (document) => typeof document.PartitionKey === "string" && typeof document.RowKey === "string";
const rowsOf = new WeakMap(); // by collection: by partition: by row key, the document's id

function note(partitions, document) {
  let rows = partitions.get(document.PartitionKey);
  if (rows === undefined) partitions.set(document.PartitionKey, (rows = new Map()));
  rows.set(document.RowKey, document.$loki);
}

/* Made when it is first needed, since a collection that is loaded from disk gets its documents all at once. */
function partitionsOf(collection) {
  let partitions = rowsOf.get(collection);
  if (partitions === undefined) {
    rowsOf.set(collection, (partitions = new Map()));
    for (const document of collection.data) if (isRow(document)) note(partitions, document);
  }
  return partitions;
}

const { addCollection } = Loki.prototype;
Loki.prototype.addCollection = function (name, options) {
  const isTable = options?.indices?.includes?.("RowKey");
  return addCollection.call(this, name, isTable ? { ...options, indices: [] } : options);
};

const { insertOne, remove, findOne } = Collection.prototype;
Collection.prototype.insertOne = function (...args) {
  const document = insertOne.apply(this, args);
  if (document !== undefined && rowsOf.has(this) && isRow(document)) note(rowsOf.get(this), document);
  return document;
};
Collection.prototype.remove = function (document) {
  const rows = rowsOf.get(this)?.get(document.PartitionKey);
  if (rows !== undefined && rows.get(document.RowKey) === document.$loki) {
    rows.delete(document.RowKey);
    if (rows.size === 0) rowsOf.get(this).delete(document.PartitionKey);
  }
  return remove.call(this, document);
};
Collection.prototype.findOne = function (query) {
  if (!query || !isRow(query) || Object.keys(query).length !== 2) return findOne.call(this, query);
  const id = partitionsOf(this).get(query.PartitionKey)?.get(query.RowKey);
  return id === undefined ? null : this.get(id);
};
const { where } = Loki.Resultset.prototype;
Loki.Resultset.prototype.where = function (condition, ...rest) {
  if (condition.range === undefined || this.filterInitialized) return where.call(this, condition, ...rest);
  const { partition, start, end } = condition.range;
  for (const [key, id] of partitionsOf(this.collection).get(partition) ?? []) {
    if (start <= key && key < end) this.filteredrows.push(this.collection.get(id, true)[1]);
  }
  this.filterInitialized = true;
  return this;
};

const RANGE = /^PartitionKey eq '((?:[^']|'')*)' and RowKey ge '((?:[^']|'')*)' and RowKey lt '((?:[^']|'')*)'$/;
if (path.basename(path.dirname(process.argv[1])) === "table") {
  const generator = require(path.join(path.dirname(process.argv[1]), "persistence/LokiTableStoreQueryGenerator.js")).default;
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

for (const { Server } of [http, https]) {
  const { listen } = Server.prototype;
  Server.prototype.listen = function (...args) {
    this.keepAliveTimeout = KEEP_ALIVE_MS;
    this.once("listening", () => console.log(`listening on port ${this.address().port}`));
    return listen.apply(this, args);
  };
}

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
  process.stdin.once("end", stop).once("error", stop).resume();
  process.stdin.unref(); // an open pipe must not keep a closed server's process alive
}
