"use strict";
// What both HTTP servers share: reading a body of bounded size, answering, and turning errors into answers.

const http = require("node:http");
const { BrokerError } = require("./errors.js");

const MAX_BODY_BYTES = 256 * 1024;
const KEEP_ALIVE_MS = 3_600_000; // idle connections stay: closing one just as a client uses it shows up as an error

async function readBody(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > MAX_BODY_BYTES) throw new BrokerError("too-large", `a body of more than ${MAX_BODY_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** @typedef {{status: number, body: string}} Answer */

/**
 * An HTTP server.
 * @param {object} options
 * @param {string} options.type content type of answers
 * @param {(request: http.IncomingMessage, body: string) => Answer | Promise<Answer>} options.handle
 * @param {(status: number, message: string) => string} options.renderError
 */
function makeHttpServer({ type, handle, renderError }) {
  const server = http.createServer(async (request, response) => {
    let answer;
    try {
      answer = await handle(request, await readBody(request));
    } catch (error) {
      if (!(error instanceof BrokerError)) process.stderr.write(`broker: ${error.stack}\n`);
      const status = error instanceof BrokerError ? error.status : 500;
      answer = { status, body: renderError(status, error.message) };
    }
    response.writeHead(answer.status, { "Content-Type": type });
    response.end(answer.body);
  });
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  return server;
}

module.exports = { makeHttpServer };
