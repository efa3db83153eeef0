// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The operators on CUDA: calls of the kernels.

#ifdef ROTARY_TORCH_CUDA_KERNELS

#include <ATen/DeviceGuard.h>
#include <ATen/Functions.h>
#include <torch/library.h>

#include <initializer_list>
#include <limits>
#include <tuple>

#include "layers/aligned.h"
#include "layers/checks.h"
#include "layers/layers_cuda.h"
#include "rotary/torch_layers.h"
#include "rotation/kernel_calls.h"

namespace rotary::torch {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Five = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

cuda::LayerType layer_type(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat      ? cuda::LayerType::kFloat
         : x.scalar_type() == at::kBFloat16 ? cuda::LayerType::kBFloat16
                                            : cuda::LayerType::kFloat16;
}

const float* floats(const OptionalTensor& x) { return x ? x->const_data_ptr<float>() : nullptr; }

int width_of(const char* name, const at::Tensor& x, std::int64_t most) {
  const std::int64_t width = x.size(-1);
  TORCH_CHECK_VALUE(width >= 8 && width % 8 == 0 && width <= most, "[", name,
                    "] on CUDA the width must be a multiple of 8, and at most ", most, ", got ",
                    width);
  return static_cast<int>(width);
}
constexpr std::int64_t kMostWidth = std::numeric_limits<std::int32_t>::max() / 2;

void check_launch(const char* name, int error) {
  TORCH_CHECK(error == 0, "[", name, "] CUDA error ", error);
}

/// What a kernel reads, without gaps, and its sizes.
struct NormTensors {
  NormTensors(const at::Tensor& x_, const OptionalTensor& before_, const OptionalTensor& bias_,
              const at::Tensor& weight_, const OptionalTensor& seed_)
      : x(aligned(x_)),
        before(aligned(before_)),
        bias(aligned(bias_)),
        weight(aligned(weight_)),
        seed(seed_ ? seed_->const_data_ptr<std::int64_t>() : nullptr) {}

  cuda::AddNorm job(const at::Tensor& mean, const at::Tensor& rstd, double dropout,
                    bool drops_result) const {
    const int width = width_of("add_norm", x, kMostNormWidth);
    return {.x = x.const_data_ptr(),
            .before = before ? before->const_data_ptr() : nullptr,
            .bias = floats(bias),
            .weight = weight.const_data_ptr<float>(),
            .seed = dropout == 0.0 ? nullptr : seed,
            .mean = mean.mutable_data_ptr<float>(),
            .rstd = rstd.mutable_data_ptr<float>(),
            .rows = x.numel() / width,
            .width = width,
            .dropout = dropout_of(dropout),
            .drops_result = drops_result};
  }

