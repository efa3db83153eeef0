# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The command roformer, and the model behind it against transformers."""

import json
import os
import resource
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

GOLDEN = Path(__file__).parent / "golden"
CHECKPOINTS = GOLDEN / "checkpoints"
NAMES = ["mlm-small", "mlm-factorised", "cls-pair"]


def run(*arguments, code=0, largest_file=None):
    """What the command prints; where it fails, its one line."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))

    done = subprocess.run(
        [os.environ["ROFORMER_COMMAND"], *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=None if largest_file is None else limit,
        restore_signals=False,  # a file too large is an error of write(), not a signal
    )
    assert done.returncode == code, done.stdout + done.stderr
    if code == 0:
        assert done.stderr == ""
        return done.stdout
    assert done.stderr.startswith("roformer: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def golden(name):
    return CHECKPOINTS / f"{name}.safetensors", CHECKPOINTS / f"{name}.io.json"


def config(**others):
    small = {
        "vocab_size": 61,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": 64,
        "initializer_range": 0.1,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    return small | others


def make(kind, **others):
    torch.manual_seed(3)
    return getattr(transformers, kind)(transformers.RoFormerConfig(**config(**others))).eval()


def inputs(tokens=19):
    generator = torch.Generator().manual_seed(5)
    ids = torch.randint(1, 61, (2, tokens), generator=generator)
    mask = torch.ones_like(ids)
    mask[1, tokens - 4 :] = 0
    types = torch.zeros_like(ids)
    types[:, tokens // 2 :] = 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}


def write_reference(path, model, given, labels=None, told=None, logits=None):
    """What transformers answers; `told` is how it takes the labels."""
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
def test_golden_checkpoints_answer_as_in_transformers(name):
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
def test_a_changed_weight_is_noticed(tmp_path, change):
    checkpoint, reference = golden("mlm-small")
    tensors = load_file(checkpoint)
    tensors[change][0, 0] += 0.01
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    shutil.copy(CHECKPOINTS / "mlm-small.config.json", tmp_path / "config.json")
    assert "beyond the tolerance" in run("verify", tmp_path, reference, code=1)


@pytest.mark.parametrize("key", ["logits", "loss", "grad_norms"])
def test_a_changed_reference_is_noticed(tmp_path, key):
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


def test_what_cannot_be_compared_is_told(tmp_path):
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
    assert "the model has not" in refusal(grad_norms={"x": 1.0})
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
    """Causal and padded, told to transformers as a mask: some of its versions forget the first."""
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
    """With nothing missing and nothing left over."""
    model, report = getattr(transformers, kind).from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"], report
    assert not report["unexpected_keys"], report
    return model.eval()


@pytest.mark.parametrize("shard", [5000, 0.05])
@pytest.mark.parametrize("name", NAMES)
def test_transformers_loads_what_we_write(tmp_path, name, shard):
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


def test_a_full_disk_leaves_nothing_half_written(tmp_path):
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
def test_a_bert_becomes_a_roformer(tmp_path, kind, ours):
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


def test_a_16_bit_model_stays_one(tmp_path):
    torch.manual_seed(4)
    bert = transformers.BertModel(transformers.BertConfig(**config())).to(torch.bfloat16)
    bert.save_pretrained(tmp_path / "bert")
    run("convert", tmp_path / "bert", tmp_path / "rope")
    model = load("RoFormerModel", tmp_path / "rope")
    assert model.dtype == torch.bfloat16
    words = model.embeddings.word_embeddings.weight
    assert torch.equal(words, bert.embeddings.word_embeddings.weight)


def test_convert_refuses(tmp_path):
    checkpoint, _ = golden("mlm-small")
    (tmp_path / "there").mkdir()
    assert "exists already" in run("convert", checkpoint, tmp_path / "there", code=2)
    torch.manual_seed(4)
    gpt = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=1, n_embd=8, n_head=2))
    gpt.save_pretrained(tmp_path / "gpt")
    assert "model_type must be" in run("convert", tmp_path / "gpt", tmp_path / "new", code=1)
    assert not (tmp_path / "new").exists()


# ---- Text ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def text_model(tmp_path_factory):
    """Random weights over the real vocabulary."""
    folder = tmp_path_factory.mktemp("text")
    torch.manual_seed(6)
    shape = transformers.RoFormerConfig(**config(vocab_size=50000, hidden_size=16))
    transformers.RoFormerForMaskedLM(shape).eval().save_pretrained(folder)
    for name in ["vocab.txt", "dict.txt"]:
        shutil.copy(GOLDEN / name, folder / name)
    return folder


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
def test_similar_by_a_model_of_pairs(tmp_path, pooling):
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
    assert "261 tokens, and the model has 97" in message


# ---- Usage --------------------------------------------------------------------------------------


def test_usage():
    assert "Exit codes" in run("--help")
    for verb in ["verify", "convert", "fill-mask", "embed", "similar", "generate"]:
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
