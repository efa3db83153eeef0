// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The command roformer: the Transformer with rotary position embeddings.
#include "roformer/cli/commands.h"
#include "tools/command.h"

namespace {

constexpr const char* kFooter = R"(Examples:
  roformer pretrain run/ --corpus zhwiki.txt     from texts to a model
  roformer finetune model/ train.tsv -o run/     learn a task
  roformer evaluate model/ held_out.txt          loss and accuracy, by length
  roformer verify model/ reference.json          is it the same model as elsewhere?
  roformer convert bert-base-chinese/ rope/      a model with a table of positions, turned to RoPE
  roformer fill-mask model/ "今天[MASK]很好"       what may stand there
  roformer similar model/ "one text" "another"   how much they have in common
  roformer generate model/ "Once upon a time"    go on with a text
  roformer bench config.json --rows 64           how fast does it train here?

A model is a folder with config.json and model.safetensors, as Hugging Face has it, or a
.safetensors file with its config beside it. Exit codes: 0 done, 1 failed, 2 wrong usage.
`roformer VERB --help` tells more about a verb.)";

}  // namespace

int main(int argc, char** argv) {
  using namespace rotary::roformer::cli;
  return rotary::cli::run_command(
      {.name = "roformer",
       .about = "roformer: the Transformer with rotary position embeddings",
       .footer = kFooter,
       .verbs = {add_pretrain, add_finetune, add_evaluate, add_verify, add_convert, add_fill_mask,
                 add_embed, add_similar, add_generate, add_bench}},
      argc, argv);
}
