// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The part of onnxruntime's C ABI that a custom operator needs, declared here because its Python
// package has no headers, so that every build of rotary can have the operator.
//
// onnxruntime promises that a table of functions only grows at its end: a slot, once released,
// keeps its number and its signature. The numbers are those of OrtApi, the members of CustomOp
// those of OrtCustomOp, both of API version 18. tests/hooks/onnx runs all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace rotary::ort {

/// API version of the tables below; onnxruntime 1.18 is the first that has it.
inline constexpr std::uint32_t kApiVersion = 18;

// Opaque to users of the ABI.
struct CustomOpDomain;
struct KernelContext;
struct KernelInfo;
struct SessionOptions;
struct ShapeInferContext;
struct Status;  // null: no error
struct TypeAndShapeInfo;
struct Value;

enum class ErrorCode : int { kFail = 1, kInvalidArgument = 2 };
enum class ElementType : int {
  kFloat32 = 1,
  kInt64 = 7,
  kFloat16 = 10,
  kFloat64 = 11,
  kBFloat16 = 16
};

struct ApiBase {
  const void* (*get_api)(std::uint32_t version);  // null if onnxruntime is older
  const char* (*get_version)();
};

/// An error of onnxruntime, to be returned to it.
struct StatusError {
  Status* status;
};

/// The functions of onnxruntime that are used. Those that fail throw StatusError.
class Api {
  using Function = void (*)();

  template <typename Signature, typename... Arguments>
  auto call(std::size_t slot, Arguments... arguments) const {
    return reinterpret_cast<Signature*>(table_[slot])(arguments...);
  }

 public:
  explicit Api(const void* table) : table_(static_cast<const Function*>(table)) {}

  Status* create_status(ErrorCode code, const char* message) const {
    return call<Status*(ErrorCode, const char*)>(0, code, message);
  }
  void release(Status* status) const { call<void(Status*)>(93, status); }

  // ---- Registration ----
  CustomOpDomain* create_domain(const char* name) const {
    CustomOpDomain* domain = nullptr;
    check(call<Status*(const char*, CustomOpDomain**)>(26, name, &domain));
    return domain;
  }
  void add(CustomOpDomain* domain, const struct CustomOp* op) const {
    check(call<Status*(CustomOpDomain*, const CustomOp*)>(27, domain, op));
  }
  void add(SessionOptions* options, CustomOpDomain* domain) const {
    check(call<Status*(SessionOptions*, CustomOpDomain*)>(28, options, domain));
  }

  // ---- Shapes ----
  TypeAndShapeInfo* type_and_shape(const Value* value) const {
    TypeAndShapeInfo* info = nullptr;
    check(call<Status*(const Value*, TypeAndShapeInfo**)>(65, value, &info));
    return info;
  }
  std::size_t rank(const TypeAndShapeInfo* info) const {
    std::size_t rank = 0;
    check(call<Status*(const TypeAndShapeInfo*, std::size_t*)>(61, info, &rank));
    return rank;
  }
  void dims(const TypeAndShapeInfo* info, std::int64_t* values, std::size_t rank) const {
    check(
        call<Status*(const TypeAndShapeInfo*, std::int64_t*, std::size_t)>(62, info, values, rank));
  }
  /// Names of dims, empty for those that have a number or nothing.
  void dim_names(const TypeAndShapeInfo* info, const char** names, std::size_t rank) const {
    check(call<Status*(const TypeAndShapeInfo*, const char**, std::size_t)>(63, info, names, rank));
  }
  void set_dim_names(TypeAndShapeInfo* info, const char** names, std::size_t rank) const {
    check(call<Status*(TypeAndShapeInfo*, const char**, std::size_t)>(271, info, names, rank));
  }
  void release(TypeAndShapeInfo* info) const { call<void(TypeAndShapeInfo*)>(99, info); }
  TypeAndShapeInfo* input_shape(const ShapeInferContext* context, std::size_t index) const {
    TypeAndShapeInfo* info = nullptr;
    check(call<Status*(const ShapeInferContext*, std::size_t, TypeAndShapeInfo**)>(268, context,
                                                                                   index, &info));
    return info;
  }
  void set_output_shape(const ShapeInferContext* context, std::size_t index,
                        const TypeAndShapeInfo* info) const {
    check(call<Status*(const ShapeInferContext*, std::size_t, const TypeAndShapeInfo*)>(
        270, context, index, info));
  }

