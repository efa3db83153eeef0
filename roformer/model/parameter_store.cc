// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/model/parameter_store.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <utility>

#include "rotary/transformer/optimizer.h"
#include "support/message.h"

namespace rotary::roformer {
namespace {

// 256 bytes, the alignment of allocators: kernels treat each parameter as they would alone.
constexpr std::int64_t kAlignment = 64;

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

void check_parameter(const std::string& name, const at::Tensor& parameter,
                     const at::Tensor& first) {
  if (parameter.scalar_type() != at::kFloat) {
    internal::reject("[Trainer] parameters must be float32, got ",
                     c10::toString(parameter.scalar_type()), " for ", name);
  }
  if (parameter.device() != first.device()) {
    internal::reject("[Trainer] parameters must be on one device, got ", parameter.device().str(),
                     " for ", name, " and ", first.device().str());
  }
}

/// Norms and biases do not decay, nor do frequencies and steps of positions: 0 is no better a value
/// of them than another.
bool decays(const std::string& name, const at::Tensor& parameter) {
  const bool is_bias = name.ends_with(".relative.u") || name.ends_with(".relative.v");
  return parameter.dim() >= 2 && !is_bias && name.find(".rotation.") == std::string::npos;
}

}  // namespace

void index_parameters(::torch::nn::Module& model) {
  // Modules in the order of named_parameters(): the parameters of each stand together.
  auto next = static_cast<ParameterIndex>(model.parameters(/*recurse=*/false).size());
  for (const auto& module : model.modules(/*include_self=*/false)) {
    if (auto* indexed = dynamic_cast<IndexedParameters*>(module.get())) {
      indexed->first_parameter = next;
    }
    next += static_cast<ParameterIndex>(module->parameters(/*recurse=*/false).size());
  }
  TORCH_INTERNAL_ASSERT(next == static_cast<ParameterIndex>(model.parameters().size()));
}

ParameterStore::ParameterStore(::torch::nn::Module& module, std::int64_t ranks) {
  const at::NoGradGuard no_grad;
  const auto parameters = module.named_parameters();
  segment_of_.assign(parameters.size(), -1);
  for (const bool decaying : {true, false}) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor& parameter = parameters[i].value();
      if (!parameter.requires_grad() || decays(parameters[i].key(), parameter) != decaying)
        continue;
      segment_of_[i] = static_cast<std::int64_t>(segments_.size());
      segments_.push_back({.name = parameters[i].key(), .parameter = parameter});
    }
  }
  if (segments_.empty()) internal::reject("[Trainer] the model has no parameters to train");
  std::int64_t size = 0;
  for (Segment& segment : segments_) {
    check_parameter(segment.name, segment.parameter, segments_.front().parameter);
    segment.offset = size;
    size += round_up(segment.parameter.numel(), kAlignment);
    if (decays(segment.name, segment.parameter)) num_decaying_ = size;
  }
  size = round_up(size, kAlignment * ranks);
  values_ = at::zeros({size}, segments_.front().parameter.options().requires_grad(false));
  gradients_ = at::zeros_like(values_);
  for (Segment& segment : segments_) {
    const at::Tensor values = view(segment, values_);
    values.copy_(segment.parameter);
    segment.parameter.set_data(values);
    segment.gradient = view(segment, gradients_);
    segment.parameter.mutable_grad() = segment.gradient;
  }
}

at::Tensor ParameterStore::view(const Segment& segment, const at::Tensor& flat) {
  return flat.narrow(0, segment.offset, segment.parameter.numel()).view(segment.parameter.sizes());
}

const ParameterStore::Segment* ParameterStore::segment_at(ParameterIndex index) const {
  if (index == kNoIndex) return nullptr;
  const std::int64_t segment = segment_of_.at(static_cast<std::size_t>(index));
  return segment < 0 ? nullptr : &segments_[static_cast<std::size_t>(segment)];
}

// ---- Low-precision weights ----------------------------------------------------------------------

void ParameterStore::add_low_precision(at::ScalarType type) {
  const at::NoGradGuard no_grad;
  low_precision_ = values_.to(type);
  for (Segment& segment : segments_) {
    segment.copy = view(segment, *low_precision_);
    segment.version = segment.parameter._version();
  }
}

void ParameterStore::mark_written() {
  for (Segment& segment : segments_) {
    segment.parameter.unsafeGetTensorImpl()->bump_version();
    segment.version = segment.parameter._version();
  }
}

