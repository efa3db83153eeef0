"""Derivatives: of first and second order, backward and forward, in place, under torch.func."""

import pytest
import torch
from ropes import ROPES, SMALL_ROPES, axes_of
from torch.autograd import forward_ad, gradcheck, gradgradcheck

OPS = torch.ops.rotary
ROTATIONS = ["rotate", "adjoint", "unrotate", "unrotate_adjoint", "shift", "shift_adjoint"]


def tensors(device: str, *shape: int, count: int = 2) -> list[torch.Tensor]:
    return [
        torch.randn(*shape, dtype=torch.float64, device=device, requires_grad=True)
        for _ in range(count)
    ]


@pytest.mark.parametrize("name", ROTATIONS)
@pytest.mark.parametrize("rope", ["half", "reordering", "growing"])
def test_inputs(rope: str, name: str, device: str) -> None:
    q, k = tensors(device, 2, 2, 1, 6)
    op = getattr(OPS, name)

    def f(q: torch.Tensor, k: torch.Tensor) -> list[torch.Tensor]:
        return op([q, k], SMALL_ROPES[rope], None, None, 5)

    assert gradcheck(f, (q, k), check_forward_ad=True)
    assert gradgradcheck(f, (q, k), fast_mode=True)


@pytest.mark.parametrize("name", ROTATIONS)
@pytest.mark.parametrize("rope", ["half", "reordering", "growing", "mixed", "mrope"])
def test_positions(rope: str, name: str, device: str) -> None:
    (x,) = tensors(device, 2, 3, 2, 6, count=1)
    at = torch.rand(axes_of(SMALL_ROPES[rope]), 2, 3, dtype=torch.float64, device=device) * 4
    at.requires_grad_()
    op = getattr(OPS, name)

    def f(x: torch.Tensor, at: torch.Tensor) -> list[torch.Tensor]:
        return op([x.transpose(1, 2)], SMALL_ROPES[rope], at, None, 0, -2)

    assert gradcheck(f, (x, at))
    assert gradgradcheck(f, (x, at), fast_mode=True)


@pytest.mark.parametrize("shape", [(3,), (1, 3), (2, 3), (1, 1, 3), (1, 2, 3)])
def test_positions_of_every_shape(shape: tuple[int, ...], device: str) -> None:
    (x,) = tensors(device, 2, 3, 2, 16, count=1)
    for rope in ["half", "mrope"]:
        at = torch.rand(shape, dtype=torch.float64, device=device, requires_grad=True)
        assert gradcheck(lambda at: OPS.rotate([x], ROPES[rope], at)[0], (at,))  # noqa: B023


@pytest.mark.parametrize("name", ["rotate", "adjoint", "unrotate"])
@pytest.mark.parametrize("rope", ["half", "reordering", "growing", "mixed"])
def test_learned(rope: str, name: str, device: str) -> None:
    axes = axes_of(SMALL_ROPES[rope])
    q, k = tensors(device, 2, 2, 2, 6)
    f = OPS.frequencies_like(q, SMALL_ROPES[rope]).requires_grad_()
    scale = torch.tensor(1.3, dtype=torch.float64, device=device, requires_grad=True)
    at = torch.rand(axes, 1, 2, dtype=torch.float64, device=device, requires_grad=True)

    def run(*args: torch.Tensor) -> list[torch.Tensor]:
        q, k, f, scale, at = args
        return OPS.rotate_learned([q, k], SMALL_ROPES[rope], f, scale, at, None, 0, -3, name)

    assert gradcheck(run, (q, k, f, scale, at))
    assert gradcheck(lambda *args: run(*args, at.detach()), (q, k, f, scale))
    assert gradgradcheck(lambda *args: run(*args, at.detach()), (q, k, f, scale), fast_mode=True)
    assert gradgradcheck(run, (q, k, f, scale, at), fast_mode=True)


@pytest.mark.parametrize("rope", ["reordering", "growing", "mrope"])
def test_learned_at_whole_positions(rope: str, device: str) -> None:
    q, k = tensors(device, 2, 2, 5, 16)
    f = OPS.frequencies_like(q, ROPES[rope]).requires_grad_()
    scale = torch.tensor([1.3], dtype=torch.float64, device=device, requires_grad=True)
    cu = torch.tensor([0, 2, 5], device=device)
    for where in [
        (None, None, 3),
        (None, cu, 0),
        (cu[:2], cu, 0),
        (torch.randint(0, 9, (2, 5), device=device), None, 0),
    ]:

        def run(*args: torch.Tensor) -> list[torch.Tensor]:
            return OPS.rotate_learned(list(args[:2]), ROPES[rope], *args[2:], *where, -2)  # noqa: B023

        assert gradcheck(run, (q, k, f, scale), fast_mode=True)
        assert gradgradcheck(run, (q, k, f, scale), fast_mode=True)


