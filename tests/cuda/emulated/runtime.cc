// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The fibers of emulated blocks, CUDA's runtime on host memory, and what is not emulated.

#undef _FORTIFY_SOURCE  // whose longjmp() does not leave a stack
#include <dlfcn.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "cuda/fused_params.h"
#include "cuda/gradient.h"
#include "cuda/rotate.h"
#include "launches.h"

namespace rotary::internal::cuda {

// As kernels declare them (prelude.h), in all of which these are the same bytes.
alignas(16) float memory[];
alignas(16) double totals[];

}  // namespace rotary::internal::cuda

namespace emulated {
namespace {

constexpr std::size_t kStackBytes = 256 * 1024;
constexpr std::size_t kMaxSharedBytes = 256 * 1024;  // a multiple of every page

/// Bytes that end at a page without access.
class GuardedMemory {
 public:
  GuardedMemory() {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* const begin = mmap(nullptr, kMaxSharedBytes + page, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (begin == MAP_FAILED) std::abort();
    end_ = static_cast<char*>(begin) + kMaxSharedBytes;
    if (mprotect(end_, page, PROT_NONE) != 0) std::abort();
  }
  char* last(std::size_t bytes) const { return end_ - bytes; }

 private:
  char* end_;
};

struct SharedMemory {
  GuardedMemory guarded;
  std::size_t bytes = 0;
};

SharedMemory& shared_memory() {
  static SharedMemory all;
  return all;
}

struct Copy {
  void* to;
  const void* from;
};
constexpr std::size_t kCopyBytes = 16;
constexpr int kNoValue = 0xff;  // of every byte: NaN in all types

struct Barrier {
  int arrived = 0;
  unsigned generation = 0;
};

struct Fiber {
  ucontext_t context{};
  jmp_buf point{};  // where it goes on; changing so costs no system call
  bool started = false;
  std::unique_ptr<char[]> stack = std::unique_ptr<char[]>(new char[kStackBytes]);
  uint3 index{};
  int lane = 0;
  int warp = 0;
  bool done = false;
  std::vector<Copy> started_copies;      // of no group yet
  std::deque<std::vector<Copy>> groups;  // of copies, the oldest first
};

struct Block {
  std::vector<Fiber> fibers;
  std::vector<int> lanes_left;  // of each warp
  std::vector<Barrier> warps;
  std::vector<std::uint64_t> slots;
  Barrier all;
  int left = 0;
  Fiber* current = nullptr;
  jmp_buf scheduler{};
  std::size_t next = 0;
  const std::function<void()>* thread = nullptr;
};

Block block;
std::vector<const void*> launches;

void yield() {
  if (_setjmp(block.current->point) == 0) _longjmp(block.scheduler, 1);
}

/// Runs a fiber until it yields.
void resume(Fiber& fiber) {
  block.current = &fiber;
  threadIdx = fiber.index;
  if (_setjmp(block.scheduler) != 0) return;
  if (fiber.started) _longjmp(fiber.point, 1);
  fiber.started = true;
  setcontext(&fiber.context);
}

void wait(Barrier& barrier, const int& expected) {
  const unsigned mine = barrier.generation;
  ++barrier.arrived;
  while (barrier.generation == mine) {
    if (barrier.arrived >= expected) {
      barrier.arrived = 0;
      ++barrier.generation;
      return;
    }
    yield();
  }
}

void enter() {
  (*block.thread)();
  block.current->done = true;
  --block.left;
  --block.lanes_left[static_cast<std::size_t>(block.current->warp)];
  yield();
}

}  // namespace

void record_launch(const void* kernel) { launches.push_back(kernel); }

std::vector<std::string> take_launches() {
  std::vector<std::string> names;
  for (const void* kernel : launches) {
    Dl_info info{};
    const bool is_known = dladdr(kernel, &info) != 0 && info.dli_sname != nullptr;
    names.emplace_back(is_known ? info.dli_sname : "unknown");
  }
  launches.clear();
  return names;
}

void block_barrier() { wait(block.all, block.left); }
void warp_barrier() {
  const auto warp = static_cast<std::size_t>(block.current->warp);
  wait(block.warps[warp], block.lanes_left[warp]);
}
std::uint64_t* warp_slots() { return block.slots.data() + 32 * block.current->warp; }
int current_lane() { return block.current->lane; }

bool allocate_shared(std::size_t bytes) {
  using namespace rotary::internal::cuda;
  SharedMemory& shared = shared_memory();
  shared.bytes = (bytes + 15) / 16 * 16;
  if (shared.bytes > kMaxSharedBytes) return false;
  char* const begin = shared.guarded.last(shared.bytes);
  memory_of_block = reinterpret_cast<decltype(memory_of_block)>(begin);
  totals_of_block = reinterpret_cast<decltype(totals_of_block)>(begin);
  return true;
}

void start_copy(void* to, const void* from) {
  std::memset(to, kNoValue, kCopyBytes);
  block.current->started_copies.push_back({to, from});
}
void commit_copies() {
  Fiber& thread = *block.current;
  thread.groups.push_back(std::move(thread.started_copies));
  thread.started_copies.clear();
}
void wait_for_copies(std::size_t pending) {
  std::deque<std::vector<Copy>>& groups = block.current->groups;
  for (; groups.size() > pending; groups.pop_front()) {
    for (const Copy& copy : groups.front()) std::memcpy(copy.to, copy.from, kCopyBytes);
  }
}

void run_block(const dim3& shape, const std::function<void()>& thread) {
  const std::size_t count = static_cast<std::size_t>(shape.x) * shape.y * shape.z;
  const std::size_t warps = (count + 31) / 32;
  if (block.fibers.size() < count) block.fibers.resize(count);
  block.lanes_left.assign(warps, 0);
  block.warps.assign(warps, {});
  block.slots.assign(32 * warps, 0);
  block.all = {};
  block.left = static_cast<int>(count);
  block.thread = &thread;
  const SharedMemory& shared = shared_memory();
  std::memset(shared.guarded.last(shared.bytes), kNoValue, shared.bytes);
  for (std::size_t i = 0; i < count; ++i) {
    Fiber& fiber = block.fibers[i];
    const auto at = static_cast<unsigned>(i);
    fiber.index = {at % shape.x, at / shape.x % shape.y, at / (shape.x * shape.y)};
    fiber.lane = static_cast<int>(i % 32);
    fiber.warp = static_cast<int>(i / 32);
    fiber.done = false;
    fiber.started = false;
    fiber.started_copies.clear();
    fiber.groups.clear();
    ++block.lanes_left[i / 32];
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, enter, 0);
  }
  while (block.left > 0) {
    for (block.next = 0; block.next < count; ++block.next) {
      Fiber& fiber = block.fibers[block.next];
      if (!fiber.done) resume(fiber);
    }
  }
}

}  // namespace emulated

