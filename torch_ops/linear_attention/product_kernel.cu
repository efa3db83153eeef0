// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// linear_product on tensor cores, for 16-bit tensors. A block of D / 16 warps goes through one
// segment in tiles of D tokens and holds the state sum y_j w_j^T, D x D, in registers, in float.
// For every tile:
//
//   scores = X Y^T, where j comes after i: 0     out = scores W + X state     state += Y^T W
//
// Each warp has 16 rows of scores and out, and 16 rows (features) of the state. Values beyond D are
// the work of other blocks; product_of_wide_kernel.cu has more features.

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "linear_attention/states.cuh"
#include "linear_attention/sums_cuda.h"
#include "linear_attention/tiles.cuh"

namespace rotary::torch::cuda {
namespace {

constexpr int D = 64;

/// D features and D values of all, or those that are left of them.
struct Slice {
  int feature;  // the first
  int value;
  int rows;  // features of it
  int columns;
  int values;  // of all

  __device__ Slice(const Widths& widths, int slice, int width) {
    const int across = (widths.values + width - 1) / width;
    feature = slice / across * width;
    value = slice % across * width;
    rows = widths.features - feature;
    columns = widths.values - value;
    values = widths.values;
  }
  /// Where an element of its part lies in a state [features, values].
  __device__ int at(int row, int column) const { return (feature + row) * values + value + column; }
};

template <typename T>
struct Work {
  static constexpr int kSteps = D / 16;
  int warp = static_cast<int>(threadIdx.x) / 32;
  int lane = static_cast<int>(threadIdx.x) % 32;
  int row = 16 * warp + lane / 4;  // and row + 8
  int column = 2 * (lane % 4);     // of every eight: and column + 1

  /// Of `columns` values; kWhole: of D, known when this is compiled.
  template <bool kWhole>
  __device__ void add_state(Rows<D>& state, Tile<T, D, D>& y, Tile<T, D, D>& w, int columns) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      std::uint32_t a[4];
      y.left_transposed(a, 16 * warp, 16 * k);
#pragma unroll
      for (int j = 0; j < kSteps; ++j) {
        if (!kWhole && 16 * j >= columns) break;
        std::uint32_t b[4];
        w.right(b, 16 * k, 16 * j);
        state.template add<T>(j, a, b);
      }
    }
  }

