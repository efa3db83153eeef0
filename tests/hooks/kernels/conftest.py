# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Offline, before transformers is imported, and the folder of the kernel."""

import os

import pytest
from exported import written

os.environ["HF_HUB_OFFLINE"] = "1"


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return written(tmp_path_factory.mktemp("kernels") / "rotary-kernel")
