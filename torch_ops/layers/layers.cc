// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The operators: what they compute on the CPU, in PyTorch's terms; calls of the kernels on CUDA;
// what they say of shapes alone. autograd.cc has their derivatives.

#include <ATen/DeviceGuard.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <torch/library.h>

#include <limits>
#include <tuple>

#include "layers/layers_cuda.h"
#include "layers/random.h"
#include "rotary/torch_layers.h"
#include "rotation/kernel_calls.h"

namespace rotary::torch {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Five = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// ---- Checks -------------------------------------------------------------------------------------

void check_layer(const char* name, const at::Tensor& x) {
  TORCH_CHECK_VALUE(
      x.dim() >= 1 && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16 ||
                       x.scalar_type() == at::kHalf),
      "[", name, "] x must be [.., width] of float32, bfloat16 or float16, got ", x.dim(),
      " dimensions of ", x.scalar_type());
}

void check_parameter(const char* name, const char* which, const at::Tensor& p,
                     const at::Tensor& x) {
  TORCH_CHECK_VALUE(
      p.dim() == 1 && p.sym_size(0) == x.sym_size(-1) && p.scalar_type() == at::kFloat, "[", name,
      "] ", which, " must be [", x.sym_size(-1), "] of float32, got ", p.sym_sizes(), " of ",
      p.scalar_type());
}

void check_same(const char* name, const char* which, const at::Tensor& a, const at::Tensor& x) {
  TORCH_CHECK_VALUE(a.sym_sizes() == x.sym_sizes() && a.scalar_type() == x.scalar_type(), "[", name,
                    "] ", which, " must be as x, ", x.sym_sizes(), " of ", x.scalar_type(),
                    ", got ", a.sym_sizes(), " of ", a.scalar_type());
}

void check_add_norm(const at::Tensor& x, const OptionalTensor& before, const OptionalTensor& bias,
                    const at::Tensor& weight, const OptionalTensor& seed, double dropout) {
  check_layer("add_norm", x);
  if (before) check_same("add_norm", "before", *before, x);
  if (bias) check_parameter("add_norm", "bias", *bias, x);
  check_parameter("add_norm", "weight", weight, x);
  TORCH_CHECK_VALUE(dropout >= 0.0 && dropout < 1.0,
                    "[add_norm] dropout must be at least 0 and below 1, got ", dropout);
  TORCH_CHECK_VALUE(dropout == 0.0 || (seed && seed->scalar_type() == at::kLong &&
                                       seed->sym_numel() == 1 && seed->device() == x.device()),
                    "[add_norm] dropout needs a seed, one int64 where x is");
}

void check_cross_entropy(const at::Tensor& logits, const at::Tensor& labels) {
  check_layer("mean_cross_entropy", logits);
  TORCH_CHECK_VALUE(logits.dim() == 2 && labels.dim() == 1 &&
                        labels.sym_size(0) == logits.sym_size(0) &&
                        labels.scalar_type() == at::kLong,
                    "[mean_cross_entropy] labels must be [", logits.sym_size(0), "] of int64, got ",
                    labels.sym_sizes(), " of ", labels.scalar_type());
}

// ---- CPU ----------------------------------------------------------------------------------------

/// What x + bias is multiplied by.
at::Tensor kept(const at::Tensor& x, const OptionalTensor& seed, double dropout) {
  const at::Tensor factor = at::ones(x.sizes(), x.options().dtype(at::kFloat));
  if (dropout == 0.0) return factor;
  const Dropout rule = dropout_of(dropout);
  const auto key = static_cast<std::uint64_t>(*seed->const_data_ptr<std::int64_t>());
  auto* out = factor.mutable_data_ptr<float>();
  const std::int64_t count = x.numel();
  at::parallel_for(0, (count + kDrawn - 1) / kDrawn, 1024, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t n = from; n < to; ++n) {
      const Draw bits = draw(key, static_cast<std::uint64_t>(n));
      for (int i = 0; i < kDrawn && n * kDrawn + i < count; ++i) {
        out[n * kDrawn + i] = bits.at(i) >= rule.threshold ? rule.scale : 0.0F;
      }
    }
  });
  return factor;
}

at::Tensor sum_of(const at::Tensor& x, const OptionalTensor& before, const OptionalTensor& bias,
                  const at::Tensor& factor) {
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor own = factor * (bias ? wide + *bias : wide);
  return before ? before->to(at::kFloat) + own : own;
}

