"""Compares attention in Python and C++: see attention.cc.

python exchange.py write FILE    writes weights, inputs and results of the Python module
python exchange.py check FILE    compares weights, inputs and results of the C++ module
"""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
import conftest  # noqa: F401

import rotary.torch as rt

ROPE = {"head_dim": 16, "pairing": "half", "theta": 100.0}


def make(name: str) -> rt.Attention:
    encoding = rt.make_encoding(
        name, heads=4, buckets=8, max_distance=6, rope=ROPE, learn="log_gain"
    )
    attention = rt.Attention(64, 4, kv_heads=2, causal=True, window=5, encoding=encoding)
    return attention.double().eval()


def write(path: str) -> None:
    torch.manual_seed(0)
    attention = make("rope+t5+kerple_power")
    x = torch.randn(2, 9, 64, dtype=torch.float64)
    padding = torch.rand(2, 9) > 0.3
    at = torch.tensor([3, 4, 8])
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.copy_(torch.randn_like(parameter) / 8)
        results = {
            "x": x,
            "y": attention(x),
            "padding": padding,
            "padded": attention(x, padding=padding),
            "at": at,
            "crossed": attention(x[:, :3], x, positions=at),
        }
    state = {f"state.{name}": value for name, value in attention.state_dict().items()}
    torch.save({**results, **state}, path)


def check(path: str) -> None:
    found = torch.load(path, weights_only=False)  # written by the test itself
    attention = make("rope+distance+alibi")
    state = {key[6:]: value for key, value in found.items() if key.startswith("state.")}
    attention.load_state_dict(state)
    with torch.no_grad():
        torch.testing.assert_close(attention(found["x"]), found["y"], rtol=1e-9, atol=1e-9)
    print("the module of C++ is that of Python")


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](sys.argv[2])
