"""bench/torch/bench_patch_norms.py: a line for each case."""

import bench_patch_norms
import pytest


def test_lines(capsys: pytest.CaptureFixture[str]) -> None:
    threads = bench_patch_norms.torch.get_num_threads()
    bench_patch_norms.main(["--tokens", "8", "--rounds", "1"])
    bench_patch_norms.torch.set_num_threads(threads)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "norm and rotation, float32",
        "norm and rotation, bfloat16",
        "attention layer, float32",
    ]
    assert all("transformers " in line and "fused " in line for line in lines)
