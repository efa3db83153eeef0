"""What the operators compute."""

import subprocess
import sys

import pytest
import torch
from ropes import ROPES, axes_of, reference, text, tolerance

import rotary.torch as rt

OPS = torch.ops.rotary


def positions_for(rope: str, batch: int, tokens: int, device: str) -> torch.Tensor:
    return torch.randint(0, 5000, (axes_of(rope), batch, tokens), device=device)


def make(device: str, layout: str, dtype: torch.dtype, heads: int = 3) -> tuple[torch.Tensor, int]:
    """A tensor of batch 2, 5 tokens, and its token_dim."""
    if layout == "tokens_first":
        return torch.randn(2, 5, heads, 16, device=device).to(dtype), -3
    if layout == "heads_first":
        return torch.randn(2, heads, 5, 16, device=device).to(dtype), -2
    if layout == "transposed":  # as transformers makes it
        return torch.randn(2, 5, heads, 16, device=device).to(dtype).transpose(1, 2), -2
    qkv = torch.randn(2, 5, heads, 3, 20, device=device).to(dtype)  # "slice"
    return qkv[..., 1, 2:18], -3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("layout", ["tokens_first", "heads_first", "transposed", "slice"])
@pytest.mark.parametrize("rope", ROPES.values(), ids=ROPES.keys())
def test_rotate_agrees_with_the_formula(
    rope: str, layout: str, dtype: torch.dtype, device: str
) -> None:
    q, token_dim = make(device, layout, dtype)
    k, _ = make(device, layout, dtype, heads=1)
    at = positions_for(rope, 2, 5, device)
    if "growth" in rope:
        at = at % 50
    for x, out in zip([q, k], OPS.rotate([q, k], rope, at, None, 0, token_dim), strict=True):
        assert out.dtype == dtype
        assert out.shape == x.shape
        torch.testing.assert_close(
            out.double(),
            reference(x, rope, at, token_dim),
            rtol=tolerance(dtype),
            atol=tolerance(dtype),
        )


