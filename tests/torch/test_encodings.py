"""Every encoding against its formula, evaluated score by score in float64."""

import json
import math

import pytest
import torch
from operators import opcheck
from quadratic import quadratic, visible
from ropes import reference, text
from torch import Tensor

import rotary.torch as rt
from rotary.torch.encodings import Encoding

OPS = torch.ops.rotary
HEADS = 6
XPOS = text(growth=[0.01 * i for i in range(8)])


def table(heads: int, queries: list[float], keys: list[float], value: object) -> Tensor:
    """value(h, i, j) for query positions i and key positions j: [heads, queries, keys]."""
    return torch.tensor(
        [[[value(h, i, j) for j in keys] for i in queries] for h in range(heads)],
        dtype=torch.float64,
    )


def t5_bucket(i: int, j: int, buckets: int, max_distance: int, causal: bool) -> int:
    """Raffel et al. 2020, 2.1 and its code: one bucket per distance, then logarithmic ones."""
    start, n = 0, i - j
    if causal:
        n = max(n, 0)
    else:
        buckets //= 2
        start, n = (buckets, -n) if n < 0 else (0, n)
    if n < buckets // 2:
        return start + n
    exact = buckets // 2
    log_bucket = math.log(n / exact) / math.log(max_distance / exact) * (buckets - exact)
    return start + min(exact + int(log_bucket + 1e-9), buckets - 1)


def alibi_slope(h: int, heads: int) -> float:
    """Press et al. 2022: a geometric sequence, and the authors' rule for no power of two."""
    if heads & (heads - 1) == 0:
        return 2.0 ** (-8.0 * (h + 1) / heads)
    below = 2 ** int(math.log2(heads))
    if h < below:
        return alibi_slope(h, below)
    return alibi_slope(2 * (h - below), 2 * below)


def formula(encoding: Encoding, name: str) -> object:
    """The bias of an encoding as a function of head and positions."""
    p = {key: value.detach().double().cpu() for key, value in encoding.named_parameters()}

    def distance(h: int, i: int, j: int) -> float:
        max_distance = (len(p["table"]) - 1) // (1 if encoding.causal else 2)
        if encoding.causal:
            return p["table"][min(max(i - j, 0), max_distance), h].item()
        return p["table"][min(max(i - j, -max_distance), max_distance) + max_distance, h].item()

    def t5(h: int, i: int, j: int) -> float:
        row = t5_bucket(i, j, len(p["weight"]), encoding.max_distance, encoding.causal)
        return p["weight"][row, h].item()

    def kerple_power(h: int, i: int, j: int) -> float:
        r1, r2 = math.exp(p["log_r1"][h]), 2 / (1 + math.exp(-p["logit_r2"][h]))
        return -r1 * abs(i - j) ** r2

    return {
        "t5": t5,
        "distance": distance,
        "alibi": lambda h, i, j: -alibi_slope(h, HEADS) * abs(i - j),
        "kerple_log": lambda h, i, j: (
            -math.exp(p["log_r1"][h]) * math.log(1 + math.exp(p["log_r2"][h]) * abs(i - j))
        ),
        "kerple_power": kerple_power,
    }[name]


def randomized(encoding: Encoding) -> Encoding:
    with torch.no_grad():
        for parameter in encoding.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return encoding.double()


SCORES = ["t5", "distance", "alibi", "kerple_log", "kerple_power"]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", SCORES)
def test_bias(name: str, causal: bool, device: str) -> None:
    encoding = rt.make_encoding(name, heads=HEADS, buckets=8, max_distance=20, causal=causal)
    encoding = randomized(encoding).to(device)
    assert encoding.targets == {"score"}
    value = formula(encoding, name)
    like = torch.empty(0, device=device)
    close = {"rtol": 1e-6, "atol": 1e-6} if name == "alibi" else {}
    for queries, keys, first in [(40, 40, 0), (1, 9, 8), (3, 50, 47), (5, 4, 2)]:
        at = list(range(first, first + queries))
        expected = table(HEADS, at, list(range(keys)), value)
        bias = encoding.bias(queries, keys, like=like, first=first)
        torch.testing.assert_close(bias.double().cpu(), expected, **close)
    q_at, k_at = torch.tensor([[3, 90, 7], [0, 1, -5]]), torch.tensor([5, 0, 4, 70])
    bias = encoding.bias(
        3, 4, like=like, query_positions=q_at.to(device), key_positions=k_at.to(device)
    )
    expected = [table(HEADS, row, k_at.tolist(), value) for row in q_at.tolist()]
    torch.testing.assert_close(bias.double().cpu(), torch.stack(expected), **close)


@pytest.mark.parametrize("name", ["alibi", "kerple_log", "kerple_power"])
def test_real_positions(name: str, device: str) -> None:
    encoding = randomized(rt.make_encoding(name, heads=HEADS)).to(device)
    q_at, k_at = (torch.rand(n, dtype=torch.float64, device=device) * 30 for n in (3, 4))
    like = torch.empty(0, device=device)
    bias = encoding.bias(3, 4, like=like, query_positions=q_at, key_positions=k_at)
    expected = table(HEADS, q_at.tolist(), k_at.tolist(), formula(encoding, name))
    torch.testing.assert_close(bias.double().cpu(), expected, rtol=1e-6, atol=1e-6)


