# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The tests of ../stable_cases.py, with the PyTorch of this folder's requirements."""

from stable_cases import *  # noqa: F403
