// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "transformer/linear_attention/decay.h"

#include <ATen/DeviceGuard.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/library.h>

#include <algorithm>

#include "pytorch/operator.h"
#include "transformer/linear_attention/scan_support.h"
#include "transformer/linear_attention/scans_device.h"

namespace rotary::transformer {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using DecaySignature = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                  const at::Tensor&, const OptionalTensor&, std::string_view);

constexpr const char* kDecayProduct = "linear_decay_product";

void check_decay_values(const at::Tensor& x, const at::Tensor& decay) {
  TORCH_CHECK_VALUE(x.dim() >= 3 && decay.dim() == 1 && decay.size(0) == x.size(-3), "[",
                    kDecayProduct, "] decay must be [heads] of x [.., heads, tokens, features], ",
                    "got ", decay.sizes(), " for ", x.sizes());
  TORCH_CHECK_VALUE(decay.is_floating_point() && decay.device() == x.device(), "[", kDecayProduct,
                    "] decay must be real numbers on ", x.device(), ", got ", decay.scalar_type(),
                    " on ", decay.device());
  // On CUDA this would wait for the device.
  if (!decay.is_cpu()) return;
  TORCH_CHECK_VALUE(at::logical_and(decay.ge(0), decay.isfinite()).all().item<bool>(), "[",
                    kDecayProduct, "] decay must be finite and not negative, got ", decay);
}

/// Matrices [heads, rows, columns]: e^(-decay_h d), for distances d [rows, columns].
at::Tensor decay_matrices(const at::Tensor& decay, const at::Tensor& distances) {
  return (decay.view({-1, 1, 1}) * -distances).exp();
}

constexpr std::int64_t kGroup = 32;  // states that one matrix product scans

/// Decayed exclusive scan of states [batch, heads, count, size], `step` tokens apart:
///   out_c = sum_{b < c} e^(-decay step (c - b - 1)) states_b
/// By groups, and again over their totals: O(count).
at::Tensor decayed_scan(const at::Tensor& states, const at::Tensor& decay, double step) {
  const std::int64_t count = states.size(2);
  const std::int64_t group = std::min(count, kGroup);
  const at::Tensor index = at::arange(group, decay.options());
  const at::Tensor distances = (index.unsqueeze(1) - index - 1).clamp_min(0);
  const at::Tensor within = decay_matrices(decay * step, distances).tril(-1);
  if (count <= kGroup) return at::matmul(within, states);
  const std::int64_t groups = (count + group - 1) / group;
  const at::Tensor grouped =
      at::constant_pad_nd(states, {0, 0, 0, groups * group - count}).unflatten(2, {groups, group});
  const at::Tensor to_end = decay_factors(decay * step, (group - 1) - index);
  const at::Tensor totals = at::matmul(to_end.view({-1, 1, 1, group}), grouped).squeeze(-2);
  const at::Tensor before = decayed_scan(totals, decay, step * static_cast<double>(group));
  at::Tensor out = at::matmul(within.unsqueeze(1), grouped);
  out.addcmul_(decay_factors(decay * step, index).view({-1, 1, group, 1}), before.unsqueeze(-2));
  return out.flatten(2, 3).narrow(2, 0, count);
}

/// The chunked form. Tensors are those of to_chunks(), decay is of the accumulator type.
class DecayedChunks {
 public:
  DecayedChunks(const at::Tensor& x, const at::Tensor& y, const at::Tensor& w,
                const at::Tensor& decay)
      : tokens_(x.size(1)),
        chunk_(std::min(tokens_, kChunk)),
        count_((tokens_ + chunk_ - 1) / chunk_),
        x_(to_chunks(x, chunk_, count_)),
        y_(to_chunks(y, chunk_, count_)),
        w_(to_chunks(w, chunk_, count_)),
        decay_(decay),
        index_(at::arange(chunk_, decay.options())) {}

  /// [batch * heads, tokens, E], in the accumulator type.
  at::Tensor product(Direction direction) const {
    at::Tensor out = within(direction);
    if (count_ > 1 && direction != Direction::kReverse) {
      add_between(out, (chunk_ - 1) - index_, index_ + 1, /*reverse=*/false);
    }
    if (count_ > 1 && direction != Direction::kCausal) {
      add_between(out, index_, chunk_ - index_, /*reverse=*/true);
    }
    return out.view({-1, count_ * chunk_, w_.size(2)}).narrow(1, 0, tokens_);
  }

 private:
  /// [batch * heads * count, ..] as [batch, heads, count, ..].
  at::Tensor by_head(const at::Tensor& x) const {
    return x.view({-1, decay_.size(0), count_, x.size(1), x.size(2)});
  }
  /// Rows of x [batch * heads * count, chunk, width] multiplied by factors [heads, chunk].
  at::Tensor scaled(const at::Tensor& x, const at::Tensor& factors) const {
    const at::Tensor by_row = factors.view({-1, 1, chunk_, 1});
    return (by_head(x) * by_row).view(x.sizes()).to(x.scalar_type());
  }

