// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/measure/workload.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "rotary/frequencies.h"
#include "rotary/positions.h"
#include "tools/measure/parallel.h"
#include "tools/measure/scale.h"

namespace rotary::measure {
namespace {

/// Position of a decoding step.
constexpr std::int64_t kDecodePosition = 4095;

std::int64_t first_position(const Shape& shape) { return shape.tokens == 1 ? kDecodePosition : 0; }

/// Minimum bytes per thread, as in the library (cpu/plan.cc): a call that stays on one thread is
/// compared with a copy on one thread.
constexpr std::int64_t kMinBytesPerThread = 256 << 10;

/// The number of threads that the library would use for so many bytes, read and written.
int useful_threads(int threads, std::int64_t bytes) {
  return static_cast<int>(std::clamp<std::int64_t>(bytes / kMinBytesPerThread, 1, threads));
}

Rope make_rope(const Shape& shape, const Variant& variant, int threads, const WriteOrder& order) {
  RopeOptions options;
  options.order = order;
  options.threads.count = threads;
  if (variant.tables == Tables::kReady) {
    options.cache = {.policy = CachePolicy::kAll,
                     .positions = first_position(shape) + shape.tokens};
  }
  return Rope(make_frequencies({.rotary_dim = shape.head_dim, .theta = 5e5}),
              {.head_dim = shape.head_dim, .pairing = variant.pairing}, options);
}

template <typename T>
void scale_bytes(const std::byte* in, std::byte* out, std::size_t bytes) {
  // volatile: the compiler must not know the factor. One: values never change.
  static volatile T one = 1;
  scale(reinterpret_cast<const T*>(in), reinterpret_cast<T*>(out), bytes / sizeof(T), T{one});
}

}  // namespace

Workload::Workload(const Shape& shape, DType dtype)
    : shape_(shape),
      dtype_(dtype),
      q_(shape.all_tokens(), shape.q_heads * shape.head_dim, dtype, max_threads()),
      k_(shape.all_tokens(), shape.k_heads * shape.head_dim, dtype, max_threads()),
      q_out_(shape.all_tokens(), shape.q_heads * shape.head_dim, dtype, max_threads()),
      k_out_(shape.all_tokens(), shape.k_heads * shape.head_dim, dtype, max_threads()) {}

std::int64_t Workload::bytes() const noexcept {
  return shape_.elements() * static_cast<std::int64_t>(size_of(dtype_));
}

TensorView Workload::view(std::byte* data, std::int64_t heads) const {
  if (shape_.batch == 1) {
    return TensorView::contiguous(data, dtype_, {shape_.tokens, heads, shape_.head_dim});
  }
  return TensorView::contiguous(data, dtype_,
                                {shape_.batch, shape_.tokens, heads, shape_.head_dim});
}

std::byte* Workload::destination(const Buffer& in, const Buffer& out,
                                 Placement placement) noexcept {
  constexpr std::size_t kOffset = 16;
  if (placement == Placement::kInPlace) return in.data();
  return placement == Placement::kUnaligned ? out.data() + kOffset : out.data();
}

void Workload::copy(Placement placement, int threads) const {
  const auto copy_rows = [placement](const Buffer& in, const Buffer& out, std::int64_t first,
                                     std::int64_t last) {
    std::memcpy(destination(in, out, placement) + first * in.row_bytes(),
                in.data() + first * in.row_bytes(),
                static_cast<std::size_t>((last - first) * in.row_bytes()));
  };
  parallel_for_rows(useful_threads(threads, 2 * bytes()), shape_.all_tokens(),
                    [&](std::int64_t first, std::int64_t last) {
                      copy_rows(q_, q_out_, first, last);
                      copy_rows(k_, k_out_, first, last);
                    });
}

void Workload::scale(Placement placement, int threads) const {
  const bool in_place = placement == Placement::kInPlace;
  const auto scale_rows = [this, placement](const Buffer& in, const Buffer& out, std::int64_t first,
                                            std::int64_t last) {
    const std::byte* from = in.data() + first * in.row_bytes();
    std::byte* to = destination(in, out, placement) + first * in.row_bytes();
    const auto size = static_cast<std::size_t>((last - first) * in.row_bytes());
    if (dtype_ == DType::kFloat64) {
      scale_bytes<double>(from, to, size);
    } else {
      scale_bytes<float>(from, to, size);
    }
  };
  parallel_for_rows(useful_threads(threads, in_place ? bytes() : 2 * bytes()), shape_.all_tokens(),
                    [&](std::int64_t first, std::int64_t last) {
                      scale_rows(q_, q_out_, first, last);
                      scale_rows(k_, k_out_, first, last);
                    });
}

RotateCall::RotateCall(const Workload& workload, const Variant& variant, int threads,
                       const WriteOrder& order)
    : q_(workload.q()),
      k_(workload.k()),
      q_out_(workload.q_out(variant.placement)),
      k_out_(workload.k_out(variant.placement)),
      placement_(variant.placement),
      first_(first_position(workload.shape())),
      rope_(make_rope(workload.shape(), variant, threads, order)) {}

void RotateCall::operator()() const {
  const Positions positions = Positions::range(first_);
  if (placement_ == Placement::kInPlace) {
    rope_.rotate({q_, k_}, positions);
  } else {
    rope_.rotate({{q_, q_out_}, {k_, k_out_}}, positions);
  }
}

WriteOrder RotateCall::order() const {
  if (placement_ == Placement::kInPlace) return rope_.write_order({q_, k_});
  return rope_.write_order({{q_, q_out_}, {k_, k_out_}});
}

}  // namespace rotary::measure
