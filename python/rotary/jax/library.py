# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Loads the compiled calls and registers them with XLA."""

from __future__ import annotations

import ctypes
import os
import pathlib

import jax

TARGET = "rotary_rotate"


def register() -> None:
    """Raises ImportError if the package was built without them."""
    beside = pathlib.Path(__file__).with_name("librotary_jax.so")
    path = os.environ.get("ROTARY_JAX_LIBRARY") or str(beside)
    if not os.path.exists(path):
        raise ImportError(
            "rotary.jax needs a build of rotary with JAX: in rotary's source, with jax installed, "
            "pip install --no-build-isolation ."
        )
    library = ctypes.CDLL(path)
    jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(library.rotary_jax_cpu), platform="cpu")
    if library.rotary_jax_has_cuda():
        jax.ffi.register_ffi_target(
            TARGET, jax.ffi.pycapsule(library.rotary_jax_cuda), platform="CUDA"
        )
