// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Frequencies of each head on the CPU. Rotation is the library's, by a cos/sin table in which a
// head is a batch row; the gradient of frequencies is a sum over tokens, in blocks of fixed size so
// that the order of additions does not depend on the number of threads.

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>
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
/// Tokens of one partial sum of the gradient.
constexpr std::int64_t kGradientBlock = 64;

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

  /// `positions`: of axis 0; those of the others follow after `axis_stride`.
  void fill(const double* positions, std::int64_t axis_stride, std::int64_t tokens, T* cos,
            T* sin) {
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
      cos += pairs_;
      sin += pairs_;
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

/// cos and sin of every token of a batch row of the positions, [heads, tokens, pairs]; the table's
/// adjoint changes the sign of sin.
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
      const std::int64_t head = task / blocks;
      const std::int64_t first = task % blocks * kTableBlock;
      const std::int64_t to = (head * tokens + first) * pairs;
      TableBlock<T> block(args.frequencies.const_data_ptr<double>() + head * pairs * axes, pairs,
                          axes, length);
      block.fill(at + first, axis_stride, std::min(kTableBlock, tokens - first), cos_data + to,
                 sin_data + to);
    }
  });
}

/// A view [batch, tokens, heads, head_dim] as [frequency heads, tokens, batch rows, head_dim]: of
/// the `member`-th head of each group, and of `rows` batch rows from `row` on.
template <typename View>
View heads_as_batch(const View& view, std::int64_t groups, std::int64_t member, std::int64_t row,
                    std::int64_t rows, std::size_t element_size) {
  const bool batched = view.rank == 4;
  const std::size_t tokens = batched ? 1 : 0;
  const std::int64_t batch_stride = batched ? view.strides[0] : 0;
  const std::int64_t group = view.shape[tokens + 1] / groups;
  View result = view;
  using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(view.data)>>,
                                  const char, char>;
  result.data =
      static_cast<Byte*>(view.data) + (row * batch_stride + member * view.strides[tokens + 1]) *
                                          static_cast<std::int64_t>(element_size);
  result.rank = 4;
  result.shape = {groups, view.shape[tokens], rows, view.shape[tokens + 2]};
  result.strides = {view.strides[tokens + 1] * group, view.strides[tokens], batch_stride,
                    view.strides[tokens + 2]};
  return result;
}

/// Operands that are rotated by one table.
void rotate_group(at::TensorList from, at::TensorList to, const PerHeadArgs& args,
                  const TableRope& table, std::int64_t row, bool one_row) {
  const std::int64_t groups = args.frequencies.size(0);
  for (std::size_t i = 0; i < from.size(); ++i) {
    const ConstTensorView in = heads_view("rotate_per_head", from[i], args.token_dim);
    const TensorView out = writable_heads_view("rotate_per_head", to[i], args.token_dim);
    const std::int64_t rows = one_row || in.rank == 3 ? 1 : in.shape[0];
    const std::int64_t heads = in.shape[static_cast<std::size_t>(in.rank - 2)];
    for (std::int64_t member = 0; member < heads / groups; ++member) {
      const std::size_t size = from[i].element_size();
      const Operand operand(heads_as_batch(in, groups, member, row, rows, size),
                            heads_as_batch(out, groups, member, row, rows, size));
      if (phase_sign(args.op) > 0.0) {
        table.rotate(operand);
      } else {
        table.adjoint(operand);
      }
    }
  }
}

template <typename T>
void rotate_by_head_tables(at::TensorList from, at::TensorList to, const PerHeadArgs& args,
                           const SharedRope& rope) {
  const at::Tensor& f = args.frequencies;
  const std::int64_t rows = args.positions.size(1);
  const at::TensorOptions options = at::TensorOptions(c10::CppTypeToScalarType<T>::value);
  const at::Tensor cos = at::empty({f.size(0), args.positions.size(2), f.size(1)}, options);
  const at::Tensor sin = at::empty_like(cos);
  const TableRope table({plain_view("rotate_per_head", cos), plain_view("rotate_per_head", sin)},
                        rope.layout(), TableWidth::kPairs, rope.rope().options().threads);
  for (std::int64_t row = 0; row < rows; ++row) {
    fill_head_tables<T>(args, rope, row, cos, sin);
    rotate_group(from, to, args, table, row, /*one_row=*/rows > 1);
  }
}

/// Where the elements of pair i are in a head.
struct PairPlaces {
  std::int64_t first;
  std::int64_t second;
  std::int64_t step;
};
PairPlaces places_of(Pairing pairing, const SharedRope& rope) {
  const std::int64_t begin = rope.layout().rotary_offset;
  if (pairing == Pairing::kHalf) return {begin, begin + rope.frequencies().pairs, 1};
  return {begin, begin + 1, 2};
}

