// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Compares the CUDA engine with the CPU engine over random rotations: rotations bit for bit, 8-bit
// output with the rounded float32 results of the CPU, gradients to 1e-11.
//   check [cases] [seed]

#include <cuda_fp8.h>

#include <algorithm>
#include <map>

#include "random_rotation.h"

namespace {

using namespace random_rotations;  // NOLINT: a program

/// The parameters of a random rotation in the arena's device memory.
class OnDevice {
 public:
  OnDevice(const RandomRotation& random, const Arena& arena)
      : shift_(arena.device - arena.before.data()), positions_(moved(random.positions)) {
    for (const Operand& x : random.operands) operands_.emplace_back(moved(x.in), moved(x.out));
    if (random.source.table == nullptr) return;
    table_ = {moved(random.table.cos), moved(random.table.sin)};
  }
  template <typename View>
  View moved(View view) const {
    if (view.data == nullptr) return view;
    view.data = reinterpret_cast<decltype(view.data)>(reinterpret_cast<std::uintptr_t>(view.data) +
                                                      static_cast<std::uintptr_t>(shift_));
    view.device = {DeviceType::kCuda, 0};
    return view;
  }
  RotateParams params(RotateParams params) const {
    if (params.source.table != nullptr) params.source.table = &table_;
    return {.source = params.source,
            .direction = params.direction,
            .read = params.read,
            .write = params.write,
            .pairs = params.pairs,
            .rotary_offset = params.rotary_offset,
            .operands = operands_,
            .positions = positions_};
  }

 private:
  Positions moved(const Positions& from) const {
    Positions made = from;
    const ConstTensorView first = moved(from.first());
    const bool steps = from.step() == 1;
    if (from.kind() == Positions::Kind::kIds) made = Positions::ids(moved(from.view()));
    if (from.kind() == Positions::Kind::kRange && first.data != nullptr) {
      made = steps ? Positions::range(first) : Positions::at(first);
    }
    if (from.kind() == Positions::Kind::kPacked) {
      const ConstTensorView boundaries = moved(from.boundaries());
      made = steps ? Positions::packed(boundaries, first) : Positions::packed_at(boundaries, first);
    }
    return from.same_on_all_axes() ? made.on_all_axes() : made;
  }

