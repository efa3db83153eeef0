// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary rotate: the rotation of a model, applied to a tensor in a file.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "rotary/io.h"
#include "rotary/model.h"
#include "tools/cli.h"
#include "tools/progress.h"
#include "tools/scratch.h"
#include "tools/terminal.h"
#include "tools/token_positions.h"
#include "tools/words.h"

namespace rotary::cli {
namespace {

struct RotateOptions {
  std::string model;
  std::string in;
  std::string out;
  std::string positions;
  std::string rope;
  std::string precision = "exact";
  std::string context;
  std::string tensor;
  bool inverse = false;
};

constexpr const char* kRotateFooter =
    R"(IN and OUT are .npy or .safetensors, by their endings: [tokens, heads, head_dim],
[batch, tokens, heads, head_dim], or [tokens, head_dim] for one head; float32, float64,
float16, bfloat16 (.safetensors only). A last size of rotary_dim is taken as the rotary
slice of the head. OUT appears only when it is complete, and may be IN.

P is a range, first:end without the end (0:4096; -5:3), first: for as many as there are
tokens, or a .npy file of [tokens] or [axes, tokens], whole or real numbers.

Examples:
  rotary rotate config.json q.npy q_rotated.npy --positions 0:4096
  rotary rotate config.json k.safetensors k.safetensors --tensor k --positions 17:
  rotary rotate qwen2-vl/ q.npy out.npy --positions thw.npy --rope text.default
  rotary rotate config.json q_rotated.npy q.npy --positions 0:4096 --inverse)";

std::string shape_text(const Tensor& tensor) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : tensor.shape) sizes.push_back(fmt::format("{}", size));
  return "[" + join(sizes, ", ") + "]";
}

/// Whatever can be known to fail is told before the work, not after it.
void check_files(const RotateOptions& options) {
  for (const std::string& name : {options.in, options.out}) {
    if (!names_tensor_file(name)) {
      throw UsageError(fmt::format("IN and OUT must end in .npy or .safetensors, got '{}'", name));
    }
  }
  if (!options.tensor.empty() && std::filesystem::path(options.in).extension() == ".npy") {
    throw UsageError("--tensor names a tensor of a .safetensors file; a .npy file holds just one");
  }
  if (std::filesystem::is_directory(options.out)) {
    throw std::runtime_error(options.out + ": is a folder");
  }
}

/// The tensor as [tokens, heads, head_dim] or [batch, tokens, heads, head_dim].
TensorView heads_of(Tensor& tensor, const std::string& path) {
  const std::size_t rank = tensor.shape.size();
  if (rank < 2 || rank > 4) {
    throw std::invalid_argument(
        fmt::format("{}: must be [tokens, heads, head_dim], [batch, tokens, heads, head_dim] or "
                    "[tokens, head_dim], got {}",
                    path, shape_text(tensor)));
  }
  TensorView view = tensor.view();
  if (rank == 2) {
    view.rank = 3;
    view.shape = {view.shape[0], 1, view.shape[1], 0};
    view.strides = {view.strides[0], view.shape[2], 1, 0};
  }
  return view;
}

/// The rope for the width of IN: the whole head, or just its rotary slice.
ModelRope fit(const ModelRope& rope, const Tensor& tensor, std::vector<std::string>& notes) {
  const std::int64_t width = tensor.shape.back();
  const std::int64_t head_dim = rope.layout.head_dim;
  const std::int64_t rotary_dim = rope.recipe.rotary_dim;
  if (width == head_dim) return rope;
  if (width != rotary_dim) {
    throw std::invalid_argument(
        fmt::format("the last size of IN must be head_dim {}{} for the rope {}, got {}", head_dim,
                    rotary_dim == head_dim ? "" : fmt::format(" or rotary_dim {}", rotary_dim),
                    rope.name, shape_text(tensor)));
  }
  notes.push_back(fmt::format("IN holds just the rotary slice, {} of {} elements of the head",
                              rotary_dim, head_dim));
  ModelRope sliced = rope;
  sliced.layout.head_dim = rotary_dim;
  sliced.layout.rotary_offset = 0;
  return sliced;
}

TensorView slice_tokens(const TensorView& view, std::int64_t first, std::int64_t count) {
  const std::size_t tokens = view.rank == 4 ? 1 : 0;
  TensorView slice = view;
  const auto size = static_cast<std::int64_t>(size_of(view.dtype));
  slice.data = static_cast<std::byte*>(view.data) + first * view.strides[tokens] * size;
  slice.shape[tokens] = count;
  return slice;
}