/// Adds Im(conj(x) g) of one head to `angle`, [pairs], and Re(conj(x) g) to `length`, [pairs].
template <typename T, typename Sum>
void add_head(const T* x, const T* g, const PairPlaces& at, std::int64_t pairs, Sum* angle,
              Sum* length) {
  for (std::int64_t i = 0; i < pairs; ++i) {
    const Sum xx = static_cast<Sum>(x[at.first + i * at.step]);
    const Sum xy = static_cast<Sum>(x[at.second + i * at.step]);
    const Sum gx = static_cast<Sum>(g[at.first + i * at.step]);
    const Sum gy = static_cast<Sum>(g[at.second + i * at.step]);
    angle[i] += gy * xx - gx * xy;
    length[i] += gx * xx + gy * xy;
  }
}

/// The sums of a block of tokens over one tensor: frequencies [heads, pairs, axes] and log(scale).
template <typename T>
void add_block(const at::Tensor& tensor, const at::Tensor& grad, const PerHeadArgs& args,
               const SharedRope& rope, std::int64_t first, std::int64_t last, double* sums,
               double* length_sum) {
  using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const at::Tensor x = tensor.dim() == 4 ? tensor : tensor.unsqueeze(0);
  const at::Tensor g = grad.dim() == 4 ? grad : grad.unsqueeze(0);
  const std::int64_t token = args.token_dim == -3 ? 1 : 2;
  const std::int64_t head = 3 - token;
  const std::int64_t groups = args.frequencies.size(0);
  const auto pairs = args.frequencies.size(1);
  const auto axes = args.frequencies.size(2);
  const std::int64_t group = x.size(head) / groups;
  const PairPlaces places = places_of(input_pairing(args.op, rope.layout()), rope);
  const at::Tensor& positions = args.positions;
  const std::int64_t axis_stride = positions.size(0) == 1 ? 0 : positions.stride(0);
  const std::int64_t row_stride = positions.size(1) == 1 ? 0 : positions.stride(1);
  const T* x_data = x.const_data_ptr<T>();
  const T* g_data = g.const_data_ptr<T>();
  const double* at = positions.const_data_ptr<double>();
  std::vector<Sum> both(static_cast<std::size_t>(2 * pairs));
  for (std::int64_t b = 0; b < x.size(0); ++b) {
    for (std::int64_t t = first; t < last; ++t) {
      for (std::int64_t f = 0; f < groups; ++f) {
        std::fill(both.begin(), both.end(), Sum{0});
        for (std::int64_t h = f * group; h < (f + 1) * group; ++h) {
          add_head(x_data + b * x.stride(0) + t * x.stride(token) + h * x.stride(head),
                   g_data + b * g.stride(0) + t * g.stride(token) + h * g.stride(head), places,
                   pairs, both.data(), both.data() + pairs);
        }
        double* to = sums + f * pairs * axes;
        for (std::int64_t a = 0; a < axes; ++a) {
          const double position = at[a * axis_stride + b * row_stride + t];
          for (std::int64_t i = 0; i < pairs; ++i) {
            to[i * axes + a] += position * static_cast<double>(both[static_cast<std::size_t>(i)]);
          }
        }
        for (std::int64_t i = pairs; i < 2 * pairs; ++i) {
          *length_sum += static_cast<double>(both[static_cast<std::size_t>(i)]);
        }
      }
    }
  }
}

auto add_block_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return add_block<double>;
    case at::kBFloat16:
      return add_block<at::BFloat16>;
    case at::kHalf:
      return add_block<at::Half>;
    default:
      return add_block<float>;
  }
}

at::Tensor with_dense_heads(const at::Tensor& x) { return x.stride(-1) == 1 ? x : x.contiguous(); }

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

PerHeadGradients per_head_gradient_on_cpu(at::TensorList tensors, at::TensorList grads,
                                          const PerHeadArgs& args) {
  const auto rope = find_rope(args.rope);
  PerHeadArgs back = args;
  back.op = transpose(args.op);
  PerHeadGradients all{.inputs = rotate_per_head_on_cpu(grads, back)};

  const std::int64_t tokens = args.positions.size(2);
  const std::int64_t blocks = (tokens + kGradientBlock - 1) / kGradientBlock;
  const std::int64_t entries = args.frequencies.numel();
  std::vector<double> sums(static_cast<std::size_t>(blocks * (entries + 1)));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor x = with_dense_heads(tensors[i]);
    const at::Tensor g = with_dense_heads(all.inputs[i]);
    const auto add = add_block_of(x.scalar_type());
    at::parallel_for(0, blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        double* to = sums.data() + block * (entries + 1);
        const std::int64_t first = block * kGradientBlock;
        add(x, g, args, *rope, first, std::min(tokens, first + kGradientBlock), to, to + entries);
      }
    });
  }
  const at::TensorOptions options = at::TensorOptions(at::kDouble);
  all.frequencies = at::zeros(args.frequencies.sizes(), options);
  all.log_scale = at::zeros({1}, options);
  double* f = all.frequencies.mutable_data_ptr<double>();
  double* s = all.log_scale.mutable_data_ptr<double>();
  for (std::int64_t block = 0; block < blocks; ++block) {
    const double* from = sums.data() + block * (entries + 1);
    for (std::int64_t i = 0; i < entries; ++i) f[i] += phase_sign(args.op) * from[i];
    *s += divides_by_scale(args.op) ? -from[entries] : from[entries];
  }
  return all;
}

}  // namespace rotary::torch