  std::ptrdiff_t shift_;
  Positions positions_;
  std::vector<Operand> operands_;
  CosSinTable table_{};
};

void upload(const Arena& arena) {
  check(cudaMemcpy(arena.device, arena.before.data(), arena.used, cudaMemcpyHostToDevice), "copy");
}
void download(Arena& arena) {
  check(cudaMemcpy(arena.got.data(), arena.device, arena.used, cudaMemcpyDeviceToHost), "back");
}

/// 16-bit words in which the engines' memory differs.
std::int64_t count_differing(const RandomRotation& random, Arena& arena, bool overlaps) {
  upload(arena);
  const OnDevice device(random, arena);
  check_on_cuda("check", device.params(random.params()));
  rotate_on_cuda("check", device.params(random.params()), {.overlap = overlaps});
  download(arena);
  rotate_on_cpu(random.params(), Threads{});
  std::int64_t differing = 0;
  for (std::size_t i = 0; i + 2 <= arena.used; i += 2) {
    differing += std::memcmp(&arena.before[i], &arena.got[i], 2) != 0;
  }
  return differing;
}

float element_at(DType type, const void* data, std::int64_t at) {
  const auto* half = static_cast<const std::uint16_t*>(data);
  if (type == DType::kFloat32) return static_cast<const float*>(data)[at];
  return type == DType::kBFloat16 ? from_bfloat16(half[at]) : from_float16(half[at]);
}

/// Calls `with(offset in a, offset in b)` for every element of two views of `shape`.
template <typename With>
void for_each_element(const Dims& shape, const Dims& a, const Dims& b, const With& with) {
  for (std::int64_t n = 0; n < shape[0] * shape[1] * shape[2] * shape[3]; ++n) {
    const std::int64_t i[4] = {n / shape[3] / shape[2] / shape[1],
                               n / shape[3] / shape[2] % shape[1], n / shape[3] % shape[2],
                               n % shape[3]};
    std::int64_t at[2] = {0, 0};
    for (std::size_t k = 0; k < 4; ++k) at[0] += i[k] * a[k];
    for (std::size_t k = 0; k < 4; ++k) at[1] += i[k] * b[k];
    with(at[0], at[1]);
  }
}

/// Bytes that differ from the CPU's float32 results, scaled and rounded to 8 bits.
std::int64_t count_differing_bytes(RandomRotation& random, Arena& arena, Draw& draw) {
  const DType type = draw.of({DType::kFloat8E4M3, DType::kFloat8E5M2});
  auto* scales = reinterpret_cast<float*>(arena.take(64));
  std::vector<Operand> wide;
  std::vector<Operand> float8;
  for (std::size_t k = 0; k < random.operands.size(); ++k) {
    const ConstTensorView in = random.operands[k].in;
    scales[k] = k == 0 ? 1.0f : static_cast<float>(40.0 * draw.real());
    const TensorView to = make_view(draw, arena, DType::kFloat16, in.shape, k % 2 == 0 ? 0 : 2);
    TensorView out = to;
    out.dtype = type;
    float8.emplace_back(in, out, k == 0 ? nullptr : scales + k);
    const TensorView floats = make_view(draw, arena, DType::kFloat32, in.shape, 0);
    for_each_element(in.shape, in.strides, floats.strides, [&](std::int64_t a, std::int64_t b) {
      static_cast<float*>(floats.data)[b] = element_at(in.dtype, in.data, a);
    });
    const TensorView rotated = make_view(draw, arena, DType::kFloat32, in.shape, 0);
    wide.emplace_back(ConstTensorView(floats), rotated);
  }
  upload(arena);
  random.operands = float8;
  const OnDevice device(random, arena);
  std::vector<Operand> moved;
  for (const Operand& x : float8) {
    const auto* scale = x.out_scale;
    if (scale != nullptr) {
      scale = reinterpret_cast<const float*>(
          arena.device + (reinterpret_cast<const char*>(scale) - arena.before.data()));
    }
    moved.emplace_back(device.moved(x.in), device.moved(x.out), scale);
  }
  const RotateParams base = device.params(random.params());
  rotate_on_cuda("check",
                 {.source = base.source,
                  .direction = base.direction,
                  .read = base.read,
                  .write = base.write,
                  .pairs = base.pairs,
                  .rotary_offset = base.rotary_offset,
                  .operands = moved,
                  .positions = base.positions},
                 {});
  download(arena);
  random.operands = wide;
  rotate_on_cpu(random.params(), Threads{});
  std::int64_t differing = 0;
  for (std::size_t k = 0; k < wide.size(); ++k) {
    const auto* got = reinterpret_cast<const std::uint8_t*>(
        arena.got.data() + (static_cast<char*>(float8[k].out.data) - arena.before.data()));
    const auto* floats = static_cast<const float*>(wide[k].out.data);
    for_each_element(wide[k].out.shape, wide[k].out.strides, float8[k].out.strides,
                     [&](std::int64_t a, std::int64_t b) {
                       const auto kind = type == DType::kFloat8E4M3 ? __NV_E4M3 : __NV_E5M2;
                       differing += got[b] != __nv_cvt_float_to_fp8(floats[a] * scales[k],
                                                                    __NV_SATFINITE, kind);
                     });
  }
  return differing;
}

/// Largest absolute difference, relative to the largest entry.
double difference(std::span<const double> a, const double* b) {
  double max_error = 0.0;
  double size = 1e-300;
  for (std::size_t i = 0; i < a.size(); ++i) {
    max_error = std::max(max_error, std::abs(a[i] - b[i]));
    size = std::max(size, std::abs(a[i]));
  }
  return max_error / size;
}

/// Largest relative difference of the gradients of one rotation.
double gradient_difference(RandomRotation& random, Arena& arena, Draw& draw) {
  std::vector<GradientOperand> tensors;
  std::vector<GradientOperand> moved;
  for (Operand& x : random.operands) {
    const TensorView grad =
        make_view(draw, arena, x.in.dtype, x.in.shape, static_cast<int>(draw.upto(4)));
    tensors.push_back({.in = x.in, .grad_out = grad, .grad_in = {}});
  }
  const bool shared = random.positions.batch() < 0;
  const std::int64_t rows = shared ? 1 : random.batch;
  const std::int64_t axes = random.positions.axes();
  const auto list = [&](std::int64_t count) {
    return reinterpret_cast<double*>(arena.take(count * 8));
  };
  const std::int64_t entries = random.pairs * random.axes;
  const std::int64_t num_positions = axes * rows * random.tokens;
  double* frequencies = list(entries);
  double* positions = list(num_positions);
  double* scale = list(1);
  const auto bytes =
      gradient_workspace_on_cuda(random.pairs, random.axes, random.batch, random.tokens);
  auto* workspace = reinterpret_cast<std::byte*>(arena.take(static_cast<std::int64_t>(bytes)));
  ParameterGradients wanted{
      .frequencies = {frequencies, static_cast<std::size_t>(entries)},
      .positions = TensorView::contiguous(positions, DType::kFloat64, {axes, rows, random.tokens}),
      .scale = scale,
      .workspace = {workspace, bytes}};
  upload(arena);
  const OnDevice device(random, arena);
  for (const GradientOperand& x : tensors) {
    moved.push_back(
        {.in = device.moved(x.in), .grad_out = device.moved(x.grad_out), .grad_in = {}});
  }
  const auto at = [&](auto* host) {
    return reinterpret_cast<decltype(host)>(arena.device +
                                            (reinterpret_cast<char*>(host) - arena.before.data()));
  };
  const ParameterGradients on_device{.frequencies = {at(frequencies), wanted.frequencies.size()},
                                     .positions = device.moved(wanted.positions),
                                     .scale = at(scale),
                                     .workspace = {at(workspace), bytes}};
  const RotateParams forward = device.params(random.params());
  gradient_on_cuda(
      "check",
      {.forward = forward, .tensors = moved, .frequencies = random.matrix, .parameters = on_device},
      {.overlap = draw.chance(50)});
  download(arena);
  gradient_on_cpu({.forward = random.params(),
                   .tensors = tensors,
                   .frequencies = random.matrix,
                   .parameters = wanted},
                  Threads{});
  const auto got = [&](double* host) {
    return reinterpret_cast<const double*>(arena.got.data() +
                                           (reinterpret_cast<char*>(host) - arena.before.data()));
  };
  return std::max({difference(wanted.frequencies, got(frequencies)),
                   difference({positions, static_cast<std::size_t>(num_positions)}, got(positions)),
                   difference({scale, 1}, got(scale))});
}

struct Total {
  int cases = 0;
  std::int64_t differing = 0;
  double max_error = 0.0;
};

/// Runs one random case and adds its differences to the totals of its kind.
void run_case(Draw& draw, Arena& arena, std::map<std::string, Total>& totals, int& failed) {
  RandomRotation random(draw, arena);
  // With growth the last ulp of exp differs: tests/cuda has the tolerance for it.
  const bool strict = random.kind != "grows";
  const bool has_double =
      std::any_of(random.operands.begin(), random.operands.end(),
                  [](const Operand& x) { return x.in.dtype == DType::kFloat64; });
  const bool plain = random.source.table == nullptr && random.source.divisor == nullptr &&
                     random.source.is_position;
  bool good = true;
  if (draw.chance(20) && plain && !random.large) {
    random.direction = Direction::kForward;
    Total& total = totals["gradient, " + random.kind];
    const double found = gradient_difference(random, arena, draw);
    ++total.cases;
    total.max_error = std::max(total.max_error, found);
    good = found <= (strict ? 1e-11 : 1e-5);
    if (!good) std::printf("case %d: gradients differ by %.3g\n", current_case, found);
  } else {
    const bool float8 = !has_double && !random.large && draw.chance(15);
    Total& total = totals[(float8 ? "8 bits, " : random.large ? "large, " : "") + random.kind];
    const std::int64_t found = float8 ? count_differing_bytes(random, arena, draw)
                                      : count_differing(random, arena, draw.chance(30));
    ++total.cases;
    total.differing += found;
    good = found == 0 || !strict;
    if (!good) {
      std::printf("case %d (%s): %lld differ\n", current_case, random.kind.c_str(),
                  static_cast<long long>(found));
    }
  }
  failed += good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const int cases = argc > 1 ? std::atoi(argv[1]) : 500;
  const int seed = argc > 2 ? std::atoi(argv[2]) : 1;
  Arena arena;
  std::map<std::string, Total> totals;
  int failed = 0;
  for (int i = 0; i < cases && failed < 20; ++i) {
    Draw draw(static_cast<std::uint64_t>(seed) * 1'000'003 + static_cast<std::uint64_t>(i));
    current_case = i;
    arena.used = 0;
    run_case(draw, arena, totals, failed);
  }
  for (const auto& [kind, total] : totals) {
    std::printf("%-22s %5d cases, ", kind.c_str(), total.cases);
    if (kind.starts_with("gradient")) {
      std::printf("differ by at most %.3g\n", total.max_error);
    } else {
      std::printf("%lld elements differ\n", static_cast<long long>(total.differing));
    }
  }
  return failed == 0 ? 0 : 1;
}
