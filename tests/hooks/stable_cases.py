# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The library for PyTorch's stable ABI, with the PyTorch of the environment. Each folder torch_* of
this one has an environment with another PyTorch, and runs these tests with the same library; the
folder cuda runs them on a GPU."""

import json
import os
import pathlib
import resource
import sysconfig
import weakref
from functools import partial

import numpy as np
import pytest
import torch
from torch.func import grad, vmap

import rotary
import rotary.torch
from rotary.torch import _library, stable_abi
from rotary.torch.stable_abi import schemas

ROPE = rotary.Rope(head_dim=16, theta=10000.0, pairing="half")
PARTIAL = rotary.Rope(head_dim=16, rotary_dim=8, theta=10000.0, pairing="interleaved")
ROPES = {"half": ROPE, "interleaved, partial": PARTIAL}
TEXT = rotary.torch.rope_text(ROPE)
#: Where tensors are. Not torch.set_default_device: that is a mode, which direct calls leave to the
#: dispatcher.
DEVICE = os.environ.get("ROTARY_HOOK_DEVICE", "cpu")

arange, tensor = partial(torch.arange, device=DEVICE), partial(torch.tensor, device=DEVICE)


def random(*shape, dtype=torch.float64, seed=5):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE, dtype)


def formula(x, positions, theta=10000.0):
    """Halves of the whole head: x [.., tokens, heads, head_dim], positions [tokens]."""
    half = x.shape[-1] // 2
    frequencies = theta ** (-arange(half, dtype=torch.float64) / half)
    angles = (positions.double()[:, None] * frequencies)[:, None]
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


def test_build():
    assert _library.build == "stable"
    wanted = os.environ["ROTARY_HOOK"].removeprefix("torch_").replace("_", ".")
    assert torch.__version__.startswith(wanted + ".")
    if named := os.environ["ROTARY_TORCH_LIBRARY"]:
        assert pathlib.Path(named) == _library.stable_path()
    else:  # the installed wheel, and nothing else
        site = pathlib.Path(sysconfig.get_path("platlib"))
        assert _library.stable_path().parent == site / "rotary" / "torch"
        assert pathlib.Path(rotary.__file__).parent == site / "rotary"
        assert not _library.rotation_path().is_file()


def test_schemas():
    """Those of the other build, which PyTorch's own parser has read here."""
    for schema in schemas():
        name = schema.split("(")[0]
        found = str(getattr(torch.ops.rotary, name).default._schema)
        assert found.removeprefix("rotary::").split("(")[0] == name
        assert torch.Tag.pt2_compliant_tag in getattr(torch.ops.rotary, name).default.tags


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("name", ROPES)
@pytest.mark.parametrize("layout", ["tokens, heads", "heads, tokens", "strided"])
def test_bits_of_the_library(name, dtype, layout):
    """What rotary.Rope gives for NumPy arrays, bit for bit."""
    rope = ROPES[name]
    q, k = random(2, 5, 3, 16, dtype=dtype), random(2, 5, 1, 16, dtype=dtype, seed=6)
    positions = np.arange(70_000, 70_005)
    expected = [rope.rotate(x.cpu().numpy(), positions=positions) for x in (q, k)]
    if layout == "strided":
        q, k = (torch.cat([x, x], -1)[..., :16] for x in (q, k))
    token_dim = -3
    if layout == "heads, tokens":
        q, k, token_dim = q.transpose(1, 2), k.transpose(1, 2), -2
    got = rotary.torch.rotate(q, k, rope=rope, first=70_000, token_dim=token_dim)
    for y, wanted in zip(got, expected):
        y = y.transpose(1, 2) if token_dim == -2 else y
        assert y.dtype == dtype and np.array_equal(y.cpu().numpy(), wanted)


def test_bfloat16():
    x = random(1, 4, 2, 16, dtype=torch.bfloat16)
    got = rotary.torch.rotate(x, rope=ROPE)
    exact = formula(x.double(), arange(4))
    assert got.dtype == torch.bfloat16
    assert (got.double() - exact).abs().max() <= exact.abs().max() * 2**-8


