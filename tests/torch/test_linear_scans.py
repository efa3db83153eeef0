"""The scans of linear attention against their definition in float64, and their gradients."""

import pytest
import torch
from torch import Tensor

import rotary.torch  # noqa: F401  (loads the operators)

OPS = torch.ops.rotary
DIRECTIONS = ["causal", "reverse"]
# Around the chunks of 64 tokens, the segments of 128 and 512, and the tiles of the kernels.
LENGTHS = [1, 2, 63, 64, 65, 129, 200, 600]
TOLERANCE = {torch.float64: 1e-12, torch.float32: 3e-6, torch.bfloat16: 1e-2, torch.float16: 2e-3}


def scan_mask(n: int, direction: str, device: str) -> Tensor:
    ones = torch.ones(n, n, dtype=torch.float64, device=device)
    return ones.tril() if direction == "causal" else ones.triu()


def relative_error(a: Tensor, b: Tensor) -> float:
    return float((a.double() - b).norm() / b.norm().clamp_min(1e-300))


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    "sizes",
    [(16, 7), (64, 64), (128, 128), (64, 80), (80, 64), (256, 64), (64, 272), (272, 64)],
    ids=str,
)
def test_product(sizes: tuple[int, int], direction: str, dtype: torch.dtype, device: str) -> None:
    features, values = sizes
    accum = torch.float64 if dtype == torch.float64 else torch.float32
    for n in LENGTHS:
        x, y = (torch.randn(1, 2, n, features, device=device, dtype=dtype) for _ in range(2))
        w = torch.randn(1, 2, n, values, device=device, dtype=dtype)
        scale = torch.rand(1, 2, n, device=device, dtype=accum)
        scores = x.double() @ y.double().mT * scan_mask(n, direction, device)
        expected = scores @ w.double()
        assert (
            relative_error(OPS.linear_product(x, y, w, None, direction), expected)
            < TOLERANCE[dtype]
        )
        scaled = OPS.linear_product(x, y, w, scale, direction)
        assert scaled.dtype == dtype
        assert relative_error(scaled, expected * scale[..., None].double()) < TOLERANCE[dtype]


def test_product_over_all_tokens(device: str) -> None:
    """Different numbers of queries and keys; sums far beyond the range of float16."""
    for dtype, size in [(torch.float64, 1.0), (torch.float16, 30.0)]:
        x, y, w = (
            torch.rand(2, 3, n, d, device=device, dtype=dtype) * s
            for n, d, s in [(5, 16, 1e-3), (300, 16, size), (300, 9, size)]
        )
        accum = torch.float64 if dtype == torch.float64 else torch.float32
        scale = torch.full((2, 3, 5), 2.0**-10, device=device, dtype=accum)
        expected = 2.0**-10 * (x.double() @ y.double().mT @ w.double())
        assert (
            relative_error(OPS.linear_product(x, y, w, scale, "all"), expected) < TOLERANCE[dtype]
        )


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_dot_and_sum(direction: str, dtype: torch.dtype, device: str) -> None:
    accum = torch.float64 if dtype == torch.float64 else torch.float32
    for n, features in [(1, 64), (65, 1), (200, 48), (130, 272), (66, 600)]:
        x, y = (torch.randn(2, 2, n, features, device=device, dtype=dtype) for _ in range(2))
        weight, scale = (torch.rand(2, 2, n, device=device, dtype=accum) for _ in range(2))
        matrix = scan_mask(n, direction, device)
        dot = OPS.linear_dot(x, y, direction)
        assert dot.dtype == accum
        expected = (x.double() * (matrix @ y.double())).sum(-1)
        assert relative_error(dot, expected) < max(1e-5, TOLERANCE[dtype] / 100)
        expected = matrix @ (weight[..., None].double() * x.double()) * scale[..., None].double()
        assert (
            relative_error(OPS.linear_sum(x, weight, scale, direction), expected) < TOLERANCE[dtype]
        )


