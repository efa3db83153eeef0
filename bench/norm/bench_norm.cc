// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Rope::norm_rotate beside Rope::rotate of the same tensors, interleaved in one run: q of 32 heads
// and k of 8, of 128 elements. Arguments: threads (2), and numbers of tokens (4096 and 1).

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "rotary/norm.h"
#include "rotary/rope.h"
#include "tools/measure/buffer.h"
#include "tools/measure/interleaved_timing.h"
#include "tools/measure/machine.h"

namespace rotary::measure {
namespace {

constexpr std::int64_t kHeadDim = 128;
constexpr std::int64_t kQueryHeads = 32;
constexpr std::int64_t kKeyHeads = 8;

/// Those of PyTorch.
#if defined(__x86_64__)
constexpr int kSumLanes = 8;
#else
constexpr int kSumLanes = 4;
#endif

struct Setting {
  DType dtype;
  Pairing pairing;
  bool in_place;
  NormRounding rounding;
  std::int64_t tokens;
};

void measure(const Setting& s, int threads) {
  const auto buffer = [&](std::int64_t heads) {
    return Buffer(s.tokens, heads * kHeadDim, s.dtype, threads);
  };
  const Buffer q = buffer(kQueryHeads);
  const Buffer k = buffer(kKeyHeads);
  const Buffer q_out = buffer(kQueryHeads);
  const Buffer k_out = buffer(kKeyHeads);
  std::vector<float> weight(kHeadDim, 1.25f);
  const ConstTensorView w = TensorView::contiguous(weight.data(), DType::kFloat32, {kHeadDim});
  const auto view = [&](const Buffer& b, std::int64_t heads) {
    return TensorView::contiguous(b.data(), s.dtype, {s.tokens, heads, kHeadDim});
  };
  const auto operand = [&](const Buffer& from, const Buffer& to, std::int64_t heads) {
    return s.in_place ? Operand(view(from, heads)) : Operand(view(from, heads), view(to, heads));
  };
  const std::vector<Operand> plain{operand(q, q_out, kQueryHeads), operand(k, k_out, kKeyHeads)};
  const std::vector<NormOperand> normed{{plain[0], w}, {plain[1], w}};
  const Rope rope(make_frequencies({.rotary_dim = kHeadDim, .theta = 1e6}),
                  {.head_dim = kHeadDim, .pairing = s.pairing}, {.threads = {.count = threads}});
  const HeadNorm norm{.rounding = s.rounding, .sum_lanes = kSumLanes};
  const Positions at = Positions::range(1000);
  const std::vector<std::function<void()>> calls{
      [&] { rope.rotate(std::span<const Operand>(plain), at); },
      [&] { rope.norm_rotate(normed, norm, at); }};
  const InterleavedTimings timings = time_interleaved(calls, {.seconds = 0.4});
  std::printf(
      "%-9s %-12s %-9s %-8s %6lld %10.2f %10.2f %6.2f\n", std::string(name_of(s.dtype)).c_str(),
      s.pairing == Pairing::kHalf ? "half" : "interleaved", s.in_place ? "in place" : "apart",
      s.rounding == NormRounding::kTensor ? "tensor" : "float32", static_cast<long long>(s.tokens),
      timings.timing(0).ns / 1e3, timings.timing(1).ns / 1e3, timings.ratio(1, 0));
  std::fflush(stdout);
}

void run(int threads, const std::vector<std::int64_t>& all_tokens) {
  std::printf("%s, %d threads\n", machine_name().c_str(), threads);
  std::printf("type      pairing      placement rounding tokens  rotate us    norm us  ratio\n");
  for (const std::int64_t tokens : all_tokens) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      for (const Pairing pairing : {Pairing::kHalf, Pairing::kInterleaved}) {
        for (const bool in_place : {true, false}) {
          measure({dtype, pairing, in_place, NormRounding::kTensor, tokens}, threads);
          if (dtype == DType::kFloat32 || !in_place) continue;
          measure({dtype, pairing, in_place, NormRounding::kFloat32, tokens}, threads);
        }
      }
    }
  }
}

}  // namespace
}  // namespace rotary::measure

int main(int count, char** arguments) {
  std::vector<std::int64_t> tokens;
  for (int i = 2; i < count; ++i) tokens.push_back(std::atoll(arguments[i]));
  if (tokens.empty()) tokens = {4096, 1};
  rotary::measure::run(count > 1 ? std::atoi(arguments[1]) : 2, tokens);
  return 0;
}
