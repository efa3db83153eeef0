// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// The C API: the tensor functions of the C++ API for C11 and every language that calls C.
///
///   rotary_model* model = NULL;
///   rotary_rope* rope = NULL;
///   if (rotary_model_read("Qwen2.5-7B/", &model) != ROTARY_OK ||
///       rotary_rope_from_model(model, NULL, 0, NULL, &rope) != ROTARY_OK) {
///     fprintf(stderr, "%s\n", rotary_last_error());
///   }
///   const int64_t shape[] = {tokens, heads, 128};
///   rotary_tensor q = rotary_tensor_contiguous(data, ROTARY_DTYPE_FLOAT32, 3, shape);
///   rotary_positions positions = rotary_positions_range(4096);
///   rotary_rope_rotate(rope, &q, NULL, 1, &positions);   // in place, from position 4096 on
///   rotary_rope_free(rope);
///   rotary_model_free(model);
///
/// Link librotary_c: `rotary::c` in CMake, `rotary_c` for pkg-config. Conventions:
/// - A function that can fail returns a rotary_status, and rotary_last_error() gives the message of
///   the C++ API. A rejected call has written nothing (after ROTARY_CUDA_ERROR and
///   ROTARY_OUT_OF_MEMORY results may be partly written), and handles it should have created are
///   NULL. Nothing throws, prints or aborts. NULL is rejected except where allowed here.
/// - Handles are immutable and may be shared by any number of threads. Free each once. Pointers
///   obtained from a handle are valid as long as the handle.
/// - Structs begin with their size: initialise them with the inline functions of rotary_c_types.h.
/// - Accuracy, shapes and checks are those of rope.h, positions.h, table.h and model.h.
///
/// A call runs on the device of its tensors. On a GPU it only launches kernels, so it can be
/// captured into a graph (cuda.h); positions are then a range, or views of device memory:
///
///   q.device_type = ROTARY_DEVICE_CUDA;
///   rotary_rope_with_stream(rope, stream, 0, &on_stream);   // a cudaStream_t; once, not each step
///   rotary_positions positions = rotary_positions_at_view(&lengths);
///   rotary_rope_rotate(on_stream, &q, NULL, 1, &positions);
#pragma once

// NOLINTBEGIN(modernize-deprecated-headers): C.
#include <stddef.h>
#include <stdint.h>
// NOLINTEND(modernize-deprecated-headers)

#include "rotary/rotary_c_types.h"

// NOLINTBEGIN: C, also where a C++ tool reads it.
#if defined(__GNUC__)
#define ROTARY_C_API __attribute__((visibility("default")))
#else
#define ROTARY_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/// Incremented with each addition to these headers. Programs built against a smaller one keep
/// working.
#define ROTARY_C_API_VERSION 6u

/// ROTARY_C_API_VERSION of the loaded library.
ROTARY_C_API uint32_t rotary_c_api_version(void);
/// The version of rotary: "0.1.0".
ROTARY_C_API const char* rotary_version(void);

/// 1 if this library includes the CUDA engine, else 0. This and the next: since version 2.
ROTARY_C_API int32_t rotary_has_cuda(void);
/// Number of usable GPUs: 0 without the engine, a driver or a GPU.
ROTARY_C_API int32_t rotary_cuda_device_count(void);

// ---- Errors -------------------------------------------------------------------------------------

typedef int32_t rotary_status;
enum {
  ROTARY_OK = 0,
  ROTARY_INVALID_ARGUMENT = 1,  // the caller's fault: "[Rope] rotary_dim must be even, got 7"
  ROTARY_IO_ERROR = 2,          // a file or its content; the text begins with the path
  ROTARY_OUT_OF_MEMORY = 3,
  ROTARY_INTERNAL_ERROR = 4,  // a fault of rotary, or a C++ parallel_for that threw
  ROTARY_CUDA_ERROR = 5,  // a kernel could not be launched: no GPU, another device's stream, ...
};

/// "ok", "invalid argument", ...; "unknown status" for other numbers.
ROTARY_C_API const char* rotary_status_name(rotary_status status);

/// Message of the last failed call of this thread; "" if none. Valid until the next failing call of
/// this thread.
ROTARY_C_API const char* rotary_last_error(void);

// ---- Models -------------------------------------------------------------------------------------

/// The rotations of a model, read from the files it is published with.
typedef struct rotary_model rotary_model;

