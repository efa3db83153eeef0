// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The custom operator rotary.Rotate of onnxruntime: exact angles, without a cache of cos and sin.
//
//   Y = Rotate(X, positions)    attribute rope: see rope_attribute.h
//   X, Y       [batch, heads, tokens, head_dim] or [batch, tokens, heads * head_dim], of float32,
//              float16, bfloat16 or float64
//   positions  int64 [tokens] or [batch, tokens], of a rope of several axes [axes, batch, tokens];
//              batch may be 1 for all rows. Any number, negative ones too.
//
// A recipe that depends on the context in use (LongRoPE, dynamic NTK) takes the largest position of
// a call, plus 1, as transformers does.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "python/onnx_op/ort_abi.h"
#include "python/onnx_op/rope_attribute.h"
#include "rotary/rope.h"

namespace rotary::onnx {
namespace {

using ort::Api;
using ort::CustomOp;
using ort::ElementType;
using ort::Status;

constexpr const char* kDomain = "rotary";
constexpr const char* kName = "Rotate";

/// Runs `function` and makes a status of what it throws.
template <typename Function>
Status* guard(const Api& api, const Function& function) noexcept {
  try {
    function();
    return nullptr;
  } catch (const ort::StatusError& error) {
    return error.status;
  } catch (const std::exception& error) {
    return api.create_status(ort::ErrorCode::kInvalidArgument, error.what());
  }
}

std::vector<std::int64_t> shape_of(const Api& api, const ort::Value* value) {
  ort::TypeAndShapeInfo* info = api.type_and_shape(value);
  std::vector<std::int64_t> dims;
  Status* status = guard(api, [&] {
    dims.resize(api.rank(info));
    api.dims(info, dims.data(), dims.size());
  });
  api.release(info);
  if (status != nullptr) throw ort::StatusError{status};
  return dims;
}

std::string text_of(std::span<const std::int64_t> dims) {
  std::string text = "[";
  for (const std::int64_t dim : dims) {
    text.append(text.size() > 1 ? ", " : "").append(std::to_string(dim));
  }
  return text + "]";
}

/// X as [batch, tokens, heads, head_dim].
ConstTensorView view_of(const void* data, DType dtype, std::span<const std::int64_t> dims,
                        std::int64_t head_dim) {
  if (dims.size() == 4 && dims[3] == head_dim) {
    ConstTensorView view =
        ConstTensorView::contiguous(data, dtype, {dims[0], dims[2], dims[1], head_dim});
    view.strides = {dims[1] * dims[2] * head_dim, head_dim, dims[2] * head_dim, 1};
    return view;
  }
  if (dims.size() == 3 && dims[2] % head_dim == 0) {
    return ConstTensorView::contiguous(data, dtype,
                                       {dims[0], dims[1], dims[2] / head_dim, head_dim});
  }
  const std::string head = std::to_string(head_dim);
  throw std::invalid_argument("[Rotate] X must be [batch, heads, tokens, " + head +
                              "] or [batch, tokens, heads * " + head + "], got " + text_of(dims));
}

/// Positions as [axes, batch, tokens].
ConstTensorView positions_of(const std::int64_t* data, std::span<const std::int64_t> dims,
                             std::int64_t axes, std::int64_t batch, std::int64_t tokens) {
  const std::size_t leading = axes == 1 ? 0 : 1;
  const bool has_rows = dims.size() == leading + 2;
  const bool fits = (has_rows || (axes == 1 && dims.size() == 1)) && dims.back() == tokens &&
                    (leading == 0 || dims[0] == axes) &&
                    (!has_rows || dims[leading] == batch || dims[leading] == 1);
  if (!fits) {
    const std::array<std::int64_t, 3> wanted = {axes, batch, tokens};
    throw std::invalid_argument("[Rotate] positions must be " +
                                text_of(std::span(wanted).subspan(axes == 1 ? 1 : 0)) + ", got " +
                                text_of(dims));
  }
  const std::int64_t rows = has_rows ? dims[leading] : 1;
  ConstTensorView view = ConstTensorView::contiguous(data, DType::kInt64, {axes, batch, tokens});
  view.strides = {rows * tokens, rows == 1 ? 0 : tokens, 1, 0};
  return view;
}

/// What a node keeps between calls, which may come from several threads.
class Kernel {
 public:
  Kernel(const Api& api, DType dtype, std::string_view rope)
      : api_(api), dtype_(dtype), attribute_(rope), rope_(attribute_.make_rope(0)) {}