  __device__ void scores(Rows<D>& s, Tile<T, D, D>& x, Tile<T, D, D>& y, bool reverse) {
    s.clear();
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      std::uint32_t a[4];
      x.left(a, 16 * warp, 16 * k);
#pragma unroll
      for (int j = 0; j < kSteps; ++j) {
        std::uint32_t b[4];
        y.right_transposed(b, 16 * k, 16 * j);
        s.template add<T>(j, a, b);
      }
    }
#pragma unroll
    for (int j = 0; j < D / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int i = row + 8 * (e / 2);
        const int other = 8 * j + column + e % 2;
        if (reverse ? other < i : other > i) s.c[j][e] = 0.0F;
      }
    }
  }

  template <bool kWhole>
  __device__ void outputs(Rows<D>& out, const Rows<D>& s, Tile<T, D, D>& x, Tile<T, D, D>& w,
                          Tile<T, D, D>& state, int columns) {
    out.clear();
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      // Two neighbours in the layout of c are one operand a.
      const float(&c)[4] = s.c[2 * k];
      const float(&d)[4] = s.c[2 * k + 1];
      const std::uint32_t from_scores[4] = {pack<T>(c[0], c[1]), pack<T>(c[2], c[3]),
                                            pack<T>(d[0], d[1]), pack<T>(d[2], d[3])};
      std::uint32_t from_x[4];
      x.left(from_x, 16 * warp, 16 * k);
#pragma unroll
      for (int j = 0; j < kSteps; ++j) {
        if (!kWhole && 16 * j >= columns) break;
        std::uint32_t b[4];
        w.right(b, 16 * k, 16 * j);
        out.template add<T>(j, from_scores, b);
        state.right(b, 16 * k, 16 * j);
        out.template add<T>(j, from_x, b);
      }
    }
  }

  __device__ void put(Tile<T, D, D>& tile, const Rows<D>& rows, float upper, float lower) {
#pragma unroll
    for (int j = 0; j < D / 8; ++j) {
      const int at = 8 * j + column;
      const float(&c)[4] = rows.c[j];
      *reinterpret_cast<std::uint32_t*>(tile.at(row, at)) = pack<T>(upper * c[0], upper * c[1]);
      *reinterpret_cast<std::uint32_t*>(tile.at(row + 8, at)) = pack<T>(lower * c[2], lower * c[3]);
    }
  }

  /// The part of the states before that `slice` has.
  __device__ void load(Rows<D>& rows, const StatesBefore& before, const Slice& slice) {
    rows.clear();
    for (std::int64_t i = before.begin; i < before.end; ++i) {
      const float* from = before.states + i * before.size;
#pragma unroll
      for (int j = 0; j < D / 8; ++j) {
        const int at = 8 * j + column;
        if (at >= slice.columns || row >= slice.rows) continue;
        const float2 upper = *reinterpret_cast<const float2*>(from + slice.at(row, at));
        const float2 lower = *reinterpret_cast<const float2*>(from + slice.at(row + 8, at));
        rows.c[j][0] += upper.x;
        rows.c[j][1] += upper.y;
        rows.c[j][2] += lower.x;
        rows.c[j][3] += lower.y;
      }
    }
  }

  __device__ void save(const Rows<D>& rows, float* to, const Slice& slice) {
#pragma unroll
    for (int j = 0; j < D / 8; ++j) {
      const int at = 8 * j + column;
      const float(&c)[4] = rows.c[j];
      if (at < slice.columns && row < slice.rows) {
        *reinterpret_cast<float2*>(to + slice.at(row, at)) = make_float2(c[0], c[1]);
        *reinterpret_cast<float2*>(to + slice.at(row + 8, at)) = make_float2(c[2], c[3]);
      }
    }
  }

  /// The warp's 16 rows of a tile, to `to` [tokens, stride] from row `begin`.
  __device__ void write(Tile<T, D, D>& tile, T* to, std::int64_t begin, std::int64_t tokens,
                        std::int64_t stride, int columns) {
    constexpr int kVectors = D / kVector;
    for (int i = lane; i < 16 * kVectors; i += 32) {
      const int r = 16 * warp + i / kVectors;
      const int at = (i % kVectors) * kVector;
      if (begin + r < tokens && at < columns) {
        *reinterpret_cast<uint4*>(to + (begin + r) * stride + at) =
            *reinterpret_cast<const uint4*>(tile.at(r, at));
      }
    }
  }
};

/// Tiles of a block's segment, in the order that they are gone through.
struct Course {
  std::int64_t row;      // of the tensors
  std::int64_t segment;  // of all
  std::int64_t begin;    // first token
  int tiles;
  bool reverse;

  __device__ Course(const Segments& s, std::int64_t count, int slices, int tile) {
    segment = blockIdx.x / slices;
    row = segment / count;
    begin = (segment % count) * s.length;
    const std::int64_t end = begin + s.length < s.tokens ? begin + s.length : s.tokens;
    tiles = static_cast<int>((end - begin + tile - 1) / tile);
    reverse = s.reverse;
  }
  __device__ std::int64_t token(int i, int tile) const {
    return begin + std::int64_t{reverse ? tiles - 1 - i : i} * tile;
  }
};

template <typename T>
struct StatesMemory {
  Tile<T, D, D> y[2];
  Tile<T, D, D> w[2];
};

