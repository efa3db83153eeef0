# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Files of torch.save(), pytorch_model.bin: read without running their code."""

import io
import json
import os
import pickle
import zipfile

import pytest
import torch
from roformer_command import make, run
from safetensors.torch import load_file
from test_checkpoints import inputs, write_reference
from torch import nn

LETTERS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
FORMATS = [True, False]  # an archive, or the pickles of PyTorch before 1.6


def write_folder(folder, model, tensors, zipped=True):
    """A model's config, and these tensors as pytorch_model.bin."""
    folder.mkdir()
    model.config.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    config["architectures"] = [type(model).__name__]
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocab.txt").write_text("\n".join(LETTERS) + "\n")
    torch.save(tensors, folder / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    return folder


def reference_of(path, model):
    given = inputs()
    labels = given["input_ids"].masked_fill(given["attention_mask"] == 0, -100)
    return write_reference(path, model, given, labels)


@pytest.mark.parametrize("zipped", FORMATS)
def test_state_dict(tmp_path, zipped):
    """With tied tensors, which share a storage, and the position table."""
    model = make("RoFormerForMaskedLM")
    folder = write_folder(tmp_path / "model", model, model.state_dict(), zipped)
    run("verify", folder, reference_of(tmp_path / "r.json", model))
    run("verify", folder / "pytorch_model.bin", tmp_path / "r.json")
    printed = run("fill-mask", folder, "ab[MASK]", "--tokenizer", "character")
    assert run("convert", folder, tmp_path / "new").count("dropped") == 1  # the position table
    assert printed == run("fill-mask", tmp_path / "new", "ab[MASK]", "--tokenizer", "character")


@pytest.mark.parametrize(("zipped", "prefix"), [(True, ""), (False, "bert.")])
def test_old_names_views_and_parameters(tmp_path, zipped, prefix):
    """TensorFlow's names of norms, other prefixes, transposed tensors, slices, parameters."""
    model = make("RoFormerForMaskedLM")
    tensors = {}
    for name, tensor in model.state_dict().items():
        name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
        name = name.replace("LayerNorm.bias", "LayerNorm.beta")
        if name.startswith("roformer."):
            name = prefix + name.removeprefix("roformer.")
        if tensor.dim() == 2:
            tensor = tensor.t().contiguous().t()
            assert not tensor.is_contiguous()
        else:
            tensor = torch.stack([tensor, tensor])[1]
        tensors[name] = nn.Parameter(tensor) if "query" in name else tensor
    folder = write_folder(tmp_path / "model", model, tensors, zipped)
    run("verify", folder, reference_of(tmp_path / "r.json", model))


@pytest.mark.parametrize("zipped", FORMATS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_types(tmp_path, dtype, zipped):
    model = make("RoFormerForMaskedLM").to(dtype)
    others = {"a_number": torch.tensor(3), "flags": torch.tensor([True, False])}
    folder = write_folder(tmp_path / "model", model, model.state_dict() | others, zipped)
    run("convert", folder, tmp_path / "new")
    written = load_file(tmp_path / "new" / "model.safetensors")
    for name, tensor in model.state_dict().items():
        if "embed_positions" not in name and "decoder" not in name:
            assert torch.equal(written[name], tensor), name


@pytest.mark.parametrize("zipped", FORMATS)
def test_shards(tmp_path, zipped):
    model = make("RoFormerForMaskedLM")
    folder = write_folder(tmp_path / "model", model, {})
    (folder / "pytorch_model.bin").unlink()
    names = list(model.state_dict())
    shards = {f"pytorch_model-0000{i + 1}-of-00003.bin": names[i::3] for i in range(3)}
    for file, some in shards.items():
        part = {name: model.state_dict()[name] for name in some}
        torch.save(part, folder / file, _use_new_zipfile_serialization=zipped)
    weight_map = {name: file for file, some in shards.items() for name in some}
    index = folder / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    run("verify", folder, reference_of(tmp_path / "r.json", model))


class RmsNorm(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        return x / torch.sqrt(x.square().mean(-1, keepdim=True) + self.eps)


class Decoder(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.predictions = nn.Module()
        self.predictions.decoder = nn.Linear(*reversed(weight.shape), bias=False)
        self.predictions.decoder.weight = weight

    def forward(self, x):
        return self.predictions.decoder(x)


def test_roformer_v2(tmp_path):
    """As JunnYu/RoFormer_pytorch has it: no key for the missing transform of its head."""
    model = make("RoFormerForMaskedLM", hidden_act="relu")
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.LayerNorm):
                setattr(module, name, RmsNorm(child.eps))
            elif isinstance(child, nn.Linear):
                child.bias = None
    model.cls = Decoder(model.roformer.embeddings.word_embeddings.weight)
    model.config.update({"norm_type": "rms_norm", "use_bias": False, "pooler_activation": "tanh"})
    folder = write_folder(tmp_path / "model", model, model.state_dict(), zipped=False)
    given = inputs()
    write_reference(tmp_path / "r.json", model, given)
    run("verify", folder, tmp_path / "r.json")
    run("convert", folder, tmp_path / "new")
    run("verify", tmp_path / "new", tmp_path / "r.json")


# ---- Files that nobody meant well with ----------------------------------------------------------


class Call:
    """Calls a function when it is unpickled."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.fixture
def folder(tmp_path):
    model = make("RoFormerForMaskedLM")
    return write_folder(tmp_path / "model", model, model.state_dict())


def refusal(folder):
    return run("fill-mask", folder, "a[MASK]", "--tokenizer", "character", code=1)


@pytest.mark.parametrize("zipped", FORMATS)
def test_runs_no_code(folder, tmp_path, zipped):
    for function in [os.system, eval]:
        evil = {"w": torch.zeros(2), "x": Call(function, f"touch {tmp_path}/ran")}
        torch.save(evil, folder / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
        error = refusal(folder)
        assert f'{function.__name__}"; only tensors are read, code never is' in error
        assert "pytorch_model.bin: the pickle refers to" in error
    assert not (tmp_path / "ran").exists()


def test_other_pickles(folder):
    path = folder / "pytorch_model.bin"
    for protocol in range(6):
        path.write_bytes(pickle.dumps({"w": Call(os.system, "true")}, protocol=protocol))
        assert "pytorch_model.bin: " in refusal(folder)
    torch.save({"w": torch.zeros(2), "epoch": 3}, path)
    assert 'entry "epoch" of the dict is not a tensor' in refusal(folder)
    torch.save(torch.zeros(2), path)
    assert "the pickle is not a dict of tensors" in refusal(folder)
    torch.save({"w": torch.zeros(1).expand(1 << 40)}, path)
    assert "repeats the 1 elements of its storage" in refusal(folder)
    torch.save(make("RoFormerForMaskedLM"), path)
    assert "only tensors are read" in refusal(folder)
    path.write_bytes(b"")
    assert "pytorch_model.bin: " in refusal(folder)


def test_archives_of_others(folder):
    path = folder / "pytorch_model.bin"
    good = zipfile.ZipFile(io.BytesIO(path.read_bytes()))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in good.namelist():
            packed.writestr(name, good.read(name))
    assert "is compressed, which torch.save() never does" in refusal(folder)
    path.write_bytes(path.read_bytes()[:-30])
    assert "truncated?" in refusal(folder)
    with zipfile.ZipFile(path, "w") as stored:
        stored.writestr("a/data.pkl", b"\x80\x02}.")
        stored.writestr("../../x", b"")
    assert 'an entry of the archive has the name "../../x"' in refusal(folder)