def test_t5_buckets_are_those_of_transformers() -> None:
    """At T5's own sizes: models were trained with these bucket edges."""
    from transformers.models.t5.modeling_t5 import T5Attention

    weight = torch.arange(32.0)[:, None]
    for causal in (False, True):
        bias = OPS.t5_bias(weight, 300, 300, causal=causal)[0]
        relative = torch.arange(300)[None, :] - torch.arange(300)[:, None]
        theirs = T5Attention._relative_position_bucket(relative, bidirectional=not causal)
        assert torch.equal(bias.long(), theirs)


def test_alibi_slopes_are_those_of_the_paper() -> None:
    slopes = OPS.alibi_slopes(torch.empty(0), 8)
    assert slopes.tolist() == [2.0**-h for h in range(1, 9)]
    for heads in [1, 2, 3, 12, 16, 20, 71]:
        expected = [alibi_slope(h, heads) for h in range(heads)]
        torch.testing.assert_close(
            OPS.alibi_slopes(torch.empty(0), heads).double(),
            torch.tensor(expected, dtype=torch.float64),
            rtol=1e-6,
            atol=0,
        )


@pytest.mark.parametrize("name", SCORES)
def test_bias_gradients(name: str, device: str) -> None:
    if name == "alibi":
        slopes = torch.rand(2, dtype=torch.float64, device=device, requires_grad=True)
        assert torch.autograd.gradcheck(
            lambda s: OPS.alibi_bias(s, 4, 6, 1), slopes, nondet_tol=1e-12
        )
        return
    encoding = randomized(rt.make_encoding(name, heads=2, buckets=8, max_distance=5)).to(device)
    parameters = dict(encoding.named_parameters())

    def bias(*values: Tensor) -> Tensor:
        return torch.func.functional_call(
            Biased(encoding), {f"encoding.{key}": x for key, x in zip(parameters, values)}, ()
        )

    values = tuple(p.detach().clone().requires_grad_() for p in parameters.values())
    assert torch.autograd.gradcheck(bias, values, nondet_tol=1e-12)


class Biased(torch.nn.Module):
    def __init__(self, encoding: Encoding) -> None:
        super().__init__()
        self.encoding = encoding

    def forward(self) -> Tensor:
        return self.encoding.bias(4, 6, like=next(self.encoding.parameters()), first=1)


