// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// The structs of the C API and their initialisers. Include rotary_c.h, which has the functions.
///
///   const int64_t shape[] = {tokens, heads, 128};
///   rotary_tensor q = rotary_tensor_contiguous(data, ROTARY_DTYPE_FLOAT32, 3, shape);
///   rotary_positions positions = rotary_positions_range(4096);
///   rotary_head_layout layout = rotary_head_layout_init(128, ROTARY_PAIRING_HALF);
///   rotary_rope_options options = rotary_rope_options_init();
///   options.precision = ROTARY_PRECISION_REFERENCE;
///
/// Each begins with its size; zero means "not given". The structs of programs built against an
/// older rotary are shorter: missing members count as zero. In longer ones, members that the
/// library does not know must be zero.
#pragma once

// NOLINTBEGIN: C, also where a C++ tool reads it.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- Tensors and positions ----------------------------------------------------------------------

typedef int32_t rotary_dtype;  // required: 0 is rejected
enum {
  ROTARY_DTYPE_FLOAT16 = 1,
  ROTARY_DTYPE_BFLOAT16 = 2,
  ROTARY_DTYPE_FLOAT32 = 3,
  ROTARY_DTYPE_FLOAT64 = 4,
  ROTARY_DTYPE_INT32 = 5,
  ROTARY_DTYPE_INT64 = 6,
  ROTARY_DTYPE_FLOAT8_E4M3 = 7,  // this and the next: outputs on CUDA, and caches
  ROTARY_DTYPE_FLOAT8_E5M2 = 8,
  ROTARY_DTYPE_INT8 = 9,  // caches only; since version 4
};

enum { ROTARY_DEVICE_CPU = 0, ROTARY_DEVICE_CUDA = 1 };

#define ROTARY_MAX_RANK 4

/// A view of memory that the caller owns. Strides count elements and may be 0 or negative. Tensors
/// passed as `in` are only read. In an array of tensors all have the same struct_size.
typedef struct rotary_tensor {
  uint32_t struct_size;
  rotary_dtype dtype;
  void* data;
  int32_t rank;
  int32_t device_type;
  int32_t device_index;
  uint32_t reserved;
  int64_t shape[ROTARY_MAX_RANK];
  int64_t strides[ROTARY_MAX_RANK];
  // Since version 2.
  const float* out_scale;  // float8 output: a factor in device memory, applied before rounding;
                           // NULL: 1
} rotary_tensor;

/// Row-major, contiguous, on the CPU; for a GPU also set device_type (and device_index). Calls
/// reject a rank that is too large.
static inline rotary_tensor rotary_tensor_contiguous(void* data, rotary_dtype dtype, int32_t rank,
                                                     const int64_t* shape) {
  rotary_tensor x;
  uint64_t stride = 1;
  memset(&x, 0, sizeof(x));
  x.struct_size = sizeof(x);
  x.dtype = dtype;
  x.data = data;
  x.rank = rank;
  for (int32_t i = rank <= ROTARY_MAX_RANK ? rank : 0; i-- > 0;) {
    x.shape[i] = shape[i];
    x.strides[i] = (int64_t)stride;
    stride *= (uint64_t)shape[i];
  }
  return x;
}

typedef int32_t rotary_scale_use;
enum {
  ROTARY_SCALE_DIVIDE = 0,    // stored = x / scale
  ROTARY_SCALE_MULTIPLY = 1,  // stored = x * scale
};

/// Heads as a cache holds them, quantised or not: StoredTensor of kv_cache.h. Since version 4.
typedef struct rotary_stored {
  uint32_t struct_size;
  rotary_scale_use use;
  const rotary_tensor* data;   // [blocks, block_size, heads, head_dim] or [slots, heads, head_dim]
  const rotary_tensor* scale;  // given: float32 [1] or [heads]; NULL: 1
  const rotary_tensor* computed_scales;  // written, instead of a given one; NULL: none
} rotary_stored;

static inline rotary_stored rotary_stored_init(const rotary_tensor* data) {
  rotary_stored x;
  memset(&x, 0, sizeof(x));
  x.struct_size = sizeof(x);
  x.data = data;
  return x;
}

/// Where in a cache each token is: Slots of kv_cache.h. With a block table, indices are those of
/// the tokens in their sequences. Since version 4.
typedef struct rotary_slots {
  uint32_t struct_size;
  uint32_t reserved;
  const rotary_tensor* indices;      // int32 or int64, [batch, tokens] or [n]; -1: not stored
  const rotary_tensor* block_table;  // [sequences, max_blocks]; NULL: indices are slots
  const rotary_tensor* sequences;    // of the shape of indices; NULL: the batch row
} rotary_slots;

