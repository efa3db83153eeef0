"""Encodings of the content, "shaw", "nezha" and "transformer_xl", against their formulas, evaluated
with a vector for every pair of tokens in float64."""

import math

import pytest
import torch
from quadratic import is_visible
from ropes import text
from torch import Tensor

import rotary.torch as rt
from rotary.torch.encodings import Encoding

OPS = torch.ops.rotary
DIM, HEADS, HEAD_DIM, CLIP = 24, 3, 8, 4
NAMES = ["shaw", "nezha", "transformer_xl"]
SIZES = [(6, 6, 0), (1, 9, 8), (3, 12, 9), (7, 2, 0), (5, 4, 12), (1, 1, 0), (2, 1, 0)]


def make(name: str, *, causal: bool = False) -> Encoding:
    encoding = rt.make_encoding(
        name,
        model_dim=DIM,
        heads=HEADS,
        max_distance=CLIP,
        causal=causal,
    )
    with torch.no_grad():
        for parameter in encoding.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return encoding.double()


def sinusoid(p: float, dim: int) -> Tensor:
    angles = p / 10000 ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten()


def vector(encoding: Encoding, which: str, distance: int) -> Tensor:
    """Of key or value j for query i, by j - i: Shaw et al. 2018, 3.2; NEZHA's table is fixed."""
    row = max(-CLIP, min(CLIP, distance)) + CLIP
    learned = getattr(encoding, which)
    if learned is None:
        return sinusoid(row, HEAD_DIM)
    return learned.detach().cpu()[row] if row < len(learned) else torch.zeros(HEAD_DIM).double()


def score(encoding: Encoding, name: str, h: int, q: Tensor, k: Tensor, i: int, j: int) -> Tensor:
    """Beside q . k, before scaling. Dai et al. 2019, 3.3: terms b, c and d."""
    if name != "transformer_xl":
        return q @ vector(encoding, "keys", j - i)
    weight = encoding.position.weight.detach().cpu()[h * HEAD_DIM : (h + 1) * HEAD_DIM]
    projected = weight @ sinusoid(i - j, DIM)
    u, v = encoding.u.detach().cpu()[h], encoding.v.detach().cpu()[h]
    return q @ projected + u @ k + v @ projected


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_scores(name: str, causal: bool, device: str) -> None:
    encoding = make(name, causal=causal).to(device)
    assert encoding.targets == {"content"}
    for queries, keys, first in SIZES:
        q = torch.randn(2, HEADS, queries, HEAD_DIM, dtype=torch.float64)
        k = torch.randn(2, HEADS, keys, HEAD_DIM, dtype=torch.float64)
        found = encoding.content_bias(q.to(device), k.to(device), first).cpu()
        assert found.shape == (2, HEADS, queries, keys)
        for b in range(2):
            for h in range(HEADS):
                for i in range(queries):
                    for j in range(keys):
                        if causal and j > first + i:
                            continue  # masked
                        wanted = score(encoding, name, h, q[b, h, i], k[b, h, j], first + i, j)
                        assert found[b, h, i, j].item() == pytest.approx(wanted.item(), abs=1e-9)


def test_outputs(device: str) -> None:
    for queries, keys, first in SIZES:
        weights = torch.rand(2, HEADS, queries, keys, dtype=torch.float64)
        table = torch.randn(2 * CLIP + 1, 5, dtype=torch.float64)
        found = OPS.shaw_outputs(weights.to(device), table.to(device), first).cpu()
        rows = [
            [max(-CLIP, min(CLIP, j - first - i)) + CLIP for j in range(keys)]
            for i in range(queries)
        ]
        wanted = torch.einsum("bhij,ijd->bhid", weights, table[torch.tensor(rows)])
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("name", NAMES)
def test_scores_depend_on_distances_alone(name: str, device: str) -> None:
    encoding = make(name).to(device)
    q, k = torch.randn(2, 1, HEADS, 5, HEAD_DIM, dtype=torch.float64, device=device)
    shift = 1000
    more = torch.randn(1, HEADS, shift, HEAD_DIM, dtype=torch.float64, device=device)
    later = encoding.content_bias(q, torch.cat([more, k], 2), shift)[..., shift:]
    torch.testing.assert_close(later, encoding.content_bias(q, k), rtol=0, atol=1e-9)


def direct(
    attention: rt.Attention, name: str, x: Tensor, causal: bool, padding: Tensor | None
) -> Tensor:
    """The module token by token: scores, softmax, values with their vectors."""
    q, k, v = (y.transpose(1, 2) for y in attention.project(x, x))
    tokens = x.shape[1]
    rows = []
    for b in range(x.shape[0]):
        for i in range(tokens):
            for h in range(HEADS):
                seen = [
                    j
                    for j in range(tokens)
                    if is_visible(i, j, causal=causal) and (padding is None or padding[b, j])
                ]
                out = torch.zeros(HEAD_DIM, dtype=torch.float64)
                if seen:
                    scores = torch.stack(
                        [
                            q[b, h, i] @ k[b, h, j]
                            + score(attention.encoding, name, h, q[b, h, i], k[b, h, j], i, j)
                            for j in seen
                        ]
                    )
                    weights = (scores / math.sqrt(HEAD_DIM)).softmax(0)
                    for weight, j in zip(weights, seen):
                        value = v[b, h, j]
                        if name != "transformer_xl":
                            value = value + vector(attention.encoding, "values", j - i)
                        out = out + weight * value
                rows.append(out)
    y = torch.stack(rows).view(x.shape[0], tokens, HEADS * HEAD_DIM)
    return attention.output(y)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_attention(name: str, causal: bool, padded: bool) -> None:
    attention = rt.Attention(DIM, HEADS, causal=causal, encoding=make(name, causal=causal))
    attention = attention.double()
    x = torch.randn(2, 7, DIM, dtype=torch.float64)
    padding = torch.ones(2, 7, dtype=torch.bool) if padded else None
    if padded:
        padding[0, 4:] = False
        padding[1] = False  # a row of padding alone
    found = attention(x, padding=padding)
    torch.testing.assert_close(found, direct(attention, name, x, causal, padding))
    found.sum().backward()
    assert all(p.grad.isfinite().all() for p in attention.parameters())