def test_per_sample_gradients_of_frequencies(device: str) -> None:
    x = torch.randn(3, 4, 2, 16, device=device, dtype=torch.float64)
    f = OPS.frequencies_like(x, ROPES["half"])

    def loss(f: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return OPS.rotate_learned([x], ROPES["half"], f)[0].sin().sum()

    grads = torch.vmap(torch.func.grad(loss), (None, 0))(f, x)
    for i in range(3):
        g = f.clone().requires_grad_()
        torch.testing.assert_close(grads[i], torch.autograd.grad(loss(g, x[i]), g)[0])


def test_learned_agrees_with_fixed(device: str) -> None:
    x = torch.randn(2, 6, 3, 16, device=device)
    cu = torch.tensor([0, 2, 2, 6], device=device)
    begins = torch.tensor([4, 0, 9], device=device)
    for rope in ["half", "partial", "reordering", "scaled", "growing"]:
        f = OPS.frequencies_like(x, ROPES[rope])
        for where in [(None, None, 3), (None, cu, 0), (begins, cu, 0)]:
            for name in ["rotate", "unrotate", "adjoint"]:
                (out,) = OPS.rotate_learned([x], ROPES[rope], f, None, *where, -3, name)
                (expected,) = getattr(OPS, name)([x], ROPES[rope], *where)
                torch.testing.assert_close(out, expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("columns", ["pairs", "twice"])
@pytest.mark.parametrize("rope", ["half", "interleaved", "reordering"])
@pytest.mark.parametrize("op", [OPS.rotate_table, OPS.adjoint_table])
def test_tables(op: object, rope: str, columns: str, device: str) -> None:
    q, k = tensors(device, 2, 2, 3, 16)
    width = 8 if columns == "pairs" else 16
    for shape in [(3, width), (1, 3, width), (2, 3, width)]:
        cos, sin = tensors(device, *shape)

        def f(*args: torch.Tensor) -> list[torch.Tensor]:
            return op(list(args[:2]), *args[2:], ROPES[rope], -2)

        assert gradcheck(f, (q, k, cos, sin), fast_mode=True)
        assert gradgradcheck(f, (q, k, cos, sin), fast_mode=True)


def test_low_precision_gradients_keep_their_type(device: str) -> None:
    x = torch.randn(2, 3, 2, 16, device=device, dtype=torch.bfloat16, requires_grad=True)
    at = torch.rand(2, 3, device=device, requires_grad=True)
    (out,) = OPS.rotate([x], ROPES["half"], at)
    grads = torch.autograd.grad(out.float().square().sum(), [x, at])
    assert [g.dtype for g in grads] == [torch.bfloat16, torch.float32]
    assert [g.shape for g in grads] == [x.shape, at.shape]
    assert grads[1].abs().max() < 1  # the norm of a vector does not depend on its angle


def test_only_some_results_are_used(device: str) -> None:
    q, k = tensors(device, 2, 3, 2, 16)
    rotated = OPS.rotate([q, k], ROPES["half"])
    assert torch.autograd.grad(rotated[1].sum(), [q], allow_unused=True) == (None,)
    (grad,) = torch.autograd.grad(OPS.rotate([q, k], ROPES["half"])[0].sum(), [q])
    assert torch.equal(grad, OPS.adjoint([torch.ones_like(q)], ROPES["half"])[0])


def test_in_place(device: str) -> None:
    q, k = tensors(device, 2, 3, 2, 16)

    def f(q: torch.Tensor, k: torch.Tensor) -> list[torch.Tensor]:
        qkv = torch.cat([q * 2, k * 3], 2)
        views = [qkv[:, :, :2], qkv[:, :, 2:]]
        OPS.rotate_(views, ROPES["scaled"], None, None, 4)
        return [qkv]

    assert gradcheck(f, (q, k))
    assert gradgradcheck(f, (q, k), fast_mode=True)


def test_in_place_with_positions(device: str) -> None:
    (x,) = tensors(device, 2, 3, 2, 16, count=1)
    at = torch.rand(2, 3, dtype=torch.float64, device=device, requires_grad=True)

    def f(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        y = x * 2
        OPS.rotate_([y], ROPES["half"], at)
        return y

    assert gradcheck(f, (x, at))


def test_rejects_in_place_on_a_leaf(device: str) -> None:
    (x,) = tensors(device, 2, 3, 2, 16, count=1)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        OPS.rotate_([x], ROPES["half"])
    with torch.no_grad():
        OPS.rotate_([x], ROPES["half"])


def test_detects_in_place_change_of_saved_tensors(device: str) -> None:
    at = torch.arange(3, device=device)
    (x,) = tensors(device, 2, 3, 2, 16, count=1)
    (out,) = OPS.rotate([x], ROPES["half"], at)
    at += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_forward_mode(device: str) -> None:
    x = torch.randn(2, 3, 2, 16, device=device)
    tangent = torch.randn_like(x)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, tangent)
        out = forward_ad.unpack_dual(OPS.rotate([dual], ROPES["half"])[0])
        assert torch.equal(out.tangent, OPS.rotate([tangent], ROPES["half"])[0])
        at = forward_ad.make_dual(torch.rand(3, device=device), torch.rand(3, device=device))
        with pytest.raises(NotImplementedError, match="not positions"):
            OPS.rotate([x], ROPES["half"], at)


def test_torch_func(device: str) -> None:
    x = torch.randn(4, 3, 2, 16, device=device, dtype=torch.float64)

    def loss(x: torch.Tensor) -> torch.Tensor:
        return OPS.rotate([x], ROPES["scaled"], None, None, 2)[0].sin().sum()

    per_sample = torch.func.vmap(torch.func.grad(loss))(x)
    for i in range(4):
        y = x[i].clone().requires_grad_()
        torch.testing.assert_close(per_sample[i], torch.autograd.grad(loss(y), y)[0])
    small = x[0, :1, :1]
    torch.testing.assert_close(torch.func.jacrev(loss)(small), torch.func.jacfwd(loss)(small))
    hessian = torch.func.hessian(loss)(small)
    torch.testing.assert_close(hessian, torch.autograd.functional.hessian(loss, small))


def test_vmap(device: str) -> None:
    rope = ROPES["half"]
    x = torch.randn(3, 2, 5, 2, 16, device=device)
    at = torch.randint(0, 99, (3, 2, 5), device=device)
    shared = torch.randint(0, 99, (2, 5), device=device)

    def rotate(x: torch.Tensor, at: torch.Tensor | None) -> torch.Tensor:
        return OPS.rotate([x], rope, at)[0]

    for dims, arguments in [
        ((0, 0), (x, at)),
        ((0, None), (x, shared)),
        ((0, None), (x, None)),
        ((None, 0), (x[0], at)),
        ((0, None), (x, shared[0])),
        ((0, 0), (x, at[:, 0])),
        ((0, 0), (x, at[:, :1])),
    ]:
        out = torch.vmap(rotate, dims)(*arguments)
        expected = [
            rotate(*(a if d is None else a[i] for a, d in zip(arguments, dims, strict=True)))
            for i in range(3)
        ]
        assert torch.equal(out, torch.stack(expected))
    moved = torch.vmap(rotate, (2, None), 2)(x.movedim(0, 2), None)
    assert torch.equal(moved.movedim(2, 0), torch.stack([rotate(y, None) for y in x]))


def test_vmap_of_the_rest(device: str) -> None:
    rope = ROPES["half"]
    x = torch.randn(3, 6, 2, 16, device=device)
    cu = torch.tensor([[0, 2, 6], [0, 3, 6], [0, 6, 6]], device=device)
    out = torch.vmap(lambda x, cu: OPS.rotate([x], rope, None, cu)[0])(x, cu)
    for i in range(3):
        assert torch.equal(out[i], OPS.rotate([x[i]], rope, None, cu[i])[0])
    in_place = x.clone()
    torch.vmap(lambda x: OPS.rotate_([x], rope) or x)(in_place)
    assert torch.equal(in_place, OPS.rotate([x], rope)[0])
    f = torch.rand(3, 8, device=device)
    learned = torch.vmap(lambda x, f: OPS.rotate_learned([x], rope, f)[0])(x, f)
    for i in range(3):
        torch.testing.assert_close(learned[i], OPS.rotate_learned([x[i]], rope, f[i])[0])
