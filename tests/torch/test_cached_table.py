"""rotate_by_table_: in place, by rows of a table that positions choose."""

import pytest
import torch
from ropes import ROPES, text

import rotary.torch as rt
from rotary.torch._library import ops

ROWS, TOKENS = 50, 7
LAYOUTS = ["half", "interleaved", "partial", "reordering"]


def table(pairs: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    """[rows, cos | sin], as inference engines keep it."""
    angles = torch.rand(ROWS, pairs, device=device) * 6
    return torch.cat((angles.cos(), angles.sin()), -1).to(dtype)


def pairs_of(rope: str) -> int:
    return 5 if rope == "partial" else 8


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("rope", LAYOUTS)
def test_has_the_bits_of_gathered_rows(
    rope: str, dtype: torch.dtype, inverse: bool, device: str
) -> None:
    cos, sin = table(pairs_of(rope), dtype, device).chunk(2, -1)
    qkv = torch.randn(TOKENS, 6, 16, device=device).to(dtype)
    q, k = qkv[:, :3], qkv[:, 3:5]  # views of one projection
    op = ops.adjoint_table if inverse else ops.rotate_table
    for positions in (torch.randint(0, ROWS, (TOKENS,), device=device), None):
        at = slice(0, TOKENS) if positions is None else positions
        rows = (cos[at], sin[at]) if positions is None else (cos, sin)
        wanted = op([q.clone(), k.clone()], cos[at], sin[at], ROPES[rope])
        found = qkv.clone()
        tensors = found[:, :3], found[:, 3:5]
        returned = rt.rotate_by_table_(
            *tensors, cos=rows[0], sin=rows[1], rope=ROPES[rope], positions=positions,
            inverse=inverse,
        )  # fmt: skip
        assert returned[0] is tensors[0] and returned[1] is tensors[1]
        assert torch.equal(tensors[0], wanted[0]) and torch.equal(tensors[1], wanted[1])
        assert torch.equal(found[:, 5:], qkv[:, 5:])  # nothing else


def test_rows_of_a_batch(device: str) -> None:
    cos, sin = table(8, torch.float32, device).chunk(2, -1)
    positions = torch.randint(0, ROWS, (2, TOKENS), device=device).int()
    x = torch.randn(2, 3, TOKENS, 16, device=device)
    wanted = ops.rotate_table([x], cos[positions], sin[positions], ROPES["half"], -2)[0]
    alone = rt.rotate_by_table_(
        x, cos=cos, sin=sin, rope=ROPES["half"], positions=positions, token_dim=-2
    )
    assert alone is x and torch.equal(x, wanted)


@pytest.mark.parametrize("op", [ops.rotate_table_, ops.adjoint_table_])
def test_opcheck(op: object, device: str) -> None:
    cos, sin = table(8, torch.float32, device).chunk(2, -1)
    x = torch.randn(TOKENS, 3, 16, device=device)
    at = torch.arange(TOKENS, device=device)
    torch.library.opcheck(op, ([x, x[:, :1].clone()], cos, sin, ROPES["half"], at))
    torch.library.opcheck(op, ([x], cos[:TOKENS], sin[:TOKENS], ROPES["half"]))


def test_compiles(device: str) -> None:
    cos, sin = table(8, torch.float32, device).chunk(2, -1)
    at = torch.arange(TOKENS, device=device)

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        rt.rotate_by_table_(y, cos=cos, sin=sin, rope=ROPES["half"], positions=at)
        return y * 2

    x = torch.randn(TOKENS, 3, 16, device=device)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), function(x))


def test_rejects() -> None:
    cos, sin = table(8, torch.float32, "cpu").chunk(2, -1)
    x = torch.randn(TOKENS, 3, 16)
    before = x.clone()
    at = torch.arange(TOKENS)
    half = ROPES["half"]
    for positions in (at + ROWS - 3, at - 1):
        with pytest.raises(ValueError, match="position"):
            rt.rotate_by_table_(x, cos=cos, sin=sin, rope=half, positions=positions)
    with pytest.raises(ValueError, match="a column for each of 5 pairs"):
        rt.rotate_by_table_(x, cos=cos, sin=sin, rope=text(frequencies=[1.0] * 5), positions=at)
    with pytest.raises(ValueError, match="positions must be whole numbers"):
        rt.rotate_by_table_(x, cos=cos, sin=sin, rope=half, positions=at.float())
    assert torch.equal(x, before)
    with pytest.raises(ValueError, match="has no gradient: use rotate_table"):
        rt.rotate_by_table_(x.requires_grad_().clone(), cos=cos, sin=sin, rope=half, positions=at)
