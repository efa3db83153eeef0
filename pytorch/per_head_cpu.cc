// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Rotation by frequencies of each head on the CPU: the library's, by a cos/sin table in which every
// head has rows of its own.

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "pytorch/empty_result.h"
#include "pytorch/errors.h"
#include "pytorch/pairs.h"
#include "pytorch/per_head.h"
#include "pytorch/views.h"
#include "rotary/table.h"

namespace rotary::torch {
namespace {

/// Tokens whose cos and sin follow from those before: rounding errors grow by one ulp of double a
/// token, to 3e-14 at most.
constexpr std::int64_t kTableBlock = 256;

/// cos and sin of one head for a block of tokens. Equal distances between tokens, as in text and in
/// the rows of an image, need one complex product per pair and token.
template <typename T>
class TableBlock {
 public:
  TableBlock(const double* frequencies, std::int64_t pairs, std::int64_t axes, double length)
      : frequencies_(frequencies),
        pairs_(static_cast<std::size_t>(pairs)),
        axes_(static_cast<std::size_t>(axes)),
        length_(length),
        cos_(pairs_),
        sin_(pairs_),
        step_cos_(pairs_),
        step_sin_(pairs_) {}

  /// `positions`: of axis 0; those of the others follow after `axis_stride`. cos and sin of a token
  /// follow after `token_stride`.
  void fill(const double* positions, std::int64_t axis_stride, std::int64_t tokens, T* cos, T* sin,
            std::int64_t token_stride) {
    Axes last{};
    Axes distance{};
    bool has_step = false;
    for (std::int64_t t = 0; t < tokens; ++t) {
      Axes at{};
      Axes moved{};
      for (std::size_t a = 0; a < axes_; ++a) {
        at[a] = positions[static_cast<std::int64_t>(a) * axis_stride + t];
        moved[a] = at[a] - last[a];
      }
      if (t > 0 && has_step && moved == distance) {
        multiply();
      } else {
        evaluate(at, cos_, sin_);
        if (t > 1 && moved == distance) {
          evaluate(moved, step_cos_, step_sin_);
          has_step = true;
        } else {
          has_step = false;
        }
      }
      distance = moved;
      last = at;
      for (std::size_t i = 0; i < pairs_; ++i) {
        cos[i] = static_cast<T>(length_ * cos_[i]);
        sin[i] = static_cast<T>(length_ * sin_[i]);
      }
      cos += token_stride;
      sin += token_stride;
    }
  }

 private:
  using Axes = std::array<double, kMaxPerHeadAxes>;

  void evaluate(const Axes& at, std::vector<double>& cos, std::vector<double>& sin) const {
    for (std::size_t i = 0; i < pairs_; ++i) {
      double phase = 0.0;
      for (std::size_t a = 0; a < axes_; ++a) phase += at[a] * frequencies_[i * axes_ + a];
      cos[i] = std::cos(phase);
      sin[i] = std::sin(phase);
    }
  }
  void multiply() {
    for (std::size_t i = 0; i < pairs_; ++i) {
      const double c = cos_[i] * step_cos_[i] - sin_[i] * step_sin_[i];
      sin_[i] = sin_[i] * step_cos_[i] + cos_[i] * step_sin_[i];
      cos_[i] = c;
    }
  }

