// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "rope/store_call.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>

#include "rope/memory.h"
#include "rope/validate.h"
#include "support/message.h"

namespace rotary::internal {

void CallMemory::add(std::string_view name, const ConstTensorView& view, bool is_written) {
  if (view.rank == 0) return;
  if (view.device != device_) {
    reject("[", function_, "] ", name, " must be on ",
           is_on_host() ? "the CPU, got CUDA" : "the device of k");
  }
  check_memory(function_, view);
  if (is_written && view.num_elements() != 0 && !elements_are_distinct(view)) {
    reject("[", function_, "] elements of ", name,
           " must not share memory (a broadcast view?), since they are written");
  }
  entries_.push_back({name, view, is_written});
}

void CallMemory::add_read(std::string_view name, const ConstTensorView& view) {
  add(name, view, false);
}

void CallMemory::add_written(std::string_view name, const ConstTensorView& view) {
  add(name, view, true);
}

void CallMemory::add_read(const Positions& positions) {
  add("positions", positions.view(), false);
  add("positions", positions.first(), false);
  add("positions", positions.boundaries(), false);
}

void CallMemory::add(const Slots& slots) {
  add("slots", slots.indices(), false);
  add("block_table", slots.block_table(), false);
  add("sequences", slots.sequences(), false);
}

void CallMemory::check() const {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    for (std::size_t j = i + 1; j < entries_.size(); ++j) {
      const Entry& a = entries_[i];
      const Entry& b = entries_[j];
      if ((a.is_written || b.is_written) && may_overlap(a.view, b.view)) {
        reject("[", function_, "] ", a.name, " and ", b.name, " must not share memory");
      }
    }
  }
}

namespace {

/// [slots, ...] as [slots, 1, ...].
template <typename Void>
BasicTensorView<Void> with_block_rows(const BasicTensorView<Void>& view) {
  BasicTensorView<Void> more = view;
  more.rank = view.rank + 1;
  more.shape[1] = 1;
  more.strides[1] = 0;
  for (std::size_t i = 1; i < static_cast<std::size_t>(view.rank); ++i) {
    more.shape[i + 1] = view.shape[i];
    more.strides[i + 1] = view.strides[i];
  }
  return more;
}

void set_given_scale(std::string_view function, std::string_view name, const StoredTensor& given,
                     HeadStore& store, CallMemory& memory) {
  const ConstTensorView& scale = given.scale;
  if (scale.rank != 1 || scale.dtype != DType::kFloat32 ||
      (scale.shape[0] != 1 && scale.shape[0] != store.heads)) {
    reject("[", function, "] the scale of ", name, " must be float32 of [1] or [", store.heads,
           "], got ", name_of(scale.dtype), " of rank ", scale.rank, " and size ", scale.shape[0]);
  }
  memory.add_read("a scale", scale);
  store.scale = static_cast<const float*>(scale.data);
  store.scale_stride = scale.shape[0] == 1 ? 0 : scale.strides[0];
  if (!memory.is_on_host()) return;
  for (std::int64_t i = 0; i < scale.shape[0]; ++i) {
    const float value = store.scale[i * store.scale_stride];
    if (!std::isfinite(value) || value <= 0.0f) {
      reject("[", function, "] the scale of ", name, " must be positive and finite, got ", value);
    }
  }
}

void set_computed_scales(std::string_view function, std::string_view name,
                         const StoredTensor& given, HeadStore& store, CallMemory& memory) {
  const TensorView& of_data = given.data;
  TensorView scales = given.computed_scales;
  memory.add_written("computed scales", scales);
  bool fits = scales.dtype == DType::kFloat32 &&
              (scales.rank == of_data.rank || scales.rank == of_data.rank - 1);
  for (std::size_t i = 0; fits && i + 1 < static_cast<std::size_t>(of_data.rank); ++i) {
    fits = scales.shape[i] == of_data.shape[i];
  }
  if (fits && scales.rank == of_data.rank - 1) {  // one group
    scales.shape[static_cast<std::size_t>(scales.rank)] = 1;
    scales.strides[static_cast<std::size_t>(scales.rank)] = 0;
    ++scales.rank;
  }
  const std::int64_t groups = fits ? scales.shape[static_cast<std::size_t>(scales.rank - 1)] : 0;
  if (groups < 1 || store.head_dim % groups != 0) {
    reject("[", function, "] the computed scales of ", name,
           " must be float32 of its shape without head_dim, or with a number of groups that "
           "divides it");
  }
  if (scales.rank == 3) scales = with_block_rows(scales);
  store.computed = static_cast<float*>(scales.data);
  store.groups = groups;
  store.computed_block_stride = scales.strides[0];
  store.computed_token_stride = scales.strides[1];
  store.computed_head_stride = scales.strides[2];
  store.computed_group_stride = scales.strides[3];
}

void check_type(std::string_view function, std::string_view name, DType stored, DType type) {
  const bool is_quantized = is_float8(stored) || stored == DType::kInt8;
  if (stored == type || (is_quantized && type != DType::kFloat64)) return;
  reject("[", function, "] ", name, " must have the type of what is stored, ", name_of(type),
         type == DType::kFloat64 ? "" : ", or float8 or int8", ", got ", name_of(stored));
}

}  // namespace

