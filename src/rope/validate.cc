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

#include "engine/phase.h"
#include "engine/position_reader.h"
#include "rope/memory.h"
#include "rotary/cuda.h"
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

bool is_on_host(const ConstTensorView& view) noexcept {
  return view.device.type == DeviceType::kCpu;
}

/// Positions in device memory are not checked.
void check_finite(std::string_view function, const Positions& positions) {
  if (!positions.real_valued() || !is_on_host(positions.view())) return;
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

/// Throws if positions would overflow 64 bits.
void check_range(std::string_view function, const Positions& positions, std::int64_t tokens) {
  if (positions.step() == 0) return;
  const auto check = [function](std::int64_t first, std::int64_t count) {
    if (count > 0 && first > std::numeric_limits<std::int64_t>::max() - (count - 1)) {
      reject("[", function, "] positions must fit into 64 bits, got ", count, " tokens from ",
             first);
    }
  };
  if (positions.kind() == Positions::Kind::kRange) check(positions.start(), tokens);
  const ConstTensorView& first = positions.first();
  if (first.data == nullptr || !is_on_host(first)) return;
  const bool packed = positions.kind() == Positions::Kind::kPacked;
  for (std::int64_t i = 0; i < first.shape[0]; ++i) {
    const auto boundary = [&](std::int64_t at) { return integer_at(positions.boundaries(), at); };
    check(integer_at(first, i), packed ? boundary(i + 1) - boundary(i) : tokens);
  }
}

}  // namespace

void check_head(std::string_view function, const HeadLayout& layout, std::int64_t pairs) {
  if (layout.head_dim <= 0) {
    reject("[", function, "] head_dim must be positive, got ", layout.head_dim);
  }
  if (!layout.pairing) {
    reject("[", function, "] pairing must be given: Pairing::kHalf or kInterleaved");
  }
  if (pairs < 1) reject("[", function, "] there must be at least one pair, got ", pairs);
  if (layout.rotary_offset < 0 || pairs > layout.head_dim / 2 ||
      layout.rotary_offset > layout.head_dim - 2 * pairs) {
    reject("[", function, "] the rotary slice must fit into head_dim ", layout.head_dim,
           ", got rotary_dim ", 2 * pairs, " at rotary_offset ", layout.rotary_offset);
  }
}

void check_threads(std::string_view function, const Threads& threads) {
  if (threads.count < 0) {
    reject("[", function, "] threads.count must not be negative, got ", threads.count);
  }
}

