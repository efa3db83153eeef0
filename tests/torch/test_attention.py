"""attend(): masks, packed sequences, biases, kernels, derivatives."""

import itertools

import pytest
import torch
from operators import opcheck
from quadratic import packed_visible, quadratic, visible
from ropes import text
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

import rotary.torch as rt

OPS = torch.ops.rotary


def heads(
    device: str,
    queries: int,
    keys: int,
    *,
    batch: int = 2,
    kv_heads: int = 2,
    dtype: torch.dtype = torch.float64,
) -> list[Tensor]:
    """q of 4 heads, k and v, as projections leave them: tokens before heads."""
    sizes = [(queries, 4), (keys, kv_heads), (keys, kv_heads)]
    return [
        torch.randn(batch, n, h, 16, device=device, dtype=dtype).transpose(1, 2).requires_grad_()
        for n, h in sizes
    ]


def check(result: Tensor, expected: Tensor, inputs: list[Tensor], tolerance: float = 1e-10) -> None:
    """Values and gradients."""
    torch.testing.assert_close(result.double(), expected, rtol=tolerance, atol=tolerance)
    grad = torch.randn_like(expected)
    ours = torch.autograd.grad(result, inputs, grad.to(result.dtype))
    theirs = torch.autograd.grad(expected, inputs, grad)
    for a, b in zip(ours, theirs):
        assert a.isfinite().all()
        torch.testing.assert_close(a.double(), b.double(), rtol=10 * tolerance, atol=10 * tolerance)


# queries, keys, first
SHAPES = [(5, 5, 0), (3, 8, 5), (1, 8, 7), (4, 9, 2), (6, 3, 0), (7, 2, 4)]
WINDOWS = [None, 1, 3, 50]


@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_masks_and_their_combinations(
    shape: tuple[int, int, int], kv_heads: int, device: str
) -> None:
    queries, keys, first = shape
    padding = torch.rand(2, keys) > 0.4
    for causal, window, padded in itertools.product([False, True], WINDOWS, [False, True]):
        inputs = heads(device, queries, keys, kv_heads=kv_heads)
        mask = visible(queries, keys, first=first, causal=causal, window=window)[None, None]
        if padded:
            mask = mask & padding[:, None, None, :]
        result = rt.attend(
            *inputs,
            first=first,
            causal=causal,
            window=window,
            padding=padding.to(device) if padded else None,
        )
        check(result, quadratic(*inputs, mask), inputs)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("batch", [1, 2])
def test_packed_sequences(causal: bool, window: int | None, batch: int, device: str) -> None:
    cu = [0, 3, 3, 4, 9]
    inputs = heads(device, 9, 9, batch=batch)
    boundaries = torch.tensor(cu, device=device, dtype=torch.int32)
    result = rt.attend(*inputs, cu_seqlens=boundaries, causal=causal, window=window)
    check(result, quadratic(*inputs, packed_visible(cu, cu, causal=causal, window=window)), inputs)

    cu_k = [0, 4, 6, 6, 13]  # also more queries than keys, and none
    inputs = heads(device, 9, 13, batch=batch)
    result = rt.attend(
        *inputs,
        cu_seqlens=boundaries,
        cu_seqlens_k=torch.tensor(cu_k, device=device),
        max_seqlen=7,
        causal=causal,
        window=window,
    )
    mask = packed_visible(cu, cu_k, causal=causal, window=window)
    check(result, quadratic(*inputs, mask), inputs)


def test_packed_sequences_with_everything_else(device: str) -> None:
    cu = [0, 3, 4, 9]
    inputs = heads(device, 9, 9)
    padding = torch.rand(2, 9) > 0.3
    bias = torch.randn(4, 9, 9, dtype=torch.float64, device=device, requires_grad=True)
    result = rt.attend(
        *inputs,
        cu_seqlens=torch.tensor(cu, device=device),
        causal=True,
        padding=padding.to(device),
        bias=bias,
    )
    mask = packed_visible(cu, cu, causal=True) & padding[:, None, None, :]
    check(result, quadratic(*inputs, mask, bias), [*inputs, bias])


