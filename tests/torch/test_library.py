# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Where rotary.torch finds its two libraries."""

from pathlib import Path

import pytest
import torch

from rotary.torch import _library
from rotary.torch.stable_abi import schemas


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build tree without the library of Transformer parts."""
    monkeypatch.setenv("ROTARY_TORCH_LIBRARY", str(tmp_path / "pytorch" / "librotary_torch.so"))
    monkeypatch.delenv("ROTARY_TRANSFORMER_LIBRARY", raising=False)
    (tmp_path / "pytorch").mkdir()
    (tmp_path / "transformer").mkdir()
    return tmp_path


def test_beside_the_rotation(build: Path) -> None:
    beside = build / "pytorch" / "librotary_transformer.so"
    assert _library.transformer_path() == beside
    beside.touch()
    assert _library.transformer_path() == beside


def test_in_a_build_tree(build: Path) -> None:
    library = build / "transformer" / "librotary_transformer.so"
    library.touch()
    assert _library.transformer_path() == library


def test_named(build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTARY_TRANSFORMER_LIBRARY", str(build / "other.so"))
    assert _library.transformer_path() == build / "other.so"


def test_in_the_package(build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROTARY_TORCH_LIBRARY")
    folder = Path(_library.__file__).parent
    assert _library.rotation_path() == folder / "librotary_torch.so"
    assert _library.transformer_path() == folder / "librotary_transformer.so"


def test_missing(build: Path) -> None:
    with pytest.raises(ImportError, match="installed without its operators"):
        _library.load(_library.transformer_path(), "ROTARY_TRANSFORMER_LIBRARY")


def test_stable_beside_the_rotation(build: Path) -> None:
    assert _library.stable_path() == build / "pytorch" / "librotary_torch_stable.so"


def test_stable_in_a_build_tree(build: Path) -> None:
    library = build / "pytorch" / "stable" / "librotary_torch_stable.so"
    library.parent.mkdir()
    library.touch()
    assert _library.stable_path() == library


def test_stable_named(build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = build / "librotary_torch_stable.so"
    named.touch()
    monkeypatch.setenv("ROTARY_TORCH_LIBRARY", str(named))
    assert _library.stable_path() == named
    assert not _library.is_for_this(named)


@pytest.mark.parametrize(
    ("version", "fits"), [("", True), (torch.__version__, True), ("2.0.1", False)]
)
def test_built_for(build: Path, version: str, fits: bool) -> None:
    path = build / "pytorch" / "librotary_torch.so"
    assert not _library.is_for_this(path)
    path.touch()
    if version:
        path.with_name("pytorch_version.txt").write_text(version + "\n")
    assert _library.is_for_this(path) == fits


@pytest.mark.parametrize("schema", schemas())
def test_schemas_of_the_stable_abi(schema: str) -> None:
    """Those of librotary_torch, so that graphs of one build run in the other."""
    name = schema.split("(")[0]
    own = getattr(torch.ops.rotary, name).default._schema
    assert str(own) == str(torch._C.parse_schema(f"rotary::{schema}"))
