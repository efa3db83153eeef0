"""Attention and KeyValueCache: what the module adds to attend()."""

import copy

import pytest
import torch
from quadratic import quadratic, visible
from ropes import ROPES, reference, text
from torch import Tensor

import rotary.torch as rt


def module(device: str, **options: object) -> rt.Attention:
    options = {"kv_heads": 2, "encoding": rt.Rotation(text()), **options}
    return rt.Attention(64, 4, **options).double().to(device).eval()


def tokens(device: str, *shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, device=device)


def projected(attention: rt.Attention, x: Tensor, memory: Tensor) -> list[Tensor]:
    maps = [(attention.query, x), (attention.key, memory), (attention.value, memory)]
    return [linear(y).unflatten(-1, (-1, 16)).transpose(1, 2) for linear, y in maps]


def output(attention: rt.Attention, y: Tensor) -> Tensor:
    return attention.output(y.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("rotate_values", [False, True])
def test_self_attention(rotate_values: bool, device: str) -> None:
    attention = module(device, causal=True, rotate_values=rotate_values)
    x = tokens(device, 2, 6, 64)
    at = torch.randint(0, 99, (2, 6), device=device)
    padding = torch.rand(2, 6, device=device) > 0.3
    q, k, v = projected(attention, x, x)
    q, k = (reference(y, text(), at[None], -2) for y in (q, k))
    if rotate_values:
        v = reference(v, text(), at[None], -2)
    mask = visible(6, 6, causal=True).to(device) & padding[:, None, None]
    expected = output(attention, quadratic(q, k, v, mask))
    result = attention(x, positions=at, padding=padding)
    torch.testing.assert_close(result, expected, rtol=1e-9, atol=1e-9)
    assert attention.backend in ("flash", "efficient", "math")


def test_cross_attention(device: str) -> None:
    attention = module(device, kv_dim=32)
    x, memory = tokens(device, 2, 3, 64), tokens(device, 2, 5, 32)
    q_at, k_at = torch.tensor([4, 5, 6]), torch.tensor([[0, 1, 2, 3, 9], [3, 1, 1, 2, 0]])
    q_at, k_at = q_at.to(device), k_at.to(device)
    q, k, v = projected(attention, x, memory)
    q, k = reference(q, text(), q_at[None, None], -2), reference(k, text(), k_at[None], -2)
    expected = output(attention, quadratic(q, k, v))
    result = attention(x, memory, positions=q_at, memory_positions=k_at)
    torch.testing.assert_close(result, expected, rtol=1e-9, atol=1e-9)
    with_bias = module(device, kv_dim=32, encoding=rt.Alibi(4))
    q, k, v = projected(with_bias, x, memory)
    distance = (q_at[:, None] - k_at[:, None, :]).abs().double()
    slopes = torch.tensor([2.0 ** (-2 * h) for h in range(1, 5)], device=device)
    bias = -slopes[:, None, None] * distance[:, None]
    torch.testing.assert_close(
        with_bias(x, memory, positions=q_at, memory_positions=k_at),
        output(with_bias, quadratic(q, k, v, bias=bias)),
    )


@pytest.mark.parametrize("name", ["rope", "rope+alibi", "t5"])
def test_packed_sequences_match_separate_ones(name: str, device: str) -> None:
    encoding = rt.make_encoding(name, heads=4, rope=text())
    attention = module(device, causal=True, encoding=encoding)
    x = tokens(device, 1, 9, 64)
    cu = torch.tensor([0, 4, 9], device=device)
    result = attention(x, cu_seqlens=cu, max_seqlen=5)
    apart = torch.cat([attention(x[:, :4]), attention(x[:, 4:])], 1)
    torch.testing.assert_close(result, apart)
    memory = tokens(device, 1, 8, 64)
    cu_k = torch.tensor([0, 5, 8], device=device)
    attention.causal = False
    result = attention(x, memory, cu_seqlens=cu, memory_cu_seqlens=cu_k)
    apart = [attention(x[:, :4], memory[:, :5]), attention(x[:, 4:], memory[:, 5:])]
    torch.testing.assert_close(result, torch.cat(apart, 1))


CHUNKS = [[1] * 9, [4, 1, 3, 1], [9], [2, 7]]


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("name", ["rope", "xpos", "rope+alibi", "rope+distance", "t5"])
def test_decoding_with_cache_matches_full_pass(name: str, window: int | None, device: str) -> None:
    rope = ROPES["growing"] if name == "xpos" else text()
    encoding = rt.make_encoding(name, heads=4, rope=rope, causal=True, max_distance=6, buckets=8)
    attention = module(device, causal=True, window=window, encoding=encoding)
    x = tokens(device, 2, 9, 64)
    with torch.no_grad():
        for parameter in attention.encoding.parameters():
            parameter.copy_(torch.randn_like(parameter))
        whole = attention(x)
        for chunks in CHUNKS:
            cache = rt.KeyValueCache(capacity=2)
            parts = [attention(part, cache=cache) for part in x.split(chunks, 1)]
            assert cache.tokens == 9 <= cache.capacity
            torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-10, atol=1e-10)