static inline rotary_slots rotary_slots_flat(const rotary_tensor* slots) {
  rotary_slots x;
  memset(&x, 0, sizeof(x));
  x.struct_size = sizeof(x);
  x.indices = slots;
  return x;
}

typedef int32_t rotary_positions_kind;
enum {
  ROTARY_POSITIONS_RANGE = 1,      // token t at start + t, or at first[batch row] + t
  ROTARY_POSITIONS_AT = 2,         // every token at start, or at first[batch row]
  ROTARY_POSITIONS_IDS = 3,        // one position per token and axis
  ROTARY_POSITIONS_PACKED = 4,     // packed sequences, each starting at first[s], or at 0
  ROTARY_POSITIONS_PACKED_AT = 5,  // every token of sequence s at first[s]
};

/// The positions of the tokens, as in positions.h. Members that the kind does not use must be zero.
/// `first` and `boundaries` are arrays in host memory; the views that may replace them are of int32
/// or int64 on any device. All memory is on the device of the tensors of the call.
typedef struct rotary_positions {
  uint32_t struct_size;
  rotary_positions_kind kind;
  int32_t on_all_axes;  // 1: the same position on every axis of the rope, as text has in M-RoPE
  uint32_t reserved;
  int64_t start;
  const int64_t* first;
  int64_t num_first;
  const int64_t* boundaries;  // 0, ..., tokens: one more than there are sequences
  int64_t num_boundaries;
  const rotary_tensor* ids;  // int32, int64, float32 or float64:
                             // [tokens], [axes, tokens] or [axes, batch, tokens]
  // Since version 2.
  const rotary_tensor* first_view;       // instead of first: [batch], or [sequences]
  const rotary_tensor* boundaries_view;  // instead of boundaries: [sequences + 1]
} rotary_positions;

static inline rotary_positions rotary_positions_range(int64_t start) {
  rotary_positions p;
  memset(&p, 0, sizeof(p));
  p.struct_size = sizeof(p);
  p.kind = ROTARY_POSITIONS_RANGE;
  p.start = start;
  return p;
}
/// One entry per batch row.
static inline rotary_positions rotary_positions_range_rows(const int64_t* first, int64_t rows) {
  rotary_positions p = rotary_positions_range(0);
  p.first = first;
  p.num_first = rows;
  return p;
}
static inline rotary_positions rotary_positions_at(int64_t position) {
  rotary_positions p = rotary_positions_range(position);
  p.kind = ROTARY_POSITIONS_AT;
  return p;
}
static inline rotary_positions rotary_positions_at_rows(const int64_t* position, int64_t rows) {
  rotary_positions p = rotary_positions_range_rows(position, rows);
  p.kind = ROTARY_POSITIONS_AT;
  return p;
}
static inline rotary_positions rotary_positions_ids(const rotary_tensor* ids) {
  rotary_positions p = rotary_positions_range(0);
  p.kind = ROTARY_POSITIONS_IDS;
  p.ids = ids;
  return p;
}
/// `boundaries` has sequences + 1 entries; `first` has one per sequence, or is NULL: all from 0.
static inline rotary_positions rotary_positions_packed(const int64_t* boundaries, int64_t sequences,
                                                       const int64_t* first) {
  rotary_positions p = rotary_positions_range_rows(first, first != NULL ? sequences : 0);
  p.kind = ROTARY_POSITIONS_PACKED;
  p.boundaries = boundaries;
  p.num_boundaries = sequences + 1;
  return p;
}
static inline rotary_positions rotary_positions_packed_at(const int64_t* boundaries,
                                                          int64_t sequences,
                                                          const int64_t* position) {
  rotary_positions p = rotary_positions_packed(boundaries, sequences, position);
  p.kind = ROTARY_POSITIONS_PACKED_AT;
  return p;
}
/// The same from views of int32 or int64 on any device.
static inline rotary_positions rotary_positions_range_view(const rotary_tensor* first) {
  rotary_positions p = rotary_positions_range(0);
  p.first_view = first;
  p.num_first = first != NULL ? 0 : 1;  // a missing view is rejected, not taken as a range from 0
  return p;
}
static inline rotary_positions rotary_positions_at_view(const rotary_tensor* position) {
  rotary_positions p = rotary_positions_range_view(position);
  p.kind = ROTARY_POSITIONS_AT;
  return p;
}
/// `first` may be NULL: all from 0.
static inline rotary_positions rotary_positions_packed_view(const rotary_tensor* boundaries,
                                                            const rotary_tensor* first) {
  rotary_positions p = rotary_positions_range(0);
  p.kind = ROTARY_POSITIONS_PACKED;
  p.first_view = first;
  p.boundaries_view = boundaries;
  return p;
}
static inline rotary_positions rotary_positions_packed_at_view(const rotary_tensor* boundaries,
                                                               const rotary_tensor* position) {
  rotary_positions p = rotary_positions_packed_view(boundaries, position);
  p.kind = ROTARY_POSITIONS_PACKED_AT;
  return p;
}

