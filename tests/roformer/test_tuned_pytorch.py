# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The tuned model that `roformer` is measured against computes what transformers does."""

import sys
from pathlib import Path

import torch
import transformers

sys.path.append(str(Path(__file__).parents[2] / "bench" / "roformer"))

from tuned_pytorch import TunedRoFormer, labelled_tokens, rotation_table


def test_losses_and_gradients_are_those_of_transformers():
    torch.manual_seed(0)
    config = transformers.RoFormerConfig(
        vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=48, initializer_range=0.2, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    theirs = transformers.RoFormerForMaskedLM(config).train()
    tuned = TunedRoFormer(config).train()
    tuned.load(theirs.state_dict())
    ids = torch.randint(1, 60, (2, 3, 20))
    labels = torch.where(torch.rand(ids.shape) < 0.2, ids, -100)
    labels[:, 0, 0] = ids[:, 0, 0]
    indices, chosen = labelled_tokens(labels)
    for step in range(2):
        wanted = theirs(input_ids=ids[step], labels=labels[step]).loss
        loss = tuned(ids[step], indices[step], chosen[step], *rotation_table(20, 8, ids.device))
        torch.testing.assert_close(loss, wanted, rtol=1e-5, atol=1e-5)
    wanted.backward()
    loss.backward()
    torch.testing.assert_close(
        tuned.words.weight.grad,
        theirs.roformer.embeddings.word_embeddings.weight.grad,
        rtol=1e-3,
        atol=1e-5,
    )
