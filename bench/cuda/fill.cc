// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "fill.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "cuda/params.h"
#include "cuda/rotate.h"

namespace rotary::internal::cuda {
namespace {

/// The part of a job that one launch takes.
struct Part {
  std::vector<const Operand*> operands;
  std::int64_t first_batch, batch;
  std::int64_t first_pair, pairs;
  std::ptrdiff_t shift;
  bool overlaps;
};

template <typename T>
T* moved(T* pointer, std::ptrdiff_t shift, std::int64_t bytes = 0) {
  if (pointer == nullptr) return nullptr;
  return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(pointer) +
                              static_cast<std::uintptr_t>(shift + bytes));
}

std::int64_t bytes_of(DType type) { return static_cast<std::int64_t>(size_of(type)); }

void fill_operand(const Operand& x, const Part& part, OperandParams& o) {
  const std::int64_t size = bytes_of(x.in.dtype);
  const auto stride = [size](const Dims& strides, std::size_t i) { return strides[i] * size; };
  o.in_batch = stride(x.in.strides, 0);
  o.in_token = stride(x.in.strides, 1);
  o.in_head = stride(x.in.strides, 2);
  o.in_element = stride(x.in.strides, 3);
  o.out_batch = stride(x.out.strides, 0);
  o.out_token = stride(x.out.strides, 1);
  o.out_head = stride(x.out.strides, 2);
  o.out_element = stride(x.out.strides, 3);
  o.in = moved(x.in.data, part.shift, part.first_batch * o.in_batch);
  o.out = moved(x.out.data, part.shift, part.first_batch * o.out_batch);
}

void fill_positions(const Positions& from, const Part& part, PositionParams& to) {
  to.start = from.start();
  to.step = from.step();
  const auto* first = from.first().empty() ? nullptr : from.first().data();
  if (from.kind() == Positions::Kind::kPacked) {
    to.boundaries = moved(from.boundaries().data(), part.shift);
    to.first = moved(first, part.shift);
    to.sequences = static_cast<std::int32_t>(from.boundaries().size()) - 1;
    return;
  }
  if (from.kind() == Positions::Kind::kRange) {
    if (first == nullptr) return;
    to.start = 0;
    to.batch_stride = 1;
    to.ids = moved(first, part.shift, part.first_batch * 8);
    return;
  }
  const ConstTensorView& view = from.view();
  to.start = 0;
  to.step = 0;
  to.type = view.dtype;
  to.axis_stride = from.same_on_all_axes() ? 0 : view.strides[0];
  to.batch_stride = view.strides[1];
  to.token_stride = view.strides[2];
  to.ids = moved(view.data, part.shift, part.first_batch * to.batch_stride * bytes_of(view.dtype));
}

void fill_common(const Job& job, const Part& part, RotateParams& p) {
  const ConstTensorView& shape = part.operands.front()->in;
  p.num_operands = static_cast<std::int32_t>(part.operands.size());
  for (std::size_t k = 0; k < part.operands.size(); ++k) {
    fill_operand(*part.operands[k], part, p.operands[k]);
    p.first_head[k] = p.num_heads;
    p.num_heads += static_cast<std::int32_t>(part.operands[k]->in.shape[2]);
  }
  fill_positions(job.positions, part, p.positions);
  p.tokens = shape.shape[1];
  p.batch = static_cast<std::int32_t>(part.batch);
  p.head_dim = static_cast<std::int32_t>(shape.shape[3]);
  p.rotary_offset = static_cast<std::int32_t>(job.rotary_offset);
  p.pairs = static_cast<std::int32_t>(job.pairs);
  p.first_pair = static_cast<std::int32_t>(part.first_pair);
  p.pair_count = static_cast<std::int32_t>(part.pairs);
  p.type = shape.dtype;
  p.read = job.read;
  p.write = job.write;
  p.inverts = job.direction == Direction::kInverse;
  p.conjugates = job.direction != Direction::kForward;
  p.copies_rest = part.first_pair == 0 && p.head_dim > 2 * p.pairs &&
                  part.operands.front()->in.data != part.operands.front()->out.data;
  p.overlaps = part.overlaps;
  const Source& source = job.source;
  if (source.phases == nullptr) return;
  p.axes = static_cast<std::int32_t>(source.phases->axes);
  double scale = source.is_position ? source.phases->scale : 1.0;
  if (source.divisor != nullptr) scale /= source.divisor->scale;
  const double sign = p.conjugates ? -1.0 : 1.0;
  p.size.cos = p.inverts ? 1.0 / scale : scale;
  p.size.sin = sign * p.size.cos;
  p.size.cos_float = static_cast<float>(p.size.cos);
  p.size.sin_float = static_cast<float>(sign) * p.size.cos_float;
}

bool is_exact(const Source& source) {
  return (source.phases->precision == Precision::kExact || !source.is_position) &&
         (source.divisor == nullptr || source.divisor->precision == Precision::kExact);
}

/// Frequencies as SimpleParams has them; false where a pair turns with several axes.
bool fill_simple(const Job& job, const Part& part, SimpleParams& p) {
  const PhaseTable& table = *job.source.phases;
  const PhaseTable* divisor = job.source.divisor;
  const bool grows = !table.growth.empty() || (divisor != nullptr && !divisor->growth.empty());
  if (!is_exact(job.source) || grows || job.positions.real_valued()) return false;
  const bool one = table.axes == 1 || job.positions.same_on_all_axes();
  if (one) p.axes = 1;
  for (std::int64_t i = 0; i < part.pairs; ++i) {
    const auto pair = static_cast<std::size_t>(part.first_pair + i);
    p.fractions[i] = 0;
    p.axis_of[i] = 0;
    if (one) {
      p.fractions[i] = table.sums[pair] - (divisor != nullptr ? divisor->sums[pair] : 0);
      continue;
    }
    int turning = 0;
    for (std::int64_t a = 0; a < table.axes; ++a) {
      const auto at = static_cast<std::size_t>(a * table.pairs) + pair;
      const std::uint64_t f = table.fractions[at] - (divisor ? divisor->fractions[at] : 0);
      if (f == 0) continue;
      p.fractions[i] = f;
      p.axis_of[i] = static_cast<std::uint8_t>(a);
      ++turning;
    }
    if (turning > 1) return false;
  }
  return true;
}

class Words {
 public:
  Words(AnyParams& p, const Part& part) : p_(p), part_(part) {}

