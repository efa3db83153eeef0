// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The operators on CUDA: they launch the kernels.

#ifdef ROTARY_TORCH_CUDA_KERNELS

#include <ATen/DeviceGuard.h>
#include <ATen/Functions.h>
#include <torch/library.h>

#include <initializer_list>
#include <limits>
#include <tuple>

#include "pytorch/cuda_stream.h"
#include "rotary/transformer/layers.h"
#include "transformer/kernels/aligned.h"
#include "transformer/kernels/launch.h"
#include "transformer/layers/checks.h"
#include "transformer/layers/kernels.h"

namespace rotary::transformer {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Five = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

const float* floats(const OptionalTensor& x) { return x ? x->const_data_ptr<float>() : nullptr; }

int width_of(const char* name, const at::Tensor& x, std::int64_t max) {
  const std::int64_t width = x.size(-1);
  TORCH_CHECK_VALUE(width >= 8 && width % 8 == 0 && width <= max, "[", name,
                    "] on CUDA the width must be a multiple of 8, and at most ", max, ", got ",
                    width);
  return static_cast<int>(width);
}
constexpr std::int64_t kMaxWidth = std::numeric_limits<std::int32_t>::max() / 2;

/// Inputs of add_norm as its kernels read them: contiguous and aligned.
struct NormTensors {
  NormTensors(const at::Tensor& x_, const OptionalTensor& residual_, const OptionalTensor& bias_,
              const at::Tensor& weight_, const OptionalTensor& seed_)
      : x(aligned(x_)),
        residual(aligned(residual_)),
        bias(aligned(bias_)),
        weight(aligned(weight_)),
        seed(seed_ ? seed_->const_data_ptr<std::int64_t>() : nullptr) {}

  cuda::AddNorm params(const at::Tensor& mean, const at::Tensor& rstd, double dropout,
                       bool drops_result) const {
    const int width = width_of("add_norm", x, kMaxNormWidth);
    return {.x = x.const_data_ptr(),
            .residual = residual ? residual->const_data_ptr() : nullptr,
            .bias = floats(bias),
            .weight = weight.const_data_ptr<float>(),
            .seed = dropout == 0.0 ? nullptr : seed,
            .mean = mean.mutable_data_ptr<float>(),
            .rstd = rstd.mutable_data_ptr<float>(),
            .rows = x.numel() / width,
            .width = width,
            .dropout = make_dropout(dropout),
            .drops_result = drops_result};
  }

