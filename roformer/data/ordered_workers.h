// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Work done ahead in the background, handed out in order.
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

/// Several threads take items from `read`, one at a time and in order, and turn them into results
/// with `work`, at the same time; next() gives the results in the order of the items. At most
/// `window` results are under way or waiting. What read() or work() throws is thrown by next() in
/// its turn, after the results before it; nothing follows. One thread calls next().
template <typename In, typename Out>
class OrderedWorkers {
 public:
  /// Gives the next item, or false if there is none.
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
    done_.wait(lock, [&] { return results_.contains(given_) || (ended_ && given_ == taken_); });
    const auto at = results_.find(given_);
    if (at == results_.end()) return false;
    if (at->second.error) std::rethrow_exception(at->second.error);
    out = std::move(at->second.value);
    results_.erase(at);
    ++given_;
    lock.unlock();
    room_.notify_all();
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
        // Held while an item is read: items are taken in order.
        const std::lock_guard reading(read_mutex_);
        {
          std::unique_lock lock(mutex_);
          room_.wait(lock, [&] { return ended_ || taken_ - given_ < window_; });
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
          room_.notify_all();
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
      room_.notify_all();
    }
  }

  void stop() noexcept {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    room_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  Read read_;
  Work work_;
  std::size_t window_;
  std::mutex read_mutex_;
  std::mutex mutex_;
  std::condition_variable room_;
  std::condition_variable done_;
  std::map<std::uint64_t, Result> results_;
  std::uint64_t taken_ = 0;
  std::uint64_t given_ = 0;
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

/// One thread that calls make() ahead, at most `depth` results.
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
