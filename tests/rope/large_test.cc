// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Tensors larger than the caches are rotated in another order and written with streaming stores:
// the bits are those of one call per token.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>
#include <string_view>

#include "reference/elements.h"
#include "rope/on_every_target.h"
#include "rope/pools.h"
#include "rotary/rope.h"

namespace rotary {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16};
constexpr Pairing kPairings[] = {Pairing::kInterleaved, Pairing::kHalf};

/// Memory at a multiple of 64 bytes, or some bytes past it.
class Buffer {
 public:
  Buffer(std::size_t bytes, std::size_t past)
      : bytes_(bytes), past_(past), memory_(new(kAlignment) std::byte[bytes + past]) {}
  void* data() const { return memory_.get() + past_; }
  void fill(const Buffer& from) { std::memcpy(data(), from.data(), bytes_); }
  friend bool operator==(const Buffer& a, const Buffer& b) {
    return a.bytes_ == b.bytes_ && std::memcmp(a.data(), b.data(), a.bytes_) == 0;
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete[](memory, kAlignment); }
  };
  std::size_t bytes_;
  std::size_t past_;
  std::unique_ptr<std::byte[], Free> memory_;
};

/// [batch, tokens, heads, head_dim], contiguous.
struct Shape {
  std::int64_t batch;
  std::int64_t tokens;
  std::int64_t heads;
  std::int64_t head_dim;
  std::int64_t count() const { return batch * tokens * heads * head_dim; }
};

TensorView view(const Buffer& buffer, DType dtype, const Shape& s) {
  return TensorView::contiguous(buffer.data(), dtype, {s.batch, s.tokens, s.heads, s.head_dim});
}

/// Numbers between 1/4 and 5/4.
Buffer input(DType dtype, const Shape& s) {
  reference::Elements period(dtype, 509);
  for (std::size_t i = 0; i < period.size(); ++i) {
    period.set(i, 0.25 + static_cast<double>(i) / 509.0);
  }
  const std::size_t size = size_of(dtype);
  Buffer buffer(static_cast<std::size_t>(s.count()) * size, 0);
  auto* to = static_cast<std::byte*>(buffer.data());
  for (std::size_t i = 0; i < static_cast<std::size_t>(s.count()); i += period.size()) {
    const std::size_t n = std::min(period.size(), static_cast<std::size_t>(s.count()) - i);
    std::memcpy(to + i * size, period.data(), n * size);
  }
  return buffer;
}

Rope make_rope(std::int64_t rotary_dim, const HeadLayout& layout) {
  return Rope(make_frequencies({.rotary_dim = rotary_dim,
                                .theta = 1e4,
                                .scaling = Yarn{.factor = 4, .original_context = 64}}),
              layout, {.threads = {.count = 1, .run = {}}});
}

/// One small call per token, in place.
void token_by_token(const Rope& rope, const TensorView& x) {
  TensorView token = x;
  token.shape[0] = token.shape[1] = 1;
  const auto size = static_cast<std::int64_t>(size_of(x.dtype));
  for (std::int64_t b = 0; b < x.shape[0]; ++b) {
    for (std::int64_t t = 0; t < x.shape[1]; ++t) {
      token.data = static_cast<std::byte*>(x.data) + (b * x.strides[0] + t * x.strides[1]) * size;
      rope.rotate(token, Positions::range(t));
    }
  }
}

// Larger than the caches of a core (plan.cc); heads of every number of vectors, and odd and even
// numbers of heads.
TEST(Large, InPlace) {
  for (const DType dtype : kTypes) {
    for (const Pairing pairing : kPairings) {
      for (const std::int64_t pairs : {32, 64, 83, 128, 160}) {
        for (const std::int64_t heads : {3, 8}) {
          Shape s{.batch = 2, .tokens = 0, .heads = heads, .head_dim = 2 * pairs + pairs % 2};
          s.tokens = (3 << 19) / (s.batch * heads * s.head_dim *
                                  static_cast<std::int64_t>(size_of(dtype))) +
                     2;
          const Rope rope = make_rope(2 * pairs, {.head_dim = s.head_dim, .pairing = pairing});
          const Buffer before = input(dtype, s);
          Buffer wanted = input(dtype, s);
          token_by_token(rope, view(wanted, dtype, s));
          Buffer x = input(dtype, s);
          on_every_target([&](std::string_view) {
            x.fill(before);
            rope.rotate(view(x, dtype, s), Positions::range());
            EXPECT_TRUE(x == wanted)
                << name_of(dtype) << ' ' << name_of(pairing) << ' ' << pairs << ' ' << heads;
          });
        }
      }
    }
  }
}

