// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Launches the kernels of a gradient. Their workspace, in doubles:
//   partial sums        [pairs * axes + 1, chunks]
//   position gradients  [axes, batch, tokens], if there are several batch rows

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "cuda/angle_params.h"
#include "cuda/gradient.h"
#include "cuda/launch_split.h"

namespace rotary::internal::cuda {
namespace {

constexpr std::int64_t kMaxChunks = 2048;
constexpr std::int64_t kMinChunkRows = 16;
constexpr std::int64_t kMinChunkPairs = 1024;  // over all its rows: 8 for each of 128 threads

std::int64_t chunk_rows(std::int64_t rows, std::int64_t pairs) noexcept {
  const std::int64_t min_rows = std::clamp<std::int64_t>(
      kMinChunkPairs / std::max<std::int64_t>(pairs, 1), kMinChunkRows, 128);
  const std::int64_t wanted = (rows + kMaxChunks - 1) / kMaxChunks;
  return std::max<std::int64_t>(1, (wanted + min_rows - 1) / min_rows) * min_rows;
}

std::int64_t chunk_count(std::int64_t rows, std::int64_t pairs) noexcept {
  const std::int64_t size = chunk_rows(rows, pairs);
  return (rows + size - 1) / size;
}

bool is_double(const GradientOperand& x) noexcept { return x.in.dtype == DType::kFloat64; }

/// Whether address and strides are multiples of 16 bytes, and the rotary slice consists of packs.
bool is_vectorizable(const ConstTensorView& view, const RotateParams& params) noexcept {
  const auto size = static_cast<std::int64_t>(size_of(view.dtype));
  const auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(view.data));
  const auto is_aligned = [](std::int64_t bytes) { return bytes % kPackBytes == 0; };
  return view.strides[3] == 1 && is_aligned(address) && is_aligned(view.strides[0] * size) &&
         is_aligned(view.strides[1] * size) && is_aligned(view.strides[2] * size) &&
         is_aligned(params.rotary_offset * size) && is_aligned(params.pairs * size);
}

GradientTensor make_tensor(const GradientOperand& x) noexcept {
  GradientTensor tensor{.in = x.in.data,
                        .grad = x.grad_out.data,
                        .heads = static_cast<std::int32_t>(x.in.shape[2]),
                        .type = x.in.dtype};
  const auto size = static_cast<std::int64_t>(size_of(x.in.dtype));
  for (std::size_t i = 0; i < 4; ++i) {
    tensor.in_strides[i] = x.in.strides[i] * size;
    tensor.grad_strides[i] = x.grad_out.strides[i] * size;
  }
  return tensor;
}

/// Launches partial sums for each compute type and range of pairs, then the reductions.
class GradientLauncher {
 public:
  GradientLauncher(const GradientParams& params, bool overlaps, cudaStream_t stream) noexcept
      : params_(params),
        wanted_(params.parameters),
        batch_(params.tensors.front().in.shape[0]),
        tokens_(params.tensors.front().in.shape[1]),
        overlaps_(overlaps),
        stream_(stream) {}

  cudaError_t run() noexcept {
    const auto doubles = std::count_if(params_.tensors.begin(), params_.tensors.end(), is_double);
    const bool all = doubles == static_cast<std::ptrdiff_t>(params_.tensors.size());
    cudaError_t error = cudaSuccess;
    if (!all) error = sum_tensors(false, false);
    if (error == cudaSuccess && doubles > 0) error = sum_tensors(true, !all);
    if (error == cudaSuccess) error = reduce_partial_sums();
    return error == cudaSuccess ? reduce_positions() : error;
  }

 private:
  std::int64_t rows() const noexcept { return batch_ * tokens_; }
  std::int64_t chunks() const noexcept { return chunk_count(rows(), params_.frequencies.pairs); }
  double* partial_sums() const noexcept {
    return reinterpret_cast<double*>(wanted_.workspace.data());
  }
  double* position_grads() const noexcept {
    return partial_sums() + (params_.frequencies.pairs * params_.frequencies.axes + 1) * chunks();
  }
  /// Whether all batch rows share positions, so that their gradients are reduced over the batch.
  bool shares_positions() const noexcept {
    return wanted_.positions.data != nullptr && wanted_.positions.shape[1] != batch_;
  }

  void fill(bool doubles, GradientKernelParams& p) const noexcept {
    const RotateParams& forward = params_.forward;
    const TokenRange all{.batch = batch_, .tokens = tokens_};
    fill_positions(forward.positions, all, p.positions);
    fill_magnitude(forward.source, forward.direction, p);
    p.tokens = tokens_;
    p.rotary_offset = static_cast<std::int32_t>(forward.rotary_offset);
    p.pairs = static_cast<std::int32_t>(forward.pairs);
    p.read = forward.read;
    p.write = forward.write;
    p.overlaps = overlaps_;
    p.rows = rows();
    p.chunk_rows = chunk_rows(rows(), params_.frequencies.pairs);
    p.chunks = static_cast<std::int32_t>(chunks());
    p.partial_sums = partial_sums();
    p.wants_frequencies = !wanted_.frequencies.empty();
    p.wants_scale = wanted_.scale != nullptr;
    p.same_position = p.axes == 1 || forward.positions.same_on_all_axes();
    p.vectorized = forward.read == forward.write &&
                   forward.pairs % (doubles ? kDoublePairsPerThread : kFloatPairsPerThread) == 0;
    for (const GradientOperand& x : params_.tensors) {
      if (is_double(x) != doubles) continue;
      p.tensors[p.num_tensors++] = make_tensor(x);
      p.vectorized =
          p.vectorized && is_vectorizable(x.in, forward) && is_vectorizable(x.grad_out, forward);
    }
    fill_position_grads(p);
  }

