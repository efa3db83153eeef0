"""One rank of test_context_parallel.py: compares its shard with a run of the whole sequence."""

import datetime
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import conftest  # noqa: F401
import torch
import torch.distributed as dist
from ropes import text

import rotary.torch as rt

TOKENS, DIM, HEADS = 16, 48, 6
CASES = [
    {"name": "rope"},
    {"name": "rope", "causal": True},
    {"name": "xpos", "causal": True, "window": 5},
    {"name": "rope", "window": 3, "padded": True},
    {"name": "rope+alibi", "causal": True, "padded": True},
    {"name": "t5"},
    {"name": "rope+distance", "causal": True, "at": True},
    {"name": "none", "causal": True},
]


def check_attention(
    parallel: rt.ContextParallel,
    name: str,
    padded: bool = False,
    at: bool = False,
    **options: object,
) -> None:
    rope = text(head_dim=8, frequencies=[1.0, 0.3, 0.1, 0.01])
    if name == "xpos":
        rope = text(head_dim=8, frequencies=[1.0, 0.3, 0.1, 0.01], growth=[0.01, 0.02, 0, 0.1])
    torch.manual_seed(0)  # every rank has the same weights and inputs
    encoding = rt.make_encoding(name, heads=HEADS, rope=rope, buckets=8, max_distance=9)
    whole = rt.Attention(DIM, HEADS, kv_heads=2, encoding=encoding, **options).double()
    with torch.no_grad():
        for parameter in whole.parameters():
            parameter.copy_(torch.randn_like(parameter) / 4)
    x = torch.randn(2, TOKENS, DIM, dtype=torch.float64, requires_grad=True)
    wanted = torch.randn(2, TOKENS, DIM, dtype=torch.float64)
    inputs, shards = {}, {}
    if padded:
        inputs["padding"] = torch.rand(2, TOKENS) > 0.2
    if at:
        inputs["positions"] = torch.randint(0, 50, (2, TOKENS))
    for key, value in inputs.items():
        shards[key] = parallel.shard(value, 1)

    y = whole(x, **inputs)
    parameters = list(whole.parameters())
    expected = torch.autograd.grad((y * wanted).sum(), [x, *parameters])

    whole.context_parallel = parallel
    mine = parallel.shard(x.detach(), 1).requires_grad_()
    part = whole(mine, **shards)
    torch.testing.assert_close(part, parallel.shard(y, 1), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(parallel.gather(part.detach(), 1), y, rtol=1e-10, atol=1e-10)
    grads = torch.autograd.grad((part * parallel.shard(wanted, 1)).sum(), [mine, *parameters])
    torch.testing.assert_close(grads[0], parallel.shard(expected[0], 1), rtol=1e-9, atol=1e-9)
    for grad, whole_grad in zip(grads[1:], expected[1:]):
        total = grad.clone()
        dist.all_reduce(total)
        torch.testing.assert_close(total, whole_grad, rtol=1e-9, atol=1e-9)


def check_gather_derivatives(parallel: rt.ContextParallel) -> None:
    torch.manual_seed(parallel.rank)
    mine = torch.randn(2, 8, 3, dtype=torch.float64, requires_grad=True)
    whole = parallel.gather(mine, 1)
    assert torch.equal(parallel.shard(whole, 1), mine)
    assert torch.equal(parallel.gather(parallel.positions(16, mine), 0), torch.arange(16))
    # The sum over ranks of |whole|^4: every rank's gradient counts.
    (grad,) = torch.autograd.grad(whole.pow(4).sum(), mine, create_graph=True)
    torch.testing.assert_close(grad, parallel.ranks * 4 * mine.pow(3))
    (second,) = torch.autograd.grad(grad.sum(), mine)
    torch.testing.assert_close(second, parallel.ranks * 12 * mine.pow(2))


def main(rank: int, ranks: int, store: str) -> None:
    torch.set_num_threads(1)
    limit = datetime.timedelta(seconds=240)  # where the other rank has failed
    dist.init_process_group("gloo", f"file://{store}", limit, world_size=ranks, rank=rank)
    try:
        for shard in ("zigzag", "contiguous"):
            parallel = rt.ContextParallel(shard=shard)
            check_gather_derivatives(parallel)
            for case in CASES:
                check_attention(parallel, **case)
        dist.barrier()
    finally:
        dist.destroy_process_group()
    print("equal")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