/// Reads a config.json, a .gguf file, or a folder that holds one of them.
ROTARY_C_API rotary_status rotary_model_read(const char* path, rotary_model** model);

/// Reads the text of a config.json, or the bytes of a GGUF file (at least up to the end of the rope
/// tensors). `source` names them in errors; NULL: "config.json", "model.gguf".
ROTARY_C_API rotary_status rotary_model_parse_config(const char* json, size_t length,
                                                     const char* source, rotary_model** model);
ROTARY_C_API rotary_status rotary_model_parse_gguf(const void* bytes, size_t length,
                                                   const char* source, rotary_model** model);

/// NULL is allowed.
ROTARY_C_API void rotary_model_free(rotary_model* model);

/// model_type as in the file; "" if absent.
ROTARY_C_API rotary_status rotary_model_get_type(const rotary_model* model, const char** type);

/// Number of ropes: one for each layer type and part with a rotation of its own.
ROTARY_C_API rotary_status rotary_model_count_ropes(const rotary_model* model, int64_t* count);

/// Rope 0 ... count - 1.
ROTARY_C_API rotary_status rotary_model_get_rope(const rotary_model* model, int64_t index,
                                                 rotary_model_rope* rope);

/// The rope of that name; NULL or "": the only one, else that of the text or of the full-attention
/// layers.
ROTARY_C_API rotary_status rotary_model_find_rope(const rotary_model* model, const char* name,
                                                  rotary_model_rope* rope);

// ---- Ropes --------------------------------------------------------------------------------------

/// An immutable rotation: create it once, use it from any number of threads.
typedef struct rotary_rope rotary_rope;

/// From a rope of a model (`name` as in rotary_model_find_rope) for `context` positions in use; 0:
/// the trained length. The model may be freed afterwards. Here and below `options` may be NULL.
ROTARY_C_API rotary_status rotary_rope_from_model(const rotary_model* model, const char* name,
                                                  int64_t context,
                                                  const rotary_rope_options* options,
                                                  rotary_rope** rope);

/// From frequencies, which are copied.
ROTARY_C_API rotary_status rotary_rope_from_frequencies(const rotary_frequencies* frequencies,
                                                        const rotary_head_layout* layout,
                                                        const rotary_rope_options* options,
                                                        rotary_rope** rope);

/// From theta: pair i has the frequency theta^(-2i / rotary_dim).
ROTARY_C_API rotary_status rotary_rope_from_theta(int64_t rotary_dim, double theta,
                                                  const rotary_head_layout* layout,
                                                  const rotary_rope_options* options,
                                                  rotary_rope** rope);

/// From a recipe, for `context` positions in use; 0: the trained length. Since version 3.
ROTARY_C_API rotary_status rotary_rope_from_recipe(const rotary_recipe* recipe, int64_t context,
                                                   const rotary_head_layout* layout,
                                                   const rotary_rope_options* options,
                                                   rotary_rope** rope);

/// The same rotation on other threads. Cheap: tables are shared.
ROTARY_C_API rotary_status rotary_rope_with_threads(const rotary_rope* rope,
                                                    const rotary_threads* threads,
                                                    rotary_rope** result);

/// The same rotation, whose calls on CUDA tensors launch on that stream: a cudaStream_t, which must
/// outlive its use; NULL: the default stream. `overlap`: 1 for programmatic dependent launch
/// (Stream::overlap of cuda.h), else 0. Cheap: tables are shared. Ropes derived from the result
/// keep the stream. Since version 2.
ROTARY_C_API rotary_status rotary_rope_with_stream(const rotary_rope* rope, void* stream,
                                                   int32_t overlap, rotary_rope** result);

/// The rotation of keys where `rope` is that of queries: xPos lets queries grow and keys shrink.
ROTARY_C_API rotary_status rotary_rope_with_inverse_growth(const rotary_rope* rope,
                                                           rotary_rope** result);

/// NULL is allowed.
ROTARY_C_API void rotary_rope_free(rotary_rope* rope);

/// The parameters of the rope. The layout has its output_pairing filled in.
ROTARY_C_API rotary_status rotary_rope_get_frequencies(const rotary_rope* rope,
                                                       rotary_frequencies* frequencies);
ROTARY_C_API rotary_status rotary_rope_get_layout(const rotary_rope* rope,
                                                  rotary_head_layout* layout);
