# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""BERT with its position table, against transformers: read, trained, written back."""

import json

import pytest
import torch
import transformers
from pretrain_command import flags, metrics, pretrain
from roformer_command import config, run
from test_checkpoints import inputs, load, write_reference

BYTES = 261  # vocab_size of the byte tokenizer


def make_bert(kind, **others):
    torch.manual_seed(4)
    return getattr(transformers, kind)(transformers.BertConfig(**config(**others))).eval()


def labels_of(kind, given):
    if kind in ["BertForMaskedLM", "BertForPreTraining"]:
        return given["input_ids"].masked_fill(given["attention_mask"] == 0, -100)
    if kind == "BertForTokenClassification":
        return given["input_ids"] % 2
    return torch.tensor([1, 0])


@pytest.mark.parametrize(
    ("kind", "others"),
    [
        ("BertForMaskedLM", {}),
        ("BertForMaskedLM", {"tie_word_embeddings": False}),
        ("BertForMaskedLM", {"hidden_act": "gelu_new"}),
        ("BertForSequenceClassification", {}),
        ("BertForTokenClassification", {}),
    ],
    ids=str,
)
def test_matches_transformers(tmp_path, kind, others):
    """Logits, loss and every gradient."""
    model = make_bert(kind, **others)
    model.save_pretrained(tmp_path / "model")
    given = inputs()
    reference = write_reference(tmp_path / "r.json", model, given, labels_of(kind, given))
    if others.get("tie_word_embeddings") is False:
        data = json.loads(reference.read_text())
        norms = data["grad_norms"]
        norms["cls.predictions.bias"] = norms.pop("cls.predictions.decoder.bias")
        reference.write_text(json.dumps(data))
    result = json.loads(run("verify", tmp_path / "model", reference, "--json"))
    compared = {one["what"] for one in result["differences"]}
    assert "bert.embeddings.position_embeddings.weight" in compared


def test_question_answering(tmp_path):
    model = make_bert("BertForQuestionAnswering")
    model.save_pretrained(tmp_path / "model")
    labels = torch.tensor([[2, 5], [3, 40]])
    reference = write_reference(
        tmp_path / "r.json",
        model,
        inputs(),
        labels,
        told={"start_positions": labels[:, 0], "end_positions": labels[:, 1]},
        logits=lambda out: torch.stack([out.start_logits, out.end_logits], -1),
    )
    run("verify", tmp_path / "model", reference)


def test_masked_lm_of_a_pretraining_model(tmp_path):
    """Its pooler and next-sentence head are not used; pytorch_model.bin as published."""
    model = make_bert("BertForPreTraining")
    model.config.architectures = ["BertForPreTraining"]
    model.config.save_pretrained(tmp_path / "model")
    torch.save(model.state_dict(), tmp_path / "model" / "pytorch_model.bin")
    given = inputs()
    reference = write_reference(
        tmp_path / "r.json", model, given, logits=lambda out: out.prediction_logits
    )
    run("verify", tmp_path / "model", reference)


def verify_as_written(folder, kind, reference):
    """transformers loads the folder as `kind`, and both compute the same."""
    assert json.loads((folder / "config.json").read_text())["model_type"] == "bert"
    model = load(kind, folder)
    write_reference(reference, model, inputs())
    run("verify", folder, reference)
    return model


def test_pretrained_further(tmp_path, corpus):
    bert = make_bert("BertForMaskedLM", vocab_size=BYTES)
    bert.save_pretrained(tmp_path / "bert")
    pretrain(tmp_path / "run", *flags(corpus, steps=30), "--init", tmp_path / "bert")
    losses = metrics(tmp_path / "run")
    assert losses[30] < losses[1] - 1.0
    trained = verify_as_written(tmp_path / "run/model", "BertForMaskedLM", tmp_path / "r.json")
    before = bert.bert.embeddings.position_embeddings.weight
    after = trained.bert.embeddings.position_embeddings.weight
    assert not torch.equal(before, after)
    printed = run("fill-mask", tmp_path / "run/model", "the [MASK]", "--tokenizer", "byte")
    assert printed


def test_finetuned(tmp_path, reviews):
    train, dev, _ = reviews
    make_bert("BertForMaskedLM", vocab_size=BYTES).save_pretrained(tmp_path / "bert")
    out = run(
        *("finetune", tmp_path / "bert", train, "--valid", dev, "-o", tmp_path / "run"),
        *("--tokenizer", "byte", "--device", "cpu", "--dropout", 0, "--epochs", 6),
        *("--learning-rate", 3e-3, "--batch", 16, "--json"),
    )
    assert json.loads(out)["valid"]["accuracy"] > 0.9
    best = tmp_path / "run" / "best"
    verify_as_written(best, "BertForSequenceClassification", tmp_path / "r.json")


def test_rejects(tmp_path, corpus):
    model = make_bert("BertForMaskedLM", vocab_size=BYTES)
    model.save_pretrained(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    kept = json.loads(path.read_text())

    def refusal(**changes):
        path.write_text(json.dumps(kept | changes))
        return run("fill-mask", tmp_path / "model", "[MASK]", "--tokenizer", "byte", code=1)

    message = 'position_embedding_type must be "absolute", got "relative_key"'
    assert message in refusal(position_embedding_type="relative_key")
    assert 'position_encoding must be "learned" for' in refusal(position_encoding="rope")
    assert "architectures must be one of BertModel, " in refusal(
        architectures=["BertForMultipleChoice"]
    )
    # Positions end with the table.
    path.write_text(json.dumps(kept))
    long = ["--init", tmp_path / "model", "--stages", "65x2x1"]
    error = pretrain(tmp_path / "run", *flags(corpus), *long, code=1)
    assert "up to the model's max_position_embeddings, 64, got 65" in error
    given = inputs(70)
    reference = {name: value.tolist() for name, value in given.items()} | {"logits": [[[0.0]]]}
    (tmp_path / "r.json").write_text(json.dumps(reference))
    assert "64" in run("verify", tmp_path / "model", tmp_path / "r.json", code=1)