CheckedStore check_store(std::string_view function, std::string_view name,
                         const StoredTensor& given, std::optional<DType> type, CallMemory& memory) {
  if (given.data.rank != 3 && given.data.rank != 4) {
    reject("[", function, "] ", name,
           " must be [blocks, block_size, heads, head_dim] or [slots, heads, head_dim], got rank ",
           given.data.rank);
  }
  if (given.data.dtype == DType::kInt32 || given.data.dtype == DType::kInt64) {
    reject("[", function, "] ", name, " must be of a floating-point type or int8, got ",
           name_of(given.data.dtype));
  }
  const TensorView view = given.data.rank == 4 ? given.data : with_block_rows(given.data);
  if (view.strides[3] != 1 && view.shape[3] > 1) {
    reject("[", function, "] elements of a head of ", name, " must be contiguous, got stride ",
           view.strides[3]);
  }
  memory.add_written(name, given.data);
  if (type) check_type(function, name, view.dtype, *type);
  CheckedStore checked{.store = {.data = view.data,
                                 .dtype = view.dtype,
                                 .block_size = view.shape[1],
                                 .block_stride = view.strides[0],
                                 .token_stride = view.strides[1],
                                 .head_stride = view.strides[2],
                                 .heads = view.shape[2],
                                 .head_dim = view.shape[3],
                                 .use = given.use},
                       .blocks = view.shape[0]};
  const bool has_scale = given.scale.rank != 0;
  const bool computes = given.computed_scales.rank != 0;
  if (!checked.store.is_quantized()) {
    if (has_scale || computes) {
      reject("[", function, "] scales are for quantised stores, got ", name, " of ",
             name_of(view.dtype));
    }
    return checked;
  }
  if (has_scale && computes) {
    reject("[", function, "] the scale of ", name, " is either given or computed, got both");
  }
  if (has_scale) set_given_scale(function, name, given, checked.store, memory);
  if (computes) set_computed_scales(function, name, given, checked.store, memory);
  return checked;
}

void check_store_heads(std::string_view function, std::string_view name, const HeadStore& store,
                       std::int64_t heads, std::int64_t head_dim) {
  if (store.heads == heads && store.head_dim == head_dim) return;
  reject("[", function, "] ", name, " must hold ", heads, " heads of ", head_dim, ", got ",
         store.heads, " of ", store.head_dim);
}