ROTARY_C_API rotary_status rotary_rope_get_options(const rotary_rope* rope,
                                                   rotary_rope_options* options);

// ---- Rotation -----------------------------------------------------------------------------------

/// `in` points to `count` tensors (at most 16), each [tokens, heads, head_dim] or
/// [batch, tokens, heads, head_dim] of float32, float64, bfloat16 or float16; `out` to as many for
/// the results, of the same shapes and types (on CUDA also float8), or is NULL: in place. Calls do
/// not allocate unless rotary_dim exceeds 512.
///   rotate    multiplies each pair by z = scale * e^(i phase)
///   unrotate  by 1/z: the inverse
///   adjoint   by conj(z): maps the gradient of the output to the gradient of the input
///   shift     moves rotated keys from position p to p + delta, without scale
ROTARY_C_API rotary_status rotary_rope_rotate(const rotary_rope* rope, const rotary_tensor* in,
                                              const rotary_tensor* out, int64_t count,
                                              const rotary_positions* positions);
ROTARY_C_API rotary_status rotary_rope_unrotate(const rotary_rope* rope, const rotary_tensor* in,
                                                const rotary_tensor* out, int64_t count,
                                                const rotary_positions* positions);
ROTARY_C_API rotary_status rotary_rope_adjoint(const rotary_rope* rope, const rotary_tensor* in,
                                               const rotary_tensor* out, int64_t count,
                                               const rotary_positions* positions);
ROTARY_C_API rotary_status rotary_rope_shift(const rotary_rope* rope, const rotary_tensor* in,
                                             const rotary_tensor* out, int64_t count,
                                             const rotary_positions* delta);

/// Normalises heads and rotates them in one pass: Rope::norm_rotate of rope.h. `weights` and
/// `biases` point to `count` tensors each, [head_dim] or [heads * head_dim], or are NULL; one whose
/// data is NULL changes nothing. Tensors on the CPU, of float32, bfloat16 or float16. Allocates.
/// Since version 4.
ROTARY_C_API rotary_status rotary_rope_norm_rotate(const rotary_rope* rope, const rotary_tensor* in,
                                                   const rotary_tensor* out, int64_t count,
                                                   const rotary_tensor* weights,
                                                   const rotary_tensor* biases,
                                                   const rotary_norm* norm,
                                                   const rotary_positions* positions);

/// Changes keys that `from` rotated at `positions` to those of `to`, on the threads and stream of
/// `to`.
ROTARY_C_API rotary_status rotary_rope_rerotate(const rotary_rope* from, const rotary_rope* to,
                                                const rotary_tensor* in, const rotary_tensor* out,
                                                int64_t count, const rotary_positions* positions);

/// The backward pass of rotate: `in` is its input, `grad_out` the gradient of its output; the
/// gradient of `in` is written to `grad_in` (NULL, or data NULL: not wanted). `gradients` may be
/// NULL; on the CPU, gradients of parameters allocate.
ROTARY_C_API rotary_status rotary_rope_gradient(const rotary_rope* rope, const rotary_tensor* in,
                                                const rotary_tensor* grad_out,
                                                const rotary_tensor* grad_in, int64_t count,
                                                const rotary_positions* positions,
                                                const rotary_gradients* gradients);

/// Bytes of rotary_gradients.workspace for CUDA tensors of that many batch rows and tokens. Since
/// version 2.
ROTARY_C_API rotary_status rotary_rope_gradient_workspace(const rotary_rope* rope, int64_t batch,
                                                          int64_t tokens, size_t* bytes);

/// Writes cos and sin of every token, times the scale, as rotate uses them: [tokens, pairs] or
/// [batch, tokens, pairs] of one floating-point type. On the CPU it allocates as much as it writes.
/// Since version 2.
ROTARY_C_API rotary_status rotary_rope_cos_sin(const rotary_rope* rope,
                                               const rotary_tensor* cosines,
                                               const rotary_tensor* sines,
                                               const rotary_positions* positions);

// ---- Rotation into caches -----------------------------------------------------------------------

