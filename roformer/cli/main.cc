// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The command roformer: the Transformer with rotary position embeddings.
#include <cstdio>
#include <cstdlib>

#include "console/command.h"
#include "roformer/cli/commands.h"

namespace {

constexpr const char* kFooter = R"(Examples:
  roformer pretrain run/ --corpus zhwiki.txt     train a model on texts
  roformer finetune model/ train.tsv -o run/     fine-tune it for a task
  roformer evaluate model/ held_out.txt          loss and accuracy, by context length
  roformer verify model/ reference.json          compare it with another implementation
  roformer convert bert-base-chinese/ rope/      replace position embeddings by RoPE
  roformer fill-mask model/ "今天[MASK]很好"       most probable tokens for [MASK]
  roformer similar model/ "one text" "another"   similarity of two texts
  roformer generate model/ "Once upon a time"    continue a text
  roformer rotation model/ -o rotation.svg       what the model has learned of its rotation
  roformer lab length -o lab/ --quick            compare position encodings
  roformer bench config.json --rows 64           training speed on this machine

A model is a folder with config.json and model.safetensors or pytorch_model.bin, as from Hugging
Face, or a .safetensors file with its config beside it. Exit codes: 0 success, 1 failure, 2 wrong
usage. `roformer VERB --help` describes a verb.)";

}  // namespace

int main(int argc, char** argv) {
  using namespace rotary::roformer::cli;
  const int code = rotary::console::run_command(
      {.name = "roformer",
       .about = "roformer: the Transformer with rotary position embeddings",
       .footer = kFooter,
       .verbs = {add_pretrain, add_finetune, add_evaluate, add_verify, add_convert, add_fill_mask,
                 add_embed, add_similar, add_generate, add_look, add_rotation, add_bench, add_lab}},
      argc, argv);
#ifdef ROFORMER_SKIPS_DESTRUCTORS
  // Those of PyTorch's static objects take 0.1 s, a third of a short command.
  std::fflush(nullptr);
  std::_Exit(code);
#else
  return code;
#endif
}