def test_packed_sequences_do_not_touch_each_other(device: str) -> None:
    """Scores across sequences are not computed: a NaN stays within its sequence."""
    dtype = torch.float64 if device == "cpu" else torch.bfloat16
    q, k, v = heads(device, 9, 9, batch=1, dtype=dtype)
    with torch.no_grad():
        v[:, :, 4:] = torch.nan
    result = rt.attend(q, k, v, cu_seqlens=torch.tensor([0, 4, 9], device=device))
    assert result[:, :, :4].isfinite().all()
    assert result[:, :, 4:].isnan().all()


@pytest.mark.parametrize("shape", [(4, 5, 6), (1, 6), (2, 4, 5, 6), (2, 1, 5, 6)])
@pytest.mark.parametrize("causal", [False, True])
def test_bias(shape: tuple[int, ...], causal: bool, device: str) -> None:
    inputs = heads(device, 5, 6)
    bias = torch.randn(shape, dtype=torch.float64, device=device, requires_grad=True)
    result = rt.attend(*inputs, bias=bias, causal=causal, first=1)
    mask = visible(5, 6, first=1, causal=causal)
    check(result, quadratic(*inputs, mask, bias), [*inputs, bias])


@pytest.mark.parametrize("causal", [False, True])
def test_bias_with_strided_keys(causal: bool, device: str) -> None:
    """Heads are adjacent in what a table of distances gives; kernels want adjacent keys."""
    inputs = heads(device, 5, 6)
    table = torch.randn(5, 6, 4, dtype=torch.float64, device=device, requires_grad=True)
    bias = table.permute(2, 0, 1)
    result = rt.attend(*inputs, bias=bias, causal=causal, first=1)
    mask = visible(5, 6, first=1, causal=causal)
    check(result, quadratic(*inputs, mask, bias), [*inputs, table])


def test_queries_without_visible_keys_give_0(device: str) -> None:
    padding = torch.tensor([[False, False, True], [False, False, False]], device=device)
    for bias in [None, torch.zeros(3, 3, device=device, dtype=torch.float64)]:
        inputs = heads(device, 3, 3)
        result = rt.attend(*inputs, causal=True, padding=padding, bias=bias)
        assert result[1].eq(0).all() and result[0, :, :2].eq(0).all()
        assert result[0, :, 2].ne(0).all()
        for grad in torch.autograd.grad(result.sum(), inputs):
            assert grad.isfinite().all()
    q, k, v = heads(device, 3, 0)
    assert rt.attend(q, k, v).eq(0).all()
    assert rt.attend(q, k, v, causal=True, window=2).shape == (2, 4, 3, 16)


TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 3e-2, torch.float16: 4e-3}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("kv_heads", [4, 2])
def test_types(dtype: torch.dtype, kv_heads: int, device: str) -> None:
    """On CUDA 16 bits run the flash kernel itself for windows, caches and packed sequences."""
    cu = [0, 70, 71, 130]
    cases: list[tuple[int, dict[str, object], Tensor]] = [
        (130, {}, visible(130, 130)),
        (130, {"causal": True}, visible(130, 130, causal=True)),
        (130, {"causal": True, "window": 9}, visible(130, 130, causal=True, window=9)),
        (130, {"window": 9}, visible(130, 130, window=9)),
        (40, {"first": 90, "causal": True}, visible(40, 130, first=90, causal=True)),
        (1, {"first": 129, "causal": True}, visible(1, 130, first=129, causal=True)),
        (130, {"cu_seqlens": cu}, packed_visible(cu, cu)),
        (130, {"cu_seqlens": cu, "causal": True}, packed_visible(cu, cu, causal=True)),
    ]
    for queries, options, mask in cases:
        inputs = heads(device, queries, 130, batch=1, kv_heads=kv_heads, dtype=dtype)
        if "cu_seqlens" in options:
            options = {**options, "cu_seqlens": torch.tensor(cu, device=device)}
        result = rt.attend(*inputs, **options)
        assert result.dtype == dtype
        check(result, quadratic(*inputs, mask), inputs, TOLERANCE[dtype])
        used = rt.last_attention_backend()
        assert used == rt.attention_backend(*inputs, **options)
        if device == "cuda" and dtype != torch.float32:
            assert used in ("flash", "cudnn"), (used, options)