void rotate_all(const Rope& rope, const TensorView& view, const TokenPositions& positions,
                bool inverse) {
  constexpr std::int64_t kElements = 1 << 20;  // of a step: some milliseconds
  const std::int64_t tokens = view.shape[view.rank == 4 ? 1 : 0];
  const std::int64_t width =
      std::max<std::int64_t>(view.num_elements() / std::max<std::int64_t>(tokens, 1), 1);
  const std::int64_t step = std::max<std::int64_t>(kElements / width, 1);
  Progress progress(inverse ? "Unrotating" : "Rotating", tokens);
  // At least once, so that an empty tensor is checked like any other.
  for (std::int64_t first = 0; first == 0 || first < tokens; first += step) {
    const std::int64_t count = std::min(step, tokens - first);
    const TensorView slice = slice_tokens(view, first, count);
    const Positions where = positions.slice(first, count);
    inverse ? rope.unrotate(slice, where) : rope.rotate(slice, where);
    progress.update(first + count);
  }
}

Precision parse_precision(const std::string& text) {
  if (text == "exact") return Precision::kExact;
  if (text == "reference") return Precision::kReference;
  throw UsageError(fmt::format("--precision must be exact or reference, got '{}'", text));
}

void rotate(const RotateOptions& options) {
  check_files(options);
  const Precision precision = parse_precision(options.precision);
  const std::int64_t asked_context = parse_context(options.context);
  TokenPositions positions(options.positions);
  const Model model = Model::read(options.model);
  Tensor tensor = read_tensor(options.in, options.tensor);
  const TensorView view = heads_of(tensor, options.in);
  std::vector<std::string> notes;  // told at the end: what fails says one line only
  const ModelRope chosen = fit(model.rope(options.rope), tensor, notes);
  if (options.rope.empty() && model.ropes.size() > 1) {
    notes.push_back(fmt::format("the model has {} ropes: taken is {}; --rope names another",
                                model.ropes.size(), chosen.name));
  }
  const std::int64_t tokens = view.shape[view.rank == 4 ? 1 : 0];
  positions.check(tokens, chosen.axes);
  if (positions.same_on_all_axes()) {
    notes.push_back("one position a token is given: taken as text, the same on the axes " +
                    join(chosen.axes, ", "));
  }
  for (const std::string& line : chosen.assumed) notes.push_back("assumed: " + line);
  for (const std::string& line : chosen.warnings) notes.push_back("warning: " + line);
  if (tensor.dtype == DType::kBFloat16 &&
      std::filesystem::path(options.out).extension() == ".npy") {
    throw std::invalid_argument(options.out + ": .npy has no bfloat16; name a .safetensors file");
  }

  const std::int64_t context = asked_context > 0 ? asked_context : positions.context(tokens);
  const Rope rope = chosen.make_rope(context, {.precision = precision});
  Scratch scratch(options.out);
  rotate_all(rope, view, positions, options.inverse);
  const Tensor& done = tensor;
  write_tensor(scratch.file(), done.view(), tensor.name.empty() ? "tensor" : tensor.name);
  scratch.commit();
  for (const std::string& line : notes) fmt::print(stderr, "rotary: {}\n", printable(line));
}

}  // namespace

void add_rotate(CLI::App& app) {
  auto options = std::make_shared<RotateOptions>();
  CLI::App* verb = app.add_subcommand("rotate", "Rotate a tensor in a file as the model would");
  verb->footer(kRotateFooter);
  const auto add_argument = [verb](const char* name, std::string& value, const char* help) {
    verb->add_option(name, value, help)->required()->type_name("");
  };
  add_argument("MODEL", options->model, "config.json, model folder or .gguf file");
  add_argument("IN", options->in, "Tensor to rotate");
  add_argument("OUT", options->out, "File for the rotated tensor");
  verb->add_option("--positions", options->positions, "Where the tokens stand")
      ->required()
      ->type_name("P");
  verb->add_option("--rope", options->rope, "Which rope, for models with several")
      ->type_name("NAME");
  verb->add_option("--precision", options->precision,
                   "exact (default), or reference: float32 angles as in training code")
      ->type_name("WHICH");
  verb->add_flag("--inverse", options->inverse, "Undo the rotation instead");
  verb->add_option("--context", options->context,
                   "Positions in use, for recipes that depend on it; default: largest + 1")
      ->type_name("N");
  verb->add_option("--tensor", options->tensor, "Which tensor of a .safetensors IN")
      ->type_name("NAME");
  verb->callback([options] { rotate(*options); });
}

}  // namespace rotary::cli