  at::Tensor within(Direction direction) const {
    at::Tensor mask = decay_matrices(decay_, (index_.unsqueeze(1) - index_).abs());
    if (direction == Direction::kCausal) mask.tril_();
    if (direction == Direction::kReverse) mask.triu_();
    const at::Tensor scores = accum_bmm(x_, y_.transpose(1, 2));
    by_head(scores).mul_(mask.unsqueeze(1));
    return accum_bmm(scores.to(w_.scalar_type()), w_);
  }

  /// Adds the keys of the chunks before (after in reverse): `to_edge` [chunk] is the distance from
  /// a key to the edge of its chunk, `from_edge` that from the edge of the chunk before to a query.
  void add_between(at::Tensor& out, const at::Tensor& to_edge, const at::Tensor& from_edge,
                   bool reverse) const {
    const at::Tensor keys = scaled(y_, decay_factors(decay_, to_edge));
    at::Tensor states = accum_bmm(keys.transpose(1, 2), w_);
    const auto shape = states.sizes().vec();
    states = states.view({-1, decay_.size(0), count_, shape[1] * shape[2]});
    const auto step = static_cast<double>(chunk_);
    states = reverse ? decayed_scan(states.flip(2), decay_, step).flip(2)
                     : decayed_scan(states, decay_, step);
    const at::Tensor sums = accum_bmm(x_, states.reshape(shape).to(x_.scalar_type()));
    const at::Tensor factors = decay_factors(decay_, from_edge).view({-1, 1, chunk_, 1});
    by_head(out).addcmul_(by_head(sums), factors);
  }

  std::int64_t tokens_;
  std::int64_t chunk_;
  std::int64_t count_;
  at::Tensor x_;
  at::Tensor y_;
  at::Tensor w_;
  at::Tensor decay_;  // [heads]
  at::Tensor index_;  // 0 .. chunk - 1
};

at::Tensor decay_product_op(const at::Tensor& x, const at::Tensor& y, const at::Tensor& w,
                            const at::Tensor& decay, const OptionalTensor& scale,
                            std::string_view name) {
  const Direction direction = direction_of(name);
  check_scan_type(kDecayProduct, x);
  check_scan_like(kDecayProduct, x, y, x.dim());
  check_scan_like(kDecayProduct, x, w, x.dim() - 1);
  check_scan_factors(kDecayProduct, x, scale);
  check_decay_values(x, decay);
  const at::OptionalDeviceGuard guard(x.device());
  c10::DimVector sizes(x.sizes());
  sizes.back() = w.size(-1);
  if (c10::multiply_integers(sizes) == 0 || y.numel() == 0) return at::zeros(sizes, w.options());
  // float16 would overflow on states.
  const bool multiply_16_bit = x.is_cuda() && kHasFloatProducts && x.scalar_type() == at::kBFloat16;
  const at::ScalarType accum = accum_type(x.scalar_type());
  const at::ScalarType type = multiply_16_bit ? x.scalar_type() : accum;
  const auto flat = [type](const at::Tensor& t) { return flatten_batch(t).to(type); };
  at::Tensor out = DecayedChunks(flat(x), flat(y), flat(w), decay.to(accum)).product(direction);
  if (scale.has_value()) out.mul_(flatten_factors(*scale).unsqueeze(-1));
  return out.to(w.scalar_type()).contiguous().view(sizes);
}

at::Tensor decay_product_meta(const at::Tensor& x, const at::Tensor&, const at::Tensor& w,
                              const at::Tensor&, const OptionalTensor&, std::string_view) {
  c10::SymDimVector sizes(x.sym_sizes());
  sizes.back() = w.sym_size(-1);
  return at::empty_symint(sizes, w.options());
}

}  // namespace

at::Tensor decay_factors(const at::Tensor& decay, const at::Tensor& distances) {
  return (decay.unsqueeze(-1) * -distances).exp();
}

at::Tensor call_linear_decay_product(const at::Tensor& x, const at::Tensor& y, const at::Tensor& w,
                                     const at::Tensor& decay, const OptionalTensor& scale,
                                     Direction direction) {
  static const auto handle = torch::find_operator<DecaySignature>("rotary::linear_decay_product");
  return handle.call(x, y, w, decay, scale, name_of(direction));
}

}  // namespace rotary::transformer

TORCH_LIBRARY_FRAGMENT(rotary, m) {
  m.def(
      "linear_decay_product(Tensor x, Tensor y, Tensor w, Tensor decay, Tensor? scale=None, "
      "str direction='causal') -> Tensor",
      {at::Tag::pt2_compliant_tag});
}
TORCH_LIBRARY_IMPL(rotary, CPU, m) {
  m.impl("linear_decay_product", rotary::transformer::decay_product_op);
}
TORCH_LIBRARY_IMPL(rotary, CUDA, m) {
  m.impl("linear_decay_product", rotary::transformer::decay_product_op);
}
TORCH_LIBRARY_IMPL(rotary, Meta, m) {
  m.impl("linear_decay_product", rotary::transformer::decay_product_meta);
}
