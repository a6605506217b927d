"use strict";
// One port for both protocols, since a connection string names one: AMQP, and HTTP for the administration API.

const net = require("node:net");

const FIRST_BYTE_OF_AMQP = "A".charCodeAt(0); // "AMQP" opens every connection; no HTTP method starts with A
const FIRST_BYTE_OF_TLS = 0x16;

/** Listens, and hands each connection to the server that speaks its protocol. */
class Listener {
  /**
   * @param {object} options
   * @param {string} options.host
   * @param {number} options.port 0 for any
   * @param {(socket: net.Socket) => void} options.amqp
   * @param {(socket: net.Socket) => void} options.http
   */
  constructor({ host, port, amqp, http }) {
    this.host = host;
    this.port = port;
    this.handlers = { amqp, http };
    this.server = net.createServer((socket) => this.sort(socket));
  }

  sort(socket) {
    socket.setNoDelay(true);
    socket.on("error", () => socket.destroy());
    socket.once("data", (start) => {
      socket.pause();
      socket.unshift(start);
      if (start[0] === FIRST_BYTE_OF_TLS) {
        process.stderr.write("broker: a client tried TLS; use UseDevelopmentEmulator=true (see README.md)\n");
        socket.destroy();
        return;
      }
      this.handlers[start[0] === FIRST_BYTE_OF_AMQP ? "amqp" : "http"](socket);
      process.nextTick(() => socket.resume());
    });
  }

  /** Start to listen; the port stays the same from the first time on. */
  listen() {
    if (this.server.listening) return Promise.resolve();
    return new Promise((resolve, reject) => {
      this.server.once("error", reject);
      this.server.listen(this.port, this.host, () => {
        this.server.off("error", reject);
        this.port = this.server.address().port;
        resolve();
      });
    });
  }

  /** Refuse new connections; those that are open stay. */
  stop() {
    if (this.server.listening) this.server.close();
  }
}

module.exports = { Listener };
