"""Linear attention with exponential decay, against all pairs in float64: values, gradients, state,
and lengths at which e^(decay n) would overflow."""

import itertools

import pytest
import torch
from linear_reference import quadratic
from operators import opcheck
from ropes import ROPES
from test_linear_attention import CASES, NAMES, make_qkv, options
from torch import Tensor

import rotary.torch as rt

OPS = torch.ops.rotary
TOKENS = [1, 64, 65, 150]


def slopes(device: str, heads: int = 2, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.linspace(0.01, 0.4, heads, dtype=dtype, device=device).requires_grad_()


def check(inputs: list[Tensor], decay: Tensor, chosen: dict[str, object], **more: object) -> None:
    """Values, and the gradients of q, k, v and decay."""
    result = rt.linear_attend(*inputs, decay=decay, **chosen, **more)
    given = {k: x.cpu() if isinstance(x, Tensor) else x for k, x in {**chosen, **more}.items()}
    expected = quadratic(*(x.cpu() for x in inputs), decay=decay.cpu(), **given)
    torch.testing.assert_close(result.cpu(), expected, rtol=1e-9, atol=1e-9)
    grad = torch.randn_like(expected)
    ours = torch.autograd.grad(result, [*inputs, decay], grad.to(result.device))
    theirs = torch.autograd.grad(expected, [*inputs, decay], grad)
    for a, b in zip(ours, theirs, strict=True):
        assert (a - b).norm() <= 1e-8 * (1.0 + b.norm())


@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_matches_all_pairs(case: tuple[str, str], causal: bool, device: str) -> None:
    for tokens, kv_heads in zip(TOKENS, (4, 1, 2, 2), strict=True):
        inputs = make_qkv(device, tokens, kv_heads=kv_heads)
        check(inputs, slopes(device, kv_heads), {**options(case, device), "causal": causal})


@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("variant", ["numerator", "cosine", "rotated", "before"])
def test_padding_and_packed_sequences(variant: str, causal: bool, device: str) -> None:
    chosen = {**options((variant, "elu"), device), "causal": causal}
    padding = torch.rand(2, 70) > 0.3
    padding[0, :9] = False
    decay = slopes(device)
    check(make_qkv(device, 70), decay, chosen, padding=padding.to(device))
    ends = torch.tensor([0, 3, 3, 69, 90], device=device)
    inputs = make_qkv(device, 90, batch=1)
    packed = rt.linear_attend(*inputs, **chosen, decay=decay, cu_seqlens=ends)
    separate = [
        rt.linear_attend(*(x[:, :, begin:end] for x in inputs), **chosen, decay=decay)
        for begin, end in itertools.pairwise(ends.tolist())
        if begin < end
    ]
    torch.testing.assert_close(packed, torch.cat(separate, 2), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_decoding_with_state_matches_full_pass(case: tuple[str, str], device: str) -> None:
    inputs = make_qkv(device, 90, grad=False)
    chosen = {**options(case, device), "causal": True, "decay": slopes(device).detach()}
    full = rt.linear_attend(*inputs, **chosen)
    state = rt.LinearState()
    parts = [
        rt.linear_attend(*(x[:, :, begin:end] for x in inputs), **chosen, state=state)
        for begin, end in itertools.pairwise([0, 70, 75, *range(76, 91)])
    ]
    torch.testing.assert_close(torch.cat(parts, 2), full, rtol=1e-9, atol=1e-9)


def test_long_sequences(device: str) -> None:
    """5,000 tokens: two levels of the scan over chunks, and weights down to e^-5000. Every seventh
    row: some of every chunk, at all places of one."""
    heads = 3
    decay = torch.tensor([0.0, 1e-3, 1.0], dtype=torch.float64, device=device)
    for direction in ("causal", "reverse", "all"):
        x, y, w = (torch.randn(heads, 5000, 4, device=device, dtype=torch.float64) for _ in "xyw")
        got = OPS.linear_decay_product(x, y, w, decay, None, direction)
        columns = torch.arange(5000, device=device)
        rows = columns[::7]
        distance = torch.arange(-4999, 5000, device=device).abs()
        for h in range(heads):
            # Row i has e^(-decay |i - j|): the exponentials of 9,999 distances, not of all pairs.
            by_distance = (-decay[h] * distance).exp().unfold(0, 5000, 1)[4999 - rows]
            weights = (x[h, rows] @ y[h].T).mul_(by_distance)
            if direction == "causal":
                weights.masked_fill_(rows[:, None] < columns, 0.0)
            if direction == "reverse":
                weights.masked_fill_(rows[:, None] > columns, 0.0)
            torch.testing.assert_close(got[h, rows], weights @ w[h], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_dtypes(dtype: torch.dtype, causal: bool, device: str) -> None:
    inputs = make_qkv(device, 200, dtype=dtype)
    decay = slopes(device, dtype=torch.float32)
    chosen = {"rope": ROPES["half"], "causal": causal}
    result = rt.linear_attend(*inputs, decay=decay, **chosen)
    assert result.dtype == dtype
    wide = [x.detach().cpu().double().requires_grad_() for x in (*inputs, decay)]
    expected = quadratic(*wide[:3], decay=wide[3], **chosen)
    limit = {torch.float32: 5e-5, torch.bfloat16: 3e-2, torch.float16: 5e-3}[dtype]
    assert (result.cpu().double() - expected).norm() < limit * expected.norm()
    grad = torch.randn_like(expected)
    ours = torch.autograd.grad(result, [*inputs, decay], grad.to(result))
    theirs = torch.autograd.grad(expected, wide, grad)
    for a, b in zip(ours, theirs, strict=True):
        assert a.isfinite().all()
        assert (a.cpu().double() - b).norm() < 3 * limit * b.norm()


def test_second_derivatives(device: str) -> None:
    sizes = [(1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 2)]
    inputs = [torch.randn(s, device=device, dtype=torch.float64).requires_grad_() for s in sizes]
    for causal in (False, True):

        def call(q: Tensor, k: Tensor, v: Tensor, decay: Tensor, causal: bool = causal) -> Tensor:
            return rt.linear_attend(q, k, v, decay=decay, causal=causal)

        assert torch.autograd.gradgradcheck(call, [*inputs, slopes(device)])


def test_compile_and_opcheck(device: str) -> None:
    decay = slopes(device, dtype=torch.float32)

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return rt.linear_attend(q, k, v, rope=ROPES["half"], causal=True, decay=decay)

    compiled = torch.compile(call, fullgraph=True, dynamic=True, backend="aot_eager")
    for tokens in (70, 130):
        inputs = make_qkv(device, tokens, dtype=torch.float32)
        for a, b in zip(
            torch.autograd.grad(compiled(*inputs).square().sum(), [*inputs, decay]),
            torch.autograd.grad(call(*inputs).square().sum(), [*inputs, decay]),
            strict=True,
        ):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    x = torch.randn(2, 2, 70, 5, device=device, requires_grad=True)
    scale = torch.rand(2, 2, 70, device=device)
    for direction in ("causal", "reverse", "all"):
        arguments = (x, x, x, decay, scale, direction)
        opcheck(OPS.linear_decay_product, arguments, dispatch=direction == "causal")


def test_module_learns_its_decay(device: str) -> None:
    attention = rt.LinearAttention(
        64, 4, kv_heads=2, rope=ROPES["half"], causal=True, decay=True, learn_decay=True
    ).to(device)
    torch.testing.assert_close(attention.log_decay.exp().cpu(), torch.tensor([2.0**-4, 2.0**-8]))
    attention(torch.randn(1, 9, 64, device=device)).square().sum().backward()
    assert attention.log_decay.grad.abs().min() > 0
    fixed = rt.LinearAttention(64, 4, decay=0.5).to(device)
    assert torch.equal(fixed.state_dict()["decay"].cpu(), torch.full((4,), 0.5))
    x = torch.randn(2, 20, 64, device=device)
    state, causal = rt.LinearState(), rt.LinearAttention(64, 4, decay=0.1, causal=True).to(device)
    steps = [causal(x[:, t : t + 1], state=state) for t in range(20)]
    torch.testing.assert_close(torch.cat(steps, 1), causal(x), rtol=1e-4, atol=1e-5)


def test_rejects_wrong_decay() -> None:
    q, k, v = make_qkv("cpu", 5)
    for wrong in (torch.ones(3), torch.ones(1, 2), torch.ones(2, dtype=torch.int64)):
        with pytest.raises(ValueError, match=r"\[linear_attend\] decay must be real numbers \[2\]"):
            rt.linear_attend(q, k, v, decay=wrong)
    for wrong in (-0.1, torch.inf, torch.nan):
        with pytest.raises(ValueError, match="decay must be finite and not negative"):
            rt.linear_attend(q, k, v, decay=torch.tensor([0.1, wrong]))
    with pytest.raises(ValueError, match="decay needs as many queries as keys, got 5 and 7"):
        rt.linear_attend(q, *make_qkv("cpu", 5, 7)[1:], decay=torch.ones(2))
    with pytest.raises(ValueError, match="decay must be 4 numbers that are not negative"):
        rt.LinearAttention(64, 4, decay=-1.0)
    with pytest.raises(ValueError, match="learn_decay needs a decay above 0"):
        rt.LinearAttention(64, 4, learn_decay=True)