// ---- Parameters of a rope -----------------------------------------------------------------------

/// Which two elements of a head form one rotated pair (pair numbers; head_dim 8, rotary_dim 6).
typedef int32_t rotary_pairing;
enum {
  ROTARY_PAIRING_INTERLEAVED = 1,  // [0 0 1 1 2 2 - -]   RoFormer, GPT-J, Llama as Meta stores it
  ROTARY_PAIRING_HALF = 2,         // [0 1 2 0 1 2 - -]   GPT-NeoX, Llama on Hugging Face
};

/// Layout of the rotated pairs in a head; other elements are left unchanged, or copied.
typedef struct rotary_head_layout {
  uint32_t struct_size;
  rotary_pairing pairing;         // required: 0 is rejected
  rotary_pairing output_pairing;  // pairing of the output; 0: that of the input
  uint32_t reserved;
  int64_t head_dim;
  int64_t rotary_offset;
} rotary_head_layout;

/// Pass 0 and 0 for a struct that the library fills.
static inline rotary_head_layout rotary_head_layout_init(int64_t head_dim, rotary_pairing pairing) {
  rotary_head_layout layout = {sizeof(rotary_head_layout), pairing, 0, 0, head_dim, 0};
  return layout;
}

/// The frequencies of the pairs, as in frequencies.h.
typedef struct rotary_frequencies {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t pairs;
  int64_t axes;
  const double* values;  // [pairs x axes], row-major, radians per position
  double scale;          // multiplies cos and sin
  double softmax_scale;  // for attention to apply; the rotation does not
  const double* growth;  // NULL, or [pairs x axes] (xPos)
  double growth_origin;
} rotary_frequencies;

/// Pass NULL, 0 and 0 for a struct that the library fills.
static inline rotary_frequencies rotary_frequencies_init(const double* values, int64_t pairs,
                                                         int64_t axes) {
  rotary_frequencies f = {sizeof(rotary_frequencies), 0, pairs, axes, values, 1.0, 1.0, NULL, 0.0};
  return f;
}

enum { ROTARY_DIRECTION_FORWARD = 0, ROTARY_DIRECTION_BACKWARD = 1 };
enum { ROTARY_WAVELENGTHS_EXACT = 0, ROTARY_WAVELENGTHS_WHOLE = 1 };

/// The Recipe of recipe.h. Scaling and axis map are JSON as in recipe_json.h, under the names that
/// every interface has: "{\"type\": \"yarn\", \"factor\": 4, \"original_context\": 32768}",
/// "{\"type\": \"mrope\", \"sections\": [16, 24, 24]}". A whole recipe, as `rotary inspect --json`
/// or to_json() prints it, may be given as `scaling`, with all other members zero.
/// Since version 3.
typedef struct rotary_recipe {
  uint32_t struct_size;
  int32_t direction;
  int32_t wavelengths;
  uint32_t reserved;
  int64_t rotary_dim;    // 0: as in `scaling`
  double theta;          // 0: as in `scaling`
  int64_t ladder_dim;    // d of the formulas; 0: as in `scaling`, else rotary_dim
  double gain;           // multiplies every frequency; 0: as in `scaling`, else 1
  const char* scaling;   // NULL: plain
  const char* axis_map;  // NULL: as in `scaling`, else one axis
} rotary_recipe;

static inline rotary_recipe rotary_recipe_init(int64_t rotary_dim, double theta) {
  rotary_recipe recipe;
  memset(&recipe, 0, sizeof(recipe));
  recipe.struct_size = sizeof(recipe);
  recipe.rotary_dim = rotary_dim;
  recipe.theta = theta;
  return recipe;
}

/// Calls task(task_context, 0) ... task(task_context, tasks - 1), each once, in any order, on any
/// threads, and returns when all have returned.
typedef void (*rotary_task)(void* task_context, int32_t index);
typedef void (*rotary_parallel_for)(void* context, int32_t tasks, rotary_task task,
                                    void* task_context);

/// The threads that run a call: see threads.h. They do not affect any bit of the result.
typedef struct rotary_threads {
  uint32_t struct_size;
  int32_t count;                     // 0: OpenMP's number; 1: the calling thread only
  rotary_parallel_for parallel_for;  // NULL: OpenMP's threads
  void* context;                     // passed to parallel_for; must outlive the handle
} rotary_threads;

