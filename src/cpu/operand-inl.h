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
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cpu/elements-inl.h"
#include "cpu/heads-inl.h"
#include "cpu/pairs-inl.h"
#include "cpu/plan.h"
#include "cpu/shift-inl.h"
#include "cpu/stage-inl.h"
#include "cpu/turns-inl.h"
#include "rope/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

/// Copies what lies outside the rotary slices.
HWY_NOINLINE inline void copy_rest(const Job& job, const Operand& x, const Heads& heads) {
  const auto size = static_cast<std::int64_t>(size_of(x.in.dtype));
  const bool dense = heads.in_step == 1 && heads.out_step == 1;
  for (std::int64_t h = 0; h < heads.count; ++h) {
    const char* from = static_cast<const char*>(heads.in) + h * heads.in_stride * size;
    char* to = static_cast<char*>(heads.out) + h * heads.out_stride * size;
    const auto copy = [&](std::int64_t first, std::int64_t last) {
      if (dense) {
        std::copy_n(from + first * size, (last - first) * size, to + first * size);
        return;
      }
      for (std::int64_t i = first; i < last; ++i) {
        std::copy_n(from + i * heads.in_step * size, size, to + i * heads.out_step * size);
      }
    };
    copy(-job.rotary_offset, 0);
    copy(2 * job.pairs, x.in.shape[3] - job.rotary_offset);
  }
}

template <class E>
TurnHeads<typename E::Compute> choose_turn(const Job& job, const Operand& x, Delivery delivery,
                                           Locality locality) {
  const std::int64_t pairs = job.pairs;
  const Pairing pairing = job.read;
  if (job.read != job.write || x.in.strides[3] != 1 || x.out.strides[3] != 1) return turn_any<E>;
  if (delivery == Delivery::kStreamed) {
    using Way = StreamedIfAny;
    return locality == Locality::kNear ? choose_dense<E, Way, Ahead::kNothing>(pairing, pairs)
                                       : choose_dense<E, Way, Ahead::kReads>(pairing, pairs);
  }
  if (locality == Locality::kNear) {
    return choose_dense<E, Cached, Ahead::kNothing>(pairing, pairs);
  }
  return x.in.data == x.out.data ? choose_dense<E, Cached, Ahead::kWrites>(pairing, pairs)
                                 : choose_dense<E, Cached, Ahead::kReads>(pairing, pairs);
}

/// Bytes of a vector of results.
template <class E>
inline constexpr std::size_t kResultBytes =
    std::is_same_v<E, Float16> ? Shift::kMostBytes / 2 : Shift::kMostBytes;

/// For results that could be staged; null where heads are not whole vectors, or results begin
/// between two lanes of 32 bits.
template <class E>
TurnHeads<typename E::Compute> choose_shifted([[maybe_unused]] const Job& job,
                                              [[maybe_unused]] const Operand& x) {
#if ROTARY_CPU_HAS_SHIFTS
  const auto size = static_cast<std::int64_t>(size_of(x.out.dtype));
  const auto between = [size](std::int64_t elements) { return elements * size % 4 != 0; };
  if (job.read != job.write || x.in.strides[3] != 1 || 2 * job.pairs != x.in.shape[3] ||
      reinterpret_cast<std::uintptr_t>(x.out.data) % 4 != 0 || between(x.out.strides[0]) ||
      between(x.out.strides[1])) {
    return nullptr;
  }
  return choose_whole<E, Shifted<kResultBytes<E>>, Ahead::kReads>(job.read, job.pairs);
#else
  return nullptr;
#endif
}

