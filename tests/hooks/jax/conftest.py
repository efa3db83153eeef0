# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Four CPU devices for shard_map, and float64; both before JAX starts. default_types.py runs
without float64. On a GPU (scripts/gpu_hooks.sh) the default device is that one, and shard_map has
as many as there are."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ.setdefault("JAX_ENABLE_X64", "1")
