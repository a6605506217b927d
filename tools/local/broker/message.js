"use strict";
// A message as it came over the wire. Properties and body are passed on byte for byte, as AMQP asks (they are the
// "bare message"); only header, annotations and, for dead letters, application properties are written anew.

const { message: amqp, types } = require("rhea");
const { BrokerError } = require("./errors.js");

/** message-format of a batch: one transfer whose data sections are encoded messages. */
const BATCH_FORMAT = 0x80013700;

const HEADER = 0x70;
const ANNOTATIONS = 0x72;
const PROPERTIES = 0x73;
const APPLICATION_PROPERTIES = 0x74;
const DATA = 0x75;
const LAST_SECTION = 0x78;

const EMPTY = Buffer.alloc(0);

/** Position of each system property that a filter may name in the properties section. */
const SYSTEM_FIELDS = {
  messageid: 0,
  to: 2,
  label: 3,
  replyto: 4,
  correlationid: 5,
  contenttype: 6,
  sessionid: 10,
  replytosessionid: 12,
};

function uuidText(bytes) {
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** The JavaScript value of a decoded AMQP value; null becomes undefined, 64-bit integers keep their precision. */
function plain(typed) {
  const value = typed?.value ?? undefined;
  if (typed?.type.name === "Boolean") return value !== 0; // the engine leaves the byte as it is
  if (!Buffer.isBuffer(value)) return value;
  if (typed.type.name === "Uuid") return uuidText(value);
  if (typed.type.name === "Ulong") return value.readBigUInt64BE();
  if (typed.type.name === "Long") return value.readBigInt64BE();
  return value;
}

function sectionCode(constructor) {
  const code = Number(constructor.descriptor?.value);
  if (!(code >= HEADER && code <= LAST_SECTION)) throw new BrokerError("decode", "not an AMQP message section");
  return code;
}

/** A map section: its pairs are kept encoded, so that pairs can be added without loss of type. */
class MapSection {
  constructor(code, count = 0, content = EMPTY) {
    this.code = code;
    this.count = count;
    this.content = content;
  }

  static read(code, reader, type) {
    const { size, count } = reader.read_size_count(type.width);
    return new MapSection(code, count, reader.read_bytes(size - type.width));
  }

  /** The pairs as a Map from key to plain value. */
  pairs() {
    const reader = new types.Reader(this.content);
    const result = new Map();
    for (let i = 0; i < this.count; i += 2) result.set(String(reader.read().value), plain(reader.read()));
    return result;
  }

  /**
   * The encoded section with more pairs; of two pairs with one key the reader takes the later.
   * @param {[object, object][]} added AMQP-typed keys and values
   */
  encode(added = []) {
    const writer = new types.Writer();
    for (const [key, value] of added) {
      writer.write(key);
      writer.write(value);
    }
    const more = writer.toBuffer();
    const start = Buffer.alloc(12);
    start.set([0x00, 0x53, this.code, 0xd1]);
    start.writeUInt32BE(4 + this.content.length + more.length, 4);
    start.writeUInt32BE(this.count + added.length * 2, 8);
    return Buffer.concat([start, this.content, more]);
  }
}

function symbol(name) {
  return types.wrap_symbol(name);
}

/** A message; immutable, and shared by all subscriptions that hold it. */
class Message {
  constructor(size) {
    this.size = size;
    this.header = [];
    this.annotations = new MapSection(ANNOTATIONS);
    this.properties = [];
    this.propertiesBytes = EMPTY;
    this.applicationProperties = new MapSection(APPLICATION_PROPERTIES);
    this.body = EMPTY;
    this.userProperties = undefined;
  }

  /**
   * Decode a message.
   * @param {Buffer} bytes
   * @throws {BrokerError} `decode`
   */
  static decode(bytes) {
    const message = new Message(bytes.length);
    const reader = new types.Reader(bytes);
    try {
      while (reader.remaining() > 0 && message.body === EMPTY) message.readSection(reader, bytes);
    } catch (error) {
      throw error instanceof BrokerError ? error : new BrokerError("decode", `malformed message: ${error.message}`);
    }
    return message;
  }

  readSection(reader, bytes) {
    const start = reader.position;
    const constructor = reader.read_constructor();
    const code = sectionCode(constructor);
    if (code >= DATA) {
      this.body = bytes.subarray(start);
      return;
    }
    const type = types.by_code[constructor.typecode];
    const isMap = type.name.startsWith("Map");
    if (code === ANNOTATIONS && isMap) this.annotations = MapSection.read(code, reader, type);
    else if (code === APPLICATION_PROPERTIES && isMap) {
      this.applicationProperties = MapSection.read(code, reader, type);
    } else {
      const fields = reader.read_value(type).value;
      if (code === HEADER) this.header = fields;
      if (code !== PROPERTIES) return;
      this.properties = fields;
      this.propertiesBytes = bytes.subarray(start, reader.position);
    }
  }

  /** The MessageId as text, or undefined. */
  get id() {
    const id = this.system("messageid");
    return id === undefined ? undefined : String(id);
  }

  /** Time to live in milliseconds, or undefined. */
  get timeToLive() {
    return plain(this.header[2]);
  }

  /** When to enqueue the message, milliseconds since 1970, or undefined for at once. */
  get scheduledFor() {
    const at = this.annotations.pairs().get("x-opt-scheduled-enqueue-time");
    return at === undefined ? undefined : Number(at);
  }

  /** Value of a system property of `SYSTEM_FIELDS`, or undefined. */
  system(name) {
    return plain(this.properties[SYSTEM_FIELDS[name]]);
  }

  /** Value of an application property, its name in lower case, or undefined. */
  user(name) {
    if (this.userProperties === undefined) {
      this.userProperties = new Map();
      for (const [key, value] of this.applicationProperties.pairs()) this.userProperties.set(key.toLowerCase(), value);
    }
    return this.userProperties.get(name);
  }

  /**
   * The message as a subscription hands it out.
   * @param {object} delivery
   * @param {number} delivery.deliveryCount deliveries before this one
   * @param {Record<string, object>} delivery.annotations AMQP-typed values added by the broker
   * @param {Record<string, string>} [delivery.applicationProperties] properties added by the broker
   */
  encode({ deliveryCount, annotations, applicationProperties = {} }) {
    const writer = new types.Writer();
    const [durable, priority, ttl] = this.header.map(plain);
    const header = { durable, priority, ttl, delivery_count: deliveryCount };
    writer.write(amqp.header(header).described());
    const added = Object.entries(applicationProperties).map(([name, value]) => [
      types.wrap_string(name),
      types.wrap_string(value),
    ]);
    const properties = this.applicationProperties;
    return Buffer.concat([
      writer.toBuffer(),
      this.annotations.encode(Object.entries(annotations).map(([name, value]) => [symbol(name), value])),
      this.propertiesBytes,
      properties.count + added.length === 0 ? EMPTY : properties.encode(added),
      this.body,
    ]);
  }
}

/**
 * The messages of one transfer: one, or those of a batch.
 * @param {Buffer} bytes
 * @param {number} format the transfer's message-format
 * @returns {Message[]}
 * @throws {BrokerError} `decode`
 */
function decodeTransfer(bytes, format) {
  if (!Buffer.isBuffer(bytes)) throw new BrokerError("decode", "a transfer without content");
  if (format !== BATCH_FORMAT) return [Message.decode(bytes)];
  const reader = new types.Reader(bytes);
  const messages = [];
  try {
    while (reader.remaining() > 0) {
      const constructor = reader.read_constructor();
      const { value } = reader.read_value(types.by_code[constructor.typecode]);
      if (sectionCode(constructor) === DATA) messages.push(Message.decode(value));
    }
  } catch (error) {
    throw error instanceof BrokerError ? error : new BrokerError("decode", `malformed batch: ${error.message}`);
  }
  return messages;
}

module.exports = { Message, decodeTransfer, uuidText };
