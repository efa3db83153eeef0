# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Runs one planted error: plant.py LIBRARY memcheck|initcheck|racecheck (scripts/gpu_torch.sh)."""

import ctypes
import sys

import torch

torch.cuda.init()
ctypes.CDLL(sys.argv[1]).plant(ctypes.c_char(sys.argv[2][0].encode()))
