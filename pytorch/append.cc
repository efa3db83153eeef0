// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The operators that rotate into caches of keys and values: append_kv, mla_append, and both in
// place. The library's engine runs them in one pass; batches of more than four dimensions are
// flattened. A norm that it does not take goes by norm_rotate, then a store; float64 and ropes of
// too many pairs on CUDA are stored by PyTorch's operators.

#include <ATen/DeviceGuard.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/library.h>

#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

#include "pytorch/cache_store.h"
#include "pytorch/cuda_stream.h"
#include "pytorch/empty_result.h"
#include "pytorch/errors.h"
#include "pytorch/no_derivative.h"
#include "pytorch/norm_call.h"
#include "pytorch/operator.h"
#include "pytorch/rope_cache.h"
#include "pytorch/rotation_op.h"
#include "pytorch/views.h"
#include "rotary/kv_cache.h"
#include "rotary/rope.h"

namespace rotary::torch {
namespace {

using NormSignature = std::vector<at::Tensor>(at::TensorList, at::TensorList, at::TensorList,
                                              std::string_view, const OptionalTensor&,
                                              const OptionalTensor&, c10::SymInt, std::int64_t,
                                              double, std::string_view, std::string_view,
                                              std::string_view, std::string_view, bool);

struct NormOptions {
  const OptionalTensor& q_weight;
  const OptionalTensor& k_weight;
  const OptionalTensor& q_bias;
  const OptionalTensor& k_bias;
  HeadNorm norm{.kind = NormKind::kNone};
};

/// What is given of these.
std::vector<at::Tensor> given_of(std::initializer_list<const OptionalTensor*> rows) {
  std::vector<at::Tensor> given;
  for (const OptionalTensor* x : rows) {
    if (is_given(*x)) given.push_back(**x);
  }
  return given;
}

/// The arguments of an append, of keys and values or of MLA's tail and latent.
struct AppendArguments {
  std::string_view function;
  at::Tensor q{};
  at::Tensor k{};
  at::Tensor v{};
  CacheStore keys{};
  CacheStore values{};
  CacheSlots slots{};
  std::string_view rope{};
  TokenPositionsRef token_positions;
};

bool has_engine(const AppendArguments& a) {
  const bool on_cuda = a.q.is_cuda();
  for (const at::Tensor* x : {&a.q, &a.k, &a.v, &a.keys.data, &a.values.data}) {
    if (!(on_cuda ? x->is_cuda() : x->is_cpu())) return false;
    if (on_cuda && x->scalar_type() == at::kDouble) return false;
  }
  return !on_cuda || fits_fused_launch(a.rope);
}

/// Whether the engine takes the norm, too.
bool has_engine(const AppendArguments& a, const NormOptions& norm) {
  if (!has_engine(a)) return false;
  if (norm.norm.kind == NormKind::kNone) return true;
  const std::vector<at::Tensor> weights = given_of({&norm.q_weight, &norm.k_weight});
  const std::vector<at::Tensor> biases = given_of({&norm.q_bias, &norm.k_bias});
  return has_norm_engine({a.q, a.k}, {weights, biases}, a.rope);
}

/// Slots of a call whose batches are flattened.
CacheSlots flatten_slots(const CacheSlots& slots) {
  const auto flat = [](const at::Tensor& x) { return x.dim() <= 2 ? x : x.flatten(0, -2); };
  const auto if_given = [&flat](const OptionalTensor& x) {
    return is_given(x) ? OptionalTensor(flat(*x)) : x;
  };
  return {flat(slots.indices), slots.block_table, if_given(slots.sequences)};
}

/// [n, heads, head_dim].
at::Tensor rows_of(const at::Tensor& x, std::int64_t token_dim) {
  const at::Tensor by_token = token_dim == -2 ? x.transpose(-3, -2) : x;
  return by_token.flatten(0, -3);
}

std::int64_t tokens_of(const AppendArguments& a) { return a.k.size(a.token_positions.token_dim); }

/// k, which is rotated already, and v into their caches.
void store_rotated(const AppendArguments& a) {
  const std::int64_t token_dim = a.token_positions.token_dim;
  if (has_engine(a)) {
    const c10::OptionalDeviceGuard guard(cuda_device_of(a.k));
    translate_errors([&] {
      store_kv({.k = heads_view(a.function, flatten_batch(a.k), token_dim),
                .v = heads_view(a.function, flatten_batch(a.v), token_dim),
                .keys = view_of(a.function, a.keys),
                .values = view_of(a.function, a.values),
                .slots = view_of(a.function, flatten_slots(a.slots))},
               find_rope(a.rope)->rope().options().threads, stream_of(a.k));
    });
    return;
  }
  at::Tensor slots = flat_slots(a.slots, a.keys, tokens_of(a));
  const at::Tensor k = rows_of(a.k, token_dim);
  TORCH_CHECK_VALUE(slots.size(0) <= k.size(0), "[", a.function, "] slots must be at most ",
                    k.size(0), ", got ", slots.size(0));
  const at::Tensor v = rows_of(a.v, token_dim);
  check_put(a.function, a.keys, k, slots);
  check_put(a.function, a.values, v, slots);
  put(a.keys, k.narrow(0, 0, slots.size(0)), slots);
  put(a.values, v.narrow(0, 0, slots.size(0)), slots);
}

/// Rows of both tensors, or none: filled with `nothing` where one has none.
std::vector<at::Tensor> rows_of(const AppendArguments& a, const HeadNorm& norm,
                                const OptionalTensor& of_q, const OptionalTensor& of_k,
                                double nothing) {
  if (!is_given(of_q) && !is_given(of_k)) return {};
  const auto given = [&](const OptionalTensor& row, const at::Tensor& x) {
    if (is_given(row)) return *row;
    const std::int64_t heads = a.token_positions.token_dim == -3 ? x.size(-2) : x.size(-3);
    const std::int64_t count = norm.scope == NormScope::kAllHeads ? heads : 1;
    return at::full({count * x.size(-1)}, nothing, x.options());
  };
  return {given(of_q, a.q), given(of_k, a.k)};
}

/// Weights of both tensors: what changes nothing where one has none.
std::vector<at::Tensor> weights_of(const AppendArguments& a, const NormOptions& norm) {
  const double nothing = norm.norm.kind == NormKind::kRmsOnePlus ? 0.0 : 1.0;
  return rows_of(a, norm.norm, norm.q_weight, norm.k_weight, nothing);
}

/// q and k, normalised and rotated into new tensors.
std::vector<at::Tensor> rotated(const AppendArguments& a, const NormOptions& norm) {
  const HeadNorm& how = norm.norm;
  const bool inverts = how.rotation == NormRotation::kInverse;
  if (how.kind == NormKind::kNone) {
    return call(inverts ? RotationOp::kUnrotate : RotationOp::kRotate, {a.q, a.k}, a.rope,
                a.token_positions);
  }
  static const auto handle = find_operator<NormSignature>("rotary::norm_rotate");
  const TokenPositionsRef& at = a.token_positions;
  const std::vector<at::Tensor> biases = rows_of(a, how, norm.q_bias, norm.k_bias, 0.0);
  return handle.call(at::TensorList{a.q, a.k}, weights_of(a, norm), biases, a.rope, at.positions,
                     at.cu_seqlens, at.first, at.token_dim, how.eps, name_of(how.kind),
                     name_of(how.rounding), name_of(how.scope), name_of(how.order), inverts);
}

/// q, which may be q_out, and q_out have up to four dimensions.
void run_engine(const AppendArguments& a, const NormOptions& norm, const at::Tensor& q,
                const at::Tensor& q_out) {
  const c10::OptionalDeviceGuard guard(cuda_device_of(a.q));
  HeadNorm how = norm.norm;
  how.sum_lanes = how.kind == NormKind::kNone ? how.sum_lanes : sum_lanes_of_engine(a.q, how);
  std::vector<at::Tensor> kept;
  const auto row = [&](const OptionalTensor& x) {
    if (how.kind == NormKind::kNone || !is_given(x)) return ConstTensorView{};
    kept.push_back(x->contiguous());
    return plain_view(a.function, kept.back());
  };
  const std::int64_t token_dim = a.token_positions.token_dim;
  const auto rope = find_rope(a.rope);
  const CacheSlots slots = flatten_slots(a.slots);
  const TensorView to = writable_heads_view(a.function, q_out, token_dim);
  const at::Tensor flat_k = flatten_batch(a.k);
  const at::Tensor flat_v = flatten_batch(a.v);
  const ConstTensorView k = heads_view(a.function, flat_k, token_dim);
  translate_errors([&] {
    rope->rope().append(
        {.q = q.is_same(q_out) ? Operand(to) : Operand(heads_view(a.function, q, token_dim), to),
         .k = k,
         .v = heads_view(a.function, flat_v, token_dim),
         .keys = view_of(a.function, a.keys),
         .values = view_of(a.function, a.values),
         .slots = view_of(a.function, slots),
         .norm = how,
         .q_weight = row(norm.q_weight),
         .k_weight = row(norm.k_weight),
         .q_bias = row(norm.q_bias),
         .k_bias = row(norm.k_bias)},
        make_positions(a.function, *rope, a.token_positions, k), stream_of(a.q));
  });
}

at::Tensor append_to_new(const AppendArguments& a, const NormOptions& norm) {
  if (has_engine(a, norm)) {
    at::Tensor q_out = empty_result_like(a.q);
    const at::Tensor flat_out = flatten_batch(q_out);
    run_engine(a, norm, flatten_batch(a.q), flat_out);
    // A copy, if q_out cannot be viewed so.
    if (!flat_out.is_alias_of(q_out)) q_out.copy_(flat_out.view_as(q_out));
    return q_out;
  }
  const std::vector<at::Tensor> results = rotated(a, norm);
  AppendArguments stored = a;
  stored.k = results[1];
  store_rotated(stored);
  return results[0];
}

/// A `Result` of void is in place.
template <class Result>
Result append(const AppendArguments& a, const NormOptions& norm) {
  if constexpr (std::is_void_v<Result>) {
    if (!has_engine(a, norm)) {
      a.q.copy_(append_to_new(a, norm));
      return;
    }
    const at::Tensor flat = flatten_batch(a.q);
    run_engine(a, norm, flat, flat);
    if (!flat.is_alias_of(a.q)) a.q.copy_(flat.view_as(a.q));
  } else {
    return append_to_new(a, norm);
  }
}

/// The shape of the result alone.
template <class Result>
Result append_meta(const at::Tensor& q) {
  if constexpr (!std::is_void_v<Result>) return at::empty_like(q);
}

void check_heads(std::string_view function, const at::Tensor& q, const at::Tensor& k,
                 const at::Tensor& v, std::int64_t token_dim) {
  for (const at::Tensor* x : {&q, &k, &v}) {
    check_rank(function, *x, token_dim);
    TORCH_CHECK_VALUE(x->device() == q.device(), "[", function,
                      "] tensors must be on one device, got ", q.device(), " and ", x->device());
    TORCH_CHECK_VALUE(x->dim() == q.dim() && x->sym_size(token_dim) == q.sym_size(token_dim), "[",
                      function, "] q, k and v must share batch and tokens, got ", q.sym_sizes(),
                      " and ", x->sym_sizes());
  }
}

// ---- Keys and values ----------------------------------------------------------------------------

constexpr std::string_view kAppendKv = "rope_append_kv";

void check_kv(const AppendArguments& a) {
  check_heads(kAppendKv, a.q, a.k, a.v, a.token_positions.token_dim);
  const std::int64_t head_dim = find_rope(a.rope)->layout().head_dim;
  TORCH_CHECK_VALUE(a.q.sym_size(-1) == head_dim && a.k.sym_size(-1) == head_dim,
                    "[rope_append_kv] the last size of q and k must be head_dim ", head_dim,
                    ", got ", a.q.sym_sizes(), " and ", a.k.sym_sizes());
  for (const at::Tensor* cache : {&a.keys.data, &a.values.data}) {
    TORCH_CHECK_VALUE(cache->device() == a.q.device(),
                      "[rope_append_kv] caches must be on the device of q, got ", cache->device());
    TORCH_CHECK_VALUE(cache->dim() == 3 || cache->dim() == 4,
                      "[rope_append_kv] caches must be [blocks, block_size, heads, head_dim] or "
                      "[slots, heads, head_dim], got ",
                      cache->sym_sizes());
  }
}

template <class Result>
Result append_kv(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                 const at::Tensor& key_cache, const at::Tensor& value_cache,
                 const at::Tensor& slots, std::string_view rope, const OptionalTensor& block_table,
                 const OptionalTensor& sequences, const OptionalTensor& positions,
                 const OptionalTensor& cu_seqlens, c10::SymInt first, std::int64_t token_dim,
                 const OptionalTensor& k_scale, const OptionalTensor& v_scale,
                 const OptionalTensor& key_scales, const OptionalTensor& value_scales,
                 std::string_view scale_use, std::string_view cache_type,
                 const OptionalTensor& q_weight, const OptionalTensor& k_weight, double eps,
                 std::string_view norm, std::string_view rounding, const OptionalTensor& q_bias,
                 const OptionalTensor& k_bias, std::string_view scope, std::string_view order,
                 bool inverse) {
  const QuantizeOptions options{.type = cache_type, .use = scale_use};
  const AppendArguments a{
      .function = kAppendKv,
      .q = q,
      .k = k,
      .v = v,
      .keys = make_store(kAppendKv, key_cache, k_scale, key_scales, options),
      .values = make_store(kAppendKv, value_cache, v_scale, value_scales, options),
      .slots = {slots, block_table, sequences},
      .rope = rope,
      .token_positions = {positions, cu_seqlens, std::move(first), token_dim}};
  check_kv(a);
  const HeadNorm how = norm_of(eps, norm, rounding, scope, order, inverse);
  TORCH_CHECK_VALUE(how.kind == NormKind::kLayer || (!is_given(q_bias) && !is_given(k_bias)),
                    "[rope_append_kv] only norm layer has a bias, got one with ", norm);
  if (q.is_meta()) return append_meta<Result>(q);
  return append<Result>(a, {q_weight, k_weight, q_bias, k_bias, how});
}

// ---- MLA: a rotated tail beside a latent --------------------------------------------------------

constexpr std::string_view kMla = "mla_rope_append";
constexpr std::int64_t kMlaGroup = 128;  // elements of the latent with one scale, type "rows"

/// [.., tokens, n] as [.., tokens, 1, n].
at::Tensor one_head(const at::Tensor& x, std::int64_t dim) {
  return x.dim() == dim ? x : x.unsqueeze(-2);
}

/// The parts of a cache [.., row]: type "auto", "e4m3" and "e5m2": latent, then tail, of one type;
/// "rows": the latent as e4m3, a float32 scale for each 128 of it, then the tail in its own type.
struct MlaParts {
  MlaParts(const at::Tensor& cache, const at::Tensor& k, const at::Tensor& latent,
           const OptionalTensor& scale, const QuantizeOptions& options) {
    const std::int64_t tail = k.size(-1);
    const std::int64_t n = latent.size(-1);
    TORCH_CHECK_VALUE(cache.dim() == 2 || cache.dim() == 3,
                      "[mla_rope_append] the cache must be [blocks, block_size, row] or [slots, "
                      "row], got ",
                      cache.sizes());
    if (options.type == "rows") {
      set_rows(cache, k, n, scale);
      return;
    }
    TORCH_CHECK_VALUE(cache.size(-1) == n + tail, "[mla_rope_append] a row must have ", n, " + ",
                      tail, " elements, got ", cache.size(-1));
    values = make_store(kMla, cache.narrow(-1, 0, n).unsqueeze(-2), scale, {}, options);
    keys = make_store(kMla, cache.narrow(-1, n, tail).unsqueeze(-2), scale, {}, options);
  }