void check_rope(const Frequencies& f, const HeadLayout& layout) {
  if (f.pairs < 1) reject("[Rope] there must be at least one pair, got ", f.pairs);
  if (f.axes < 1 || f.axes > kMaxAxes) {
    reject("[Rope] frequencies must have 1 to ", kMaxAxes, " axes, got ", f.axes);
  }
  const std::size_t size = f.values.size();
  const auto axes = static_cast<std::size_t>(f.axes);
  if (size % axes != 0 || size / axes != static_cast<std::size_t>(f.pairs) ||
      (!f.growth.empty() && f.growth.size() != size)) {
    reject("[Rope] frequencies must be [", f.pairs, " pairs x ", f.axes, " axes], got ",
           f.values.size(), " values and ", f.growth.size(), " of growth");
  }
  check_head("Rope", layout, f.pairs);
  for (std::size_t i = 0; i < size; ++i) {
    const bool grows_well = f.growth.empty() || std::isfinite(f.growth[i]);
    if (!(std::fabs(f.values[i]) <= kMaxRadians) || !grows_well) {
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

namespace {

/// Sizes and strides of a view without ordinary_reach().
void check_sizes(std::string_view function, const ConstTensorView& view) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(view.rank); ++i) {
    if (view.shape[i] < 0) {
      reject("[", function, "] sizes must not be negative, got ", view.shape[i]);
    }
  }
  if (!fits_memory(view)) {
    reject("[", function, "] sizes and strides must fit into memory, got shape ", shape_text(view));
  }
}

/// Returns ordinary_reach().
template <typename Void>
std::int64_t check_view(std::string_view function, const BasicTensorView<Void>& view) {
  const std::int64_t reach = ordinary_reach(view);
  if (reach == 0) check_sizes(function, view);
  if (view.data == nullptr && view.num_elements() > 0) {
    reject("[", function, "] the tensor has no memory, shape ", shape_text(view));
  }
  if (reinterpret_cast<std::uintptr_t>(view.data) % size_of(view.dtype) != 0) {
    reject("[", function, "] the memory must be aligned to its elements (", size_of(view.dtype),
           " bytes), got address ", view.data);
  }
  return reach;
}

}  // namespace

void check_memory(std::string_view function, const ConstTensorView& view) {
  check_view(function, view);
}

namespace {

/// Makes `copy` of a view [tokens, heads, head_dim] [1, tokens, heads, head_dim]. Reads the view
/// itself: elements of a copy that has just been written come later.
template <typename Void>
void to_rank_4(const BasicTensorView<Void>& view, BasicTensorView<Void>& copy) noexcept {
  if (view.rank == 4) return;
  copy.rank = 4;
  copy.shape = {1, view.shape[0], view.shape[1], view.shape[2]};
  copy.strides = {0, view.strides[0], view.strides[1], view.strides[2]};
}

/// Throws as check_heads() does. Returns ordinary_reach().
template <typename Void>
std::int64_t check_given(std::string_view function, const BasicTensorView<Void>& view,
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
  if (!is_on_host(view) && !has_cuda()) {
    reject("[", function, "] this build rotates on the CPU only, got a CUDA tensor");
  }
  const std::int64_t reach = check_view(function, view);
  const auto last = static_cast<std::size_t>(view.rank - 1);
  if (view.shape[last] != head_dim) {
    reject("[", function, "] the last size must be head_dim ", head_dim, ", got shape ",
           shape_text(view));
  }
  return reach;
}

}  // namespace

void check_heads(std::string_view function, ConstTensorView& view, std::int64_t head_dim) {
  check_given(function, view, head_dim);
  const ConstTensorView given = view;
  to_rank_4(given, view);
}

namespace {

/// Throws if two elements of what is written share an address.
void check_distinct(std::string_view function, const TensorView& out) {
  if (out.num_elements() != 0 && !elements_are_distinct(out)) {
    reject("[", function,
           "] elements of the output must not share memory (a broadcast view?), "
           "got strides ",
           out.strides[0], " ", out.strides[1], " ", out.strides[2], " ", out.strides[3],
           " for shape ", shape_text(out));
  }
}

/// Throws unless `out` matches `in`.
void check_output(std::string_view function, const ConstTensorView& in, const TensorView& out) {
  if (in.shape != out.shape) {
    reject("[", function, "] out must have the shape of in ", shape_text(in), ", got ",
           shape_text(out));
  }
  const bool narrows = is_float8(out.dtype) && !is_on_host(out) && in.dtype != DType::kFloat64;
  if (in.dtype != out.dtype && !narrows) {
    reject("[", function, "] out must have the type of in (", name_of(in.dtype),
           "), or on CUDA a float8 type for in of up to 32 bits, got ", name_of(out.dtype));
  }
  if (in.device != out.device) reject("[", function, "] in and out must be on the same device");
  if (out.num_elements() == 0) return;
  check_distinct(function, out);
  if (!is_same_memory(in, out) && may_overlap(in, out)) {
    reject("[", function,
           "] in and out must be the same view or share no memory, got views that "
           "overlap");
  }
}

/// Whether input and output are the same view, also in the unused entries of shape and strides. One
/// comparison without branches.
bool is_in_place(const Operand& x) noexcept {
  if (x.in.data != x.out.data || x.in.rank != x.out.rank || x.in.dtype != x.out.dtype ||
      x.in.device != x.out.device) {
    return false;
  }
  std::int64_t difference = 0;
  for (std::size_t i = 0; i < x.in.shape.size(); ++i) {
    difference |= (x.in.shape[i] ^ x.out.shape[i]) | (x.in.strides[i] ^ x.out.strides[i]);
  }
  return difference == 0;
}

/// Throws if the scale of a float8 output is misaligned or overlaps an output.
void check_scale(std::string_view function, const Operand& scaled,
                 std::span<const Operand> operands) {
  const auto scale = ConstTensorView::contiguous(scaled.out_scale, DType::kFloat32, {1});
  check_memory(function, scale);
  for (const Operand& x : operands) {
    if (!may_overlap(x.out, scale)) continue;
    reject("[", function, "] out_scale must not lie in a tensor that is written");
  }
}

/// Throws if the output of one operand overlaps another operand. Each operand has been checked:
/// input and output with the same address are the same view.
void check_apart(std::string_view function, std::span<const Operand> operands) {
  const auto in_place = [](const Operand& x) { return x.in.data == x.out.data; };
  for (std::size_t i = 0; i < operands.size(); ++i) {
    for (std::size_t j = i + 1; j < operands.size(); ++j) {
      const Operand& a = operands[i];
      const Operand& b = operands[j];
      if (may_overlap(a.out, b.out) || (!in_place(b) && may_overlap(a.out, b.in)) ||
          (!in_place(a) && may_overlap(a.in, b.out))) {
        reject("[", function, "] tensors of one call must not share memory that is written, but ",
               i, " and ", j, " do");
      }
    }
  }
}

/// Intervals around the memory of operands in place, from what the checks of each know already:
/// nearly always enough to see that operands are apart.
class Bounds {  // NOLINT(cppcoreguidelines-pro-type-member-init): intervals_ fill up
 public:
  /// `reach` is ordinary_reach(), 0 for an operand without known bounds.
  void add(const TensorView& view, std::int64_t reach) noexcept {
    if (reach == 0) all_known_ = false;
    intervals_[count_++] = {reinterpret_cast<std::uintptr_t>(view.data),
                            static_cast<std::uint64_t>(reach) * size_of(view.dtype)};
  }
  bool are_apart() const noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      const Extent& x = intervals_[i];
      for (std::size_t j = i + 1; j < count_; ++j) {
        const Extent& y = intervals_[j];
        if (x.first + x.size > y.first && y.first + y.size > x.first) return false;
      }
    }
    return all_known_;
  }

 private:
  Extent intervals_[kMaxOperands];  // uninitialised beyond count_
  std::size_t count_ = 0;
  bool all_known_ = true;
};

}  // namespace