namespace {

void check_integers(std::string_view function, std::string_view name, const ConstTensorView& view,
                    int min_rank) {
  if ((view.dtype == DType::kInt32 || view.dtype == DType::kInt64) && view.rank >= min_rank &&
      view.rank <= 2) {
    return;
  }
  reject("[", function, "] ", name, " must be int32 or int64 of ",
         min_rank == 2 ? "two dimensions" : "one or two dimensions", ", got ", name_of(view.dtype),
         " of rank ", view.rank);
}

/// Element [i, j] of a view of rank 2.
std::int64_t integer(const ConstTensorView& view, std::int64_t i, std::int64_t j) noexcept {
  const std::int64_t element = i * view.strides[0] + j * view.strides[1];
  const char* const at = static_cast<const char*>(view.data) +
                         element * static_cast<std::int64_t>(size_of(view.dtype));
  if (view.dtype == DType::kInt64) {
    std::int64_t value = 0;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  std::int32_t value = 0;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

/// [n] as [1, n].
ConstTensorView as_matrix(const ConstTensorView& view) noexcept {
  if (view.rank != 1) return view;
  ConstTensorView matrix = view;
  matrix.rank = 2;
  matrix.shape = {1, view.shape[0], 0, 0};
  matrix.strides = {0, view.strides[0], 0, 0};
  return matrix;
}

/// The slot of index p of a sequence.
std::int64_t slot_in_pages(std::string_view function, const ConstTensorView& table,
                           std::int64_t sequence, std::int64_t p, std::int64_t block_size) {
  if (sequence < 0 || sequence >= table.shape[0]) {
    reject("[", function, "] sequences must be rows of the block table, 0 to ", table.shape[0] - 1,
           ", got ", sequence);
  }
  const std::int64_t page = block_size > 0 ? p / block_size : table.shape[1];
  if (page >= table.shape[1]) {
    reject("[", function, "] the block table has ", table.shape[1], " blocks of ", block_size,
           " tokens for a sequence, got index ", p);
  }
  const std::int64_t block = integer(table, sequence, page);
  if (block < 0) {
    reject("[", function, "] sequence ", sequence, " has no block for index ", p, ", got block ",
           block);
  }
  std::int64_t slot = 0;
  if (__builtin_mul_overflow(block, block_size, &slot) ||
      __builtin_add_overflow(slot, p % block_size, &slot)) {
    reject("[", function, "] blocks must be in the cache, got ", block);
  }
  return slot;
}

/// Keeps the last of several tokens with one slot: tasks write in no fixed order.
void drop_repeated(std::vector<std::int64_t>& slots) {
  std::int64_t last = -1;
  bool increases = true;
  for (const std::int64_t slot : slots) {
    if (slot < 0) continue;
    increases = increases && slot > last;
    last = slot;
  }
  if (increases) return;
  std::vector<std::pair<std::int64_t, std::size_t>> order;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] >= 0) order.emplace_back(slots[i], i);
  }
  std::sort(order.begin(), order.end());
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (order[i].first == order[i - 1].first) slots[order[i - 1].second] = -1;
  }
}

}  // namespace

void check_slots(std::string_view function, const Slots& slots, std::int64_t batch,
                 std::int64_t tokens) {
  const ConstTensorView& given = slots.indices();
  const ConstTensorView& table = slots.block_table();
  const bool is_paged = table.rank != 0;
  const bool has_sequences = slots.sequences().rank != 0;
  check_integers(function, "slots", given, 1);
  if (is_paged) check_integers(function, "the block table", table, 2);
  if (has_sequences) {
    check_integers(function, "sequences", slots.sequences(), 1);
    if (slots.sequences().rank != given.rank || slots.sequences().shape != given.shape) {
      reject("[", function, "] sequences must have the shape of the indices");
    }
  } else if (is_paged && table.shape[0] != batch) {
    reject("[", function, "] the block table must have a row for each of ", batch,
           " batch rows, or sequences must be given, got ", table.shape[0], " rows");
  }
  const std::int64_t all = batch * tokens;
  if (given.rank == 1 ? given.shape[0] > all
                      : given.shape[0] != batch || given.shape[1] != tokens) {
    reject("[", function, "] slots must be [", batch, ", ", tokens, "], or [n] with n at most ",
           all, ", got ", given.shape[0], given.rank == 1 ? "" : " rows");
  }
}

std::vector<std::int64_t> resolve_slots(std::string_view function, const Slots& slots,
                                        std::int64_t batch, std::int64_t tokens,
                                        const CheckedStore& store) {
  check_slots(function, slots, batch, tokens);
  const ConstTensorView& given = slots.indices();
  const ConstTensorView& table = slots.block_table();
  const bool is_paged = table.rank != 0;
  const bool has_sequences = slots.sequences().rank != 0;
  const std::int64_t all = batch * tokens;
  const ConstTensorView indices = as_matrix(given);
  const ConstTensorView sequences = as_matrix(slots.sequences());
  const std::int64_t block_size = store.store.block_size;
  const std::int64_t num_slots = store.blocks * block_size;
  std::vector<std::int64_t> resolved(static_cast<std::size_t>(all), -1);
  const std::int64_t columns = indices.shape[1];
  for (std::int64_t i = 0; i < indices.shape[0] * columns; ++i) {
    std::int64_t slot = integer(indices, i / columns, i % columns);
    if (slot < -1) {
      reject("[", function, "] slots must be -1 or not negative, got ", slot, " for token ", i);
    }
    if (slot >= 0 && is_paged) {
      const std::int64_t sequence =
          has_sequences ? integer(sequences, i / columns, i % columns) : i / tokens;
      slot = slot_in_pages(function, table, sequence, slot, block_size);
    }
    if (slot >= num_slots) {
      reject("[", function, "] slots must be below ", num_slots, " (", store.blocks, " blocks of ",
             block_size, "), got ", slot, " for token ", i);
    }
    resolved[static_cast<std::size_t>(i)] = slot;
  }
  drop_repeated(resolved);
  return resolved;
}

}  // namespace rotary::internal
