# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: the model against transformers, both ways, and converted ones."""

import json
import shutil

import pytest
import torch
import transformers
from roformer_command import CHECKPOINTS, config, golden, make, run
from safetensors.torch import load_file, save_file

NAMES = ["mlm-small", "mlm-factorised", "cls-pair"]


def inputs(tokens=19):
    generator = torch.Generator().manual_seed(5)
    ids = torch.randint(1, 61, (2, tokens), generator=generator)
    mask = torch.ones_like(ids)
    mask[1, tokens - 4 :] = 0
    types = torch.zeros_like(ids)
    types[:, tokens // 2 :] = 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}


def write_reference(path, model, given, labels=None, told=None, logits=None):
    """Results of transformers; `told` are its keyword arguments for the labels."""
    model.zero_grad()
    out = model(**given, **(told or ({} if labels is None else {"labels": labels})))
    reference = {name: value.tolist() for name, value in given.items()}
    reference["logits"] = (out.logits if logits is None else logits(out)).tolist()
    if labels is not None:
        out.loss.backward()
        reference |= {"labels": labels.tolist(), "loss": out.loss.item()}
        reference["grad_norms"] = {
            name: p.grad.norm().item() for name, p in model.named_parameters() if p.grad is not None
        }
    path.write_text(json.dumps(reference))
    return path


# ---- verify -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_golden_checkpoints_match_transformers(name):
    checkpoint, reference = golden(name)
    result = json.loads(run("verify", checkpoint, reference, "--json"))
    assert result["fits"]
    tolerances = {"logits": 2e-5, "loss": 1e-6}
    norms = json.loads(reference.read_text())["grad_norms"]
    assert {one["what"] for one in result["differences"]} == {*tolerances, *norms}
    for one in result["differences"]:
        assert one["difference"] <= tolerances.get(one["what"], 1e-4)
    assert "roformer.encoder.layer.2.attention.self.key.bias" in run(
        "verify", checkpoint, reference
    )


@pytest.mark.parametrize(
    "change",
    [
        "roformer.encoder.layer.1.attention.self.query.weight",
        "roformer.embeddings.token_type_embeddings.weight",
    ],
)
def test_detects_changed_weight(tmp_path, change):
    checkpoint, reference = golden("mlm-small")
    tensors = load_file(checkpoint)
    tensors[change][0, 0] += 0.01
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    shutil.copy(CHECKPOINTS / "mlm-small.config.json", tmp_path / "config.json")
    assert "beyond the tolerance" in run("verify", tmp_path, reference, code=1)


@pytest.mark.parametrize("key", ["logits", "loss", "grad_norms"])
def test_detects_changed_reference(tmp_path, key):
    checkpoint, reference = golden("cls-pair")
    data = json.loads(reference.read_text())
    if key == "logits":
        data["logits"][2][1] += 1e-4
    elif key == "loss":
        data["loss"] += 1e-5
    else:
        data["grad_norms"]["classifier.dense.bias"] *= 1.001
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(data))
    assert "1 of 58 differences" in run("verify", checkpoint, changed, code=1)
    data["logits"][0][0] = float("nan")
    changed.write_text(json.dumps(data))
    run("verify", checkpoint, changed, code=1)


def test_rejects_wrong_references(tmp_path):
    checkpoint, reference = golden("mlm-small")
    data = json.loads(reference.read_text())

    def refusal(**changes):
        file = tmp_path / "reference.json"
        file.write_text(json.dumps({k: v for k, v in (data | changes).items() if v is not None}))
        return run("verify", checkpoint, file, code=1)

    assert "there are no input_ids" in refusal(input_ids=None)
    assert "input_ids must be 0 to 96, got 97" in refusal(input_ids=[[97] * 37] * 3)
    assert "lists of one length" in refusal(logits=[[1.0], [1.0, 2.0]])
    assert "need labels" in refusal(labels=None)
    assert "nothing to compare with" in refusal(logits=None, loss=None, grad_norms=None)
    assert "names x, which the model does not have" in refusal(grad_norms={"x": 1.0})
    assert "no such folder or file" in run("verify", tmp_path / "none", reference, code=1)
    assert "none.json" in run("verify", checkpoint, tmp_path / "none.json", code=1)


# ---- The model against transformers -------------------------------------------------------------


@pytest.mark.parametrize(
    "others",
    [
        {},
        {"rotary_value": True},
        {"embedding_size": 16},
        {"hidden_act": "relu"},
        {"tie_word_embeddings": False},
    ],
    ids=str,
)
def test_masked_lm(tmp_path, others):
    model = make("RoFormerForMaskedLM", **others)
    model.save_pretrained(tmp_path / "model", max_shard_size="20KB")
    assert (tmp_path / "model" / "model.safetensors.index.json").exists()
    given = inputs()
    labels = given["input_ids"].masked_fill(given["attention_mask"] == 0, -100)
    reference = write_reference(tmp_path / "reference.json", model, given, labels)
    # Untied, transformers has the bias twice, and uses the decoder's.
    if not model.config.tie_word_embeddings:
        data = json.loads(reference.read_text())
        data["grad_norms"]["cls.predictions.bias"] = data["grad_norms"].pop(
            "cls.predictions.decoder.bias"
        )
        reference.write_text(json.dumps(data))
    run("verify", tmp_path / "model", reference)


def test_token_classification(tmp_path):
    model = make("RoFormerForTokenClassification", num_labels=5)
    model.save_pretrained(tmp_path / "model")
    given = inputs()
    reference = write_reference(tmp_path / "r.json", model, given, given["input_ids"] % 5)
    run("verify", tmp_path / "model", reference)


