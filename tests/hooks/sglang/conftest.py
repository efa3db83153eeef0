# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""SGLang for a CPU: before its modules ask which device there is."""

import os

os.environ["SGLANG_USE_CPU_ENGINE"] = "1"
