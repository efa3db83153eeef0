"""torch.compile, torch.export and meta tensors."""

import io
from collections.abc import Callable

import pytest
import torch
from ropes import ROPES
from torch._dynamo.testing import CompileCounterWithBackend

import rotary.torch as rt

OPS = torch.ops.rotary


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


def compiled(f: Callable, **options: object) -> tuple[Callable, CompileCounterWithBackend]:
    counter = CompileCounterWithBackend("aot_eager")
    return torch.compile(f, fullgraph=True, backend=counter, **options), counter


def inputs(device: str, tokens: int = 5, grad: bool = True) -> list[torch.Tensor]:
    return [
        torch.randn(2, heads, tokens, 16, device=device, requires_grad=grad) for heads in (3, 1)
    ]


@pytest.mark.parametrize("learn", [None, "log_gain", "frequencies", "receptive_field"])
def test_module_is_one_graph(learn: str | None, device: str) -> None:
    module = rt.RotaryEmbedding(
        ROPES["scaled"], token_dim=-2, learn=learn, learn_scale=learn is not None, device=device
    )
    f, counter = compiled(module)
    q, k = inputs(device)
    at = torch.randint(0, 99, (2, 5), device=device)
    wanted = [q, k, *module.parameters()]
    for call in [f, module]:
        out = call(q, k, at)
        grads = torch.autograd.grad(out[0].sin().sum() + out[1].cos().sum(), wanted)
        if call is f:
            first = (*out, *grads)
    for a, b in zip(first, (*out, *grads), strict=True):
        torch.testing.assert_close(a, b)
    assert counter.frame_count == 1
    assert len(counter.graphs) == 1


def test_real_positions(device: str) -> None:
    x = torch.randn(2, 5, 3, 16, device=device, requires_grad=True)
    at = torch.rand(2, 5, device=device, requires_grad=True)

    def loss(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return rt.rotate(x, rope=ROPES["half"], positions=at * 3).sin().sum()

    f, _ = compiled(loss)
    grads = torch.autograd.grad(f(x, at), [x, at])
    for a, b in zip(grads, torch.autograd.grad(loss(x, at), [x, at]), strict=True):
        torch.testing.assert_close(a, b)


def test_decoding_compiles_once_or_twice(device: str) -> None:
    """A growing first position and length do not recompile in every step."""
    module = rt.RotaryEmbedding(ROPES["half"], token_dim=-2)
    f, counter = compiled(lambda q, k, n: module(q, k, first=n), dynamic=True)
    for n in range(3, 9):
        q, k = inputs(device, tokens=n, grad=False)
        for a, b in zip(f(q, k, n), module(q, k, first=n), strict=True):
            assert torch.equal(a, b)
    assert counter.frame_count <= 2


@pytest.mark.parametrize("grad", [False, True])
def test_in_place(grad: bool, device: str) -> None:
    def f(qkv: torch.Tensor) -> torch.Tensor:
        qkv = qkv * 2
        OPS.rotate_([qkv[:, :, :2], qkv[:, :, 2:3]], ROPES["half"], None, None, 3)
        return qkv.sin()

    x = torch.randn(2, 5, 4, 16, device=device, requires_grad=grad)
    g, _ = compiled(f)
    torch.testing.assert_close(g(x), f(x))
    if grad:
        for a, b in zip(
            torch.autograd.grad(g(x).sum(), x), torch.autograd.grad(f(x).sum(), x), strict=True
        ):
            torch.testing.assert_close(a, b)


def test_in_place_on_inputs(device: str) -> None:
    cache = torch.randn(2, 5, 4, 16, device=device)
    expected = rt.shift(cache, rope=ROPES["half"], delta=-3)
    f, _ = compiled(lambda x: rt.shift_(x, rope=ROPES["half"], delta=-3))
    f(cache)
    assert torch.equal(cache, expected)


def test_inductor(device: str) -> None:
    """Its own kernels stand before the operators and, in the gradient, after them, and are few: a
    C++ compiler takes 2 s for each. Without vectors, as the search for them compiles others."""
    module = rt.RotaryEmbedding(ROPES["half"], token_dim=-2, learn="log_gain", device=device)
    fixed = rt.RotaryEmbedding(ROPES["reordering"], token_dim=-2)

    def f(q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = q + 1
        q, k = module(q.sin(), k)
        q, k = fixed(q, k, first=3)
        OPS.rotate_([y], ROPES["half"], None, None, 0, -2)
        return q, k, y

    q, k = inputs(device)
    options = {"compile_threads": 1, "cpp.vec_isa_ok": False}
    out = torch.compile(f, fullgraph=True, options=options)(q, k)
    for a, b in zip(out, f(q, k), strict=True):
        torch.testing.assert_close(a, b)
    grads = torch.autograd.grad(sum(y.sum() for y in out), [q, k, module.learned])
    for a, b in zip(
        grads,
        torch.autograd.grad(sum(y.sum() for y in f(q, k)), [q, k, module.learned]),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("learn", [None, "log_gain"])
def test_export(learn: str | None, device: str) -> None:
    module = rt.RotaryEmbedding(ROPES["scaled"], token_dim=-2, learn=learn, device=device)
    q, k = inputs(device, grad=False)
    at = torch.randint(0, 99, (2, 5), device=device)
    tokens = torch.export.Dim("tokens", min=2, max=4096)
    shapes = {"q": {2: tokens}, "k": {2: tokens}, "positions": {1: tokens}}
    program = torch.export.export(module, (q, k, at), dynamic_shapes=shapes)
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    loaded = torch.export.load(buffer).module()
    q, k = inputs(device, tokens=9, grad=False)
    at = torch.randint(0, 99, (2, 9), device=device)
    for a, b in zip(loaded(q, k, at), module(q, k, at), strict=True):
        assert torch.equal(a, b)


def test_meta_tensors() -> None:
    x = torch.empty(2, 5, 3, 16, device="meta")
    out = rt.rotate(x.transpose(1, 2), rope=ROPES["half"], token_dim=-2)
    assert out.is_meta
    assert out.stride() == x.transpose(1, 2).stride()
    rt.rotate_(x, rope=ROPES["half"])
    with pytest.raises(ValueError, match="head_dim 16"):
        rt.rotate(x[..., :8], rope=ROPES["half"])
