// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: one operand of a call. Its kernel is chosen once for all its tokens.

#if defined(ROTARY_CPU_OPERAND_CURSOR_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_OPERAND_CURSOR_INL_H
#undef ROTARY_CPU_OPERAND_CURSOR_INL_H
#else
#define ROTARY_CPU_OPERAND_CURSOR_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cpu/elements-inl.h"
#include "cpu/plan.h"
#include "cpu/rotate_armv86.h"
#include "cpu/rotate_dense-inl.h"
#include "cpu/rotate_strided-inl.h"
#include "cpu/token_heads.h"
#include "cpu/write_combine-inl.h"
#include "cpu/writers-inl.h"
#include "engine/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

/// Copies the elements of the heads outside their rotary slices.
HWY_NOINLINE inline void copy_unrotated(const RotateParams& params, const Operand& x,
                                        const TokenHeads& heads, const char* in, char* out) {
  const auto size = static_cast<std::int64_t>(size_of(x.in.dtype));
  const bool dense = heads.in_step == 1 && heads.out_step == 1;
  for (std::int64_t h = 0; h < heads.count; ++h) {
    const char* from = in + h * heads.in_stride * size;
    char* to = out + h * heads.out_stride * size;
    const auto copy = [&](std::int64_t first, std::int64_t last) {
      if (dense) {
        std::copy_n(from + first * size, (last - first) * size, to + first * size);
        return;
      }
      for (std::int64_t i = first; i < last; ++i) {
        std::copy_n(from + i * heads.in_step * size, size, to + i * heads.out_step * size);
      }
    };
    copy(-params.rotary_offset, 0);
    copy(2 * params.pairs, x.in.shape[3] - params.rotary_offset);
  }
}

/// Whether the kernels of rotate_dense-inl.h apply.
inline bool is_dense(const RotateParams& params, const Operand& x) {
  return params.read == params.write && x.in.strides[3] == 1 && x.out.strides[3] == 1;
}

template <class E>
RotateTokens<typename E::Compute> choose_kernel(const RotateParams& params, const Operand& x,
                                                [[maybe_unused]] StoreMode mode, HeadOrder order) {
  if (!is_dense(params, x)) return rotate_strided<E>;
  if constexpr (kHasStreamStores) {
    if (mode == StoreMode::kStreamed) {
      return choose_dense<E, StreamWriter, Prefetch::kRead>(params.read, params.pairs, order);
    }
  }
  if constexpr (kPrefetchInPlace != Prefetch::kRead) {
    if (x.in.data == x.out.data) {
      return choose_dense<E, CachedWriter, kPrefetchInPlace>(params.read, params.pairs, order);
    }
  }
  return choose_dense<E, CachedWriter, Prefetch::kRead>(params.read, params.pairs, order);
}

/// The layout of cos and sin that the chosen kernel reads.
template <class E>
RowLayout row_layout_of(const RotateParams& params, const Operand& x) {
  if (!kHasBlocks || !is_dense(params, x)) return RowLayout::kPerPair;
  return params.read == Pairing::kHalf ? PoliciesOf<E>::Half::kRowLayout
                                       : PoliciesOf<E>::Interleaved::kRowLayout;
}

/// Bytes of a vector of results.
template <class E>
inline constexpr std::size_t kResultBytes =
    std::is_same_v<E, Float16> ? RealignState::kMaxBytes / 2 : RealignState::kMaxBytes;

/// A kernel that streams through a RealignedStreamWriter instead of a WriteCombineBuffer. Null if
/// heads are not whole vectors, or results are not aligned to 32-bit lanes.
template <class E>
RotateTokens<typename E::Compute> choose_realigned([[maybe_unused]] const RotateParams& params,
                                                   [[maybe_unused]] const Operand& x) {
#if ROTARY_CPU_HAS_REALIGN
  const auto size = static_cast<std::int64_t>(size_of(x.out.dtype));
  const auto misaligned = [size](std::int64_t elements) { return elements * size % 4 != 0; };
  if (params.read != params.write || x.in.strides[3] != 1 || 2 * params.pairs != x.in.shape[3] ||
      reinterpret_cast<std::uintptr_t>(x.out.data) % 4 != 0 || misaligned(x.out.strides[0]) ||
      misaligned(x.out.strides[1])) {
    return nullptr;
  }
  return choose_whole_columns<E, RealignedStreamWriter<kResultBytes<E>>, Prefetch::kRead>(
      params.read, params.pairs);
#else
  return nullptr;
#endif
}