std::span<const Operand> check_operands(std::string_view function, const Operands& operands,
                                        std::int64_t head_dim, OperandList& checked) {
  const std::span<const Operand> list = operands.list();
  if (list.size() > static_cast<std::size_t>(kMaxOperands)) {
    reject("[", function, "] at most ", kMaxOperands, " tensors in one call, got ", list.size());
  }
  Bounds bounds;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  for (const Operand& given : list) {
    Operand& operand = checked.add(given);
    const std::int64_t reach = check_given(function, given.out, head_dim);
    if (is_float8(given.in.dtype)) {
      reject("[", function, "] float8 is for outputs only, got an input of ",
             name_of(given.in.dtype));
    }
    if (given.out_scale != nullptr && !is_float8(given.out.dtype)) {
      reject("[", function, "] out_scale is for float8 outputs, got ", name_of(given.out.dtype));
    }
    const bool in_place = is_in_place(given);
    if (!in_place) check_given(function, given.in, head_dim);
    to_rank_4(given.in, operand.in);
    to_rank_4(given.out, operand.out);
    if (!in_place) {
      check_output(function, operand.in, operand.out);
    } else if (reach == 0) {
      check_distinct(function, operand.out);
    }
    bounds.add(given.out, in_place ? reach : 0);
    const ConstTensorView& first = checked.list().front().in;
    if (operand.in.shape[0] != first.shape[0] || operand.in.shape[1] != first.shape[1]) {
      reject("[", function, "] tensors of one call must share batch and tokens, got ",
             shape_text(first), " and ", shape_text(operand.in));
    }
    if (operand.in.device != first.device) {
      reject("[", function, "] tensors of one call must be on the same device");
    }
  }
  if (list.size() > 1 && !bounds.are_apart()) check_apart(function, checked.list());
  for (const Operand& operand : checked.list()) {
    if (operand.out_scale != nullptr) check_scale(function, operand, checked.list());
  }
  return checked.list();
}

bool is_empty(std::span<const Operand> operands) noexcept {
  return std::all_of(operands.begin(), operands.end(), [](const Operand& x) {
    const auto [batch, tokens, heads, head_dim] = x.in.shape;
    return batch == 0 || tokens == 0 || heads == 0 || head_dim == 0;
  });
}

namespace {

/// One of the arrays that positions are read from.
void check_position_memory(std::string_view function, const ConstTensorView& view,
                           const Device& device) {
  if (view.device != device) {
    reject("[", function, "] positions and tensor must be on the same device",
           is_on_host(view) ? "; ids, first and boundaries are in host memory" : "");
  }
  if (view.data == nullptr && view.num_elements() > 0) {
    reject("[", function, "] positions have no memory");
  }
  if (!is_on_host(view)) check_memory(function, view);
}

/// Calls check(view) for each array that positions are read from.
template <typename Check>
void for_each_array(const Positions& positions, const Check& check) {
  for (const ConstTensorView* view :
       {&positions.view(), &positions.first(), &positions.boundaries()}) {
    if (view->rank != 0) check(*view);
  }
}

}  // namespace

void check_apart_from_positions(std::string_view function, const Positions& positions,
                                std::span<const Operand> operands) {
  for_each_array(positions, [&](const ConstTensorView& view) {
    for (const Operand& x : operands) {
      if (x.out.data == nullptr || !may_overlap(x.out, view)) continue;
      reject("[", function, "] tensors that are written must not share memory with the positions");
    }
  });
}

void check_positions(std::string_view function, const Positions& positions,
                     std::span<const Operand> operands, std::int64_t axes) {
  const ConstTensorView& tensor = operands.front().in;
  if (positions.axes() != axes && !positions.same_on_all_axes()) {
    reject("[", function, "] positions must have ", axes, axes == 1 ? " axis" : " axes", ", got ",
           positions.axes());
  }
  // The range of a decoding step: no array to check.
  if (positions.kind() == Positions::Kind::kRange && positions.first().rank == 0) {
    return check_range(function, positions, tensor.shape[1]);
  }
  if (positions.tokens() >= 0 && positions.tokens() != tensor.shape[1]) {
    reject("[", function, "] positions must be given for ", tensor.shape[1], " tokens, got ",
           positions.tokens());
  }
  if (positions.batch() >= 0 && positions.batch() != tensor.shape[0]) {
    reject("[", function, "] positions must be given for ", tensor.shape[0], " batch rows, got ",
           positions.batch());
  }
  for_each_array(positions, [&](const ConstTensorView& view) {
    check_position_memory(function, view, tensor.device);
  });
  check_apart_from_positions(function, positions, operands);
  check_finite(function, positions);
  check_range(function, positions, tensor.shape[1]);
}

}  // namespace rotary::internal