def test_reported_backend_is_the_one_that_runs(device: str) -> None:
    inputs = heads(device, 8, 8, kv_heads=4, dtype=torch.float32)
    assert rt.attention_backend(*inputs, causal=True) in ("flash", "efficient")
    with sdpa_kernel(SDPBackend.MATH):
        assert rt.attention_backend(*inputs, causal=True) == "math"
        result = rt.attend(*inputs, causal=True)
        assert rt.last_attention_backend() == "math"
    torch.testing.assert_close(result, rt.attend(*inputs, causal=True))


def test_attend_with_rope(device: str) -> None:
    q, k, v = heads(device, 5, 5)
    positions = torch.tensor([3, 5, 6, 100, 2], device=device)
    for rope in [text(softmax_scale=1.5), text(growth=[0.01 * i for i in range(8)])]:
        embedding = rt.RotaryEmbedding(rope, token_dim=-2)
        rotated = embedding(q, k, positions)
        result = rt.attend(q, k, v, rope=rope, positions=positions, causal=True)
        scale = 0.25 * embedding.softmax_scale
        expected = quadratic(*rotated, v, visible(5, 5, causal=True), scale=scale)
        check(result, expected, [q, k, v])
    cu = torch.tensor([0, 2, 5], device=device)
    rotated = rt.rotate(q, k, rope=text(), cu_seqlens=cu, token_dim=-2)
    torch.testing.assert_close(
        rt.attend(q, k, v, rope=text(), cu_seqlens=cu), rt.attend(*rotated, v, cu_seqlens=cu)
    )


def test_dropout_drops_weights_and_scales_the_rest(device: str) -> None:
    q, k, _ = heads(device, 16, 16, dtype=torch.float32)
    v = torch.eye(16, device=device).expand(2, 2, 16, 16)
    kept = rt.attend(q, k, v)
    dropped = rt.attend(q, k, v, dropout=0.5)
    gone = dropped == 0
    assert 0.3 < gone.float().mean() < 0.7
    torch.testing.assert_close(dropped[~gone], 2 * kept[~gone])


def test_values_of_another_head_dim(device: str) -> None:
    q, k, _ = heads(device, 5, 5)
    v = torch.randn(2, 2, 5, 24, dtype=torch.float64, device=device, requires_grad=True)
    check(rt.attend(q, k, v), quadratic(q, k, v), [q, k, v])


ERRORS = [
    ({"q": torch.zeros(5, 4, 16)}, "q, k and v must be .batch, heads, tokens, head_dim., got 3"),
    ({"q": torch.zeros(3, 4, 5, 16)}, "share their batch, got 3, 2 and 2"),
    ({"v": torch.zeros(2, 2, 4, 16)}, "k and v must share heads and tokens"),
    ({"q": torch.zeros(2, 3, 5, 16)}, "heads of k must divide those of q, got 2 and 3"),
    ({"q": torch.zeros(2, 4, 5, 8)}, "share head_dim, got 8 and 16"),
    ({"q": torch.zeros(2, 4, 5, 16).double()}, "must have one type, got Double, Float and Float"),
    ({"first": -1}, "first must not be negative, got -1"),
    ({"window": 0}, "window must be positive, got 0"),
    ({"dropout": 1.0}, "dropout must be at least 0 and below 1, got 1"),
    ({"padding": torch.ones(2, 5)}, "padding must be .batch 2, keys 5. of bool, got .2, 5. of"),
    ({"padding": torch.ones(2, 4).bool()}, "padding must be"),
    ({"cu_seqlens": torch.tensor([0.0, 5.0])}, "cu_seqlens must be .sequences . 1. of int32"),
    ({"cu_seqlens": torch.tensor([0, 4])}, "cu_seqlens must rise from 0 to .*, 5, got"),
    ({"cu_seqlens": torch.tensor([0, 5]), "first": 1}, "first must be 0 for packed"),
    ({"cu_seqlens_k": torch.tensor([0, 5])}, "cu_seqlens_k needs cu_seqlens"),
    ({"bias": torch.zeros(3, 5, 5)}, "bias must broadcast to .batch 2, heads 4, queries 5, keys 5"),
    ({"bias": torch.zeros(5, 5).bool()}, "bias must broadcast to .* of Bool"),
]