def test_decoding_rows_of_different_length(device: str) -> None:
    """Left padding: each row gives the same result as alone."""
    attention = module(device, causal=True)
    rows = [tokens(device, 1, n, 64) for n in (3, 5)]
    with torch.no_grad():
        x = torch.stack([torch.nn.functional.pad(r[0], (0, 0, 5 - r.shape[1], 0)) for r in rows])
        padding = torch.ones(2, 5, dtype=torch.bool, device=device)
        padding[0, :2] = False
        at = (padding.long().cumsum(1) - 1).clamp(min=0)
        cache = rt.KeyValueCache()
        steps = [
            attention(x[:, t : t + 1], positions=at[:, t : t + 1], cache=cache,
                      padding=padding[:, : t + 1])
            for t in range(5)
        ]  # fmt: skip
        y = torch.cat(steps, 1)
        torch.testing.assert_close(y[:1, 2:], attention(rows[0]))
        torch.testing.assert_close(y[1:], attention(rows[1]))


def test_cache(device: str) -> None:
    cache = rt.KeyValueCache(capacity=4)
    k, v = tokens(device, 3, 2, 4, 8), tokens(device, 3, 2, 4, 6)
    keys, values = cache.append(k, v)
    assert torch.equal(keys, k) and torch.equal(values, v) and cache.capacity == 4
    address = keys.data_ptr()
    cache.truncate(2)
    keys, _ = cache.append(k[:, :, 3:], v[:, :, 3:])
    assert keys.data_ptr() == address and torch.equal(keys, k[:, :, [0, 1, 3]])
    keys, values = cache.append(k, v)
    assert (cache.tokens, cache.capacity) == (7, 8)
    assert torch.equal(keys[:, :, 3:], k) and torch.equal(values[:, :, :2], v[:, :, :2])
    cache.reorder(torch.tensor([2, 0, 0], device=device))
    keys, _ = cache.append(k[:, :, :1], v[:, :, :1])
    assert torch.equal(keys[1, :, 3:7], k[0]) and torch.equal(keys[0, :, 3:7], k[2])
    with pytest.raises(ValueError, match=r"tokens must be from 0 to 8, got 9"):
        cache.truncate(9)
    with pytest.raises(ValueError, match="as those before but for their tokens"):
        cache.append(k[:2], v[:2])
    with pytest.raises(ValueError, match="with the same tokens"):
        cache.append(k, v[:, :, :1])
    with pytest.raises(ValueError, match="must not need gradients"):
        cache.append(k.requires_grad_(), v)


def test_training(device: str) -> None:
    """Gradients reach everything, and a few steps lower the loss."""
    encoding = rt.make_encoding("rope+distance", heads=4, rope=text(), learn="log_gain")
    attention = module(device, causal=True, encoding=encoding, dropout=0.1).train().float()
    x, wanted = torch.randn(2, 4, 12, 64, device=device)
    optimizer = torch.optim.Adam(attention.parameters(), 0.01)
    losses = []
    for _ in range(20):
        loss = (attention(x) - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        assert all(p.grad is not None and p.grad.ne(0).any() for p in attention.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    attention.eval()
    assert torch.equal(attention(x), attention(x))


def test_parameter_names() -> None:
    """Those of the C++ module, so that state dicts are interchangeable."""
    encoding = rt.make_encoding("rope+t5", heads=4, rope=text(), learn="log_gain")
    names = list(module("cpu", encoding=encoding).state_dict())
    linear = [f"{name}.{part}" for name in ("query", "key", "value", "output")
              for part in ("weight", "bias")]  # fmt: skip
    assert names == [*linear, "encoding.0.rotation.learned", "encoding.1.weight"]
    bare = rt.Attention(64, 4, bias=False, output_bias=False)
    assert list(bare.state_dict()) == [f"{n}.weight" for n in ("query", "key", "value", "output")]


def test_compiles_into_one_graph(device: str) -> None:
    encoding = rt.make_encoding("rope+alibi", heads=4, rope=text())
    attention = module(device, causal=True, encoding=encoding).float()
    compiled = torch.compile(copy.deepcopy(attention), fullgraph=True, backend="aot_eager")
    x = torch.randn(2, 6, 64, device=device, requires_grad=True)
    expected, result = attention(x), compiled(x)
    torch.testing.assert_close(result, expected)
    grads = [torch.autograd.grad(y.square().sum(), x)[0] for y in (result, expected)]
    torch.testing.assert_close(*grads)


def test_autocast(device: str) -> None:
    attention = module(device, causal=True, window=3).float()
    x = torch.randn(2, 6, 64, device=device)
    with torch.autocast(device, torch.bfloat16):
        result = attention(x)
    assert result.dtype == torch.bfloat16
    torch.testing.assert_close(result.float(), attention(x), rtol=5e-2, atol=2e-2)


ERRORS = [
    (lambda m, x: m(x[0]), r"x must be \[batch, tokens, 64\], got \[5, 64\]"),
    (lambda m, x: m(x, x[..., :3]), r"memory must be \[batch, tokens, 64\], got"),
    (lambda m, x: m(x, memory_positions=x), "memory_positions and memory_cu_seqlens need memory"),
    (lambda m, x: m(x, x, cache=rt.KeyValueCache()), "a cache supports neither memory nor packed"),
    (lambda m, x: rt.Attention(0, 4), "model_dim and heads must be positive, got 0 and 4"),
    (lambda m, x: rt.Attention(64, 5), "heads must divide model_dim, got 5 and 64"),
    (lambda m, x: rt.Attention(64, 4, kv_heads=3), "kv_heads must divide heads, got 3 and 4"),
    (lambda m, x: rt.Attention(64, 4, dropout=1.0), "dropout must be at least 0 and below 1"),
]


@pytest.mark.parametrize("call,message", ERRORS)
def test_rejects_wrong_arguments(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=r"\[Attention\] " + message):
        call(module("cpu"), tokens("cpu", 2, 5, 64))