  at::Tensor x;
  OptionalTensor before;
  OptionalTensor bias;
  at::Tensor weight;
  const std::int64_t* seed;
};

Three add_norm_cuda(const at::Tensor& x, const OptionalTensor& before, const OptionalTensor& bias,
                    const at::Tensor& weight, const at::Tensor& shift, const OptionalTensor& seed,
                    double dropout, double eps, bool drops_result) {
  check_add_norm(x, before, bias, weight, seed, dropout);
  check_parameter("add_norm", "shift", shift, x);
  const at::OptionalDeviceGuard guard(x.device());
  const NormTensors in(x, before, bias, weight, seed);
  const at::Tensor own_shift = aligned(shift);
  const at::Tensor y = at::empty(x.sizes(), x.options());
  const at::Tensor mean = at::empty(x.sizes().slice(0, x.dim() - 1), weight.options());
  const at::Tensor rstd = at::empty_like(mean);
  cuda::AddNorm job = in.job(mean, rstd, dropout, drops_result);
  job.shift = own_shift.const_data_ptr<float>();
  job.y = y.mutable_data_ptr();
  job.eps = static_cast<float>(eps);
  if (job.rows > 0) {
    check_launch("add_norm", launch_add_norm(job, layer_type(x), stream_of(x).handle));
  }
  return {y, mean, rstd};
}

/// The parts of `sums`, which lie side by side, added up.
void add_parts(const at::Tensor& parts, std::initializer_list<at::Tensor> sums) {
  cuda::SumsOut out{.width = static_cast<int>(sums.begin()->numel())};
  int count = 0;
  for (const at::Tensor& sum : sums) out.sums[count++] = sum.mutable_data_ptr<float>();
  check_launch("column_sums",
               cuda::launch_column_sums(parts.const_data_ptr<float>(), out, parts.size(0),
                                        count * out.width, stream_of(parts).handle));
}

/// [width], to be written to, or 0 where there are no rows.
at::Tensor empty_sums(std::int64_t rows, std::int64_t width, const at::Tensor& like) {
  const auto options = like.options().dtype(at::kFloat);
  return rows > 0 ? at::empty({width}, options) : at::zeros({width}, options);
}

Five add_norm_backward_cuda(const at::Tensor& grad, const OptionalTensor& grad_too,
                            const at::Tensor& x, const OptionalTensor& before,
                            const OptionalTensor& bias, const at::Tensor& weight,
                            const at::Tensor& mean, const at::Tensor& rstd,
                            const OptionalTensor& seed, double dropout, bool drops_result) {
  const at::OptionalDeviceGuard guard(x.device());
  const NormTensors in(x, before, bias, weight, seed);
  const at::Tensor own_grad = aligned(grad);
  const OptionalTensor own_too = aligned(grad_too);
  const at::Tensor dbefore = at::empty(x.sizes(), x.options());
  const bool has_dx = dropout != 0.0 && !drops_result;
  const at::Tensor dx = has_dx ? at::empty(x.sizes(), x.options()) : at::empty({0}, x.options());
  cuda::AddNormBackward job{.forward = in.job(mean, rstd, dropout, drops_result)};
  const std::int64_t width = job.forward.width;
  const std::int64_t rows = job.forward.rows;
  const at::Tensor dbias = empty_sums(rows, width, x);
  const at::Tensor dweight = empty_sums(rows, width, x);
  const at::Tensor dshift = empty_sums(rows, width, x);
  if (rows > 0) {
    const at::Tensor parts = at::empty({cuda::partial_rows(rows), 3 * width}, weight.options());
    job.grad = own_grad.const_data_ptr();
    job.grad_too = own_too ? own_too->const_data_ptr() : nullptr;
    job.dbefore = dbefore.mutable_data_ptr();
    job.dx = has_dx ? dx.mutable_data_ptr() : nullptr;
    job.partial = parts.mutable_data_ptr<float>();
    check_launch("add_norm_backward",
                 launch_add_norm_backward(job, layer_type(x), stream_of(x).handle));
    add_parts(parts, {dweight, dshift, dbias});
  }
  return {dx, dbefore, dbias, dweight, dshift};
}

at::Tensor bias_gelu_cuda(const at::Tensor& x, const at::Tensor& bias) {
  check_layer("bias_gelu", x);
  check_parameter("bias_gelu", "bias", bias, x);
  const at::OptionalDeviceGuard guard(x.device());
  const at::Tensor from = aligned(x);
  const at::Tensor b = aligned(bias);
  const at::Tensor y = at::empty(x.sizes(), x.options());
  const int width = width_of("bias_gelu", x, kMostWidth);
  if (x.numel() > 0) {
    check_launch("bias_gelu",
                 cuda::launch_bias_gelu(from.const_data_ptr(), b.const_data_ptr<float>(),
                                        y.mutable_data_ptr(), x.numel() / width, width,
                                        layer_type(x), stream_of(x).handle));
  }
  return y;
}

Two bias_gelu_backward_cuda(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& bias) {
  const at::OptionalDeviceGuard guard(x.device());
  const at::Tensor from = aligned(x);
  const at::Tensor own_grad = aligned(grad);
  const at::Tensor b = aligned(bias);
  const at::Tensor dx = at::empty(x.sizes(), x.options());
  const int width = width_of("bias_gelu", x, kMostWidth);
  const std::int64_t rows = x.numel() / width;
  const at::Tensor sums = empty_sums(rows, width, x);
  if (rows > 0) {
    const at::Tensor parts = at::empty({cuda::tile_rows(rows, width), width}, bias.options());
    check_launch("bias_gelu_backward",
                 cuda::launch_bias_gelu_backward(own_grad.const_data_ptr(), from.const_data_ptr(),
                                                 b.const_data_ptr<float>(), dx.mutable_data_ptr(),
                                                 parts.mutable_data_ptr<float>(), rows, width,
                                                 layer_type(x), stream_of(x).handle));
    add_parts(parts, {sums});
  }
  return {dx, sums};
}

at::Tensor row_sums_cuda(const at::Tensor& x) {
  check_layer("row_sums", x);
  const at::OptionalDeviceGuard guard(x.device());
  const at::Tensor from = aligned(x);
  const int width = width_of("row_sums", x, kMostWidth);
  const std::int64_t rows = x.numel() / width;
  const at::Tensor sums = empty_sums(rows, width, x);
  if (rows > 0) {
    const at::Tensor parts = at::empty({cuda::tile_rows(rows, width), width}, sums.options());
    check_launch("row_sums",
                 cuda::launch_row_sums(from.const_data_ptr(), parts.mutable_data_ptr<float>(), rows,
                                       width, layer_type(x), stream_of(x).handle));
    add_parts(parts, {sums});
  }
  return sums;
}

Two cross_entropy_cuda(const at::Tensor& logits, const at::Tensor& labels,
                       const OptionalTensor& bias) {
  check_cross_entropy(logits, labels, bias);
  const at::OptionalDeviceGuard guard(logits.device());
  const at::Tensor from = aligned(logits);
  const at::Tensor own_labels = labels.contiguous();
  const at::Tensor losses = at::empty({logits.size(0)}, logits.options().dtype(at::kFloat));
  const at::Tensor lse = at::empty_like(losses);
  const int classes = width_of("mean_cross_entropy", logits, kMostWidth);
  if (logits.size(0) > 0) {
    check_launch("cross_entropy",
                 cuda::launch_cross_entropy(
                     from.const_data_ptr(), own_labels.const_data_ptr<std::int64_t>(),
                     losses.mutable_data_ptr<float>(), lse.mutable_data_ptr<float>(),
                     logits.size(0), classes, layer_type(logits), stream_of(logits).handle));
  }
  return {losses, lse};
}

Two cross_entropy_backward_cuda(const at::Tensor& grad, const at::Tensor& logits,
                                const at::Tensor& labels, const at::Tensor& lse) {
  const at::OptionalDeviceGuard guard(logits.device());
  const at::Tensor from = aligned(logits);
  const at::Tensor own_grad = grad.contiguous();
  const at::Tensor own_labels = labels.contiguous();
  const at::Tensor d = at::empty(logits.sizes(), logits.options());
  const int classes = width_of("mean_cross_entropy", logits, kMostWidth);
  const std::int64_t rows = logits.size(0);
  const at::Tensor sums = empty_sums(rows, classes, logits);
  if (rows > 0) {
    const at::Tensor parts = at::empty({cuda::tile_rows(rows, classes), classes}, sums.options());
    const cuda::CrossEntropyBackward job{.grad = own_grad.const_data_ptr<float>(),
                                         .lse = lse.const_data_ptr<float>(),
                                         .labels = own_labels.const_data_ptr<std::int64_t>(),
                                         .logits = from.const_data_ptr(),
                                         .dlogits = d.mutable_data_ptr(),
                                         .partial = parts.mutable_data_ptr<float>(),
                                         .rows = rows,
                                         .classes = classes};
    check_launch("cross_entropy_backward",
                 launch_cross_entropy_backward(job, layer_type(logits), stream_of(logits).handle));
    add_parts(parts, {sums});
  }
  return {d, sums};
}

}  // namespace
}  // namespace rotary::torch

TORCH_LIBRARY_IMPL(rotary, CUDA, m) {
  m.impl("add_norm", rotary::torch::add_norm_cuda);
  m.impl("add_norm_backward", rotary::torch::add_norm_backward_cuda);
  m.impl("bias_gelu", rotary::torch::bias_gelu_cuda);
  m.impl("bias_gelu_backward", rotary::torch::bias_gelu_backward_cuda);
  m.impl("row_sums", rotary::torch::row_sums_cuda);
  m.impl("cross_entropy", rotary::torch::cross_entropy_cuda);
  m.impl("cross_entropy_backward", rotary::torch::cross_entropy_backward_cuda);
}

#endif