@pytest.mark.parametrize("op", ["adjoint", "unrotate", "shift"])
@pytest.mark.parametrize("rope", ROPES.values(), ids=ROPES.keys())
def test_other_ops(rope: str, op: str, device: str) -> None:
    x, token_dim = make(device, "transposed", torch.float64)
    at = positions_for(rope, 2, 5, device) % 50
    (out,) = getattr(OPS, op)([x], rope, at, None, 0, token_dim)
    torch.testing.assert_close(out, reference(x, rope, at, token_dim, op), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("op", ["rotate", "adjoint", "unrotate", "shift"])
@pytest.mark.parametrize("layout", ["tokens_first", "transposed", "slice"])
def test_in_place_has_the_same_bits(layout: str, op: str, device: str) -> None:
    rope = ROPES["scaled"]
    x, token_dim = make(device, layout, torch.float32)
    y, _ = make(device, layout, torch.bfloat16, heads=1)
    expected = getattr(OPS, op)([x, y], rope, None, None, 7, token_dim)
    version = x._version
    getattr(OPS, op + "_")([x, y], rope, None, None, 7, token_dim)
    assert torch.equal(x, expected[0])
    assert torch.equal(y, expected[1])
    assert x._version > version


@pytest.mark.parametrize("op", ["unrotate_adjoint", "shift_adjoint"])
@pytest.mark.parametrize("rope", ["scaled", "growing", "reordering"])
def test_adjoints_are_transposes(rope: str, op: str, device: str) -> None:
    """<T x, y> = <x, T' y>."""
    x, _ = make(device, "tokens_first", torch.float64)
    y = torch.randn_like(x)
    at = torch.randint(0, 40, (2, 5), device=device)
    forward = getattr(OPS, op.removesuffix("_adjoint"))([x], ROPES[rope], at)[0]
    back = getattr(OPS, op)([y], ROPES[rope], at)[0]
    torch.testing.assert_close((forward * y).sum(), (x * back).sum())


def test_the_same_bits_in_every_layout(device: str) -> None:
    x = torch.randn(2, 5, 3, 16, device=device)
    at = torch.randint(0, 1 << 30, (2, 5), device=device)
    here = rt.rotate(x, rope=ROPES["half"], positions=at)
    there = rt.rotate(x.transpose(1, 2), rope=ROPES["half"], positions=at, token_dim=-2)
    assert torch.equal(here, there.transpose(1, 2))
    assert there.stride() == x.transpose(1, 2).stride()


def test_kinds_of_positions_agree(device: str) -> None:
    rope = ROPES["half"]
    x = torch.randn(2, 6, 3, 16, device=device)
    ids = torch.arange(7, 13, device=device)
    expected = rt.rotate(x, rope=rope, first=7)
    for at in [ids, ids.int(), ids[None], ids.expand(2, 6), ids.expand(1, 2, 6), ids[None, None]]:
        assert torch.equal(rt.rotate(x, rope=rope, positions=at), expected)
    torch.testing.assert_close(rt.rotate(x, rope=rope, positions=ids.double()), expected)
    packed = torch.cat([rt.rotate(x[:, :2], rope=rope), rt.rotate(x[:, 2:], rope=rope)], 1)
    for kind in [torch.int32, torch.int64]:
        cu = torch.tensor([0, 2, 6], device=device, dtype=kind)
        assert torch.equal(rt.rotate(x, rope=rope, cu_seqlens=cu), packed)
        begins = torch.tensor([7, 9], device=device, dtype=kind)
        assert torch.equal(rt.rotate(x, rope=rope, cu_seqlens=cu, positions=begins), expected)


def test_shift_by_rows_and_sequences(device: str) -> None:
    rope = ROPES["half"]
    x = torch.randn(2, 6, 3, 16, device=device)
    rows = torch.tensor([[3], [-2]], device=device)
    moved = rt.shift(x, rope=rope, delta=rows)
    assert torch.equal(moved[0], rt.shift(x[0], rope=rope, delta=3))
    assert torch.equal(moved[1], rt.shift(x[1], rope=rope, delta=-2))
    cu = torch.tensor([0, 2, 6], device=device)
    moved = rt.shift(x, rope=rope, delta=rows.flatten(), cu_seqlens=cu)
    assert torch.equal(moved[:, :2], rt.shift(x[:, :2], rope=rope, delta=3))
    assert torch.equal(moved[:, 2:], rt.shift(x[:, 2:], rope=rope, delta=-2))


def test_more_batch_dimensions(device: str) -> None:
    x = torch.randn(2, 3, 5, 2, 16, device=device)
    out = rt.rotate(x, rope=ROPES["half"], first=3)
    assert torch.equal(out, torch.stack([rt.rotate(y, rope=ROPES["half"], first=3) for y in x]))
    swapped = x.transpose(0, 1)
    assert torch.equal(rt.rotate(swapped, rope=ROPES["half"], first=3), out.transpose(0, 1))


def test_text_tokens_of_mrope(device: str) -> None:
    x = torch.randn(2, 5, 3, 16, device=device)
    ids = torch.arange(5, device=device)
    expected = rt.rotate(x, rope=ROPES["mrope"], positions=ids.expand(3, 1, 5))
    assert torch.equal(rt.rotate(x, rope=ROPES["mrope"], positions=ids), expected)
    assert torch.equal(rt.rotate(x, rope=ROPES["mrope"]), expected)
    with pytest.raises(ValueError, match="positions must have 2 axes, got 1"):
        rt.rotate(x, rope=ROPES["mixed"])


def test_table_as_transformers_has_it(device: str) -> None:
    rope = ROPES["half"]
    x = torch.randn(2, 3, 5, 16, device=device)
    at = torch.arange(5, device=device).expand(2, 5)
    cos, sin = OPS.learned_cos_sin(OPS.frequencies_like(x, rope), rope, 5, None, at)
    expected = rt.rotate(x, rope=rope, positions=at, token_dim=-2)
    for c, s in [(cos, sin), (torch.cat([cos] * 2, -1), torch.cat([sin] * 2, -1))]:
        out = rt.rotate_by_table(x, cos=c, sin=s, rope=rope, token_dim=-2)
        torch.testing.assert_close(out, expected, rtol=1e-6, atol=1e-6)


def test_far_positions_are_exact(device: str) -> None:
    rope = text(theta=10000.0)
    x = torch.randn(1, 1, 1, 16, device=device)
    far = torch.tensor([2**31 + 1], device=device)
    there = rt.rotate(x, rope=rope, positions=far)
    back = rt.shift(there, rope=rope, delta=-(2**31 + 1))
    torch.testing.assert_close(back, x, rtol=1e-6, atol=1e-6)


def test_empty(device: str) -> None:
    assert rt.rotate(torch.empty(2, 0, 3, 16, device=device), rope=ROPES["half"]).numel() == 0


@pytest.mark.parametrize(
    ("rope", "message"),
    [
        ("half", r"\[rope\] the text must be JSON"),
        ('{"head_dim": 16, "pairing": "half"}', "frequencies, or theta and rotary_dim"),
        ('{"head_dim": 16, "pairing": "neox", "theta": 1e4}', "interleaved or half"),
        ('{"head_dim": 16, "theta": 1e4}', "pairing must be given"),
        ('{"head_dim": 16, "pairing": "half", "theta": 1e4, "base": 2}', "unknown key base"),
        ('{"head_dim": 4, "pairing": "half", "frequencies": [1, 1, 1]}', "rotary slice must fit"),
    ],
)
def test_rejects_malformed_ropes(rope: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rt.rotate(torch.randn(2, 3, 16), rope=rope)


def test_rejects_wrong_calls(device: str) -> None:
    rope = ROPES["half"]
    x = torch.randn(2, 5, 3, 16, device=device)
    for call, message in [
        (lambda: rt.rotate(x[..., :8], rope=rope), "head_dim 16"),
        (lambda: rt.rotate(x[0, 0], rope=rope), "got 2 dimensions"),
        (lambda: rt.rotate(x, rope=rope, token_dim=1), "token_dim must be -3"),
        (lambda: rt.rotate(x.int(), rope=rope), "floating-point"),
        (
            lambda: rt.rotate(x, rope=rope, positions=torch.zeros(4, device=device)),
            "5 tokens, got 4",
        ),
        (
            lambda: rt.rotate(x, rope=rope, positions=torch.zeros(5, device=device).bfloat16()),
            "does not hold every whole number",
        ),
        (
            lambda: rt.rotate(x, rope=rope, positions=torch.arange(5, device=device), first=1),
            "first is for calls without positions",
        ),
        (lambda: rt.rotate_(x[:, :1].expand(2, 5, 3, 16), rope=rope), "must not share memory"),
        (lambda: rt.rotate_(x, x, rope=rope), "must not share memory"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


def test_autocast_leaves_types_alone(device: str) -> None:
    x = torch.randn(2, 5, 3, 16, device=device)
    learned = torch.ones(8, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        out = rt.rotate(x, rope=ROPES["half"], first=9)
        (other,) = OPS.rotate_learned([x], ROPES["half"], learned)
    assert out.dtype == other.dtype == torch.float32
    assert torch.equal(out, rt.rotate(x, rope=ROPES["half"], first=9))
    assert torch.equal(other, OPS.rotate_learned([x], ROPES["half"], learned)[0])


def test_deterministic_mode(device: str) -> None:
    x = torch.randn(2, 5, 3, 16, device=device, requires_grad=True)
    f = torch.ones(8, device=device, requires_grad=True)
    torch.use_deterministic_algorithms(True)
    try:
        grads = [
            torch.autograd.grad(OPS.rotate_learned([x], ROPES["half"], f)[0].sum(), [x, f])
            for _ in range(2)
        ]
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


def test_inference_mode(device: str) -> None:
    x = torch.randn(2, 5, 3, 16, device=device)
    with torch.inference_mode():
        out = rt.rotate(x, rope=ROPES["half"])
        inside = torch.randn(2, 5, 3, 16, device=device)
        rt.rotate_(inside, rope=ROPES["half"])
        (learned,) = OPS.rotate_learned([x], ROPES["half"], OPS.frequencies_like(x, ROPES["half"]))
    torch.testing.assert_close(learned, out, rtol=1e-6, atol=1e-6)


PROCESS = """
import os, sys, torch, rotary.torch
assert "torch._dynamo" not in sys.modules   # loading it takes as long as the rest of PyTorch
torch.set_num_threads(3)
x = torch.empty(1024, 8, 64)
before = len(os.listdir("/proc/self/task"))
rotary.torch.rotate_(x, rope='{"head_dim": 64, "pairing": "half", "theta": 1e4}')
print(len(os.listdir("/proc/self/task")) - before)
"""


def test_import_is_light_and_large_calls_run_on_threads_of_pytorch() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROCESS], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == 2  # and the one that called