  const double* frequencies_;
  std::size_t pairs_;
  std::size_t axes_;
  double length_;
  std::vector<double> cos_;
  std::vector<double> sin_;
  std::vector<double> step_cos_;
  std::vector<double> step_sin_;
};

double length_of_factor(const PerHeadArgs& args, const SharedRope& rope) {
  const double scale =
      is_given(args.scale) ? *args.scale->const_data_ptr<double>() : rope.frequencies().scale;
  return divides_by_scale(args.op) ? 1.0 / scale : scale;
}

/// cos and sin of every token of a batch row of the positions, [tokens, heads, pairs] of any strides;
/// the table's adjoint changes the sign of sin.
template <typename T>
void fill_head_tables(const PerHeadArgs& args, const SharedRope& rope, std::int64_t row,
                      const at::Tensor& cos, const at::Tensor& sin) {
  const at::Tensor& positions = args.positions;
  const std::int64_t heads = args.frequencies.size(0);
  const std::int64_t pairs = args.frequencies.size(1);
  const std::int64_t axes = args.frequencies.size(2);
  const std::int64_t tokens = positions.size(2);
  const std::int64_t blocks = (tokens + kTableBlock - 1) / kTableBlock;
  const double length = length_of_factor(args, rope);
  const std::int64_t axis_stride = positions.size(0) == 1 ? 0 : positions.stride(0);
  const double* at = positions.const_data_ptr<double>() + row * positions.stride(1);
  T* cos_data = cos.mutable_data_ptr<T>();
  T* sin_data = sin.mutable_data_ptr<T>();
  at::parallel_for(0, heads * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t head = task % heads;
      const std::int64_t first = task / heads * kTableBlock;
      const std::int64_t to = first * cos.stride(0) + head * cos.stride(1);
      TableBlock<T> block(args.frequencies.const_data_ptr<double>() + head * pairs * axes, pairs,
                          axes, length);
      block.fill(at + first, axis_stride, std::min(kTableBlock, tokens - first), cos_data + to,
                 sin_data + to, cos.stride(0));
    }
  });
}

/// A tensor [batch, tokens, heads, head_dim] whose heads are in groups that share frequencies.
struct GroupedHeads {
  GroupedHeads(const Dims& shape, const Dims& strides, int rank, std::int64_t frequency_heads) {
    const std::size_t at = rank == 4 ? 1 : 0;
    batch = rank == 4 ? shape[0] : 1;
    batch_stride = rank == 4 ? strides[0] : 0;
    tokens = shape[at];
    token_stride = strides[at];
    heads = frequency_heads;
    group = shape[at + 1] / heads;
    member_stride = strides[at + 1];
    head_stride = group * member_stride;
    head_dim = shape[at + 2];
    element_stride = strides[at + 2];
  }

  /// Whether tokens and heads are one dimension in memory: heads within tokens, or the reverse.
  bool is_flat(bool heads_outside) const {
    return heads_outside ? head_stride == tokens * token_stride
                         : token_stride == heads * head_stride;
  }
  /// [batch, tokens * heads, group, head_dim] of one that is_flat().
  template <typename View>
  View flat(View view, bool heads_outside) const {
    view.rank = 4;
    view.shape = {batch, tokens * heads, group, head_dim};
    view.strides = {batch_stride, heads_outside ? token_stride : head_stride, member_stride,
                    element_stride};
    return view;
  }
  /// [tokens, heads, group, head_dim] of a batch row.
  template <typename View>
  View row(View view, std::int64_t index, std::size_t element_size) const {
    using Byte = std::conditional_t<std::is_same_v<View, ConstTensorView>, const char, char>;
    view.data = static_cast<Byte*>(view.data) +
                index * batch_stride * static_cast<std::int64_t>(element_size);
    view.rank = 4;
    view.shape = {tokens, heads, group, head_dim};
    view.strides = {token_stride, head_stride, member_stride, element_stride};
    return view;
  }

  std::int64_t batch = 1;
  std::int64_t batch_stride = 0;
  std::int64_t tokens = 0;
  std::int64_t token_stride = 0;
  std::int64_t heads = 0;  // of the frequencies
  std::int64_t head_stride = 0;
  std::int64_t group = 1;
  std::int64_t member_stride = 0;
  std::int64_t head_dim = 0;
  std::int64_t element_stride = 1;
};

/// A table [tokens, heads, pairs] for the library: of every token of every head as a token of its
/// own where the tensor allows it, else with a batch row for each token.
class HeadTable {
 public:
  HeadTable(const PerHeadArgs& args, const SharedRope& rope, at::Tensor cos, at::Tensor sin)
      : args_(args), rope_(rope), cos_(std::move(cos)), sin_(std::move(sin)) {}