static inline rotary_threads rotary_threads_init(int32_t count) {
  rotary_threads threads = {sizeof(rotary_threads), count, NULL, NULL};
  return threads;
}

enum { ROTARY_PRECISION_EXACT = 0, ROTARY_PRECISION_REFERENCE = 1 };
enum { ROTARY_CACHE_NONE = 0, ROTARY_CACHE_ALL = 1, ROTARY_CACHE_HYBRID = 2 };

/// The RopeOptions of rope.h.
typedef struct rotary_rope_options {
  uint32_t struct_size;
  int32_t precision;
  int32_t cache_policy;
  uint32_t reserved;
  int64_t cache_positions;
  const rotary_threads* threads;  // NULL: OpenMP's threads
} rotary_rope_options;

static inline rotary_rope_options rotary_rope_options_init(void) {
  rotary_rope_options options = {sizeof(rotary_rope_options), 0, 0, 0, 0, NULL};
  return options;
}

// ---- Results ------------------------------------------------------------------------------------

/// One rotation of a model, filled by the library. Its frequencies and scale, which may depend on
/// the context in use, are those of the rope made from it: rotary_rope_get_frequencies().
typedef struct rotary_model_rope {
  uint32_t struct_size;
  int32_t depends_on_context;  // 1: other frequencies for other contexts (dynamic NTK, LongRoPE)
  const char* name;            // "default", "full_attention", "vision.default", ...
  const char* scaling;         // "default", "linear", "yarn", "llama3", ...
  int64_t rotary_dim;
  double theta;
  const rotary_head_layout* layout;
  const char* const* axes;  // names in the order in which positions are given: "t", "h", "w"
  int64_t num_axes;
  const int64_t* layers;  // that use it; empty where the file does not list them
  int64_t num_layers;
  int64_t trained_context;     // context length in training; 0: unknown
  int64_t extended_context;    // extended context length; 0: unknown
  const char* const* assumed;  // values that the file omits, with the default used instead
  int64_t num_assumed;
  const char* const* warnings;  // contradictory or ignored values
  int64_t num_warnings;
} rotary_model_rope;

static inline rotary_model_rope rotary_model_rope_init(void) {
  rotary_model_rope rope;
  memset(&rope, 0, sizeof(rope));
  rope.struct_size = sizeof(rope);
  return rope;
}

/// Gradients of parameters that rotary_rope_gradient writes, in memory of the tensors' device;
/// NULL: not wanted.
typedef struct rotary_gradients {
  uint32_t struct_size;
  uint32_t reserved;
  double* frequencies;  // [pairs x axes]
  int64_t num_frequencies;
  const rotary_tensor* positions;  // float64 [axes, batch, tokens], or [axes, tokens] if shared
  double* scale;
  // Since version 2. CUDA: scratch memory of rotary_rope_gradient_workspace() bytes, aligned to
  // 256.
  void* workspace;
  size_t workspace_size;
} rotary_gradients;

static inline rotary_gradients rotary_gradients_init(void) {
  rotary_gradients gradients = {sizeof(rotary_gradients), 0, NULL, 0, NULL, NULL, NULL, 0};
  return gradients;
}

// The enumerations of norm.h.
enum {
  ROTARY_NORM_NONE = 0,
  ROTARY_NORM_RMS = 1,
  ROTARY_NORM_RMS_ONE_PLUS = 2,
  ROTARY_NORM_LAYER = 3
};
enum {
  ROTARY_NORM_ROUND_TENSOR = 0,
  ROTARY_NORM_ROUND_FLOAT32 = 1,
  ROTARY_NORM_ROUND_EVERY_STEP = 2
};
enum { ROTARY_NORM_OF_HEAD = 0, ROTARY_NORM_OF_ALL_HEADS = 1 };
enum { ROTARY_NORM_BEFORE_ROTATION = 0, ROTARY_NORM_AFTER_ROTATION = 1 };
enum { ROTARY_NORM_ROTATE = 0, ROTARY_NORM_UNROTATE = 1 };

/// The HeadNorm of norm.h. Since version 4.
typedef struct rotary_norm {
  uint32_t struct_size;
  int32_t kind;
  double eps;
  int32_t rounding;
  int32_t sum_lanes;  // 4, 8, 16 or 32; 0: 4
  int32_t scope;
  int32_t order;
  int32_t rotation;
  int32_t reserved;
} rotary_norm;

static inline rotary_norm rotary_norm_init(int32_t kind, double eps) {
  rotary_norm norm = {sizeof(rotary_norm), kind, eps, 0, 0, 0, 0, 0, 0};
  return norm;
}

#ifdef __cplusplus
}
#endif
// NOLINTEND
