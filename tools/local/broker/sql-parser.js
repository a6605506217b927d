"use strict";
// The filter language of Service Bus rules, from text to a tree.
//
// predicate  := conjunction (OR conjunction)*
// conjunction:= negation (AND negation)*
// negation   := NOT negation | '(' predicate ')' | EXISTS '(' property ')' | comparison
// comparison := value ( op value | [NOT] LIKE value [ESCAPE string] | [NOT] IN '(' value, … ')' | IS [NOT] NULL )
// value      := string | number | TRUE | FALSE | NULL | @parameter | [scope '.'] name
//
// Left out, and refused with a message that says so: arithmetic and functions.

const { BrokerError } = require("./errors.js");

const MAX_LENGTH = 1024; // characters of an expression; a documented quota
const KEYWORDS = new Set(["AND", "OR", "NOT", "LIKE", "ESCAPE", "IN", "IS", "NULL", "EXISTS", "TRUE", "FALSE"]);
const OPERATORS = new Set(["=", "<>", "!=", "<", "<=", ">", ">="]);

/** System properties that a filter may name after `sys.`, in lower case. */
const SYSTEM_PROPERTIES = new Set([
  "contenttype", "correlationid", "label", "messageid", "replyto", "replytosessionid", "sessionid", "to",
]);

const TOKEN = new RegExp(
  [
    String.raw`(?<space>\s+)`,
    String.raw`(?<string>'(?:[^']|'')*')`,
    String.raw`(?<delimited>\[(?:[^\]]|\]\])+\]|"(?:[^"]|"")+")`,
    String.raw`(?<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?(?![\p{L}_]))`,
    String.raw`(?<parameter>@[\p{L}_][\p{L}\p{Nd}_]*)`,
    String.raw`(?<word>\p{L}[\p{L}\p{Nd}_]*)`,
    String.raw`(?<symbol><>|!=|<=|>=|[=<>(),.+\-*/%])`,
  ].join("|"),
  "uy",
);

function fail(message) {
  throw new BrokerError("argument", `SQL filter: ${message}`);
}

function tokenize(text) {
  const tokens = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const at = TOKEN.lastIndex;
    const match = TOKEN.exec(text);
    if (!match) fail(`unexpected character at position ${at + 1}: ${text.slice(at, at + 10)}`);
    const [type] = Object.entries(match.groups).find(([, value]) => value !== undefined);
    if (type === "space") continue;
    const upper = match[0].toUpperCase();
    const keyword = type === "word" && KEYWORDS.has(upper);
    tokens.push({ type: keyword ? "keyword" : type, text: keyword ? upper : match[0], at });
  }
  return tokens;
}

class Parser {
  constructor(text, parameters) {
    this.tokens = tokenize(text);
    this.position = 0;
    this.parameters = new Map(Object.entries(parameters).map(([name, value]) => [name.toLowerCase(), value]));
  }

  peek() {
    return this.tokens[this.position] ?? { type: "end", text: "the end" };
  }

  accept(text) {
    const token = this.peek();
    if ((token.type !== "keyword" && token.type !== "symbol") || token.text !== text) return false;
    this.position += 1;
    return true;
  }

  expect(text) {
    if (!this.accept(text)) this.unexpected(text);
  }

  unexpected(wanted) {
    const token = this.peek();
    if (["+", "-", "*", "/", "%"].includes(token.text)) fail("arithmetic is not offered by the local broker");
    const where = token.type === "end" ? "" : ` at position ${token.at + 1}`;
    fail(`expected ${wanted} but found ${token.text}${where}`);
  }

  all() {
    const tree = this.predicate();
    if (this.peek().type !== "end") this.unexpected("AND, OR or the end");
    return tree;
  }

  predicate() {
    const terms = [this.conjunction()];
    while (this.accept("OR")) terms.push(this.conjunction());
    return terms.length === 1 ? terms[0] : { op: "or", terms };
  }

  conjunction() {
    const terms = [this.negation()];
    while (this.accept("AND")) terms.push(this.negation());
    return terms.length === 1 ? terms[0] : { op: "and", terms };
  }

  negation() {
    if (this.accept("NOT")) return { op: "not", term: this.negation() };
    if (this.accept("(")) {
      const inner = this.predicate();
      this.expect(")");
      return inner;
    }
    if (this.accept("EXISTS")) {
      this.expect("(");
      const property = this.property();
      this.expect(")");
      return { op: "exists", property };
    }
    return this.comparison();
  }

