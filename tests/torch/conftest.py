"""Where the tests find rotary.torch. $ROTARY_TORCH_LIBRARY names the operators."""

import importlib.util
import sys
import types
from pathlib import Path

import pytest
import torch

_PACKAGE = Path(__file__).resolve().parents[2] / "python" / "rotary"

sys.path.insert(0, str(Path(__file__).parent))  # for tests/torch/cuda
try:
    import rotary
except ImportError:
    # The operators need no more than their library: a rotary of which only rotary.torch is there.
    rotary = types.ModuleType("rotary")
    rotary.__path__ = []
    sys.modules["rotary"] = rotary
if importlib.util.find_spec("rotary.torch") is None:
    rotary.__path__.append(str(_PACKAGE))

collect_ignore = [] if torch.cuda.is_available() else ["cuda"]
if not hasattr(rotary, "Rope"):
    # These compare with the engine, or read configs.
    collect_ignore += ["test_pretrained.py", "test_check.py"]
    collect_ignore += ["test_patch.py", "test_patch_model.py", "test_patch_compile.py"]
DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)
