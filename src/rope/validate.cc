// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "rope/validate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "rope/kernel.h"
#include "support/message.h"

namespace rotary::internal {
namespace {

std::string shape_text(const ConstTensorView& view) {
  std::string text = "[";
  for (int i = 0; i < view.rank; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(view.shape[static_cast<std::size_t>(i)]);
  }
  return text + "]";
}

/// First and last byte a view touches, as offsets from its data pointer in elements.
std::pair<std::int64_t, std::int64_t> extent(const ConstTensorView& view) {
  std::int64_t low = 0;
  std::int64_t high = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(view.rank); ++i) {
    const std::int64_t reach = (view.shape[i] - 1) * view.strides[i];
    (reach < 0 ? low : high) += reach;
  }
  return {low, high};
}

/// False when sizes or strides are so large that no memory can hold the view.
bool fits_memory(const ConstTensorView& view) {
  constexpr std::int64_t kMost = std::int64_t{1} << 60;  // elements; times 8 bytes still fits
  std::int64_t count = 1;
  std::int64_t reach = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(view.rank); ++i) {
    const std::int64_t size = std::max<std::int64_t>(view.shape[i], 1);
    std::int64_t step = 0;
    if (__builtin_mul_overflow(count, size, &count) || count > kMost) return false;
    if (__builtin_mul_overflow(size - 1, view.strides[i], &step)) return false;
    if (step < -kMost || step > kMost) return false;
    reach += std::abs(step);
  }
  return reach <= kMost;
}

bool touch(const ConstTensorView& a, const ConstTensorView& b) {
  const auto size = static_cast<std::int64_t>(size_of(a.dtype));
  const auto bounds = [size](const ConstTensorView& view) {
    const auto [low, high] = extent(view);
    const auto* base = static_cast<const char*>(view.data);
    return std::pair{base + low * size, base + (high + 1) * size};
  };
  const auto [a_first, a_end] = bounds(a);
  const auto [b_first, b_end] = bounds(b);
  return std::less<>{}(a_first, b_end) && std::less<>{}(b_first, a_end);
}

/// True when no two elements share an address: sorted by stride, each dimension steps over all that
/// the finer ones reach. Exotic views that interleave without meeting are refused as well.
bool elements_are_distinct(const ConstTensorView& view) {
  std::array<std::pair<std::int64_t, std::int64_t>, kMaxRank> dims;  // stride, size
  std::size_t count = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(view.rank); ++i) {
    if (view.shape[i] > 1) dims[count++] = {std::abs(view.strides[i]), view.shape[i]};
  }
  std::sort(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(count));
  std::int64_t reach = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (dims[i].first <= reach) return false;
    reach += dims[i].first * (dims[i].second - 1);
  }
  return true;
}

void check_finite(std::string_view function, const Positions& positions) {
  if (!positions.real_valued()) return;
  PositionReader reader(positions);
  const ConstTensorView& view = positions.view();
  for (std::int64_t a = 0; a < view.shape[0]; ++a) {
    for (std::int64_t b = 0; b < view.shape[1]; ++b) {
      for (std::int64_t t = 0; t < view.shape[2]; ++t) {
        const double value = reader.at(a, b, t).real;
        if (!std::isfinite(value)) {
          reject("[", function, "] positions must be finite, got ", value, " at token ", t);
        }
      }
    }
  }
}

/// Throws if a run of tokens would leave the integers.
void check_range(std::string_view function, const Positions& positions, std::int64_t tokens) {
  const auto check = [function](std::int64_t first, std::int64_t count) {
    if (count > 0 && first > std::numeric_limits<std::int64_t>::max() - (count - 1)) {
      reject("[", function, "] positions must fit into 64 bits, got ", count, " tokens from ",
             first);
    }
  };
  if (positions.kind() == Positions::Kind::kRange) {
    check(positions.start(), tokens);
    for (const std::int64_t first : positions.first()) check(first, tokens);
  } else if (positions.kind() == Positions::Kind::kPacked) {
    const auto boundaries = positions.boundaries();
    for (std::size_t s = 0; s < positions.first().size(); ++s) {
      check(positions.first()[s], boundaries[s + 1] - boundaries[s]);
    }
  }
}

}  // namespace

void check_rope(const Frequencies& f, const HeadLayout& layout) {
  if (layout.head_dim <= 0) reject("[Rope] head_dim must be positive, got ", layout.head_dim);
  if (!layout.pairing) reject("[Rope] pairing must be given: Pairing::kHalf or kInterleaved");
  if (f.pairs < 1) reject("[Rope] frequencies must have at least one pair, got ", f.pairs);
  if (f.axes < 1 || f.axes > kMostAxes) {
    reject("[Rope] frequencies must have 1 to ", kMostAxes, " axes, got ", f.axes);
  }
  const std::size_t size = f.values.size();
  const auto axes = static_cast<std::size_t>(f.axes);
  if (size % axes != 0 || size / axes != static_cast<std::size_t>(f.pairs) ||
      (!f.growth.empty() && f.growth.size() != size)) {
    reject("[Rope] frequencies must be [", f.pairs, " pairs x ", f.axes, " axes], got ",
           f.values.size(), " values and ", f.growth.size(), " of growth");
  }
  if (layout.rotary_offset < 0 || f.rotary_dim() > layout.head_dim ||
      layout.rotary_offset > layout.head_dim - f.rotary_dim()) {
    reject("[Rope] the rotary slice must fit into head_dim ", layout.head_dim, ", got rotary_dim ",
           f.rotary_dim(), " at rotary_offset ", layout.rotary_offset);
  }
  for (std::size_t i = 0; i < size; ++i) {
    const bool grows_well = f.growth.empty() || std::isfinite(f.growth[i]);
    if (!(std::fabs(f.values[i]) <= kMostRadians) || !grows_well) {
      reject("[Rope] frequencies must be finite and at most 2^31, got ", f.values[i],
             grows_well ? "" : " with growth that is not finite", " for pair ", i / axes);
    }
  }
  if (!std::isfinite(f.scale) || f.scale <= 0.0) {
    reject("[Rope] scale must be positive and finite, got ", f.scale);
  }
  if (!std::isfinite(f.growth_origin)) {
    reject("[Rope] growth_origin must be finite, got ", f.growth_origin);
  }
}

