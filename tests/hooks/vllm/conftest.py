# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""vLLM without a hub, without a second process, and with little memory."""

import os

os.environ.update(
    HF_HUB_OFFLINE="1",
    VLLM_CPU_KVCACHE_SPACE="1",
    VLLM_ENABLE_V1_MULTIPROCESSING="0",
    VLLM_MLA_DISABLE="1",  # the CPU's kernel for a latent cache takes no blocks of 16
    VLLM_NO_USAGE_STATS="1",
    VLLM_PLUGINS="",  # tests of classes and kernels load the plugin's parts by themselves
)
