// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The launches of a gradient, and the memory that they work in:
//   sums       [pairs * axes + 1, chunks]  doubles
//   positions  [axes, batch, tokens]       doubles, where there are several batch rows

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "cuda/angles.h"
#include "cuda/gradient.h"
#include "cuda/part.h"

namespace rotary::internal::cuda {
namespace {

constexpr std::int64_t kMostChunks = 2048;
constexpr std::int64_t kLeastRows = 16;     // of a chunk,
constexpr std::int64_t kLeastPairs = 1024;  // and of all its rows: 8 for each of 128 threads
constexpr std::int64_t kPackBytes = 16;

std::int64_t chunk_rows(std::int64_t rows, std::int64_t pairs) noexcept {
  const std::int64_t least =
      std::clamp<std::int64_t>(kLeastPairs / std::max<std::int64_t>(pairs, 1), kLeastRows, 128);
  const std::int64_t wanted = (rows + kMostChunks - 1) / kMostChunks;
  return std::max<std::int64_t>(1, (wanted + least - 1) / least) * least;
}

std::int64_t chunk_count(std::int64_t rows, std::int64_t pairs) noexcept {
  const std::int64_t size = chunk_rows(rows, pairs);
  return (rows + size - 1) / size;
}

bool is_double(const GradientOperand& x) noexcept { return x.in.dtype == DType::kFloat64; }

/// Whether a view's heads lie in packs.
bool has_packs(const ConstTensorView& view, const Job& job) noexcept {
  const auto size = static_cast<std::int64_t>(size_of(view.dtype));
  const auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(view.data));
  const auto whole = [](std::int64_t bytes) { return bytes % kPackBytes == 0; };
  return view.strides[3] == 1 && whole(address) && whole(view.strides[0] * size) &&
         whole(view.strides[1] * size) && whole(view.strides[2] * size) &&
         whole(job.rotary_offset * size) && whole(job.pairs * size);
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

/// The launches of one job; each fills the parts of `p` that differ.
class Launches {
 public:
  Launches(const GradientJob& job, bool overlaps, cudaStream_t stream) noexcept
      : job_(job),
        wanted_(job.parameters),
        batch_(job.tensors.front().in.shape[0]),
        tokens_(job.tensors.front().in.shape[1]),
        overlaps_(overlaps),
        stream_(stream) {}

  cudaError_t run() noexcept {
    const auto doubles = std::count_if(job_.tensors.begin(), job_.tensors.end(), is_double);
    const bool all = doubles == static_cast<std::ptrdiff_t>(job_.tensors.size());
    cudaError_t error = cudaSuccess;
    if (!all) error = sum_tensors(false, false);
    if (error == cudaSuccess && doubles > 0) error = sum_tensors(true, !all);
    if (error == cudaSuccess) error = finish_sums();
    return error == cudaSuccess ? finish_positions() : error;
  }

 private:
  std::int64_t rows() const noexcept { return batch_ * tokens_; }
  std::int64_t chunks() const noexcept { return chunk_count(rows(), job_.frequencies.pairs); }
  double* sums() const noexcept { return reinterpret_cast<double*>(wanted_.workspace.data()); }
  double* positions() const noexcept {
    return sums() + (job_.frequencies.pairs * job_.frequencies.axes + 1) * chunks();
  }
  /// Whether all batch rows share positions, so that their gradients are added up afterwards.
  bool shares_positions() const noexcept {
    return wanted_.positions.data != nullptr && wanted_.positions.shape[1] != batch_;
  }

  void fill(bool doubles, GradientParams& p) const noexcept {
    const Job& forward = job_.forward;
    const Rows all{.batch = batch_, .tokens = tokens_};
    fill_positions(forward.positions, all, p.positions);
    fill_size(forward.source, forward.direction, p);
    p.tokens = tokens_;
    p.rotary_offset = static_cast<std::int32_t>(forward.rotary_offset);
    p.pairs = static_cast<std::int32_t>(forward.pairs);
    p.read = forward.read;
    p.write = forward.write;
    p.overlaps = overlaps_;
    p.rows = rows();
    p.chunk_rows = chunk_rows(rows(), job_.frequencies.pairs);
    p.chunks = static_cast<std::int32_t>(chunks());
    p.sums = sums();
    p.wants_frequencies = !wanted_.frequencies.empty();
    p.wants_scale = wanted_.scale != nullptr;
    p.one_place = p.axes == 1 || forward.positions.same_on_all_axes();
    p.packed = forward.read == forward.write &&
               forward.pairs % (doubles ? kDoublePairs : kFloatPairs) == 0;
    for (const GradientOperand& x : job_.tensors) {
      if (is_double(x) != doubles) continue;
      p.tensors[p.num_tensors++] = make_tensor(x);
      p.packed = p.packed && has_packs(x.in, forward) && has_packs(x.grad_out, forward);
    }
    fill_to_positions(p);
  }