def test_sinusoids(device: str) -> None:
    for dim in (8, 7):
        x = torch.randn(2, 3, dim, dtype=torch.float64, device=device)
        at = torch.tensor([[0, 1, 5], [9, 1000000, 2]], device=device)

        def pe(p: float, c: int, dim: int = dim) -> float:
            angle = p / 10000 ** (2 * (c // 2) / dim)
            return math.cos(angle) if c % 2 else math.sin(angle)

        expected = [[[pe(p, c) for c in range(dim)] for p in row] for row in at.tolist()]
        added = rt.Sinusoidal().embed(x, at) - x
        torch.testing.assert_close(
            added.cpu(), torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-9
        )
        ranged = rt.Sinusoidal().embed(x, first=5)
        torch.testing.assert_close(ranged, rt.Sinusoidal().embed(x, torch.arange(5, 8).to(device)))
    half = rt.Sinusoidal().embed(torch.zeros(3, 8, device=device), at[0] + 0.5)
    assert abs(half[0, 0].item() - math.sin(0.5)) < 1e-6


def test_learned_positions(device: str) -> None:
    encoding = rt.make_encoding("learned", max_positions=10, model_dim=4).to(device)
    assert encoding.targets == {"input"} and encoding.weight.std() < 0.1
    x = torch.randn(2, 3, 4, device=device)
    at = torch.tensor([[1, 1, 9], [0, 2, 4]], device=device)
    torch.testing.assert_close(encoding.embed(x, at), x + encoding.weight[at])
    torch.testing.assert_close(encoding.embed(x, first=7), x + encoding.weight[7:10])
    with pytest.raises(ValueError, match=r"\[Learned\] positions must be below 10, got 10"):
        encoding.embed(x, first=8)


ALL = [
    "none", "learned", "sinusoidal", *SCORES, "rope", "xpos", "rope+distance", "rope+alibi",
    "learned+rope+t5",
]  # fmt: skip


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_attention_with_encoding(name: str, causal: bool, device: str) -> None:
    """The module against the whole formula: input, rotation, bias, softmax."""
    dim, heads, tokens = 96, HEADS, 7
    encoding = rt.make_encoding(
        name, model_dim=dim, max_positions=20, heads=heads, buckets=8, max_distance=5,
        causal=causal, rope=XPOS if name == "xpos" else text(softmax_scale=1.2),
    )  # fmt: skip
    encoding = randomized(encoding)
    attention = rt.Attention(dim, heads, causal=causal, encoding=encoding).double().to(device)
    x = torch.randn(2, tokens, dim, dtype=torch.float64, device=device)
    result = attention(attention.encoding.embed(x))

    at = torch.arange(tokens, device=device)
    parts = dict(zip(name.split("+"), getattr(encoding, "parts", [encoding])))
    bias, scale = None, 0.25
    if "learned" in parts:
        x = x + parts["learned"].weight[:tokens]
    if "sinusoidal" in parts:
        pe = torch.zeros(tokens, dim, dtype=torch.float64, device=device)
        angles = at[:, None] / 10000 ** (torch.arange(0, dim, 2, device=device).double() / dim)
        pe[:, 0::2], pe[:, 1::2] = angles.sin(), angles.cos()
        x = x + pe
    q, k, v = (
        linear(x).view(2, tokens, heads, 16).transpose(1, 2)
        for linear in (attention.query, attention.key, attention.value)
    )
    for rotation in ("rope", "xpos"):
        if rotation in parts:
            rope = parts[rotation].rotation.rope
            fields = json.loads(rope)
            if "growth" in fields:  # keys shrink where queries grow
                fields["growth"] = [-g for g in fields["growth"]]
            q = reference(q, rope, at[None, None], -2)
            k = reference(k, json.dumps(fields), at[None, None], -2)
            scale *= fields.get("softmax_scale", 1.0)
    for score in SCORES:
        if score in parts:
            positions = list(range(tokens))
            bias = table(heads, positions, positions, formula(parts[score], score)).to(device)
    y = quadratic(q, k, v, visible(tokens, tokens, causal=causal), bias, scale)
    expected = attention.output(y.transpose(1, 2).flatten(2))
    tolerance = 1e-6 if "alibi" in parts else 1e-9
    torch.testing.assert_close(result, expected, rtol=tolerance, atol=tolerance)


def test_targets() -> None:
    rope = text()
    assert rt.make_encoding("none").targets == frozenset()
    assert rt.make_encoding("rope", rope=rope).targets == {"query_key"}
    hybrid = rt.make_encoding("sinusoidal+rope+alibi", heads=2, rope=rope)
    assert hybrid.targets == {"input", "query_key", "score"}


ERRORS = [
    (lambda: rt.make_encoding("rotary"), r"\[make_encoding\] name must be of .* got 'rotary'"),
    (lambda: rt.make_encoding("t5"), r"heads must be positive for t5, got 0"),
    (lambda: rt.make_encoding("rope"), "rope must be given for rope"),
    (lambda: rt.make_encoding("xpos", rope=text()), "rope must have growth for xpos"),
    (lambda: rt.Kerple(2, "exp"), r"\[Kerple\] kind must be log or power"),
    (
        lambda: OPS.t5_bias(torch.zeros(8, 2), 2, 2, 0, torch.rand(2)),
        r"\[t5_bias\] positions must be integers, got Float",
    ),
    (lambda: OPS.t5_bias(torch.zeros(32, 2), 2, 2, max_distance=8), "max_distance must be more"),
    (lambda: OPS.alibi_bias(torch.rand(2, 2), 2, 2), r"slopes must be \[heads\]"),
    (
        lambda: OPS.alibi_bias(torch.rand(2), 2, 2, 0, torch.arange(3)),
        r"\[alibi_bias\] query_positions must be \[2 tokens\] or \[batch, tokens\], got \[3\]",
    ),
    (lambda: OPS.distance_bias(torch.rand(4, 2), 2, 2), "odd number of rows, got 4"),
    (lambda: OPS.kerple_bias(torch.rand(2), torch.rand(2), "exp", 2, 2), "log or power, got exp"),
]


@pytest.mark.parametrize("call,message", ERRORS)
def test_rejects_wrong_arguments(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_opcheck(device: str) -> None:
    def learned(*shape: int) -> Tensor:
        return torch.rand(*shape, device=device, requires_grad=True)

    at = torch.randint(0, 9, (2, 5), device=device)
    for args in [(5, 6, 1), (1, 6, 5), (5, 5, 0, at, at)]:
        positions = len(args) > 3
        opcheck(OPS.t5_bias, (learned(8, 2), *args), dispatch=True)
        opcheck(OPS.distance_bias, (learned(7, 2), *args), dispatch=positions)
        opcheck(OPS.alibi_bias, (learned(2), *args), dispatch=positions)
        kerple = (learned(2), learned(2), "power", *args)
        opcheck(OPS.kerple_bias, kerple, dispatch=positions)
    torch.library.opcheck(OPS.add_sinusoids, (learned(2, 5, 8), at))
    torch.library.opcheck(OPS.alibi_slopes, (learned(1), 3))
    torch.library.opcheck(OPS.token_positions, (learned(1), 5, None, at[0, :0].new_tensor([0, 5])))
