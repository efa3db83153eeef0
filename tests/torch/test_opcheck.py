"""torch.library.opcheck: schemas, fake tensors, autograd registration and AOT dispatch, the last
for every operator with some arguments, and for one operator of a kind with all."""

import pytest
import torch
from operators import opcheck
from ropes import ROPES, axes_of

OPS = torch.ops.rotary
ROTATIONS = ["rotate", "adjoint", "unrotate", "unrotate_adjoint", "shift", "shift_adjoint"]


def samples(device: str, *, grad: bool) -> list[tuple[object, ...]]:
    def x(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=device, requires_grad=grad)

    at = torch.randint(0, 99, (2, 5), device=device)
    real = torch.rand(axes_of(ROPES["mrope"]), 2, 5, device=device, requires_grad=grad)
    cu = torch.tensor([0, 2, 5], device=device)
    half = ROPES["half"]
    return [
        ([x(2, 5, 3, 16), x(2, 5, 1, 16)], half, at, None, 0, -3),
        ([x(2, 3, 5, 16)], ROPES["reordering"], None, None, 7, -2),
        ([x(2, 5, 3, 16).transpose(1, 2)], ROPES["mrope"], real, None, 0, -2),
        ([x(2, 3, 5, 3, 16)], half, None, None, 0, -3),
        ([x(2, 5, 3, 16)], half, at[0, :2], cu, 0, -3),
    ]


@pytest.mark.parametrize("case", range(5))
@pytest.mark.parametrize("op", ROTATIONS)
def test_functional(op: str, case: int, device: str) -> None:
    arguments = samples(device, grad=True)[case]
    opcheck(getattr(OPS, op), arguments, dispatch=op == "rotate" or case in (0, 2))


@pytest.mark.parametrize("case", range(5))
@pytest.mark.parametrize("op", ROTATIONS)
def test_in_place(op: str, case: int, device: str) -> None:
    arguments = samples(device, grad=False)[case]
    opcheck(getattr(OPS, op + "_"), arguments, dispatch=op == "rotate" or case == 0)


@pytest.mark.parametrize("op", [OPS.rotate_table, OPS.adjoint_table])
def test_tables(op: object, device: str) -> None:
    x = torch.randn(2, 5, 3, 16, device=device, requires_grad=True)
    for shape in [(5, 8), (1, 5, 16), (2, 5, 8)]:
        cos, sin = (torch.randn(shape, device=device, requires_grad=True) for _ in range(2))
        arguments = ([x, x.detach()[:, :, :1]], cos, sin, ROPES["half"])
        opcheck(op, arguments, dispatch=op == OPS.rotate_table or shape == (2, 5, 8))


@pytest.mark.parametrize("op", [OPS.frequencies_like, OPS.growth_like])
def test_frequencies_and_growth(op: object, device: str) -> None:
    for rope in ["half", "growing", "mixed"]:
        torch.library.opcheck(op, (torch.randn(1, device=device), ROPES[rope]))


def test_learned(device: str) -> None:
    x = torch.randn(2, 5, 3, 16, device=device, requires_grad=True)
    f = torch.rand(8, device=device, requires_grad=True)
    scale = torch.tensor([1.5], device=device, requires_grad=True)
    cu = torch.tensor([0, 2, 5], device=device)
    for where in [(None, None, 2), (None, cu, 0)]:
        torch.library.opcheck(OPS.rotate_learned, ([x], ROPES["half"], f, scale, *where))
    torch.library.opcheck(OPS.learned_cos_sin, (f, ROPES["growing"], 5, scale))


def test_gradients(device: str) -> None:
    x = [torch.randn(2, 5, n, 16, device=device) for n in (3, 1)]
    g = [torch.randn_like(y) for y in x]
    cu = torch.tensor([0, 2, 5], device=device)
    torch.library.opcheck(OPS.position_gradient, (x, g, ROPES["mixed"], "half"))
    torch.library.opcheck(OPS.frequency_gradient, (x, g, ROPES["half"], None, cu))
