// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// The C API: what the C++ API does with tensors, for C11 and for every language that calls C.
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
/// Link librotary_c: `rotary::c` in CMake, `rotary_c` for pkg-config. What holds throughout:
/// - What can fail returns a rotary_status, and rotary_last_error() says why, in the words of the
///   C++ API. What is refused has written nothing (after ROTARY_CUDA_ERROR and
///   ROTARY_OUT_OF_MEMORY results may be half-written); a call that was to make a handle leaves
///   NULL. Nothing is thrown, printed or aborted. NULL is refused but where it is allowed here.
/// - Handles never change: any number of threads may use one. Free each once, after its last use.
///   Pointers that a handle gives out live as long as it does.
/// - Structs begin with their size: let the inline functions of rotary_c_types.h fill them.
/// - Accuracy, shapes and what is refused are those of rope.h, positions.h, table.h and model.h.
///
/// A call runs where its tensors are. On a GPU it only queues kernels, so that it can be captured
/// into a graph (cuda.h); positions are then a range, or views of device memory:
///
///   q.device_type = ROTARY_DEVICE_CUDA;
///   rotary_rope_with_stream(rope, stream, 0, &on_stream);   // a cudaStream_t; once, not each step
///   rotary_positions positions = rotary_positions_at_view(&lengths);
///   rotary_rope_rotate(on_stream, &q, NULL, 1, &positions);
#pragma once

#include <stddef.h>
#include <stdint.h>

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

/// Grows with each addition to these headers. Programs built against a smaller one keep working.
#define ROTARY_C_API_VERSION 2u

/// ROTARY_C_API_VERSION of the library that runs.
ROTARY_C_API uint32_t rotary_c_api_version(void);
/// The version of rotary: "0.1.0".
ROTARY_C_API const char* rotary_version(void);

/// 1 if this library holds the CUDA engine, else 0. Like the next since version 2.
ROTARY_C_API int32_t rotary_has_cuda(void);
/// GPUs that can be used: 0 without the engine, a driver or a GPU.
ROTARY_C_API int32_t rotary_cuda_device_count(void);

// ---- Errors -------------------------------------------------------------------------------------

typedef int32_t rotary_status;
enum {
  ROTARY_OK = 0,
  ROTARY_INVALID_ARGUMENT = 1,  // the caller's fault: "[Rope] rotary_dim must be even, got 7"
  ROTARY_IO_ERROR = 2,          // a file or its content; the text begins with the path
  ROTARY_OUT_OF_MEMORY = 3,
  ROTARY_INTERNAL_ERROR = 4,  // a fault of rotary, or a C++ parallel_for that threw
  ROTARY_CUDA_ERROR = 5,      // a kernel could not be started: no GPU, another device's stream, ...
};

/// "ok", "invalid argument", ...; "unknown status" for other numbers.
ROTARY_C_API const char* rotary_status_name(rotary_status status);

/// Why the last call of this thread that failed did so; "" where none has. Lives until the next
/// call of this thread that fails.
ROTARY_C_API const char* rotary_last_error(void);

// ---- Models -------------------------------------------------------------------------------------

/// The rotations of a model, read from the files it is published with.
typedef struct rotary_model rotary_model;

/// Reads a config.json, a .gguf file, or a folder that holds one of them.
ROTARY_C_API rotary_status rotary_model_read(const char* path, rotary_model** model);

/// Reads the text of a config.json, or the bytes of a GGUF file (its beginning up to the end of the
/// rope tensors will do). `source` names them in errors; NULL: "config.json", "model.gguf".
ROTARY_C_API rotary_status rotary_model_parse_config(const char* json, size_t length,
                                                     const char* source, rotary_model** model);
ROTARY_C_API rotary_status rotary_model_parse_gguf(const void* bytes, size_t length,
                                                   const char* source, rotary_model** model);

/// NULL is allowed.
ROTARY_C_API void rotary_model_free(rotary_model* model);

/// model_type as the file says; "" if it does not.
ROTARY_C_API rotary_status rotary_model_get_type(const rotary_model* model, const char** type);

/// How many ropes the model has: one for each layer type and part that turns in its own way.
ROTARY_C_API rotary_status rotary_model_count_ropes(const rotary_model* model, int64_t* count);

/// Rope 0 ... count - 1.
ROTARY_C_API rotary_status rotary_model_get_rope(const rotary_model* model, int64_t index,
                                                 rotary_model_rope* rope);