  /// All batch rows.
  void rotate(const at::Tensor& from, const at::Tensor& to) const {
    const ConstTensorView in = heads_view(kName, from, args_.token_dim);
    const TensorView out = writable_heads_view(kName, to, args_.token_dim);
    const GroupedHeads in_heads = heads_of(in);
    const GroupedHeads out_heads = heads_of(out);
    const bool outside = cos_.stride(1) > cos_.stride(0);
    if (!in_heads.is_flat(outside) || !out_heads.is_flat(outside)) {
      for (std::int64_t b = 0; b < in_heads.batch; ++b) rotate(from, to, b);
      return;
    }
    const auto flat = [outside](const at::Tensor& table) {
      return (outside ? table.transpose(0, 1) : table).flatten(0, 1);
    };
    rotate_by(flat(cos_), flat(sin_),
              Operand(in_heads.flat(in, outside), out_heads.flat(out, outside)));
  }
  /// One batch row.
  void rotate(const at::Tensor& from, const at::Tensor& to, std::int64_t row) const {
    const ConstTensorView in = heads_view(kName, from, args_.token_dim);
    const TensorView out = writable_heads_view(kName, to, args_.token_dim);
    const std::size_t size = from.element_size();
    rotate_by(cos_, sin_,
              Operand(heads_of(in).row(in, row, size), heads_of(out).row(out, row, size)));
  }

 private:
  static constexpr std::string_view kName = "rotate_per_head";

  template <typename View>
  GroupedHeads heads_of(const View& view) const {
    return {view.shape, view.strides, view.rank, args_.frequencies.size(0)};
  }
  void rotate_by(const at::Tensor& cos, const at::Tensor& sin, const Operand& operand) const {
    const TableRope table({plain_view(kName, cos), plain_view(kName, sin)}, rope_.layout(),
                          TableWidth::kPairs, rope_.rope().options().threads);
    if (phase_sign(args_.op) > 0.0) {
      table.rotate(operand);
    } else {
      table.adjoint(operand);
    }
  }

  const PerHeadArgs& args_;
  const SharedRope& rope_;
  at::Tensor cos_;
  at::Tensor sin_;
};

template <typename T>
void rotate_by_head_tables(at::TensorList from, at::TensorList to, const PerHeadArgs& args,
                           const SharedRope& rope) {
  const at::Tensor& f = args.frequencies;
  const std::int64_t tokens = args.positions.size(2);
  const at::Tensor& x = from[0];
  const std::int64_t head_dim = args.token_dim == -3 ? -2 : -3;
  const bool heads_outside = x.stride(head_dim) > x.stride(args.token_dim);
  const auto make_table = [&] {
    const at::TensorOptions options = at::TensorOptions(c10::CppTypeToScalarType<T>::value);
    if (!heads_outside) return at::empty({tokens, f.size(0), f.size(1)}, options);
    return at::empty({f.size(0), tokens, f.size(1)}, options).transpose(0, 1);
  };
  const at::Tensor cos = make_table();
  const at::Tensor sin = make_table();
  const HeadTable table(args, rope, cos, sin);
  const std::int64_t rows = args.positions.size(1);
  for (std::int64_t row = 0; row < rows; ++row) {
    fill_head_tables<T>(args, rope, row, cos, sin);
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (rows == 1) {
        table.rotate(from[i], to[i]);
      } else {
        table.rotate(from[i], to[i], row);
      }
    }
  }
}

}  // namespace

std::vector<at::Tensor> rotate_per_head_on_cpu(at::TensorList tensors, const PerHeadArgs& args) {
  const auto rope = find_rope(args.rope);
  std::vector<at::Tensor> results;
  bool any_double = false;
  for (const at::Tensor& x : tensors) {
    results.push_back(empty_result_like(x));
    any_double = any_double || x.scalar_type() == at::kDouble;
  }
  translate_errors([&] {
    if (any_double) {
      rotate_by_head_tables<double>(tensors, results, args, *rope);
    } else {
      rotate_by_head_tables<float>(tensors, results, args, *rope);
    }
  });
  return results;
}

}  // namespace rotary::torch
