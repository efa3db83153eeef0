// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "c/convert.h"

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "rotary/recipe_json.h"

namespace rotary::c_api {
namespace {

// Enumerators have the same order in both languages, from 0 or from 1.
static_assert(static_cast<int>(DType::kFloat16) + 1 == ROTARY_DTYPE_FLOAT16);
static_assert(static_cast<int>(DType::kInt64) + 1 == ROTARY_DTYPE_INT64);
static_assert(static_cast<int>(DType::kInt8) + 1 == ROTARY_DTYPE_INT8);
static_assert(static_cast<int>(Pairing::kInterleaved) + 1 == ROTARY_PAIRING_INTERLEAVED);
static_assert(static_cast<int>(Pairing::kHalf) + 1 == ROTARY_PAIRING_HALF);
static_assert(static_cast<int>(Precision::kReference) == ROTARY_PRECISION_REFERENCE);
static_assert(static_cast<int>(CachePolicy::kAll) == ROTARY_CACHE_ALL);
static_assert(static_cast<int>(CachePolicy::kHybrid) == ROTARY_CACHE_HYBRID);
static_assert(static_cast<int>(DeviceType::kCuda) == ROTARY_DEVICE_CUDA);
static_assert(kMaxRank == ROTARY_MAX_RANK);

std::optional<Pairing> to_pairing(const Call& call, rotary_pairing given, const Name& name) {
  if (call.choose(given, 0, ROTARY_PAIRING_HALF, name) == 0) return std::nullopt;
  return static_cast<Pairing>(given - 1);
}

rotary_pairing from_pairing(Pairing pairing) noexcept { return static_cast<int>(pairing) + 1; }

TensorView view_of(const Call& call, const rotary_tensor& tensor, const Name& name) {
  TensorView view;
  view.data = tensor.data;
  const std::int32_t dtype =
      call.choose(tensor.dtype, ROTARY_DTYPE_FLOAT16, ROTARY_DTYPE_INT8, name.dot("dtype"));
  view.dtype = static_cast<DType>(dtype - 1);
  view.rank = tensor.rank;
  for (std::size_t i = 0; i < kMaxRank; ++i) {
    view.shape[i] = tensor.shape[i];
    view.strides[i] = tensor.strides[i];
  }
  view.device = {static_cast<DeviceType>(call.choose(tensor.device_type, ROTARY_DEVICE_CPU,
                                                     ROTARY_DEVICE_CUDA, name.dot("device_type"))),
                 tensor.device_index};
  return view;
}

TensorView view_without_scale(const Call& call, const rotary_tensor& tensor, const Name& name) {
  if (tensor.out_scale != nullptr) {
    call.reject(name.dot("out_scale"), " must be NULL: only results of rotations are scaled");
  }
  return view_of(call, tensor, name);
}

/// Integers as the caller gives them: a list in host memory, or a view instead.
struct GivenRow {
  std::string_view list_name{};
  const std::int64_t* list = nullptr;
  std::int64_t length = 0;
  std::string_view view_name{};
  const rotary_tensor* view = nullptr;

