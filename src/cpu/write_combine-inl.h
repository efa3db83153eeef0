// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: software write combining, for results at any address that bypass the caches.
// Non-temporal stores need whole cache lines, so that results are collected in a buffer in the
// first-level cache and streamed to memory line by line.

#if defined(ROTARY_CPU_WRITE_COMBINE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_WRITE_COMBINE_INL_H
#undef ROTARY_CPU_WRITE_COMBINE_INL_H
#else
#define ROTARY_CPU_WRITE_COMBINE_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "cpu/plan.h"
#include "cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

inline constexpr std::int64_t kCacheLine = 64;

/// Offset of `p` in its cache line.
inline std::int64_t line_offset(const char* p) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(p) % kCacheLine);
}

/// The end of a result that does not fill a line yet: `count` bytes for address `to`, kept at
/// their offset in the line.
struct PartialLine {
  char* to;
  std::int64_t count;
  alignas(kCacheLine) char line[kCacheLine];
};

/// Takes one run of bytes after the other. Several results may alternate, each with its own
/// PartialLine.
class WriteCombineBuffer {
 public:
  /// Begins a run for address `to`; returns where in the buffer to write it.
  char* open(PartialLine& partial, char* to) {
    if (partial.to + partial.count != to) {
      finish(partial);
      partial.to = to;
      partial.count = 0;
    }
    std::memcpy(bytes_, partial.line, kCacheLine);
    return bytes_ + line_offset(to);
  }

  /// Ends the run of `count` bytes, at most kMaxCombinedBytes: streams its whole lines and keeps
  /// the rest in `partial`.
  void close(PartialLine& partial, std::int64_t count) {
    const std::int64_t begin = line_offset(partial.to);
    const std::int64_t end = begin + partial.count + count;
    char* const base = partial.to - begin;
    std::int64_t at = 0;
    if (begin != 0 && end >= kCacheLine) {  // another task may own the bytes before
      std::copy(bytes_ + begin, bytes_ + kCacheLine, partial.to);
      at = kCacheLine;
    }
    if (end >= kCacheLine) {
      const std::int64_t stop = end / kCacheLine * kCacheLine;
      stream(bytes_ + at, base + at, stop - at);
      at = stop;
    }
    std::memcpy(partial.line, bytes_ + at, kCacheLine);
    const std::int64_t first = at == 0 ? begin : 0;
    partial.to = base + at + first;
    partial.count = end - at - first;
  }

  /// Writes a partial line by ordinary stores: another task may own the bytes that follow.
  static void finish(PartialLine& partial) {
    const char* from = partial.line + line_offset(partial.to);
    std::copy(from, from + partial.count, partial.to);
    partial.count = 0;
  }

 private:
  /// Whole lines.
  static void stream(const char* from, char* to, std::int64_t count) {
    const FullTag<std::uint8_t> d;
    const auto* in = reinterpret_cast<const std::uint8_t*>(from);
    auto* out = reinterpret_cast<std::uint8_t*>(to);
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    for (std::int64_t i = 0; i < count; i += lanes) hn::Stream(hn::Load(d, in + i), d, out + i);
  }

  /// A partial line, a run, and what copying a whole last line reads past it.
  alignas(kCacheLine) char bytes_[kMaxCombinedBytes + 2 * kCacheLine];
};

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_WRITE_COMBINE_INL_H