  Status* compute(ort::KernelContext* context) {
    return guard(api_, [&] { rotate(context); });
  }

 private:
  void rotate(ort::KernelContext* context) {
    const ort::Value* x = api_.input(context, 0);
    const ort::Value* positions = api_.input(context, 1);
    const std::vector<std::int64_t> dims = shape_of(api_, x);
    const std::vector<std::int64_t> ids = shape_of(api_, positions);
    const ConstTensorView in = view_of(api_.data(x), dtype_, dims, attribute_.head_dim());
    const ConstTensorView at = positions_of(static_cast<const std::int64_t*>(api_.data(positions)),
                                            ids, attribute_.axes(), in.shape[0], in.shape[1]);
    ort::Value* y = api_.output(context, 0, dims.data(), dims.size());
    const TensorView out{api_.data(y), in.dtype, in.rank, in.shape, in.strides, in.device};
    if (in.num_elements() == 0) return;
    rope_for(at, ids).with_threads(session_threads(context)).rotate(in, out, Positions::ids(at));
  }

  Rope rope_for(const ConstTensorView& at, std::span<const std::int64_t> dims) {
    if (!attribute_.depends_on_context()) return rope_;
    std::int64_t count = 1;
    for (const std::int64_t dim : dims) count *= dim;
    const auto* first = static_cast<const std::int64_t*>(at.data);
    const std::int64_t context =
        std::max<std::int64_t>(*std::max_element(first, first + count), 0) + 1;
    const std::lock_guard lock(mutex_);
    if (context != context_) {
      rope_ = attribute_.make_rope(context);
      context_ = context;
    }
    return rope_;
  }

  /// The session's threads: an application bounds them in one place.
  Threads session_threads(const ort::KernelContext* context) const {
    return {.run = [this, context](int tasks, const std::function<void(int)>& task) {
      const auto run = [](void* argument, std::size_t index) {
        (*static_cast<const std::function<void(int)>*>(argument))(static_cast<int>(index));
      };
      api_.parallel_for(context, run, static_cast<std::size_t>(tasks),
                        const_cast<std::function<void(int)>*>(&task));
    }};
  }

  Api api_;
  DType dtype_;
  RopeAttribute attribute_;
  std::mutex mutex_;
  Rope rope_;  // of context_
  std::int64_t context_ = 0;
};

/// The operator for one type of X.
struct RotateOp : CustomOp {
  RotateOp(ElementType element, DType own) : type(element), dtype(own) {
    name = [](const CustomOp*) { return kName; };
    execution_provider = [](const CustomOp*) -> const char* { return nullptr; };
    input_count = [](const CustomOp*) -> std::size_t { return 2; };
    output_count = [](const CustomOp*) -> std::size_t { return 1; };
    input_type = [](const CustomOp* op, std::size_t index) {
      return index == 0 ? static_cast<const RotateOp*>(op)->type : ElementType::kInt64;
    };
    output_type = [](const CustomOp* op, std::size_t) {
      return static_cast<const RotateOp*>(op)->type;
    };
    input_characteristic = output_characteristic =
        input_memory = [](const CustomOp*, std::size_t) { return 0; };
    variadic_input_min = variadic_input_homogeneity = variadic_output_min =
        variadic_output_homogeneity = [](const CustomOp*) { return 0; };
    create = &create_kernel_of;
    compute = [](void* kernel, ort::KernelContext* context) {
      return static_cast<Kernel*>(kernel)->compute(context);
    };
    destroy_kernel = [](void* kernel) { delete static_cast<Kernel*>(kernel); };
    infer_shape = &infer_shape_of;
    may_inplace = [](int** inputs, int** outputs) -> std::size_t {
      *inputs = new int[1]{0};
      *outputs = new int[1]{0};
      return 1;
    };
    release_may_inplace = [](const int* inputs, const int* outputs) {
      delete[] inputs;
      delete[] outputs;
    };
  }

