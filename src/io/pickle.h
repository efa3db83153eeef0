// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The pickles of torch.save(), as data: texts, numbers, containers, tensors and their storages.
//
// A pickle is a program for a stack machine that can call any function of Python. This machine
// knows the opcodes that torch.save() uses (protocol 2) and five functions, none of which it calls:
//
//   collections.OrderedDict()                              an empty dict
//   torch._utils._rebuild_tensor(storage, offset, size, stride), _rebuild_tensor_v2(the same, ...)
//   torch._utils._rebuild_parameter(tensor, ...), _rebuild_parameter_with_state(tensor, ...)
//   torch.FloatStorage and its kind                        the element type of a storage
//
// Anything else is an IoError. Values refer to each other by index, so that deep or circular ones
// cost no recursion; time and memory are linear in the pickle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace rotary::internal {

struct PickleLimits {
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 23;  // of one pickle
  static constexpr std::size_t kMaxStack = std::size_t{1} << 20;
  static constexpr std::size_t kMaxMemo = std::size_t{1} << 20;
  static constexpr std::size_t kMaxText = std::size_t{1} << 16;
};

/// An element type of torch: the name of its storage, and of its dtype in .safetensors.
struct StorageType {
  std::string_view name;
  std::string_view dtype;
  std::size_t element_size;
};

class Pickle {
 public:
  enum class Kind : std::uint8_t {
    kNone,
    kBoolean,
    kInteger,
    kLongInteger,  // of more than 64 bits: text() has its bytes, little endian
    kReal,         // not kept
    kText,
    kTuple,
    kList,
    kDict,
    kFunction,
    kStorageType,
    kStorage,
    kTensor,
  };
  struct Value {
    Kind kind = Kind::kNone;
    /// A boolean or an integer, else an index.
    std::int64_t payload = 0;
  };
  /// A range of the elements of a storage, which is stored elsewhere under its key.
  struct Storage {
    const StorageType* type = nullptr;
    std::string_view key{};
    std::int64_t num_elements = 0;
    /// Storages that were views of others, in old files: the part that this one is.
    std::int64_t first = 0;
    std::int64_t view_elements = 0;
  };
  /// Offset and strides in elements.
  struct Tensor {
    std::size_t storage = 0;
    std::int64_t offset = 0;
    Value sizes{};
    Value strides{};
  };

  /// Reads the pickle at `at`, which becomes its end. Throws IoError with the byte offset.
  Pickle(std::string_view bytes, std::size_t& at, const std::string& source);

  const Value& result() const noexcept { return result_; }
  std::string_view text(const Value& value) const {
    return texts_[static_cast<std::size_t>(value.payload)];
  }
  std::span<const Value> tuple(const Value& value) const {
    const auto [begin, count] = tuples_[static_cast<std::size_t>(value.payload)];
    return std::span(items_).subspan(begin, count);
  }
  /// Elements of a list; of a dict, each key and its value.
  std::span<const Value> elements(const Value& value) const {
    return containers_[static_cast<std::size_t>(value.payload)];
  }
  const Tensor& tensor(const Value& value) const {
    return tensors_[static_cast<std::size_t>(value.payload)];
  }
  const std::vector<Storage>& storages() const noexcept { return storages_; }

 private:
  enum class Function : std::uint8_t { kOrderedDict, kRebuildTensor, kRebuildParameter };

  [[noreturn]] void fail(const std::string& message) const;
  void run();
  void execute(unsigned char opcode);
  bool execute_constant(unsigned char opcode);
  bool execute_memo(unsigned char opcode);
  bool execute_container(unsigned char opcode);

  std::string_view take(std::size_t count);
  template <typename T>
  T take_number();
  std::string_view take_text(std::size_t count);
  std::string_view take_line();

  void push(Value value);
  Value pop();
  Value& top();
  std::size_t pop_mark();
  void push_text(Kind kind, std::string_view text);
  void push_long();
  void push_tuple(std::size_t begin);
  void push_global();
  void move_to_container(std::size_t begin, Kind kind);
  void load_storage();
  void call();
  void make_tensor(std::span<const Value> arguments);
  bool is_rank(const Value& value) const;

  std::string_view bytes_;
  std::size_t begin_;
  std::size_t& at_;
  /// Of the opcode that runs.
  std::size_t opcode_at_ = 0;
  const std::string& source_;

  std::vector<Value> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint32_t, Value> memo_;
  std::vector<std::string_view> texts_;
  /// Elements of all tuples: each is a range [begin, begin + count).
  std::vector<Value> items_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> tuples_;
  std::vector<std::vector<Value>> containers_;
  std::vector<Storage> storages_;
  std::vector<Tensor> tensors_;
  Value result_;
};

}  // namespace rotary::internal