@pytest.mark.parametrize("change,message", ERRORS)
def test_rejects_wrong_arguments(change: dict[str, object], message: str) -> None:
    arguments = {
        "q": torch.zeros(2, 4, 5, 16),
        "k": torch.zeros(2, 2, 5, 16),
        "v": torch.zeros(2, 2, 5, 16),
        **change,
    }
    with pytest.raises(ValueError, match=r"\[attend\] .*" + message):
        rt.attend(**arguments)


def test_opcheck(device: str) -> None:
    inputs = heads(device, 5, 5, dtype=torch.float32)
    cu = torch.tensor([0, 2, 5], device=device)
    padding = torch.rand(2, 5, device=device) > 0.3
    bias = torch.randn(4, 5, 5, device=device, requires_grad=True)
    opcheck(OPS.attend, tuple(inputs), {"causal": True}, dispatch=False)  # a part of the next
    masks = {"causal": True, "window": 2, "padding": padding, "bias": bias}
    opcheck(OPS.attend, tuple(inputs), masks, dispatch=True)
    opcheck(OPS.attend, tuple(inputs), {"cu_seqlens": cu}, dispatch=True)


def test_compiles_into_one_graph(device: str) -> None:
    rope = text()

    def step(q: Tensor, k: Tensor, v: Tensor, first: int) -> Tensor:
        whole = rt.attend(k, k, v, rope=rope, causal=True)
        return rt.attend(q, whole, v, causal=True, first=first, window=50)

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager", dynamic=True)
    for keys in [6, 7, 9]:
        q, k, v = (x.detach() for x in heads(device, 2, keys, dtype=torch.float32))
        torch.testing.assert_close(compiled(q, k, v, keys - 2), step(q, k, v, keys - 2))


def test_torch_func(device: str) -> None:
    q, k, v = (x.detach() for x in heads(device, 4, 4))

    def loss(q: Tensor) -> Tensor:
        return OPS.attend(q, k, v, causal=True).square().sum()

    expected = torch.autograd.functional.jacobian(loss, q)
    torch.testing.assert_close(torch.func.grad(loss)(q), expected)
    many = torch.stack([q, 2 * q])
    with sdpa_kernel(SDPBackend.MATH):
        mapped = torch.vmap(lambda q: OPS.attend(q, k, v, causal=True))(many)
    torch.testing.assert_close(mapped[1], OPS.attend(2 * q, k, v, causal=True))


def test_benchmark_of_rope_cost(device: str) -> None:
    from attention_cost import rope_cost

    sizes = {"batch": 1, "heads": 2, "tokens": 8, "head_dim": 8, "rounds": 1}
    rows = rope_cost(device=device, dtype=torch.float32, **sizes)
    masks = ["bidirectional", "causal"]
    assert [r["what"] for r in rows] == [f"{m}, {x}" for m in masks for x in ("no RoPE", "RoPE")]
    assert all(r["both_ms"] > 0 and r["backend"] in ("flash", "efficient") for r in rows)
    assert rows[0]["ratio"] == rows[2]["ratio"] == 1.0
