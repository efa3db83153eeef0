# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The rotation of the installed package `rotary`."""

from rotary.torch.functional import rotate_all_by_table as rotate_by_table

__all__ = ["rotate_by_table"]
