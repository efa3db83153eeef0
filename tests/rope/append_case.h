// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What varies in the tests of Rope::append.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "rotary/kv_cache.h"
#include "rotary/norm.h"
#include "rotary/rope.h"

namespace rotary {

enum class CacheLayout { kTokenMajor, kHeadMajor, kInterleaved };  // NHD, HND, k beside v
enum class ScaleKind { kNone, kTensor, kHead, kComputed, kGroups };
enum class QueryKind { kNone, kInPlace, kApart };
/// kPaged: a row of the block table for each batch row; kSequences: for the sequence of each token.
enum class SlotKind { kInt32, kInt64, kPaged, kSequences, kShort };
enum class InputLayout { kContiguous, kGaps, kHeadsFirst };  // of q, k and v

struct HeadShape {
  std::int64_t head_dim = 24, value_dim = 20, rotary_dim = 16, rotary_offset = 4;
};
/// Whole 16-byte packs, for CUDA's tuned kernel; the other two for its fastest ones.
inline constexpr HeadShape kAlignedHead{64, 48, 32, 16};
inline constexpr HeadShape kWholeHead64{64, 64, 64, 0};
inline constexpr HeadShape kWholeHead128{128, 128, 128, 0};

struct AppendCase {
  DType type = DType::kFloat32;
  std::optional<DType> quantized{};         // of the caches
  std::optional<DType> quantized_values{};  // of that of values alone, where it has another type
  ScaleKind scale = ScaleKind::kNone;
  ScaleUse use = ScaleUse::kDivide;
  CacheLayout layout = CacheLayout::kTokenMajor;
  QueryKind query = QueryKind::kInPlace;
  SlotKind slots = SlotKind::kInt64;
  HeadNorm norm{.kind = NormKind::kNone};
  DType weight_type = DType::kFloat32;
  InputLayout inputs = InputLayout::kContiguous;
  HeadShape shape{};
  std::int64_t query_heads = 3;
  std::int64_t heads = 2;
  std::int64_t batch = 1;
  std::int64_t tokens = 7;
  std::int64_t blocks = 6;
  std::int64_t block_size = 4;
  DType table_type = DType::kInt32;  // of the block table
  Pairing pairing = Pairing::kHalf;
  std::int64_t axes = 0;  // positions are ids up to 1e9 on so many axes; 0: a range
  unsigned seed = 1;
  bool distinct_slots = false;  // otherwise some are repeated

  /// The type of keys (0) or values (1).
  DType stored(int which) const {
    if (which == 1 && quantized_values) return *quantized_values;
    return quantized.value_or(type);
  }
};

inline std::string to_string(const AppendCase& c) {
  std::string text(name_of(c.type));
  text += " to ";
  text += name_of(c.stored(0));
  text += " and ";
  text += name_of(c.stored(1));
  for (const int choice :
       {static_cast<int>(c.scale), static_cast<int>(c.use), static_cast<int>(c.layout),
        static_cast<int>(c.query), static_cast<int>(c.slots), static_cast<int>(c.inputs)}) {
    text += " " + std::to_string(choice);
  }
  text += " norm";
  for (const int choice : {static_cast<int>(c.norm.kind), static_cast<int>(c.norm.rounding),
                           c.norm.sum_lanes, static_cast<int>(c.norm.scope),
                           static_cast<int>(c.norm.order), static_cast<int>(c.norm.rotation)}) {
    text += " " + std::to_string(choice);
  }
  return text + " batch " + std::to_string(c.batch) + " tokens " + std::to_string(c.tokens) +
         " blocks of " + std::to_string(c.block_size) + " axes " + std::to_string(c.axes) +
         " head_dim " + std::to_string(c.shape.head_dim) + " seed " + std::to_string(c.seed);
}

}  // namespace rotary
