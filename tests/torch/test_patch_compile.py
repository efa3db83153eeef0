"""Patched models under torch.compile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from patch_families import BY_TYPE, Family, tokens
from torch import Tensor, nn

from rotary.torch.patching import patch


def with_one_layer(name: str, **options: object) -> Family:
    family = BY_TYPE[name]
    return replace(family, options={**family.options, "num_hidden_layers": 1, **options})


CASES = [
    (with_one_layer("llama"), "model"),
    # Without experts, of which torch.compile takes no gradient on a CPU.
    (with_one_layer("deepseek_v2", first_k_dense_replace=1), "model"),
    (BY_TYPE["gemma3_text"], "exact"),  # its two layers differ
]


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def gradients(model: nn.Module) -> dict[str, Tensor]:
    model.zero_grad()
    model(tokens()).logits.square().mean().backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(
    ("family", "angles"), CASES, ids=[f"{family.model_type}-{angles}" for family, angles in CASES]
)
def test_one_graph_with_the_same_gradients(family: Family, angles: str) -> None:
    model = family.make()
    before = gradients(model)
    patch(model, angles=angles)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    after = {n.removeprefix("_orig_mod."): g for n, g in gradients(compiled).items()}
    assert before.keys() == after.keys()
    largest = max(float(g.abs().max()) for g in before.values())
    for name in before:
        assert (before[name] - after[name]).abs().max() < 2e-5 * largest


def test_operators_are_in_the_graph() -> None:
    model = BY_TYPE["llama"].make()
    before = model(tokens()).logits
    patch(model)
    graphs = []

    def backend(graph: torch.fx.GraphModule, _: list[Tensor]) -> torch.fx.GraphModule:
        graphs.append(graph)
        return graph

    after = torch.compile(model, backend=backend, fullgraph=True)(tokens()).logits
    assert (before - after).abs().max() < 5e-6 * before.abs().max()
    targets = [str(node.target) for graph in graphs for node in graph.graph.nodes]
    assert targets.count("rotary.rotate_table.default") == 2


def test_lengths_share_a_graph() -> None:
    model = BY_TYPE["llama"].make()
    lengths = (7, 9, 12)
    with torch.no_grad():
        before = [model(tokens(2, length)).logits for length in lengths]
        patch(model)
        compiled = torch.compile(model, backend="eager", fullgraph=True, dynamic=True)
        torch._dynamo.utils.counters.clear()
        for length, expected in zip(lengths, before, strict=True):
            assert (compiled(tokens(2, length)).logits - expected).abs().max() < 1e-4
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