/// The rope of that name; NULL or "": the only one, or else the text's or the one of the
/// full-attention layers.
ROTARY_C_API rotary_status rotary_model_find_rope(const rotary_model* model, const char* name,
                                                  rotary_model_rope* rope);

// ---- Ropes --------------------------------------------------------------------------------------

/// An immutable rotation: make it once, use it from any number of threads.
typedef struct rotary_rope rotary_rope;

/// From a rope of a model (`name` as in rotary_model_find_rope) for `context` positions in use; 0:
/// the length the model was trained for. The model may be freed. Here and below `options` may be
/// NULL.
ROTARY_C_API rotary_status rotary_rope_from_model(const rotary_model* model, const char* name,
                                                  int64_t context,
                                                  const rotary_rope_options* options,
                                                  rotary_rope** rope);

/// From frequencies, which are copied.
ROTARY_C_API rotary_status rotary_rope_from_frequencies(const rotary_frequencies* frequencies,
                                                        const rotary_head_layout* layout,
                                                        const rotary_rope_options* options,
                                                        rotary_rope** rope);

/// From the plain ladder: pair i turns by theta^(-2i / rotary_dim) radians a position.
ROTARY_C_API rotary_status rotary_rope_from_theta(int64_t rotary_dim, double theta,
                                                  const rotary_head_layout* layout,
                                                  const rotary_rope_options* options,
                                                  rotary_rope** rope);

/// The same rotation and tables on other threads. Cheap: nothing is computed again.
ROTARY_C_API rotary_status rotary_rope_with_threads(const rotary_rope* rope,
                                                    const rotary_threads* threads,
                                                    rotary_rope** result);

/// The same rotation, whose calls on CUDA tensors queue their work on that stream: a cudaStream_t,
/// which outlives its use; NULL: the default stream, as without this. `overlap` 1 lets a call start
/// while the kernel before it is ending (Stream::overlap of cuda.h), else 0. Cheap: nothing is
/// computed again. What is made from the result keeps the stream. Since version 2.
ROTARY_C_API rotary_status rotary_rope_with_stream(const rotary_rope* rope, void* stream,
                                                   int32_t overlap, rotary_rope** result);

/// The same rotation for the other side of a score: xPos lets queries grow and keys shrink.
ROTARY_C_API rotary_status rotary_rope_with_inverse_growth(const rotary_rope* rope,
                                                           rotary_rope** result);

/// NULL is allowed.
ROTARY_C_API void rotary_rope_free(rotary_rope* rope);

/// What the rope was made of. The layout has its output_pairing filled in.
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
/// not allocate, unless rotary_dim exceeds 512.
///   rotate    multiplies each pair by z = scale * e^(i phase)
///   unrotate  by 1/z: the inverse
///   adjoint   by conj(z): turns the gradient of the output into the gradient of the input
///   shift     moves rotated keys by `delta`, without scale: those of position p to p + delta
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

/// Turns keys that `from` rotated at `positions` into those of `to`, on its threads and stream.
ROTARY_C_API rotary_status rotary_rope_rerotate(const rotary_rope* from, const rotary_rope* to,
                                                const rotary_tensor* in, const rotary_tensor* out,
                                                int64_t count, const rotary_positions* positions);

/// The way back through rotate: `in` was rotated, `grad_out` is the gradient of the result; the
/// gradient of `in` goes to `grad_in` (NULL, or data NULL: not wanted). `gradients` may be NULL; on
/// the CPU it allocates where these ask for those of parameters.
ROTARY_C_API rotary_status rotary_rope_gradient(const rotary_rope* rope, const rotary_tensor* in,
                                                const rotary_tensor* grad_out,
                                                const rotary_tensor* grad_in, int64_t count,
                                                const rotary_positions* positions,
                                                const rotary_gradients* gradients);

/// Bytes of rotary_gradients.workspace for CUDA tensors of so many batch rows and tokens. Since
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

// ---- Rotation by the caller's cos and sin -------------------------------------------------------

/// Tables [rows, width] or [batch, rows, width], of any floating-point type. Their memory belongs
/// to the caller and must outlive the handle.
typedef struct rotary_table rotary_table;

typedef int32_t rotary_table_width;
enum {
  ROTARY_TABLE_PAIRS = 1,        // one column a pair
  ROTARY_TABLE_TWICE_PAIRS = 2,  // each number stands twice, as the pairing lays out a head
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

/// As those of a rope. `positions` are rows of the table; NULL: row t for token t.
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