  at::Tensor x;
  OptionalTensor residual;
  OptionalTensor bias;
  at::Tensor weight;
  const std::int64_t* seed;
};

Three add_norm_cuda(const at::Tensor& x, const OptionalTensor& residual, const OptionalTensor& bias,
                    const at::Tensor& weight, const at::Tensor& shift, const OptionalTensor& seed,
                    double dropout, double eps, bool drops_result) {
  check_add_norm(x, residual, bias, weight, seed, dropout);
  check_parameter("add_norm", "shift", shift, x);
  const at::OptionalDeviceGuard guard(x.device());
  const NormTensors in(x, residual, bias, weight, seed);
  const at::Tensor own_shift = aligned(shift);
  const at::Tensor y = at::empty(x.sizes(), x.options());
  const at::Tensor mean = at::empty(x.sizes().slice(0, x.dim() - 1), weight.options());
  const at::Tensor rstd = at::empty_like(mean);
  cuda::AddNorm params = in.params(mean, rstd, dropout, drops_result);
  params.shift = own_shift.const_data_ptr<float>();
  params.y = y.mutable_data_ptr();
  params.eps = static_cast<float>(eps);
  if (params.rows > 0) {
    check_launch("add_norm", launch_add_norm(params, element_type(x.scalar_type()),
                                             torch::stream_of(x).handle));
  }
  return {y, mean, rstd};
}

/// Second step of sums over rows: adds partial sums, [blocks, columns] with those of each result
/// side by side.
void add_partials(const at::Tensor& partial, std::initializer_list<at::Tensor> sums) {
  cuda::ColumnSums out{.width = static_cast<int>(sums.begin()->numel())};
  int count = 0;
  for (const at::Tensor& sum : sums) out.sums[count++] = sum.mutable_data_ptr<float>();
  check_launch("column_sums",
               cuda::launch_column_sums(partial.const_data_ptr<float>(), out, partial.size(0),
                                        count * out.width, torch::stream_of(partial).handle));
}

/// [width], uninitialised, or 0 where there are no rows.
at::Tensor empty_sums(std::int64_t rows, std::int64_t width, const at::Tensor& like) {
  const auto options = like.options().dtype(at::kFloat);
  return rows > 0 ? at::empty({width}, options) : at::zeros({width}, options);
}

Five add_norm_backward_cuda(const at::Tensor& grad, const OptionalTensor& grad_residual,
                            const at::Tensor& x, const OptionalTensor& residual,
                            const OptionalTensor& bias, const at::Tensor& weight,
                            const at::Tensor& mean, const at::Tensor& rstd,
                            const OptionalTensor& seed, double dropout, bool drops_result) {
  check_add_norm_backward(grad, grad_residual, x, residual, bias, weight, mean, rstd, seed,
                          dropout);
  const at::OptionalDeviceGuard guard(x.device());
  const NormTensors in(x, residual, bias, weight, seed);
  const at::Tensor own_mean = mean.contiguous();
  const at::Tensor own_rstd = rstd.contiguous();
  const at::Tensor own_grad = aligned(grad);
  const OptionalTensor own_grad_residual = aligned(grad_residual);
  const at::Tensor dresidual = at::empty(x.sizes(), x.options());
  const bool has_dx = dropout != 0.0 && !drops_result;
  const at::Tensor dx = has_dx ? at::empty(x.sizes(), x.options()) : at::empty({0}, x.options());
  cuda::AddNormBackward params{.forward = in.params(own_mean, own_rstd, dropout, drops_result)};
  const std::int64_t width = params.forward.width;
  const std::int64_t rows = params.forward.rows;
  const at::Tensor dbias = empty_sums(rows, width, x);
  const at::Tensor dweight = empty_sums(rows, width, x);
  const at::Tensor dshift = empty_sums(rows, width, x);
  if (rows > 0) {
    const at::Tensor partial = at::empty({cuda::norm_blocks(rows), 3 * width}, weight.options());
    params.grad = own_grad.const_data_ptr();
    params.grad_residual = own_grad_residual ? own_grad_residual->const_data_ptr() : nullptr;
    params.dresidual = dresidual.mutable_data_ptr();
    params.dx = has_dx ? dx.mutable_data_ptr() : nullptr;
    params.partial = partial.mutable_data_ptr<float>();
    check_launch("add_norm_backward",
                 launch_add_norm_backward(params, element_type(x.scalar_type()),
                                          torch::stream_of(x).handle));
    add_partials(partial, {dweight, dshift, dbias});
  }
  return {dx, dresidual, dbias, dweight, dshift};
}

at::Tensor bias_gelu_cuda(const at::Tensor& x, const at::Tensor& bias) {
  check_bias_gelu(x, bias);
  const at::OptionalDeviceGuard guard(x.device());
  const at::Tensor from = aligned(x);
  const at::Tensor b = aligned(bias);
  const at::Tensor y = at::empty(x.sizes(), x.options());
  const int width = width_of("bias_gelu", x, kMaxWidth);
  if (x.numel() > 0) {
    check_launch("bias_gelu",
                 cuda::launch_bias_gelu(from.const_data_ptr(), b.const_data_ptr<float>(),
                                        y.mutable_data_ptr(), x.numel() / width, width,
                                        element_type(x.scalar_type()), torch::stream_of(x).handle));
  }
  return y;
}

Two bias_gelu_backward_cuda(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& bias) {
  check_bias_gelu_backward(grad, x, bias);
  const at::OptionalDeviceGuard guard(x.device());
  const at::Tensor from = aligned(x);
  const at::Tensor own_grad = aligned(grad);
  const at::Tensor b = aligned(bias);
  const at::Tensor dx = at::empty(x.sizes(), x.options());
  const int width = width_of("bias_gelu", x, kMaxWidth);
  const std::int64_t rows = x.numel() / width;
  const at::Tensor sums = empty_sums(rows, width, x);
  if (rows > 0) {
    const at::Tensor partial = at::empty({cuda::row_tiles(rows, width), width}, bias.options());
    check_launch("bias_gelu_backward",
                 cuda::launch_bias_gelu_backward(
                     own_grad.const_data_ptr(), from.const_data_ptr(), b.const_data_ptr<float>(),
                     dx.mutable_data_ptr(), partial.mutable_data_ptr<float>(), rows, width,
                     element_type(x.scalar_type()), torch::stream_of(x).handle));
    add_partials(partial, {sums});
  }
  return {dx, sums};
}

at::Tensor row_sums_cuda(const at::Tensor& x) {
  check_layer("row_sums", x);
  const at::OptionalDeviceGuard guard(x.device());
  const at::Tensor from = aligned(x);
  const int width = width_of("row_sums", x, kMaxWidth);
  const std::int64_t rows = x.numel() / width;
  const at::Tensor sums = empty_sums(rows, width, x);
  if (rows > 0) {
    const at::Tensor partial = at::empty({cuda::row_tiles(rows, width), width}, sums.options());
    check_launch("row_sums", cuda::launch_row_sums(
                                 from.const_data_ptr(), partial.mutable_data_ptr<float>(), rows,
                                 width, element_type(x.scalar_type()), torch::stream_of(x).handle));
    add_partials(partial, {sums});
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
  const int classes = width_of("mean_cross_entropy", logits, kMaxWidth);
  if (logits.size(0) > 0) {
    check_launch(
        "cross_entropy",
        cuda::launch_cross_entropy(from.const_data_ptr(), own_labels.const_data_ptr<std::int64_t>(),
                                   losses.mutable_data_ptr<float>(), lse.mutable_data_ptr<float>(),
                                   logits.size(0), classes, element_type(logits.scalar_type()),
                                   torch::stream_of(logits).handle));
  }
  return {losses, lse};
}

Two cross_entropy_backward_cuda(const at::Tensor& grad, const at::Tensor& logits,
                                const at::Tensor& labels, const at::Tensor& lse) {
  check_cross_entropy_backward(grad, logits, labels, lse);
  const at::OptionalDeviceGuard guard(logits.device());
  const at::Tensor from = aligned(logits);
  const at::Tensor own_grad = grad.contiguous();
  const at::Tensor own_lse = lse.contiguous();
  const at::Tensor own_labels = labels.contiguous();
  const at::Tensor d = at::empty(logits.sizes(), logits.options());
  const int classes = width_of("mean_cross_entropy", logits, kMaxWidth);
  const std::int64_t rows = logits.size(0);
  const at::Tensor sums = empty_sums(rows, classes, logits);
  if (rows > 0) {
    const at::Tensor partial = at::empty({cuda::row_tiles(rows, classes), classes}, sums.options());
    const cuda::CrossEntropyBackward params{.grad = own_grad.const_data_ptr<float>(),
                                            .lse = own_lse.const_data_ptr<float>(),
                                            .labels = own_labels.const_data_ptr<std::int64_t>(),
                                            .logits = from.const_data_ptr(),
                                            .dlogits = d.mutable_data_ptr(),
                                            .partial = partial.mutable_data_ptr<float>(),
                                            .rows = rows,
                                            .classes = classes};
    check_launch("cross_entropy_backward",
                 launch_cross_entropy_backward(params, element_type(logits.scalar_type()),
                                               torch::stream_of(logits).handle));
    add_partials(partial, {sums});
  }
  return {d, sums};
}

}  // namespace
}  // namespace rotary::transformer

TORCH_LIBRARY_IMPL(rotary, CUDA, m) {
  m.impl("add_norm", rotary::transformer::add_norm_cuda);
  m.impl("add_norm_backward", rotary::transformer::add_norm_backward_cuda);
  m.impl("bias_gelu", rotary::transformer::bias_gelu_cuda);
  m.impl("bias_gelu_backward", rotary::transformer::bias_gelu_backward_cuda);
  m.impl("row_sums", rotary::transformer::row_sums_cuda);
  m.impl("cross_entropy", rotary::transformer::cross_entropy_cuda);
  m.impl("cross_entropy_backward", rotary::transformer::cross_entropy_backward_cuda);
}

#endif
