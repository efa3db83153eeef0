// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The boxed arguments and results of an operator, as PyTorch's stable ABI passes them: 64 bits
// each, which hold a number or own an object.
#pragma once

#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "pytorch/stable/tensor.h"

namespace rotary::torch::stable {

template <typename Value>
Value unboxed(StableIValue box) noexcept {
  static_assert(sizeof(Value) <= sizeof(StableIValue));
  Value value{};
  std::memcpy(&value, &box, sizeof(Value));  // little-endian, as all machines of this library
  return value;
}

template <typename Value>
StableIValue boxed(Value value) noexcept {
  static_assert(sizeof(Value) <= sizeof(StableIValue));
  StableIValue box = 0;
  std::memcpy(&box, &value, sizeof(Value));
  return box;
}

/// A string of PyTorch's.
class String {
 public:
  explicit String(StringHandle handle) : handle_(handle) {
    std::size_t size = 0;
    const char* data = nullptr;
    check(torch_string_length(handle_, &size), "string_length");
    check(torch_string_c_str(handle_, &data), "string_c_str");
    view_ = {data, size};
  }
  String(const String&) = delete;
  String& operator=(const String&) = delete;
  ~String() { torch_delete_string(handle_); }

  std::string_view view() const noexcept { return view_; }

 private:
  StringHandle handle_;
  std::string_view view_{};
};

/// Takes the arguments of a call in order, and what they own.
class Arguments {
 public:
  explicit Arguments(const StableIValue* stack) noexcept : next_(stack) {}

  std::vector<Tensor> tensors() {
    const auto list = unboxed<StableListHandle>(*next_++);
    std::size_t size = 0;
    check(torch_list_size(list, &size), "list_size");
    std::vector<Tensor> taken;
    taken.reserve(size);
    for (std::size_t i = 0; i < size; ++i) {
      StableIValue element = 0;
      check(torch_list_get_item(list, i, &element), "list_get_item");
      taken.emplace_back(unboxed<AtenTensorHandle>(element));
    }
    check(torch_delete_list(list), "delete_list");
    return taken;
  }
  Tensor tensor() noexcept { return Tensor(unboxed<AtenTensorHandle>(*next_++)); }
  /// Empty for None.
  Tensor maybe_tensor() noexcept {
    auto* const box = unboxed<StableIValue*>(*next_++);
    if (box == nullptr) return {};
    Tensor taken(unboxed<AtenTensorHandle>(*box));
    delete box;  // PyTorch's, made by new: what its own header does for PyTorch before 2.13
    return taken;
  }
  StringHandle string() noexcept { return unboxed<StringHandle>(*next_++); }
  std::int64_t integer() noexcept { return unboxed<std::int64_t>(*next_++); }

 private:
  const StableIValue* next_;
};

/// A result Tensor[].
inline StableIValue boxed_list(std::vector<Tensor>&& tensors) {
  StableListHandle list = nullptr;
  check(torch_new_list_reserve_size(tensors.size(), &list), "new_list");
  for (Tensor& x : tensors) {
    check(torch_list_push_back(list, boxed(x.release())), "list_push_back");
  }
  return boxed(list);
}

}  // namespace rotary::torch::stable
