# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""One rope on many threads: calls release the GIL."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from definition import values

import rotary

ROPE = rotary.Rope(head_dim=64, theta=1e4, pairing="half", threads=1)


def test_threads_share_a_rope():
    inputs = [values(50, 4, 64, seed=i) for i in range(16)]
    expected = [ROPE.rotate(x, positions=i) for i, x in enumerate(inputs)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda i: ROPE.rotate(inputs[i], positions=i), range(16)))
    for result, wanted in zip(results, expected):
        np.testing.assert_array_equal(result, wanted)


def test_calls_release_the_gil():
    big = np.ones((40_000, 32, 64), np.float32)
    seen = []

    def watch(begun):
        begun.set()
        while not seen or seen[-1] != "done":
            seen.append(time.perf_counter())
            time.sleep(0.001)

    begun = threading.Event()
    watcher = threading.Thread(target=watch, args=(begun,))
    watcher.start()
    begun.wait()
    begin = time.perf_counter()
    ROPE.rotate_(big)
    end = time.perf_counter()
    inside = [t for t in seen if begin < t < end]
    seen.append("done")
    watcher.join()
    assert inside, f"nobody ran during {end - begin:.3f} s"
