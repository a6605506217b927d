"use strict";
// Evaluation of filter trees with three truth values: true, false, and undefined for UNKNOWN.
//
// A property that is absent or null is UNKNOWN, and so is every comparison with it, and a comparison of values of
// different kinds (a string with a number). Names are case-insensitive, values are not.

/**
 * @typedef {object} Properties what a filter can see of a message
 * @property {(name: string) => unknown} system value of a system property (name in lower case), or undefined
 * @property {(name: string) => unknown} user value of an application property (name in lower case), or undefined
 */

function not(truth) {
  return truth === undefined ? undefined : !truth;
}

function kind(value) {
  if (typeof value === "bigint") return "number";
  return ["string", "number", "boolean"].includes(typeof value) ? typeof value : undefined;
}

function comparable(left, right) {
  return left !== undefined && right !== undefined && kind(left) !== undefined && kind(left) === kind(right);
}

/** Equality of two values: true, false, or undefined where they cannot be compared. */
function equal(left, right) {
  // Loose on purpose: it compares a BigInt with a number by value, and the kinds are known to agree.
  return comparable(left, right) ? left == right : undefined;
}

function compare(operator, left, right) {
  if (!comparable(left, right)) return undefined;
  if (operator === "=") return equal(left, right);
  if (operator === "<>") return not(equal(left, right));
  if (kind(left) === "boolean") return undefined;
  if (operator === "<") return left < right;
  if (operator === "<=") return left <= right;
  return operator === ">" ? left > right : left >= right;
}

function patternParts(pattern, escape) {
  const parts = [];
  const characters = [...pattern];
  for (let i = 0; i < characters.length; i += 1) {
    if (characters[i] === escape && i + 1 < characters.length) parts.push({ literal: characters[(i += 1)] });
    else if (characters[i] === "%") parts.push({ any: true });
    else if (characters[i] === "_") parts.push({ one: true });
    else parts.push({ literal: characters[i] });
  }
  return parts;
}

/**
 * LIKE: `%` stands for any characters, `_` for one. Only the last `%` is ever gone back to, so the time is at most
 * the product of the two lengths whatever the pattern.
 */
function like(value, pattern, escape) {
  if (typeof value !== "string" || typeof pattern !== "string") return undefined;
  const text = [...value];
  const parts = patternParts(pattern, escape);
  let [t, p, star, mark] = [0, 0, -1, 0];
  while (t < text.length) {
    if (p < parts.length && (parts[p].one || parts[p].literal === text[t])) {
      t += 1;
      p += 1;
    } else if (p < parts.length && parts[p].any) {
      star = p;
      mark = t;
      p += 1;
    } else if (star >= 0) {
      p = star + 1;
      mark += 1;
      t = mark;
    } else {
      return false;
    }
  }
  return parts.slice(p).every((part) => part.any);
}

function all(terms, decisive, properties) {
  let result = !decisive;
  for (const term of terms) {
    const truth = evaluate(term, properties);
    if (truth === decisive) return decisive;
    if (truth === undefined) result = undefined;
  }
  return result;
}

function anyEqual(left, values) {
  let result = false;
  for (const value of values) {
    const truth = equal(left, value);
    if (truth) return true;
    if (truth === undefined) result = undefined;
  }
  return result;
}

function valueOf(node, properties) {
  if (node.op === "constant") return node.value;
  return node.scope === "sys" ? properties.system(node.name) : properties.user(node.name);
}

/**
 * Evaluate a tree of `parse` on a message.
 * @param {object} node
 * @param {Properties} properties
 * @returns {boolean | undefined} undefined means UNKNOWN
 */
function evaluate(node, properties) {
  switch (node.op) {
    case "and":
      return all(node.terms, false, properties);
    case "or":
      return all(node.terms, true, properties);
    case "not":
      return not(evaluate(node.term, properties));
    case "exists":
      return valueOf(node.property, properties) !== undefined;
    case "isNull":
      return (valueOf(node.property, properties) === undefined) !== node.negated;
    case "like":
      return like(valueOf(node.left, properties), valueOf(node.pattern, properties), node.escape);
    case "in":
      return anyEqual(valueOf(node.left, properties), node.values.map((value) => valueOf(value, properties)));
    default:
      return compare(node.operator, valueOf(node.left, properties), valueOf(node.right, properties));
  }
}

module.exports = { equal, evaluate };
