// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary rotate: applies the rotation of a model to a tensor in a file.
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

#include "console/output.h"
#include "console/progress_bar.h"
#include "explain/text_layout.h"
#include "io/output_target.h"
#include "rotary/io.h"
#include "rotary/model.h"
#include "tools/arguments.h"
#include "tools/commands.h"
#include "tools/positions_argument.h"
#include "tools/temporary_output.h"

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
float16, bfloat16 (.safetensors only). If the last size is rotary_dim, IN holds only the
rotary slice of the head. OUT is written only when complete, and may be IN.

P is a range first:end, end excluded (0:4096; -5:3), first: for one position per token, or a
.npy file of [tokens] or [axes, tokens], integers or floating-point numbers.

Examples:
  rotary rotate config.json q.npy q_rotated.npy --positions 0:4096
  rotary rotate config.json k.safetensors k.safetensors --tensor k --positions 17:
  rotary rotate qwen2-vl/ q.npy out.npy --positions thw.npy --rope text.default
  rotary rotate config.json q_rotated.npy q.npy --positions 0:4096 --inverse)";

std::string shape_text(const Tensor& tensor) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : tensor.shape) sizes.push_back(fmt::format("{}", size));
  return "[" + explain::join(sizes, ", ") + "]";
}

bool is_safetensors(const std::string& path) {
  return std::filesystem::path(path).extension() == ".safetensors";
}

/// Errors that can be found before the work are reported before it.
void check_files(const RotateOptions& options) {
  for (const std::string& name : {options.in, options.out}) {
    if (!is_tensor_file(name)) {
      throw UsageError(fmt::format("IN and OUT must end in .npy or .safetensors, got '{}'", name));
    }
  }
  if (!options.tensor.empty() && std::filesystem::path(options.in).extension() == ".npy") {
    throw UsageError("--tensor is for .safetensors files; a .npy file has one tensor");
  }
  static_cast<void>(internal::resolve_output(options.out));
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

/// The rope for the last size of IN: the whole head, or only its rotary slice.
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
  notes.push_back(fmt::format("IN has the rotary slice only, {} of the {} elements of a head",
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

void rotate_all(const Rope& rope, const TensorView& view, const PositionsArgument& positions,
                bool inverse) {
  constexpr std::int64_t kElementsPerStep = 1 << 20;  // a few milliseconds
  const std::int64_t tokens = view.shape[view.rank == 4 ? 1 : 0];
  const std::int64_t width =
      std::max<std::int64_t>(view.num_elements() / std::max<std::int64_t>(tokens, 1), 1);
  // A tensor without elements is one step, however many tokens it claims.
  const std::int64_t step =
      std::max<std::int64_t>(view.num_elements() == 0 ? tokens : kElementsPerStep / width, 1);
  console::ProgressBar progress(inverse ? "Unrotating" : "Rotating", tokens);
  // At least once, so that empty tensors are validated, too.
  for (std::int64_t first = 0; first == 0 || first < tokens; first += step) {
    const std::int64_t count = std::min(step, tokens - first);
    const TensorView slice = slice_tokens(view, first, count);
    const Positions slice_positions = positions.slice(first, count);
    inverse ? rope.unrotate(slice, slice_positions) : rope.rotate(slice, slice_positions);
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
  PositionsArgument positions(options.positions);
  const Model model = Model::read(options.model);
  Tensor tensor = read_tensor(options.in, options.tensor);
  const TensorView view = heads_of(tensor, options.in);
  std::vector<std::string> notes;  // printed at the end: an error prints one line only
  const ModelRope chosen = fit(model.rope(options.rope), tensor, notes);
  if (options.rope.empty() && model.ropes.size() > 1) {
    notes.push_back(fmt::format("the model has {} ropes, using {}; --rope selects another",
                                model.ropes.size(), chosen.name));
  }
  const std::int64_t tokens = view.shape[view.rank == 4 ? 1 : 0];
  positions.check(tokens, chosen.axes);
  if (positions.same_on_all_axes()) {
    notes.push_back(
        "one position per token was given: taken as text tokens, with the same position on the "
        "axes " +
        explain::join(chosen.axes, ", "));
  }
  for (const std::string& line : chosen.assumed) notes.push_back("assumed: " + line);
  for (const std::string& line : chosen.warnings) notes.push_back("warning: " + line);
  if (tensor.dtype == DType::kBFloat16 &&
      std::filesystem::path(options.out).extension() == ".npy") {
    throw std::invalid_argument(options.out + ": .npy has no bfloat16; use a .safetensors file");
  }

  const std::int64_t context = asked_context > 0 ? asked_context : positions.context(tokens);
  const Rope rope = chosen.make_rope(context, {.precision = precision});
  TemporaryOutput output(options.out);
  rotate_all(rope, view, positions, options.inverse);
  const Tensor& done = tensor;
  if (is_safetensors(options.in) && is_safetensors(options.out)) {
    write_with_tensor(options.in, output.file(), done.view(), tensor.name);
  } else {
    write_tensor(output.file(), done.view(), tensor.name.empty() ? "tensor" : tensor.name);
  }
  output.commit();
  for (const std::string& line : notes) {
    console::print_error(fmt::format("rotary: {}\n", explain::printable(line)));
  }
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
  add_argument("OUT", options->out,
               "File for the rotated tensor; of a .safetensors IN it keeps all else");
  verb->add_option("--positions", options->positions, "Positions of the tokens")
      ->required()
      ->type_name("P");
  verb->add_option("--rope", options->rope, "Name of the rope, for models with several")
      ->type_name("NAME");
  verb->add_option("--precision", options->precision,
                   "exact (default), or reference: float32 angles as in training code")
      ->type_name("WHICH");
  verb->add_flag("--inverse", options->inverse, "Apply the inverse rotation");
  verb->add_option("--context", options->context,
                   "Context in use, for recipes that depend on it; default: largest + 1")
      ->type_name("N");
  verb->add_option("--tensor", options->tensor, "Name of the tensor in a .safetensors IN")
      ->type_name("NAME");
  verb->callback([options] { rotate(*options); });
}

}  // namespace rotary::cli
