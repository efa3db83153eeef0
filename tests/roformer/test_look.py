# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""roformer look: the weights in its page are those of transformers."""

import base64
import json
import re

import numpy as np
import torch
import transformers
from roformer_command import run

TEXT = "今天天气很好"


def page_data(path):
    page = path.read_text(encoding="utf-8")
    data = re.search(r'<script type="application/json" id="given">(.*?)</script>', page, re.S)
    return json.loads(data[1])


def weights(data, layer, name):
    n = len(data["tokens"])
    flat = np.frombuffer(base64.b64decode(data["layers"][layer][name]), dtype="<u2") / 65535
    return flat.reshape(data["heads"], n, n)


def test_weights_are_those_of_transformers(text_model, tmp_path):
    out = tmp_path / "page.html"
    assert run("look", text_model, TEXT, "-o", out) == f"{out}\n"
    data = page_data(out)
    model = transformers.RoFormerForMaskedLM.from_pretrained(
        text_model, attn_implementation="eager"
    ).eval()
    vocabulary = (text_model / "vocab.txt").read_text(encoding="utf-8").split("\n")
    ids = torch.tensor([[vocabulary.index(token) for token in data["tokens"]]])
    with torch.no_grad():
        attentions = model(ids, output_attentions=True).attentions
    assert len(attentions) == len(data["layers"])
    for layer, expected in enumerate(attentions):
        np.testing.assert_allclose(weights(data, layer, "rotated"), expected[0], atol=2e-5)
        sums = weights(data, layer, "unrotated").sum(-1)
        np.testing.assert_allclose(sums, np.ones_like(sums), atol=1e-3)


def test_first_layer_without_rotation(text_model, tmp_path):
    out = tmp_path / "page.html"
    run("look", text_model, TEXT, "-o", out)
    data = page_data(out)
    model = transformers.RoFormerForMaskedLM.from_pretrained(text_model).eval().roformer
    vocabulary = (text_model / "vocab.txt").read_text(encoding="utf-8").split("\n")
    ids = torch.tensor([[vocabulary.index(token) for token in data["tokens"]]])
    own = model.encoder.layer[0].attention.self
    with torch.no_grad():
        x = model.embeddings(ids)
        if hasattr(model, "embeddings_project"):
            x = model.embeddings_project(x)
        heads = [
            part(x).unflatten(-1, (data["heads"], -1)).transpose(1, 2)
            for part in (own.query, own.key)
        ]
        scores = heads[0] @ heads[1].transpose(-1, -2) / heads[0].shape[-1] ** 0.5
    expected = scores.softmax(-1)[0]
    np.testing.assert_allclose(weights(data, 0, "unrotated"), expected, atol=2e-5)
    assert np.abs(weights(data, 0, "unrotated") - weights(data, 0, "rotated")).max() > 1e-3


def test_misuse_is_one_line(text_model, tmp_path):
    assert "--out is required" in run("look", text_model, TEXT, code=2)
    long = "今，" * 200  # noqa: RUF001
    message = run("look", text_model, long, "-o", tmp_path / "page.html", code=2)
    assert "at most 256 are shown" in message
    assert not (tmp_path / "page.html").exists()
