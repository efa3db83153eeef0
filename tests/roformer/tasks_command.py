# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The command roformer on models of bytes, for the tests of its tasks."""

import fork_server
import torch
import transformers

FIRST_BYTE = 5  # after [PAD] [UNK] [CLS] [SEP] [MASK]
CLS, SEP = 2, 3


def run(*arguments, code=0, cwd=None):
    done = fork_server.run(*arguments, cwd=cwd)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def save_model(kind, path, **others):
    torch.manual_seed(3)
    config = transformers.RoFormerConfig(
        vocab_size=261,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.1,
        **others,
    )
    model = getattr(transformers, kind)(config).eval()
    model.save_pretrained(path)
    return model


def byte_ids(text):
    return torch.tensor([[CLS, *(FIRST_BYTE + byte for byte in text.encode()), SEP]])