template <typename T>
__global__ void __launch_bounds__(2 * D)
    product_states(const T* y, const T* w, float* states, Segments segments, Widths widths,
                   std::int64_t count, int slices) {
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<StatesMemory<T>*>(memory);
  const Course course(segments, count, slices, D);
  const Slice slice(widths, static_cast<int>(blockIdx.x) % slices, D);
  const std::int64_t tokens = segments.tokens;
  const std::int64_t first = course.row * tokens;
  const Source<T> ys{y + first * widths.features + slice.feature, tokens, widths.features,
                     slice.rows};
  const Source<T> ws{w + first * widths.values + slice.value, tokens, widths.values, slice.columns};
  const auto fetch = [&](int i) {
    shared.y[i % 2].template fetch<2 * D>(ys, course.token(i, D));
    shared.w[i % 2].template fetch<2 * D>(ws, course.token(i, D));
    end_of_group();
  };
  Work<T> work;
  Rows<D> state;
  state.clear();
  fetch(0);
  for (int i = 0; i < course.tiles; ++i) {
    __syncthreads();
    if (i + 1 < course.tiles) {
      fetch(i + 1);
      wait_for_groups<1>();
    } else {
      wait_for_groups<0>();
    }
    __syncthreads();
    if (16 * work.warp >= slice.rows) continue;
    if (slice.columns >= D) {
      work.template add_state<true>(state, shared.y[i % 2], shared.w[i % 2], D);
    } else {
      work.template add_state<false>(state, shared.y[i % 2], shared.w[i % 2], slice.columns);
    }
  }
  work.save(state, states + course.segment * widths.features * widths.values, slice);
}

/// Two sets of tiles, so that the next are on their way while one is worked on.
template <typename T>
struct ProductMemory {
  Tile<T, D, D> x[2];
  Tile<T, D, D> y[2];
  Tile<T, D, D> w[2];
  Tile<T, D, D> state;
};

constexpr int kBlocks = 3;  // of a multiprocessor

template <typename T>
__global__ void __launch_bounds__(2 * D, kBlocks)
    product(const T* x, const T* y, const T* w, const float* scale, const float* states, T* out,
            Segments segments, Widths widths, std::int64_t count, int slices) {
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<ProductMemory<T>*>(memory);
  const Course course(segments, count, slices, D);
  const Slice slice(widths, static_cast<int>(blockIdx.x) % slices, D);
  const std::int64_t tokens = segments.tokens;
  const std::int64_t first = course.row * tokens;
  const std::int64_t values = first * widths.values + slice.value;
  const Source<T> xs{x + first * D, tokens, D, D};
  const Source<T> ys{y + first * D, tokens, D, D};
  const Source<T> ws{w + values, tokens, widths.values, slice.columns};
  const auto fetch = [&](int i) {
    const std::int64_t token = course.token(i, D);
    shared.x[i % 2].template fetch<2 * D>(xs, token);
    shared.y[i % 2].template fetch<2 * D>(ys, token);
    shared.w[i % 2].template fetch<2 * D>(ws, token);
    end_of_group();
  };
  Work<T> work;
  Rows<D> state;
  work.load(state, StatesBefore(states, segments, count, course.segment, widths), slice);
  fetch(0);
  for (int i = 0; i < course.tiles; ++i) {
    __syncthreads();  // everybody has done with the tiles before
    work.put(shared.state, state, 1.0F, 1.0F);
    if (i + 1 < course.tiles) {
      fetch(i + 1);
      wait_for_groups<1>();
    } else {
      wait_for_groups<0>();
    }
    __syncthreads();
    Tile<T, D, D>& tile = shared.x[i % 2];
    Rows<D> s;
    work.scores(s, tile, shared.y[i % 2], segments.reverse);
    Rows<D> result;
    const auto multiply_values = [&](auto whole) {
      constexpr bool kWhole = decltype(whole)::value;
      work.template outputs<kWhole>(result, s, tile, shared.w[i % 2], shared.state, slice.columns);
      work.template add_state<kWhole>(state, shared.y[i % 2], shared.w[i % 2], slice.columns);
    };
    if (slice.columns >= D) {
      multiply_values(std::true_type{});
    } else {
      multiply_values(std::false_type{});
    }
    const std::int64_t token = course.token(i, D);
    const auto factor = [&](int r) {
      return scale == nullptr || token + r >= tokens ? 1.0F : scale[first + token + r];
    };
    __syncwarp();  // rows of x that only this warp reads become its results
    work.put(tile, result, factor(work.row), factor(work.row + 8));
    __syncwarp();
    work.write(tile, out + values, token, tokens, widths.values, slice.columns);
  }
}