  // ---- A kernel ----
  /// Writes up to *size bytes, and into *size how many there are with the final zero. False if the
  /// node has no such attribute.
  bool string_attribute(const KernelInfo* info, const char* name, char* text,
                        std::size_t* size) const {
    Status* status = call<Status*(const KernelInfo*, const char*, char*, std::size_t*)>(
        87, info, name, text, size);
    if (status != nullptr) release(status);
    return status == nullptr;
  }
  const Value* input(const KernelContext* context, std::size_t index) const {
    const Value* value = nullptr;
    check(call<Status*(const KernelContext*, std::size_t, const Value**)>(90, context, index,
                                                                          &value));
    return value;
  }
  Value* output(KernelContext* context, std::size_t index, const std::int64_t* dims,
                std::size_t rank) const {
    Value* value = nullptr;
    check(call<Status*(KernelContext*, std::size_t, const std::int64_t*, std::size_t, Value**)>(
        91, context, index, dims, rank, &value));
    return value;
  }
  void* data(Value* value) const {
    void* data = nullptr;
    check(call<Status*(Value*, void**)>(51, value, &data));
    return data;
  }
  const void* data(const Value* value) const { return data(const_cast<Value*>(value)); }
  /// Calls function(argument, 0 .. total - 1) on the threads of the session.
  void parallel_for(const KernelContext* context, void (*function)(void*, std::size_t),
                    std::size_t total, void* argument) const {
    constexpr std::size_t kOneByOne = 0;
    check(call<Status*(const KernelContext*, void (*)(void*, std::size_t), std::size_t, std::size_t,
                       void*)>(274, context, function, total, kOneByOne, argument));
  }

 private:
  static void check(Status* status) {
    if (status != nullptr) throw StatusError{status};
  }

  const Function* table_;
};

/// An operator for one set of types; onnxruntime calls the functions. Null ones are not called.
struct CustomOp {
  std::uint32_t version = kApiVersion;
  void* (*create_kernel)(const CustomOp*, const void* api, const KernelInfo*) = nullptr;
  const char* (*name)(const CustomOp*) = nullptr;
  const char* (*execution_provider)(const CustomOp*) = nullptr;  // returns null: the CPU
  ElementType (*input_type)(const CustomOp*, std::size_t index) = nullptr;
  std::size_t (*input_count)(const CustomOp*) = nullptr;
  ElementType (*output_type)(const CustomOp*, std::size_t index) = nullptr;
  std::size_t (*output_count)(const CustomOp*) = nullptr;
  void (*compute_without_status)(void* kernel, KernelContext*) = nullptr;
  void (*destroy_kernel)(void* kernel) = nullptr;
  int (*input_characteristic)(const CustomOp*, std::size_t index) = nullptr;  // 0: required
  int (*output_characteristic)(const CustomOp*, std::size_t index) = nullptr;
  int (*input_memory)(const CustomOp*, std::size_t index) = nullptr;  // 0: the provider's
  int (*variadic_input_min)(const CustomOp*) = nullptr;
  int (*variadic_input_homogeneity)(const CustomOp*) = nullptr;
  int (*variadic_output_min)(const CustomOp*) = nullptr;
  int (*variadic_output_homogeneity)(const CustomOp*) = nullptr;
  Status* (*create)(const CustomOp*, const void* api, const KernelInfo*, void** kernel) = nullptr;
  Status* (*compute)(void* kernel, KernelContext*) = nullptr;
  Status* (*infer_shape)(const CustomOp*, ShapeInferContext*) = nullptr;
  int (*start_version)(const CustomOp*) = nullptr;
  int (*end_version)(const CustomOp*) = nullptr;
  std::size_t (*may_inplace)(int** inputs, int** outputs) = nullptr;
  void (*release_may_inplace)(const int* inputs, const int* outputs) = nullptr;
  std::size_t (*aliases)(int** inputs, int** outputs) = nullptr;
  void (*release_aliases)(const int* inputs, const int* outputs) = nullptr;
};
static_assert(sizeof(void*) != 8 || sizeof(CustomOp) == 26 * 8);

}  // namespace rotary::ort
