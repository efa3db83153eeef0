// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: one operand of a call. What is the same for all its tokens is decided once.

#if defined(ROTARY_CPU_OPERAND_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_OPERAND_INL_H
#undef ROTARY_CPU_OPERAND_INL_H
#else
#define ROTARY_CPU_OPERAND_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "cpu/elements-inl.h"
#include "cpu/heads-inl.h"
#include "cpu/pairs-inl.h"
#include "cpu/plan.h"
#include "cpu/stage-inl.h"
#include "cpu/turns-inl.h"
#include "rope/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

/// Copies what lies outside the rotary slice.
inline void copy_rest(const Job& job, const Operand& x, std::int64_t heads, const char* in,
                      char* out) {
  const auto size = static_cast<std::int64_t>(size_of(x.in.dtype));
  const bool dense = x.in.strides[3] == 1 && x.out.strides[3] == 1;
  for (std::int64_t h = 0; h < heads; ++h) {
    const char* from = in + h * x.in.strides[2] * size;
    char* to = out + h * x.out.strides[2] * size;
    const auto copy = [&](std::int64_t first, std::int64_t last) {
      if (dense) {
        std::copy_n(from + first * size, (last - first) * size, to + first * size);
        return;
      }
      for (std::int64_t i = first; i < last; ++i) {
        std::copy_n(from + i * x.in.strides[3] * size, size, to + i * x.out.strides[3] * size);
      }
    };
    copy(0, job.rotary_offset);
    copy(job.rotary_offset + 2 * job.pairs, x.in.shape[3]);
  }
}

template <class E>
TurnHeads<typename E::Compute> choose_turn(const Job& job, const Operand& x, Delivery delivery,
                                           Locality locality) {
  const std::int64_t pairs = job.pairs;
  const Pairing pairing = job.read;
  if (job.read != job.write || x.in.strides[3] != 1 || x.out.strides[3] != 1) return turn_any<E>;
  if (delivery == Delivery::kStreamed) {
    return locality == Locality::kNear ? choose_dense<E, kStreams, Ahead::kNothing>(pairing, pairs)
                                       : choose_dense<E, kStreams, Ahead::kReads>(pairing, pairs);
  }
  constexpr StoreMode kCached = StoreMode::kCached;
  if (locality == Locality::kNear) {
    return choose_dense<E, kCached, Ahead::kNothing>(pairing, pairs);
  }
  return x.in.data == x.out.data ? choose_dense<E, kCached, Ahead::kWrites>(pairing, pairs)
                                 : choose_dense<E, kCached, Ahead::kReads>(pairing, pairs);
}

/// One operand on its way through the tokens of a task, in the arithmetic T. Left as it is until
/// begin(): there is room for many, and calls have few.
template <typename T>
class OperandRun {
 public:
  /// `room` holds one slice.
  void begin(const Job& job, const Operand& x, Delivery delivery, Locality locality, void* room) {
    operand_ = &x;
    size_ = static_cast<std::int64_t>(size_of(x.in.dtype));
    turn_ = choose(job, x, delivery, locality);
    heads_ = {.in = nullptr,
              .out = nullptr,
              .in_stride = x.in.strides[2],
              .out_stride = x.out.strides[2],
              .in_step = x.in.strides[3],
              .out_step = x.out.strides[3],
              .count = x.in.shape[2],
              .pairs = job.pairs,
              .read = job.read,
              .write = job.write,
              .room = room};
    copies_rest_ = x.in.data != x.out.data && 2 * job.pairs != x.in.shape[3];
    is_staged_ = delivery == Delivery::kStaged && kStreams == StoreMode::kStream;
    tail_.to = nullptr;
    tail_.count = 0;
  }

  /// The heads of one token.
  HWY_INLINE void turn(const Job& job, std::int64_t batch, std::int64_t token, const Row<T>& row,
                       Stage& stage) {
    const Operand& x = *operand_;
    const char* in = static_cast<const char*>(x.in.data) +
                     (batch * x.in.strides[0] + token * x.in.strides[1]) * size_;
    char* out = static_cast<char*>(x.out.data) +
                (batch * x.out.strides[0] + token * x.out.strides[1]) * size_;
    if (is_staged_) return turn_staged(job, in, out, row, stage);
    turn_heads(job, in, out, row);
  }

  void finish() {
    if (is_staged_) Stage::finish(tail_);
  }

 private:
  static TurnHeads<T> choose(const Job& job, const Operand& x, Delivery delivery,
                             Locality locality) {
    if constexpr (sizeof(T) == sizeof(double)) {
      return choose_turn<Float64>(job, x, delivery, locality);
    } else {
      if (x.in.dtype == DType::kBFloat16) return choose_turn<BFloat16>(job, x, delivery, locality);
      if (x.in.dtype == DType::kFloat16) return choose_turn<Float16>(job, x, delivery, locality);
      return choose_turn<Float32>(job, x, delivery, locality);
    }
  }

  HWY_INLINE void turn_heads(const Job& job, const char* in, char* out, const Row<T>& row) {
    heads_.in = in + job.rotary_offset * heads_.in_step * size_;
    heads_.out = out + job.rotary_offset * heads_.out_step * size_;
    turn_(heads_, row);
    if (copies_rest_) copy_rest(job, *operand_, heads_.count, in, out);
  }

  /// As many heads at a time as there is room for; their results follow each other.
  void turn_staged(const Job& job, const char* in, char* out, const Row<T>& row, Stage& stage) {
    const std::int64_t heads = operand_->in.shape[2];
    const std::int64_t head_bytes = operand_->in.shape[3] * size_;
    const std::int64_t most = kStageBytes / head_bytes;
    for (std::int64_t h = 0; h < heads; h += most) {
      heads_.count = std::min(most, heads - h);
      char* to = stage.open(tail_, out + h * head_bytes);
      turn_heads(job, in + h * heads_.in_stride * size_, to, row);
      stage.close(tail_, heads_.count * head_bytes);
    }
  }

  const Operand* operand_;
  std::int64_t size_;  // of an element
  TurnHeads<T> turn_;
  Heads heads_;
  bool copies_rest_;
  bool is_staged_;
  Tail tail_;
};

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_OPERAND_INL_H
