"""The module RotaryEmbedding: learning, casts, copies, meta devices, sharding."""

import copy
import pickle

import pytest
import torch
import torch.distributed as dist
from ropes import ROPES, axes_of, ladder, text

import rotary.torch as rt

OPS = torch.ops.rotary
LEARN = [None, "log_gain", "frequencies", "receptive_field"]


def rotated(module: torch.nn.Module, device: str = "cpu") -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, 5, 3, 16, generator=generator).to(device)
    return module(x, first=1_000_000)


def changed(module: rt.RotaryEmbedding) -> rt.RotaryEmbedding:
    """Sets learned values that float16 represents exactly."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.125
    return module


@pytest.mark.parametrize("learn", LEARN)
def test_starts_as_the_rope_it_was_given(learn: str | None, device: str) -> None:
    x = torch.randn(2, 5, 3, 16, device=device)
    k = torch.randn(2, 5, 1, 16, device=device)
    for rope in ["scaled", "growing", "mixed", "mrope"]:
        at = torch.rand(axes_of(ROPES[rope]), 2, 5, device=device)
        module = rt.RotaryEmbedding(ROPES[rope], learn=learn, learn_scale=True, device=device)
        out, key = module(x, k, at)
        torch.testing.assert_close(out, rt.rotate(x, rope=ROPES[rope], positions=at))
        torch.testing.assert_close(module.unrotate(out, positions=at), x)
        if rope == "growing":  # scores do not depend on the origin of growth
            assert not torch.allclose(key, rt.rotate(k, rope=ROPES[rope], positions=at))
        else:
            torch.testing.assert_close(key, rt.rotate(k, rope=ROPES[rope], positions=at))


def test_xpos_scores_depend_on_the_distance(device: str) -> None:
    module = rt.RotaryEmbedding(text(growth=[0.01 * i for i in range(8)]))
    q, k = torch.randn(2, 1, 1, 16, dtype=torch.float64, device=device)
    scores = []
    for first in [0, 100]:
        rotated_q = module(q[None], first=first + 7)
        _, rotated_k = module(q[None], k[None], first=first)
        scores.append((rotated_q * rotated_k).sum())
    torch.testing.assert_close(scores[0], scores[1])


@pytest.mark.parametrize("learn", LEARN)
def test_learned_frequencies(learn: str | None) -> None:
    module = changed(rt.RotaryEmbedding(text(), learn=learn, rho=0.5))
    f = torch.tensor(ladder(8), dtype=torch.float64)
    expected = {
        None: f,
        "log_gain": f * torch.tensor(0.125, dtype=torch.float64).exp(),
        "frequencies": f + 0.125,
        "receptive_field": 0.125 / 10000**0.5 + 0.875 * f,
    }[learn]
    torch.testing.assert_close(module.frequencies()[:, 0], expected)


@pytest.mark.parametrize("learn", LEARN)
def test_survives_casts_copies_and_pickles(learn: str | None, device: str) -> None:
    module = changed(rt.RotaryEmbedding(ROPES["scaled"], learn=learn, device=device))
    expected = rotated(module, device)
    for survivor in [
        copy.deepcopy(module),
        pickle.loads(pickle.dumps(module)),
        copy.deepcopy(module).half(),
        copy.deepcopy(module).bfloat16().float(),
        copy.deepcopy(module).double(),
        copy.deepcopy(module).to(device=device, dtype=torch.float16),
        copy.deepcopy(module).cpu().to(device),
    ]:
        assert torch.equal(rotated(survivor, device), expected)


@pytest.mark.parametrize("learn", LEARN)
def test_survives_meta_devices(learn: str | None, device: str) -> None:
    expected = rotated(rt.RotaryEmbedding(ROPES["scaled"], learn=learn, device=device), device)
    with torch.device("meta"):
        born = rt.RotaryEmbedding(ROPES["scaled"], learn=learn)
    moved = rt.RotaryEmbedding(ROPES["scaled"], learn=learn).to("meta")
    for module in [born, moved]:
        assert all(p.is_meta for p in module.parameters())
        module.to_empty(device=device)
        module.reset_parameters()
        assert torch.equal(rotated(module, device), expected)


def test_has_no_state_unless_it_learns() -> None:
    assert rt.RotaryEmbedding(ROPES["half"]).state_dict() == {}
    assert list(rt.RotaryEmbedding(ROPES["half"]).buffers()) == []
    learning = rt.RotaryEmbedding(ROPES["half"], learn="log_gain", learn_scale=True)
    assert list(learning.state_dict()) == ["learned", "log_scale"]


@pytest.mark.parametrize("learn", LEARN[1:])
def test_learns(learn: str, device: str) -> None:
    """Gradient descent finds the frequencies that another rope has."""
    target = changed(rt.RotaryEmbedding(text(), learn=learn, learn_scale=True, device=device))
    module = rt.RotaryEmbedding(text(), learn=learn, learn_scale=True, device=device)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.02)
    x = torch.randn(4, 3, 2, 16, device=device)
    losses = []
    for _ in range(60):
        loss = (module(x) - target(x).detach()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.01 * losses[0]


def test_rejects_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="learn must be one of"):
        rt.RotaryEmbedding(ROPES["half"], learn="theta")
    with pytest.raises(TypeError, match="rope must be a Rope or its text, got float"):
        rt.RotaryEmbedding(1e4)
    module = rt.RotaryEmbedding(ROPES["half"], learn="log_gain")
    with pytest.raises(ValueError, match="not for a rope with learned parameters"):
        module.rotate_(torch.randn(2, 3, 16))


def test_repr() -> None:
    module = rt.RotaryEmbedding(ROPES["scaled"], learn="log_gain")
    assert repr(module) == (
        "RotaryEmbedding(head_dim=16, pairing='half', scale=1.25, learn='log_gain', token_dim=-3)"
    )


@pytest.fixture
def one_process() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # no port
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("learn", [None, "log_gain", "receptive_field"])
def test_survives_fully_shard(learn: str | None, one_process: None) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(16, 16)
            self.rotary = rt.RotaryEmbedding(ROPES["scaled"], learn=learn)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.rotary(self.linear(x), first=1_000_000)

    block = Block()
    x = torch.randn(2, 5, 3, 16)
    mesh = init_device_mesh("cpu", (1,))
    plain = copy.deepcopy(block)
    fully_shard(block.rotary, mesh=mesh)
    fully_shard(block, mesh=mesh)
    out, expected = block(x), plain(x)
    torch.testing.assert_close(out, expected)
    out.sum().backward()
    expected.sum().backward()
    if learn is not None:
        grad = block.rotary.learned.grad.full_tensor()
        torch.testing.assert_close(grad, plain.rotary.learned.grad)
    low = fully_shard(
        copy.deepcopy(plain), mesh=mesh, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    )
    torch.testing.assert_close(low(x).float(), expected, rtol=5e-2, atol=5e-2)
