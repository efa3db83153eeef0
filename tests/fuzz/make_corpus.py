# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Makes the seed corpus of the fuzz targets: small valid files, written by other libraries.

    python tests/fuzz/make_corpus.py [FOLDER]      # default: corpus, beside this file

Needs numpy, safetensors, gguf and torch. The output depends only on their versions.
"""

import io
import json
import pathlib
import re
import struct
import sys

import gguf
import numpy as np
import torch
from safetensors.numpy import save

GGUF_ALIGNMENT = 8  # short files are fuzzed faster


def npy_files():
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    arrays = {
        "f2": values.astype("<f2"),
        "f4": values,
        "f8_big_endian": values.astype(">f8"),
        "i4_column_major": np.asfortranarray(values.astype("<i4")),
        "i8_scalar": np.array(7, dtype=np.int64),
        "f4_empty": values[:0],
        "f4_rank_4": values.reshape(1, 2, 1, 3),
    }
    for name, array in arrays.items():
        for version in [(1, 0), (2, 0), (3, 0)] if name == "f4" else [(1, 0)]:
            file = io.BytesIO()
            np.lib.format.write_array(file, array, version=version)
            yield f"{name}_v{version[0]}.npy", file.getvalue()


def raw_safetensors(header, data):
    text = json.dumps(header, separators=(",", ":")).encode()
    return len(text).to_bytes(8, "little") + text + data


def safetensors_files():
    q = np.arange(6, dtype=np.float32).reshape(2, 3)
    yield "one.safetensors", save({"q": q})
    yield "metadata.safetensors", save({"q": q[:1]}, metadata={"format": "np"})
    yield (
        "dtypes.safetensors",
        save({d: np.arange(2, dtype=d) for d in ["float16", "float64", "int32", "int64", "uint8"]}),
    )
    yield "empty.safetensors", save({"none": q[:0], "scalar": np.array(1.0)})
    entry = {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}
    yield "bf16.safetensors", raw_safetensors({"w": entry}, b"\x80\x3f\x00\x40")


def without_addresses(content):
    """The legacy format names storages by their addresses: numbers them instead."""
    numbers = {}

    def renumber(key):
        number = numbers.setdefault(key[0], len(numbers))
        return b"%0*d" % (len(key[0]), number)

    return re.sub(rb"(?<=X.\0\0\0)\d{9,20}", renumber, content, flags=re.DOTALL)


def torch_files():
    values = torch.arange(6, dtype=torch.float32)
    shared = torch.nn.Linear(3, 2, bias=False)
    torch.nn.init.constant_(shared.weight, 0.5)
    dicts = {
        "one": {"q": values.reshape(2, 3)},
        "views": {"all": values, "part": values[2:4], "columns": values.reshape(2, 3).t()},
        "dtypes": {
            str(d): torch.ones(2, dtype=d)
            for d in [torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool]
        },
        "module": shared.state_dict(),
        "parameter": {"w": shared.weight},
        "empty": {"none": values[:0], "scalar": torch.tensor(1.0)},
        "nothing": {},
    }
    for name, tensors in dicts.items():
        for zipped in [True, False]:
            file = io.BytesIO()
            torch.save(tensors, file, _use_new_zipfile_serialization=zipped)
            content = file.getvalue()
            yield (
                (f"{name}.zip", content) if zipped else (f"{name}.bin", without_addresses(content))
            )


def gguf_file(path, arch, values, tensors=None):
    writer = gguf.GGUFWriter(path, arch)
    writer.add_custom_alignment(GGUF_ALIGNMENT)
    for key, value in values.items():
        key = f"{arch}.{key}"
        if isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        else:
            writer.add_array(key, value)
    for name, array in (tensors or {}).items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def gguf_files(folder):
    llama = {
        "context_length": 64,
        "embedding_length": 32,
        "attention.head_count": 4,
        "rope.dimension_count": 8,
        "rope.freq_base": 10000.0,
    }
    yarn = {
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 4.0,
        "rope.scaling.original_context_length": 16,
        "rope.scaling.yarn_beta_fast": 32.0,
        "rope.scaling.yarn_beta_slow": 1.0,
    }
    ones = np.ones(4, dtype=np.float32)
    gguf_file(folder / "llama.gguf", "llama", llama, {"rope_freqs.weight": ones})
    linear = {"rope.scaling.type": "linear", "rope.scaling.factor": 2.0}
    gguf_file(folder / "linear.gguf", "llama", llama | linear)
    gguf_file(folder / "yarn.gguf", "qwen2", llama | yarn)
    sections = {"rope.dimension_sections": [2, 1, 1, 0]}
    gguf_file(folder / "sections.gguf", "qwen2vl", llama | sections)
    swa = {"rope.freq_base_swa": 100.0, "attention.sliding_window": 8, "attention.key_length": 8}
    gguf_file(folder / "gemma3.gguf", "gemma3", llama | swa)
    gguf_file(
        folder / "longrope.gguf",
        "phi3",
        llama | {"rope.scaling.original_context_length": 16, "rope.scaling.attn_factor": 1.2},
        {"rope_factors_long.weight": 2 * ones, "rope_factors_short.weight": ones},
    )
    types = {"text": "t", "yes": True, "words": ["a", "bc"], "floats": [0.5, 1.5]}
    tensors = {"t": np.arange(4, dtype=np.float16)}
    gguf_file(folder / "types.gguf", "x", types | {"flags": [True, False]}, tensors)


def configs():
    llama = {
        "model_type": "llama",
        "hidden_size": 32,
        "num_attention_heads": 4,
        "max_position_embeddings": 64,
        "rope_theta": 10000.0,
    }
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
    llama3 = {
        "rope_type": "llama3",
        "factor": 8.0,
        "original_max_position_embeddings": 16,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    }
    longrope = {"type": "longrope", "short_factor": [1, 1, 1, 1], "long_factor": [1, 2, 3, 4]}
    plain = {"rope_type": "default", "rope_theta": 10000.0}
    yield "llama", llama
    yield "linear", llama | {"rope_scaling": {"type": "linear", "factor": 2.0}}
    yield "dynamic", llama | {"rope_scaling": {"type": "dynamic", "factor": 2.0}}
    yield "yarn", llama | {"rope_scaling": yarn}
    yield "llama3", llama | {"rope_scaling": llama3}
    yield (
        "longrope",
        llama
        | {
            "model_type": "phi3",
            "original_max_position_embeddings": 16,
            "rope_scaling": longrope,
        },
    )
    yield "parameters", {**llama, "rope_parameters": plain}
    yield (
        "layer_types",
        {
            **llama,
            "model_type": "gemma3_text",
            "head_dim": 8,
            "layer_types": ["sliding_attention", "full_attention"],
            "rope_parameters": {"sliding_attention": plain, "full_attention": yarn | plain},
        },
    )
    neox = {"model_type": "gpt_neox", "rotary_pct": 0.25, "rotary_emb_base": 10000}
    yield "partial", llama | neox
    yield "gptj", {"model_type": "gptj", "n_embd": 32, "n_head": 4, "rotary_dim": 4}
    yield (
        "mrope",
        {
            "model_type": "qwen2_vl",
            "text_config": llama | {"rope_scaling": {"type": "mrope", "mrope_section": [2, 1, 1]}},
            "vision_config": {"embed_dim": 32, "num_heads": 4, "depth": 2},
        },
    )
    yield (
        "deepseek",
        llama
        | {
            "model_type": "deepseek_v3",
            "qk_rope_head_dim": 8,
            "qk_nope_head_dim": 16,
            "rope_scaling": yarn | {"type": "yarn", "mscale": 1.0, "mscale_all_dim": 1.0},
        },
    )


def example_files():
    """The first byte is the format, in the order of fuzz_examples.cc."""
    lines = [
        "one\ntwo\n\nthree\n",
        "one\ntwo\n",
        '{"text": "one"}\n{"text": "\\u00e9", "n": [1, {"a": null}]}\n',
        "label\ttext_a\n1\tgood\n0\tbad\n",
        '{"label": 1, "text_a": "good"}\n{"label": "no", "text_a": "bad"}\n',
        '{"A": "a", "B": "b", "C": "c", "label": "C"}\n',
        "-DOCSTART- O\n\nAnn B-PER\nran O\n\nBo\tx B-PER\n",
        '{"tokens": ["Ann", "ran"], "labels": ["B-PER", "O"]}\n',
        '{"question": "who", "context": "Ann ran", "answer": ["Ann"], "answer_start": [0]}\n'
        '{"question": "when", "context": "Ann ran", "answer": ""}\n',
    ]
    for format, text in enumerate(lines):
        yield f"format_{format}", bytes([format]) + text.encode()
    tables = {
        "cola": "ab\t1\t\tIt rains.\nab\t0\t*\tRains it.\n",
        "mrpc": "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t2\t3\ta\tb\n0\t2\t3\ta\tc\n",
        "rte": "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n",
        "sts_b": "sentence1\tsentence2\tscore\na\tb\t4.250\n",
    }
    for name, text in tables.items():
        yield f"glue_{name}", bytes([3]) + text.encode()


def token_cache():
    """Two documents of 2 and 3 tokens; the target makes the checksums right."""
    chunk = struct.pack("<2I", 2, 5) + struct.pack("<5H", 1, 2, 3, 1, 0) + b"\x1b"
    chunk += bytes(-len(chunk) % 8)
    header = struct.pack("<8s4I2Q", b"rotarytk", 1, 2, 5, 0, 0, 0)
    directory = struct.pack("<6Q", len(header), len(chunk), 0, 2, 5, 0)
    end = len(header) + len(chunk)
    return header + chunk + directory + struct.pack("<5Q8s", end, 2, 5, 0, 0, b"rotaryte")


def run_files():
    """The first byte is the kind, in the order of fuzz_run.cc."""
    model = {"model_type": "roformer", "architectures": ["RoFormerForMaskedLM"], "hidden_size": 32}
    model |= {"num_attention_heads": 2, "vocab_size": 50, "id2label": {"0": "no", "1": "yes"}}
    run = {"model": "tiny", "corpus": ["a.txt"], "stages": "32x4x9,48x2x91", "seed": 3}
    tune = {"checkpoint": "base", "train": "a.tsv", "dropout": 0.1, "seed": 3}
    index = {"metadata": {"total_size": 8}, "weight_map": {"a": "model-00001-of-00002.safetensors"}}
    data = dict.fromkeys(["epoch", "index", "file", "byte", "offset", "row", "fingerprint"], 0)
    state = {"format": 2, "step": 7, "tokens": 896, "seconds": 1.5, "data": data, "files": {}}
    for kind, value in enumerate([model, run, tune, index, state]):
        yield f"kind_{kind}", bytes([kind]) + json.dumps(value).encode()
    bert = model | {"model_type": "bert", "architectures": ["BertForMaskedLM"]}
    yield "bert", b"\0" + json.dumps(bert).encode()


def main():
    here = pathlib.Path(__file__).parent
    corpus = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "corpus"
    for kind in ["npy", "safetensors", "gguf", "config"]:
        (corpus / kind).mkdir(parents=True, exist_ok=True)
    for name, content in npy_files():
        (corpus / "npy" / name).write_bytes(content)
    for name, content in safetensors_files():
        (corpus / "safetensors" / name).write_bytes(content)
    gguf_files(corpus / "gguf")
    for kind, files in [
        ("torch", torch_files()),
        ("examples", example_files()),
        ("token_cache", [("two_documents", token_cache())]),
        ("run", run_files()),
    ]:
        (corpus / kind).mkdir(parents=True, exist_ok=True)
        for name, content in files:
            (corpus / kind / name).write_bytes(content)
    for name, config in configs():
        (corpus / "config" / f"{name}.json").write_text(json.dumps(config, indent=1) + "\n")


if __name__ == "__main__":
    main()
