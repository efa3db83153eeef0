// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "pytorch/cache_store.h"

#include <ATen/Functions.h>
#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>
#include <c10/util/Exception.h>

#include <limits>

#include "pytorch/token_positions_ref.h"
#include "pytorch/views.h"

namespace rotary::torch {
namespace {

constexpr double kMinScale = 0x1p-126;  // of computed scales: rotary/kv_cache.h

std::optional<DType> quantized_type(std::string_view name) {
  if (name == "e4m3") return DType::kFloat8E4M3;
  if (name == "e5m2") return DType::kFloat8E5M2;
  if (name == "int8") return DType::kInt8;
  return std::nullopt;
}

double max_of(DType type) {
  return type == DType::kInt8 ? 127.0 : type == DType::kFloat8E4M3 ? 448.0 : 57344.0;
}

DType stored_type(std::string_view function, const at::Tensor& data, std::string_view name) {
  const std::optional<DType> named = quantized_type(name);
  TORCH_CHECK_VALUE(name == "auto" || named, "[", function,
                    "] cache_type must be auto, e4m3, e5m2 or int8, got ", name);
  std::optional<DType> own;
  switch (data.scalar_type()) {
    case at::kFloat8_e4m3fn:
      own = DType::kFloat8E4M3;
      break;
    case at::kFloat8_e5m2:
      own = DType::kFloat8E5M2;
      break;
    case at::kChar:
      own = DType::kInt8;
      break;
    case at::kByte:
      TORCH_CHECK_VALUE(named && *named != DType::kInt8, "[", function,
                        "] a cache of uint8 needs a cache_type of e4m3 or e5m2, got ", name);
      return *named;
    case at::kFloat:
      own = DType::kFloat32;
      break;
    case at::kDouble:
      own = DType::kFloat64;
      break;
    case at::kHalf:
      own = DType::kFloat16;
      break;
    case at::kBFloat16:
      own = DType::kBFloat16;
      break;
    default:
      C10_THROW_ERROR(ValueError, c10::str("[", function, "] caches of ", data.scalar_type(),
                                           " are not supported"));
  }
  TORCH_CHECK_VALUE(!named || named == own, "[", function, "] cache_type ", name,
                    " does not fit a cache of ", data.scalar_type());
  return *own;
}

void check_scale(std::string_view function, const CacheStore& store, const at::Tensor& scale) {
  TORCH_CHECK_VALUE(scale.scalar_type() == at::kFloat, "[", function,
                    "] scales must be float32, got ", scale.scalar_type());
  TORCH_CHECK_VALUE(scale.device() == store.data.device(), "[", function,
                    "] scales must be on the device of the cache, got ", scale.device());
  TORCH_CHECK_VALUE(store.is_quantized(), "[", function,
                    "] scales are for quantised caches, got one of ", store.data.scalar_type());
}

/// The library's view of any tensor whose elements are of `type`.
TensorView stored_view(std::string_view function, const at::Tensor& x, DType type) {
  TORCH_CHECK_VALUE(x.dim() >= 1 && x.dim() <= kMaxRank, "[", function, "] caches must have 1 to ",
                    kMaxRank, " dimensions, got ", x.dim());
  TensorView view{.data = x.mutable_data_ptr(),
                  .dtype = type,
                  .rank = static_cast<int>(x.dim()),
                  .device = rotary_device(x)};
  for (std::int64_t i = 0; i < x.dim(); ++i) {
    view.shape[static_cast<std::size_t>(i)] = x.size(i);
    view.strides[static_cast<std::size_t>(i)] = x.stride(i);
  }
  return view;
}

}  // namespace

at::ScalarType scalar_type_of(DType type) {
  return type == DType::kInt8         ? at::kChar
         : type == DType::kFloat8E4M3 ? at::kFloat8_e4m3fn
                                      : at::kFloat8_e5m2;
}

CacheStore make_store(std::string_view function, const at::Tensor& data,
                      const OptionalTensor& scale, const OptionalTensor& computed,
                      const QuantizeOptions& options) {
  TORCH_CHECK_VALUE(options.use == "divide" || options.use == "multiply", "[", function,
                    "] scale_use must be divide or multiply, got ", options.use);
  CacheStore store{.data = data,
                   .type = stored_type(function, data, options.type),
                   .use = options.use == "divide" ? ScaleUse::kDivide : ScaleUse::kMultiply};
  TORCH_CHECK_VALUE(!is_given(scale) || !is_given(computed), "[", function,
                    "] scales are either given or computed, got both");
  if (is_given(scale)) {
    check_scale(function, store, *scale);
    store.scale = *scale;
  }
  if (is_given(computed)) {
    check_scale(function, store, *computed);
    store.computed = *computed;
  }
  return store;
}

StoredTensor view_of(std::string_view function, const CacheStore& store) {
  StoredTensor view{.data = stored_view(function, store.data, store.type), .use = store.use};
  if (store.scale) {
    view.scale = stored_view(function, store.scale->view({-1}), DType::kFloat32);
  }
  if (store.computed) {
    view.computed_scales = stored_view(function, *store.computed, DType::kFloat32);
  }
  return view;
}

Slots view_of(std::string_view function, const CacheSlots& slots) {
  const ConstTensorView indices = plain_view(function, slots.indices);
  if (!is_given(slots.block_table)) return Slots::flat(indices);
  return Slots::paged(
      plain_view(function, *slots.block_table), indices,
      is_given(slots.sequences) ? plain_view(function, *slots.sequences) : ConstTensorView{});
}

// ---- By PyTorch's operators ---------------------------------------------------------------------

namespace {

std::int64_t block_size_of(const CacheStore& store) {
  return store.data.dim() == 4 ? store.data.size(1) : 1;
}

/// What indexes the slots of a cache, or of its scales.
c10::List<OptionalTensor> index_of(const CacheStore& store, const at::Tensor& slots) {
  if (store.data.dim() != 4) return c10::List<OptionalTensor>({slots});
  const std::int64_t size = block_size_of(store);
  return c10::List<OptionalTensor>({at::floor_divide(slots, size), at::remainder(slots, size)});
}

/// Elements after scaling, rounded and saturated.
at::Tensor rounded(const at::Tensor& scaled, DType type) {
  if (type == DType::kInt8) return scaled.nan_to_num(0.0).clamp(-128, 127).round().to(at::kChar);
  // The NaN without a sign.
  const at::Tensor bounded = scaled.clamp(-max_of(type), max_of(type));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  return bounded.masked_fill(bounded.isnan(), nan).to(scalar_type_of(type));
}

at::Tensor scaled_by(const at::Tensor& x, const at::Tensor& scale, ScaleUse use) {
  return use == ScaleUse::kDivide ? x / scale : x * scale;
}

/// 8-bit elements as uint8, which every operator knows.
at::Tensor as_bytes(const at::Tensor& x) { return x.element_size() == 1 ? x.view(at::kByte) : x; }

}  // namespace

Quantized quantize_groups(const at::Tensor& x, DType type, std::int64_t groups, ScaleUse use) {
  const double largest = std::numeric_limits<float>::max();
  const at::Tensor wide = x.to(at::kFloat).unflatten(-1, {groups, -1});
  const at::Tensor max = wide.abs().nan_to_num(0.0, largest).amax(-1);
  // A tensor: PyTorch divides by numbers on CUDA, and numbers by tensors, through reciprocals.
  const at::Tensor of_type = at::full_like(max, max_of(type));
  const at::Tensor scales = use == ScaleUse::kDivide ? (max / of_type).clamp_min(kMinScale)
                                                     : (of_type / max).clamp_max(1 / kMinScale);
  const at::Tensor codes = rounded(scaled_by(wide, scales.unsqueeze(-1), use), type);
  return {codes.flatten(-2), scales};
}

at::Tensor flat_slots(const CacheSlots& slots, const CacheStore& store, std::int64_t tokens) {
  const at::Tensor indices = slots.indices.reshape({-1}).to(at::kLong);
  if (!is_given(slots.block_table)) return indices;
  const std::int64_t size = block_size_of(store);
  const at::Tensor known = indices.clamp_min(0);
  const at::Tensor rows =
      is_given(slots.sequences)
          ? slots.sequences->reshape({-1}).to(at::kLong)
          : at::floor_divide(at::arange(indices.size(0), indices.options()), tokens);
  const at::Tensor blocks =
      slots.block_table->index({rows, at::floor_divide(known, size)}).to(at::kLong);
  return at::where(indices.ge(0), blocks * size + at::remainder(known, size), indices);
}

void check_put(std::string_view function, const CacheStore& store, const at::Tensor& heads,
               const at::Tensor& slots) {
  const at::Tensor& data = store.data;
  TORCH_CHECK_VALUE(data.size(-2) == heads.size(-2) && data.size(-1) == heads.size(-1), "[",
                    function, "] caches must hold ", heads.size(-2), " heads of ", heads.size(-1),
                    ", got ", data.sizes());
  TORCH_CHECK_VALUE(store.is_quantized() || data.scalar_type() == heads.scalar_type(), "[",
                    function, "] caches must have the type of what is stored, ",
                    heads.scalar_type(), ", or float8 or int8, got ", data.scalar_type());
  TORCH_CHECK_VALUE(
      !store.scale || store.scale->numel() == 1 || store.scale->numel() == heads.size(-2), "[",
      function, "] scales must be float32 of [1] or [", heads.size(-2), "], got ",
      store.scale ? store.scale->numel() : 0);
  if (store.computed) {
    const at::IntArrayRef rows = data.sizes().slice(0, static_cast<std::size_t>(data.dim()) - 1);
    const at::IntArrayRef sizes = store.computed->sizes();
    const bool has_groups = store.computed->dim() == data.dim();
    const std::int64_t groups = has_groups ? sizes.back() : 1;
    TORCH_CHECK_VALUE(sizes.slice(0, sizes.size() - (has_groups ? 1 : 0)) == rows && groups > 0 &&
                          heads.size(-1) % groups == 0,
                      "[", function, "] computed scales must be ", rows,
                      " with or without a number of groups that divides head_dim, got ", sizes);
  }
  if (slots.numel() == 0) return;
  const std::int64_t count = data.dim() == 4 ? data.size(0) * data.size(1) : data.size(0);
  const auto low = slots.min().item<std::int64_t>();
  const auto high = slots.max().item<std::int64_t>();
  TORCH_CHECK_VALUE(low >= -1, "[", function, "] slots must be -1 or not negative, got ", low);
  TORCH_CHECK_VALUE(high < count, "[", function, "] slots must be below ", count, ", got ", high);
}

void put(const CacheStore& store, const at::Tensor& heads, const at::Tensor& slots) {
  const at::Tensor stored = slots.ge(0).nonzero().squeeze(1);
  const c10::List<OptionalTensor> index = index_of(store, slots.index_select(0, stored));
  const at::Tensor x = heads.index_select(0, stored);
  at::Tensor data = as_bytes(store.data);
  if (!store.is_quantized()) {
    data.index_put_(index, x);
    return;
  }
  if (store.computed) {
    const bool has_groups = store.computed->dim() == store.data.dim();
    const auto all =
        quantize_groups(x, store.type, has_groups ? store.computed->size(-1) : 1, store.use);
    store.computed->index_put_(index, has_groups ? all.scales : all.scales.squeeze(-1));
    data.index_put_(index, as_bytes(all.data));
    return;
  }
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor scaled =
      store.scale ? scaled_by(wide, store.scale->reshape({-1, 1}), store.use) : wide;
  data.index_put_(index, as_bytes(rounded(scaled, store.type)));
}

at::Tensor take(const CacheStore& store, const at::Tensor& slots) {
  const c10::List<OptionalTensor> index = index_of(store, slots.clamp_min(0));
  const at::Tensor data = as_bytes(store.data).index(index);
  if (!store.is_quantized()) return data;
  const at::Tensor wide = data.view(scalar_type_of(store.type)).to(at::kFloat);
  const ScaleUse use = store.use == ScaleUse::kDivide ? ScaleUse::kMultiply : ScaleUse::kDivide;
  if (store.computed) {
    const at::Tensor scales = store.computed->index(index);
    const bool has_groups = store.computed->dim() == store.data.dim();
    if (!has_groups) return scaled_by(wide, scales.unsqueeze(-1), use);
    return scaled_by(wide.unflatten(-1, {scales.size(-1), -1}), scales.unsqueeze(-1), use)
        .flatten(-2);
  }
  return store.scale ? scaled_by(wide, store.scale->reshape({-1, 1}), use) : wide;
}

}  // namespace rotary::torch