/// One operand on its way through the tokens of a task, in the arithmetic T. Left as it is until
/// begin(): there is room for many, and calls have few.
template <typename T>
class OperandRun {
 public:
  /// `room` holds one slice. seek() comes next.
  void begin(const Job& job, const Operand& x, Delivery delivery, Locality locality, void* room) {
    job_ = &job;
    operand_ = &x;
    choose(delivery, locality);
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
              .room = room,
              .shift = &shift_};
    in_token_ = x.in.strides[1] * size();
    out_token_ = x.out.strides[1] * size();
    copies_rest_ = x.in.data != x.out.data && 2 * job.pairs != x.in.shape[3];
    is_staged_ = delivery == Delivery::kStaged && kHasStreams;
    tail_.to = nullptr;
    tail_.count = 0;
    shift_.next = nullptr;
  }

  void seek(std::int64_t batch, std::int64_t token) {
    const auto slice = [&](const auto& x) {
      return batch * x.strides[0] + token * x.strides[1] + job_->rotary_offset * x.strides[3];
    };
    heads_.in = static_cast<const char*>(operand_->in.data) + slice(operand_->in) * size();
    heads_.out = static_cast<char*>(operand_->out.data) + slice(operand_->out) * size();
  }

  /// To the next token. Additions only: their results are waited for.
  HWY_INLINE void advance() {
    heads_.in = static_cast<const char*>(heads_.in) + in_token_;
    heads_.out = static_cast<char*>(heads_.out) + out_token_;
  }

  /// The heads of one token.
  HWY_INLINE void turn(const Row<T>& row, Stage& stage) {
    if (is_staged_) return shifted_ != nullptr ? turn_shifted(row) : turn_staged(row, stage);
    turn_(heads_, row);
    if (copies_rest_) copy_rest(*job_, *operand_, heads_);
  }

  void finish() {
    if (!is_staged_) return;
    Stage::finish(tail_);
    shift_.finish();
  }

 private:
  void choose(Delivery delivery, Locality locality) {
    if constexpr (sizeof(T) == sizeof(double)) {
      choose_for<Float64>(delivery, locality);
    } else if (operand_->in.dtype == DType::kBFloat16) {
      choose_newer<BFloat16>(delivery, locality);
    } else if (operand_->in.dtype == DType::kFloat16) {
      choose_newer<Float16>(delivery, locality);
    } else {
      choose_newer<Float32>(delivery, locality);
    }
  }
  template <class E>
  void choose_newer(Delivery delivery, Locality locality) {
#if HWY_TARGET == HWY_NEON
    if (has_armv86()) return choose_for<Newer<E>>(delivery, locality);
#endif
    choose_for<E>(delivery, locality);
  }
  template <class E>
  void choose_for(Delivery delivery, Locality locality) {
    turn_ = choose_turn<E>(*job_, *operand_, delivery, locality);
    shifted_ = delivery == Delivery::kStaged ? choose_shifted<E>(*job_, *operand_) : nullptr;
    result_bytes_ = static_cast<std::int64_t>(kResultBytes<E>);
  }

  /// Of an element.
  std::int64_t size() const { return static_cast<std::int64_t>(size_of(operand_->in.dtype)); }
  std::int64_t head_bytes() const { return operand_->in.shape[3] * size(); }

  /// Heads that go on where those before ended; others begin with one by ordinary stores, since
  /// what lies before it may be somebody else's.
  HWY_INLINE void turn_shifted(const Row<T>& row) {
    if (heads_.out == shift_.next) {
      shifted_(heads_, row);
    } else {
      begin_shifted(row);
    }
    shift_.next = static_cast<char*>(heads_.out) + heads_.count * head_bytes();
  }
  HWY_NOINLINE void begin_shifted(const Row<T>& row) {
    shift_.finish();
    Heads some = heads_;
    some.count = 1;
    turn_(some, row);
    some.count = heads_.count - 1;
    some.in = static_cast<const char*>(some.in) + some.in_stride * size();
    some.out = static_cast<char*>(some.out) + head_bytes();
    shift_.begin(static_cast<char*>(some.out), result_bytes_);
    if (some.count > 0) shifted_(some, row);
  }

  /// Some heads at a time; their results follow each other.
  HWY_NOINLINE void turn_staged(const Row<T>& row, Stage& stage) {
    const std::int64_t most = std::max(kBurstBytes / head_bytes(), std::int64_t{1});
    const std::int64_t offset = job_->rotary_offset * size();  // of a slice in its head
    char* to = static_cast<char*>(heads_.out) - offset;
    Heads some = heads_;
    for (std::int64_t left = heads_.count; left > 0; left -= most) {
      some.count = std::min(most, left);
      some.out = stage.open(tail_, to) + offset;
      turn_(some, row);
      if (copies_rest_) copy_rest(*job_, *operand_, some);
      stage.close(tail_, some.count * head_bytes());
      some.in = static_cast<const char*>(some.in) + most * some.in_stride * size();
      to += most * head_bytes();
    }
  }

  const Job* job_;
  const Operand* operand_;
  TurnHeads<T> turn_;
  TurnHeads<T> shifted_;
  std::int64_t result_bytes_;
  Heads heads_;  // of the token at hand
  std::int64_t in_token_;
  std::int64_t out_token_;
  bool copies_rest_;
  bool is_staged_;
  Tail tail_;
  Shift shift_;
};

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_OPERAND_INL_H
