"use strict";
// What is ready in a queue, in order.

const SPARE = 1024; // places at the start that may be empty before the list is copied

/** Sequence numbers in order; nearly always added at the end and taken from the start. */
class SequenceList {
  constructor() {
    this.items = [];
    this.head = 0;
  }

  get size() {
    return this.items.length - this.head;
  }

  add(sequence) {
    let at = this.items.length;
    if (this.size > 0 && this.items[at - 1] > sequence) {
      let low = this.head;
      while (low < at) {
        const middle = (low + at) >> 1;
        if (this.items[middle] < sequence) low = middle + 1;
        else at = middle;
      }
    }
    this.items.splice(at, 0, sequence);
  }

  shift() {
    const sequence = this.items[this.head];
    this.head += 1;
    if (this.head > SPARE && this.head * 2 > this.items.length) {
      this.items = this.items.slice(this.head);
      this.head = 0;
    }
    return sequence;
  }
}

module.exports = { SequenceList };
