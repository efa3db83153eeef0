// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Values of a rope that are kept, for what is drawn at each step of a drag.

export class Known {
  #rope = -1;
  #values = new Map();

  constructor(most) {
    this.most = most;
  }

  /** The values at `keys`; compute(missing) returns those that are not known yet. */
  at(rope, keys, compute) {
    if (rope !== this.#rope || this.#values.size > this.most) this.#values.clear();
    this.#rope = rope;
    const missing = keys.filter((key) => !this.#values.has(key));
    if (missing.length > 0) {
      compute(missing).forEach((value, k) => this.#values.set(missing[k], value));
    }
    return keys.map((key) => this.#values.get(key));
  }
}
