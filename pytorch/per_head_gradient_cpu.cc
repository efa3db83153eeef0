// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Gradients of frequencies of each head on the CPU: sums over tokens, in blocks of fixed size so that
// the order of additions does not depend on the number of threads.

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "pytorch/pairs.h"
#include "pytorch/per_head.h"

namespace rotary::torch {
namespace {

/// Tokens of one partial sum of the gradient.
constexpr std::int64_t kGradientBlock = 64;

/// Adds Im(conj(x) g) of one head to `angle`, [pairs], and Re(conj(x) g) to `length`, [pairs]. x and
/// g are the rotated elements of a head.
template <bool kHalf, typename T, typename Sum>
void add_head(const T* x, const T* g, std::int64_t pairs, Sum* angle, Sum* length) {
  for (std::int64_t i = 0; i < pairs; ++i) {
    const std::int64_t first = kHalf ? i : 2 * i;
    const std::int64_t second = kHalf ? i + pairs : 2 * i + 1;
    const Sum xx = static_cast<Sum>(x[first]);
    const Sum xy = static_cast<Sum>(x[second]);
    const Sum gx = static_cast<Sum>(g[first]);
    const Sum gy = static_cast<Sum>(g[second]);
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
  const bool half = input_pairing(args.op, rope.layout()) == Pairing::kHalf;
  const auto add = half ? add_head<true, T, Sum> : add_head<false, T, Sum>;
  const at::Tensor& positions = args.positions;
  const std::int64_t axis_stride = positions.size(0) == 1 ? 0 : positions.stride(0);
  const std::int64_t row_stride = positions.size(1) == 1 ? 0 : positions.stride(1);
  const T* x_data = x.const_data_ptr<T>() + rope.layout().rotary_offset;
  const T* g_data = g.const_data_ptr<T>() + rope.layout().rotary_offset;
  const double* at = positions.const_data_ptr<double>();
  std::vector<Sum> both(static_cast<std::size_t>(2 * pairs));
  for (std::int64_t b = 0; b < x.size(0); ++b) {
    for (std::int64_t t = first; t < last; ++t) {
      for (std::int64_t f = 0; f < groups; ++f) {
        std::fill(both.begin(), both.end(), Sum{0});
        for (std::int64_t h = f * group; h < (f + 1) * group; ++h) {
          add(x_data + b * x.stride(0) + t * x.stride(token) + h * x.stride(head),
              g_data + b * g.stride(0) + t * g.stride(token) + h * g.stride(head), pairs,
              both.data(), both.data() + pairs);
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
