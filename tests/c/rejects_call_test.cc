// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Calls that the C API rejects: errors specific to C with messages of its own, the rest with those
// of C++.

#include <sys/resource.h>

#include <cstddef>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "c/rejects.h"
#include "rotary/cuda.h"

namespace rotary::rejects_call_test {
namespace {

TEST_F(CApiRejects, InvalidTensors) {
  const auto with = [&](auto member, auto value) {
    rotary_tensor tensor = c_tensor(q());
    tensor.*member = value;
    return tensor;
  };
  rejects(with(&rotary_tensor::dtype, 0), "in[0].dtype must be 1 to 9, got 0");
  rejects(with(&rotary_tensor::dtype, 10), "in[0].dtype must be 1 to 9, got 10");
  rejects(with(&rotary_tensor::dtype, -1), "in[0].dtype must be 1 to 9, got -1");
  rejects(with(&rotary_tensor::device_type, 2), "in[0].device_type must be 0 to 1, got 2");

  // The C++ API rejects the rest.
  const auto same = [&](const rotary_tensor& tensor, auto change) {
    TensorView view = q();
    change(view);
    expect_same_error(rotate(tensor), [&] { cpp().rotate(view, Positions::range(1)); });
  };
  same(with(&rotary_tensor::dtype, ROTARY_DTYPE_INT32), [](auto& v) { v.dtype = DType::kInt32; });
  same(with(&rotary_tensor::dtype, ROTARY_DTYPE_FLOAT8_E4M3),
       [](auto& v) { v.dtype = DType::kFloat8E4M3; });
  same(with(&rotary_tensor::dtype, ROTARY_DTYPE_FLOAT8_E5M2),
       [](auto& v) { v.dtype = DType::kFloat8E5M2; });
  same(with(&rotary_tensor::rank, 2), [](auto& v) { v.rank = 2; });
  same(with(&rotary_tensor::rank, 5), [](auto& v) { v.rank = 5; });
  same(with(&rotary_tensor::rank, -1), [](auto& v) { v.rank = -1; });
  same(with(&rotary_tensor::data, nullptr), [](auto& v) { v.data = nullptr; });
  rotary_tensor tensor = c_tensor(q());
  tensor.shape[3] = 6;
  same(tensor, [](auto& v) { v.shape[3] = 6; });
  tensor = c_tensor(q());
  tensor.strides[0] = 0;
  same(tensor, [](auto& v) { v.strides[0] = 0; });
  tensor.shape[0] = -1;
  same(tensor, [](auto& v) { v.strides[0] = 0, v.shape[0] = -1; });

  // Too many dimensions for rotary_tensor_contiguous.
  const std::int64_t shape[] = {1, 1, 1, 1, 8};
  float x = 0.0F;
  tensor = rotary_tensor_contiguous(&x, ROTARY_DTYPE_FLOAT32, 5, shape);
  same(tensor, [](auto& v) { v.rank = 5; });
}

TEST_F(CApiRejects, CudaTensorsWithoutGpu) {
  // Rejected with or without a GPU: input on the host, output on the device.
  TensorView there = q();
  there.device = {DeviceType::kCuda, 3};
  const rotary_tensor host = c_tensor(q());
  const rotary_tensor cuda = c_tensor(there);
  const rotary_positions p = rotary_positions_range(1);
  expect_same_error(rotary_rope_rotate(c(), &host, &cuda, 1, &p),
                    [&] { cpp().rotate(q(), there, Positions::range(1)); });
  if (cuda_device_count() > 0) return;  // a kernel would get host memory
  expect_same_error(
      rotate(cuda), [&] { cpp().rotate(there, Positions::range(1)); },
      has_cuda() ? ROTARY_CUDA_ERROR : ROTARY_INVALID_ARGUMENT);
  if (!has_cuda()) {
    EXPECT_STREQ(rotary_last_error(),
                 "[rotate] this build rotates on the CPU only, got a CUDA tensor");
  }
}

TEST_F(CApiRejects, MisplacedOutScale) {
  const float scale = 2.0F;
  rotary_tensor x = c_tensor(q());
  x.out_scale = &scale;
  // It is passed to C++ with the output, in place or not.
  expect_same_error(rotate(x),
                    [&] { cpp().rotate(Operand(q(), q(), &scale), Positions::range(1)); });
  QueryAndKey other;
  const rotary_tensor in = c_tensor(other.q());
  const rotary_positions p = rotary_positions_range(1);
  expect_same_error(rotary_rope_rotate(c(), &in, &x, 1, &p),
                    [&] { cpp().rotate(Operand(other.q(), q(), &scale), Positions::range(1)); });
  TensorView narrow = q();
  narrow.dtype = DType::kFloat8E4M3;
  x.dtype = ROTARY_DTYPE_FLOAT8_E4M3;
  expect_same_error(rotary_rope_rotate(c(), &in, &x, 1, &p),
                    [&] { cpp().rotate(Operand(other.q(), narrow, &scale), Positions::range(1)); });

  // Other tensors must not have one.
  const auto rejects = [](rotary_status status, const std::string& function,
                          const std::string& name) {
    expect_failed(
        status, ROTARY_INVALID_ARGUMENT,
        "[" + function + "] " + name + ".out_scale must be NULL: only results of rotations are");
  };
  x = c_tensor(q());
  x.out_scale = &scale;
  rejects(rotary_rope_rotate(c(), &x, &in, 1, &p), "rotary_rope_rotate", "in[0]");
  rejects(rotary_rope_gradient(c(), &x, &in, nullptr, 1, &p, nullptr), "rotary_rope_gradient",
          "in[0]");
  rejects(rotary_rope_gradient(c(), &in, &in, &x, 1, &p, nullptr), "rotary_rope_gradient",
          "grad_in[0]");
  rejects(rotary_rope_cos_sin(c(), &x, &in, &p), "rotary_rope_cos_sin", "cosines");
  rejects(rotary_rope_cos_sin(c(), &in, &x, &p), "rotary_rope_cos_sin", "sines");
  rejects(rotate(rotary_positions_ids(&x)), "rotary_rope_rotate", "positions.ids");
  rejects(rotate(rotary_positions_at_view(&x)), "rotary_rope_rotate", "positions.first_view");
}

TEST_F(CApiRejects, InvalidTensorLists) {
  const rotary_positions p = rotary_positions_range(1);
  const std::vector<rotary_tensor> many(17, c_tensor(q()));
  for (const std::int64_t count : {std::int64_t{-1}, std::int64_t{17}, std::int64_t{1} << 62}) {
    expect_failed(
        rotary_rope_rotate(c(), many.data(), nullptr, count, &p), ROTARY_INVALID_ARGUMENT,
        "[rotary_rope_rotate] count must be 0 to 16 tensors, got " + std::to_string(count));
    expect_failed(rotary_rope_gradient(c(), many.data(), many.data(), nullptr, count, &p, nullptr),
                  ROTARY_INVALID_ARGUMENT,
                  "[rotary_rope_gradient] count must be 0 to 16 tensors, got ");
  }
  // Twice the same memory.
  expect_same_error(rotary_rope_rotate(c(), many.data(), nullptr, 2, &p),
                    [&] { cpp().rotate({q(), q()}, Positions::range(1)); });
  // The second has no type; the first stays unchanged.
  std::vector<rotary_tensor> both{c_tensor(q()), c_tensor(k())};
  std::vector<rotary_tensor> outs = both;
  outs[1].dtype = 0;
  expect_failed(rotary_rope_rotate(c(), both.data(), outs.data(), 2, &p), ROTARY_INVALID_ARGUMENT,
                "[rotary_rope_rotate] out[1].dtype must be 1 to 9, got 0");
  // Outputs of another shape.
  outs = {c_tensor(k()), c_tensor(q())};
  expect_same_error(rotary_rope_adjoint(c(), both.data(), outs.data(), 2, &p),
                    [&] { cpp().adjoint({{q(), k()}, {k(), q()}}, Positions::range(1)); });
}

TEST_F(CApiRejects, InvalidCosSin) {
  std::vector<float> values(2 * 5 * 4);
  const auto view = [&](std::size_t at, std::initializer_list<std::int64_t> shape) {
    return TensorView::contiguous(&values[at], DType::kFloat32, shape);
  };
  const auto same = [&](const TensorView& cos, const TensorView& sin) {
    const rotary_tensor cosines = c_tensor(cos);
    const rotary_tensor sines = c_tensor(sin);
    const rotary_positions p = rotary_positions_range(1);
    expect_same_error(rotary_rope_cos_sin(c(), &cosines, &sines, &p),
                      [&] { cpp().cos_sin(cos, sin, Positions::range(1)); });
  };
  same(view(0, {5, 4}), view(0, {5, 4}));   // the same memory
  same(view(0, {5, 4}), view(20, {4, 4}));  // another shape
  same(view(0, {5, 3}), view(20, {5, 3}));  // of four pairs
  same(view(0, {5}), view(20, {5}));        // no columns
  TensorView cuda = view(20, {5, 4});
  cuda.device.type = DeviceType::kCuda;
  same(view(0, {5, 4}), cuda);
  TensorView float8 = view(0, {5, 4});
  float8.dtype = DType::kFloat8E4M3;
  same(float8, float8);
  EXPECT_EQ(values, std::vector<float>(values.size()));
}

TEST_F(CApiRejects, InvalidRerotateAndGradient) {
  const rotary_head_layout layout = rotary_head_layout_init(8, ROTARY_PAIRING_HALF);
  rotary_rope* made = nullptr;
  ROTARY_EXPECT_OK(rotary_rope_from_theta(4, 100.0, &layout, nullptr, &made));
  const CRope narrow(made);
  const rotary_tensor x = c_tensor(q());
  const rotary_positions p = rotary_positions_range(1);
  const Rope cpp_narrow(make_frequencies({.rotary_dim = 4, .theta = 100}),
                        {.head_dim = 8, .pairing = Pairing::kHalf});
  expect_same_error(rotary_rope_rerotate(c(), narrow.get(), &x, nullptr, 1, &p),
                    [&] { rerotate(q(), cpp(), cpp_narrow, Positions::range(1)); });

  std::vector<double> too_few(3);
  rotary_gradients gradients = rotary_gradients_init();
  gradients.frequencies = too_few.data();
  gradients.num_frequencies = 3;
  const std::vector<GradientOperand> operands{{.in = q(), .grad_out = q()}};
  expect_same_error(rotary_rope_gradient(c(), &x, &x, nullptr, 1, &p, &gradients), [&] {
    cpp().gradient(operands, Positions::range(1), {.frequencies = too_few});
  });
  gradients.num_frequencies = -1;
  expect_failed(rotary_rope_gradient(c(), &x, &x, nullptr, 1, &p, &gradients),
                ROTARY_INVALID_ARGUMENT,
                "[rotary_rope_gradient] gradients.num_frequencies must not be negative, got -1");
  expect_same_error(rotary_rope_gradient(c(), nullptr, nullptr, nullptr, 0, &p, nullptr),
                    [&] { cpp().gradient({}, Positions::range(1)); });

  // A workspace in the memory of a tensor.
  double scale = 0.0;
  gradients = rotary_gradients_init();
  gradients.scale = &scale;
  gradients.workspace = q().data;
  gradients.workspace_size = 256;
  expect_same_error(rotary_rope_gradient(c(), &x, &x, nullptr, 1, &p, &gradients), [&] {
    cpp().gradient(operands, Positions::range(1),
                   {.scale = &scale, .workspace = {static_cast<std::byte*>(q().data), 256}});
  });
  std::size_t bytes = 77;
  expect_failed(rotary_rope_gradient_workspace(c(), -1, 5, &bytes), ROTARY_INVALID_ARGUMENT,
                "[rotary_rope_gradient_workspace] batch must not be negative, got -1");
  expect_failed(rotary_rope_gradient_workspace(c(), 2, -5, &bytes), ROTARY_INVALID_ARGUMENT,
                "[rotary_rope_gradient_workspace] tokens must not be negative, got -5");
  EXPECT_EQ(bytes, 77u);
}

#if defined(__has_feature)
#define ROTARY_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ROTARY_SANITIZED 1
#else
#define ROTARY_SANITIZED 0
#endif

#if !ROTARY_SANITIZED  // sanitizers map more than any limit allows
TEST_F(CApiRejects, OutOfMemory) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit small = before;
  small.rlim_cur = rlim_t{1} << 33;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &small), 0);
  const rotary_head_layout layout = rotary_head_layout_init(8, ROTARY_PAIRING_HALF);
  rotary_rope_options options = rotary_rope_options_init();
  options.cache_policy = ROTARY_CACHE_HYBRID;
  options.cache_positions = std::int64_t{1} << 34;  // 2^39 bytes
  rotary_rope* rope = nullptr;
  const rotary_status status = rotary_rope_from_theta(8, 100.0, &layout, &options, &rope);
  EXPECT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(rope, nullptr);
  expect_failed(status, ROTARY_OUT_OF_MEMORY, "out of memory");
}
#endif

