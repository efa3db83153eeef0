"""Finds rotary.torch in the package of PYTHONPATH, or else in the source tree, and the benchmarks.
$ROTARY_TORCH_LIBRARY and $ROTARY_TRANSFORMER_LIBRARY name the operators."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

import rotary

_ROOT = Path(__file__).resolve().parents[2]

sys.path.insert(0, str(Path(__file__).parent))  # for tests/torch/cuda
sys.path.append(str(_ROOT / "bench" / "torch"))
if importlib.util.find_spec("rotary.torch") is None:
    rotary.__path__.append(str(_ROOT / "python" / "rotary"))

collect_ignore = [] if torch.cuda.is_available() else ["cuda"]
DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shard", metavar="I/N", help="every Nth test, from the Ith on (0/8)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    shard = config.getoption("--shard")
    if shard is not None:
        first, count = map(int, shard.split("/"))
        items[:] = items[first::count]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)
