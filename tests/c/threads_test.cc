// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Handles shared by threads, thread pools of the caller, and one error message per thread.

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "c/c_testing.h"

namespace rotary {
namespace {

/// Large enough for several threads.
constexpr std::int64_t kTokens = 2048;
constexpr std::int64_t kHeads = 8;
constexpr std::int64_t kHeadDim = 64;

void fill(std::vector<float>& x) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1009) * 0.01F - 5.0F;
}

std::vector<float> some_floats() {
  std::vector<float> x(static_cast<std::size_t>(kTokens * kHeads * kHeadDim));
  fill(x);
  return x;
}

rotary_tensor tensor_of(std::vector<float>& x) {
  const std::int64_t shape[] = {kTokens, kHeads, kHeadDim};
  return rotary_tensor_contiguous(x.data(), ROTARY_DTYPE_FLOAT32, 3, shape);
}

CRope make_rope(const rotary_rope_options* options = nullptr) {
  const rotary_head_layout layout = rotary_head_layout_init(kHeadDim, ROTARY_PAIRING_HALF);
  rotary_rope* rope = nullptr;
  ROTARY_EXPECT_OK(rotary_rope_from_theta(kHeadDim, 10000.0, &layout, options, &rope));
  return CRope(rope);
}

/// On the calling thread alone.
std::vector<float> expected() {
  std::vector<float> x = some_floats();
  const rotary_threads one = rotary_threads_init(1);
  rotary_rope_options options = rotary_rope_options_init();
  options.threads = &one;
  const CRope rope = make_rope(&options);
  const rotary_tensor tensor = tensor_of(x);
  const rotary_positions positions = rotary_positions_range(7);
  ROTARY_EXPECT_OK(rotary_rope_rotate(rope.get(), &tensor, nullptr, 1, &positions));
  return x;
}

struct Pool {
  std::atomic<int> calls = 0;
  std::atomic<int> tasks = 0;
};

extern "C" {
static void run_on_pool(void* context, std::int32_t tasks, rotary_task task, void* task_context) {
  auto* pool = static_cast<Pool*>(context);
  ++pool->calls;
  pool->tasks += tasks;
  std::vector<std::thread> threads;
  for (std::int32_t i = tasks; i-- > 0;) {
    threads.emplace_back([task, task_context, i] { task(task_context, i); });
  }
  for (std::thread& thread : threads) thread.join();
}
}

TEST(CThreadsTest, CallsTheCallersPool) {
  Pool pool;
  rotary_threads threads = rotary_threads_init(3);
  threads.parallel_for = run_on_pool;
  threads.context = &pool;
  rotary_rope_options options = rotary_rope_options_init();
  options.threads = &threads;
  const CRope rope = make_rope(&options);
  const rotary_positions positions = rotary_positions_range(7);

  std::vector<float> x = some_floats();
  const rotary_tensor tensor = tensor_of(x);
  ROTARY_EXPECT_OK(rotary_rope_rotate(rope.get(), &tensor, nullptr, 1, &positions));
  EXPECT_EQ(x, expected());
  EXPECT_EQ(pool.calls, 1);
  EXPECT_EQ(pool.tasks, 3);

  rotary_rope_options asked = rotary_rope_options_init();
  ROTARY_EXPECT_OK(rotary_rope_get_options(rope.get(), &asked));
  EXPECT_EQ(asked.threads->count, 3);
  EXPECT_EQ(asked.threads->parallel_for, run_on_pool);
  EXPECT_EQ(asked.threads->context, &pool);

  // with_threads replaces it; with_inverse_growth keeps it.
  const rotary_threads two = rotary_threads_init(2);
  rotary_rope* copy = nullptr;
  ROTARY_EXPECT_OK(rotary_rope_with_threads(rope.get(), &two, &copy));
  const CRope on_two(copy);
  fill(x);
  ROTARY_EXPECT_OK(rotary_rope_rotate(on_two.get(), &tensor, nullptr, 1, &positions));
  EXPECT_EQ(x, expected());
  EXPECT_EQ(pool.calls, 1);
  ROTARY_EXPECT_OK(rotary_rope_get_options(on_two.get(), &asked));
  EXPECT_EQ(asked.threads->count, 2);
  EXPECT_EQ(asked.threads->parallel_for, nullptr);

  ROTARY_EXPECT_OK(rotary_rope_with_inverse_growth(rope.get(), &copy));
  const CRope keys(copy);
  fill(x);
  ROTARY_EXPECT_OK(rotary_rope_rotate(keys.get(), &tensor, nullptr, 1, &positions));
  EXPECT_EQ(x, expected());
  EXPECT_EQ(pool.calls, 2);
}

extern "C" {
static void throw_instead(void* context, std::int32_t, rotary_task, void*) {
  if (context == nullptr) throw 42;  // NOLINT: it is the point
  throw std::runtime_error(static_cast<const char*>(context));
}
}

TEST(CThreadsTest, AThrowingPoolIsAnError) {
  rotary_threads threads = rotary_threads_init(3);
  threads.parallel_for = throw_instead;
  char text[] = "no threads today";
  std::vector<float> x = some_floats();
  const rotary_tensor tensor = tensor_of(x);
  const rotary_positions positions = rotary_positions_range(7);
  for (void* context : {static_cast<void*>(text), static_cast<void*>(nullptr)}) {
    threads.context = context;
    rotary_rope_options options = rotary_rope_options_init();
    options.threads = &threads;
    const CRope rope = make_rope(&options);
    expect_failed(
        rotary_rope_rotate(rope.get(), &tensor, nullptr, 1, &positions), ROTARY_INTERNAL_ERROR,
        context != nullptr ? text : "an exception that is not a std::exception was thrown");
  }
}

TEST(CThreadsTest, OneRopeForAll) {
  const std::vector<float> right = expected();
  rotary_rope_options options = rotary_rope_options_init();
  options.cache_policy = ROTARY_CACHE_HYBRID;
  options.cache_positions = 1024;
  const CRope rope = make_rope(&options);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      std::vector<float> x = some_floats();
      const rotary_tensor tensor = tensor_of(x);
      const rotary_positions positions = rotary_positions_range(7);
      if (rotary_rope_rotate(rope.get(), &tensor, nullptr, 1, &positions) != ROTARY_OK) ++wrong;
      if (x != right) ++wrong;
      rotary_frequencies f = rotary_frequencies_init(nullptr, 0, 0);
      if (rotary_rope_get_frequencies(rope.get(), &f) != ROTARY_OK || f.pairs != 32) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(CThreadsTest, EachThreadHasItsMessage) {
  const CRope rope = make_rope();
  rotary_head_layout layout = rotary_head_layout_init(0, 0);
  layout.struct_size = 3;
  EXPECT_EQ(rotary_rope_get_layout(rope.get(), &layout), ROTARY_INVALID_ARGUMENT);
  const std::string mine = rotary_last_error();
  EXPECT_THAT(mine, testing::HasSubstr("got 3"));

  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&wrong, i] {
      if (std::string(rotary_last_error()) != "") ++wrong;  // none has failed on this thread
      const std::string path = "no/such/file/" + std::to_string(i);
      for (int times = 0; times < 50; ++times) {
        rotary_model* model = nullptr;
        if (rotary_model_read(path.c_str(), &model) != ROTARY_IO_ERROR) ++wrong;
        if (std::string(rotary_last_error()).find(path) != 0) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(rotary_last_error(), mine);
}

}  // namespace
}  // namespace rotary
