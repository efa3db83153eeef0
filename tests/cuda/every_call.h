// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// One call of each kind, on device tensors and positions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/device_memory.h"
#include "rotary/rope.h"
#include "rotary/table.h"

namespace rotary {

/// Device tensors of a decoding step: q and k, and every other argument of the calls. All of it can
/// be reset and compared.
class CallFixture {
 public:
  static constexpr std::int64_t kBatch = 3;
  static constexpr std::int64_t kTokens = 4;
  static constexpr std::int64_t kPairs = 32;

  explicit CallFixture(DType dtype = DType::kBFloat16)
      : rope(frequencies(OneAxis{}), layout()),
        ids({5, 1000, -3, 131071, 77, 0, 39001, 12, 13, 14, 1 << 20, 2}),
        real({0.5, -3.25, 100.0, 7.0}),
        boundaries({0, 1, 3, kTokens}),
        first({100, -5, 2000}),
        scale({0.5f}),
        workspace(rope.gradient_workspace(kBatch, kTokens)) {
    for (const std::int64_t heads : {6, 2, 6, 2}) add(dtype, heads, layout().head_dim);
    add(DType::kFloat8E4M3, 6, layout().head_dim);
    add(DType::kFloat32, 1, kPairs);   // cos
    add(DType::kFloat32, 1, kPairs);   // sin
    add(DType::kFloat64, 1, kPairs);   // gradients, in its first elements
    add(DType::kFloat32, 3, 2 * 600);  // a head of 600 pairs
    add(DType::kFloat32, 2, 64 + 3);   // heads that are not 16-byte aligned
  }

  static HeadLayout layout(Pairing output = Pairing::kHalf) {
    return {.head_dim = 64, .pairing = Pairing::kHalf, .output_pairing = output};
  }
  static Frequencies frequencies(const AxisMap& axes, const Scaling& scaling = Plain{}) {
    return make_frequencies(
        {.rotary_dim = 2 * kPairs, .theta = 1e4, .scaling = scaling, .axes = axes});
  }

  const TensorView& view(std::size_t i) const { return tensors_[i]->view(); }
  /// [batch, tokens, pairs]
  TensorView rows(std::size_t i) const {
    return TensorView::contiguous(view(i).data, view(i).dtype, {kBatch, kTokens, kPairs}, kGpu);
  }
  Positions at_ids() const {
    return Positions::ids(
        ConstTensorView::contiguous(ids.data(), DType::kInt64, {1, kBatch, kTokens}, kGpu));
  }
  ConstTensorView list(const DeviceList<std::int64_t>& values, std::int64_t size) const {
    return ConstTensorView::contiguous(values.data(), DType::kInt64, {size}, kGpu);
  }
  ParameterGradients gradients() const {
    auto* memory = static_cast<double*>(view(7).data);
    return {{memory, kPairs},
            TensorView::contiguous(memory + kPairs, DType::kFloat64, {1, kBatch, kTokens}, kGpu),
            memory + 2 * kPairs,
            {workspace.data(), workspace.size()}};
  }

  void reset() const {
    for (const auto& tensor : tensors_) tensor->reset();
  }
  std::vector<reference::Elements> memory() const {
    std::vector<reference::Elements> all;
    for (const auto& tensor : tensors_) all.push_back(tensor->downloaded());
    return all;
  }

  Rope rope;
  DeviceList<std::int64_t> ids;  // [batch, tokens]
  DeviceList<double> real;       // [tokens]
  DeviceList<std::int64_t> boundaries;
  DeviceList<std::int64_t> first;  // [batch] or [sequences]
  DeviceList<float> scale;
  DeviceMemory workspace;