  CacheStore keys{};
  CacheStore values{};

 private:
  void set_rows(const at::Tensor& cache, const at::Tensor& k, std::int64_t n,
                const OptionalTensor& scale) {
    const std::int64_t tail = k.size(-1) * k.element_size();
    const std::int64_t scales = n / kMlaGroup * 4;
    TORCH_CHECK_VALUE(cache.element_size() == 1 && !is_given(scale) && n % kMlaGroup == 0 &&
                          cache.size(-1) == n + scales + tail,
                      "[mla_rope_append] a cache of rows must be uint8 with ", n, " + ", scales,
                      " + ", tail, " bytes a row and no given scale, got ", cache.scalar_type(),
                      " and ", cache.size(-1));
    const at::Tensor bytes = cache.view(at::kByte);
    const OptionalTensor none;
    values =
        make_store(kMla, bytes.narrow(-1, 0, n).unsqueeze(-2), none,
                   bytes.narrow(-1, n, scales).view(at::kFloat).unsqueeze(-2), {.type = "e4m3"});
    keys = make_store(kMla, bytes.narrow(-1, n + scales, tail).view(k.scalar_type()).unsqueeze(-2),
                      none, none, {});
  }
};

template <class Result>
Result mla_append(const at::Tensor& q, const at::Tensor& k, const at::Tensor& latent,
                  const at::Tensor& cache, const at::Tensor& slots, std::string_view rope,
                  const OptionalTensor& block_table, const OptionalTensor& sequences,
                  const OptionalTensor& positions, const OptionalTensor& cu_seqlens,
                  c10::SymInt first, const OptionalTensor& scale, std::string_view scale_use,
                  std::string_view cache_type) {
  const at::Tensor tail = one_head(k, q.dim());
  const at::Tensor rest = one_head(latent, q.dim());
  check_heads(kMla, q, tail, rest, -3);
  if (q.is_meta()) return append_meta<Result>(q);
  const MlaParts parts(cache, k, latent, scale, {.type = cache_type, .use = scale_use});
  const OptionalTensor none;
  return append<Result>({.function = kMla,
                         .q = q,
                         .k = tail,
                         .v = rest,
                         .keys = parts.keys,
                         .values = parts.values,
                         .slots = {slots, block_table, sequences},
                         .rope = rope,
                         .token_positions = {positions, cu_seqlens, std::move(first), -3}},
                        {none, none, none, none});
}

// ---- Registration -------------------------------------------------------------------------------

void define_append(::torch::Library& m) {
  const auto add = [&m](const std::string& schema) {
    m.def(schema.c_str(), {at::Tag::pt2_compliant_tag});
  };
  const std::string where =
      "Tensor slots, str rope, Tensor? block_table=None, Tensor? sequences=None, "
      "Tensor? positions=None, Tensor? cu_seqlens=None, SymInt first=0, ";
  const std::string kv =
      "Tensor k, Tensor v, Tensor(a!) key_cache, Tensor(b!) value_cache, " + where +
      "int token_dim=-3, Tensor? k_scale=None, Tensor? v_scale=None, Tensor(c!)? key_scales=None, "
      "Tensor(d!)? value_scales=None, str scale_use='divide', str cache_type='auto', "
      "Tensor? q_weight=None, Tensor? k_weight=None, float eps=1e-06, str norm='none', "
      "str rounding='tensor', Tensor? q_bias=None, Tensor? k_bias=None, str scope='head', "
      "str order='before', bool inverse=False)";
  add("append_kv(Tensor q, " + kv + " -> Tensor");
  add("append_kv_(Tensor(q!) q, " + kv + " -> ()");
  const std::string mla = "Tensor k, Tensor latent, Tensor(a!) cache, " + where +
                          "Tensor? scale=None, str scale_use='divide', str cache_type='auto')";
  add("mla_append(Tensor q, " + mla + " -> Tensor");
  add("mla_append_(Tensor(q!) q, " + mla + " -> ()");
}

void implement_append(::torch::Library& m) {
  m.impl("append_kv", append_kv<at::Tensor>);
  m.impl("append_kv_", append_kv<void>);
  m.impl("mla_append", mla_append<at::Tensor>);
  m.impl("mla_append_", mla_append<void>);
}

}  // namespace
}  // namespace rotary::torch

TORCH_LIBRARY_FRAGMENT(rotary, m) { rotary::torch::define_append(m); }
TORCH_LIBRARY_IMPL(rotary, CPU, m) { rotary::torch::implement_append(m); }
TORCH_LIBRARY_IMPL(rotary, CUDA, m) { rotary::torch::implement_append(m); }
TORCH_LIBRARY_IMPL(rotary, Meta, m) { rotary::torch::implement_append(m); }
TORCH_LIBRARY_IMPL(rotary, Autograd, m) {
  for (const char* name : {"append_kv", "append_kv_", "mla_append", "mla_append_"}) {
    m.impl(name, rotary::torch::no_derivative());
  }
}