  void fill_to_positions(GradientParams& p) const noexcept {
    const TensorView& view = wanted_.positions;
    if (view.data == nullptr) return;
    p.position_axes = static_cast<std::int32_t>(view.shape[0]);
    if (shares_positions()) {
      p.to_positions = positions();
      p.position_strides[0] = batch_ * tokens_;
      p.position_strides[1] = tokens_;
      p.position_strides[2] = 1;
      return;
    }
    p.to_positions = static_cast<double*>(view.data);
    for (std::size_t i = 0; i < 3; ++i) p.position_strides[i] = view.strides[i];
  }

  /// The frequencies themselves, which the gradient of a position is made of.
  void fill_values(PairRange pairs, std::int32_t used, GradientParams& p) const noexcept {
    p.values = used;
    for (std::int64_t a = 0; a < p.axes; ++a) {
      for (std::int64_t i = 0; i < pairs.count; ++i) {
        p.words[used++] = std::bit_cast<std::uint64_t>(job_.frequencies(pairs.first + i, a));
      }
    }
  }

  /// All tensors of one arithmetic. `again`: the others are summed already.
  cudaError_t sum_tensors(bool doubles, bool again) const noexcept {
    GradientParams p{};
    fill(doubles, p);
    const Job& forward = job_.forward;
    PairRange pairs{};
    const std::int64_t step = most_pairs(forward.source, forward.positions, 1);
    if (p.packed && step % (doubles ? kDoublePairs : kFloatPairs) != 0) p.packed = false;
    for (; pairs.first < forward.pairs; pairs.first += step) {
      pairs.count = std::min(step, forward.pairs - pairs.first);
      p.first_pair = static_cast<std::int32_t>(pairs.first);
      p.pair_count = static_cast<std::int32_t>(pairs.count);
      fill_values(pairs, fill_words(forward.source, forward.positions, pairs, p), p);
      p.adds_to_frequencies = again;
      p.adds_to_others = again || pairs.first > 0;
      const cudaError_t error = sum_gradients(p, doubles, stream_);
      if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
  }

  cudaError_t finish_sums() const noexcept {
    const bool some = !wanted_.frequencies.empty();
    return add_chunks({.sums = sums(),
                       .chunks = chunks(),
                       .entries = job_.frequencies.pairs * job_.frequencies.axes,
                       .frequencies = some ? wanted_.frequencies.data() : nullptr,
                       .scale = wanted_.scale,
                       .divisor = job_.frequencies.scale,
                       .overlaps = overlaps_},
                      stream_);
  }

  cudaError_t finish_positions() const noexcept {
    if (!shares_positions()) return cudaSuccess;
    const TensorView& view = wanted_.positions;
    return add_batches({.from = positions(),
                        .to = static_cast<double*>(view.data),
                        .to_axis = view.strides[0],
                        .to_token = view.strides[2],
                        .axes = view.shape[0],
                        .batch = batch_,
                        .tokens = tokens_,
                        .overlaps = overlaps_},
                       stream_);
  }

  const GradientJob& job_;
  const ParameterGradients& wanted_;
  std::int64_t batch_;
  std::int64_t tokens_;
  bool overlaps_;
  cudaStream_t stream_;
};

}  // namespace

cudaError_t gradient_job(const GradientJob& job, bool overlaps, cudaStream_t stream) noexcept {
  return Launches(job, overlaps, stream).run();
}

}  // namespace rotary::internal::cuda

namespace rotary::internal {

std::size_t gradient_workspace_on_cuda(std::int64_t pairs, std::int64_t axes, std::int64_t batch,
                                       std::int64_t tokens) noexcept {
  if (batch <= 0 || tokens <= 0) return 0;
  // Sizes that no memory holds need more than there is.
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 64;
  if (batch > kMost / tokens || batch * tokens > kMost / (pairs * axes + 1)) {
    return std::numeric_limits<std::size_t>::max();
  }
  const std::int64_t sums = (pairs * axes + 1) * cuda::chunk_count(batch * tokens, pairs);
  const std::int64_t positions = batch > 1 ? axes * batch * tokens : 0;
  return static_cast<std::size_t>(sums + positions) * sizeof(double);
}

}  // namespace rotary::internal
