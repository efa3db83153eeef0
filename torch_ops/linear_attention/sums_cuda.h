// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The sums on CUDA: pointers and sizes. Launchers neither allocate nor wait; they return what
// cudaGetLastError() says, as a number, so that callers need no CUDA header.
#pragma once

#include <cstdint>

namespace rotary::torch::cuda {

enum class Type { kFloat, kDouble, kBFloat16, kFloat16 };

/// Tokens that one block, or one warp, goes through in order. What came before is a state.
struct Segments {
  std::int64_t rows = 0;    // batch times heads
  std::int64_t tokens = 0;  // of each row
  std::int64_t length = 0;  // of a segment
  bool reverse = false;
  bool alone = false;  // a state is of its segment alone, not the sum of those before it

  std::int64_t count() const { return (tokens + length - 1) / length; }
};

/// states [rows, count, size], float or double: each becomes the sum of those before it (behind it
/// in reverse).
int launch_exclusive_scan(void* states, Type type, std::int64_t rows, std::int64_t count,
                          std::int64_t size, bool reverse, void* stream);
/// The same of float, with results in 16 bits.
int launch_narrowing_scan(const float* states, void* sums, Type type, std::int64_t rows,
                          std::int64_t count, std::int64_t size, bool reverse, void* stream);

/// Most features of dot and sum.
constexpr std::int64_t kMostFeatures = 1024;

/// sums [rows, count, features], wide: those of weight_j x_j over each segment. `weight` may be
/// null. Tensors are [rows, tokens, features] and [rows, tokens] without gaps.
int launch_segment_sums(const void* x, const void* weight, void* sums, Type type,
                        const Segments& segments, std::int64_t features, void* stream);

/// out [rows, tokens], wide: x_i . (prefix of its segment + sum of y_j in it).
int launch_dot(const void* x, const void* y, const void* prefixes, void* out, Type type,
               const Segments& segments, std::int64_t features, void* stream);

/// out [rows, tokens, features]: scale_i (prefix + sum of weight_j x_j).
int launch_sum(const void* x, const void* weight, const void* scale, const void* prefixes,
               void* out, Type type, const Segments& segments, std::int64_t features, void* stream);

/// out = x + 1 above 0, else exp(x); `count` elements.
int launch_elu_plus_one(const void* x, void* out, Type type, std::int64_t count, void* stream);

/// Rows of x [rows, width] at length 1, or with g the gradient of x where that of the result is g.
int launch_unit_vectors(const void* x, const void* g, void* out, Type type, std::int64_t rows,
                        std::int64_t width, void* stream);

/// Denominators, float or double: see rows.h. `bounds` may be null.
int launch_linear_reciprocals(const void* sums, const void* bounds, double guard, void* out,
                              Type type, std::int64_t count, void* stream);
struct ReciprocalGradients {
  const void* g = nullptr;
  const void* y = nullptr;
  const void* sums = nullptr;
  const void* bounds = nullptr;
  double guard = 0.0;
  void* of_sums = nullptr;
  void* of_bounds = nullptr;
};
int launch_reciprocal_gradients(const ReciprocalGradients& p, Type type, std::int64_t count,
                                void* stream);

/// scaled_i = scale_i a_i and dots_i = a_i . b_i / scale_i (wide) of [rows, width].
int launch_scaled_rows_and_dots(const void* a, const void* b, const void* scale, void* scaled,
                                void* dots, Type type, std::int64_t rows, std::int64_t width,
                                void* stream);

/// Of x and y, and of w and out.
struct Widths {
  int features = 0;
  int values = 0;
};

/// Whether linear_product may have kernels on tensor cores: 16-bit, 128 features and values, or 64
/// of one of them and a multiple of 16 from 64 on of the other.
constexpr bool has_product(Type type, std::int64_t features, std::int64_t values) {
  const auto fits = [](std::int64_t width, std::int64_t other) {
    return width == 64 && other >= 64 && other % 16 == 0 && other <= kMostFeatures;
  };
  return (type == Type::kBFloat16 || type == Type::kFloat16) &&
         ((features == 128 && values == 128) || fits(features, values) || fits(values, features));
}

/// states [rows, count, features, values], float: sum of y_j w_j^T over each segment, whose length
/// is a multiple of 128.
int launch_product_states(const void* y, const void* w, float* states, Type type,
                          const Segments& segments, const Widths& widths, void* stream);

/// Which kernel has a product on the current GPU: one whose tiles its shared memory has room for.
enum class Product { kNone, kSmall, kLarge, kWide };
Product product_of(const Widths& widths);
int bytes_of_large(const Widths& widths);
int bytes_of_wide();

/// Segments that the current GPU works on at a time, of kSmall or kLarge.
double segments_at_once(Product product, const Widths& widths);

/// out [rows, tokens, values]: scale_i (x_i . (state of its segment + sum of y_j w_j^T in it)), of
/// 64 features.
int launch_product(const void* x, const void* y, const void* w, const float* scale,
                   const float* states, void* out, Type type, const Segments& segments,
                   const Widths& widths, void* stream);

/// The same of kLarge: up to 64 x 256, 256 x 64 or 128 x 128 features and values.
int launch_product_of_large(const void* x, const void* y, const void* w, const float* scale,
                            const float* states, void* out, Type type, const Segments& segments,
                            const Widths& widths, void* stream);

/// The same of kWide: more features and 64 values; states are of the type of x.
int launch_product_of_wide(const void* x, const void* y, const void* w, const float* scale,
                           const void* states, void* out, Type type, const Segments& segments,
                           const Widths& widths, void* stream);

const char* error_text(int error);

}  // namespace rotary::torch::cuda