template <typename Void>
BasicTensorView<Void> as_heads(std::string_view function, const BasicTensorView<Void>& view,
                               std::int64_t head_dim) {
  if (view.rank != 3 && view.rank != 4) {
    reject("[", function,
           "] the tensor must be [tokens, heads, head_dim] or [batch, tokens, heads, head_dim], "
           "got rank ",
           view.rank);
  }
  if (!is_floating_point(view.dtype)) {
    reject("[", function, "] the tensor must be of a floating-point type, got ",
           name_of(view.dtype));
  }
  if (view.device.type != DeviceType::kCpu) {
    reject("[", function, "] this build rotates on the CPU only, got a CUDA tensor");
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(view.rank); ++i) {
    if (view.shape[i] < 0)
      reject("[", function, "] sizes must not be negative, got ", view.shape[i]);
  }
  const auto last = static_cast<std::size_t>(view.rank - 1);
  if (view.shape[last] != head_dim) {
    reject("[", function, "] the last size must be head_dim ", head_dim, ", got shape ",
           shape_text(view));
  }
  if (!fits_memory(view)) {
    reject("[", function, "] sizes and strides must fit into memory, got shape ", shape_text(view));
  }
  if (view.data == nullptr && view.num_elements() > 0) {
    reject("[", function, "] the tensor has no memory, shape ", shape_text(view));
  }
  if (reinterpret_cast<std::uintptr_t>(view.data) % size_of(view.dtype) != 0) {
    reject("[", function, "] the memory must be aligned to its elements (", size_of(view.dtype),
           " bytes), got address ", view.data);
  }
  if (view.rank == 4) return view;
  BasicTensorView<Void> heads = view;
  heads.rank = 4;
  heads.shape = {1, view.shape[0], view.shape[1], view.shape[2]};
  heads.strides = {0, view.strides[0], view.strides[1], view.strides[2]};
  return heads;
}

template TensorView as_heads(std::string_view, const TensorView&, std::int64_t);
template ConstTensorView as_heads(std::string_view, const ConstTensorView&, std::int64_t);

void check_output(std::string_view function, const ConstTensorView& in, const TensorView& out) {
  if (in.shape != out.shape) {
    reject("[", function, "] out must have the shape of in ", shape_text(in), ", got ",
           shape_text(out));
  }
  if (in.dtype != out.dtype) {
    reject("[", function, "] out must have the type of in (", name_of(in.dtype), "), got ",
           name_of(out.dtype));
  }
  if (in.device != out.device) reject("[", function, "] in and out must be on the same device");
  if (out.num_elements() == 0) return;
  if (!elements_are_distinct(out)) {
    reject("[", function,
           "] elements of the output must not share memory (a broadcast view?), "
           "got strides ",
           out.strides[0], " ", out.strides[1], " ", out.strides[2], " ", out.strides[3],
           " for shape ", shape_text(out));
  }
  bool same = in.data == out.data;
  for (std::size_t i = 0; same && i < kMaxRank; ++i) {
    same = in.shape[i] == 1 || in.strides[i] == out.strides[i];
  }
  if (!same && touch(in, out)) {
    reject("[", function,
           "] in and out must be the same view or share no memory, got views that "
           "overlap");
  }
}

void check_positions(std::string_view function, const Positions& positions,
                     const ConstTensorView& tensor, std::int64_t axes) {
  if (positions.axes() != axes && !positions.same_on_all_axes()) {
    reject("[", function, "] positions must have ", axes, axes == 1 ? " axis" : " axes", ", got ",
           positions.axes());
  }
  if (positions.tokens() >= 0 && positions.tokens() != tensor.shape[1]) {
    reject("[", function, "] positions must be given for ", tensor.shape[1], " tokens, got ",
           positions.tokens());
  }
  if (positions.batch() >= 0 && positions.batch() != tensor.shape[0]) {
    reject("[", function, "] positions must be given for ", tensor.shape[0], " batch rows, got ",
           positions.batch());
  }
  if (positions.kind() == Positions::Kind::kIds) {
    const ConstTensorView& view = positions.view();
    if (view.device != tensor.device) {
      reject("[", function, "] positions and tensor must be on the same device");
    }
    if (view.data == nullptr && view.num_elements() > 0) {
      reject("[", function, "] positions have no memory");
    }
  }
  check_finite(function, positions);
  check_range(function, positions, tensor.shape[1]);
}

}  // namespace rotary::internal