  bool has_list() const noexcept { return list != nullptr || length != 0; }
  bool is_given() const noexcept { return has_list() || view != nullptr; }
};

GivenRow first_of(const rotary_positions& p) noexcept {
  return {"first", p.first, p.num_first, "first_view", p.first_view};
}
GivenRow boundaries_of(const rotary_positions& p) noexcept {
  return {"boundaries", p.boundaries, p.num_boundaries, "boundaries_view", p.boundaries_view};
}

/// An empty row where none is given.
ConstTensorView to_row(const Call& call, const GivenRow& row, const Name& name) {
  if (row.view != nullptr) {
    if (row.has_list()) {
      call.reject(name.dot(row.list_name), " must not be given beside ", row.view_name);
    }
    return to_tensor(call, row.view, name.dot(row.view_name));
  }
  const Name list_name = name.dot(row.list_name);
  if (row.length < 0) {
    call.reject("the length of ", list_name, " must not be negative, got ", row.length);
  }
  if (row.length > 0) call.need(row.list, list_name);
  return {row.list, DType::kInt64, 1, {row.length}, {1}, {}};
}

/// Throws for members that the kind does not use.
void check_unused(const Call& call, const rotary_positions& p, const Name& name) {
  const auto unused = [&](bool is_given, std::string_view field) {
    if (is_given) call.reject(name.dot(field), " does not belong to kind ", p.kind);
  };
  const bool packed = p.kind == ROTARY_POSITIONS_PACKED || p.kind == ROTARY_POSITIONS_PACKED_AT;
  const bool ids = p.kind == ROTARY_POSITIONS_IDS;
  unused(!packed && boundaries_of(p).has_list(), "boundaries");
  unused(!packed && p.boundaries_view != nullptr, "boundaries_view");
  unused(!ids && p.ids != nullptr, "ids");
  unused(ids && first_of(p).has_list(), "first");
  unused(ids && p.first_view != nullptr, "first_view");
  unused((packed || ids) && p.start != 0, "start");
}

extern "C" {
static void run_task(void* task_context, std::int32_t index) {
  (**static_cast<const std::function<void(int)>**>(task_context))(index);
}
}

}  // namespace

HeadLayout to_layout(const Call& call, const rotary_head_layout* given) {
  constexpr Name kName("layout");
  const rotary_head_layout layout = call.read(given, kName);
  return {.head_dim = layout.head_dim,
          .rotary_offset = layout.rotary_offset,
          .pairing = to_pairing(call, layout.pairing, kName.dot("pairing")),
          .output_pairing = to_pairing(call, layout.output_pairing, kName.dot("output_pairing"))};
}

Recipe to_recipe(const Call& call, const rotary_recipe* given) {
  constexpr Name kName("recipe");
  const rotary_recipe recipe = call.read(given, kName);
  Recipe result;
  if (recipe.scaling != nullptr) result = recipe_from_json(recipe.scaling, "recipe.scaling");
  if (recipe.axis_map != nullptr) {
    result.axes = recipe_from_json(internal::concat("{\"axis_map\": ", recipe.axis_map, "}"),
                                   "recipe.axis_map")
                      .axes;
  }
  if (recipe.rotary_dim != 0) result.rotary_dim = recipe.rotary_dim;
  if (recipe.theta != 0.0) result.theta = recipe.theta;
  if (recipe.ladder_dim != 0) result.ladder_dim = recipe.ladder_dim;
  if (recipe.gain != 0.0) result.gain = recipe.gain;
  if (call.choose(recipe.direction, 0, 1, kName.dot("direction")) != 0) {
    result.direction = RotationDirection::kBackward;
  }
  if (call.choose(recipe.wavelengths, 0, 1, kName.dot("wavelengths")) != 0) {
    result.wavelengths = Wavelengths::kWhole;
  }
  return result;
}

rotary_head_layout from_layout(const HeadLayout& layout) noexcept {
  rotary_head_layout result = rotary_head_layout_init(layout.head_dim, 0);
  result.rotary_offset = layout.rotary_offset;
  if (layout.pairing) result.pairing = from_pairing(*layout.pairing);
  result.output_pairing =
      layout.output_pairing ? from_pairing(*layout.output_pairing) : result.pairing;
  return result;
}

Frequencies to_frequencies(const Call& call, const rotary_frequencies* given,
                           std::int64_t head_dim) {
  const rotary_frequencies f = call.read(given, "frequencies");
  Frequencies result{.pairs = f.pairs,
                     .axes = f.axes,
                     .scale = f.scale,
                     .softmax_scale = f.softmax_scale,
                     .growth_origin = f.growth_origin};
  constexpr std::int64_t kMaxPairs = std::int64_t{1} << 20;
  if (f.pairs < 1 || f.pairs > kMaxPairs || f.axes < 1 || f.axes > kMaxAxes) return result;
  const std::int64_t size = f.pairs * f.axes;
  if (f.pairs > head_dim / 2) {
    result.values.resize(static_cast<std::size_t>(size));
    return result;
  }
  result.values.assign(&call.need(f.values, "frequencies.values"), f.values + size);
  if (f.growth != nullptr) result.growth.assign(f.growth, f.growth + size);
  return result;
}

rotary_frequencies from_frequencies(const Frequencies& f) noexcept {
  rotary_frequencies result = rotary_frequencies_init(f.values.data(), f.pairs, f.axes);
  result.scale = f.scale;
  result.softmax_scale = f.softmax_scale;
  result.growth = f.growth.empty() ? nullptr : f.growth.data();
  result.growth_origin = f.growth_origin;
  return result;
}

rotary_threads read_threads(const Call& call, const rotary_threads* given) {
  if (given == nullptr) return rotary_threads_init(0);
  rotary_threads threads = call.read(given, "threads");
  threads.struct_size = sizeof(rotary_threads);
  return threads;
}

Threads to_threads(const rotary_threads& threads) {
  Threads result{.count = threads.count};
  if (threads.parallel_for != nullptr) {
    result.run = [run = threads.parallel_for, context = threads.context](
                     int tasks, const std::function<void(int)>& task) {
      const std::function<void(int)>* pointer = &task;
      run(context, tasks, run_task, &pointer);
    };
  }
  return result;
}

Options to_options(const Call& call, const rotary_rope_options* given) {
  constexpr Name kName("options");
  const rotary_rope_options options =
      given == nullptr ? rotary_rope_options_init() : call.read(given, kName);
  Options result{.threads = read_threads(call, options.threads)};
  result.rope.precision =
      static_cast<Precision>(call.choose(options.precision, ROTARY_PRECISION_EXACT,
                                         ROTARY_PRECISION_REFERENCE, kName.dot("precision")));
  result.rope.cache = {
      .policy = static_cast<CachePolicy>(call.choose(
          options.cache_policy, ROTARY_CACHE_NONE, ROTARY_CACHE_HYBRID, kName.dot("cache_policy"))),
      .positions = options.cache_positions};
  result.rope.threads = to_threads(result.threads);
  return result;
}

Stream to_stream(const Call& call, void* handle, std::int32_t overlap) {
  return {.handle = handle, .overlap = call.choose(overlap, 0, 1, "overlap") == 1};
}

TensorView to_tensor(const Call& call, const rotary_tensor* given, const Name& name) {
  return view_without_scale(call, call.read(given, name), name);
}

TensorArray::TensorArray(const Call& call, const rotary_tensor* array, const Name& name)
    : call_(call), array_(array), struct_size_(call.read(array, name).struct_size), name_(name) {}

rotary_tensor TensorArray::read(std::size_t index) const {
  return call_.read_at(array_, index, struct_size_, name_);
}

TensorView TensorArray::operator[](std::size_t index) const {
  return view_without_scale(call_, read(index), name_.at(index));
}

TensorView TensorArray::if_given(std::size_t index) const {
  const rotary_tensor tensor = read(index);
  if (tensor.data == nullptr) return {};
  return view_without_scale(call_, tensor, name_.at(index));
}

TensorArray::Result TensorArray::result(std::size_t index) const {
  const rotary_tensor tensor = read(index);
  return {view_of(call_, tensor, name_.at(index)), tensor.out_scale};
}

std::size_t check_count(const Call& call, std::int64_t count) {
  if (count < 0 || count > kMaxOperands) {
    call.reject("count must be 0 to ", kMaxOperands, " tensors, got ", count);
  }
  return static_cast<std::size_t>(count);
}

// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): only what is used
OperandList::OperandList(const Call& call, const rotary_tensor* in, const rotary_tensor* out,
                         std::int64_t count)
    : size_(check_count(call, count)) {
  if (size_ == 0) return;
  const TensorArray from(call, in, "in");
  if (out == nullptr) {
    for (std::size_t i = 0; i < size_; ++i) {
      const auto [view, scale] = from.result(i);
      std::construct_at(list_ + i, view, view, scale);
    }
    return;
  }
  const TensorArray to(call, out, "out");
  for (std::size_t i = 0; i < size_; ++i) {
    const TensorView read = from[i];
    const auto [written, scale] = to.result(i);
    std::construct_at(list_ + i, read, written, scale);
  }
}

Positions to_positions(const Call& call, const rotary_positions* given, const Name& name) {
  const rotary_positions p = call.read(given, name);
  call.choose(p.kind, ROTARY_POSITIONS_RANGE, ROTARY_POSITIONS_PACKED_AT, name.dot("kind"));
  const bool all = call.choose(p.on_all_axes, 0, 1, name.dot("on_all_axes")) == 1;
  check_unused(call, p, name);

  const ConstTensorView first = to_row(call, first_of(p), name);
  const bool by_row = first_of(p).is_given();
  if (by_row && p.start != 0) call.reject(name.dot("start"), " must be 0 where first is given");
  const ConstTensorView boundaries = to_row(call, boundaries_of(p), name);

  const auto made = [&] {
    switch (p.kind) {
      case ROTARY_POSITIONS_RANGE:
        return by_row ? Positions::range(first) : Positions::range(p.start);
      case ROTARY_POSITIONS_AT:
        return by_row ? Positions::at(first) : Positions::at(p.start);
      case ROTARY_POSITIONS_IDS:
        return Positions::ids(ConstTensorView(to_tensor(call, p.ids, name.dot("ids"))));
      case ROTARY_POSITIONS_PACKED: {
        const bool from_zero = p.first_view == nullptr && p.num_first == 0;
        return Positions::packed(boundaries, from_zero ? ConstTensorView{} : first);
      }
      default:
        return Positions::packed_at(boundaries, first);
    }
  }();
  return all ? made.on_all_axes() : made;
}

}  // namespace rotary::c_api
