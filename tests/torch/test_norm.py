"""qk_norm_rope: against PyTorch's norm, then rotate."""

import itertools

import pytest
import torch
from operators import opcheck
from ropes import ROPES, SMALL_ROPES, axes_of, text
from torch.autograd import gradcheck, gradgradcheck
from torch.nn import functional as F  # noqa: N812

import rotary.torch as rt

OPS = torch.ops.rotary
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def normed(x: torch.Tensor, weight: torch.Tensor | None, norm: str, eps: float) -> torch.Tensor:
    """PyTorch's norm on the device of x, by its fused kernel where that is CUDA."""
    if norm == "none":
        return x
    if norm == "rms" and (not x.is_cuda or weight is None or weight.dtype == x.dtype):
        return F.rms_norm(x, x.shape[-1:], weight, eps)
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    factor = None if weight is None else weight.to(wide) + (norm != "rms")
    return F.rms_norm(x.to(wide), x.shape[-1:], factor, eps).to(x.dtype)


def unfused(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    norm: str,
    rounding: str,
    eps: float,
    **where: object,
) -> torch.Tensor:
    if rounding == "tensor":
        return rt.rotate(normed(x, weight, norm, eps), **where)
    # Of the CPU's norm, whose bits the operator then has on every device.
    wide = None if weight is None else weight.float().cpu()
    y = normed(x.float().cpu(), wide, norm, eps).to(x.device)
    return rt.rotate(y, **where).to(x.dtype)


