// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The rotation as a custom call of XLA, for rotary.jax: one handler for CPUs, on XLA's threads, and
// one for CUDA, on XLA's stream. Buffers are dense and row-major:
//
//   x, y       [..., tokens, heads, head_dim]      y may be x
//   positions  [..., tokens], or [..., axes, tokens] for a rope of several axes
//
// Leading dims of x and positions are the same: those that vmap adds stand before the others.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "rotary/cuda.h"
#include "rotary/rope.h"
#include "xla/ffi/api/ffi.h"

struct CUstream_st;  // a cudaStream_t points to it

namespace {

namespace ffi = xla::ffi;
using rotary::ConstTensorView;
using rotary::Device;
using rotary::DType;
using rotary::Positions;
using rotary::Rope;
using rotary::TensorView;

/// A rope as attributes of a call.
struct RopeAttributes {
  ffi::Span<const double> frequencies;  // [pairs, axes]
  std::int64_t axes;
  std::int64_t head_dim;
  std::int64_t rotary_offset;
  std::int64_t pairing;         // 1: half
  std::int64_t output_pairing;  // 1: half
  std::int64_t precision;       // 1: reference
  double scale;
};

rotary::Pairing pairing_of(std::int64_t value) {
  return value == 1 ? rotary::Pairing::kHalf : rotary::Pairing::kInterleaved;
}

/// Built at the first call with these attributes. Programs have few ropes; a cache of very many
/// is emptied.
Rope find_rope(const RopeAttributes& a) {
  using Key = std::tuple<std::vector<double>, std::int64_t, std::int64_t, std::int64_t,
                         std::int64_t, std::int64_t, std::int64_t, double>;
  constexpr std::size_t kMaxRopes = 1024;
  static std::mutex mutex;
  static std::map<Key, Rope> ropes;
  Key key{{a.frequencies.begin(), a.frequencies.end()},
          a.axes,
          a.head_dim,
          a.rotary_offset,
          a.pairing,
          a.output_pairing,
          a.precision,
          a.scale};
  const std::lock_guard lock(mutex);
  if (const auto found = ropes.find(key); found != ropes.end()) return found->second;
  rotary::Frequencies frequencies;
  frequencies.values = std::get<0>(key);
  frequencies.axes = a.axes;
  frequencies.pairs =
      static_cast<std::int64_t>(a.frequencies.size()) / std::max<std::int64_t>(a.axes, 1);
  frequencies.scale = a.scale;
  const Rope rope(
      std::move(frequencies),
      {.head_dim = a.head_dim,
       .rotary_offset = a.rotary_offset,
       .pairing = pairing_of(a.pairing),
       .output_pairing = pairing_of(a.output_pairing)},
      {.precision = a.precision == 1 ? rotary::Precision::kReference : rotary::Precision::kExact});
  if (ropes.size() >= kMaxRopes) ropes.clear();
  return ropes.emplace(std::move(key), rope).first->second;
}

DType dtype_of(ffi::DataType type) {
  switch (type) {
    case ffi::DataType::F32:
      return DType::kFloat32;
    case ffi::DataType::F64:
      return DType::kFloat64;
    case ffi::DataType::F16:
      return DType::kFloat16;
    case ffi::DataType::BF16:
      return DType::kBFloat16;
    case ffi::DataType::S32:
      return DType::kInt32;
    case ffi::DataType::S64:
      return DType::kInt64;
    default:
      throw std::invalid_argument("[rotary.jax] the type of an array is not supported");
  }
}

/// The views of a call, as Rope takes them.
struct Views {
  ConstTensorView x{};
  TensorView y{};
  ConstTensorView positions{};  // [axes, batch, tokens]
};

Views views_of(const ffi::AnyBuffer& x, const ffi::AnyBuffer& positions, ffi::AnyBuffer& y,
               std::int64_t axes, Device device) {
  const auto shape = x.dimensions();
  const auto ids = positions.dimensions();
  const std::size_t rank = shape.size();
  const std::size_t position_dims = axes == 1 ? 1 : 2;
  if (rank < 3 || ids.size() + 2 != rank + position_dims - 1 || ids.back() != shape[rank - 3] ||
      (axes != 1 && ids[ids.size() - 2] != axes)) {
    throw std::invalid_argument("[rotary.jax] positions do not fit the tokens");
  }
  std::int64_t batch = 1;
  for (std::size_t i = 0; i + 3 < rank; ++i) {
    if (ids[i] != shape[i]) throw std::invalid_argument("[rotary.jax] leading dims must be equal");
    batch *= shape[i];
  }
  const std::int64_t tokens = shape[rank - 3];
  const DType dtype = dtype_of(x.element_type());
  Views views;
  views.x = ConstTensorView::contiguous(x.untyped_data(), dtype,
                                        {batch, tokens, shape[rank - 2], shape[rank - 1]}, device);
  views.y = TensorView::contiguous(y.untyped_data(), dtype,
                                   {batch, tokens, shape[rank - 2], shape[rank - 1]}, device);
  views.positions = ConstTensorView::contiguous(
      positions.untyped_data(), dtype_of(positions.element_type()), {axes, batch, tokens}, device);
  views.positions.strides = {tokens, axes * tokens, 1, 0};
  return views;
}

/// parallel_for on a pool, in which the calling thread takes part: it never waits for a task that
/// nobody has begun, so that it may be a thread of the pool itself.
void run_on_pool(ffi::ThreadPool& pool, int tasks, const std::function<void(int)>& task) {
  struct Progress {
    std::atomic<int> next{0};
    std::atomic<int> done{0};
  };
  const auto progress = std::make_shared<Progress>();
  // Who comes late finds no task left, and does not touch `task`.
  const auto work = [progress, tasks, &task] {
    for (int i = progress->next++; i < tasks; i = progress->next++) {
      task(i);
      if (++progress->done == tasks) progress->done.notify_all();
    }
  };
  for (int i = 1; i < tasks; ++i) pool.Schedule(std::function<void()>(work));
  work();
  for (int done = progress->done; done < tasks; done = progress->done) progress->done.wait(done);
}

enum class Op : std::int64_t { kRotate = 0, kAdjoint = 1 };

ffi::Error apply(const Rope& rope, const Views& views, std::int64_t op, rotary::Stream stream) {
  const Positions positions = Positions::ids(views.positions);
  if (static_cast<Op>(op) == Op::kAdjoint) {
    rope.adjoint(views.x, views.y, positions, stream);
  } else {
    rope.rotate(views.x, views.y, positions, stream);
  }
  return ffi::Error::Success();
}

ffi::Error rotate_on_cpu(ffi::ThreadPool pool, ffi::AnyBuffer x, ffi::AnyBuffer positions,
                         ffi::Result<ffi::AnyBuffer> y, std::int64_t op,
                         ffi::Span<const double> frequencies, std::int64_t axes,
                         std::int64_t head_dim, std::int64_t rotary_offset, std::int64_t pairing,
                         std::int64_t output_pairing, std::int64_t precision, double scale) {
  try {
    const Rope rope = find_rope({frequencies, axes, head_dim, rotary_offset, pairing,
                                 output_pairing, precision, scale})
                          .with_threads({.count = static_cast<int>(pool.num_threads()),
                                         .run = [&pool](int tasks, const auto& task) {
                                           run_on_pool(pool, tasks, task);
                                         }});
    return apply(rope, views_of(x, positions, *y, axes, Device{}), op, {});
  } catch (const std::exception& error) {
    return ffi::Error::InvalidArgument(error.what());
  }
}

ffi::Error rotate_on_cuda(CUstream_st* stream, ffi::AnyBuffer x, ffi::AnyBuffer positions,
                          ffi::Result<ffi::AnyBuffer> y, std::int64_t op,
                          ffi::Span<const double> frequencies, std::int64_t axes,
                          std::int64_t head_dim, std::int64_t rotary_offset, std::int64_t pairing,
                          std::int64_t output_pairing, std::int64_t precision, double scale) {
  try {
    const Rope rope = find_rope(
        {frequencies, axes, head_dim, rotary_offset, pairing, output_pairing, precision, scale});
    const Device device{rotary::DeviceType::kCuda};
    return apply(rope, views_of(x, positions, *y, axes, device), op, {.handle = stream});
  } catch (const std::exception& error) {
    return ffi::Error::InvalidArgument(error.what());
  }
}

/// The arguments and attributes that both handlers share.
template <typename Binding>
auto with_arguments(Binding&& binding) {
  return std::forward<Binding>(binding)
      .template Arg<ffi::AnyBuffer>()
      .template Arg<ffi::AnyBuffer>()
      .template Ret<ffi::AnyBuffer>()
      .template Attr<std::int64_t>("op")
      .template Attr<ffi::Span<const double>>("frequencies")
      .template Attr<std::int64_t>("axes")
      .template Attr<std::int64_t>("head_dim")
      .template Attr<std::int64_t>("rotary_offset")
      .template Attr<std::int64_t>("pairing")
      .template Attr<std::int64_t>("output_pairing")
      .template Attr<std::int64_t>("precision")
      .template Attr<double>("scale");
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(rotary_jax_cpu, rotate_on_cpu,
                              with_arguments(ffi::Ffi::Bind().Ctx<ffi::ThreadPool>()));

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    rotary_jax_cuda, rotate_on_cuda,
    with_arguments(ffi::Ffi::Bind().Ctx<ffi::PlatformStream<CUstream_st*>>()),
    {ffi::Traits::kCmdBufferCompatible});

/// Whether this library has the CUDA engine.
extern "C" __attribute__((visibility("default"))) int rotary_jax_has_cuda() {
  return rotary::has_cuda() ? 1 : 0;
}
