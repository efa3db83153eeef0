# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The verbs of the command roformer that read a text, its usage and its benchmark."""

import json

import numpy as np
import pytest
import torch
import transformers
from roformer_command import GOLDEN, config, golden, make, run
from safetensors.torch import load_file, save_file

# ---- Text ---------------------------------------------------------------------------------------


def test_fill_mask(text_model):
    lines = map(json.loads, (GOLDEN / "lines.jsonl").read_text(encoding="utf-8").splitlines())
    line = next(one for one in lines if one["text"].count("[MASK]") == 2)
    printed = json.loads(run("fill-mask", text_model, line["text"], "--json", "--top", 3))
    assert len(printed["masks"]) == 2
    model = transformers.RoFormerForMaskedLM.from_pretrained(text_model).eval()
    vocabulary = (GOLDEN / "vocab.txt").read_text(encoding="utf-8").split("\n")
    ids = [101, *line["roformer"]["ids"], 102]
    with torch.no_grad():
        p = model(torch.tensor([ids])).logits[0].softmax(-1)
    places = [i for i, token in enumerate(ids) if token == 103]
    for place, mask in zip(places, printed["masks"], strict=True):
        values, tokens = p[place].topk(3)
        assert [one["token"] for one in mask] == [vocabulary[t] for t in tokens]
        assert [one["probability"] for one in mask] == pytest.approx(values.tolist(), rel=1e-3)
    assert "no [MASK]" in run("fill-mask", text_model, "今天", code=2)


def test_embed_and_similar(text_model, tmp_path):
    run("embed", text_model, "今天天气很好", "公园", "-o", tmp_path / "v.npy")
    vectors = np.load(tmp_path / "v.npy")
    assert vectors.shape == (2, 16)
    line = json.loads(run("embed", text_model, "公园"))
    assert line["vector"] == pytest.approx(vectors[1].tolist(), abs=1e-6)
    cosine = float(run("similar", text_model, "今天天气很好", "公园"))
    a, b = vectors.astype(np.float64)
    assert cosine == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-5)
    assert float(run("similar", text_model, "公园", "公园")) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_similar_by_pair_matching(tmp_path, pooling):
    model = make("RoFormerModel", vocab_size=261)
    model.save_pretrained(tmp_path)
    tensors = {f"roformer.{k}": v for k, v in load_file(tmp_path / "model.safetensors").items()}
    tensors |= {"classifier.weight": torch.randn(1, 32), "classifier.bias": torch.randn(1)}
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    settings = json.loads((tmp_path / "config.json").read_text()) | {
        "architectures": ["RoFormerForPairMatching"],
        "pair_pooling": pooling,
        "id2label": {"0": "match"},
        "label2id": {"match": 0},
    }
    (tmp_path / "config.json").write_text(json.dumps(settings))
    # [CLS] a [SEP] bc [SEP]: bytes come after five special tokens.
    ids = torch.tensor([[2, 5 + ord("a"), 3, 5 + ord("b"), 5 + ord("c"), 3]])
    with torch.no_grad():
        hidden = model(ids, token_type_ids=torch.tensor([[0, 0, 0, 1, 1, 1]])).last_hidden_state[0]
    pooled = hidden.mean(0) if pooling == "mean" else hidden[0]
    logit = tensors["classifier.weight"][0] @ pooled + tensors["classifier.bias"][0]
    printed = float(run("similar", tmp_path, "a", "bc", "--tokenizer", "byte"))
    assert printed == pytest.approx(torch.sigmoid(logit).item(), abs=2e-6)


def test_generate(tmp_path):
    make("RoFormerForCausalLM", vocab_size=261, is_decoder=True).save_pretrained(tmp_path / "m")
    arguments = ("generate", tmp_path / "m", "abc", "--tokenizer", "byte", "--tokens", 20)
    greedy = run(*arguments, "--temperature", 0)
    assert greedy.startswith("abc")
    assert run(*arguments, "--seed", 1) == run(*arguments, "--seed", 1)
    assert run(*arguments, "--seed", 1) != run(*arguments, "--seed", 2)
    checkpoint, _ = golden("mlm-small")
    message = run("generate", checkpoint, "abc", "--tokenizer", "byte", code=1)
    assert "261 tokens, but the model has 97" in message


# ---- Usage --------------------------------------------------------------------------------------


def test_usage():
    assert "Exit codes" in run("--help")
    for verb in ["verify", "convert", "fill-mask", "embed", "similar", "generate", "look"]:
        assert "Example" in run(verb, "--help")
    assert run("--version").startswith("roformer ")
    assert "a verb is needed" in run(code=2)
    assert "no verb 'train'" in run("train", code=2)
    assert "vocab.txt" in run("fill-mask", golden("mlm-small")[0], "x", code=2)
    assert "nowhere: no such folder or file" in run("fill-mask", "nowhere", "x", code=1)


def test_bench_trains_and_counts(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config(architectures=["RoFormerForMaskedLM"])))
    shape = ["--device", "cpu", "--rows", 2, "--length", 16, "--warmup", 1, "--steps", 2]
    for more in [["--type", "float32"], ["--packed", "--checkpointing"]]:
        answer = json.loads(run("bench", path, *shape, "--peak", 1, "--json", *more))
        assert len(answer["losses"]) == 3
        assert all(0 < loss < 10 for loss in answer["losses"])
        assert answer["tokens_per_second"] == pytest.approx(32 / answer["seconds_per_step"])
        assert answer["peak_memory"] > 0
        assert answer["tflops"] == pytest.approx(answer["utilisation"])
    assert "tokens/s" in run("bench", path, *shape)


def test_bench_repeats_bit_for_bit(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config(architectures=["RoFormerForMaskedLM"])))
    shape = ["--device", "cpu", "--rows", 2, "--length", 16, "--warmup", 1, "--steps", 2]
    assert "equal bits in both runs" in run("bench", path, *shape, "--repeat-check")
    first, second, other = (
        json.loads(run("bench", path, *shape, "--json", *more))
        for more in ([], ["--fastest"], ["--rate-warmup", 3])
    )
    assert first["weights_hash"] == second["weights_hash"]
    assert first["losses"][0] == other["losses"][0]
    assert first["weights_hash"] != other["weights_hash"]


def test_bench_of_given_batches(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config(architectures=["RoFormerForMaskedLM"])))
    ids = torch.randint(1, 61, (2, 3, 8))
    batches = tmp_path / "batches.safetensors"
    options = ["--device", "cpu", "--warmup", 0, "--steps", 4, "--json", "--batches", batches]
    save_file({"ids": ids, "labels": ids.clone()}, batches)
    losses = json.loads(run("bench", path, *options))["losses"]
    assert len(losses) == 4
    assert losses[2] < losses[0]  # the same batch again
    save_file({"ids": ids}, batches)
    wanted = "no tensor `labels` [steps, rows, length]"
    assert wanted in run("bench", path, *options, code=1)