def equal_bits(got: torch.Tensor, want: torch.Tensor) -> None:
    assert got.dtype == want.dtype and got.shape == want.shape
    assert torch.equal(got, want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("norm", ["rms", "rms_one_plus", "none"])
@pytest.mark.parametrize("rope", sorted(ROPES))
def test_has_the_bits_of_the_chain(rope: str, norm: str, dtype: torch.dtype, device: str) -> None:
    """Both roundings, with weights of either type and without, ids, a range, and in place."""
    qkv = torch.randn(2, 5, 6, 16, device=device).to(dtype)
    q, k = qkv[:, :, :3], qkv[:, :, 3:5]  # views of a packed tensor
    far = 100 if rope == "growing" else 10**6
    ids = torch.randint(0, far, (axes_of(ROPES[rope]), 2, 5), device=device)
    weights = torch.randn(2, 16, device=device)
    places: list[dict[str, object]] = [{"positions": ids}]
    if axes_of(ROPES[rope]) == 1:
        places.append({"first": 7})
    for where, rounding, types in itertools.product(
        places, ["tensor", "float32"], [dtype, torch.float32, None]
    ):
        w = [None, None] if types is None else [v.to(types) for v in weights]
        where = {"rope": ROPES[rope], **where}
        options = {"norm": norm, "rounding": rounding, "eps": 1e-5}
        want = [unfused(x, v, norm, rounding, 1e-5, **where) for x, v in zip([q, k], w)]
        for got, expected in zip(rt.qk_norm_rope(q, k, *w, **options, **where), want):
            equal_bits(got, expected)
        equal_bits(rt.qk_norm_rope(q, None, w[0], **options, **where), want[0])
        copy = qkv.clone()
        rt.qk_norm_rope_(copy[:, :, :3], copy[:, :, 3:5], *w, **options, **where)
        equal_bits(copy[:, :, :3], want[0])
        equal_bits(copy[:, :, 3:5], want[1])
        equal_bits(copy[:, :, 5:], qkv[:, :, 5:])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head_dim", [2, 6, 10, 64, 72, 80, 96, 100, 128, 192, 256, 512, 576])
def test_heads_of_any_size(head_dim: int, dtype: torch.dtype, device: str) -> None:
    """Squares are summed as PyTorch sums them, whatever is left over."""
    rope = text(head_dim=head_dim, rotary_dim=head_dim, theta=1e4)
    q = torch.randn(2, 70, 3, head_dim, device=device).mul(3).to(dtype)
    w = torch.randn(head_dim, device=device).to(dtype)
    got = rt.qk_norm_rope(q, None, w, rope=rope, first=999_999_000)
    want = rt.rotate(normed(q, w, "rms", 1e-6), rope=rope, first=999_999_000)
    if device == "cuda" and head_dim % 4 != 0:  # another kernel of PyTorch's, with other sums
        torch.testing.assert_close(got, want)
    else:
        equal_bits(got, want)


def test_layouts(device: str) -> None:
    """Heads first, elements apart, five dimensions, packed sequences, no tokens and no heads."""
    rope, w = ROPES["half"], torch.randn(16, device=device)
    x = torch.randn(2, 5, 3, 16, device=device)
    want = rt.qk_norm_rope(x, None, w, rope=rope)
    swapped = rt.qk_norm_rope(x.transpose(1, 2), None, w, rope=rope, token_dim=-2)
    equal_bits(swapped.transpose(1, 2), want)
    apart = torch.randn(2, 5, 3, 32, device=device)[..., ::2].copy_(x)
    equal_bits(rt.qk_norm_rope(apart, None, w, rope=rope), want)
    strided = torch.stack([w, w], -1)[:, 0]
    equal_bits(rt.qk_norm_rope(x, None, strided, rope=rope), want)
    deep = x.expand(3, 2, 5, 3, 16)
    equal_bits(rt.qk_norm_rope(deep, None, w, rope=rope)[1], want)
    cu = torch.tensor([0, 2, 5], device=device)
    packed = rt.qk_norm_rope(x[0], None, w, rope=rope, cu_seqlens=cu)
    equal_bits(packed[2:], rt.qk_norm_rope(x[0, 2:], None, w, rope=rope))
    assert rt.qk_norm_rope(x[:, :0], x[:, :0], w, w, rope=rope)[0].shape == (2, 0, 3, 16)
    assert rt.qk_norm_rope(x[:, :, :0], None, w, rope=rope).shape == (2, 5, 0, 16)


def test_one_weight(device: str) -> None:
    q, k = torch.randn(2, 5, 3, 16, device=device)
    w = torch.randn(16, device=device)
    for norm in ["rms", "rms_one_plus"]:
        got = rt.qk_norm_rope(q, k, None, w, rope=ROPES["half"], norm=norm)
        for x, v, result in zip([q, k], [None, w], got):
            equal_bits(result, unfused(x, v, norm, "tensor", 1e-6, rope=ROPES["half"]))


@pytest.mark.parametrize("scope", ["head", "all_heads"])
@pytest.mark.parametrize("norm", ["rms", "rms_one_plus", "layer", "none"])
def test_derivatives(norm: str, scope: str, device: str) -> None:
    """Of every element of small heads; of heads with whole vectors in random directions."""
    for ropes, head_dim, fast in [(SMALL_ROPES, 6, False), (ROPES, 16, True)]:
        q, k = torch.randn(2, 2, 2, 2, head_dim, device=device, dtype=torch.float64).unbind()
        size = head_dim if scope == "head" else 2 * head_dim
        rows = torch.randn(4, size, device=device, dtype=torch.float64).unbind()
        leaves = [t.requires_grad_() for t in (q, k, *rows)]

        def run(*args: torch.Tensor, rope: str = ropes["scaled"]) -> tuple[torch.Tensor, ...]:
            how = {"norm": norm, "scope": scope, "eps": 1e-3}
            return rt.qk_norm_rope(*args, rope=rope, first=3, **how)

        leaves = leaves[: {"none": 2, "layer": 6}.get(norm, 4)]
        assert gradcheck(run, leaves, check_forward_ad=True, fast_mode=fast)
        assert gradgradcheck(run, leaves, fast_mode=fast)


def chain(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, how: dict[str, object]
) -> torch.Tensor:
    """The operator as one step after the other, in the type of x."""
    rope, eps = ROPES["partial"], 1e-5

    def normed_rows(x: torch.Tensor) -> torch.Tensor:
        rows = x if how["scope"] == "head" else x.flatten(-2)
        if how["norm"] == "layer":
            rows = F.layer_norm(rows, rows.shape[-1:], weight, bias, eps)
        else:
            rows = normed(rows, weight, str(how["norm"]), eps)
        return rows.reshape(x.shape)

    rotate = rt.unrotate if how["inverse"] else rt.rotate
    if how["order"] == "before":
        return rotate(normed_rows(x), rope=rope)
    return normed_rows(rotate(x, rope=rope))


FAMILY = [
    dict(zip(("norm", "scope", "order", "inverse", "rounding"), values))
    for values in itertools.product(
        ["rms", "rms_one_plus", "layer"],
        ["head", "all_heads"],
        ["before", "after"],
        [False, True],
        ["tensor", "float32"],
    )
]


@pytest.mark.parametrize("how", FAMILY, ids=lambda how: "-".join(map(str, how.values())))
@pytest.mark.parametrize("dtype", DTYPES)
def test_family(dtype: torch.dtype, how: dict[str, object], device: str) -> None:
    """Values and gradients against the chain in float64; RMS norms also bit for bit."""
    x = torch.randn(2, 70, 4, 16, device=device).add(0.3).to(dtype).requires_grad_()
    size = 16 if how["scope"] == "head" else 64
    w = torch.randn(size, device=device).to(dtype).requires_grad_()
    b = torch.randn(size, device=device).to(dtype).requires_grad_()
    leaves = [x, w, b] if how["norm"] == "layer" else [x, w]
    bias = b if how["norm"] == "layer" else None
    grad = torch.randn_like(x)
    out = rt.qk_norm_rope(x, None, w, None, bias, rope=ROPES["partial"], eps=1e-5, **how)
    if how["norm"] != "layer" and how["rounding"] == "tensor":
        equal_bits(out, chain(x, w, bias, how))
    got = [out, *torch.autograd.grad(out, leaves, grad)]
    wide = [t.detach().double().requires_grad_() for t in leaves]
    exact = chain(wide[0], wide[1], wide[2] if bias is not None else None, how)
    want = [exact, *torch.autograd.grad(exact, wide, grad.double())]
    close = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 4e-3}[dtype]
    for a, e in zip(got, want):
        torch.testing.assert_close(a.double(), e, rtol=close, atol=close * e.abs().max().item())


