"use strict";
/*
 * Loaded into Azurite, one process for all services, by the crash tests (`node -r`), after tools/local/azurite-preload.cjs.
 *
 * 1. Clock. A request with the header `clock` (milliseconds since 1970) sets the time that Azurite sees from then
 *    on: a visibility of hours passes at once, and time stands still between requests.
 *
 * 2. Look inside. GET /inside/rows, /inside/messages and /inside/blobs answer what the store holds, messages that
 *    no API shows while they are hidden, and uncommitted blocks, included. Nothing changes by looking.
 */
const http = require("node:http");
const path = require("node:path");

const RealDate = Date;
let told;
globalThis.Date = class Date extends RealDate {
  constructor(...args) {
    if (args.length === 0) super(Date.now());
    else super(...args);
  }

  static now() {
    return told ?? RealDate.now();
  }

  static [Symbol.hasInstance](value) {
    return value instanceof RealDate;
  }
};

const source = path.dirname(process.argv[1]);
const Loki = require(require.resolve("lokijs", { paths: [source] }));
const { default: MemoryExtentStore } = require(path.join(source, "common/persistence/MemoryExtentStore.js"));

const collections = new Map();
const { addCollection } = Loki.prototype;
Loki.prototype.addCollection = function (name, options) {
  const collection = addCollection.call(this, name, options);
  collections.set(name, collection);
  return collection;
};

const stores = new Map();
const { init } = MemoryExtentStore.prototype;
MemoryExtentStore.prototype.init = function () {
  stores.set(this.categoryName, this);
  return init.call(this);
};

async function content(service, persistency) {
  const pieces = [];
  for await (const piece of await stores.get(service).readExtent(persistency)) pieces.push(piece);
  return Buffer.concat(pieces).toString("base64");
}

async function contents(blocks) {
  const read = await Promise.all(blocks.map((block) => content("blob", block.persistency)));
  return Buffer.concat(read.map((text) => Buffer.from(text, "base64"))).toString("base64");
}

function documents(name, wanted) {
  return (collections.get(name)?.data ?? []).filter(wanted);
}

const looks = {
  rows(query) {
    const partition = query.get("partition");
    const wanted = (row) => partition === null || row.PartitionKey === partition;
    return documents(`${query.get("account")}$${query.get("table")}`, wanted).map((row) => ({
      partition: row.PartitionKey,
      key: row.RowKey,
      etag: row.eTag,
      properties: row.properties,
    }));
  },

  messages(query) {
    const prefix = query.get("prefix");
    const found = documents("$MESSAGES_COLLECTION$", (message) => message.queueName.startsWith(prefix));
    return Promise.all(
      found.map(async (message) => ({
        queue: message.queueName,
        text: await content("queue", message.persistency),
        messageId: message.messageId,
        popReceipt: message.popReceipt,
        visible: new RealDate(message.timeNextVisible).getTime(),
      })),
    );
  },

  async blobs(query) {
    const container = query.get("container");
    const ours = (document) => document.containerName === container && !document.isCommitted;
    const committed = documents("$BLOBS_COLLECTION$", (blob) => blob.containerName === container && blob.isCommitted);
    const blobs = committed.map(async (blob) => ({
      path: blob.name,
      etag: blob.properties.etag,
      content: await (blob.committedBlocksInOrder?.length
        ? contents(blob.committedBlocksInOrder)
        : content("blob", blob.persistency)),
    }));
    return {
      committed: await Promise.all(blobs),
      staged: documents("$BLOCKS_COLLECTION$", ours).map((block) => ({ path: block.blobName, block: block.name })),
    };
  },
};

async function answer(url, response) {
  const { pathname, searchParams } = new URL(url, "http://inside");
  try {
    const found = await looks[pathname.slice("/inside/".length)](searchParams);
    response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(found));
  } catch (error) {
    response.writeHead(500).end(error.stack);
  }
}

const { emit } = http.Server.prototype;
http.Server.prototype.emit = function (event, request, response, ...more) {
  if (event !== "request") return emit.call(this, event, request, response, ...more);
  if (request.headers.clock !== undefined) told = Number(request.headers.clock);
  if (!request.url.startsWith("/inside/")) return emit.call(this, event, request, response, ...more);
  answer(request.url, response);
  return true;
};