@pytest.mark.parametrize("name", [*NAMES, "alibi+shaw"])
def test_cache_and_packed_sequences(name: str, device: str) -> None:
    attention = rt.Attention(DIM, HEADS, causal=True, encoding=make(name, causal=True))
    attention = attention.double().to(device).eval()
    x = torch.randn(2, 9, DIM, dtype=torch.float64, device=device)
    with torch.no_grad():
        whole = attention(x)
        cache = rt.KeyValueCache()
        parts = [attention(x[:, a:b], cache=cache) for a, b in [(0, 4), (4, 5), (5, 9)]]
        torch.testing.assert_close(torch.cat(parts, 1), whole)
        cuts = torch.tensor([0, 4, 9], dtype=torch.int32, device=device)
        packed = attention(x[:1], cu_seqlens=cuts)
        alone = [attention(x[:1, :4]), attention(x[:1, 4:])]
        torch.testing.assert_close(packed, torch.cat(alone, 1))


@pytest.mark.parametrize("name", NAMES)
def test_gradients(name: str, device: str) -> None:
    encoding = make(name).to(device)
    q, k, v = torch.randn(3, 1, HEADS, 4, HEAD_DIM, dtype=torch.float64, device=device)
    parameters = dict(encoding.named_parameters())

    class Attend(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoding = encoding

        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            bias = self.encoding.content_bias(q, k)
            return rt.attend(q, k, v, bias=bias, value_vectors=self.encoding.value_vectors(q))

    def run(q: Tensor, k: Tensor, v: Tensor, *values: Tensor) -> Tensor:
        given = {f"encoding.{key}": x for key, x in zip(parameters, values)}
        return torch.func.functional_call(Attend(), given, (q, k, v))

    leaves = [x.detach().clone().requires_grad_() for x in (q, k, v, *parameters.values())]
    assert torch.autograd.gradcheck(run, leaves, fast_mode=True, nondet_tol=1e-12)


def test_grouped_queries(device: str) -> None:
    """Fewer heads of keys than of queries: as if they were repeated."""
    q = torch.randn(2, 4, 5, 8, dtype=torch.float64, device=device)
    k, v = torch.randn(2, 2, 2, 5, 8, dtype=torch.float64, device=device)
    weight = torch.randn(32, 6, dtype=torch.float64, device=device)
    u, position = torch.randn(2, 4, 8, dtype=torch.float64, device=device)
    table = torch.randn(7, 8, dtype=torch.float64, device=device)
    repeated = [x.repeat_interleave(2, 1) for x in (k, v)]
    torch.testing.assert_close(
        OPS.transformer_xl_bias(q, k, weight, u, position),
        OPS.transformer_xl_bias(q, repeated[0], weight, u, position),
    )
    torch.testing.assert_close(
        OPS.attend(q, k, v, value_vectors=table), OPS.attend(q, *repeated, value_vectors=table)
    )


ERRORS = [
    (lambda: rt.make_encoding("shaw"), "heads must be positive|head_dim, or a model_dim"),
    (
        lambda: rt.make_encoding("shaw+transformer_xl", model_dim=8, heads=2),
        "at most one of shaw, nezha and transformer_xl",
    ),
    (
        lambda: rt.make_encoding("rope+shaw", model_dim=16, heads=2, rope=text()),
        "neither rope nor xpos with it, got 'rope[+]shaw'",
    ),
    (
        lambda: OPS.shaw_bias(torch.rand(1, 1, 2, 4), torch.rand(4, 4), 2),
        r"\[shaw_bias\] table must be \[2 max_distance \+ 1, head_dim 4\], got \[4, 4\]",
    ),
    (
        lambda: OPS.transformer_xl_bias(
            torch.rand(1, 2, 3, 4), torch.rand(1, 2, 3, 4), torch.rand(8, 5), *torch.rand(2, 2, 3)
        ),
        r"\[transformer_xl_bias\] u and v must be \[2 heads, 4\], got \[2, 3\]",
    ),
    (
        lambda: OPS.attend(*torch.rand(3, 1, 2, 3, 4), value_vectors=torch.rand(3, 5)),
        r"\[attend\] value_vectors must be \[2 max_distance \+ 1, 4\], got \[3, 5\]",
    ),
    (
        lambda: rt.Attention(DIM, HEADS, encoding=make("shaw"))(
            torch.rand(1, 3, DIM), positions=torch.arange(3)
        ),
        "an encoding of the content supports no positions",
    ),
]


@pytest.mark.parametrize("call,message", ERRORS)
def test_rejects_wrong_arguments(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_opcheck(device: str) -> None:
    def learned(*shape: int) -> Tensor:
        return torch.rand(*shape, device=device, requires_grad=True)

    q, k = learned(1, 2, 3, 4), learned(1, 2, 5, 4)
    torch.library.opcheck(OPS.shaw_bias, (q, learned(7, 4), 5, 2))
    torch.library.opcheck(OPS.shaw_outputs, (learned(1, 2, 3, 5), learned(7, 4), 2))
    args = (learned(8, 6), learned(2, 4), learned(2, 4))
    torch.library.opcheck(OPS.transformer_xl_bias, (q, k, *args, 2))
