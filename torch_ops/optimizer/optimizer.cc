// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A training step over flat tensors: kernels on CUDA, PyTorch's operators elsewhere.

#include <ATen/DeviceGuard.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "optimizer/optimizer_cuda.h"
#include "rotary/torch_optimizer.h"
#include "rotation/kernel_calls.h"

namespace rotary::torch {
namespace {

#ifdef ROTARY_TORCH_CUDA_KERNELS
constexpr bool kHasStepKernels = true;
#else
constexpr bool kHasStepKernels = false;
#endif

bool is_aligned(const at::Tensor& x) {
  return reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 16 == 0;
}

void check_flat(const char* name, const char* which, const at::Tensor& x, std::int64_t size) {
  TORCH_CHECK_VALUE(x.dim() == 1 && x.size(0) == size && x.is_contiguous() && is_aligned(x) &&
                        x.scalar_type() == at::kFloat,
                    "[", name, "] ", which, " must be [", size, "] of float32 without gaps, got ",
                    x.sizes(), " of ", x.scalar_type());
}

bool is_narrow(at::ScalarType type) { return type == at::kBFloat16 || type == at::kHalf; }

#ifdef ROTARY_TORCH_CUDA_KERNELS

void check_step(const char* name, int error) {
  TORCH_CHECK(error == 0, "[", name, "] CUDA error ", error);
}

cuda::PieceType piece_type(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat      ? cuda::PieceType::kFloat
         : x.scalar_type() == at::kBFloat16 ? cuda::PieceType::kBFloat16
                                            : cuda::PieceType::kFloat16;
}

void gather_on_device(const at::Tensor& flat, const std::vector<Piece>& pieces, bool adds) {
  const at::OptionalDeviceGuard guard(flat.device());
  cuda::Pieces job;
  job.adds = adds;
  std::uint32_t blocks = 0;
  std::vector<at::Tensor> held;  // until they are launched; memory is then reused in order
  const auto launch = [&] {
    if (job.pieces > 0) {
      check_step("gather_pieces", cuda::launch_gather(job, blocks, stream_of(flat).handle));
    }
    job.pieces = 0;
    blocks = 0;
  };
  for (const Piece& piece : pieces) {
    if (piece.from.numel() == 0) continue;
    const at::Tensor dense = piece.from.contiguous();
    held.push_back(is_aligned(dense) ? dense : dense.clone());
    const int n = job.pieces++;
    job.from[n] = held.back().const_data_ptr();
    job.to[n] = flat.mutable_data_ptr<float>() + piece.offset;
    job.count[n] = piece.from.numel();
    job.type[n] = piece_type(piece.from);
    job.first_block[n] = blocks;
    blocks +=
        static_cast<std::uint32_t>((job.count[n] + cuda::kPieceBlock - 1) / cuda::kPieceBlock);
    if (job.pieces == cuda::kMostPieces) launch();
  }
  launch();
}

void add_rows_on_device(const at::Tensor& table, const at::Tensor& rows, const at::Tensor& values,
                        std::int64_t skipped) {
  const at::OptionalDeviceGuard guard(table.device());
  const auto [sorted, order] = at::sort(rows.to(at::kInt), /*stable=*/true, 0, false);
  const at::Tensor dense = values.contiguous();
  const at::Tensor from = is_aligned(dense) ? dense : dense.clone();
  const at::Tensor open =
      at::empty({cuda::row_chunks(rows.numel()), 2, table.size(1)}, table.options());
  const cuda::AddRows job{.table = table.mutable_data_ptr<float>(),
                          .rows = sorted.const_data_ptr<std::int32_t>(),
                          .order = order.const_data_ptr<std::int64_t>(),
                          .values = from.const_data_ptr(),
                          .open = open.mutable_data_ptr<float>(),
                          .count = rows.numel(),
                          .width = static_cast<int>(table.size(1)),
                          .skipped = static_cast<std::int32_t>(skipped)};
  check_step("add_rows", cuda::launch_add_rows(job, piece_type(from), stream_of(table).handle));
}

void adamw_on_device(const AdamWState& state, const at::Tensor& gradients,
                     const at::Tensor& divisor, const at::Tensor& skip, const AdamWRule& rule) {
  const at::OptionalDeviceGuard guard(state.values.device());
  const at::Tensor factors = at::empty({2}, state.values.options());
  cuda::AdamWJob job{.values = state.values.mutable_data_ptr<float>(),
                     .first = state.first.mutable_data_ptr<float>(),
                     .second = state.second.mutable_data_ptr<float>(),
                     .gradients = gradients.const_data_ptr<float>(),
                     .steps = state.steps.mutable_data_ptr<float>(),
                     .divisor = divisor.const_data_ptr<float>(),
                     .skip = skip.const_data_ptr<float>(),
                     .factors = factors.mutable_data_ptr<float>(),
                     .size = state.values.size(0),
                     .num_decaying = rule.num_decaying,
                     .learning_rate = rule.learning_rate,
                     .beta1 = rule.beta1,
                     .beta2 = rule.beta2,
                     .epsilon = static_cast<float>(rule.epsilon),
                     .weight_decay = static_cast<float>(rule.weight_decay)};
  if (state.narrow) {
    job.narrow = state.narrow->mutable_data_ptr();
    job.narrow_type = piece_type(*state.narrow);
  }
  check_step("adamw", cuda::launch_adamw(job, stream_of(state.values).handle));
}

at::Tensor norms_on_device(const at::Tensor& flat, const at::Tensor& chunks,
                           const at::Tensor& first_chunks) {
  const at::OptionalDeviceGuard guard(flat.device());
  const at::Tensor sums = at::empty({chunks.size(0)}, flat.options());
  const at::Tensor norms = at::empty({first_chunks.size(0) - 1}, flat.options());
  void* stream = stream_of(flat).handle;
  if (chunks.size(0) > 0) {
    check_step("PartNorms", cuda::launch_square_sums(
                                flat.const_data_ptr<float>(), chunks.const_data_ptr<std::int64_t>(),
                                sums.mutable_data_ptr<float>(), chunks.size(0), stream));
  }
  check_step(
      "PartNorms",
      cuda::launch_norms(sums.const_data_ptr<float>(), first_chunks.const_data_ptr<std::int64_t>(),
                         norms.mutable_data_ptr<float>(), norms.size(0), stream));
  return norms;
}

void judge_on_device(const StepVerdict& verdict, std::int64_t step, double clip_norm) {
  const at::OptionalDeviceGuard guard(verdict.norms.device());
  const cuda::Verdict job{.sums = verdict.sums.const_data_ptr<double>(),
                          .norms = verdict.norms.mutable_data_ptr<float>(),
                          .norm = verdict.norm.mutable_data_ptr<float>(),
                          .divisor = verdict.divisor.mutable_data_ptr<float>(),
                          .bad = verdict.bad.mutable_data_ptr<float>(),
                          .bad_step = verdict.bad_step.mutable_data_ptr<double>(),
                          .bad_norms = verdict.bad_norms.mutable_data_ptr<float>(),
                          .parts = verdict.norms.size(0),
                          .step = step,
                          .clip_norm = static_cast<float>(clip_norm)};
  check_step("judge_step", cuda::launch_judge(job, stream_of(verdict.norms).handle));
}

#else

void judge_on_device(const StepVerdict&, std::int64_t, double) {}
void gather_on_device(const at::Tensor&, const std::vector<Piece>&, bool) {}
void add_rows_on_device(const at::Tensor&, const at::Tensor&, const at::Tensor&, std::int64_t) {}
void adamw_on_device(const AdamWState&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                     const AdamWRule&) {}
at::Tensor norms_on_device(const at::Tensor&, const at::Tensor&, const at::Tensor&) { return {}; }

#endif

/// The elements [begin, end) by PyTorch's own.
void adamw_of_range(const AdamWState& state, const at::Tensor& gradients, const at::Tensor& divisor,
                    const at::Tensor& skip, const AdamWRule& rule, std::int64_t begin,
                    std::int64_t end, double decay) {
  if (begin == end) return;
  const auto part = [&](const at::Tensor& x) { return x.narrow(0, begin, end - begin); };
  at::_fused_adamw_({part(state.values)}, {part(gradients)}, {part(state.first)},
                    {part(state.second)}, /*max_exp_avg_sqs=*/{}, {state.steps}, rule.learning_rate,
                    rule.beta1, rule.beta2, decay, rule.epsilon,
                    /*amsgrad=*/false, /*maximize=*/false, divisor, skip);
}

}  // namespace

void gather_pieces(const at::Tensor& flat, const std::vector<Piece>& pieces, bool adds) {
  const at::NoGradGuard no_grad;
  check_flat("gather_pieces", "flat", flat, flat.numel());
  for (const Piece& piece : pieces) {
    const at::ScalarType type = piece.from.scalar_type();
    TORCH_CHECK_VALUE(
        (type == at::kFloat || is_narrow(type)) && piece.offset >= 0 && piece.offset % 4 == 0 &&
            piece.offset + piece.from.numel() <= flat.size(0),
        "[gather_pieces] a piece must be of float32, bfloat16 or float16 and lie in [0, ",
        flat.size(0), "), got ", piece.from.numel(), " elements of ", type, " at ", piece.offset);
  }
  if (flat.is_cuda() && kHasStepKernels) return gather_on_device(flat, pieces, adds);
  for (const Piece& piece : pieces) {
    const at::Tensor to = flat.narrow(0, piece.offset, piece.from.numel()).view(piece.from.sizes());
    adds ? to.add_(piece.from) : to.copy_(piece.from);
  }
}

void add_rows(const at::Tensor& table, const at::Tensor& rows, const at::Tensor& values,
              std::int64_t skipped) {
  const at::NoGradGuard no_grad;
  TORCH_CHECK_VALUE(table.dim() == 2 && table.is_contiguous() && is_aligned(table) &&
                        table.scalar_type() == at::kFloat,
                    "[add_rows] table must be [count, width] of float32 without gaps");
  const at::ScalarType type = values.scalar_type();
  TORCH_CHECK_VALUE(rows.dim() == 1 && rows.scalar_type() == at::kLong && values.dim() == 2 &&
                        values.size(0) == rows.size(0) && values.size(1) == table.size(1) &&
                        (type == at::kFloat || is_narrow(type)),
                    "[add_rows] values must be [", rows.numel(), ", ", table.size(1),
                    "] of float32, bfloat16 or float16, and rows int64, got ", values.sizes(),
                    " of ", type, " and ", rows.scalar_type());
  if (rows.numel() == 0) return;
  if (table.is_cuda() && kHasStepKernels && table.size(1) % 8 == 0) {
    return add_rows_on_device(table, rows, values, skipped);
  }
  at::Tensor wide = values.to(at::kFloat);
  if (skipped >= 0) wide = at::where(rows.eq(skipped).unsqueeze(1), 0.0, wide);
  const at::Tensor sums = at::zeros_like(table);
  sums.index_add_(0, rows, wide);
  table.add_(sums);
}

PartNorms::PartNorms(std::vector<Part> parts, at::Device device) : parts_(std::move(parts)) {
  std::vector<std::int64_t> chunks;
  std::vector<std::int64_t> first_chunks = {0};
  for (const Part& part : parts_) {
    TORCH_CHECK_VALUE(part.offset >= 0 && part.offset % 4 == 0 && part.size >= 0,
                      "[PartNorms] a part must begin at a multiple of 4, got ", part.offset);
    const std::int64_t end = part.offset + part.size;
    for (std::int64_t first = part.offset; first < end; first += cuda::kNormChunk) {
      chunks.push_back(first);
      chunks.push_back(std::min(end, first + cuda::kNormChunk));
    }
    first_chunks.push_back(static_cast<std::int64_t>(chunks.size()) / 2);
  }
  if (!device.is_cuda()) return;
  chunks_ = at::tensor(chunks, at::kLong).view({-1, 2}).to(device);
  first_chunks_ = at::tensor(first_chunks, at::kLong).to(device);
}

at::Tensor PartNorms::of(const at::Tensor& flat) const {
  const at::NoGradGuard no_grad;
  check_flat("PartNorms", "flat", flat, flat.numel());
  if (flat.is_cuda() && kHasStepKernels) return norms_on_device(flat, chunks_, first_chunks_);
  std::vector<at::Tensor> views;
  for (const Part& part : parts_) views.push_back(flat.narrow(0, part.offset, part.size));
  return at::stack(at::_foreach_norm(views));
}

void judge_step(const StepVerdict& verdict, std::int64_t step, double clip_norm) {
  const at::NoGradGuard no_grad;
  const auto check = [&](const char* which, const at::Tensor& x, std::int64_t size,
                         at::ScalarType type) {
    TORCH_CHECK_VALUE(x.dim() == 1 && x.size(0) == size && x.scalar_type() == type &&
                          x.is_contiguous() && x.device() == verdict.norms.device(),
                      "[judge_step] ", which, " must be [", size, "] of ", type,
                      " beside the norms");
  };
  TORCH_CHECK_VALUE(verdict.norms.dim() == 1, "[judge_step] norms must be [parts]");
  const std::int64_t parts = verdict.norms.size(0);
  check("sums", verdict.sums, 3, at::kDouble);
  check("norms", verdict.norms, parts, at::kFloat);
  check("norm", verdict.norm, 1, at::kFloat);
  check("divisor", verdict.divisor, 1, at::kFloat);
  check("bad", verdict.bad, 1, at::kFloat);
  check("bad_step", verdict.bad_step, 1, at::kDouble);
  check("bad_norms", verdict.bad_norms, parts, at::kFloat);
  if (verdict.norms.is_cuda() && kHasStepKernels) return judge_on_device(verdict, step, clip_norm);
  const at::Tensor labels = verdict.sums.narrow(0, 1, 1).clamp_min(1).to(at::kFloat);
  verdict.norms.div_(labels);
  verdict.norm.copy_(at::norm(verdict.norms));
  const at::Tensor fine =
      at::isfinite(verdict.norm).logical_and_(at::isfinite(verdict.sums.narrow(0, 0, 1)));
  const at::Tensor first = fine.logical_not_().logical_and_(verdict.bad.eq(0));
  verdict.bad_step.masked_fill_(first, static_cast<double>(step));
  verdict.bad_norms.copy_(at::where(first, verdict.norms, verdict.bad_norms));
  verdict.bad.masked_fill_(first, 1.0);
  verdict.divisor.copy_(clip_norm > 0.0 ? labels * (verdict.norm / clip_norm).clamp_min_(1.0)
                                        : labels);
}

void adamw_(const AdamWState& state, const at::Tensor& gradients, const at::Tensor& divisor,
            const at::Tensor& skip, const AdamWRule& rule) {
  const at::NoGradGuard no_grad;
  const std::int64_t size = state.values.numel();
  check_flat("adamw", "values", state.values, size);
  check_flat("adamw", "first", state.first, size);
  check_flat("adamw", "second", state.second, size);
  check_flat("adamw", "gradients", gradients, size);
  for (const at::Tensor* one : {&state.steps, &divisor, &skip}) {
    TORCH_CHECK_VALUE(one->numel() == 1 && one->scalar_type() == at::kFloat &&
                          one->device() == state.values.device(),
                      "[adamw] steps, divisor and skip must be [1] of float32 beside the values");
  }
  TORCH_CHECK_VALUE(
      !state.narrow || (state.narrow->numel() == size && state.narrow->is_contiguous() &&
                        is_narrow(state.narrow->scalar_type())),
      "[adamw] narrow must be [", size, "] of bfloat16 or float16");
  TORCH_CHECK_VALUE(size % 4 == 0 && rule.num_decaying % 4 == 0,
                    "[adamw] sizes must be multiples of 4, got ", size, " and ", rule.num_decaying);
  if (size == 0) return;
  if (state.values.is_cuda() && kHasStepKernels) {
    return adamw_on_device(state, gradients, divisor, skip, rule);
  }
  state.steps.add_(1 - skip);
  const std::int64_t border = std::clamp<std::int64_t>(rule.num_decaying, 0, size);
  adamw_of_range(state, gradients, divisor, skip, rule, 0, border, rule.weight_decay);
  adamw_of_range(state, gradients, divisor, skip, rule, border, size, 0.0);
  if (state.narrow) state.narrow->copy_(state.values);
}

}  // namespace rotary::torch
