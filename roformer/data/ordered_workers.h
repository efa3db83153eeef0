// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Background workers with results in order.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace rotary::roformer {

/// Several threads take items from `read` (one at a time, in order) and process them with `work` in
/// parallel; next() returns the results in the order of the items. At most `window` items are in
/// flight. next() rethrows an exception of read() or work() after all earlier results, and is then
/// at its end. Only one thread may call next().
template <typename In, typename Out>
class OrderedWorkers {
 public:
  /// Reads the next item; false at the end.
  using Read = std::function<bool(In&)>;
  using Work = std::function<void(In&, Out&)>;

  OrderedWorkers(Read read, Work work, std::size_t threads, std::size_t window)
      : read_(std::move(read)), work_(std::move(work)), window_(window > 0 ? window : 1) {
    try {
      for (std::size_t i = 0; i < (threads > 0 ? threads : 1); ++i) {
        threads_.emplace_back([this] { run(); });
      }
    } catch (...) {
      stop();
      throw;
    }
  }

  ~OrderedWorkers() { stop(); }
  OrderedWorkers(const OrderedWorkers&) = delete;
  OrderedWorkers& operator=(const OrderedWorkers&) = delete;

  /// False after the last result.
  bool next(Out& out) {
    std::unique_lock lock(mutex_);
    done_.wait(lock,
               [&] { return results_.contains(returned_) || (ended_ && returned_ == taken_); });
    const auto at = results_.find(returned_);
    if (at == results_.end()) return false;
    if (at->second.error) std::rethrow_exception(at->second.error);
    out = std::move(at->second.value);
    results_.erase(at);
    ++returned_;
    lock.unlock();
    not_full_.notify_all();
    return true;
  }

 private:
  struct Result {
    Out value{};
    std::exception_ptr error{};
  };

  void run() {
    while (true) {
      In item{};
      std::uint64_t number = 0;
      Result result;
      {
        // Held during read(), so that items are numbered in order.
        const std::lock_guard reading(read_mutex_);
        {
          std::unique_lock lock(mutex_);
          not_full_.wait(lock, [&] { return ended_ || taken_ - returned_ < window_; });
          if (ended_) return;
          number = taken_;
        }
        bool more = false;
        try {
          more = read_(item);
        } catch (...) {
          result.error = std::current_exception();
        }
        const std::lock_guard lock(mutex_);
        if (!more) ended_ = true;
        if (more || result.error) ++taken_;
        if (ended_ && !result.error) {
          done_.notify_all();
          not_full_.notify_all();
          return;
        }
      }
      if (!result.error) {
        try {
          work_(item, result.value);
        } catch (...) {
          result.error = std::current_exception();
        }
      }
      {
        const std::lock_guard lock(mutex_);
        if (result.error) ended_ = true;
        results_.emplace(number, std::move(result));
      }
      done_.notify_all();
      not_full_.notify_all();
    }
  }

  void stop() noexcept {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    not_full_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  Read read_;
  Work work_;
  std::size_t window_;
  std::mutex read_mutex_;
  std::mutex mutex_;
  std::condition_variable not_full_;
  std::condition_variable done_;
  std::map<std::uint64_t, Result> results_;
  std::uint64_t taken_ = 0;
  std::uint64_t returned_ = 0;
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

/// Prefetching: one thread calls make() ahead, up to `depth` results.
template <typename T>
class Prefetch {
 public:
  Prefetch(std::function<bool(T&)> make, std::size_t depth)
      : workers_(std::move(make), [](T& in, T& out) { out = std::move(in); }, 1, depth) {}

  bool next(T& out) { return workers_.next(out); }

 private:
  OrderedWorkers<T, T> workers_;
};

}  // namespace rotary::roformer
