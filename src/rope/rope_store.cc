// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The calls of a Rope that store their results (kv_cache.h), apart from rope.cc: the command
// `rotary` has none.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/store_kernel.h"
#include "rope/dispatch.h"
#include "rope/norm_call.h"
#include "rope/rope_state.h"
#include "rope/store_call.h"
#include "rope/validate.h"
#include "rotary/kv_cache.h"
#include "rotary/rope.h"
#include "support/message.h"

namespace rotary {
namespace {

using internal::CallMemory;
using internal::CheckedStore;
using internal::OperandList;
using internal::reject;

/// [batch, tokens, heads, head_dim] of a tensor that is stored. `head_dim` -1: any.
ConstTensorView check_source(std::string_view function, std::string_view name, ConstTensorView view,
                             std::int64_t head_dim, CallMemory& memory) {
  if (head_dim < 0 && view.rank >= 1 && view.rank <= kMaxRank) {
    head_dim = view.shape[static_cast<std::size_t>(view.rank - 1)];
  }
  memory.add_read(name, view);
  internal::check_heads(function, view, head_dim);
  if (is_float8(view.dtype)) {
    reject("[", function, "] float8 is for what is stored, got ", name, " of ",
           name_of(view.dtype));
  }
  return view;
}

/// An operand whose result goes to a store.
Operand stored_operand(const ConstTensorView& in) {
  TensorView out{nullptr, in.dtype, in.rank, in.shape, in.strides, in.device};
  return {in, out};
}

bool is_in_place(const Operand& x) noexcept { return x.in.data == x.out.data; }

/// The checked arguments of Rope::append.
struct AppendCall {
  /// `head_dim` -1: any. `positions` null: there is no rotation.
  AppendCall(std::string_view name, const KvAppend& given, const Positions* positions,
             std::int64_t head_dim, std::int64_t axes);

  std::string_view function;
  ConstTensorView k;
  OperandList operands;  // q, if any, and k
  std::size_t key_index = 0;
  std::array<internal::StoreCopy, 1> copies{};  // v
  std::size_t num_copies = 0;
  CheckedStore keys{};
  std::vector<std::int64_t> slots;