  static Status* create_kernel_of(const CustomOp* op, const void* table,
                                  const ort::KernelInfo* info, void** kernel) {
    const Api api(table);
    return guard(api, [&] {
      std::size_t size = 0;
      std::string text;
      bool found = api.string_attribute(info, "rope", nullptr, &size);
      if (found) {
        text.resize(size);
        found = api.string_attribute(info, "rope", text.data(), &size);
      }
      if (!found) throw std::invalid_argument("[Rotate] the node needs the attribute rope");
      text.resize(text.find_last_not_of('\0') + 1);
      *kernel = new Kernel(api, static_cast<const RotateOp*>(op)->dtype, text);
    });
  }

  /// Y has the shape of X, which lets onnxruntime rotate in place.
  static Status* infer_shape_of(const CustomOp* op, ort::ShapeInferContext* context) {
    const Api& api = *static_cast<const RotateOp*>(op)->api;
    return guard(api, [&] {
      ort::TypeAndShapeInfo* shape = api.input_shape(context, 0);
      if (api.rank(shape) == 0) return;  // not known at all
      name_unknown_dims(api, shape);
      api.set_output_shape(context, 0, shape);
    });
  }

  /// onnxruntime would take dims without a number and a name for -1. Names of ours occur once.
  static void name_unknown_dims(const Api& api, ort::TypeAndShapeInfo* shape) {
    static std::atomic<std::uint64_t> counter{0};
    std::vector<std::int64_t> dims(api.rank(shape));
    std::vector<const char*> names(dims.size());
    std::vector<std::string> own(dims.size());
    api.dims(shape, dims.data(), dims.size());
    api.dim_names(shape, names.data(), names.size());
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] >= 0 || *names[i] != '\0') continue;
      own[i] = "rotary_dim_" + std::to_string(counter++);
      names[i] = own[i].c_str();
    }
    api.set_dim_names(shape, names.data(), names.size());
  }

  ElementType type;
  DType dtype;
  const Api* api = nullptr;
};

/// Adds the operators to the options of a session. They live as long as the library.
void register_ops(const Api& api, ort::SessionOptions* options) {
  static const Api kApi = api;
  static std::array<RotateOp, 4> ops = {RotateOp(ElementType::kFloat32, DType::kFloat32),
                                        RotateOp(ElementType::kFloat16, DType::kFloat16),
                                        RotateOp(ElementType::kBFloat16, DType::kBFloat16),
                                        RotateOp(ElementType::kFloat64, DType::kFloat64)};
  static ort::CustomOpDomain* const kRegistered = [] {
    ort::CustomOpDomain* domain = kApi.create_domain(kDomain);
    for (RotateOp& op : ops) {
      op.api = &kApi;
      kApi.add(domain, &op);
    }
    return domain;
  }();
  kApi.add(options, kRegistered);
}

}  // namespace
}  // namespace rotary::onnx

/// Called by SessionOptions.register_custom_ops_library().
extern "C" __attribute__((visibility("default"))) rotary::ort::Status*
RegisterCustomOps(  // NOLINT(readability-identifier-naming): the name is onnxruntime's
    rotary::ort::SessionOptions* options, const rotary::ort::ApiBase* base) {
  using rotary::ort::Api;
  const void* table = base->get_api(rotary::ort::kApiVersion);
  if (table == nullptr) {
    const std::string message =
        std::string("rotary needs onnxruntime 1.18 or newer, got ") + base->get_version();
    return Api(base->get_api(1)).create_status(rotary::ort::ErrorCode::kFail, message.c_str());
  }
  const Api api(table);
  return rotary::onnx::guard(api, [&] { rotary::onnx::register_ops(api, options); });
}
