# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The folder in the format of `kernels`, and its functions and layers."""

import json
import os
import subprocess
import sys

import pytest
import torch
from exported import written
from kernels import get_local_kernel
from kernels._rust import Digest, DigestAlgorithm, Metadata
from transformers.models.glm import modeling_glm
from transformers.models.gpt_neox import modeling_gpt_neox
from transformers.models.llama import modeling_llama


@pytest.fixture(scope="module")
def kernel(folder):
    return get_local_kernel(folder)


def inputs(heads=(3, 2), head_dim=16, columns=16, dtype=torch.float64, tokens_first=False):
    generator = torch.Generator().manual_seed(3)
    shapes = [(2, 5, h, head_dim) if tokens_first else (2, h, 5, head_dim) for h in heads]
    tensors = [torch.randn(s, generator=generator, dtype=dtype).requires_grad_() for s in shapes]
    angles = torch.randn((2, 5, columns // 2), generator=generator, dtype=dtype)
    angles = torch.cat([angles, angles], -1)
    return *tensors, angles.cos(), angles.sin()


def compare(got, expected, tensors):
    """Results and the gradients of a weighted sum."""
    grads = []
    for results in (got, expected):
        weights = [torch.arange(y.numel()).reshape(y.shape).to(y.dtype).cos() for y in results]
        grads.append(torch.autograd.grad(results, tensors, weights))
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(*grads)


def test_variants_and_digests(folder):
    names = sorted(path.name for path in (folder / "build").iterdir())
    assert names == ["torch-cpu", "torch-cuda"]
    ids = set()
    for name in names:
        path = folder / "build" / name
        metadata = Metadata.read_from_file(path / "metadata.json")
        assert str(metadata.name) == "rotary" and metadata.license == "Apache-2.0"
        metadata.digest.validate(Digest.hash_variant(DigestAlgorithm.SHA256, path))
        ids.add(metadata.id)
    assert len(ids) == 2


def test_nothing_is_overwritten(folder):
    command = [sys.executable, "-m", "rotary", "export", "kernels", "-o", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "exists already" in done.stderr


def test_halves(kernel):
    q, k, cos, sin = inputs()
    own = modeling_llama.apply_rotary_pos_emb(q, k, cos, sin)
    compare(kernel.apply_rotary(q, k, cos, sin), own, (q, k))


def test_tokens_before_heads(kernel):
    q, k, cos, sin = inputs(tokens_first=True)
    own = modeling_llama.apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=2)
    compare(kernel.apply_rotary(q, k, cos, sin, unsqueeze_dim=2), own, (q, k))


def test_queries_alone(kernel):
    q, k, cos, sin = inputs()
    own, _ = modeling_llama.apply_rotary_pos_emb(q, k, cos, sin)
    got, none = kernel.layers.apply_rotary_transformers()(q, None, cos, sin)
    assert none is None
    compare((got,), (own,), (q,))


@pytest.mark.parametrize("rotary_dim", [4, 8, 12])
def test_partial(kernel, rotary_dim):
    """Also half of the head, where a table of that width could be one of all its pairs."""
    q, k, cos, sin = inputs(columns=rotary_dim)
    own = modeling_gpt_neox.apply_rotary_pos_emb(q, k, cos, sin)
    layer = kernel.layers.apply_rotary_partial_transformers()
    compare(layer(q, k, cos, sin), own, (q, k))


@pytest.mark.parametrize("rotary_dim", [8, 16])
def test_interleaved(kernel, rotary_dim):
    q, k, cos, sin = inputs(columns=rotary_dim)
    own = modeling_glm.apply_rotary_pos_emb(q, k, cos, sin)
    layer = kernel.layers.apply_rotary_interleaved_transformers()
    compare(layer(q, k, cos, sin), own, (q, k))


def test_gradients_of_the_table(kernel):
    q, k, cos, sin = inputs()
    cos.requires_grad_(), sin.requires_grad_()
    halves = (cos[..., :8], sin[..., :8])  # each cos once: its gradient is unambiguous
    assert torch.autograd.gradcheck(
        lambda c, s: kernel.apply_rotary(q, k, c, s), [x.detach().requires_grad_() for x in halves]
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_types(kernel, dtype):
    q, k, cos, sin = inputs(dtype=dtype)
    exact = modeling_llama.apply_rotary_pos_emb(*(x.double() for x in (q, k, cos, sin)))
    for got, expected in zip(kernel.apply_rotary(q, k, cos, sin), exact):
        assert got.dtype == dtype
        error = (got.double() - expected).abs().max() / expected.abs().max()
        assert error < 2 * torch.finfo(dtype).eps


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unsqueeze_dim": 0}, "cannot be broadcast over heads"),
        ({"columns": "thrice"}, 'must be "auto", "once" or "twice"'),
        ({"columns": "once"}, "16 columns do not fit heads of 16"),
    ],
)
def test_wrong_calls(kernel, options, message):
    with pytest.raises(ValueError, match=message):
        kernel.apply_rotary(*inputs(), **options)


def test_metadata_is_json(folder):
    text = (folder / "build" / "torch-cpu" / "metadata.json").read_text()
    assert json.loads(text)["backend"] == {"type": "cpu"}


LOADED_ALONE = """
import sys, torch
from pathlib import Path
from kernels import get_local_kernel
sys.modules["rotary"] = None  # importing it would fail
kernel = get_local_kernel(Path(sys.argv[1]))
q = torch.randn(2, 3, 5, 16, dtype=torch.float64, requires_grad=True)
k = torch.randn(2, 1, 5, 16, dtype=torch.float64, requires_grad=True)
angles = torch.randn(2, 5, 8, dtype=torch.float64)
table = torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1)
assert torch.autograd.gradcheck(lambda q, k: kernel.apply_rotary(q, k, *table), (q, k))
x, y = kernel.apply_rotary(q, None, *table)
assert y is None and x.shape == q.shape
print(Path(kernel.__file__).parent.name)
"""


def test_standalone(tmp_path):
    """A variant with the library, where the package cannot be imported."""
    folder = written(tmp_path / "alone", "--standalone")
    (variant,) = (folder / "build").iterdir()
    metadata = Metadata.read_from_file(variant / "metadata.json")
    metadata.digest.validate(Digest.hash_variant(DigestAlgorithm.SHA256, variant))
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", LOADED_ALONE, folder],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == variant.name
    assert variant.name.startswith("torch-stable-abi211-cpu-")