 private:
  void add_query(const Operand& q, std::int64_t head_dim, CallMemory& memory);
  void add_values(const KvAppend& given, CallMemory& memory);
  void check_device_types() const;
};

/// Of k and v: a head as floats fits shared memory.
constexpr std::int64_t kMaxHeadDimOnCuda = 8192;

void AppendCall::add_query(const Operand& q, std::int64_t head_dim, CallMemory& memory) {
  OperandList one;
  operands.add(internal::check_operands(function, q, head_dim, one).front());
  memory.add_written("q", q.out);
  if (!is_in_place(q)) memory.add_read("q", q.in);
  key_index = 1;
}

void AppendCall::add_values(const KvAppend& given, CallMemory& memory) {
  if (given.v.rank == 0) {
    if (given.values.data.rank != 0) reject("[", function, "] v and values must be given together");
    return;
  }
  const ConstTensorView v = check_source(function, "v", given.v, -1, memory);
  if (v.shape[0] != k.shape[0] || v.shape[1] != k.shape[1]) {
    reject("[", function, "] k and v must share batch and tokens, got ", k.shape[0], " x ",
           k.shape[1], " and ", v.shape[0], " x ", v.shape[1]);
  }
  const CheckedStore values =
      internal::check_store(function, "values", given.values, v.dtype, memory);
  internal::check_store_heads(function, "values", values.store, v.shape[2], v.shape[3]);
  if (values.blocks != keys.blocks || values.store.block_size != keys.store.block_size) {
    reject("[", function, "] keys and values must have the same blocks, got ", keys.blocks, " of ",
           keys.store.block_size, " and ", values.blocks, " of ", values.store.block_size);
  }
  copies[0] = {.from = v, .to = values.store};
  num_copies = 1;
}

AppendCall::AppendCall(std::string_view name, const KvAppend& given, const Positions* positions,
                       std::int64_t head_dim, std::int64_t axes)
    : function(name) {
  CallMemory memory(function, given.k.device);
  if (given.q) add_query(*given.q, head_dim, memory);
  k = check_source(function, "k", given.k, head_dim, memory);
  operands.add(stored_operand(k));
  const ConstTensorView& first = operands.list().front().in;
  if (first.shape[0] != k.shape[0] || first.shape[1] != k.shape[1]) {
    reject("[", function, "] q and k must share batch and tokens, got ", first.shape[0], " x ",
           first.shape[1], " and ", k.shape[0], " x ", k.shape[1]);
  }
  keys = internal::check_store(function, "keys", given.keys, k.dtype, memory);
  internal::check_store_heads(function, "keys", keys.store, k.shape[2], k.shape[3]);
  add_values(given, memory);
  for (const ConstTensorView& x : {given.q_weight, given.k_weight}) {
    memory.add_read("a weight", x);
  }
  for (const ConstTensorView& x : {given.q_bias, given.k_bias}) memory.add_read("a bias", x);
  memory.add(given.slots);
  if (positions != nullptr) {
    internal::check_positions(function, *positions, operands.list(), axes);
    memory.add_read(*positions);
  }
  memory.check();
  if (memory.is_on_host()) {
    slots = internal::resolve_slots(function, given.slots, k.shape[0], k.shape[1], keys);
  } else {
    internal::check_slots(function, given.slots, k.shape[0], k.shape[1]);
    check_device_types();
  }
}

void AppendCall::check_device_types() const {
  const auto check = [this](const ConstTensorView& x) {
    if (x.dtype == DType::kFloat64) {
      reject("[", function, "] tensors on CUDA must be float32, bfloat16 or float16, got float64");
    }
    if (x.shape[3] > kMaxHeadDimOnCuda) {
      reject("[", function, "] head_dim on CUDA must be at most ", kMaxHeadDimOnCuda, ", got ",
             x.shape[3]);
    }
  };
  for (const Operand& x : operands.list()) {
    check(x.in);
    if (x.out.dtype != x.in.dtype) {
      reject("[", function, "] q and its result must have one type on CUDA, got ",
             name_of(x.in.dtype), " and ", name_of(x.out.dtype));
    }
  }
  if (num_copies == 1) check(copies[0].from);
}

/// Launches the kernels of a call on CUDA. `norm` and `rotation` null: none.
void append_on_cuda(const AppendCall& call, const Slots& slots,
                    const internal::RotateParams* rotation, const internal::NormParams* norm,
                    const Stream& stream) {
  std::array<internal::StoreCopy, 2> copies = {call.copies[0]};
  std::size_t count = call.num_copies;
  internal::AppendParams params{.rotation = rotation,
                                .slots = slots,
                                .num_slots = call.keys.blocks * call.keys.store.block_size,
                                .norm = norm};
  if (rotation == nullptr) {
    copies[count++] = {.from = call.k, .to = call.keys.store};
  } else {
    params.stores[call.key_index] = &call.keys.store;
    internal::check_on_cuda(call.function, *rotation);
    internal::check_fused_on_cuda(call.function, *rotation);
  }
  params.copies = std::span<const internal::StoreCopy>(copies.data(), count);
  internal::append_on_cuda(call.function, params, stream);
}

bool is_on_cuda(const AppendCall& call) noexcept { return call.k.device.type == DeviceType::kCuda; }

/// Stores k and v as they are.
void store_all(const AppendCall& call, const Threads& threads) {
  std::vector<internal::StoreCopy> copies(call.copies.begin(),
                                          call.copies.begin() + call.num_copies);
  copies.push_back({.from = call.k, .to = call.keys.store});
  internal::store_on_cpu(copies, call.slots.data(), threads);
}

/// The keys of a cache as the operand of a rotation: loaded from there and stored there.
struct CachedKeys {
  CachedKeys(std::string_view function, const StoredTensor& given, const Slots& at,
             const Positions& positions, const Rope& rope) {
    CallMemory memory(function);
    keys = internal::check_store(function, "keys", given, std::nullopt, memory);
    const HeadStore& store = keys.store;
    internal::check_store_heads(function, "keys", store, store.heads, rope.layout().head_dim);
    memory.add(at);
    const ConstTensorView& indices = at.indices();
    const bool has_batch = indices.rank == 2;
    const Dims shape{has_batch ? indices.shape[0] : 1, indices.shape[has_batch ? 1 : 0],
                     store.heads, store.head_dim};
    const DType type = store.is_quantized() ? DType::kFloat32 : store.dtype;
    operands.add(TensorView{nullptr, type, 4, shape, {}, {}});
    slots = internal::resolve_slots(function, at, shape[0], shape[1], keys);
    internal::check_positions(function, positions, operands.list(), rope.frequencies().axes);
    memory.add_read(positions);
    memory.check();
  }

  void run(const internal::RotateParams& rotation, const Threads& threads) const {
    if (internal::is_empty(operands.list())) return;
    internal::rotate_store_on_cpu(
        {.rotation = rotation, .stores = {&keys.store}, .loads = true, .slots = slots.data()},
        threads);
  }

