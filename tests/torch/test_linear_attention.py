"""linear_attend() against quadratic attention in float64: masks, state and gradients."""

import itertools

import pytest
import torch
from linear_reference import quadratic
from ropes import ROPES, ladder, text
from torch import Tensor

import rotary.torch as rt

OPS = torch.ops.rotary
FEATURES = 48
CASES = [
    ("numerator", "elu"),
    ("numerator", "relu"),
    ("numerator", "favor"),
    ("cosine", "elu"),
    ("rotated", "elu"),
    ("rotated", "favor"),
    ("before", "elu"),
    ("before", "favor"),
]
NAMES = ["-".join(case) for case in CASES]


def options(case: tuple[str, str], device: str = "cpu") -> dict[str, object]:
    """Options of a variant, with a suitable rope and projection."""
    variant, feature_map = case
    chosen: dict[str, object] = {"variant": variant, "feature_map": feature_map}
    chosen["rope"] = ROPES["half"]
    if feature_map == "favor":
        generator = torch.Generator().manual_seed(3)
        chosen["projection"] = rt.orthogonal_features(FEATURES, 16, generator).to(device)
        if variant in ("numerator", "rotated"):
            chosen["rope"] = text(head_dim=FEATURES, frequencies=ladder(FEATURES // 2))
    return chosen


def make_qkv(
    device: str,
    tokens: int,
    keys: int | None = None,
    *,
    batch: int = 2,
    kv_heads: int = 2,
    value_dim: int = 7,
    dtype: torch.dtype = torch.float64,
    grad: bool = True,
) -> list[Tensor]:
    """q of 4 heads, k and v, strided as linear layers produce them: tokens before heads."""
    keys = tokens if keys is None else keys
    sizes = [(tokens, 4, 16), (keys, kv_heads, 16), (keys, kv_heads, value_dim)]
    return [
        torch.randn(batch, n, h, d, device=device, dtype=dtype).transpose(1, 2).requires_grad_(grad)
        for n, h, d in sizes
    ]


def to_cpu(chosen: dict[str, object]) -> dict[str, object]:
    return {key: x.cpu() if isinstance(x, Tensor) else x for key, x in chosen.items()}


def reference(inputs: list[Tensor], chosen: dict[str, object]) -> Tensor:
    return quadratic(*(x.cpu() for x in inputs), **to_cpu(chosen))


def check(inputs: list[Tensor], chosen: dict[str, object], tolerance: float = 1e-9) -> None:
    """Values and gradients."""
    result = rt.linear_attend(*inputs, **chosen)
    expected = reference(inputs, chosen)
    torch.testing.assert_close(result.cpu(), expected, rtol=tolerance, atol=tolerance)
    grad = torch.randn_like(expected)
    ours = torch.autograd.grad(result, inputs, grad.to(result.device))
    theirs = torch.autograd.grad(expected, inputs, grad)
    for a, b in zip(ours, theirs, strict=True):
        assert (a - b).norm() <= 10 * tolerance * (1.0 + b.norm())


@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_matches_the_quadratic_formula(case: tuple[str, str], causal: bool, device: str) -> None:
    for tokens, kv_heads in [(1, 4), (2, 1), (64, 2), (65, 2), (150, 1)]:
        inputs = make_qkv(device, tokens, kv_heads=kv_heads)
        check(inputs, {**options(case, device), "causal": causal})


@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_padding_and_positions(case: tuple[str, str], causal: bool, device: str) -> None:
    """Including left padding: queries without visible keys give 0."""
    tokens = 70
    padding = torch.rand(2, tokens) > 0.3
    padding[0, :9] = False
    chosen = {**options(case, device), "causal": causal}
    inputs = make_qkv(device, tokens)
    positions = torch.randperm(tokens, device=device)
    check(inputs, {**chosen, "padding": padding.to(device), "positions": positions})
    if causal:
        result = rt.linear_attend(*inputs, **chosen, padding=padding.to(device))
        assert not result[0, :, :9].any()


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_cross_attention(case: tuple[str, str], device: str) -> None:
    inputs = make_qkv(device, 5, 83)
    at = {"positions": torch.arange(5) + 40, "key_positions": torch.arange(83)}
    check(inputs, {**options(case, device), **{k: x.to(device) for k, x in at.items()}})


@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("variant", ["numerator", "cosine", "rotated", "before"])
def test_packed_sequences(variant: str, causal: bool, device: str) -> None:
    lengths = [3, 0, 66, 1, 20]
    ends = torch.tensor([0, *itertools.accumulate(lengths)], device=device)
    inputs = make_qkv(device, sum(lengths), batch=1)
    chosen = {**options((variant, "elu")), "causal": causal}
    result = rt.linear_attend(*inputs, **chosen, cu_seqlens=ends)
    separate = [
        rt.linear_attend(*(x[:, :, begin:end] for x in inputs), **chosen)
        for begin, end in itertools.pairwise(ends.tolist())
        if begin < end
    ]
    torch.testing.assert_close(result, torch.cat(separate, 2), rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="cu_seqlens must rise"):
        rt.linear_attend(*inputs, causal=causal, cu_seqlens=ends[:-1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_dtypes(case: tuple[str, str], causal: bool, dtype: torch.dtype, device: str) -> None:
    """Features are rounded to the type and summed in float32. "rotated" has denominators near 0,
    for which 16 bits are not enough."""
    if case[0] == "rotated" and dtype != torch.float32:
        return
    inputs = make_qkv(device, 200, dtype=dtype, grad=False)
    chosen = {**options(case, device), "causal": causal}
    result = rt.linear_attend(*inputs, **chosen)
    assert result.dtype == dtype
    expected = reference([x.double() for x in inputs], chosen)
    error = (result.cpu().double() - expected).norm() / expected.norm()
    limits = {torch.float32: 5e-5, torch.bfloat16: 3e-2, torch.float16: 5e-3}
    assert error < limits[dtype]


def test_long_sums_accumulate_in_float32(device: str) -> None:
    """Summed in 16 bits, 20,000 keys would stop growing at 256 (bfloat16) or overflow."""
    q, k = (torch.rand(1, 1, 20000, 64, device=device) for _ in range(2))
    v = torch.randn(1, 1, 20000, 64, device=device)
    rope = text(head_dim=64, frequencies=ladder(32))
    exact = rt.linear_attend(q.double(), k.double(), v.double(), rope=rope, causal=True)
    for dtype, limit in [(torch.float32, 1e-4), (torch.bfloat16, 3e-2), (torch.float16, 5e-3)]:
        got = rt.linear_attend(*(x.to(dtype) for x in (q, k, v)), rope=rope, causal=True)
        error = (got.double() - exact)[:, :, -1000:].norm() / exact[:, :, -1000:].norm()
        assert error < limit


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_decoding_with_state_matches_full_pass(case: tuple[str, str], device: str) -> None:
    """A prompt, several tokens, one token."""
    inputs = make_qkv(device, 90, grad=False)
    chosen = {**options(case, device), "causal": True}
    full = rt.linear_attend(*inputs, **chosen)
    state = rt.LinearState()
    parts = []
    for begin, end in itertools.pairwise([0, 70, 75, *range(76, 91)]):
        inputs_slice = (x[:, :, begin:end] for x in inputs)
        parts.append(rt.linear_attend(*inputs_slice, **chosen, state=state))
        assert state.tokens == end
    torch.testing.assert_close(torch.cat(parts, 2), full, rtol=1e-9, atol=1e-9)
    assert state.kv is not None and state.k is not None
    sizes = [state.kv.shape, state.k.shape]
    rt.linear_attend(*(x[:, :, :1] for x in inputs), **chosen, state=state)
    assert sizes == [state.kv.shape, state.k.shape]


def test_state_in_a_compiled_loop(device: str) -> None:
    """`first` is symbolic in the graph: the second step compiles for all later ones."""
    inputs = make_qkv(device, 9, dtype=torch.float32, grad=False)
    chosen = options(("numerator", "elu"))
    graphs = 0

    def count(graph: torch.fx.GraphModule, _: object) -> object:
        nonlocal graphs
        graphs += 1
        return graph.forward

    step = torch.compile(OPS.linear_attend_step, backend=count, fullgraph=True, dynamic=True)
    out, kv, k = OPS.linear_attend_step(*(x[:, :, :4] for x in inputs), **chosen)
    parts = [out]
    for t in range(4, 9):
        one = (x[:, :, t : t + 1].contiguous() for x in inputs)
        out, kv, k = step(*one, kv, k, first=t, **chosen)
        parts.append(out)
    full = rt.linear_attend(*inputs, causal=True, **chosen)
    torch.testing.assert_close(torch.cat(parts, 2), full, rtol=1e-4, atol=1e-5)
    assert graphs <= 2


def test_vmap(device: str) -> None:
    inputs = make_qkv(device, 9, batch=3, dtype=torch.float32, grad=False)

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return rt.linear_attend(q[None], k[None], v[None], rope=ROPES["half"], causal=True)[0]

    torch.testing.assert_close(
        torch.vmap(call)(*inputs), rt.linear_attend(*inputs, rope=ROPES["half"], causal=True)
    )


def test_state_of_16_bit_inputs_is_float32(device: str) -> None:
    inputs = make_qkv(device, 70, dtype=torch.bfloat16, grad=True)
    state = rt.LinearState()
    rt.linear_attend(*inputs, causal=True, state=state)
    assert state.kv is not None and state.kv.dtype == torch.float32
    assert not state.kv.requires_grad
    kv = state.kv.clone()
    state.reorder(torch.tensor([1, 1], device=device))
    assert torch.equal(state.kv[0], kv[1])


def test_guard(device: str) -> None:
    """The rotated denominator vanishes: weights stay within 1 / guard of the unrotated mean."""
    rope = rt.rope_text({"head_dim": 2, "pairing": "half", "frequencies": [torch.pi / 2]})
    q = torch.zeros(1, 1, 3, 2, device=device, dtype=torch.float64)  # phi = 1, 1
    k, v = q.clone(), torch.randn(1, 1, 3, 2, device=device, dtype=torch.float64)
    at = {"positions": torch.zeros(3), "key_positions": torch.tensor([0.0, 1.0, 2.0])}
    at = {key: x.double().to(device) for key, x in at.items()}
    for guard in (0.01, 0.5):
        chosen = {"rope": rope, "variant": "rotated", "guard": guard, **at}
        result = rt.linear_attend(q, k, v, **chosen)
        torch.testing.assert_close(result.cpu(), reference([q, k, v], chosen))
        assert result.abs().max() <= v.abs().max() * 2**0.5 / guard
    with pytest.raises(ValueError, match="guard must be positive"):
        rt.linear_attend(q, k, v, guard=0.0)


def test_cosine_weights_are_nonnegative(device: str) -> None:
    """So results are within the range of the values."""
    q, k, v = make_qkv(device, 100, kv_heads=4)
    y = rt.linear_attend(q, k, v, variant="cosine", rope=ROPES["half"])
    low, high = v.amin(2, keepdim=True), v.amax(2, keepdim=True)
    assert ((y >= low) & (y <= high)).all()


def test_second_derivatives(device: str) -> None:
    sizes = [(1, 1, 3, 4), (1, 1, 3, 4), (1, 1, 3, 2)]
    inputs = [torch.randn(s, device=device, dtype=torch.float64).requires_grad_() for s in sizes]
    rope = text(head_dim=4, frequencies=ladder(2))
    for variant in ("numerator", "cosine"):

        def call(*tensors: Tensor, variant: str = variant) -> Tensor:
            return rt.linear_attend(*tensors, variant=variant, rope=rope, causal=True)

        assert torch.autograd.gradgradcheck(call, inputs)


@pytest.mark.parametrize("variant", ["numerator", "cosine", "rotated", "before"])
def test_compile(variant: str, device: str) -> None:
    """One graph for any length, with gradients."""

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return rt.linear_attend(q, k, v, variant=variant, rope=ROPES["half"], causal=True)

    compiled = torch.compile(call, fullgraph=True, dynamic=True, backend="aot_eager")
    for tokens in (70, 130):
        inputs = make_qkv(device, tokens, dtype=torch.float32)
        for a, b in zip(
            torch.autograd.grad(compiled(*inputs).square().sum(), inputs),
            torch.autograd.grad(call(*inputs).square().sum(), inputs),
            strict=True,
        ):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_opcheck(device: str) -> None:
    inputs = make_qkv(device, 70, dtype=torch.float32)
    for case in [("numerator", "elu"), ("before", "favor")]:
        torch.library.opcheck(OPS.linear_attend, inputs, {**options(case, device), "causal": True})


def test_orthogonal_features() -> None:
    w = rt.orthogonal_features(40, 16, torch.Generator().manual_seed(0))
    for block in (w[:16], w[16:32], w[32:]):
        unit = torch.nn.functional.normalize(block, dim=-1)
        torch.testing.assert_close(unit @ unit.T, torch.eye(len(block)), rtol=0, atol=1e-5)
    again = rt.orthogonal_features(40, 16, torch.Generator().manual_seed(0))
    assert torch.equal(w, again)
    lengths = rt.orthogonal_features(4096, 16, torch.Generator().manual_seed(1)).square().sum(-1)
    assert abs(lengths.mean() - 16) < 0.5  # as of a Gaussian vector
    assert abs(lengths.var() - 32) < 4


def test_favor_approaches_softmax(device: str) -> None:
    """Its weights are unbiased estimates of exp(q.k / sqrt(head_dim)); with rotation before the
    feature map this is softmax attention with RoPE."""
    q, k, v = make_qkv(device, 40, dtype=torch.float32, grad=False, kv_heads=4)
    q, k, rope = 0.5 * q, 0.5 * k, ROPES["half"]
    softmax = rt.attend(q, k, v, rope=rope)
    errors = []
    for features in (512, 2048):  # four times as many: half the error
        w = rt.orthogonal_features(features, 16, torch.Generator().manual_seed(0)).to(device)
        chosen = {"rope": rope, "variant": "before", "feature_map": "favor", "projection": w}
        error = rt.linear_attend(q, k, v, **chosen) - softmax
        errors.append(float(error.norm() / (softmax - v.mean(2, keepdim=True)).norm()))
    assert errors[1] < 0.3
    assert errors[1] < 0.7 * errors[0]


def test_rejects_wrong_arguments() -> None:
    q, k, v = make_qkv("cpu", 6, grad=False)
    growing = ROPES["growing"]
    for bad in [
        {"variant": "other"},
        {"feature_map": "other"},
        {"feature_map": "favor"},
        {"projection": torch.randn(8, 16)},
        {"feature_map": "favor", "projection": torch.randn(8, 9)},
        {"feature_map": "favor", "projection": torch.randn(8, 16), "rope": ROPES["half"]},
        {"rope": growing},
        {"rope": text(head_dim=8, frequencies=ladder(4))},
        {"positions": torch.arange(6)},
        {"padding": torch.ones(2, 5, dtype=torch.bool)},
        {"padding": torch.ones(2, 6)},
        {"cu_seqlens": torch.tensor([0, 6])},
    ]:
        with pytest.raises(ValueError, match=r"\[linear_attend\]"):
            rt.linear_attend(q, k, v, **bad)
    with pytest.raises(ValueError, match="as many queries as keys"):
        rt.linear_attend(q[:, :, :2], k, v, causal=True)
    with pytest.raises(ValueError, match="heads of k must divide"):
        rt.linear_attend(q[:, :3], k, v)
    with pytest.raises(ValueError, match="a state is for causal"):
        rt.linear_attend(q, k, v, state=rt.LinearState())
    state = rt.LinearState()
    rt.linear_attend(q, k, v, causal=True, state=state)
    with pytest.raises(ValueError, match="another attention"):
        rt.linear_attend(q, k, v, causal=True, variant="cosine", state=state)