// More than 8 MB, out of place: aligned and misaligned.
TEST(Large, OutOfPlace) {
  for (const DType dtype : kTypes) {
    const std::size_t size = size_of(dtype);
    for (const Pairing pairing : kPairings) {
      for (const std::int64_t outside : {0, 32}) {
        Shape s{.batch = 2, .tokens = 0, .heads = 9, .head_dim = 192 + 2 * outside};
        s.tokens =
            (8 << 20) / (s.batch * s.heads * s.head_dim * static_cast<std::int64_t>(size)) + 1;
        const Rope rope =
            make_rope(192, {.head_dim = s.head_dim, .rotary_offset = outside, .pairing = pairing});
        const Buffer x = input(dtype, s);
        Buffer wanted = input(dtype, s);
        token_by_token(rope, view(wanted, dtype, s));
        const auto bytes = static_cast<std::size_t>(s.count()) * size;
        Buffer aligned(bytes, 0);
        Buffer past(bytes, size);
        on_every_target([&](std::string_view) {
          std::memset(aligned.data(), 0, bytes);
          rope.rotate(view(x, dtype, s), view(aligned, dtype, s), Positions::range());
          EXPECT_TRUE(aligned == wanted) << name_of(dtype) << ' ' << name_of(pairing);
          std::memset(past.data(), 0, bytes);
          rope.rotate(view(x, dtype, s), view(past, dtype, s), Positions::range());
          EXPECT_TRUE(past == wanted) << name_of(dtype) << ' ' << name_of(pairing);
        });
        std::memset(aligned.data(), 0, bytes);
        rope.with_threads({.count = 3, .run = run_on_threads})
            .rotate(view(x, dtype, s), view(aligned, dtype, s), Positions::range());
        EXPECT_TRUE(aligned == wanted) << name_of(dtype) << ' ' << name_of(pairing);
      }
    }
  }
}

/// [batch, tokens, heads, head_dim] with a gap of `gap` elements after each token.
TensorView spaced(const Buffer& buffer, DType dtype, const Shape& s, std::int64_t gap) {
  TensorView x = view(buffer, dtype, s);
  x.strides[1] += gap;
  x.strides[0] = s.tokens * x.strides[1];
  return x;
}

/// Copies the tokens of `from`; keeps the gaps between them.
void copy_tokens(const TensorView& from, const TensorView& to) {
  const auto size = static_cast<std::int64_t>(size_of(from.dtype));
  const auto at = [size](const TensorView& x, std::int64_t b, std::int64_t t) {
    return static_cast<std::byte*>(x.data) + (b * x.strides[0] + t * x.strides[1]) * size;
  };
  for (std::int64_t b = 0; b < from.shape[0]; ++b) {
    for (std::int64_t t = 0; t < from.shape[1]; ++t) {
      std::memcpy(at(to, b, t), at(from, b, t),
                  static_cast<std::size_t>(from.shape[2] * from.shape[3] * size));
    }
  }
}

/// x rotated out of place into memory with known content.
void expect_spaced(DType dtype, Pairing pairing, const Shape& s, std::int64_t rotary_dim,
                   std::int64_t gap, std::size_t past) {
  const Rope rope = make_rope(rotary_dim, {.head_dim = s.head_dim, .pairing = pairing});
  const std::size_t bytes =
      static_cast<std::size_t>(s.count() + gap * s.batch * s.tokens + 64) * size_of(dtype);
  const auto cleared = [bytes](Buffer& buffer) { std::memset(buffer.data(), 0x5a, bytes); };
  const Buffer x = input(dtype, s);
  // Input and output have different offsets in their cache lines.
  Buffer moved(static_cast<std::size_t>(s.count()) * size_of(dtype), 3 * size_of(dtype));
  moved.fill(x);
  // Everything, with a margin of `past` bytes in front.
  Buffer wanted(bytes, 0);
  Buffer whole(bytes, 0);
  const auto result = [&](Buffer& buffer) {
    TensorView y = spaced(buffer, dtype, s, gap);
    y.data = static_cast<std::byte*>(y.data) + past;
    return y;
  };
  cleared(wanted);
  copy_tokens(view(x, dtype, s), result(wanted));
  token_by_token(rope, result(wanted));
  const auto expect = [&](const Rope& by) {
    cleared(whole);
    by.rotate(view(moved, dtype, s), result(whole), Positions::range());
    EXPECT_TRUE(whole == wanted) << name_of(dtype) << ' ' << name_of(pairing) << ' ' << s.heads
                                 << ' ' << s.head_dim << ' ' << gap << ' ' << past;
  };
  on_every_target([&](std::string_view) { expect(rope); });
  expect(rope.with_threads({.count = 3, .run = run_on_threads}));
}

struct Anywhere {
  std::int64_t heads, head_dim, rotary_dim, gap;
  std::size_t past;
};

void expect_anywhere(DType dtype, std::initializer_list<Anywhere> cases) {
  for (const Pairing pairing : kPairings) {
    for (const Anywhere& c : cases) {
      Shape s{.batch = 2, .tokens = 0, .heads = c.heads, .head_dim = c.head_dim};
      const std::int64_t token = s.heads * s.head_dim * static_cast<std::int64_t>(size_of(dtype));
      s.tokens = (8 << 20) / (s.batch * token) + 1;
      expect_spaced(dtype, pairing, s, c.rotary_dim, c.gap, c.past);
    }
  }
}

// Outputs at any offset in a cache line, tokens with and without gaps, of a few bytes to several
// kilobytes: all of them are written, and nothing else.
TEST(Large, OutOfPlaceAnywhere) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    expect_anywhere(dtype, {{12, 64, 64, 8, 16},
                            {5, 80, 80, 0, 48},
                            {9, 80, 48, 2, 8},
                            {1, 64, 64, 0, 32},
                            {1, 10, 10, 0, 0},
                            {3, 6, 4, 3, 8},
                            {2, 2080, 64, 0, 56}});
  }
}

// Heads of whole vectors, which use streaming stores wherever possible.
TEST(Large, OutOfPlaceAnywhereInWholeVectors) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    expect_anywhere(dtype, {{40, 128, 128, 0, 16}, {8, 64, 64, 0, 4}, {12, 64, 64, 9, 60}});
  }
}

}  // namespace
}  // namespace rotary
