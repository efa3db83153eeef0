# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Decoding with a cache of rotated keys: a prompt, then token by token. Then the first tokens are
evicted and the cached keys are shifted, by exact angles.

    python examples/python/decode.py
"""

import pathlib

import numpy as np

import rotary

MODEL = pathlib.Path(__file__).resolve().parents[1] / "models" / "llama-3.1-8b.json"


def main() -> None:
    rope = rotary.Rope.from_pretrained(MODEL)
    rng = np.random.default_rng(0)
    keys = rng.standard_normal((40, 8, 128), np.float32)  # of 40 tokens, before rotation

    cache = np.empty_like(keys)
    rope.rotate(keys[:32], positions=0, out=cache[:32])  # the prompt
    for token in range(32, 40):  # one step at a time
        rope.rotate(keys[token : token + 1], positions=token, out=cache[token : token + 1])
    assert np.array_equal(cache, rope.rotate(keys))
    print("token by token: the same as one call over the whole text, bit for bit")

    kept = rope.shift(cache[16:], delta=-16)  # the first 16 tokens are evicted
    error = np.abs(kept - rope.rotate(keys[16:])).max()
    print(f"shifted by -16: within {error:.1e} of rotating at the new positions")


if __name__ == "__main__":
    main()