  template <typename Values, typename Convert>
  std::int32_t plane(const Values& values, const PhaseTable& table, Convert convert) {
    const std::int32_t begin = used_;
    for (std::int64_t a = 0; a < table.axes; ++a) {
      for (std::int64_t i = 0; i < part_.pairs; ++i) {
        const auto at = static_cast<std::size_t>(a * table.pairs + part_.first_pair + i);
        p_.words[used_++] = convert(values[at]);
      }
    }
    return begin;
  }
  void fill(const PhaseTable& table, bool exact, bool is_position, bool real,
            FrequencyPlanes& planes) {
    const auto same = [](std::uint64_t word) { return word; };
    if (exact || table.precision == Precision::kExact) {
      planes.fractions = plane(table.fractions, table, same);
      if (real) planes.wholes = plane(table.wholes, table, same);
    } else {
      planes.radians = plane(table.radians, table, [](float f) {
        return static_cast<std::uint64_t>(std::bit_cast<std::uint32_t>(f));
      });
    }
    if (table.growth.empty()) return;
    planes.growth =
        plane(table.growth, table, [](double g) { return std::bit_cast<std::uint64_t>(g); });
    planes.growth_origin = is_position ? table.growth_origin : 0.0;
  }

 private:
  AnyParams& p_;
  const Part& part_;
  std::int32_t used_ = 0;
};

/// Pairs that AnyParams has words for.
std::int64_t most_pairs(const Job& job) {
  std::int64_t planes = 0;
  for (const PhaseTable* table : {job.source.phases, job.source.divisor}) {
    if (table == nullptr) continue;
    planes += job.positions.real_valued() ? 2 : 1;
    if (!table->growth.empty()) ++planes;
  }
  return std::min<std::int64_t>(kAnyPairs, kAnyWords / (planes * job.source.phases->axes));
}

cudaError_t launch_table(const Job& job, const Part& part, cudaStream_t stream) {
  TableParams p{};
  fill_common(job, part, p);
  const CosSinTable& table = *job.source.table;
  const Pairing pairing = job.direction == Direction::kForward ? job.read : job.write;
  const bool skips =
      job.source.width == TableWidth::kTwicePairs && pairing == Pairing::kInterleaved;
  const auto fill = [&](const ConstTensorView& view, std::int64_t(&strides)[3]) {
    strides[0] = view.shape[0] == 1 ? 0 : view.strides[0];
    strides[1] = view.strides[1];
    strides[2] = skips ? 2 * view.strides[2] : view.strides[2];
    return moved(view.data, part.shift, part.first_batch * strides[0] * bytes_of(view.dtype));
  };
  p.cos = fill(table.cos, p.cos_strides);
  p.sin = fill(table.sin, p.sin_strides);
  p.rows = table.cos.shape[1];
  p.table_type = table.cos.dtype;
  return rotate(p, stream);
}

cudaError_t launch_any(const Job& job, const Part& part, cudaStream_t stream) {
  const auto p = std::make_unique<AnyParams>();
  fill_common(job, part, *p);
  const Source& source = job.source;
  Words words(*p, part);
  const bool real = job.positions.real_valued();
  words.fill(*source.phases, !source.is_position, source.is_position, real, p->phases);
  if (source.divisor != nullptr) words.fill(*source.divisor, false, true, real, p->divisor);
  p->scale = source.is_position ? source.phases->scale : 1.0;
  if (source.divisor != nullptr) p->scale /= source.divisor->scale;
  return rotate(*p, stream);
}

/// Whether SimpleParams will do: for all pairs, and in one launch where it must be one.
bool is_simple(const Job& job, Part part) {
  if (job.source.table != nullptr) return false;
  const Operand& x = *part.operands.front();
  const bool together = job.read != job.write && x.in.data == x.out.data;
  if (together && job.pairs > kSimplePairs) return false;
  SimpleParams p{};
  for (; part.first_pair < job.pairs; part.first_pair += kSimplePairs) {
    part.pairs = std::min<std::int64_t>(kSimplePairs, job.pairs - part.first_pair);
    if (!fill_simple(job, part, p)) return false;
  }
  return true;
}

cudaError_t launch_simple(const Job& job, const Part& part, cudaStream_t stream) {
  SimpleParams p{};
  fill_common(job, part, p);
  fill_simple(job, part, p);
  return rotate(p, stream);
}

cudaError_t launch_part(const Job& job, Part part, cudaStream_t stream) {
  const bool table = job.source.table != nullptr;
  const bool simple = is_simple(job, part);
  const std::int64_t step = table ? kAnyPairs : simple ? kSimplePairs : most_pairs(job);
  for (; part.first_pair < job.pairs; part.first_pair += step) {
    part.pairs = std::min(step, job.pairs - part.first_pair);
    const cudaError_t error = table    ? launch_table(job, part, stream)
                              : simple ? launch_simple(job, part, stream)
                                       : launch_any(job, part, stream);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t rotate_job(const Job& job, std::ptrdiff_t shift, bool overlaps, cudaStream_t stream) {
  std::vector<bool> done(job.operands.size(), false);
  for (std::size_t i = 0; i < job.operands.size(); ++i) {
    if (done[i]) continue;
    Part part{{}, 0, 0, 0, 0, shift, overlaps};
    for (std::size_t k = i; k < job.operands.size(); ++k) {
      const Operand& x = job.operands[k];
      const bool same_place =
          (x.in.data == x.out.data) == (job.operands[i].in.data == job.operands[i].out.data);
      if (done[k] || x.in.dtype != job.operands[i].in.dtype || !same_place) continue;
      if (part.operands.size() == kOperandsPerLaunch) break;
      part.operands.push_back(&x);
      done[k] = true;
    }
    const std::int64_t batch = job.operands[i].in.shape[0];
    for (; part.first_batch < batch; part.first_batch += kBatchPerLaunch) {
      part.batch = std::min<std::int64_t>(kBatchPerLaunch, batch - part.first_batch);
      if (const cudaError_t error = launch_part(job, part, stream); error != cudaSuccess) {
        return error;
      }
    }
  }
  return cudaSuccess;
}

}  // namespace rotary::internal::cuda