def small(*shape: int, device: str) -> Tensor:
    return torch.randn(*shape, device=device, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("direction", [*DIRECTIONS, "all"])
def test_product_gradients(direction: str, device: str) -> None:
    x, y, w = (
        small(2, 5, 3, device=device),
        small(2, 5, 3, device=device),
        small(2, 5, 2, device=device),
    )
    scale = (torch.rand(2, 5, device=device, dtype=torch.float64) + 0.5).requires_grad_()

    def call(*tensors: Tensor) -> Tensor:
        return OPS.linear_product(*tensors, direction)

    assert torch.autograd.gradcheck(call, (x, y, w, scale))
    assert torch.autograd.gradgradcheck(call, (x, y, w, scale))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_dot_and_sum_gradients(direction: str, device: str) -> None:
    x, y = small(2, 5, 3, device=device), small(2, 5, 3, device=device)
    weight, scale = small(2, 5, device=device), small(2, 5, device=device)
    for call, inputs in [
        (lambda a, b: OPS.linear_dot(a, b, direction), (x, y)),
        (lambda a, b, c: OPS.linear_sum(a, b, c, direction), (x, weight, scale)),
    ]:
        assert torch.autograd.gradcheck(call, inputs)
        assert torch.autograd.gradgradcheck(call, inputs)


def test_product_gradient_over_chunks(device: str) -> None:
    """Several chunks, against autograd through the definition."""
    n = 150
    inputs = [small(2, n, 8, device=device) for _ in range(3)]
    scale = (torch.rand(2, n, device=device, dtype=torch.float64) + 0.5).requires_grad_()
    g = torch.randn(2, n, 8, device=device, dtype=torch.float64)
    x, y, w = inputs
    direct = (x @ y.mT * scan_mask(n, "causal", device)) @ w * scale[..., None]
    wanted = torch.autograd.grad(direct, [*inputs, scale], g)
    got = torch.autograd.grad(OPS.linear_product(x, y, w, scale), [*inputs, scale], g)
    for a, b in zip(got, wanted, strict=True):
        assert relative_error(a, b) < 1e-12


def favor_inputs(device: str, dtype: torch.dtype, tokens: int = 70) -> list[Tensor]:
    """q, k, a projection and a padding mask of the keys."""
    q, k = (torch.randn(2, 3, tokens, 64, device=device, dtype=dtype) for _ in range(2))
    w = OPS.orthogonal_features(48, 64, generator=torch.Generator().manual_seed(1)).to(device)
    return [q, k, w, torch.rand(2, tokens, device=device) > 0.2]


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
def test_favor(dtype: torch.dtype, device: str) -> None:
    """Features, their dot products and gradients, against float64 from the same inputs."""
    for tokens in (1, 64, 65, 200):
        q, k, w, padding = favor_inputs(device, dtype, tokens)
        for mask in (None, padding):
            results, grads = [], []
            for x, y in ((q, k), (q.double(), k.double())):
                pair = [t.clone().requires_grad_() for t in (x, y)]
                c, e, dots, *_ = OPS.favor(*pair, w, mask)
                weights = [torch.linspace(0.5, 1, t.numel(), device=device) for t in (c, e, dots)]
                loss = sum(
                    (t.double().flatten() * g).sum() / (1 + t.detach().double().abs().mean())
                    for t, g in zip((c, e, dots), weights, strict=True)
                )
                results.append((c, e, dots))
                grads.append(torch.autograd.grad(loss, pair))
            for a, b in zip((*results[0], *grads[0]), (*results[1], *grads[1]), strict=True):
                assert relative_error(a, b) < 2 * TOLERANCE[dtype]
            if mask is not None:
                assert not results[0][1].transpose(1, 2)[~mask].any()


def favor_reference(
    q: Tensor, k: Tensor, w: Tensor, padding: Tensor, z: Tensor
) -> tuple[Tensor, ...]:
    """z: rotation of interleaved pairs, complex [tokens, features / 2]."""

    def phi(x: Tensor, stabilised: bool) -> Tensor:
        x = x / x.shape[-1] ** 0.25
        h = x @ w.double().T
        c = h.detach().amax(-1, keepdim=True) if stabilised else 0.0
        return ((h - x.square().sum(-1, keepdim=True) / 2 - c).exp() + 1e-4) / len(w) ** 0.5

    def rotated(x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(pairs * z).flatten(-2)

    c, e = phi(q, True), phi(k, False) * padding[:, None, :, None]
    return rotated(c), rotated(e), (c * e.cumsum(2)).sum(-1)


def test_favor_gradients(device: str) -> None:
    """First and second order. The stabiliser is a constant, so gradcheck does not apply."""
    q, k = small(2, 2, 5, 4, device=device), small(2, 2, 5, 4, device=device)
    w = torch.randn(16, 4, device=device)
    padding = torch.tensor([[True, True, False, True, True], [False, True, True, True, True]])
    padding = padding.to(device)

    def gradients(results: tuple[Tensor, ...]) -> list[Tensor]:
        loss = sum((x * torch.arange(x.numel()).view_as(x).to(x).cos()).sum() for x in results)
        first = torch.autograd.grad(loss, (q, k), create_graph=True)
        second = torch.autograd.grad(sum(x.square().sum() for x in first), (q, k))
        return [*results, *first, *second]

    z = torch.polar(torch.ones(5, 8), torch.randn(5, 8)).to(device, torch.complex128)
    for table in (None, z):
        cos_sin = None if table is None else torch.view_as_real(table)
        ours = gradients(OPS.favor(q, k, w, padding, cos_sin)[:3])
        rotation = torch.ones_like(z) if table is None else table
        expected = gradients(favor_reference(q, k, w, padding, rotation))
        for a, b in zip(ours, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)
        torch.library.opcheck(OPS.favor, (q, k, w, padding, cos_sin))


def test_rejects_wrong_arguments() -> None:
    x = torch.randn(2, 5, 4)
    for call in [
        lambda: OPS.linear_product(x, x[:, :4], x),
        lambda: OPS.linear_product(x, x, x.double()),
        lambda: OPS.linear_product(x, x, x, torch.ones(5)),
        lambda: OPS.linear_product(x, x, x, None, "sideways"),
        lambda: OPS.linear_product(x.int(), x.int(), x.int()),
        lambda: OPS.linear_dot(x, x, "all"),
        lambda: OPS.linear_sum(x, torch.ones(2, 5, dtype=torch.float64)),
    ]:
        with pytest.raises(ValueError, match=r"\[linear_"):
            call()
    with pytest.raises(NotImplementedError, match="forward-mode"):
        torch.func.jvp(lambda a: OPS.linear_dot(a, x), (x,), (x,))


def test_opcheck(device: str) -> None:
    def x(*shape: int) -> Tensor:
        return torch.randn(*shape, device=device, requires_grad=True)

    scale = torch.rand(2, 3, 70, device=device)
    for direction in [*DIRECTIONS, "all"]:
        three = (x(2, 3, 70, 8), x(2, 3, 70, 8), x(2, 3, 70, 5))
        torch.library.opcheck(OPS.linear_product, (*three, scale, direction))
    torch.library.opcheck(OPS.linear_dot, (x(2, 3, 70, 8), x(2, 3, 70, 8), "reverse"))
    torch.library.opcheck(OPS.linear_sum, (x(2, 3, 70, 8), scale, scale, "causal"))
    torch.library.opcheck(OPS.elu_plus_one, (x(2, 3, 7, 8),))


def test_elu_plus_one(device: str) -> None:
    """Small values are accurate: elu(x) + 1 in 16 bits would lose them."""
    x = torch.linspace(-20, 20, 4001, dtype=torch.float64, device=device)
    for dtype, ulp in [(torch.float64, 2e-16), (torch.float32, 1e-7), (torch.bfloat16, 4e-3)]:
        rounded = x.to(dtype).requires_grad_()
        exact = rounded.detach().double()
        expected = torch.where(exact > 0, exact + 1, exact.exp())
        y = OPS.elu_plus_one(rounded)
        torch.testing.assert_close(y.double(), expected, rtol=2 * ulp, atol=0)
        (grad,) = torch.autograd.grad(y.sum(), rounded)
        torch.testing.assert_close(grad.double(), expected.clamp_max(1.0), rtol=2 * ulp, atol=0)


def test_reciprocals(device: str) -> None:
    """Denominators are kept away from 0; with bounds, by guard * bound for either sign."""
    sums, bounds = small(3, 7, device=device), small(3, 7, device=device).detach().abs() + 0.5
    bounds.requires_grad_()
    plain = OPS.linear_reciprocals(sums)
    assert torch.equal(plain, 1 / sums.clamp_min(1e-6))
    for guard in (0.01, 0.5):
        result = OPS.linear_reciprocals(sums, bounds, guard)
        smallest = torch.maximum(sums.abs(), guard * bounds)
        torch.testing.assert_close(result, 1 / torch.where(sums < 0, -smallest, smallest))
        for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
            assert check(lambda s, b: OPS.linear_reciprocals(s, b, guard), (sums, bounds))  # noqa: B023
    positive = bounds.detach().requires_grad_()
    assert torch.autograd.gradcheck(OPS.linear_reciprocals, (positive,))
    torch.library.opcheck(OPS.linear_reciprocals, (sums, bounds, 0.5))
