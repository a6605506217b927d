// Fresh task ids.

import { base64url } from "./hawk.js";

/** A random slugid that starts with a letter, as command lines like it. */
export function slugid() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[0] = (bytes[0] ?? 0) & 0x7f;
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return base64url(bytes);
}
