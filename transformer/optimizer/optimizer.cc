// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A training step over flat buffers: kernels on CUDA, PyTorch operators elsewhere.

#include "rotary/transformer/optimizer.h"

#include <ATen/DeviceGuard.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "pytorch/cuda_stream.h"
#include "transformer/kernels/aligned.h"
#include "transformer/kernels/launch.h"
#include "transformer/optimizer/kernels.h"

namespace rotary::transformer {
namespace {

#ifdef ROTARY_TORCH_CUDA_KERNELS
constexpr bool kHasKernels = true;
#else
constexpr bool kHasKernels = false;
#endif

void check_flat(const char* name, const char* which, const at::Tensor& x, std::int64_t size,
                at::Device device) {
  TORCH_CHECK_VALUE(x.dim() == 1 && x.size(0) == size && x.is_contiguous() && is_aligned(x) &&
                        x.scalar_type() == at::kFloat && x.device() == device,
                    "[", name, "] ", which, " must be [", size, "] of float32 on ", device,
                    ", contiguous and aligned to 16 bytes, got ", x.sizes(), " of ",
                    x.scalar_type(), " on ", x.device());
}

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();

bool is_narrow(at::ScalarType type) { return type == at::kBFloat16 || type == at::kHalf; }

#ifdef ROTARY_TORCH_CUDA_KERNELS

void gather_on_device(const at::Tensor& flat, const std::vector<SegmentSource>& sources,
                      bool accumulate) {
  const at::OptionalDeviceGuard guard(flat.device());
  cuda::GatherSegments params;
  params.accumulate = accumulate;
  std::uint32_t blocks = 0;
  // Copies are held until the launch; the allocator then reuses their memory in stream order.
  std::vector<at::Tensor> held;
  const auto launch = [&] {
    if (params.segments > 0) {
      check_launch("gather_segments",
                   cuda::launch_gather_segments(params, blocks, torch::stream_of(flat).handle));
    }
    params.segments = 0;
    blocks = 0;
  };
  for (const SegmentSource& source : sources) {
    if (source.from.numel() == 0) continue;
    held.push_back(aligned(source.from));
    const int n = params.segments++;
    params.from[n] = held.back().const_data_ptr();
    params.to[n] = flat.mutable_data_ptr<float>() + source.offset;
    params.count[n] = source.from.numel();
    params.type[n] = element_type(source.from.scalar_type());
    params.first_block[n] = blocks;
    blocks +=
        static_cast<std::uint32_t>((params.count[n] + cuda::kGatherBlock - 1) / cuda::kGatherBlock);
    if (params.segments == cuda::kMaxGatherSegments) launch();
  }
  launch();
}

void add_rows_on_device(const at::Tensor& table, const at::Tensor& rows, const at::Tensor& values,
                        std::int64_t skipped) {
  const at::OptionalDeviceGuard guard(table.device());
  // As PyTorch's own indexing on CUDA, without waiting for the device.
  at::_assert_async(at::logical_and(rows.ge(0), rows.lt(table.size(0))).all(),
                    "[add_rows] rows must be row numbers of the table");
  const auto [sorted, order] = at::sort(rows.to(at::kInt), /*stable=*/true, 0, false);
  const at::Tensor from = aligned(values);
  const at::Tensor open =
      at::empty({cuda::row_chunks(rows.numel()), 2, table.size(1)}, table.options());
  const cuda::AddRows params{.table = table.mutable_data_ptr<float>(),
                             .rows = sorted.const_data_ptr<std::int32_t>(),
                             .order = order.const_data_ptr<std::int64_t>(),
                             .values = from.const_data_ptr(),
                             .open = open.mutable_data_ptr<float>(),
                             .count = rows.numel(),
                             .width = static_cast<int>(table.size(1)),
                             .skipped = static_cast<std::int32_t>(skipped)};
  check_launch("add_rows", cuda::launch_add_rows(params, element_type(from.scalar_type()),
                                                 torch::stream_of(table).handle));
}

void adamw_on_device(const AdamWState& state, const at::Tensor& gradients,
                     const at::Tensor& divisor, const at::Tensor& skip,
                     const AdamWOptions& options) {
  const at::OptionalDeviceGuard guard(state.values.device());
  const at::Tensor corrections = at::empty({2}, state.values.options());
  cuda::AdamW params{.values = state.values.mutable_data_ptr<float>(),
                     .first = state.first.mutable_data_ptr<float>(),
                     .second = state.second.mutable_data_ptr<float>(),
                     .gradients = gradients.const_data_ptr<float>(),
                     .steps = state.steps.mutable_data_ptr<float>(),
                     .divisor = divisor.const_data_ptr<float>(),
                     .skip = skip.const_data_ptr<float>(),
                     .corrections = corrections.mutable_data_ptr<float>(),
                     .size = state.values.size(0),
                     .num_decaying = options.num_decaying,
                     .learning_rate = options.learning_rate,
                     .beta1 = options.beta1,
                     .beta2 = options.beta2,
                     .epsilon = static_cast<float>(options.epsilon),
                     .weight_decay = static_cast<float>(options.weight_decay)};
  if (state.narrow) {
    params.narrow = state.narrow->mutable_data_ptr();
    params.narrow_type = element_type(state.narrow->scalar_type());
  }
  if (options.rate.defined()) params.rate = options.rate.const_data_ptr<double>();
  check_launch("adamw", cuda::launch_adamw(params, torch::stream_of(state.values).handle));
}

at::Tensor norms_on_device(const at::Tensor& flat, const at::Tensor& chunks,
                           const at::Tensor& first_chunks) {
  const at::OptionalDeviceGuard guard(flat.device());
  const at::Tensor sums = at::empty({chunks.size(0)}, flat.options());
  const at::Tensor norms = at::empty({first_chunks.size(0) - 1}, flat.options());
  void* stream = torch::stream_of(flat).handle;
  if (chunks.size(0) > 0) {
    check_launch("SegmentNorms",
                 cuda::launch_square_sums(flat.const_data_ptr<float>(),
                                          chunks.const_data_ptr<std::int64_t>(),
                                          sums.mutable_data_ptr<float>(), chunks.size(0), stream));
  }
  check_launch("SegmentNorms",
               cuda::launch_segment_norms(sums.const_data_ptr<float>(),
                                          first_chunks.const_data_ptr<std::int64_t>(),
                                          norms.mutable_data_ptr<float>(), norms.size(0), stream));
  return norms;
}

void clip_and_check_on_device(const GradNormState& state, std::int64_t step, double clip_norm) {
  const at::OptionalDeviceGuard guard(state.norms.device());
  cuda::GradNorm params{.sums = state.sums.const_data_ptr<double>(),
                        .norms = state.norms.mutable_data_ptr<float>(),
                        .norm = state.norm.mutable_data_ptr<float>(),
                        .divisor = state.divisor.mutable_data_ptr<float>(),
                        .nonfinite = state.nonfinite.mutable_data_ptr<float>(),
                        .nonfinite_step = state.nonfinite_step.mutable_data_ptr<double>(),
                        .nonfinite_norms = state.nonfinite_norms.mutable_data_ptr<float>(),
                        .segments = state.norms.size(0),
                        .step = step,
                        .clip_norm = static_cast<float>(clip_norm)};
  if (state.step.defined()) params.step_on_device = state.step.const_data_ptr<double>();
  check_launch("clip_and_check",
               cuda::launch_clip_and_check(params, torch::stream_of(state.norms).handle));
}

#else

void clip_and_check_on_device(const GradNormState&, std::int64_t, double) {}
void gather_on_device(const at::Tensor&, const std::vector<SegmentSource>&, bool) {}
void add_rows_on_device(const at::Tensor&, const at::Tensor&, const at::Tensor&, std::int64_t) {}
void adamw_on_device(const AdamWState&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                     const AdamWOptions&) {}
at::Tensor norms_on_device(const at::Tensor&, const at::Tensor&, const at::Tensor&) { return {}; }

#endif

/// Elements [begin, end) by PyTorch's fused AdamW.
void adamw_range(const AdamWState& state, const at::Tensor& gradients, const at::Tensor& divisor,
                 const at::Tensor& skip, const AdamWOptions& options, std::int64_t begin,
                 std::int64_t end, double decay) {
  if (begin == end) return;
  const double rate = options.rate.defined() ? options.rate.item<double>() : 1.0;
  const auto slice = [&](const at::Tensor& x) { return x.narrow(0, begin, end - begin); };
  at::_fused_adamw_({slice(state.values)}, {slice(gradients)}, {slice(state.first)},
                    {slice(state.second)}, /*max_exp_avg_sqs=*/{}, {state.steps},
                    options.learning_rate * rate, options.beta1, options.beta2, decay,
                    options.epsilon,
                    /*amsgrad=*/false, /*maximize=*/false, divisor, skip);
}

}  // namespace

void gather_segments(const at::Tensor& flat, const std::vector<SegmentSource>& sources,
                     bool accumulate) {
  const at::NoGradGuard no_grad;
  check_flat("gather_segments", "flat", flat, flat.numel(), flat.device());
  for (const SegmentSource& source : sources) {
    const at::ScalarType type = source.from.scalar_type();
    TORCH_CHECK_VALUE(
        (type == at::kFloat || is_narrow(type)) && source.offset >= 0 && source.offset % 4 == 0 &&
            source.offset <= flat.size(0) - source.from.numel() &&
            source.from.device() == flat.device(),
        "[gather_segments] a segment must be of float32, bfloat16 or float16 on ", flat.device(),
        ", begin at a multiple of 4, and lie in [0, ", flat.size(0), "), got ", source.from.numel(),
        " elements of ", type, " on ", source.from.device(), " at ", source.offset);
  }
  if (flat.is_cuda() && kHasKernels) return gather_on_device(flat, sources, accumulate);
  for (const SegmentSource& source : sources) {
    const at::Tensor to =
        flat.narrow(0, source.offset, source.from.numel()).view(source.from.sizes());
    accumulate ? to.add_(source.from) : to.copy_(source.from);
  }
}

void add_rows(const at::Tensor& table, const at::Tensor& rows, const at::Tensor& values,
              std::int64_t skipped) {
  const at::NoGradGuard no_grad;
  TORCH_CHECK_VALUE(
      table.dim() == 2 && table.is_contiguous() && is_aligned(table) &&
          table.scalar_type() == at::kFloat,
      "[add_rows] table must be [count, width] of float32, contiguous and aligned to 16 bytes");
  const at::ScalarType type = values.scalar_type();
  TORCH_CHECK_VALUE(rows.dim() == 1 && rows.scalar_type() == at::kLong && values.dim() == 2 &&
                        values.size(0) == rows.size(0) && values.size(1) == table.size(1) &&
                        (type == at::kFloat || is_narrow(type)) &&
                        rows.device() == table.device() && values.device() == table.device(),
                    "[add_rows] values must be [", rows.numel(), ", ", table.size(1),
                    "] of float32, bfloat16 or float16, and rows int64, on ", table.device(),
                    ", got ", values.sizes(), " of ", type, " on ", values.device(), " and ",
                    rows.scalar_type(), " on ", rows.device());
  if (rows.numel() == 0) return;
  const bool fits = table.size(1) % 8 == 0 && table.size(1) <= kMaxInt && table.size(0) <= kMaxInt;
  if (table.is_cuda() && kHasKernels && fits) {
    return add_rows_on_device(table, rows, values, skipped);
  }
  at::Tensor wide = values.to(at::kFloat);
  if (skipped >= 0) wide = at::where(rows.eq(skipped).unsqueeze(1), 0.0, wide);
  const at::Tensor sums = at::zeros_like(table);
  sums.index_add_(0, rows, wide);
  table.add_(sums);
}

SegmentNorms::SegmentNorms(std::vector<Segment> segments, at::Device device)
    : segments_(std::move(segments)) {
  std::vector<std::int64_t> chunks;
  std::vector<std::int64_t> first_chunks = {0};
  for (const Segment& segment : segments_) {
    TORCH_CHECK_VALUE(segment.offset >= 0 && segment.offset % 4 == 0 && segment.size >= 0,
                      "[SegmentNorms] a segment must begin at a multiple of 4, got ",
                      segment.offset);
    const std::int64_t end = segment.offset + segment.size;
    for (std::int64_t first = segment.offset; first < end; first += cuda::kNormChunk) {
      chunks.push_back(first);
      chunks.push_back(std::min(end, first + cuda::kNormChunk));
    }
    first_chunks.push_back(static_cast<std::int64_t>(chunks.size()) / 2);
  }
  if (!device.is_cuda()) return;
  chunks_ = at::tensor(chunks, at::kLong).view({-1, 2}).to(device);
  first_chunks_ = at::tensor(first_chunks, at::kLong).to(device);
}

at::Tensor SegmentNorms::of(const at::Tensor& flat) const {
  const at::NoGradGuard no_grad;
  check_flat("SegmentNorms", "flat", flat, flat.numel(), flat.device());
  for (const Segment& segment : segments_) {
    TORCH_CHECK_VALUE(segment.offset <= flat.size(0) - segment.size,
                      "[SegmentNorms] flat must have the segment of ", segment.size,
                      " elements at ", segment.offset, ", got ", flat.size(0), " elements");
  }
  if (flat.is_cuda() && kHasKernels) return norms_on_device(flat, chunks_, first_chunks_);
  std::vector<at::Tensor> views;
  for (const Segment& segment : segments_)
    views.push_back(flat.narrow(0, segment.offset, segment.size));
  // In double: PyTorch's float32 sums of long segments lose digits, how many depends on the CPU.
  return at::stack(at::_foreach_norm(views, 2, at::kDouble)).to(at::kFloat);
}

void clip_and_check(const GradNormState& state, std::int64_t step, double clip_norm) {
  const at::NoGradGuard no_grad;
  const auto check = [&](const char* which, const at::Tensor& x, std::int64_t size,
                         at::ScalarType type) {
    TORCH_CHECK_VALUE(x.dim() == 1 && x.size(0) == size && x.scalar_type() == type &&
                          x.is_contiguous() && x.device() == state.norms.device(),
                      "[clip_and_check] ", which, " must be [", size, "] of ", type,
                      " on the device of the norms");
  };
  TORCH_CHECK_VALUE(state.norms.dim() == 1, "[clip_and_check] norms must be [segments]");
  const std::int64_t segments = state.norms.size(0);
  check("sums", state.sums, 3, at::kDouble);
  check("norms", state.norms, segments, at::kFloat);
  check("norm", state.norm, 1, at::kFloat);
  check("divisor", state.divisor, 1, at::kFloat);
  check("nonfinite", state.nonfinite, 1, at::kFloat);
  check("nonfinite_step", state.nonfinite_step, 1, at::kDouble);
  check("nonfinite_norms", state.nonfinite_norms, segments, at::kFloat);
  if (state.step.defined()) check("step", state.step, 1, at::kDouble);
  if (state.norms.is_cuda() && kHasKernels) return clip_and_check_on_device(state, step, clip_norm);
  const at::Tensor labels = state.sums.narrow(0, 1, 1).clamp_min(1).to(at::kFloat);
  state.norms.div_(labels);
  state.norm.copy_(at::norm(state.norms));
  const at::Tensor fine =
      at::isfinite(state.norm).logical_and_(at::isfinite(state.sums.narrow(0, 0, 1)));
  const at::Tensor first = fine.logical_not_().logical_and_(state.nonfinite.eq(0));
  if (state.step.defined()) {
    state.nonfinite_step.copy_(at::where(first, state.step, state.nonfinite_step));
  } else {
    state.nonfinite_step.masked_fill_(first, static_cast<double>(step));
  }
  state.nonfinite_norms.copy_(at::where(first, state.norms, state.nonfinite_norms));
  state.nonfinite.masked_fill_(first, 1.0);
  state.divisor.copy_(clip_norm > 0.0 ? labels * (state.norm / clip_norm).clamp_min_(1.0) : labels);
}

void adamw_(const AdamWState& state, const at::Tensor& gradients, const at::Tensor& divisor,
            const at::Tensor& skip, const AdamWOptions& options) {
  const at::NoGradGuard no_grad;
  const std::int64_t size = state.values.numel();
  const at::Device device = state.values.device();
  check_flat("adamw", "values", state.values, size, device);
  check_flat("adamw", "first", state.first, size, device);
  check_flat("adamw", "second", state.second, size, device);
  check_flat("adamw", "gradients", gradients, size, device);
  for (const at::Tensor* one : {&state.steps, &divisor, &skip}) {
    TORCH_CHECK_VALUE(
        one->numel() == 1 && one->scalar_type() == at::kFloat &&
            one->device() == state.values.device(),
        "[adamw] steps, divisor and skip must be [1] of float32 on the device of the values");
  }
  TORCH_CHECK_VALUE(
      !state.narrow || (state.narrow->numel() == size && state.narrow->is_contiguous() &&
                        is_aligned(*state.narrow) && is_narrow(state.narrow->scalar_type()) &&
                        state.narrow->device() == device),
      "[adamw] narrow must be [", size, "] of bfloat16 or float16 on ", device,
      ", contiguous and aligned to 16 bytes");
  TORCH_CHECK_VALUE(!options.rate.defined() ||
                        (options.rate.numel() == 1 && options.rate.scalar_type() == at::kDouble &&
                         options.rate.device() == device),
                    "[adamw] rate must be [1] of float64 on ", device);
  TORCH_CHECK_VALUE(size % 4 == 0 && options.num_decaying % 4 == 0,
                    "[adamw] sizes must be multiples of 4, got ", size, " and ",
                    options.num_decaying);
  if (size == 0) return;
  if (state.values.is_cuda() && kHasKernels) {
    return adamw_on_device(state, gradients, divisor, skip, options);
  }
  state.steps.add_(1 - skip);
  const std::int64_t border = std::clamp<std::int64_t>(options.num_decaying, 0, size);
  adamw_range(state, gradients, divisor, skip, options, 0, border, options.weight_decay);
  adamw_range(state, gradients, divisor, skip, options, border, size, 0.0);
  if (state.narrow) state.narrow->copy_(state.values);
}

}  // namespace rotary::transformer