  void fill_position_grads(GradientKernelParams& p) const noexcept {
    const TensorView& view = wanted_.positions;
    if (view.data == nullptr) return;
    p.position_axes = static_cast<std::int32_t>(view.shape[0]);
    if (shares_positions()) {
      p.position_grads = position_grads();
      p.position_strides[0] = batch_ * tokens_;
      p.position_strides[1] = tokens_;
      p.position_strides[2] = 1;
      return;
    }
    p.position_grads = static_cast<double*>(view.data);
    for (std::size_t i = 0; i < 3; ++i) p.position_strides[i] = view.strides[i];
  }

  /// Appends the frequencies in radians: factors of the position gradients.
  void fill_frequency_plane(PairRange pairs, std::int32_t used,
                            GradientKernelParams& p) const noexcept {
    p.frequency_plane = used;
    for (std::int64_t a = 0; a < p.axes; ++a) {
      for (std::int64_t i = 0; i < pairs.count; ++i) {
        p.words[used++] = std::bit_cast<std::uint64_t>(params_.frequencies(pairs.first + i, a));
      }
    }
  }

  /// Partial sums of all tensors of one compute type. `accumulates`: adds to those of the other
  /// type.
  cudaError_t sum_tensors(bool doubles, bool accumulates) const noexcept {
    GradientKernelParams p{};
    fill(doubles, p);
    const RotateParams& forward = params_.forward;
    PairRange pairs{};
    const std::int64_t step = max_pairs(forward.source, forward.positions, 1);
    if (p.vectorized && step % (doubles ? kDoublePairsPerThread : kFloatPairsPerThread) != 0) {
      p.vectorized = false;
    }
    for (; pairs.first < forward.pairs; pairs.first += step) {
      pairs.count = std::min(step, forward.pairs - pairs.first);
      p.first_pair = static_cast<std::int32_t>(pairs.first);
      p.pair_count = static_cast<std::int32_t>(pairs.count);
      fill_frequency_plane(pairs, fill_words(forward.source, forward.positions, pairs, p), p);
      p.accumulates_frequencies = accumulates;
      p.accumulates_others = accumulates || pairs.first > 0;
      const cudaError_t error = sum_gradients(p, doubles, stream_);
      if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
  }

  cudaError_t reduce_partial_sums() const noexcept {
    const bool wants_frequencies = !wanted_.frequencies.empty();
    return reduce_chunks({.partial_sums = partial_sums(),
                          .chunks = chunks(),
                          .entries = params_.frequencies.pairs * params_.frequencies.axes,
                          .frequencies = wants_frequencies ? wanted_.frequencies.data() : nullptr,
                          .scale = wanted_.scale,
                          .divisor = params_.frequencies.scale,
                          .overlaps = overlaps_},
                         stream_);
  }

  cudaError_t reduce_positions() const noexcept {
    if (!shares_positions()) return cudaSuccess;
    const TensorView& view = wanted_.positions;
    return reduce_batches({.from = position_grads(),
                           .to = static_cast<double*>(view.data),
                           .to_axis = view.strides[0],
                           .to_token = view.strides[2],
                           .axes = view.shape[0],
                           .batch = batch_,
                           .tokens = tokens_,
                           .overlaps = overlaps_},
                          stream_);
  }

  const GradientParams& params_;
  const ParameterGradients& wanted_;
  std::int64_t batch_;
  std::int64_t tokens_;
  bool overlaps_;
  cudaStream_t stream_;
};

}  // namespace

cudaError_t launch_gradient(const GradientParams& params, bool overlaps,
                            cudaStream_t stream) noexcept {
  return GradientLauncher(params, overlaps, stream).run();
}

}  // namespace rotary::internal::cuda

namespace rotary::internal {

std::size_t gradient_workspace_on_cuda(std::int64_t pairs, std::int64_t axes, std::int64_t batch,
                                       std::int64_t tokens) noexcept {
  if (batch <= 0 || tokens <= 0) return 0;
  // Larger than any memory: the product below would overflow.
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max() / 64;
  if (batch > kMax / tokens || batch * tokens > kMax / (pairs * axes + 1)) {
    return std::numeric_limits<std::size_t>::max();
  }
  const std::int64_t sums = (pairs * axes + 1) * cuda::chunk_count(batch * tokens, pairs);
  const std::int64_t positions = batch > 1 ? axes * batch * tokens : 0;
  return static_cast<std::size_t>(sums + positions) * sizeof(double);
}

}  // namespace rotary::internal
