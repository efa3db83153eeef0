// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: results that begin anywhere, sent past the caches. Streaming stores want whole lines,
// so results are put together near the core and leave it line by line.

#if defined(ROTARY_CPU_STAGE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_STAGE_INL_H
#undef ROTARY_CPU_STAGE_INL_H
#else
#define ROTARY_CPU_STAGE_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "cpu/plan.h"
#include "cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

inline constexpr std::int64_t kLine = 64;

/// Bytes before `p` in its line.
inline std::int64_t place_in_line(const char* p) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(p) % kLine);
}

/// The end of a result that fills no line yet: `count` bytes for `to`, at their place in the line.
struct Tail {
  char* to;
  std::int64_t count;
  alignas(kLine) char line[kLine];
};

/// Used for one run of bytes after the other; runs of several results may take turns, each with
/// its tail.
class Stage {
 public:
  /// Where to write what is meant for `to`.
  char* open(Tail& tail, char* to) {
    if (tail.to + tail.count != to) {
      finish(tail);
      tail.to = to;
      tail.count = 0;
    }
    std::memcpy(bytes_, tail.line, kLine);
    return bytes_ + place_in_line(to);
  }

  /// Sends on what has been written: `count` bytes, at most kStageBytes.
  void close(Tail& tail, std::int64_t count) {
    const std::int64_t begin = place_in_line(tail.to);
    const std::int64_t end = begin + tail.count + count;
    char* const base = tail.to - begin;
    std::int64_t at = 0;
    if (begin != 0 && end >= kLine) {  // others may own what comes before
      std::copy(bytes_ + begin, bytes_ + kLine, tail.to);
      at = kLine;
    }
    if (end >= kLine) {
      const std::int64_t stop = end / kLine * kLine;
      stream(bytes_ + at, base + at, stop - at);
      at = stop;
    }
    std::memcpy(tail.line, bytes_ + at, kLine);
    const std::int64_t first = at == 0 ? begin : 0;
    tail.to = base + at + first;
    tail.count = end - at - first;
  }

  /// By ordinary stores: others may own what follows.
  static void finish(Tail& tail) {
    const char* from = tail.line + place_in_line(tail.to);
    std::copy(from, from + tail.count, tail.to);
    tail.count = 0;
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

  alignas(kLine) char bytes_[kStageBytes + 2 * kLine];  // a tail before, a rest behind
};

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_STAGE_INL_H