at::Tensor ParameterStore::find(at::ScalarType type,
                                const std::vector<Parameter>& parameters) const {
  at::Tensor first;
  std::int64_t rows = 0;
  std::int64_t end = -1;
  for (const Parameter& parameter : parameters) {
    const Segment* segment = segment_at(parameter.index);
    if (segment == nullptr || (end >= 0 && segment->offset != end)) return {};
    const at::Tensor& stored = segment->parameter;
    const bool current = segment->copy.defined() && segment->copy.scalar_type() == type &&
                         stored._version() == segment->version;
    if (type != stored.scalar_type() && !current) return {};
    if (!first.defined()) first = type == stored.scalar_type() ? stored.detach() : segment->copy;
    rows += stored.size(0);
    end = segment->offset + stored.numel();
  }
  std::vector<std::int64_t> sizes = first.sizes().vec();
  sizes[0] = rows;
  return first.as_strided(sizes, first.strides());
}

// ---- Gradients ----------------------------------------------------------------------------------

/// Gathers the gradients of one backward pass in few launches. The first gradient of a step is
/// written to its segment, later ones are added, by one launch after the other where a segment has
/// several.
class ParameterStore::Accumulation {
 public:
  explicit Accumulation(ParameterStore& store)
      : store_(store), segments_(store.segments_), num_added_(segments_.size(), 0) {}

  /// `gradient` covers the adjacent segments from `first` on.
  void add(std::size_t first, const at::Tensor& gradient) {
    const std::int64_t offset = segments_[first].offset;
    std::size_t end = first;
    bool stale = true;
    for (; end < segments_.size() && segments_[end].offset < offset + gradient.numel(); ++end) {
      stale = stale && segments_[end].stale;
    }
    std::size_t launch = 0;
    for (std::size_t i = first; i < end; ++i) {
      if (!stale && segments_[i].stale) segments_[i].gradient.zero_();
      segments_[i].stale = false;
      if (!stale) launch = std::max(launch, num_added_[i]++);
    }
    if (!stale && added_.size() <= launch) added_.resize(launch + 1);
    (stale ? written_ : added_[launch]).push_back({.from = gradient, .offset = offset});
  }
  void add_rows(std::size_t segment, const Gradient& gradient) {
    rows_.emplace_back(segment, gradient);
  }
  void run() {
    transformer::gather_segments(store_.gradients_, written_);
    for (const auto& sources : added_) {
      transformer::gather_segments(store_.gradients_, sources, /*accumulate=*/true);
    }
    for (const auto& [segment, part] : rows_) {
      const at::Tensor& sum = segments_[segment].gradient;
      if (segments_[segment].stale) sum.zero_();
      segments_[segment].stale = false;
      transformer::add_rows(sum, part.rows, part.gradient, part.padding_row);
    }
  }

 private:
  ParameterStore& store_;
  std::vector<Segment>& segments_;
  /// [segments]: additions so far.
  std::vector<std::size_t> num_added_;
  std::vector<transformer::SegmentSource> written_{};
  std::vector<std::vector<transformer::SegmentSource>> added_{};
  std::vector<std::pair<std::size_t, Gradient>> rows_{};
};

bool ParameterStore::take(const Gradient& gradient) {
  if (!accumulating_ || segment_at(gradient.index) == nullptr) return false;
  taken_.push_back(gradient);
  return true;
}

void ParameterStore::accumulate_gradients(const at::Tensor& loss) {
  struct End {
    ParameterStore& store;
    ~End() {
      store.accumulating_ = false;
      store.taken_.clear();
    }
  };
  // Without grad(), autograd hands over tensors of its own.
  for (const Segment& segment : segments_) segment.parameter.mutable_grad() = at::Tensor();
  const End end{*this};
  accumulating_ = true;
  loss.backward();
  const at::NoGradGuard no_grad;
  Accumulation accumulation(*this);
  for (const Gradient& gradient : taken_) {
    const auto segment =
        static_cast<std::size_t>(segment_of_[static_cast<std::size_t>(gradient.index)]);
    if (gradient.rows.defined()) {
      accumulation.add_rows(segment, gradient);
    } else {
      accumulation.add(segment, gradient.gradient);
    }
  }
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    at::Tensor& gradient = segments_[i].parameter.mutable_grad();
    if (gradient.defined()) accumulation.add(i, gradient);
    gradient = segments_[i].gradient;
  }
  accumulation.run();
}

void ParameterStore::finish_gradients() {
  for (Segment& segment : segments_) {
    if (segment.stale) segment.gradient.zero_();
    segment.stale = true;
  }
}

}  // namespace rotary::roformer