/// Rotates q (NULL: none) into q_out (NULL: in place), k into `keys`, and copies v into `values`
/// (both NULL: none), in one pass on the CPU: Rope::append of kv_cache.h. This and the next five
/// allocate. Since version 4.
ROTARY_C_API rotary_status rotary_rope_append(const rotary_rope* rope, const rotary_tensor* q,
                                              const rotary_tensor* q_out, const rotary_tensor* k,
                                              const rotary_tensor* v, const rotary_stored* keys,
                                              const rotary_stored* values,
                                              const rotary_slots* slots,
                                              const rotary_positions* positions);

/// rotary_rope_append of q and k with a norm: KvAppend::norm. Weights may be NULL. Since version 5.
/// On x86, sum_lanes 8 has the bits of PyTorch's norms; 4, the default, those of other CPUs.
ROTARY_C_API rotary_status rotary_rope_norm_append(
    const rotary_rope* rope, const rotary_tensor* q, const rotary_tensor* q_out,
    const rotary_tensor* k, const rotary_tensor* v, const rotary_tensor* q_weight,
    const rotary_tensor* k_weight, const rotary_norm* norm, const rotary_stored* keys,
    const rotary_stored* values, const rotary_slots* slots, const rotary_positions* positions);

/// The same with the biases of ROTARY_NORM_LAYER, which may be NULL, too. Since version 6.
ROTARY_C_API rotary_status rotary_rope_norm_append_biased(
    const rotary_rope* rope, const rotary_tensor* q, const rotary_tensor* q_out,
    const rotary_tensor* k, const rotary_tensor* v, const rotary_tensor* q_weight,
    const rotary_tensor* k_weight, const rotary_tensor* q_bias, const rotary_tensor* k_bias,
    const rotary_norm* norm, const rotary_stored* keys, const rotary_stored* values,
    const rotary_slots* slots, const rotary_positions* positions);

/// Rotates `in` into a tensor of its shape that may be quantised; `inverse`: 1 for unrotate, else
/// 0. Since version 4.
ROTARY_C_API rotary_status rotary_rope_rotate_to(const rotary_rope* rope, const rotary_tensor* in,
                                                 const rotary_stored* out, int32_t inverse,
                                                 const rotary_positions* positions);

/// shift and rerotate of the keys in those slots of a cache. Since version 4.
ROTARY_C_API rotary_status rotary_rope_shift_cached(const rotary_rope* rope,
                                                    const rotary_stored* keys,
                                                    const rotary_slots* slots,
                                                    const rotary_positions* delta);
ROTARY_C_API rotary_status rotary_rope_rerotate_cached(const rotary_rope* from,
                                                       const rotary_rope* to,
                                                       const rotary_stored* keys,
                                                       const rotary_slots* slots,
                                                       const rotary_positions* positions);

// ---- Rotation by the caller's cos/sin tables ----------------------------------------------------

/// Tables [rows, width] or [batch, rows, width], of any floating-point type. Their memory belongs
/// to the caller and must outlive the handle.
typedef struct rotary_table rotary_table;

typedef int32_t rotary_table_width;
enum {
  ROTARY_TABLE_PAIRS = 1,        // one entry per pair
  ROTARY_TABLE_TWICE_PAIRS = 2,  // each entry twice, in the layout of a head
};

/// `threads` may be NULL.
ROTARY_C_API rotary_status rotary_table_create(const rotary_tensor* cosines,
                                               const rotary_tensor* sines, rotary_table_width width,
                                               const rotary_head_layout* layout,
                                               const rotary_threads* threads, rotary_table** table);

/// As rotary_rope_with_stream. Since version 2.
ROTARY_C_API rotary_status rotary_table_with_stream(const rotary_table* table, void* stream,
                                                    int32_t overlap, rotary_table** result);

/// NULL is allowed.
ROTARY_C_API void rotary_table_free(rotary_table* table);

/// As for a rope. `positions` are rows of the table; NULL: row t for token t.
ROTARY_C_API rotary_status rotary_table_rotate(const rotary_table* table, const rotary_tensor* in,
                                               const rotary_tensor* out, int64_t count,
                                               const rotary_positions* positions);
ROTARY_C_API rotary_status rotary_table_unrotate(const rotary_table* table, const rotary_tensor* in,
                                                 const rotary_tensor* out, int64_t count,
                                                 const rotary_positions* positions);
ROTARY_C_API rotary_status rotary_table_adjoint(const rotary_table* table, const rotary_tensor* in,
                                                const rotary_tensor* out, int64_t count,
                                                const rotary_positions* positions);

#ifdef __cplusplus
}
#endif
// NOLINTEND
