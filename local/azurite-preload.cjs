"use strict";
/*
 * Loaded into each Azurite process before its main script (`node -r local/azurite-preload.cjs .../main.js`).
 * It changes five things, without touching the package:
 *
 * 1. Speed. LokiJS, Azurite's store, handles an array given to remove() or update() by marking every index of
 *    the collection dirty, and sorts them all again at the next search. Azurite's queue calls remove([]) before
 *    each get, peek, update and delete, so each of those costs a sort of all resident messages, hidden ones
 *    included: 480 gets a second with an empty queue become 24 with 5,000 hidden messages. Taken one document at
 *    a time, the indexes are kept up to date in place, and an empty array costs nothing.
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
 * 5. Port. Asked for any free port, the table service does not say which one it got; all three say it here.
 */
const http = require("node:http");
const https = require("node:https");
const path = require("node:path");

const KEEP_ALIVE_MS = 3_600_000;
const EXIT_MS = 3_000;

const { Collection } = require(require.resolve("lokijs", { paths: [path.dirname(process.argv[1])] }));
for (const method of ["remove", "update"]) {
  const original = Collection.prototype[method];
  Collection.prototype[method] = function (documents) {
    if (!Array.isArray(documents)) return original.call(this, documents);
    for (const document of [...documents]) original.call(this, document);
    return undefined;
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
