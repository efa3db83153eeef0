# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary as a kernel of Hugging Face `kernels`: a folder that models of transformers load.

    rotary.kernels.export("rotary-kernel/")

The folder has the layers apply_rotary_transformers and others (variant/layers.py), which have
gradients. `kernels` chooses among its build variants by backend, PyTorch and machine.
"""

from .exporting import STABLE_ABI, export

__all__ = ["STABLE_ABI", "export"]
