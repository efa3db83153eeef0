# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Exceptions besides ValueError."""

from __future__ import annotations


class IoError(OSError):
    """A file that cannot be read, or whose bytes break the rules of its format."""

    path: str
    #: Byte at which the rule was broken, or None.
    offset: int | None

    def __init__(self, message: str, path: str = "", offset: int | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.offset = offset

    def __reduce__(self) -> tuple[type[IoError], tuple[str, str, int | None]]:
        return type(self), (str(self), self.path, self.offset)


class CudaError(RuntimeError):
    """A kernel could not be started: no GPU, no driver for it, a stream of another device."""

    #: The cudaError_t.
    code: int

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type[CudaError], tuple[str, int]]:
        return type(self), (str(self), self.code)
