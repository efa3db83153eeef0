"""Rotation into caches: against rotate, then a plain store."""

import itertools
from typing import Any

import pytest
import torch
from ropes import ROPES, axes_of, ladder, text
from torch import Tensor

import rotary.torch as rt

OPS = torch.ops.rotary
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
QUANTIZED = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "int8": torch.int8}
LARGEST = {"e4m3": 448.0, "e5m2": 57344.0, "int8": 127.0}
BLOCKS, SIZE = 5, 4
NAN = float("nan")


def rounded(x: Tensor, kind: str) -> Tensor:
    """Elements after scaling, as bytes."""
    if kind == "int8":
        return x.nan_to_num(0.0).clamp(-128, 127).round().to(torch.int8).view(torch.uint8)
    x = x.clamp(-LARGEST[kind], LARGEST[kind])
    x = torch.where(x.isnan(), torch.tensor(NAN, device=x.device), x)
    return x.to(QUANTIZED[kind]).view(torch.uint8)


def scaled(x: Tensor, scale: Tensor, use: str) -> Tensor:
    return x.float() / scale if use == "divide" else x.float() * scale


def computed(x: Tensor, kind: str, use: str, groups: int = 1) -> tuple[Tensor, Tensor]:
    """Bytes and scales [.., groups]."""
    parts = x.float().unflatten(-1, (groups, -1))
    largest = parts.abs().nan_to_num(0.0, torch.finfo(torch.float32).max).amax(-1)
    limit = torch.full_like(largest, LARGEST[kind])
    scales = (largest / limit).clamp_min(2.0**-126)
    if use == "multiply":
        scales = (limit / largest).clamp_max(2.0**126)
    return rounded(scaled(parts, scales[..., None], use), kind).flatten(-2), scales


def make_cache(layout: str, heads: int, dim: int, dtype: torch.dtype, device: str) -> Tensor:
    """[blocks, block_size, heads, dim] of bytes that no result has by chance."""
    width = dim * dtype.itemsize
    if layout == "heads":
        memory = torch.full((BLOCKS, heads, SIZE, width), 85, dtype=torch.uint8, device=device)
        return memory.view(dtype).transpose(1, 2)
    if layout == "beside":
        memory = torch.full((BLOCKS, SIZE, heads, 2 * width), 85, dtype=torch.uint8, device=device)
        return memory.view(dtype)[..., dim:]
    memory = torch.full((BLOCKS, SIZE, heads, width), 85, dtype=torch.uint8, device=device)
    return memory.view(dtype)


def bits(x: Tensor) -> Tensor:
    return x.contiguous().view(torch.uint8)


def stored(cache: Tensor, rows: Tensor, slots: Tensor) -> Tensor:
    """The bytes of the cache after rows [n, heads, bytes] went to their slots, in order."""
    result = bits(cache).clone().flatten(0, 1)
    for slot, row in zip(slots.flatten().tolist(), rows.flatten(0, -3)):
        if slot >= 0:
            result[slot] = bits(row)
    return result.unflatten(0, (BLOCKS, SIZE))