extern "C" {
cudaError_t cudaMalloc(void** to, std::size_t bytes) {
  *to = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return cudaSuccess;
}
cudaError_t cudaFree(void* from) {
  std::free(from);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int byte, std::size_t bytes) {
  std::memset(to, byte, bytes);
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "emulated"; }
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
}

// The kernels of other calls are not emulated.
namespace rotary::internal::cuda {

cudaError_t rotate(const SimpleParams&, cudaStream_t) noexcept { return cudaErrorNotSupported; }
cudaError_t rotate(const TableParams&, cudaStream_t) noexcept { return cudaErrorNotSupported; }
cudaError_t rotate(const GeneralParams&, cudaStream_t) noexcept { return cudaErrorNotSupported; }
cudaError_t reorder(const KernelParams&, cudaStream_t) noexcept { return cudaErrorNotSupported; }
cudaError_t cos_sin(const CosSinParams&, cudaStream_t) noexcept { return cudaErrorNotSupported; }
cudaError_t launch_gradient(const GradientParams&, bool, cudaStream_t) noexcept {
  return cudaErrorNotSupported;
}

}  // namespace rotary::internal::cuda

namespace rotary::internal {

std::size_t gradient_workspace_on_cuda(std::int64_t, std::int64_t, std::int64_t,
                                       std::int64_t) noexcept {
  return 0;
}

}  // namespace rotary::internal