def test_question_answering(tmp_path):
    model = make("RoFormerForQuestionAnswering")
    model.save_pretrained(tmp_path / "model")
    labels = torch.tensor([[2, 5], [3, 40]])  # the second ends beyond the text
    reference = write_reference(
        tmp_path / "r.json",
        model,
        inputs(),
        labels,
        told={"start_positions": labels[:, 0], "end_positions": labels[:, 1]},
        logits=lambda out: torch.stack([out.start_logits, out.end_logits], -1),
    )
    run("verify", tmp_path / "model", reference)


def test_causal_lm(tmp_path):
    """Causal and padded, as an explicit mask: some versions of transformers ignore is_decoder."""
    model = make("RoFormerForCausalLM", is_decoder=True)
    model.save_pretrained(tmp_path / "model")
    given = inputs()
    padding = given["attention_mask"][:, None, None, :].bool()
    seen = padding & torch.ones(19, 19).tril().bool()
    mask = torch.zeros(2, 1, 19, 19).masked_fill(~seen, torch.finfo(torch.float32).min)
    labels = given["input_ids"].masked_fill(given["attention_mask"] == 0, -100)
    reference = write_reference(
        tmp_path / "r.json", model, given | {"attention_mask": mask}, labels
    )
    data = json.loads(reference.read_text()) | {"attention_mask": given["attention_mask"].tolist()}
    reference.write_text(json.dumps(data))
    run("verify", tmp_path / "model", reference)


# ---- Written by us, read by transformers --------------------------------------------------------


def load(kind, folder):
    """Loads without missing or unexpected keys."""
    model, report = getattr(transformers, kind).from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"], report
    assert not report["unexpected_keys"], report
    return model.eval()


@pytest.mark.parametrize("shard", [5000, 0.05])
@pytest.mark.parametrize("name", NAMES)
def test_transformers_loads_saved_models(tmp_path, name, shard):
    checkpoint, reference = golden(name)
    printed = run("convert", checkpoint, tmp_path / "ours", "--shard", shard)
    assert "dropped nothing" in printed or "made again" in printed
    assert (tmp_path / "ours" / "model.safetensors").exists() == (shard == 5000)
    data = json.loads(reference.read_text())
    kind = "RoFormerForSequenceClassification" if name == "cls-pair" else "RoFormerForMaskedLM"
    model = load(kind, tmp_path / "ours")
    with torch.no_grad():
        out = model(
            input_ids=torch.tensor(data["input_ids"]),
            attention_mask=torch.tensor(data["attention_mask"]),
            token_type_ids=torch.tensor(data["token_type_ids"]),
        )
    assert (out.logits - torch.tensor(data["logits"])).abs().max() <= 2e-5
    run("verify", tmp_path / "ours", reference)


def test_full_disk_leaves_no_partial_files(tmp_path):
    checkpoint, _ = golden("mlm-small")
    message = run("convert", checkpoint, tmp_path / "new", code=1, largest_file=100_000)
    assert "model.safetensors: cannot write: File too large" in message
    assert list(tmp_path.iterdir()) == []


# ---- convert ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "ours"),
    [
        ("BertForMaskedLM", "RoFormerForMaskedLM"),
        ("BertForPreTraining", "RoFormerForMaskedLM"),
        ("BertModel", "RoFormerModel"),
        ("BertForSequenceClassification", "RoFormerModel"),
        ("BertForQuestionAnswering", "RoFormerForQuestionAnswering"),
    ],
)
def test_converts_bert(tmp_path, kind, ours):
    torch.manual_seed(4)
    bert = getattr(transformers, kind)(transformers.BertConfig(**config()))
    bert.save_pretrained(tmp_path / "bert")
    (tmp_path / "bert" / "vocab.txt").write_text("[PAD]\n")
    printed = run("convert", tmp_path / "bert", tmp_path / "rope")
    assert "position_embeddings.weight  (positions: RoPE takes their place)" in printed
    assert (tmp_path / "rope" / "vocab.txt").exists()
    model = load(ours, tmp_path / "rope")
    before = bert.state_dict()
    copied = set()
    for name, tensor in model.state_dict().items():
        old = name.replace("roformer.", "bert.")
        old = next((n for n in (old, "bert." + old) if n in before), old)
        if "embed_positions" in name:
            continue
        assert torch.equal(tensor, before[old]), name
        copied.add(old)
    # What the file has is either copied or dropped, and said to be.
    for name in load_file(tmp_path / "bert" / "model.safetensors"):
        assert (name in copied or "bert." + name in copied) != (f"dropped {name} " in printed), name


def test_convert_keeps_16_bit_weights(tmp_path):
    torch.manual_seed(4)
    bert = transformers.BertModel(transformers.BertConfig(**config())).to(torch.bfloat16)
    bert.save_pretrained(tmp_path / "bert")
    run("convert", tmp_path / "bert", tmp_path / "rope")
    model = load("RoFormerModel", tmp_path / "rope")
    assert model.dtype == torch.bfloat16
    words = model.embeddings.word_embeddings.weight
    assert torch.equal(words, bert.embeddings.word_embeddings.weight)


def test_convert_rejects(tmp_path):
    checkpoint, _ = golden("mlm-small")
    (tmp_path / "there").mkdir()
    assert "exists already" in run("convert", checkpoint, tmp_path / "there", code=2)
    torch.manual_seed(4)
    gpt = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=1, n_embd=8, n_head=2))
    gpt.save_pretrained(tmp_path / "gpt")
    assert "model_type must be" in run("convert", tmp_path / "gpt", tmp_path / "new", code=1)
    assert not (tmp_path / "new").exists()
