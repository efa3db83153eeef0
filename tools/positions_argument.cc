// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/positions_argument.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <limits>
#include <stdexcept>

#include "explain/format.h"
#include "explain/text_layout.h"
#include "tools/commands.h"

namespace rotary::cli {
namespace {

template <typename T>
std::int64_t context_of(const Tensor& ids) {
  // Beyond any context, and safe from overflow.
  constexpr auto kMax = static_cast<T>(std::int64_t{1} << 30) * (sizeof(T) == 8 ? 1 << 30 : 1);
  T largest = 0;
  for (std::size_t i = 0; i + sizeof(T) <= ids.bytes.size(); i += sizeof(T)) {
    T value{};
    std::memcpy(&value, ids.bytes.data() + i, sizeof(T));
    largest = std::max(largest, value);  // NaN compares false; the library rejects it later
  }
  return static_cast<std::int64_t>(std::min(largest, kMax)) + 1;
}

}  // namespace

bool is_tensor_file(const std::string& name) {
  const std::string ending = std::filesystem::path(name).extension().string();
  return ending == ".npy" || ending == ".safetensors";
}

PositionsArgument::PositionsArgument(const std::string& text) : is_file_(is_tensor_file(text)) {
  if (is_file_) {
    ids_ = read_tensor(text);
    if (ids_.shape.empty() || ids_.shape.size() > 3) {
      throw std::invalid_argument(
          fmt::format("{}: positions must be [tokens] or [axes, tokens], got {} dimensions", text,
                      ids_.shape.size()));
    }
    return;
  }
  const auto range = parse_range(text);
  if (!range) {
    throw UsageError(fmt::format(
        "--positions must be a range such as 0:4096, 17: or -5:3, or a .npy file, got '{}'", text));
  }
  range_ = *range;
}

void PositionsArgument::check(std::int64_t tokens, const std::vector<std::string>& axes) {
  const std::int64_t given = is_file_     ? ids_.shape.back()
                             : range_.end ? *range_.end - range_.first
                                          : tokens;
  if (given != tokens) {
    throw std::invalid_argument(fmt::format("IN has {}, but --positions gives {}",
                                            explain::plural(tokens, "token"),
                                            explain::plural(given, "position")));
  }
  const std::int64_t given_axes = is_file_ && ids_.shape.size() > 1 ? ids_.shape.front() : 1;
  const auto wanted = static_cast<std::int64_t>(axes.size());
  same_on_all_axes_ = given_axes == 1 && wanted > 1 && axes.front() == "t";
  if (given_axes != wanted && !same_on_all_axes_) {
    throw std::invalid_argument(
        fmt::format("the rope has the {} {}: --positions must be a file of [{}, tokens], got {}",
                    wanted == 1 ? "axis" : "axes", explain::join(axes, ", "), wanted,
                    is_file_ ? fmt::format("{} axes", given_axes) : "a range"));
  }
}

std::int64_t PositionsArgument::context(std::int64_t tokens) const {
  if (!is_file_) return std::max<std::int64_t>(range_.end.value_or(range_.first + tokens), 1);
  switch (ids_.dtype) {
    case DType::kInt32:
      return context_of<std::int32_t>(ids_);
    case DType::kInt64:
      return context_of<std::int64_t>(ids_);
    case DType::kFloat32:
      return context_of<float>(ids_);
    case DType::kFloat64:
      return context_of<double>(ids_);
    default:
      return 1;  // slice() rejects it
  }
}

Positions PositionsArgument::slice(std::int64_t first, std::int64_t count) const {
  Positions positions = Positions::range(range_.first + first);
  if (is_file_) {
    ConstTensorView view = ids_.view();
    const auto last = static_cast<std::size_t>(view.rank - 1);
    const auto size = static_cast<std::int64_t>(size_of(view.dtype));
    view.data = static_cast<const std::byte*>(view.data) + first * view.strides[last] * size;
    view.shape[last] = count;
    positions = Positions::ids(view);
  }
  return same_on_all_axes_ ? positions.on_all_axes() : positions;
}

}  // namespace rotary::cli
