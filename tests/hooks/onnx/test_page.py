# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The section of docs/ecosystem.md on ONNX."""

import shutil

import numpy as np
import onnx
from page import ROOT, run_section
from test_replace import exported


def test_section(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    onnx.save(exported(pairs=64), tmp_path / "model.onnx")
    assert run_section("ONNX") == 2
    assert np.prod(onnx.load("exact.onnx").graph.initializer[0].dims) == 4096 * 64
