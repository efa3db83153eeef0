# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary export: the program says where the verb is; tests/hooks/onnx tests it."""

from command import fail, succeed


def test_says_how_to_get_it():
    for arguments in ((), ("onnx", "config.json", "-o", "rope.onnx", "--length", "16")):
        line = fail(1, "export", *arguments)
        assert "python -m rotary export onnx MODEL -o FILE" in line
    assert "pip install '.[onnx]'" in succeed("export", "--help")