def test_threads():
    x = random(1, 3000, 8, 16, dtype=torch.float32)
    before = torch.get_num_threads()
    try:
        results = []
        for count in (1, 2):
            torch.set_num_threads(count)
            results.append(rotary.torch.rotate(x, rope=ROPE))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*results)


@pytest.mark.parametrize("name", ["rotate", "adjoint", "unrotate", "shift"])
def test_derivatives(name):
    """First and second in reverse mode, and in forward mode."""
    op = getattr(torch.ops.rotary, name)
    q, k = random(2, 3, 2, 16).requires_grad_(), random(2, 3, 1, 16, seed=6).requires_grad_()
    positions = tensor([3, 5, 9])

    def both(q, k):
        return tuple(op([q, k], TEXT, positions))

    assert torch.autograd.gradcheck(both, (q, k), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(both, (q, k))


@pytest.mark.parametrize("name", ROPES)
@pytest.mark.parametrize("shape", [(3,), (2, 3), (1, 2, 3)])
def test_derivatives_of_positions(name, shape):
    text = rotary.torch.rope_text(ROPES[name])
    x = random(2, 3, 2, 16).requires_grad_()
    positions = random(*shape).requires_grad_()
    for op in (torch.ops.rotary.rotate, torch.ops.rotary.unrotate):
        assert torch.autograd.gradcheck(lambda x, p, op=op: op([x], text, p)[0], (x, positions))
    loss = torch.ops.rotary.rotate([x], text, positions)[0].pow(2).cos().sum()
    (first,) = torch.autograd.grad(loss, positions, create_graph=True)
    with pytest.raises(NotImplementedError, match="second derivatives of positions"):
        first.sum().backward()


@pytest.mark.parametrize("name", ROPES)
def test_tables(name):
    text = rotary.torch.rope_text(ROPES[name])
    pairs = 8 if name == "half" else 4
    x = random(2, 3, 2, 16).requires_grad_()
    cos, sin = random(2, 3, pairs).requires_grad_(), random(2, 3, pairs, seed=7).requires_grad_()
    for op in (torch.ops.rotary.rotate_table, torch.ops.rotary.adjoint_table):
        assert torch.autograd.gradcheck(
            lambda x, c, s, op=op: op([x], c, s, text)[0], (x, cos, sin)
        )


def test_in_place():
    x = random(4, 2, 16)
    expected, version = formula(x, arange(4)), x._version
    assert rotary.torch.rotate_(x, rope=ROPE) is x
    torch.testing.assert_close(x, expected)
    assert x._version > version
    leaf = random(4, 2, 16).requires_grad_()
    inner = leaf * 1
    rotary.torch.rotate_(inner, rope=ROPE)
    inner.sum().backward()
    ones = torch.ones_like(leaf)
    torch.testing.assert_close(leaf.grad, rotary.torch.adjoint(ones, rope=ROPE))


def test_inverse_shift_and_packed():
    x = random(6, 2, 16)
    y = rotary.torch.rotate(x, rope=ROPE, first=9)
    torch.testing.assert_close(rotary.torch.unrotate(y, rope=ROPE, first=9), x)
    moved = rotary.torch.shift(y, rope=ROPE, delta=4)
    torch.testing.assert_close(moved, rotary.torch.rotate(x, rope=ROPE, first=13))
    boundaries = tensor([0, 2, 6])
    packed = rotary.torch.rotate(x, rope=ROPE, cu_seqlens=boundaries)
    torch.testing.assert_close(packed, formula(x, tensor([0, 1, 0, 1, 2, 3])))


def test_many_dimensions():
    x = random(3, 2, 2, 4, 2, 16).transpose(0, 1)  # cannot be viewed with one leading dimension
    torch.testing.assert_close(rotary.torch.rotate(x, rope=ROPE), formula(x, arange(4)))


@pytest.mark.parametrize("name", ["rotate", "rotate_", "rotate_table"])
def test_opcheck(name):
    x = random(2, 3, 2, 16, dtype=torch.float32)
    tables = (random(3, 8, dtype=torch.float32), random(3, 8, dtype=torch.float32))
    given = ([x], *tables, TEXT) if name == "rotate_table" else ([x], TEXT, arange(3))
    torch.library.opcheck(getattr(torch.ops.rotary, name).default, given)


def test_compiled():
    embedding = rotary.torch.RotaryEmbedding(ROPE)

    def loss(x):
        return (embedding(x * 2, first=5) ** 3).sum()

    x = random(2, 3, 2, 16).requires_grad_()
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    (got,) = torch.autograd.grad(compiled(x), x)
    (expected,) = torch.autograd.grad(loss(x), x)
    torch.testing.assert_close(got, expected)


def test_transforms():
    def loss(x):
        return (rotary.torch.rotate(x, rope=ROPE) ** 3).sum()

    def plain(x):
        return (formula(x, arange(x.shape[-3])) ** 3).sum()

    x = random(2, 3, 2, 16)
    torch.testing.assert_close(grad(loss)(x), grad(plain)(x))
    torch.testing.assert_close(
        grad(lambda x: grad(loss)(x).pow(2).sum())(x),
        grad(lambda x: grad(plain)(x).pow(2).sum())(x),
    )
    torch.testing.assert_close(vmap(grad(loss))(x), vmap(grad(plain))(x))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: rotary.torch.rotate(x, rope="{"), "the text must be JSON"),
        (lambda x: rotary.torch.rotate(x, rope=ROPE, token_dim=-4), "token_dim must be -3"),
        (lambda x: rotary.torch.rotate(x[0, 0], rope=ROPE), "got 2 dimensions"),
        (lambda x: rotary.torch.rotate(x[..., :8], rope=ROPE), "head_dim"),
        (lambda x: rotary.torch.rotate(x.to(torch.int8), rope=ROPE), "are not supported"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call(random(2, 3, 2, 16))


def tensors_of(names):
    """Arguments of direct calls."""
    x = random(5, 3, 16)
    complex_x = torch.view_as_complex(random(5, 3, 16, 2))
    found = {
        "plain": x,
        "transposed": x.transpose(0, 1),
        "a subclass": x.as_subclass(type("Subclass", (torch.Tensor,), {})),
        "a negative view": complex_x.conj().imag,
        "on no device": x.to("meta"),
        "of another type": x.to(torch.int8),
    }
    return {name: found[name] for name in names}


DIRECT = ["rotate", "adjoint", "unrotate", "shift"]


@pytest.mark.parametrize("name", DIRECT)
def test_direct_calls(name):
    """Around the dispatcher: the same results, also in place."""
    calls, op = _library.calls, getattr(torch.ops.rotary, name)
    at = arange(5)
    q, k = random(2, 5, 3, 16), random(2, 5, 1, 16, seed=6)
    for rest in [(TEXT, None, None, 7, -3), (TEXT, at, None, 0, -3)]:
        expected = op([q, k], *rest)
        found = calls.direct[name]((q, k), *rest)
        assert type(found) is tuple and all(map(torch.equal, found, expected))
        assert torch.equal(calls.direct[name]((q,), *rest), expected[0])
        copy = q.clone()
        version = copy._version
        assert calls.direct[name + "_"]((copy,), *rest) is copy
        assert torch.equal(copy, expected[0]) and copy._version > version
    (turned,) = tensors_of(["transposed"]).values()
    assert torch.equal(
        calls.direct[name]((turned,), TEXT, None, None, 0, -2), op([turned], TEXT, token_dim=-2)[0]
    )


def test_what_direct_calls_leave_to_the_dispatcher():
    rotate, rest = _library.calls.direct["rotate"], (TEXT, None, None, 0, -3)
    refused = tensors_of(["a subclass", "a negative view", "on no device", "of another type"])
    for name, x in refused.items():
        assert rotate((x,), *rest) is NotImplemented, name
    negative = refused["a negative view"]
    torch.testing.assert_close(
        rotary.torch.rotate(negative, rope=ROPE), formula(negative.clone(), arange(5))
    )
    x = random(5, 3, 16)
    for wrong in [([x], *rest), ((), *rest), ((x,), *rest[:-1]), ((x,), b"rope", *rest[1:])]:
        assert rotate(*wrong) is NotImplemented
    assert (
        vmap(lambda x: torch.zeros(()) if rotate((x,), *rest) is NotImplemented else x)(x[None])
        .eq(0)
        .all()
    )
    with torch.profiler.profile() as profile:
        rotary.torch.rotate(x, rope=ROPE)
    assert any(event.name == "rotary::rotate" for event in profile.events())
    assert rotate((x.clone().requires_grad_(),), *rest) is None
    with torch.no_grad():
        assert rotate((x.clone().requires_grad_(),), *rest) is not None


def test_uses_pytorchs_cpp_functions():
    assert 0 not in stable_abi._cpp_functions()


def test_without_pytorchs_cpp_functions(monkeypatch):
    """As in a PyTorch that has others: Python's are called instead."""
    x, rest = random(5, 3, 16), (TEXT, None, None, 0, -3)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(stable_abi, "_address", lambda library, name: 0)
            rotate = stable_abi.direct_calls(_library.stable_path())["rotate"]
        torch.testing.assert_close(rotate((x,), *rest), formula(x, arange(5)))
        freed = weakref.ref(rotate((x,), *rest))
        assert freed() is None
        assert grad(lambda x: rotate((x,), *rest) is NotImplemented and x.sum())(x).eq(1).all()
        with torch.profiler.profile():
            assert rotate((x,), *rest) is NotImplemented
    finally:
        stable_abi.direct_calls(_library.stable_path())


def test_calls_pass_on_what_they_refuse():
    """Functions of rotary.torch, with fallbacks of their own."""
    calls, rest = _library.calls, (TEXT, None, None, 0, -3)
    x = random(5, 3, 16)
    assert torch.equal(calls.rotate([x], *rest), calls.rotate((x,), *rest))
    with pytest.raises(KeyError, match="no direct call of this name"):
        calls.direct["with_fallback"]("attend", print)
    with pytest.raises(TypeError):
        calls.rotate()
    freed = weakref.ref(calls.rotate((x,), *rest))
    assert freed() is None


def test_rows_of_a_table():
    """In place, by a table for all positions."""
    angles = random(9, 8)
    cos, sin = torch.cat((angles.cos(), angles.sin()), -1).chunk(2, -1)
    at = tensor([3, 8, 0, 3, 1])
    x = random(5, 2, 16)
    expected = torch.ops.rotary.rotate_table([x], cos[at], sin[at], TEXT)[0]
    for function in (rotary.torch.rotate_by_table_, _through_the_dispatcher):
        copy = x.clone()
        version = copy._version
        assert function(copy, cos=cos, sin=sin, rope=TEXT, positions=at) is copy
        assert torch.equal(copy, expected) and copy._version > version
    rotary.torch.rotate_by_table_(copy, cos=cos, sin=sin, rope=TEXT, positions=at, inverse=True)
    torch.testing.assert_close(copy, x)
    if DEVICE == "cpu":  # on a GPU the host does not read positions
        with pytest.raises(ValueError, match="0 to 8, got 12"):
            rotary.torch.rotate_by_table_(copy, cos=cos, sin=sin, rope=TEXT, positions=at + 4)
    with pytest.raises(ValueError, match="has no gradient"):
        rotary.torch.rotate_by_table_(x.requires_grad_().clone(), cos=cos, sin=sin, rope=TEXT)


def _through_the_dispatcher(x, *, cos, sin, rope, positions):
    torch.ops.rotary.rotate_table_([x], cos, sin, rope, positions)
    return x


def test_what_is_not_there():
    with pytest.raises(AttributeError, match="attend is not among the operators"):
        rotary.torch.attend(*(random(1, 2, 3, 16) for _ in range(3)))


def test_calls_leak_nothing():
    """A rope's text comes with every call."""
    rope = json.loads(TEXT)
    rope["frequencies"] = [1.0 / (i + 1) for i in range(8)]
    text = json.dumps(rope) + " " * 20_000
    x = random(1, 2, 16, dtype=torch.float32)
    positions = arange(1)
    peaks = []
    for _ in range(3):
        for _ in range(2000):
            torch.ops.rotary.rotate([x], text, positions)
            rotary.torch.rotate(x, rope=text, positions=positions)
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert peaks[-1] - peaks[0] < 20_000  # KiB; the texts of one round alone have 40,000