at::Tensor over_rows(const at::Tensor& x) { return x.flatten(0, -2).sum(0); }

Three add_norm_cpu(const at::Tensor& x, const OptionalTensor& before, const OptionalTensor& bias,
                   const at::Tensor& weight, const at::Tensor& shift, const OptionalTensor& seed,
                   double dropout, double eps) {
  check_add_norm(x, before, bias, weight, seed, dropout);
  check_parameter("add_norm", "shift", shift, x);
  const at::Tensor v = sum_of(x, before, bias, kept(x, seed, dropout));
  const at::Tensor mean = v.mean(-1, /*keepdim=*/true);
  const at::Tensor rstd = ((v - mean).square().mean(-1, /*keepdim=*/true) + eps).rsqrt();
  const at::Tensor y = (v - mean) * rstd * weight + shift;
  return {y.to(x.scalar_type()), mean.squeeze(-1), rstd.squeeze(-1)};
}

/// The formulas: see go_back() in norm_kernels.cu.
Five add_norm_backward_cpu(const at::Tensor& grad, const OptionalTensor& grad_too,
                           const at::Tensor& x, const OptionalTensor& before,
                           const OptionalTensor& bias, const at::Tensor& weight,
                           const at::Tensor& mean, const at::Tensor& rstd,
                           const OptionalTensor& seed, double dropout) {
  const at::Tensor factor = kept(x, seed, dropout);
  const at::Tensor n = (sum_of(x, before, bias, factor) - mean.unsqueeze(-1)) * rstd.unsqueeze(-1);
  const at::Tensor wide = grad.to(at::kFloat);
  const at::Tensor all = grad_too ? wide + grad_too->to(at::kFloat) : wide;
  const at::Tensor g = all * weight;
  const at::Tensor dv = rstd.unsqueeze(-1) *
                        (g - g.mean(-1, /*keepdim=*/true) - n * (g * n).mean(-1, /*keepdim=*/true));
  const at::Tensor dx = dv * factor;
  const at::ScalarType type = x.scalar_type();
  return {dropout == 0.0 ? at::empty({0}, x.options()) : dx.to(type), dv.to(type, false, true),
          over_rows(dx), over_rows(all * n), over_rows(all)};
}

at::Tensor bias_gelu_cpu(const at::Tensor& x, const at::Tensor& bias) {
  check_layer("bias_gelu", x);
  check_parameter("bias_gelu", "bias", bias, x);
  return at::gelu(x.to(at::kFloat) + bias).to(x.scalar_type());
}

Two bias_gelu_backward_cpu(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& bias) {
  const at::Tensor dx = at::gelu_backward(grad.to(at::kFloat), x.to(at::kFloat) + bias);
  return {dx.to(x.scalar_type(), false, /*copy=*/true), over_rows(dx)};
}

at::Tensor row_sums_cpu(const at::Tensor& x) {
  check_layer("row_sums", x);
  return over_rows(x.to(at::kFloat));
}

Two cross_entropy_cpu(const at::Tensor& logits, const at::Tensor& labels) {
  check_cross_entropy(logits, labels);
  const at::Tensor wide = logits.to(at::kFloat);
  const at::Tensor lse = at::logsumexp(wide, 1);
  const at::Tensor known = at::logical_and(labels >= 0, labels < logits.size(1));
  const at::Tensor own = wide.gather(1, at::where(known, labels, 0).unsqueeze(1)).squeeze(1);
  return {at::where(known, lse - own, std::numeric_limits<float>::quiet_NaN()), lse};
}

at::Tensor cross_entropy_backward_cpu(const at::Tensor& grad, const at::Tensor& logits,
                                      const at::Tensor& labels, const at::Tensor& lse) {
  at::Tensor d = (logits.to(at::kFloat) - lse.unsqueeze(1)).exp_();
  d.scatter_add_(1, labels.unsqueeze(1), at::full({labels.size(0), 1}, -1.0, d.options()));
  return d.mul_(grad.unsqueeze(1)).to(logits.scalar_type());
}

// ---- CUDA ---------------------------------------------------------------------------------------

#ifdef ROTARY_TORCH_CUDA_KERNELS

cuda::LayerType layer_type(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat      ? cuda::LayerType::kFloat
         : x.scalar_type() == at::kBFloat16 ? cuda::LayerType::kBFloat16
                                            : cuda::LayerType::kFloat16;
}