 private:
  void add(DType dtype, std::int64_t heads, std::int64_t head_dim) {
    const PlacedTensor host(Layout::kContiguous, dtype, {kBatch, kTokens, heads, head_dim},
                            static_cast<unsigned>(tensors_.size()), 0);
    tensors_.push_back(std::make_unique<DeviceTensor>(host));
  }
  std::vector<std::unique_ptr<DeviceTensor>> tensors_;
};

struct NamedCall {
  std::string name;
  std::function<void(const CallFixture&, const Stream&)> run;
};

inline std::vector<NamedCall> calls_of_rope() {
  return {
      {"rotate q and k",
       [](const CallFixture& d, const Stream& s) {
         d.rope.rotate({d.view(0), d.view(1)}, d.at_ids(), s);
       }},
      {"rotate q and k out of place",
       [](const CallFixture& d, const Stream& s) {
         d.rope.rotate({{d.view(0), d.view(2)}, {d.view(1), d.view(3)}}, d.at_ids(), s);
       }},
      {"unrotate with a start per batch row",
       [](const CallFixture& d, const Stream& s) {
         d.rope.unrotate({d.view(0), d.view(1)}, Positions::range(d.list(d.first, 3)), s);
       }},
      {"adjoint packed",
       [](const CallFixture& d, const Stream& s) {
         d.rope.adjoint(d.view(0), Positions::packed(d.list(d.boundaries, 4), d.list(d.first, 3)),
                        s);
       }},
      {"shift",
       [](const CallFixture& d, const Stream& s) {
         d.rope.shift(d.view(1), Positions::at(d.list(d.first, 3)), s);
       }},
      {"rerotate",
       [](const CallFixture& d, const Stream& s) {
         const Rope to(CallFixture::frequencies(OneAxis{}, Linear{.factor = 3}),
                       CallFixture::layout(Pairing::kInterleaved));
         rerotate(d.view(1), d.rope, to, d.at_ids(), s);
       }},
      {"mixed types",
       [](const CallFixture& d, const Stream& s) {
         d.rope.rotate({d.view(0), {d.view(1), d.view(3)}, {d.view(2), d.view(4), d.scale.data()}},
                       d.at_ids(), s);
       }},
      {"gradient",
       [](const CallFixture& d, const Stream& s) {
         d.rope.gradient({{d.view(0), d.view(2), d.view(2)}, {d.view(1), d.view(3)}}, d.at_ids(),
                         d.gradients(), s);
       }},
      {"cos and sin", [](const CallFixture& d,
                         const Stream& s) { d.rope.cos_sin(d.rows(5), d.rows(6), d.at_ids(), s); }},
  };
}

inline std::vector<NamedCall> other_calls() {
  return {
      {"real positions",
       [](const CallFixture& d, const Stream& s) {
         d.rope.rotate(d.view(0),
                       Positions::ids(ConstTensorView::contiguous(d.real.data(), DType::kFloat64,
                                                                  {CallFixture::kTokens}, kGpu)),
                       s);
       }},
      {"reference precision",
       [](const CallFixture& d, const Stream& s) {
         Rope(d.rope.frequencies(), d.rope.layout(), {.precision = Precision::kReference})
             .rotate(d.view(0), d.at_ids(), s);
       }},
      {"growth",
       [](const CallFixture& d, const Stream& s) {
         Rope(CallFixture::frequencies(OneAxis{}, Xpos{.scale_base = 1e6}), d.rope.layout())
             .rotate(d.view(0), d.at_ids(), s);
       }},
      {"three axes",
       [](const CallFixture& d, const Stream& s) {
         Rope(CallFixture::frequencies(Mrope{{16, 8, 8}}), d.rope.layout())
             .rotate({d.view(0), d.view(1)}, d.at_ids().on_all_axes(), s);
       }},
      {"many pairs, change of pairing in place",
       [](const CallFixture& d, const Stream& s) {
         const Rope rope(make_frequencies({.rotary_dim = 1200, .theta = 1e4}),
                         {.head_dim = 1200,
                          .pairing = Pairing::kHalf,
                          .output_pairing = Pairing::kInterleaved});
         rope.rotate(d.view(8), d.at_ids(), s);
       }},
      {"unaligned",
       [](const CallFixture& d, const Stream& s) {
         const Rope rope(d.rope.frequencies(), {.head_dim = 67,
                                                .rotary_offset = 1,
                                                .pairing = Pairing::kHalf,
                                                .output_pairing = Pairing::kInterleaved});
         rope.rotate(d.view(9), d.at_ids(), s);
       }},
      {"table",
       [](const CallFixture& d, const Stream& s) {
         const TableRope rope({d.rows(5), d.rows(6)}, d.rope.layout(), TableWidth::kPairs);
         rope.rotate({d.view(0), d.view(1)}, s);
         rope.adjoint({d.view(2), d.view(3)}, Positions::range(d.list(d.first, 3)), s);
       }},
  };
}

inline std::vector<NamedCall> every_call() {
  std::vector<NamedCall> all = calls_of_rope();
  for (NamedCall& call : other_calls()) all.push_back(std::move(call));
  return all;
}

}  // namespace rotary
