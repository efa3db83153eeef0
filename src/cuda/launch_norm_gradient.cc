// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/angle_params.h"
#include "cuda/launch_split.h"
#include "cuda/norm_gradient.h"

namespace rotary::internal {
namespace cuda {
namespace {

std::int64_t slices_of(std::int64_t count) noexcept { return std::min(count, kNormGradientSlices); }

struct GradientCall {
  const NormParams& params;
  std::span<const NormGradientTensors> tensors;
  std::span<std::byte> workspace;
  bool overlaps;
  cudaStream_t stream;
};

/// Operands of one launch: the same type, from `first` on.
struct GradientGroup {
  std::size_t first = 0;
  int count = 0;
};

std::int64_t weight_size(const NormParams& params, const ConstTensorView& x) noexcept {
  return params.norm.across_heads ? x.shape[2] * x.shape[3] : x.shape[3];
}

TensorView writable_view(const TensorView& view, const ConstTensorView& like) noexcept {
  if (view.data != nullptr) return view;
  TensorView none;  // not written
  none.dtype = like.dtype;
  none.rank = like.rank;
  none.shape = like.shape;
  none.strides = like.strides;
  return none;
}

/// Everything but the frequencies.
template <class Params>
void fill_common(const GradientCall& call, const GradientGroup& group, Params& p) noexcept {
  const NormParams& params = call.params;
  const RotateParams& rotation = params.rotation;
  const ConstTensorView& front = call.tensors[group.first].in;
  const TokenRange range{.batch = front.shape[0], .tokens = front.shape[1]};
  for (int k = 0; k < group.count; ++k) {
    const std::size_t i = group.first + static_cast<std::size_t>(k);
    const NormGradientTensors& x = call.tensors[i];
    const Operand input(x.in, writable_view(x.grad_in, x.in));
    fill_operand({.operand = &input, .heads = x.in.shape[2]}, range, p.operands[k]);
    if (x.grad_in.data == nullptr) p.operands[k].out = nullptr;
    const Operand gradient(x.grad_out, writable_view({}, x.grad_out));
    fill_operand({.operand = &gradient, .heads = x.in.shape[2]}, range, p.grads[k]);
    p.first_head[k] = p.num_heads;
    p.num_heads += static_cast<std::int32_t>(x.in.shape[2]);
    const DeviceNormTable& table = params.device_tables[i];
    p.fused[k] = {.weight = table.weight.data,
                  .weight_type = table.weight.dtype,
                  .head_dim = static_cast<std::int32_t>(x.in.shape[3]),
                  .normalizes = true};
    if (!x.grad_biases.empty()) p.has_biases = true;
  }
  bool wants_sums = false;  // without tokens the workspace is empty, and sums are 0
  for (int k = 0; k < group.count; ++k) {
    const NormGradientTensors& x = call.tensors[group.first + static_cast<std::size_t>(k)];
    p.partial_offset[k] = p.partial_size;
    p.partial_size += weight_size(params, x.in) * (p.has_biases ? 2 : 1);
    wants_sums = wants_sums || !x.grad_factors.empty() || !x.grad_biases.empty();
  }
  p.partial = wants_sums ? reinterpret_cast<double*>(call.workspace.data()) : nullptr;
  p.slices = static_cast<std::int32_t>(slices_of(front.shape[0] * front.shape[1]));
  p.num_operands = group.count;
  p.norm = {.eps = params.norm.eps,
            .sum_lanes = params.norm.sum_lanes,
            .has_mean = params.norm.has_mean,
            .adds_one = params.adds_one,
            .across_heads = params.norm.across_heads};
  p.tokens = front.shape[1];
  p.batch = static_cast<std::int32_t>(front.shape[0]);
  p.head_dim = static_cast<std::int32_t>(front.shape[3]);
  p.type = front.dtype;
  p.out_type = front.dtype;
  p.overlaps = call.overlaps;
  fill_positions(rotation.positions, range, p.positions);
  p.rotary_offset = static_cast<std::int32_t>(rotation.rotary_offset);
  p.pairs = static_cast<std::int32_t>(rotation.pairs);
  p.pair_count = p.pairs;
  p.read = rotation.read;
  p.write = rotation.write;
}

template <class Params>
cudaError_t launch_sums(const GradientCall& call, const GradientGroup& group,
                        const Params& p) noexcept {
  NormSumParams sums{.partial = p.partial,
                     .partial_size = p.partial_size,
                     .slices = p.slices,
                     .overlaps = call.overlaps};
  for (int k = 0; k < group.count; ++k) {
    const NormGradientTensors& x = call.tensors[group.first + static_cast<std::size_t>(k)];
    const std::int64_t size = weight_size(call.params, x.in);
    const auto add = [&](std::span<double> to, std::int64_t offset) {
      if (to.empty()) return;
      sums.parts[sums.num_parts++] = {.to = to.data(),
                                      .offset = p.partial_offset[k] + offset,
                                      .count = static_cast<std::int32_t>(size)};
    };
    add(x.grad_factors, 0);
    add(x.grad_biases, size);
  }
  return norm_gradient_sums(sums, call.stream);
}

template <class Params>
cudaError_t launch_group(const GradientCall& call, const GradientGroup& group) noexcept {
  const RotateParams& rotation = call.params.rotation;
  Params p{};
  fill_common(call, group, p);
  const PairRange all{.first = 0, .count = rotation.pairs};
  if constexpr (std::is_same_v<Params, NormGradientParams<TableParams>>) {
    const Dims& shape = call.tensors[group.first].in.shape;
    fill_table(rotation, {.batch = shape[0], .tokens = shape[1]}, p);
    p.conjugates = true;
  } else {
    fill_magnitude(rotation.source, rotation.direction, p);
    if constexpr (std::is_same_v<Params, NormGradientParams<SimpleParams>>) {
      fill_fractions(rotation.source, rotation.positions, all, p);
    } else {
      fill_words(rotation.source, rotation.positions, all, p);
    }
  }
  const cudaError_t error = norm_gradient(p, call.stream);
  if (error != cudaSuccess) return error;
  return launch_sums(call, group, p);
}

}  // namespace

cudaError_t launch_norm_gradient(const NormParams& params,
                                 std::span<const NormGradientTensors> tensors,
                                 std::span<std::byte> workspace, bool overlaps,
                                 cudaStream_t stream) noexcept {
  const GradientCall call{params, tensors, workspace, overlaps, stream};
  const RotateParams& rotation = params.rotation;
  const auto launch =
      rotation.source.table != nullptr ? launch_group<NormGradientParams<TableParams>>
      : rotation.pairs <= kMaxSimplePairs && is_simple(rotation.source, rotation.positions)
          ? launch_group<NormGradientParams<SimpleParams>>
          : launch_group<NormGradientParams<GeneralParams>>;
  GradientGroup group;
  for (; group.first < tensors.size(); group.first += static_cast<std::size_t>(group.count)) {
    group.count = 1;
    while (group.count < kOperandsPerLaunch &&
           group.first + static_cast<std::size_t>(group.count) < tensors.size() &&
           tensors[group.first + static_cast<std::size_t>(group.count)].in.dtype ==
               tensors[group.first].in.dtype) {
      ++group.count;
    }
    const cudaError_t error = launch(call, group);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace cuda

std::size_t norm_gradient_workspace_on_cuda(std::int64_t batch, std::int64_t tokens,
                                            std::int64_t weights) noexcept {
  return static_cast<std::size_t>(cuda::slices_of(batch * tokens) * weights * 2) * sizeof(double);
}

}  // namespace rotary::internal