/// One operand of a task, at one of its tokens; T is the arithmetic. Uninitialised until begin():
/// an array of kMaxOperands costs nothing for those that a call does not have.
template <typename T>
class OperandCursor {
 public:
  /// The operand of that index. `scratch` holds one rotary slice. seek() must follow.
  void begin(const RotateParams& params, const CpuPlan& plan, std::size_t index, void* scratch) {
    const Operand& x = params.operands[index];
    const StoreMode mode = plan.store_modes[index];
    params_ = &params;
    operand_ = &x;
    choose(plan, index);
    heads_ = {.in_token_bytes = x.in.strides[1] * element_size(),
              .out_token_bytes = x.out.strides[1] * element_size(),
              .in_stride = x.in.strides[2],
              .out_stride = x.out.strides[2],
              .in_step = x.in.strides[3],
              .out_step = x.out.strides[3],
              .count = x.in.shape[2],
              .pairs = params.pairs,
              .read = params.read,
              .write = params.write,
              .scratch = scratch,
              .realign = &realign_};
    copies_unrotated_ = x.in.data != x.out.data && 2 * params.pairs != x.in.shape[3];
    is_combined_ = mode == StoreMode::kCombined && kHasStreamStores;
    partial_line_.to = nullptr;
    partial_line_.count = 0;
    realign_.next = nullptr;
  }

  RowLayout row_layout() const { return row_layout_; }

  void seek(std::int64_t batch, std::int64_t token) {
    const auto offset = [&](const auto& x) {
      return batch * x.strides[0] + token * x.strides[1] + params_->rotary_offset * x.strides[3];
    };
    in_ = static_cast<const char*>(operand_->in.data) + offset(operand_->in) * element_size();
    out_ = static_cast<char*>(operand_->out.data) + offset(operand_->out) * element_size();
  }

  /// To the next token of the same batch row. Additions only, since loads wait for the address.
  HWY_INLINE void advance() {
    in_ += heads_.in_token_bytes;
    out_ += heads_.out_token_bytes;
  }

  /// Rotates the heads of the current token.
  HWY_INLINE void rotate(const RotationRow<T>& row, WriteCombineBuffer& buffer) {
    if (is_combined_) {
      return realigned_kernel_ != nullptr ? rotate_realigned(row) : rotate_combined(row, buffer);
    }
    kernel_(heads_, in_, out_, &row, 1);
    if (copies_unrotated_) copy_unrotated(*params_, *operand_, heads_, in_, out_);
  }

  /// Rotates `count` tokens of a batch row, from the current one on, by consecutive rows.
  HWY_INLINE void rotate_tokens(const RotationRow<T>* rows, std::int64_t count,
                                WriteCombineBuffer& buffer) {
    if (!is_combined_ && !copies_unrotated_) return kernel_(heads_, in_, out_, rows, count);
    for (std::int64_t i = 0; i < count; ++i, advance()) rotate(rows[i], buffer);
  }

  /// Writes results that are still held back.
  void finish() {
    if (!is_combined_) return;
    WriteCombineBuffer::finish(partial_line_);
    realign_.finish();
  }

