// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/measure/interleaved_timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <random>

namespace rotary::measure {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kMinSampleNs = 100e3;
/// Calls longer than this exceed the caches: no untimed call before a sample.
constexpr double kLongCallNs = 2e6;

double ns_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

double time_calls(const std::function<void()>& candidate, int calls) {
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < calls; ++i) candidate();
  return ns_since(start) / calls;
}

/// Linear interpolation; `sorted` is not empty.
double quantile(const std::vector<double>& sorted, double fraction) {
  const double at = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], at - static_cast<double>(below));
}

std::vector<double> sorted(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values;
}

/// A candidate and its samples.
struct CandidateRunner {
  const std::function<void()>* candidate = nullptr;
  int calls = 1;
  bool warm_first = false;
  std::vector<double> samples{};

  void prepare() {
    (*candidate)();
    double ns = time_calls(*candidate, 1);
    // One call of a microsecond measures mostly the clock: repeat it.
    if (ns < kMinSampleNs) ns = time_calls(*candidate, 16);
    ns = std::max(ns, 1.0);
    calls = static_cast<int>(std::ceil(kMinSampleNs / ns));
    warm_first = ns < kLongCallNs;
  }

  void sample() {
    if (warm_first) (*candidate)();
    samples.push_back(time_calls(*candidate, calls));
  }
};

}  // namespace

Timing InterleavedTimings::timing(std::size_t candidate) const {
  const std::vector<double> samples = sorted(samples_[candidate]);
  const double median = quantile(samples, 0.5);
  return {median, (quantile(samples, 0.75) - quantile(samples, 0.25)) / median};
}

double InterleavedTimings::ratio(std::size_t candidate, std::size_t other) const {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < samples_[candidate].size(); ++i) {
    ratios.push_back(samples_[candidate][i] / samples_[other][i]);
  }
  return quantile(sorted(std::move(ratios)), 0.5);
}

InterleavedTimings time_interleaved(const std::vector<std::function<void()>>& candidates,
                                    const Effort& effort,
                                    const std::function<void(double)>& progress) {
  const Clock::time_point start = Clock::now();
  std::vector<CandidateRunner> runners(candidates.size());
  for (std::size_t i = 0; i < runners.size(); ++i) {
    runners[i].candidate = &candidates[i];
    runners[i].prepare();
  }

  std::mt19937 random;
  std::vector<std::size_t> order(runners.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (int repetition = 0; repetition < effort.max_repetitions; ++repetition) {
    const double spent = ns_since(start) * 1e-9 / std::max(effort.seconds, 1e-9);
    if (repetition >= effort.min_repetitions && spent >= 1.0) break;
    const double done = static_cast<double>(repetition) / effort.max_repetitions;
    if (progress) progress(std::min(1.0, std::max(done, spent)));
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t i : order) runners[i].sample();
  }

  std::vector<std::vector<double>> samples;
  samples.reserve(runners.size());
  for (CandidateRunner& runner : runners) samples.push_back(std::move(runner.samples));
  return InterleavedTimings(std::move(samples));
}

}  // namespace rotary::measure