def test_in_place_under_autograd(device: str) -> None:
    x = torch.randn(5, 3, 16, device=device, requires_grad=True)
    w = torch.randn(16, device=device, requires_grad=True)
    y = x.clone()
    rt.qk_norm_rope_(y, None, w, rope=ROPES["half"])
    z = rt.qk_norm_rope(x, None, w, rope=ROPES["half"])
    equal_bits(y, z)
    for a, b in zip(*(torch.autograd.grad(r.sin().sum(), [x, w]) for r in (y, z))):
        torch.testing.assert_close(a, b)


def test_real_positions_have_gradients(device: str) -> None:
    x = torch.randn(5, 3, 16, device=device)
    at = torch.rand(5, device=device, requires_grad=True)
    got = rt.qk_norm_rope(x, None, None, rope=ROPES["half"], positions=at)
    want = rt.rotate(F.rms_norm(x, (16,), None, 1e-6), rope=ROPES["half"], positions=at)
    (a,), (b,) = (torch.autograd.grad(r.sin().sum(), at) for r in (got, want))
    torch.testing.assert_close(a, b)


@pytest.mark.parametrize("norm", ["rms", "rms_one_plus", "layer", "none"])
def test_operators(norm: str, device: str) -> None:
    def x(*shape: int, grad: bool = True) -> torch.Tensor:
        return torch.randn(*shape, device=device, requires_grad=grad)

    rest = (ROPES["half"], None, None, 3, -3, 1e-6, norm, "float32")
    weights = [] if norm == "none" else [x(16), x(16)]
    biases = [x(16), x(16)] if norm == "layer" else []
    tensors = [x(2, 5, 3, 16), x(2, 5, 1, 16)]
    dispatch = norm != "rms_one_plus"  # as rms
    opcheck(OPS.norm_rotate, (tensors, weights, biases, *rest), dispatch=dispatch)
    fixed = [[w.detach() for w in list_] for list_ in (weights, biases)]
    plain = [t.detach() for t in tensors]
    opcheck(OPS.norm_rotate_, (plain, *fixed, *rest), dispatch=dispatch)
    if norm != "none":
        backward = ([torch.randn_like(t) for t in plain], plain, fixed[0], *rest)
        opcheck(OPS.norm_rotate_backward, backward, dispatch=dispatch)


def test_compiles_to_one_graph(device: str) -> None:
    torch._dynamo.reset()
    q = torch.randn(2, 5, 3, 16, device=device, requires_grad=True)
    w = torch.randn(16, device=device, requires_grad=True)

    def f(q: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return rt.qk_norm_rope(q * 2, None, w, rope=ROPES["half"]).sin().sum()

    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    for a, b in zip(*(torch.autograd.grad(g(q, w), [q, w]) for g in (compiled, f))):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"norm": "batch"}, "norm must be one of none, rms, rms_one_plus, layer, got batch"),
        ({"rounding": "half"}, "rounding must be one of tensor, float32, every_step, got half"),
        ({"scope": "token"}, "scope must be one of head, all_heads, got token"),
        ({"order": "never"}, "order must be one of before, after, got never"),
        ({"q_bias": torch.ones(16)}, "only the norm layer has biases"),
        ({"scope": "all_heads", "q_weight": torch.ones(16)}, r"weights must be \[48\]"),
        ({"eps": -1.0}, "eps must be finite and not negative"),
        ({"token_dim": -1}, "token_dim"),
        ({"q_weight": torch.ones(8)}, r"weights must be \[16\]"),
        ({"q_weight": torch.ones(16, device="meta")}, "on one device"),
    ],
)
def test_rejects(change: dict[str, object], message: str) -> None:
    x = torch.randn(5, 3, 16)
    before = x.clone()
    with pytest.raises(ValueError, match=message):
        rt.qk_norm_rope_(x, **{"rope": ROPES["half"], **change})
    equal_bits(x, before)