// ---- The message --------------------------------------------------------------------------------

TEST_F(CApiRejects, KeepsTheMessageUntilTheNextFailure) {
  rotary_tensor bad = c_tensor(q());
  bad.dtype = 0;
  EXPECT_EQ(rotate(bad), ROTARY_INVALID_ARGUMENT);
  const std::string text = rotary_last_error();
  rotary_frequencies f = rotary_frequencies_init(nullptr, 0, 0);
  EXPECT_EQ(rotary_rope_get_frequencies(c(), &f), ROTARY_OK);
  EXPECT_EQ(rotary_last_error(), text);
  bad.dtype = 10;
  EXPECT_EQ(rotate(bad), ROTARY_INVALID_ARGUMENT);
  EXPECT_NE(rotary_last_error(), text);
}

TEST_F(CApiRejects, WithNamedStatuses) {
  EXPECT_STREQ(rotary_status_name(ROTARY_OK), "ok");
  EXPECT_STREQ(rotary_status_name(ROTARY_INVALID_ARGUMENT), "invalid argument");
  EXPECT_STREQ(rotary_status_name(ROTARY_IO_ERROR), "io error");
  EXPECT_STREQ(rotary_status_name(ROTARY_OUT_OF_MEMORY), "out of memory");
  EXPECT_STREQ(rotary_status_name(ROTARY_INTERNAL_ERROR), "internal error");
  EXPECT_STREQ(rotary_status_name(ROTARY_CUDA_ERROR), "cuda error");
  EXPECT_STREQ(rotary_status_name(6), "unknown status");
  EXPECT_STREQ(rotary_status_name(-1), "unknown status");
}

}  // namespace
}  // namespace rotary::rejects_call_test
