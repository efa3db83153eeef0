"""Frequencies of each head (RoPE-Mixed): the operators, their derivatives, and the module."""

import json
import math

import pytest
import torch
from ropes import ROPES, axes_of, text, tolerance
from torch.autograd import gradcheck, gradgradcheck

import rotary.torch as rt

OPS = torch.ops.rotary
KERNEL_ROPES = ["half", "interleaved", "partial", "reordering", "scaled", "mixed", "mrope"]


def per_head(rope: str, heads: int, device: str, **options: object) -> torch.Tensor:
    """Frequencies that differ between heads by much."""
    base = OPS.frequencies_like(torch.empty(0, device=device), ROPES[rope])
    return (base * (1 + 0.3 * torch.rand(heads, 1, 1, device=device)) + 0.1).to(**options)


def head_by_head(
    tensors: list[torch.Tensor], rope: str, frequencies: torch.Tensor, *rest: object
) -> list[torch.Tensor]:
    """Each head on its own, by the operator for shared frequencies."""
    token_dim = rest[4]
    head_dim = -2 if token_dim == -3 else -3
    results = []
    for x in tensors:
        group = x.shape[head_dim] // frequencies.shape[0]
        parts = [
            OPS.rotate_learned([x.narrow(head_dim, h, 1)], rope, frequencies[h // group], *rest)[0]
            for h in range(x.shape[head_dim])
        ]
        results.append(torch.cat(parts, head_dim))
    return results


def places(rope: str, device: str, tokens: int, batch: int) -> list[tuple[object, object, int]]:
    axes = axes_of(ROPES[rope])
    real = torch.rand(axes, batch, tokens, device=device, dtype=torch.float64) * 50
    grid = torch.stack([torch.arange(tokens, device=device) % (3 + a) for a in range(axes)])
    found: list[tuple[object, object, int]] = [
        (real, None, 0),
        (grid.unsqueeze(1), None, 0),
        (real[:, :1].float(), None, 0),
    ]
    if axes == 1 or rope == "mrope":
        found += [(None, None, 7), (None, torch.tensor([0, 2, tokens], device=device), 0)]
    return found


@pytest.mark.parametrize("op", ["rotate", "adjoint", "unrotate"])
@pytest.mark.parametrize("rope", [*KERNEL_ROPES, "growing"])
def test_is_every_head_on_its_own(rope: str, op: str, device: str) -> None:
    frequencies = per_head(rope, 2, device)
    scale = torch.tensor([0.75], device=device, dtype=torch.float64)
    for dtype in [torch.float64, torch.float32, torch.bfloat16, torch.float16]:
        q = torch.randn(3, 5, 4, 16, device=device).to(dtype)
        k = torch.randn(3, 2, 5, 16, device=device).to(dtype).transpose(1, 2)
        for where in places(rope, device, 5, 3):
            for given in [None, scale]:
                args = (ROPES[rope], frequencies, given, *where, -3, op)
                expected = head_by_head([q, k], *args)
                for out, want in zip(OPS.rotate_learned([q, k], *args), expected):
                    torch.testing.assert_close(
                        out.double(), want.double(), rtol=0, atol=4 * tolerance(dtype)
                    )


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
@pytest.mark.parametrize("pairs", [1, 3, 7, 8, 9, 31, 33, 44, 64])
def test_heads_of_any_size(pairs: int, pairing: str, device: str) -> None:
    """Lines, registers and single pairs of the loops, forward and backward."""
    rope = text(head_dim=2 * pairs, rotary_dim=2 * pairs, theta=100.0, pairing=pairing)
    for dtype in [torch.float64, torch.float32, torch.bfloat16, torch.float16]:
        x, grad = torch.randn(2, 2, 5, 6, 2 * pairs, device=device).to(dtype).unbind()
        x.requires_grad_()
        frequencies = torch.rand(3, pairs, 1, device=device, dtype=torch.float64).requires_grad_()
        args = (rope, frequencies, None, None, None, 3, -3)
        (out,) = OPS.rotate_learned([x], *args)
        (want,) = head_by_head([x], *args)
        leaves = [x, frequencies]
        grads = torch.autograd.grad(out, leaves, grad)
        wanted = torch.autograd.grad(want, leaves, grad)
        for got, expected in zip([out, *grads], [want, *wanted]):
            size = max(1.0, expected.abs().max().item())
            torch.testing.assert_close(
                got.double(), expected.double(), rtol=0, atol=4 * size * tolerance(dtype)
            )


def test_nan_stays_nan(device: str) -> None:
    """Whatever its payload: rounding to bfloat16 must not carry it into a zero."""
    rope = text(head_dim=20, rotary_dim=20, theta=100.0, pairing="interleaved")
    nan = torch.tensor([-1], dtype=torch.int64, device=device).view(torch.float64)
    frequencies = nan.expand(2, 10, 1).contiguous()
    for dtype in [torch.float32, torch.bfloat16, torch.float16]:
        x = torch.randn(3, 2, 20, device=device).to(dtype)
        (out,) = OPS.rotate_learned([x], rope, frequencies, None, None, None, 1)
        assert out.isnan().all()


@pytest.mark.parametrize("tokens", [1, 255, 256, 257, 600])
def test_long_ranges(tokens: int, device: str) -> None:
    """Rows of a table are products of those before them, on the CPU: errors do not add up."""
    x = torch.randn(tokens, 3, 64, device=device, dtype=torch.float64)
    rope = text(head_dim=64, theta=10000.0, rotary_dim=64)
    frequencies = OPS.frequencies_like(x, rope) * torch.tensor([1.0, 0.9, 1.7]).to(x)[:, None, None]
    args = (rope, frequencies, None, None, None, 123456, -3)
    (out,) = OPS.rotate_learned([x], *args)
    (expected,) = head_by_head([x], *args)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-9)


def test_layouts_and_dimensions(device: str) -> None:
    frequencies = per_head("half", 3, device)
    x = torch.randn(2, 3, 5, 6, 16, device=device)
    rope = ROPES["half"]
    (out,) = OPS.rotate_learned([x], rope, frequencies)
    args = (None, None, None, 0, -3)
    (expected,) = head_by_head([x.flatten(0, 1)], rope, frequencies, *args)
    torch.testing.assert_close(out.flatten(0, 1), expected)
    swapped = x[0].transpose(1, 2).contiguous()
    (other,) = OPS.rotate_learned([swapped], rope, frequencies, token_dim=-2)
    assert torch.equal(other.transpose(1, 2), out[0])
    (flat,) = OPS.rotate_learned([x[0, 0]], rope, frequencies)
    assert torch.equal(flat, out[0, 0])
    strided = torch.randn(2, 5, 6, 32, device=device)[..., ::2]
    (every_other,) = OPS.rotate_learned([strided], rope, frequencies)
    (dense,) = OPS.rotate_learned([strided.contiguous()], rope, frequencies)
    torch.testing.assert_close(every_other, dense)


@pytest.mark.parametrize("op", ["rotate", "adjoint", "unrotate"])
@pytest.mark.parametrize("rope", ["half", "reordering", "scaled", "mixed", "growing"])
def test_gradients(rope: str, op: str, device: str) -> None:
    """Of inputs, of frequencies by head and axis, of scale and of positions."""
    axes = axes_of(ROPES[rope])
    q = torch.randn(2, 2, 4, 16, device=device, dtype=torch.float64, requires_grad=True)
    k = torch.randn(2, 2, 2, 16, device=device, dtype=torch.float64, requires_grad=True)
    f = per_head(rope, 2, device).requires_grad_()
    scale = torch.tensor(1.3, dtype=torch.float64, device=device, requires_grad=True)
    at = torch.rand(axes, 2, 2, dtype=torch.float64, device=device, requires_grad=True)

    def run(*args: torch.Tensor) -> list[torch.Tensor]:
        q, k, f, scale, at = args
        return OPS.rotate_learned([q, k], ROPES[rope], f, scale, at, None, 0, -3, op)

    def fixed(*args: torch.Tensor) -> list[torch.Tensor]:
        return run(*args, at.detach())

    assert gradcheck(fixed, (q, k, f, scale), fast_mode=op != "rotate" or rope != "mixed")
    assert gradcheck(run, (q, k, f, scale, at), fast_mode=True)
    assert gradgradcheck(fixed, (q, k, f, scale), fast_mode=True)
    if op == "rotate":
        assert gradgradcheck(run, (q, k, f, scale, at), fast_mode=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("batch", [1, 3])
def test_gradients_are_those_of_the_plain_formula(
    batch: int, dtype: torch.dtype, device: str
) -> None:
    """Large enough for several blocks and chunks."""
    rope = text(head_dim=64, frequencies=[0.5**i for i in range(64)], axes=2, pairing="interleaved")
    tokens, heads = 333, 4
    f = torch.randn(heads, 32, 2, device=device, dtype=torch.float64) * 0.2
    at = torch.stack([torch.arange(tokens) // 20, torch.arange(tokens) % 20]).to(device)
    q, k = torch.randn(2, batch, tokens, heads, 64, device=device).to(dtype).unbind()
    grads = torch.randn(2, batch, tokens, heads, 64, device=device).to(dtype).unbind()

    def gradient(tensors: list[torch.Tensor], at: torch.Tensor) -> list[torch.Tensor]:
        leaves = [t.detach().requires_grad_() for t in (*tensors, f)]
        out = OPS.rotate_learned(leaves[:2], rope, leaves[2], None, at)
        return list(torch.autograd.grad(out, leaves, [g.to(out[0].dtype) for g in grads]))

    wide = [q.double(), k.double()]
    plain = gradient(wide, at[:, None].double().requires_grad_())  # positions that need a gradient
    close = tolerance(dtype)
    for got, want in zip(gradient([q, k], at[:, None]), plain):
        torch.testing.assert_close(
            got.double(), want, rtol=4 * close, atol=4 * close * want.abs().max().item()
        )


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    f = per_head("half", 4, "cpu").requires_grad_()
    x = torch.randn(2, 700, 4, 16, requires_grad=True)
    before = torch.get_num_threads()
    results = []
    for threads in [1, 3]:
        torch.set_num_threads(threads)
        out = OPS.rotate_learned([x], ROPES["half"], f)[0]
        results.append((out, *torch.autograd.grad(out.sin().sum(), [x, f])))
    torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(*results))


def test_per_sample_gradients(device: str) -> None:
    x = torch.randn(3, 4, 2, 16, device=device, dtype=torch.float64)
    f = per_head("half", 2, device)

    def loss(f: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return OPS.rotate_learned([x], ROPES["half"], f)[0].sin().sum()

    grads = torch.vmap(torch.func.grad(loss), (None, 0))(f, x)
    for i in range(3):
        g = f.clone().requires_grad_()
        torch.testing.assert_close(grads[i], torch.autograd.grad(loss(g, x[i]), g)[0])


def test_opcheck(device: str) -> None:
    x = torch.randn(2, 3, 4, 16, device=device, requires_grad=True)
    f = per_head("half", 2, device).requires_grad_()
    at = torch.arange(3.0, device=device, dtype=torch.float64).reshape(1, 1, 3)
    scale = torch.ones(1, device=device, dtype=torch.float64)
    torch.library.opcheck(OPS.rotate_per_head, ([x], at, f, scale, ROPES["half"]))
    torch.library.opcheck(
        OPS.per_head_gradient,
        ([x.detach()], [x.detach()], at, f.detach(), None, ROPES["half"]),
    )


def test_rejects_what_does_not_fit(device: str) -> None:
    x = torch.randn(2, 3, 4, 16, device=device)
    f = per_head("half", 2, device)
    for args, words in [
        (([x], ROPES["half"], f[:, :5]), r"must be \[heads, 8 pairs, 1 axes\]"),
        (([x], ROPES["half"], f[:0]), r"must be \[heads, 8 pairs, 1 axes\]"),
        (([x[:, :, :3]], ROPES["half"], f), "multiple of the 2 heads of the frequencies, got 3"),
        (([x[..., :8]], ROPES["half"], f), "last size must be head_dim 16, got 8"),
        (([x], ROPES["mixed"], per_head("mixed", 2, device)), "positions must have 2 axes, got 1"),
    ]:
        with pytest.raises(ValueError, match=words):
            OPS.rotate_learned(*args)
    with pytest.raises(ValueError, match="heads must be positive to learn per head, got 0"):
        rt.RotaryEmbedding(ROPES["half"], learn="per_head")


# ---- The module ---------------------------------------------------------------------------------


def test_one_axis_starts_as_the_rope(device: str) -> None:
    module = rt.RotaryEmbedding(ROPES["scaled"], learn="per_head", heads=4, device=device)
    assert module.learned.shape == (4, 8, 1)
    x = torch.randn(2, 5, 4, 16, device=device)
    torch.testing.assert_close(module(x, first=9), rt.rotate(x, rope=ROPES["scaled"], first=9))
    torch.testing.assert_close(module.unrotate(module(x)), x)


def test_starts_as_rope_mixed() -> None:
    """rope-vit's init_random_2d_freqs: one angle per head for half of the pairs, and the direction
    across it for the rest; magnitudes are the ladder."""
    pairs = 8
    ladder = [10.0 ** (-4 * i / (2 * pairs)) for i in range(pairs // 2)]
    axial = [[f, 0.0] for f in ladder] + [[0.0, f] for f in ladder]
    rope = text(axes=2, frequencies=[f for row in axial for f in row])
    module = rt.RotaryEmbedding(rope, learn="per_head", heads=50)
    f = module.frequencies().detach()
    angle = torch.atan2(f[:, 0, 1], f[:, 0, 0])
    mag = torch.tensor(ladder, dtype=torch.float64)
    expected = torch.cat(
        [
            torch.stack([mag * angle[:, None].cos(), mag * angle[:, None].sin()], -1),
            torch.stack(
                [
                    mag * (math.pi / 2 + angle[:, None]).cos(),
                    mag * (math.pi / 2 + angle[:, None]).sin(),
                ],
                -1,
            ),
        ],
        1,
    )
    torch.testing.assert_close(f, expected, rtol=0, atol=1e-6)
    assert angle.min() < -2 and angle.max() > 2  # all directions
    module.reset_parameters()
    assert not torch.equal(module.frequencies(), f)


def test_three_axes_keep_their_magnitudes() -> None:
    module = rt.RotaryEmbedding(ROPES["mrope"], learn="per_head", heads=5)
    base = OPS.frequencies_like(torch.empty(0), ROPES["mrope"])
    torch.testing.assert_close(
        module.frequencies().norm(dim=-1), base.norm(dim=-1).expand(5, -1), rtol=1e-5, atol=1e-7
    )


def test_learns_each_head(device: str) -> None:
    target = rt.RotaryEmbedding(text(), learn="per_head", heads=2, device=device)
    with torch.no_grad():
        target.learned += torch.tensor([0.125, -0.0625], device=device)[:, None, None]
    module = rt.RotaryEmbedding(text(), learn="per_head", heads=2, device=device)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    x = torch.randn(8, 3, 4, 16, device=device)
    losses = []
    for _ in range(80):
        loss = (module(x) - target(x).detach()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.01 * losses[0]
    assert module.learned[0].mean() > 0.05 and module.learned[1].mean() < -0.02


def test_compiles_to_one_graph(device: str) -> None:
    module = rt.RotaryEmbedding(
        ROPES["half"], token_dim=-2, learn="per_head", heads=2, device=device
    )
    q, k = torch.randn(2, 1, 4, 5, 16, device=device, requires_grad=True).unbind()

    def run(q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return module(q, k)

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    for out, expected in zip(compiled(q, k), run(q, k)):
        torch.testing.assert_close(out, expected)
    loss = sum(y.sin().sum() for y in compiled(q, k))
    want = sum(y.sin().sum() for y in run(q, k))
    for got, expected in zip(
        torch.autograd.grad(loss, [module.learned]), torch.autograd.grad(want, [module.learned])
    ):
        torch.testing.assert_close(got, expected)


def test_in_an_encoding(device: str) -> None:
    encoding = rt.make_encoding("rope", heads=4, rope=text(), learn="per_head").to(device)
    assert [(n, tuple(p.shape)) for n, p in encoding.named_parameters()] == [
        ("rotation.learned", (4, 8, 1))
    ]
    assert json.loads(encoding.rotation.rope)["head_dim"] == 16