  comparison() {
    const left = this.value();
    const token = this.peek();
    if (token.type === "symbol" && OPERATORS.has(token.text)) {
      this.position += 1;
      return { op: "compare", operator: token.text === "!=" ? "<>" : token.text, left, right: this.value() };
    }
    if (this.accept("IS")) {
      const negated = this.accept("NOT");
      this.expect("NULL");
      if (left.op !== "property") fail("only a property can be compared with IS NULL");
      return { op: "isNull", negated, property: left };
    }
    const negated = this.accept("NOT");
    let tree;
    if (this.accept("LIKE")) tree = this.like(left);
    else if (this.accept("IN")) tree = { op: "in", left, values: this.list() };
    else this.unexpected("a comparison");
    return negated ? { op: "not", term: tree } : tree;
  }

  like(left) {
    const pattern = this.value();
    let escape = null;
    if (this.accept("ESCAPE")) {
      escape = this.value();
      if (escape.op !== "constant" || typeof escape.value !== "string" || [...escape.value].length !== 1) {
        fail("ESCAPE needs a string of one character");
      }
    }
    return { op: "like", left, pattern, escape: escape && escape.value };
  }

  list() {
    this.expect("(");
    const values = [this.value()];
    while (this.accept(",")) values.push(this.value());
    this.expect(")");
    return values;
  }

  value() {
    const token = this.peek();
    if (this.accept("TRUE")) return { op: "constant", value: true };
    if (this.accept("FALSE")) return { op: "constant", value: false };
    if (this.accept("NULL")) return { op: "constant", value: undefined };
    if (token.type === "number" || token.text === "-" || token.text === "+") return this.number();
    if (token.type === "string") {
      this.position += 1;
      return { op: "constant", value: token.text.slice(1, -1).replaceAll("''", "'") };
    }
    if (token.type === "parameter") return this.parameter(token);
    return this.property();
  }

  number() {
    const sign = this.accept("-") ? -1 : 1;
    if (sign === 1) this.accept("+");
    const token = this.peek();
    if (token.type !== "number") fail("arithmetic is not offered by the local broker");
    this.position += 1;
    const value = Number(token.text);
    // 64-bit integers are compared exactly, which a double cannot do beyond 2^53.
    const exact = /^\d+$/.test(token.text) && !Number.isSafeInteger(value);
    return { op: "constant", value: exact ? BigInt(token.text) * BigInt(sign) : sign * value };
  }

  parameter(token) {
    this.position += 1;
    if (!this.parameters.has(token.text.toLowerCase())) fail(`no value for the parameter ${token.text}`);
    return { op: "constant", value: this.parameters.get(token.text.toLowerCase()) };
  }

  property() {
    const first = this.name();
    if (!this.accept(".")) {
      if (this.peek().text === "(") fail("functions are not offered by the local broker");
      return { op: "property", scope: "user", name: first.toLowerCase() };
    }
    const scope = first.toLowerCase();
    if (scope !== "sys" && scope !== "user") fail(`unknown scope ${first}: it must be sys or user`);
    const name = this.name().toLowerCase();
    if (scope === "sys" && !SYSTEM_PROPERTIES.has(name)) fail(`sys.${name} is not a system property of a message`);
    return { op: "property", scope, name };
  }

  name() {
    const token = this.peek();
    if (token.type === "word") {
      this.position += 1;
      return token.text;
    }
    if (token.type !== "delimited") this.unexpected("a property, string or number");
    this.position += 1;
    const close = token.text.at(-1);
    return token.text.slice(1, -1).replaceAll(close + close, close);
  }
}

/**
 * Parse a filter expression.
 * @param {string} text
 * @param {Record<string, unknown>} [parameters] values for @names in the text
 * @returns {object} the tree that `evaluate` takes
 * @throws {BrokerError} `argument`, with the position of what is wrong
 */
function parse(text, parameters = {}) {
  if (text.length > MAX_LENGTH) fail(`${text.length} characters are more than the ${MAX_LENGTH} that are allowed`);
  return new Parser(text, parameters).all();
}

module.exports = { parse, SYSTEM_PROPERTIES };