/// Without gaps, from an address that is a multiple of 16.
at::Tensor aligned(const at::Tensor& x) {
  const at::Tensor y = x.contiguous();
  return reinterpret_cast<std::uintptr_t>(y.const_data_ptr()) % 16 == 0 ? y : y.clone();
}
OptionalTensor aligned(const OptionalTensor& x) {
  return x ? std::make_optional(aligned(*x)) : std::nullopt;
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

  cuda::AddNorm job(const at::Tensor& mean, const at::Tensor& rstd, double dropout) const {
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
            .dropout = dropout_of(dropout)};
  }

  at::Tensor x;
  OptionalTensor before;
  OptionalTensor bias;
  at::Tensor weight;
  const std::int64_t* seed;
};

Three add_norm_cuda(const at::Tensor& x, const OptionalTensor& before, const OptionalTensor& bias,
                    const at::Tensor& weight, const at::Tensor& shift, const OptionalTensor& seed,
                    double dropout, double eps) {
  check_add_norm(x, before, bias, weight, seed, dropout);
  check_parameter("add_norm", "shift", shift, x);
  const at::OptionalDeviceGuard guard(x.device());
  const NormTensors in(x, before, bias, weight, seed);
  const at::Tensor own_shift = aligned(shift);
  const at::Tensor y = at::empty(x.sizes(), x.options());
  const at::Tensor mean = at::empty(x.sizes().slice(0, x.dim() - 1), weight.options());
  const at::Tensor rstd = at::empty_like(mean);
  cuda::AddNorm job = in.job(mean, rstd, dropout);
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
                            const OptionalTensor& seed, double dropout) {
  const at::OptionalDeviceGuard guard(x.device());
  const NormTensors in(x, before, bias, weight, seed);
  const at::Tensor own_grad = aligned(grad);
  const OptionalTensor own_too = aligned(grad_too);
  const at::Tensor dbefore = at::empty(x.sizes(), x.options());
  const at::Tensor dx =
      dropout == 0.0 ? at::empty({0}, x.options()) : at::empty(x.sizes(), x.options());
  cuda::AddNormBackward job{.forward = in.job(mean, rstd, dropout)};
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
    job.dx = dropout == 0.0 ? nullptr : dx.mutable_data_ptr();
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

Two cross_entropy_cuda(const at::Tensor& logits, const at::Tensor& labels) {
  check_cross_entropy(logits, labels);
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

at::Tensor cross_entropy_backward_cuda(const at::Tensor& grad, const at::Tensor& logits,
                                       const at::Tensor& labels, const at::Tensor& lse) {
  const at::OptionalDeviceGuard guard(logits.device());
  const at::Tensor from = aligned(logits);
  const at::Tensor own_grad = grad.contiguous();
  const at::Tensor own_labels = labels.contiguous();
  const at::Tensor d = at::empty(logits.sizes(), logits.options());
  const int classes = width_of("mean_cross_entropy", logits, kMostWidth);
  if (logits.size(0) > 0) {
    check_launch("cross_entropy_backward",
                 cuda::launch_cross_entropy_backward(
                     own_grad.const_data_ptr<float>(), from.const_data_ptr(),
                     own_labels.const_data_ptr<std::int64_t>(), lse.const_data_ptr<float>(),
                     d.mutable_data_ptr(), logits.size(0), classes, layer_type(logits),
                     stream_of(logits).handle));
  }
  return d;
}

#endif

// ---- Shapes -------------------------------------------------------------------------------------

Three add_norm_meta(const at::Tensor& x, const OptionalTensor& before, const OptionalTensor& bias,
                    const at::Tensor& weight, const at::Tensor& shift, const OptionalTensor& seed,
                    double dropout, double /*eps*/) {
  check_add_norm(x, before, bias, weight, seed, dropout);
  check_parameter("add_norm", "shift", shift, x);
  const auto rows = x.sym_sizes().slice(0, static_cast<std::size_t>(x.dim()) - 1);
  return {at::empty_symint(x.sym_sizes(), x.options()), at::empty_symint(rows, weight.options()),
          at::empty_symint(rows, weight.options())};
}

Five add_norm_backward_meta(const at::Tensor& /*grad*/, const OptionalTensor& /*grad_too*/,
                            const at::Tensor& x, const OptionalTensor& /*before*/,
                            const OptionalTensor& /*bias*/, const at::Tensor& weight,
                            const at::Tensor& /*mean*/, const at::Tensor& /*rstd*/,
                            const OptionalTensor& /*seed*/, double dropout) {
  const auto like = [](const at::Tensor& t) {
    return at::empty_symint(t.sym_sizes(), t.options());
  };
  return {dropout == 0.0 ? at::empty({0}, x.options()) : like(x), like(x), like(weight),
          like(weight), like(weight)};
}

at::Tensor bias_gelu_meta(const at::Tensor& x, const at::Tensor& bias) {
  check_layer("bias_gelu", x);
  check_parameter("bias_gelu", "bias", bias, x);
  return at::empty_symint(x.sym_sizes(), x.options());
}

Two bias_gelu_backward_meta(const at::Tensor& /*grad*/, const at::Tensor& x,
                            const at::Tensor& bias) {
  return {at::empty_symint(x.sym_sizes(), x.options()),
          at::empty_symint(bias.sym_sizes(), bias.options())};
}

at::Tensor row_sums_meta(const at::Tensor& x) {
  check_layer("row_sums", x);
  return at::empty_symint({x.sym_size(-1)}, x.options().dtype(at::kFloat));
}

Two cross_entropy_meta(const at::Tensor& logits, const at::Tensor& labels) {
  check_cross_entropy(logits, labels);
  const auto rows = [&logits] {
    return at::empty_symint({logits.sym_size(0)}, logits.options().dtype(at::kFloat));
  };
  return {rows(), rows()};
}

at::Tensor cross_entropy_backward_meta(const at::Tensor& /*grad*/, const at::Tensor& logits,
                                       const at::Tensor& /*labels*/, const at::Tensor& /*lse*/) {
  return at::empty_symint(logits.sym_sizes(), logits.options());
}

}  // namespace
}  // namespace rotary::torch

