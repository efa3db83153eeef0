"""qk_norm_rope by a cos/sin table: against the norm, then rotate_by_table."""

import functools
import itertools

import pytest
import torch
from operators import opcheck
from ropes import ROPES, SMALL_ROPES
from test_norm import DTYPES, chain, equal_bits, normed
from torch.autograd import gradcheck, gradgradcheck
from torch.nn import functional as F  # noqa: N812

import rotary.torch as rt

OPS = torch.ops.rotary
LAYOUTS = ["half", "interleaved", "partial", "reordering"]
TOKENS = 5


def table(rope: str, *leading: int, device: str = "cpu") -> tuple[torch.Tensor, torch.Tensor]:
    """One column per pair."""
    angles = torch.rand(*leading, TOKENS, 5 if rope == "partial" else 8, device=device) * 6
    return angles.cos(), angles.sin()


def in_steps(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
    """As Llama's norm in transformers."""
    scaled = F.rms_norm(x, x.shape[-1:], None, eps)
    wide = scaled.float() if weight is None else scaled.float() * weight.float()
    return wide.to(x.dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rope", LAYOUTS)
def test_has_the_bits_of_the_chain(rope: str, dtype: torch.dtype, device: str) -> None:
    """Tables for all and for each batch row, of the tensors' type and float32; both layouts."""
    qkv = torch.randn(2, TOKENS, 6, 16, device=device).to(dtype)
    q, k = qkv[:, :, :3], qkv[:, :, 3:5]  # views of a packed tensor
    weights = torch.randn(2, 16, device=device).to(dtype)
    cases = itertools.product([(), (1,), (2,)], [dtype, torch.float32], ["rms", "rms_one_plus"])
    for leading, table_type, norm in cases:
        cos, sin = (t.to(table_type) for t in table(rope, *leading, device=device))
        by = {"cos": cos, "sin": sin, "rope": ROPES[rope]}
        want = [rt.rotate_by_table(normed(x, w, norm, 1e-5), **by) for x, w in zip([q, k], weights)]
        got = rt.qk_norm_rope(q, k, *weights, norm=norm, eps=1e-5, **by)
        for a, b in zip(got, want):
            equal_bits(a, b)
        swapped = rt.qk_norm_rope(
            q.transpose(1, 2), None, weights[0], norm=norm, eps=1e-5, token_dim=-2, **by
        )
        equal_bits(swapped.transpose(1, 2), want[0])
        copy = qkv.clone()
        rt.qk_norm_rope_(copy[:, :, :3], copy[:, :, 3:5], *weights, norm=norm, eps=1e-5, **by)
        equal_bits(copy[:, :, :3], want[0])
        equal_bits(copy[:, :, 3:5], want[1])
        equal_bits(copy[:, :, 5:], qkv[:, :, 5:])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("heads", [3, 4])
@pytest.mark.parametrize("rope", LAYOUTS)
def test_rounds_in_every_step(rope: str, heads: int, dtype: torch.dtype, device: str) -> None:
    x = torch.randn(2, TOKENS, heads, 16, device=device).to(dtype)
    w = torch.randn(16, device=device).to(dtype)
    cos, sin = table(rope, device=device)
    by = {"cos": cos, "sin": sin, "rope": ROPES[rope]}
    for weight in (w, None):
        got = rt.qk_norm_rope(x, None, weight, rounding="every_step", eps=1e-5, **by)
        equal_bits(got, rt.rotate_by_table(in_steps(x, weight, 1e-5), **by))
    after = rt.qk_norm_rope(x, None, w, rounding="every_step", order="after", eps=1e-5, **by)
    equal_bits(after, in_steps(rt.rotate_by_table(x, **by), w, 1e-5))
    by_rope = rt.qk_norm_rope(x, None, w, rounding="every_step", rope=ROPES[rope], first=3)
    equal_bits(by_rope, rt.rotate(in_steps(x, w, 1e-6), rope=ROPES[rope], first=3))


@pytest.mark.parametrize("rounding", ["tensor", "every_step"])
@pytest.mark.parametrize("pairing", ["half", "interleaved"])
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("dtype", DTYPES)
def test_whole_heads(
    dtype: torch.dtype, head_dim: int, pairing: str, rounding: str, device: str
) -> None:
    """Sizes of models, which have kernels of their own: bits, and gradients in float64."""
    rope = rt.rope_text({"head_dim": head_dim, "theta": 1e4, "pairing": pairing})
    qkv = torch.randn(2, 45, 13, head_dim, device=device).to(dtype)
    leaves = [qkv[:, :, :9], qkv[:, :, 9:11], *torch.randn(2, head_dim, device=device).to(dtype)]
    angles = torch.rand(2, 45, head_dim // 2, device=device) * 6
    by = {"cos": angles.cos().to(dtype), "sin": angles.sin().to(dtype), "rope": rope}
    leaves = [t.detach().requires_grad_() for t in leaves]
    got = rt.qk_norm_rope(*leaves, rounding=rounding, eps=1e-5, **by)
    for out, x, w in zip(got, leaves[:2], leaves[2:]):
        y = in_steps(x, w, 1e-5) if rounding == "every_step" else normed(x, w, "rms", 1e-5)
        equal_bits(out, rt.rotate_by_table(y, **by))

    grads = [torch.randn_like(t) for t in got]
    wide = [t.detach().double().requires_grad_() for t in leaves]
    exact = [
        rt.rotate_by_table(F.rms_norm(x, (head_dim,), w, 1e-5), **by)
        for x, w in zip(wide[:2], wide[2:])
    ]
    want = torch.autograd.grad(exact, wide, [g.double() for g in grads])
    close = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}[dtype]
    for a, e in zip(torch.autograd.grad(got, leaves, grads), want):
        torch.testing.assert_close(a.double(), e, rtol=close, atol=close * e.abs().max().item())


@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("inverse", [False, True])
def test_inverse_and_order(order: str, inverse: bool, device: str) -> None:
    """With unit rows the inverse is the adjoint."""
    x = torch.randn(2, TOKENS, 3, 16, device=device)
    w = torch.randn(16, device=device)
    cos, sin = table("half", device=device)
    op = OPS.adjoint_table if inverse else OPS.rotate_table

    def rotated(y: torch.Tensor) -> torch.Tensor:
        return op([y], cos, sin, ROPES["half"])[0]

    if order == "before":
        want = rotated(normed(x, w, "rms", 1e-6))
    else:
        want = normed(rotated(x), w, "rms", 1e-6)
    got = rt.qk_norm_rope(
        x, None, w, rope=ROPES["half"], cos=cos, sin=sin, order=order, inverse=inverse
    )
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scope", ["head", "all_heads"])
@pytest.mark.parametrize("norm", ["rms", "rms_one_plus", "layer", "none"])
def test_derivatives(norm: str, scope: str, device: str) -> None:
    """Of tensors, weights, biases and the table: of every element of small heads, and of heads with
    whole vectors in random directions."""
    for ropes, head_dim, fast in [(SMALL_ROPES, 6, False), (ROPES, 16, True)]:
        q, k = torch.randn(2, 2, 2, 2, head_dim, device=device, dtype=torch.float64).unbind()
        size = head_dim if scope == "head" else 2 * head_dim
        rows = torch.randn(4, size, device=device, dtype=torch.float64)
        angles = torch.rand(2, head_dim // 2, device=device, dtype=torch.float64) * 6
        leaves = [t.requires_grad_() for t in (angles.cos(), angles.sin(), q, k, *rows.unbind())]
        leaves = leaves[: {"none": 4, "layer": 8}.get(norm, 6)]

        def run(*args: torch.Tensor, rope: str = ropes["half"]) -> tuple[torch.Tensor, ...]:
            how = {"norm": norm, "scope": scope, "eps": 1e-3}
            return rt.qk_norm_rope(*args[2:], rope=rope, cos=args[0], sin=args[1], **how)

        fixed = [t.detach() for t in leaves[:2]]
        by_fixed = functools.partial(run, *fixed)
        assert gradcheck(run, leaves, fast_mode=fast)
        assert gradcheck(by_fixed, leaves[2:], check_forward_ad=True, fast_mode=fast)
        assert gradgradcheck(by_fixed, leaves[2:], fast_mode=fast)


KINDS = [("rms", "tensor"), ("rms", "every_step"), ("rms_one_plus", "tensor"), ("layer", "tensor")]


@pytest.mark.parametrize(("norm", "rounding"), KINDS)
@pytest.mark.parametrize("scope", ["head", "all_heads"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients(dtype: torch.dtype, scope: str, norm: str, rounding: str, device: str) -> None:
    """Of the engine, against those of the chain by a rope in float64."""
    x = torch.randn(2, 70, 4, 16, device=device).add(0.3).to(dtype).requires_grad_()
    size = 16 if scope == "head" else 64
    w = torch.randn(size, device=device).to(dtype).requires_grad_()
    b = torch.randn(size, device=device).to(dtype).requires_grad_()
    leaves = [x, w, b] if norm == "layer" else [x, w]
    bias = b if norm == "layer" else None
    grad = torch.randn_like(x)
    positions = torch.arange(70, device=device)
    cos, sin = OPS.learned_cos_sin(
        OPS.frequencies_like(x, ROPES["partial"]), ROPES["partial"], 70, None, positions
    )
    how = {"norm": norm, "scope": scope, "rounding": rounding}
    out = rt.qk_norm_rope(
        x, None, w, None, bias, rope=ROPES["partial"], cos=cos, sin=sin, eps=1e-5, **how
    )
    got = [out, *torch.autograd.grad(out, leaves, grad)]
    wide = [t.detach().double().requires_grad_() for t in leaves]
    by_chain = {**how, "order": "before", "inverse": False}
    exact = chain(wide[0], wide[1], wide[2] if bias is not None else None, by_chain)
    want = [exact, *torch.autograd.grad(exact, wide, grad.double())]
    close = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 4e-3}[dtype]
    for a, e in zip(got, want):
        torch.testing.assert_close(a.double(), e, rtol=close, atol=close * e.abs().max().item())


def test_operators(device: str) -> None:
    def x(*shape: int, grad: bool = True) -> torch.Tensor:
        return torch.randn(*shape, device=device, requires_grad=grad)

    for norm, leading in itertools.product(["rms", "layer", "none"], [(), (2,)]):
        cos, sin = table("half", *leading, device=device)
        weights = [] if norm == "none" else [x(16), x(16)]
        biases = [x(16), x(16)] if norm == "layer" else []
        tensors = [x(2, TOKENS, 3, 16), x(2, TOKENS, 1, 16)]
        rest = (cos, sin, ROPES["half"], -3, 1e-6, norm)
        dispatch = leading == ()
        opcheck(OPS.norm_rotate_table, (tensors, weights, biases, *rest), dispatch=dispatch)
        fixed = [[w.detach() for w in list_] for list_ in (weights, biases)]
        plain = [t.detach() for t in tensors]
        opcheck(OPS.norm_rotate_table_, (plain, *fixed, *rest), dispatch=dispatch)
        if norm != "none":
            backward = ([torch.randn_like(t) for t in plain], plain, fixed[0], *rest)
            opcheck(OPS.norm_rotate_table_backward, backward, dispatch=dispatch)


def test_compiles_to_one_graph(device: str) -> None:
    torch._dynamo.reset()
    q = torch.randn(2, TOKENS, 3, 16, device=device, requires_grad=True)
    w = torch.randn(16, device=device, requires_grad=True)
    cos, sin = table("half", device=device)

    def f(q: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = rt.qk_norm_rope(q * 2, None, w, rope=ROPES["half"], cos=cos, sin=sin)
        return y.sin().sum()

    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    for a, b in zip(*(torch.autograd.grad(g(q, w), [q, w]) for g in (compiled, f))):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sin": None}, "cos and sin come together"),
        ({"first": 3}, "a row for each token: no positions"),
        ({"positions": torch.arange(TOKENS)}, "a row for each token: no positions"),
        ({"cos": torch.ones(TOKENS, 7), "sin": torch.ones(TOKENS, 7)}, "8 or 16 columns, got 7"),
        ({"cos": torch.ones(4, 8), "sin": torch.ones(4, 8)}, "row"),
        ({"norm": "rms_one_plus", "rounding": "every_step"}, "every_step is for the norm rms"),
    ],
)
def test_rejects(change: dict[str, object], message: str) -> None:
    x = torch.randn(TOKENS, 3, 16)
    before = x.clone()
    cos, sin = table("half")
    with pytest.raises(ValueError, match=message):
        rt.qk_norm_rope_(x, **{"rope": ROPES["half"], "cos": cos, "sin": sin, **change})
    equal_bits(x, before)
