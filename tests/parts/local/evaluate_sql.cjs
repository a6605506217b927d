"use strict";
// Evaluates filters for tests: reads lines {"sql", "user", "system"}, prints true, false or null (UNKNOWN) for each.

const readline = require("node:readline");
const { parse } = require("../../../tools/local/broker/sql-parser.js");
const { evaluate } = require("../../../tools/local/broker/sql-evaluator.js");

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const { sql, user = {}, system = {} } = JSON.parse(line);
  const properties = { user: (name) => user[name] ?? undefined, system: (name) => system[name] ?? undefined };
  process.stdout.write(`${JSON.stringify(evaluate(parse(sql), properties) ?? null)}\n`);
});