TORCH_LIBRARY_FRAGMENT(rotary, m) {
  const auto add = [&m](const char* schema) { m.def(schema, {at::Tag::pt2_compliant_tag}); };
  add("add_norm(Tensor x, Tensor? before, Tensor? bias, Tensor weight, Tensor shift, "
      "Tensor? seed=None, float dropout=0.0, float eps=1e-05) -> (Tensor, Tensor, Tensor)");
  add("add_norm_backward(Tensor grad, Tensor? grad_too, Tensor x, Tensor? before, Tensor? bias, "
      "Tensor weight, Tensor mean, Tensor rstd, Tensor? seed, float dropout) -> "
      "(Tensor, Tensor, Tensor, Tensor, Tensor)");
  add("bias_gelu(Tensor x, Tensor bias) -> Tensor");
  add("bias_gelu_backward(Tensor grad, Tensor x, Tensor bias) -> (Tensor, Tensor)");
  add("row_sums(Tensor x) -> Tensor");
  add("cross_entropy(Tensor logits, Tensor labels) -> (Tensor, Tensor)");
  add("cross_entropy_backward(Tensor grad, Tensor logits, Tensor labels, Tensor lse) -> Tensor");
}

TORCH_LIBRARY_IMPL(rotary, CPU, m) {
  m.impl("add_norm", rotary::torch::add_norm_cpu);
  m.impl("add_norm_backward", rotary::torch::add_norm_backward_cpu);
  m.impl("bias_gelu", rotary::torch::bias_gelu_cpu);
  m.impl("bias_gelu_backward", rotary::torch::bias_gelu_backward_cpu);
  m.impl("row_sums", rotary::torch::row_sums_cpu);
  m.impl("cross_entropy", rotary::torch::cross_entropy_cpu);
  m.impl("cross_entropy_backward", rotary::torch::cross_entropy_backward_cpu);
}
#ifdef ROTARY_TORCH_CUDA_KERNELS
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
TORCH_LIBRARY_IMPL(rotary, Meta, m) {
  m.impl("add_norm", rotary::torch::add_norm_meta);
  m.impl("add_norm_backward", rotary::torch::add_norm_backward_meta);
  m.impl("bias_gelu", rotary::torch::bias_gelu_meta);
  m.impl("bias_gelu_backward", rotary::torch::bias_gelu_backward_meta);
  m.impl("row_sums", rotary::torch::row_sums_meta);
  m.impl("cross_entropy", rotary::torch::cross_entropy_meta);
  m.impl("cross_entropy_backward", rotary::torch::cross_entropy_backward_meta);
}
