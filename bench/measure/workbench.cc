// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "bench/measure/workbench.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "bench/measure/parts.h"
#include "bench/measure/scale.h"
#include "rotary/frequencies.h"
#include "rotary/positions.h"

namespace rotary::measure {
namespace {

/// A step of decoding stands behind a text of this length.
constexpr std::int64_t kDecodePosition = 4095;

std::int64_t first_position(const Shape& shape) { return shape.tokens == 1 ? kDecodePosition : 0; }

/// What a thread is worth waking for, as the library sees it (cpu/plan.cc): a call that stays on
/// one thread is compared with a copy on one thread.
constexpr std::int64_t kBytesOfThread = 256 << 10;

/// Of `threads`, those that the library would use for so many bytes, counted once in each place.
int useful_threads(int threads, std::int64_t bytes) {
  return static_cast<int>(std::clamp<std::int64_t>(bytes / kBytesOfThread, 1, threads));
}

Rope make_rope(const Shape& shape, const Variant& variant, int threads) {
  RopeOptions options;
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
  // Ones that could be anything: nothing grows or fades however often this runs.
  static volatile T one = 1;
  scale(reinterpret_cast<const T*>(in), reinterpret_cast<T*>(out), bytes / sizeof(T), T{one});
}

}  // namespace

Workbench::Workbench(const Shape& shape, DType dtype)
    : shape_(shape),
      dtype_(dtype),
      q_(shape.all_tokens(), shape.q_heads * shape.head_dim, dtype, all_threads()),
      k_(shape.all_tokens(), shape.k_heads * shape.head_dim, dtype, all_threads()),
      q_out_(shape.all_tokens(), shape.q_heads * shape.head_dim, dtype, all_threads()),
      k_out_(shape.all_tokens(), shape.k_heads * shape.head_dim, dtype, all_threads()) {}

std::int64_t Workbench::bytes() const noexcept {
  return shape_.elements() * static_cast<std::int64_t>(size_of(dtype_));
}

TensorView Workbench::view(std::byte* data, std::int64_t heads) const {
  if (shape_.batch == 1) {
    return TensorView::contiguous(data, dtype_, {shape_.tokens, heads, shape_.head_dim});
  }
  return TensorView::contiguous(data, dtype_,
                                {shape_.batch, shape_.tokens, heads, shape_.head_dim});
}

std::byte* Workbench::place(const Buffer& in, const Buffer& out, Placement placement) noexcept {
  constexpr std::size_t kPast = 16;
  if (placement == Placement::kInPlace) return in.data();
  return placement == Placement::kUnaligned ? out.data() + kPast : out.data();
}

void Workbench::copy(Placement placement, int threads) const {
  const auto copy_rows = [placement](const Buffer& in, const Buffer& out, std::int64_t first,
                                     std::int64_t last) {
    std::memcpy(place(in, out, placement) + first * in.row_bytes(),
                in.data() + first * in.row_bytes(),
                static_cast<std::size_t>((last - first) * in.row_bytes()));
  };
  in_parts(useful_threads(threads, 2 * bytes()), shape_.all_tokens(),
           [&](std::int64_t first, std::int64_t last) {
             copy_rows(q_, q_out_, first, last);
             copy_rows(k_, k_out_, first, last);
           });
}

void Workbench::scale(Placement placement, int threads) const {
  const bool in_place = placement == Placement::kInPlace;
  const auto scale_rows = [this, placement](const Buffer& in, const Buffer& out, std::int64_t first,
                                            std::int64_t last) {
    const std::byte* from = in.data() + first * in.row_bytes();
    std::byte* to = place(in, out, placement) + first * in.row_bytes();
    const auto size = static_cast<std::size_t>((last - first) * in.row_bytes());
    if (dtype_ == DType::kFloat64) {
      scale_bytes<double>(from, to, size);
    } else {
      scale_bytes<float>(from, to, size);
    }
  };
  in_parts(useful_threads(threads, in_place ? bytes() : 2 * bytes()), shape_.all_tokens(),
           [&](std::int64_t first, std::int64_t last) {
             scale_rows(q_, q_out_, first, last);
             scale_rows(k_, k_out_, first, last);
           });
}

Rotation::Rotation(const Workbench& bench, const Variant& variant, int threads)
    : q_(bench.q()),
      k_(bench.k()),
      q_out_(bench.q_out(variant.placement)),
      k_out_(bench.k_out(variant.placement)),
      placement_(variant.placement),
      first_(first_position(bench.shape())),
      rope_(make_rope(bench.shape(), variant, threads)) {}

void Rotation::operator()() const {
  const Positions positions = Positions::range(first_);
  if (placement_ == Placement::kInPlace) {
    rope_.rotate({q_, k_}, positions);
  } else {
    rope_.rotate({{q_, q_out_}, {k_, k_out_}}, positions);
  }
}

}  // namespace rotary::measure