int attribute_of_gpu(cudaDeviceAttr which) {
  int device = 0;
  int value = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&value, which, device);
  return value;
}

/// How many blocks share a segment.
int slices_of(const Widths& widths, int width) {
  return ((widths.features + width - 1) / width) * ((widths.values + width - 1) / width);
}

template <typename T>
int launch_states(const void* y, const void* w, float* states, const Segments& s,
                  const Widths& widths, void* stream) {
  constexpr int kBytes = sizeof(StatesMemory<T>);
  const cudaError_t error =
      cudaFuncSetAttribute(product_states<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (error != cudaSuccess) return error;
  const int slices = slices_of(widths, D);
  product_states<T><<<static_cast<unsigned>(s.rows * s.count() * slices), 2 * D, kBytes,
                      static_cast<cudaStream_t>(stream)>>>(
      static_cast<const T*>(y), static_cast<const T*>(w), states, s, widths, s.count(), slices);
  return cudaGetLastError();
}

template <typename T>
int launch_products(const void* x, const void* y, const void* w, const float* scale,
                    const float* states, void* out, const Segments& s, const Widths& widths,
                    void* stream) {
  constexpr int kBytes = sizeof(ProductMemory<T>);
  const cudaError_t error =
      cudaFuncSetAttribute(product<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (error != cudaSuccess) return error;
  const int slices = slices_of(widths, D);
  product<T><<<static_cast<unsigned>(s.rows * s.count() * slices), 2 * D, kBytes,
               static_cast<cudaStream_t>(stream)>>>(
      static_cast<const T*>(x), static_cast<const T*>(y), static_cast<const T*>(w), scale, states,
      static_cast<T*>(out), s, widths, s.count(), slices);
  return cudaGetLastError();
}

}  // namespace

int launch_product_states(const void* y, const void* w, float* states, Type type, const Segments& s,
                          const Widths& widths, void* stream) {
  return type == Type::kBFloat16 ? launch_states<__nv_bfloat16>(y, w, states, s, widths, stream)
                                 : launch_states<__half>(y, w, states, s, widths, stream);
}

Product product_of(const Widths& widths) {
  constexpr int kMost = 256;
  if (widths.features == D && widths.values == D) return Product::kSmall;
  const int room = attribute_of_gpu(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  if (widths.features <= kMost && widths.values <= kMost && bytes_of_large(widths) <= room) {
    return Product::kLarge;
  }
  if (widths.features == D) return Product::kSmall;
  return widths.values == D && bytes_of_wide() <= room ? Product::kWide : Product::kNone;
}

double segments_at_once(Product product, const Widths& widths) {
  const int multiprocessors = attribute_of_gpu(cudaDevAttrMultiProcessorCount);
  if (product == Product::kLarge) return multiprocessors;
  return static_cast<double>(multiprocessors * kBlocks) / slices_of(widths, D);
}

int launch_product(const void* x, const void* y, const void* w, const float* scale,
                   const float* states, void* out, Type type, const Segments& s,
                   const Widths& widths, void* stream) {
  return type == Type::kBFloat16
             ? launch_products<__nv_bfloat16>(x, y, w, scale, states, out, s, widths, stream)
             : launch_products<__half>(x, y, w, scale, states, out, s, widths, stream);
}

}  // namespace rotary::torch::cuda