  using HeadStore = internal::HeadStore;
  CheckedStore keys{};
  OperandList operands;
  std::vector<std::int64_t> slots;
};

}  // namespace

void store_kv(const KvAppend& tensors, const Threads& threads, Stream stream) {
  internal::check_threads("store_kv", threads);
  if (tensors.q || tensors.norm.kind != NormKind::kNone) {
    reject("[store_kv] there must be no q and no norm: nothing is rotated");
  }
  const AppendCall call("store_kv", tensors, nullptr, -1, 1);
  if (is_on_cuda(call)) return append_on_cuda(call, tensors.slots, nullptr, nullptr, stream);
  store_all(call, threads);
}

void Rope::append(const KvAppend& tensors, const Positions& positions, Stream stream) const {
  const AppendCall call("append", tensors, &positions, layout().head_dim, frequencies().axes);
  const std::span<const Operand> operands = call.operands.list();
  std::optional<internal::AppendNorm> norm;
  if (tensors.norm.kind != NormKind::kNone) {
    norm.emplace("append", tensors, operands, layout().head_dim);
  }
  const bool on_cuda = is_on_cuda(call);
  const std::span<const internal::StoreCopy> copies(call.copies.data(), call.num_copies);
  if (!on_cuda && internal::is_empty(operands)) {
    return internal::store_on_cpu(copies, call.slots.data(), options().threads);
  }
  const internal::RotateParams rotation =
      state_->params(operands, positions, internal::direction_of(tensors.norm));
  const auto norm_params = norm ? std::optional(norm->params(rotation)) : std::nullopt;
  const internal::NormParams* const norm_or_none = norm_params ? &*norm_params : nullptr;
  if (on_cuda) return append_on_cuda(call, tensors.slots, &rotation, norm_or_none, stream);
  internal::RotateStoreParams params{
      .rotation = rotation, .copies = copies, .norm = norm_or_none, .slots = call.slots.data()};
  params.stores[call.key_index] = &call.keys.store;
  internal::rotate_store_on_cpu(params, options().threads);
}

namespace {

/// The arguments of rotate_to() and unrotate_to().
struct StoredResult {
  StoredResult(std::string_view function, const ConstTensorView& in, const StoredTensor& out,
               const Positions& positions, const Rope& rope) {
    CallMemory memory(function);
    operands.add(
        stored_operand(check_source(function, "the tensor", in, rope.layout().head_dim, memory)));
    if (out.data.rank != in.rank || out.data.shape != in.shape) {
      reject("[", function, "] out must have the shape of the tensor");
    }
    result = internal::check_store(function, "out", out, in.dtype, memory);
    internal::check_positions(function, positions, operands.list(), rope.frequencies().axes);
    memory.add_read(positions);
    memory.check();
  }

  OperandList operands;
  CheckedStore result{};
};

}  // namespace

void Rope::rotate_to(const ConstTensorView& in, const StoredTensor& out,
                     const Positions& positions) const {
  const StoredResult call("rotate_to", in, out, positions, *this);
  if (internal::is_empty(call.operands.list())) return;
  internal::rotate_store_on_cpu(
      {.rotation = state_->params(call.operands.list(), positions, internal::Direction::kForward),
       .stores = {&call.result.store}},
      options().threads);
}

void Rope::unrotate_to(const ConstTensorView& in, const StoredTensor& out,
                       const Positions& positions) const {
  const StoredResult call("unrotate_to", in, out, positions, *this);
  if (internal::is_empty(call.operands.list())) return;
  internal::rotate_store_on_cpu(
      {.rotation = state_->params(call.operands.list(), positions, internal::Direction::kInverse),
       .stores = {&call.result.store}},
      options().threads);
}

void Rope::shift_cached(const StoredTensor& keys, const Slots& slots,
                        const Positions& delta) const {
  const CachedKeys call("shift_cached", keys, slots, delta, *this);
  const Pairing pairing = *layout().output_pairing;
  call.run(state_->params(call.operands.list(), delta,
                          {.phases = &state_->parts->phases, .is_position = false},
                          internal::Direction::kForward, pairing, pairing),
           options().threads);
}

void rerotate_cached(const StoredTensor& keys, const Slots& slots, const Rope& from, const Rope& to,
                     const Positions& positions) {
  internal::check_same_slice("rerotate_cached", from, to);
  const CachedKeys call("rerotate_cached", keys, slots, positions, to);
  const internal::AngleSource source{.phases = &to.state_->parts->phases,
                                     .divisor = &from.state_->parts->phases};
  call.run(to.state_->params(call.operands.list(), positions, source, internal::Direction::kForward,
                             *from.layout().output_pairing, *to.layout().output_pairing),
           to.options().threads);
}

}  // namespace rotary