def tensors(dtype: torch.dtype, device: str, batch: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    qkv = torch.randn(batch, 5, 7, 16, device=device).mul(3).to(dtype)
    return qkv[:, :, :3], qkv[:, :, 3:5], qkv[:, :, 5:]  # views of a packed tensor


SLOTS = torch.tensor([[3, -1, 7, 16, 19], [0, 12, 11, -1, 8]])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rope", sorted(ROPES))
def test_same_type(rope: str, dtype: torch.dtype, device: str) -> None:
    """Bits of rotate and of a copy; layouts, types of slots, in place, heads first."""
    q, k, v = tensors(dtype, device)
    far = 100 if rope == "growing" else 10**6
    ids = torch.randint(0, far, (axes_of(ROPES[rope]), 2, 5), device=device)
    where: dict[str, Any] = {"rope": ROPES[rope], "positions": ids}
    want_q, want_k = rt.rotate(q, k, **where)
    for layout, kind in itertools.product(
        ["tokens", "heads", "beside"], [torch.int32, torch.int64]
    ):
        caches = [make_cache(layout, 2, 16, dtype, device) for _ in range(2)]
        want = [stored(c, x, SLOTS) for c, x in zip(caches, (want_k, v))]
        slots = SLOTS.to(device, kind)
        got = rt.rope_append_kv(q, k, v, *caches, slots, **where)
        assert torch.equal(got, want_q)
        assert all(torch.equal(bits(c), w) for c, w in zip(caches, want))
    caches = [make_cache("tokens", 2, 16, dtype, device) for _ in range(2)]
    copy = q.clone()
    assert rt.rope_append_kv(copy, k, v, *caches, slots, in_place=True, **where) is copy
    assert torch.equal(copy, want_q) and torch.equal(bits(caches[0]), want[0])
    caches = [make_cache("tokens", 2, 16, dtype, device) for _ in range(2)]
    swapped = [x.transpose(1, 2) for x in (q, k, v)]
    got = rt.rope_append_kv(*swapped, *caches, slots, token_dim=-2, **where)
    assert torch.equal(got.transpose(1, 2), want_q)
    assert all(torch.equal(bits(c), w) for c, w in zip(caches, want))


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("use", ["divide", "multiply"])
@pytest.mark.parametrize("kind", sorted(QUANTIZED))
@pytest.mark.parametrize("dtype", DTYPES)
def test_quantised(dtype: torch.dtype, kind: str, use: str, deep: bool, device: str) -> None:
    """Every scale. `deep`: tensors of five dimensions."""
    q, k, v = tensors(dtype, device)
    k[0, 0, 0, :4] = torch.tensor([NAN, 3e38, -3e38, 1e-30]).to(dtype)
    v[1, 2, 0, :3] = torch.tensor([NAN, float("inf"), float("-inf")]).to(dtype)
    rope, slots = ROPES["half"], SLOTS.to(device)
    k_rotated = rt.rotate(k, rope=rope)
    given = torch.tensor([0.3, 4.0], device=device)
    names = [QUANTIZED[kind]] if kind == "int8" else [QUANTIZED[kind], torch.uint8]
    for layout, name in itertools.product(["tokens", "heads"], names):
        options: dict[str, Any] = {"rope": rope, "scale_use": use}
        if name == torch.uint8:
            options["cache_type"] = kind
        lead = (lambda x: x[None]) if deep else (lambda x: x)

        def run(
            layout: str = layout, name: torch.dtype = name, lead: Any = lead, **more: Any
        ) -> list[Tensor]:
            caches = [make_cache(layout, 2, 16, name, device) for _ in range(2)]
            rt.rope_append_kv(lead(q), lead(k), lead(v), *caches, slots, **more)
            return caches

        for scale in [None, given[:1], given]:
            factor = torch.ones(1, device=device) if scale is None else scale
            empty = make_cache("tokens", 2, 16, torch.uint8, device)
            got = run(k_scale=scale, v_scale=scale, **options)
            for cache, x in zip(got, (k_rotated, v)):
                want = stored(empty, rounded(scaled(x, factor[:, None], use), kind), slots)
                assert torch.equal(bits(cache), want)
        for groups in [1, 4]:
            shape = (BLOCKS, SIZE, 2) if groups == 1 else (BLOCKS, SIZE, 2, groups)
            scales = [torch.full(shape, 7.5, device=device) for _ in range(2)]
            got = run(key_scales=scales[0], value_scales=scales[1], **options)
            for cache, x, s in zip(got, (k_rotated, v), scales):
                data, factors = computed(x, kind, use, groups)
                assert torch.equal(bits(cache), stored(empty, data, slots))
                before = torch.full((BLOCKS, SIZE, 2, groups), 7.5, device=device)
                want = stored(before, factors, slots)
                assert torch.equal(bits(s.reshape(before.shape)), want)


@pytest.mark.parametrize("deep", [False, True])
def test_pages(deep: bool, device: str) -> None:
    """A block table with the index of each token, by batch row or by sequence; a padded tail."""
    q, k, v = tensors(torch.float32, device)
    table = torch.tensor([[4, 0], [2, 3]], dtype=torch.int32, device=device)
    index = torch.tensor([[0, 5, 7, -1, 1], [3, 4, 6, -1, 2]], device=device)
    known = index.clamp_min(0)
    slots = table.gather(1, known // SIZE) * SIZE + known % SIZE
    slots = torch.where(index < 0, -1, slots)
    lead = (lambda x: x[None]) if deep else (lambda x: x)

    def run(*where: Tensor, **options: Any) -> list[Tensor]:
        caches = [make_cache("tokens", 2, 16, torch.float32, device) for _ in range(2)]
        rt.rope_append_kv(lead(q), lead(k), lead(v), *caches, *where, rope=ROPES["half"], **options)
        return caches

    want = run(slots)
    rows = torch.arange(2, device=device)[:, None].expand(2, 5)
    for got in [
        run(index, block_table=table),
        run(index, block_table=table, sequences=rows.contiguous()),
        run(slots.flatten()),
    ]:
        assert all(torch.equal(bits(a), bits(b)) for a, b in zip(got, want))
    short = slots.flatten().clone()
    short[7:] = -1
    for a, b in zip(run(slots.flatten()[:7]), run(short)):
        assert torch.equal(bits(a), bits(b))


def test_last_of_repeated_slots_is_stored() -> None:
    """As engines pad: many tokens of slot 0. On the CPU it is certain which one stays."""
    q, k, v = (torch.randn(400, 8, 16) for _ in range(3))
    slots = torch.arange(400) % 7
    caches = torch.zeros(2, 10, 8, 16).unbind()
    rt.rope_append_kv(q, k, v, *caches, slots, rope=ROPES["half"])
    last = [int((slots == s).nonzero()[-1]) for s in range(7)]
    assert torch.equal(caches[0][:7], rt.rotate(k, rope=ROPES["half"])[last])
    assert torch.equal(caches[1][:7], v[last]) and not caches[1][7:].any()


@pytest.mark.parametrize("norm", ["rms", "rms_one_plus"])
def test_norm_comes_first(norm: str, device: str) -> None:
    q, k, v = tensors(torch.bfloat16, device)
    weight = torch.randn(16, device=device)
    for weights, in_place in itertools.product([(weight, None), (None, None)], [False, True]):
        caches = [make_cache("tokens", 2, 16, torch.bfloat16, device) for _ in range(2)]
        want_q, want_k = rt.qk_norm_rope(q, k, *weights, rope=ROPES["half"], norm=norm)
        want = [stored(c, x, SLOTS) for c, x in zip(caches, (want_k, v))]
        got = rt.rope_append_kv(
            q.clone(), k, v, *caches, SLOTS.to(device), rope=ROPES["half"], norm=norm,
            q_weight=weights[0], k_weight=weights[1], in_place=in_place,
        )  # fmt: skip
        assert torch.equal(got, want_q)
        assert all(torch.equal(bits(c), w) for c, w in zip(caches, want))


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("scope", ["head", "all_heads"])
@pytest.mark.parametrize("norm", ["none", "rms", "layer"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_places_of_norms(
    dtype: torch.dtype, norm: str, scope: str, deep: bool, device: str
) -> None:
    """Biases, norms of all heads, after the rotation, and the inverse: the bits of the chain."""
    q, k, v = tensors(dtype, device)
    lead: Any = (lambda x: x[None]) if deep else (lambda x: x)
    sizes = [48, 32] if scope == "all_heads" else [16, 16]
    rows = [torch.randn(n, device=device).to(dtype) for n in sizes * 2]
    weights = dict(zip(["q_weight", "k_weight"], rows)) if norm != "none" else {}
    biases = dict(zip(["q_bias", "k_bias"], rows[2:])) if norm == "layer" else {}
    for order, inverse, rounding, in_place in itertools.product(
        ["before", "after"], [False, True], ["tensor", "float32"], [False, True]
    ):
        how: dict[str, Any] = {
            "rope": ROPES["half"], "norm": norm, "scope": scope, "order": order,
            "inverse": inverse, "rounding": rounding, **weights, **biases,
        }  # fmt: skip
        caches = [make_cache("tokens", 2, 16, dtype, device) for _ in range(2)]
        want_q, want_k = rt.qk_norm_rope(q, k, **how)
        want = [stored(c, x, SLOTS) for c, x in zip(caches, (want_k, v))]
        got = rt.rope_append_kv(
            lead(q).clone(), lead(k), lead(v), *caches, SLOTS.to(device), in_place=in_place, **how
        )
        assert torch.equal(got, lead(want_q))
        assert all(torch.equal(bits(c), w) for c, w in zip(caches, want))


def test_more_than_four_dimensions_in_place() -> None:
    """Also of a tensor whose batches cannot be flattened without a copy."""
    x = torch.randn(3, 2, 5, 7, 16).transpose(0, 1)
    q, k, v = x[..., :3, :], x[..., 3:5, :], x[..., 5:, :]
    slots = torch.arange(30).flip(0)
    want_q, want_k = rt.rotate(q, rope=ROPES["half"]), rt.rotate(k, rope=ROPES["half"])
    for in_place in (False, True):
        keys, values = torch.zeros(2, 30, 2, 16).unbind()
        given = torch.empty(3, 2, 5, 3, 16).transpose(0, 1).copy_(q)
        got = rt.rope_append_kv(
            given, k, v, keys, values, slots, rope=ROPES["half"], in_place=in_place
        )
        assert (got is given) == in_place and torch.equal(got, want_q)
        assert torch.equal(keys.flip(0), want_k.flatten(0, 2))
        assert torch.equal(values.flip(0), v.flatten(0, 2))


MLA = text(head_dim=64, frequencies=ladder(32), pairing="interleaved")


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("kind", ["same", "e4m3", "e5m2", "rows"])
def test_mla(kind: str, deep: bool, device: str) -> None:
    """A latent of 512 with a rotated tail of 64; "rows" are 656 bytes."""
    q = torch.randn(6, 4, 64, device=device, dtype=torch.bfloat16)
    k = torch.randn(6, 64, device=device, dtype=torch.bfloat16)
    latent = torch.randn(6, 512, device=device, dtype=torch.bfloat16).mul(5)
    slots = torch.tensor([9, -1, 0, 19, 4, 2], device=device)
    want_q = rt.rotate(q, rope=MLA, first=77)
    tail = rt.rotate(k[:, None], rope=MLA, first=77)[:, 0]
    scale = torch.tensor(0.5, device=device)
    options: dict[str, Any] = {"rope": MLA, "first": 77}
    if kind == "same":
        rows = bits(torch.cat([latent, tail], -1))
    elif kind == "rows":
        data, scales = computed(latent, "e4m3", "divide", 4)
        rows = torch.cat([data, bits(scales), bits(tail)], -1)
        assert rows.shape[-1] == 656
        options["cache_type"] = "rows"
    else:
        rows = rounded(torch.cat([latent, tail], -1).float() / scale, kind)
        options |= {"cache_type": kind, "scale": scale}
    cache = torch.full((BLOCKS, SIZE, rows.shape[-1]), 85, dtype=torch.uint8, device=device)
    want = stored(cache[:, :, None], rows[:, None], slots)
    given = cache.view(torch.bfloat16) if kind == "same" else cache
    if deep:
        q, k, latent = (x[None, None] for x in (q, k[:, None], latent[:, None]))
    got = rt.mla_rope_append(q, k, latent, given, slots, **options)
    assert torch.equal(got.reshape(want_q.shape), want_q)
    assert torch.equal(cache[:, :, None], want)
    cache.fill_(85)
    assert rt.mla_rope_append(q, k, latent, given, slots, in_place=True, **options) is q
    assert torch.equal(q.reshape(want_q.shape), want_q) and torch.equal(cache[:, :, None], want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_shift_and_rerotate(dtype: torch.dtype, device: str) -> None:
    other = text(frequencies=ladder(8, 5e5))
    cache = torch.randn(BLOCKS, 2, SIZE, 16, device=device).to(dtype).transpose(1, 2)
    slots = SLOTS.to(device)
    chosen = slots.flatten()[slots.flatten() >= 0]
    deltas = torch.randint(-99, 99, (2, 5), device=device)
    keys = cache.clone().flatten(0, 1)
    part = rt.shift(keys[chosen][:, None], rope=ROPES["half"], delta=deltas[slots >= 0][:, None])
    want = keys.index_copy(0, chosen, part[:, 0]).reshape(BLOCKS, SIZE, 2, 16)
    assert rt.shift_cached_(cache, slots, rope=ROPES["half"], delta=deltas) is cache
    assert torch.equal(cache, want)
    rt.shift_cached_(cache, slots, rope=ROPES["half"], delta=-5)
    rt.shift_cached_(cache, slots, rope=ROPES["half"], delta=5)
    near = {torch.float32: 1e-5, torch.bfloat16: 6e-2, torch.float16: 1e-2}[dtype]
    torch.testing.assert_close(cache, want, rtol=0, atol=near)
    k = torch.randn(2, 5, 2, 16, device=device).to(dtype)
    for rope in (ROPES["half"], other):
        rt.rope_append_kv(k, k, k, cache, torch.empty_like(cache), slots, rope=rope, first=7)
        if rope != other:
            source = cache.clone()
    rt.rerotate_cached_(source, slots, source=ROPES["half"], target=other, first=7)
    torch.testing.assert_close(source, cache, rtol=0, atol=near)


@pytest.mark.parametrize("kind", sorted(QUANTIZED))
def test_shift_of_quantised_keys(kind: str, device: str) -> None:
    """What is read after the shift is the shift of what was read before, to half a step."""
    k = torch.randn(20, 2, 16, device=device)
    cache = torch.empty(BLOCKS, SIZE, 2, 16, dtype=QUANTIZED[kind], device=device)
    scales = torch.empty(BLOCKS, SIZE, 2, device=device)
    slots = torch.randperm(20, device=device)
    values = torch.empty_like(cache)
    rt.rope_append_kv(
        k, k, k, cache, values, slots, rope=ROPES["half"], key_scales=scales,
        value_scales=torch.empty_like(scales),
    )  # fmt: skip

    def read() -> Tensor:
        return (cache.float() * scales[..., None]).flatten(0, 1)[slots]

    want = rt.shift(read(), rope=ROPES["half"], delta=31)
    rt.shift_cached_(cache, slots, rope=ROPES["half"], delta=31, scales=scales)
    size = scales.flatten(0, 1)[slots][..., None]
    step = {
        "int8": torch.full_like(want, 0.5),
        "e4m3": (want.abs() / size).clamp_min(2.0**-6) * 2.0**-4,
        "e5m2": (want.abs() / size).clamp_min(2.0**-14) * 2.0**-3,
    }[kind]
    assert ((read() - want).abs() <= step * size * 1.001 + 1e-6).all()


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("inverse", [False, True])
def test_rotate_quantized(inverse: bool, deep: bool, device: str) -> None:
    rope = text(head_dim=256, frequencies=ladder(32), rotary_offset=192, pairing="interleaved")
    x = torch.randn(2, 6, 3, 256, device=device, dtype=torch.bfloat16)
    plain = (rt.unrotate if inverse else rt.rotate)(x, rope=rope, first=9)
    for kind, use in itertools.product(QUANTIZED, ["divide", "multiply"]):
        data, scales = computed(plain, kind, use, 2)
        got, got_scales = rt.rotate_quantized(
            x[None] if deep else x, rope=rope, first=9, dtype=kind, scale_use=use, inverse=inverse
        )
        assert got.dtype == QUANTIZED[kind]
        assert torch.equal(got.view(torch.uint8).reshape(data.shape), data)
        assert torch.equal(got_scales.reshape(scales.shape), scales)


def test_operators(device: str) -> None:
    q, k, v = (torch.randn(2, 5, 2, 16, device=device) for _ in range(3))
    slots, rope = SLOTS.to(device), ROPES["half"]
    caches = [make_cache("tokens", 2, 16, torch.float32, device) for _ in range(2)]
    torch.library.opcheck(OPS.append_kv, (q, k, v, *caches, slots, rope))
    torch.library.opcheck(OPS.append_kv_, (q, k, v, *caches, slots, rope))
    torch.library.opcheck(OPS.shift_cached_, (caches[0], slots, rope), {"first": 3})
    torch.library.opcheck(OPS.rerotate_cached_, (caches[0], slots, rope, rope))
    torch.library.opcheck(OPS.rotate_quantized, (q, rope, 8, "int8"))
    row = torch.zeros(20, 32, device=device)
    torch.library.opcheck(OPS.mla_append, (q, k[:, :, 0], v[:, :, 0], row, slots, rope))
    torch.library.opcheck(OPS.mla_append_, (q, k[:, :, 0], v[:, :, 0], row, slots, rope))


def test_compiles_to_one_graph(device: str) -> None:
    torch._dynamo.reset()
    q, k, v = (torch.randn(2, 5, 2, 16, device=device) for _ in range(3))

    def f(cache: Tensor, scales: Tensor) -> Tensor:
        keys, values = cache.unbind(0)
        y = rt.rope_append_kv(
            q * 2, k, v, keys, values, SLOTS.to(device), rope=ROPES["half"], key_scales=scales[0],
            value_scales=scales[1],
        )  # fmt: skip
        rt.shift_cached_(keys, SLOTS.to(device), rope=ROPES["half"], delta=2, scales=scales[0])
        return y.sin() + keys.float().sum()

    made = []
    for run in (f, torch.compile(f, fullgraph=True, backend="aot_eager")):
        cache = torch.zeros(2, BLOCKS, SIZE, 2, 16, dtype=torch.int8, device=device)
        scales = torch.ones(2, BLOCKS, SIZE, 2, device=device)
        made.append((run(cache, scales), cache, scales))
    for a, b in zip(*made):
        assert torch.equal(a, b)


def test_gradients_are_refused(device: str) -> None:
    q, k, v = (torch.randn(5, 2, 16, device=device) for _ in range(3))
    caches = torch.zeros(2, 5, 2, 16, device=device).unbind()
    slots = torch.arange(5, device=device)
    version = caches[0]._version
    rt.rope_append_kv(q, k, v, *caches, slots, rope=ROPES["half"])
    assert caches[0]._version > version
    q.requires_grad_()
    with pytest.raises(NotImplementedError, match="has no derivative"):
        rt.rope_append_kv(q, k, v, *caches, slots, rope=ROPES["half"])
    with torch.no_grad():
        rt.rope_append_kv(q, k, v, *caches, slots, rope=ROPES["half"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slot_mapping": torch.tensor([0, 1, 2, 3, 20])}, "slots must be below 20"),
        ({"slot_mapping": torch.tensor([0, 1, 2, 3, -2])}, "slots must be -1 or not negative"),
        ({"slot_mapping": torch.arange(6)}, "n at most 5"),
        ({"slot_mapping": torch.zeros(5)}, "slots must be int32 or int64"),
        ({"k": torch.zeros(4, 2, 16)}, "share batch and tokens"),
        ({"k": torch.zeros(5, 2, 8)}, "head_dim 16"),
        ({"key_cache": torch.zeros(20, 16)}, "caches must be"),
        ({"key_cache": torch.zeros(BLOCKS, SIZE, 3, 16)}, "must hold 2 heads"),
        ({"key_cache": torch.zeros(BLOCKS, SIZE, 2, 16, dtype=torch.float16)}, "type of what is"),
        ({"key_cache": torch.zeros(BLOCKS, SIZE, 2, 16, dtype=torch.uint8)}, "needs a cache_type"),
        ({"k_scale": torch.ones(1)}, "scales are for quantised caches"),
        ({"cache_type": "fp8"}, "cache_type must be auto, e4m3, e5m2 or int8, got fp8"),
        ({"cache_type": "e4m3"}, "does not fit a cache of"),
        ({"value_cache": torch.zeros(BLOCKS, SIZE, 1, 16)}, "must hold 2 heads"),
        ({"q_bias": torch.ones(16), "norm": "rms"}, "only norm layer has a bias"),
        ({"scope": "all"}, "scope must be"),
        ({"order": "during"}, "order must be"),
        ({"scale_use": "add"}, "scale_use must be divide or multiply, got add"),
        ({"norm": "batch"}, "norm must be one of none, rms, rms_one_plus, layer"),
        ({"first": 3, "positions": torch.arange(5)}, "first is for calls without positions"),
    ],
)
@pytest.mark.parametrize("deep", [False, True])
def test_refuses(change: dict[str, Any], message: str, deep: bool) -> None:
    """Before anything is written; `deep`: tensors of five dimensions."""
    cache = torch.zeros(2, BLOCKS, SIZE, 2, 16)
    given: dict[str, Any] = {
        "q": torch.ones(5, 2, 16), "k": torch.ones(5, 2, 16), "v": torch.ones(5, 2, 16),
        "key_cache": cache[0], "value_cache": cache[1], "slot_mapping": torch.arange(5),
        "rope": ROPES["half"], "in_place": True, **change,
    }  # fmt: skip
    if deep:
        given |= {name: given[name][None, None] for name in "qkv"}
    with pytest.raises(ValueError, match=message):
        rt.rope_append_kv(**given)
    assert not cache.any() and bool((given["q"] == 1).all())