 private:
  void choose(const CpuPlan& plan, std::size_t index) {
    const StoreMode mode = plan.store_modes[index];
    const HeadOrder order = plan.head_orders[index];
    if constexpr (sizeof(T) == sizeof(double)) {
      choose_for<Float64>(mode, order);
    } else if (operand_->in.dtype == DType::kBFloat16) {
      choose_for<BFloat16>(mode, order);
    } else if (operand_->in.dtype == DType::kFloat16) {
      choose_for<Float16>(mode, order);
    } else {
      choose_for<Float32>(mode, order);
    }
#if ROTARY_CPU_IS_NEON && ROTARY_CPU_ARMV86
    if constexpr (sizeof(T) == sizeof(float)) {
      if (plan.uses_armv86) choose_armv86(order);
    }
#endif
  }
#if ROTARY_CPU_IS_NEON && ROTARY_CPU_ARMV86
  void choose_armv86(HeadOrder order) {
    if (!is_dense(*params_, *operand_)) return;
    const Armv86Kernel chosen =
        choose_armv86_kernel(operand_->in.dtype, params_->read, params_->pairs, order);
    if (chosen.rotate == nullptr) return;
    kernel_ = chosen.rotate;
    row_layout_ = chosen.row_layout;
  }
#endif
  template <class E>
  void choose_for(StoreMode mode, HeadOrder order) {
    kernel_ = choose_kernel<E>(*params_, *operand_, mode, order);
    row_layout_ = row_layout_of<E>(*params_, *operand_);
    realigned_kernel_ =
        mode == StoreMode::kCombined ? choose_realigned<E>(*params_, *operand_) : nullptr;
    result_bytes_ = static_cast<std::int64_t>(kResultBytes<E>);
  }

  std::int64_t element_size() const {
    return static_cast<std::int64_t>(size_of(operand_->in.dtype));
  }
  std::int64_t head_bytes() const { return operand_->in.shape[3] * element_size(); }

  /// Heads that continue where the last ones ended are streamed. Otherwise the first head goes
  /// through ordinary stores, since another task may own the bytes before it.
  HWY_INLINE void rotate_realigned(const RotationRow<T>& row) {
    if (out_ == realign_.next) {
      realigned_kernel_(heads_, in_, out_, &row, 1);
    } else {
      begin_realigned(row);
    }
    realign_.next = out_ + heads_.count * head_bytes();
  }
  HWY_NOINLINE void begin_realigned(const RotationRow<T>& row) {
    realign_.finish();
    TokenHeads some = heads_;
    some.count = 1;
    kernel_(some, in_, out_, &row, 1);
    some.count = heads_.count - 1;
    char* const next = out_ + head_bytes();
    realign_.begin(next, result_bytes_);
    if (some.count > 0) {
      realigned_kernel_(some, in_ + some.in_stride * element_size(), next, &row, 1);
    }
  }

  /// Through the buffer, kBurstBytes of consecutive heads at a time.
  HWY_NOINLINE void rotate_combined(const RotationRow<T>& row, WriteCombineBuffer& buffer) {
    const std::int64_t max_heads = std::max(kBurstBytes / head_bytes(), std::int64_t{1});
    const std::int64_t offset = params_->rotary_offset * element_size();  // of a slice in its head
    const char* in = in_;
    char* to = out_ - offset;
    TokenHeads some = heads_;
    for (std::int64_t left = heads_.count; left > 0; left -= max_heads) {
      some.count = std::min(max_heads, left);
      char* const out = buffer.open(partial_line_, to) + offset;
      kernel_(some, in, out, &row, 1);
      if (copies_unrotated_) copy_unrotated(*params_, *operand_, some, in, out);
      buffer.close(partial_line_, some.count * head_bytes());
      in += max_heads * some.in_stride * element_size();
      to += max_heads * head_bytes();
    }
  }

  const RotateParams* params_;
  const Operand* operand_;
  RotateTokens<T> kernel_;
  RotateTokens<T> realigned_kernel_;
  RowLayout row_layout_;
  std::int64_t result_bytes_;
  TokenHeads heads_;
  const char* in_;  // the slice of the first head of the current token
  char* out_;
  bool copies_unrotated_;
  bool is_combined_;
  PartialLine partial_line_;
  RealignState realign_;
};

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_OPERAND_CURSOR_INL_H
