// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The scalar engine: one pair after the other, any stride, any pairing. Correct first; the vector
// engine is measured against it.

#include <cstdint>
#include <cstring>
#include <vector>

#include "rope/kernel.h"
#include "support/half.h"

namespace rotary::internal {
namespace {

// Element types: storage and arithmetic.
struct Float32 {
  using Storage = float;
  using Compute = float;
  static Compute load(Storage x) noexcept { return x; }
  static Storage store(Compute x) noexcept { return x; }
};
struct Float64 {
  using Storage = double;
  using Compute = double;
  static Compute load(Storage x) noexcept { return x; }
  static Storage store(Compute x) noexcept { return x; }
};
struct BFloat16 {
  using Storage = std::uint16_t;
  using Compute = float;
  static Compute load(Storage x) noexcept { return from_bfloat16(x); }
  static Storage store(Compute x) noexcept { return to_bfloat16(x); }
};
struct Float16 {
  using Storage = std::uint16_t;
  using Compute = float;
  static Compute load(Storage x) noexcept { return from_float16(x); }
  static Storage store(Compute x) noexcept { return to_float16(x); }
};

/// Where the two elements of pair i lie in the rotary slice of `pairs` pairs.
struct PairAt {
  std::int64_t first;
  std::int64_t second;
};

PairAt pair_at(Pairing pairing, std::int64_t i, std::int64_t pairs) noexcept {
  return pairing == Pairing::kHalf ? PairAt{i, i + pairs} : PairAt{2 * i, 2 * i + 1};
}

/// A head: `data` is its first element, elements are `stride` apart.
template <typename Storage>
struct Head {
  Storage* data;
  std::int64_t stride;
  Storage& operator[](std::int64_t i) const noexcept { return data[i * stride]; }
};

/// Rotates one head. `slice` holds 2 * pairs elements: the slice is written there first, because
/// in place with two pairings a pair's targets are another pair's sources.
template <typename Type>
void rotate_head(const Job& job, Head<const typename Type::Storage> in,
                 Head<typename Type::Storage> out, const CosSin<typename Type::Compute>* z,
                 typename Type::Storage* slice) noexcept {
  const std::int64_t pairs = job.phases.pairs;
  const std::int64_t offset = job.rotary_offset;
  for (std::int64_t i = 0; i < pairs; ++i) {
    const PairAt from = pair_at(job.read, i, pairs);
    const PairAt to = pair_at(job.write, i, pairs);
    const auto x = Type::load(in[offset + from.first]);
    const auto y = Type::load(in[offset + from.second]);
    slice[to.first] = Type::store(x * z[i].cos - y * z[i].sin);
    slice[to.second] = Type::store(x * z[i].sin + y * z[i].cos);
  }
  for (std::int64_t i = 0; i < 2 * pairs; ++i) out[offset + i] = slice[i];
  if (static_cast<const void*>(in.data) == static_cast<const void*>(out.data)) return;
  const std::int64_t head_dim = job.in.shape[3];
  for (std::int64_t i = 0; i < offset; ++i) out[i] = in[i];
  for (std::int64_t i = offset + 2 * pairs; i < head_dim; ++i) out[i] = in[i];
}

template <typename Type>
void rotate_tensor(const Job& job) {
  using Storage = typename Type::Storage;
  const auto* in = static_cast<const Storage*>(job.in.data);
  auto* out = static_cast<Storage*>(job.out.data);
  const auto [batches, tokens, heads, head_dim] = job.in.shape;
  const Dims& from = job.in.strides;
  const Dims& to = job.out.strides;
  const bool per_batch = job.positions.batch() >= 0;

  std::vector<CosSin<typename Type::Compute>> z(static_cast<std::size_t>(job.phases.pairs));
  std::vector<Storage> slice(2 * z.size());
  PositionReader reader(job.positions);
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t b = 0; b < batches; ++b) {
      if (b == 0 || per_batch) make_rotations(job, reader, b, t, z.data());
      for (std::int64_t h = 0; h < heads; ++h) {
        rotate_head<Type>(job, {in + b * from[0] + t * from[1] + h * from[2], from[3]},
                          {out + b * to[0] + t * to[1] + h * to[2], to[3]}, z.data(), slice.data());
      }
    }
  }
}

}  // namespace

void rotate_scalar(const Job& job) {
  switch (job.in.dtype) {
    case DType::kFloat32:
      return rotate_tensor<Float32>(job);
    case DType::kFloat64:
      return rotate_tensor<Float64>(job);
    case DType::kBFloat16:
      return rotate_tensor<BFloat16>(job);
    case DType::kFloat16:
      return rotate_tensor<Float16>(job);
    case DType::kInt32:
    case DType::kInt64:
      return;  // refused at the edge
  }
}

}  // namespace rotary::internal
