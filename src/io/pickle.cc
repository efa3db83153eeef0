// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "io/pickle.h"

#include <algorithm>
#include <array>

#include "io/checks.h"
#include "io/little_endian.h"
#include "support/quote.h"

namespace rotary::internal {
namespace {

constexpr std::array<StorageType, 10> kStorageTypes{{{"FloatStorage", "F32", 4},
                                                     {"HalfStorage", "F16", 2},
                                                     {"BFloat16Storage", "BF16", 2},
                                                     {"DoubleStorage", "F64", 8},
                                                     {"LongStorage", "I64", 8},
                                                     {"IntStorage", "I32", 4},
                                                     {"ShortStorage", "I16", 2},
                                                     {"CharStorage", "I8", 1},
                                                     {"ByteStorage", "U8", 1},
                                                     {"BoolStorage", "BOOL", 1}}};

/// Of pickletools.opcodes, those that torch.save() uses.
struct Opcode {
  enum : unsigned char {
    kMark = '(',
    kStop = '.',
    kBinInt = 'J',
    kBinInt1 = 'K',
    kBinInt2 = 'M',
    kNone = 'N',
    kBinPersId = 'Q',
    kReduce = 'R',
    kBinString = 'T',
    kShortBinString = 'U',
    kBinUnicode = 'X',
    kAppend = 'a',
    kBuild = 'b',
    kGlobal = 'c',
    kAppends = 'e',
    kBinGet = 'h',
    kLongBinGet = 'j',
    kBinPut = 'q',
    kLongBinPut = 'r',
    kSetItem = 's',
    kTuple = 't',
    kSetItems = 'u',
    kBinFloat = 'G',
    kEmptyTuple = ')',
    kEmptyList = ']',
    kEmptyDict = '}',
    kProto = 0x80,
    kTuple1 = 0x85,
    kTuple2 = 0x86,
    kTuple3 = 0x87,
    kNewTrue = 0x88,
    kNewFalse = 0x89,
    kLong1 = 0x8a,
  };
};

std::string opcode_text(unsigned char opcode) {
  return quote({reinterpret_cast<const char*>(&opcode), 1});
}

}  // namespace

Pickle::Pickle(std::string_view bytes, std::size_t& at, const std::string& source)
    : bytes_(bytes), begin_(at), at_(at), source_(source) {
  run();
}

void Pickle::fail(const std::string& message) const { fail_at(source_, opcode_at_, message); }

// ---- Bytes --------------------------------------------------------------------------------------

std::string_view Pickle::take(std::size_t count) {
  if (count > bytes_.size() - at_) fail("the file ends within a pickle: truncated?");
  const std::string_view taken = bytes_.substr(at_, count);
  at_ += count;
  return taken;
}

template <typename T>
T Pickle::take_number() {
  return read_little<T>(take(sizeof(T)), 0);
}

std::string_view Pickle::take_text(std::size_t count) {
  if (count > PickleLimits::kMaxText) {
    fail("the pickle has a text of " + std::to_string(count) + " bytes; at most " +
         std::to_string(PickleLimits::kMaxText) + " are allowed");
  }
  return take(count);
}

/// A line of a global: at most 256 bytes.
std::string_view Pickle::take_line() {
  const std::size_t end = bytes_.substr(at_, 256).find('\n');
  if (end == std::string_view::npos) fail("the pickle names a global without an end");
  const std::string_view line = take(end);
  at_ += 1;
  return line;
}

// ---- The machine --------------------------------------------------------------------------------

void Pickle::run() {
  opcode_at_ = at_;
  if (take_number<std::uint8_t>() != Opcode::kProto || take_number<std::uint8_t>() != 2) {
    fail("not a pickle of torch.save(): it must begin with protocol 2");
  }
  while (true) {
    opcode_at_ = at_;
    if (at_ - begin_ > PickleLimits::kMaxBytes) {
      fail("the pickle is longer than " + std::to_string(PickleLimits::kMaxBytes) + " bytes");
    }
    const auto opcode = take_number<std::uint8_t>();
    if (opcode == Opcode::kStop) break;
    execute(opcode);
  }
  if (stack_.size() != 1 || !marks_.empty()) fail("the pickle ends with an open container");
  result_ = stack_.back();
}

void Pickle::execute(unsigned char opcode) {
  if (execute_constant(opcode) || execute_memo(opcode) || execute_container(opcode)) return;
  switch (opcode) {
    case Opcode::kGlobal:
      return push_global();
    case Opcode::kBinPersId:
      return load_storage();
    case Opcode::kReduce:
      return call();
    case Opcode::kBuild:
      // The state of an OrderedDict: versions of modules, which nothing here depends on.
      pop();
      if (top().kind != Kind::kDict) fail("the pickle sets the state of what is not a dict");
      return;
    default:
      fail("the pickle has opcode " + opcode_text(opcode) + ", which torch.save() does not use");
  }
}

bool Pickle::execute_constant(unsigned char opcode) {
  switch (opcode) {
    case Opcode::kNone:
      push({});
      return true;
    case Opcode::kNewTrue:
    case Opcode::kNewFalse:
      push({Kind::kBoolean, opcode == Opcode::kNewTrue ? 1 : 0});
      return true;
    case Opcode::kBinInt:
      push({Kind::kInteger, take_number<std::int32_t>()});
      return true;
    case Opcode::kBinInt1:
      push({Kind::kInteger, take_number<std::uint8_t>()});
      return true;
    case Opcode::kBinInt2:
      push({Kind::kInteger, take_number<std::uint16_t>()});
      return true;
    case Opcode::kLong1:
      push_long();
      return true;
    case Opcode::kBinFloat:
      take(8);
      push({Kind::kReal, 0});
      return true;
    case Opcode::kBinUnicode:
    case Opcode::kBinString:
      push_text(Kind::kText, take_text(take_number<std::uint32_t>()));
      return true;
    case Opcode::kShortBinString:
      push_text(Kind::kText, take_text(take_number<std::uint8_t>()));
      return true;
    default:
      return false;
  }
}

bool Pickle::execute_memo(unsigned char opcode) {
  if (opcode == Opcode::kBinPut || opcode == Opcode::kLongBinPut) {
    const std::uint32_t index =
        opcode == Opcode::kBinPut ? take_number<std::uint8_t>() : take_number<std::uint32_t>();
    memo_[index] = top();
    if (memo_.size() > PickleLimits::kMaxMemo) {
      fail("the pickle memoizes more than " + std::to_string(PickleLimits::kMaxMemo) + " values");
    }
    return true;
  }
  if (opcode == Opcode::kBinGet || opcode == Opcode::kLongBinGet) {
    const std::uint32_t index =
        opcode == Opcode::kBinGet ? take_number<std::uint8_t>() : take_number<std::uint32_t>();
    const auto found = memo_.find(index);
    if (found == memo_.end()) {
      fail("the pickle has no memoized value " + std::to_string(index));
    }
    push(found->second);
    return true;
  }
  return false;
}

bool Pickle::execute_container(unsigned char opcode) {
  switch (opcode) {
    case Opcode::kMark:
      if (marks_.size() == PickleLimits::kMaxStack) fail("the pickle is nested too deeply");
      marks_.push_back(stack_.size());
      return true;
    case Opcode::kEmptyList:
    case Opcode::kEmptyDict:
      containers_.emplace_back();
      push({opcode == Opcode::kEmptyList ? Kind::kList : Kind::kDict,
            static_cast<std::int64_t>(containers_.size() - 1)});
      return true;
    case Opcode::kEmptyTuple:
      push_tuple(stack_.size());
      return true;
    case Opcode::kTuple1:
    case Opcode::kTuple2:
    case Opcode::kTuple3: {
      const std::size_t count = opcode - Opcode::kTuple1 + std::size_t{1};
      if (stack_.size() - (marks_.empty() ? 0 : marks_.back()) < count) {
        fail("the pickle makes a tuple of too few values");
      }
      push_tuple(stack_.size() - count);
      return true;
    }
    case Opcode::kTuple:
      push_tuple(pop_mark());
      return true;
    case Opcode::kAppend:
    case Opcode::kSetItem: {
      const std::size_t count = opcode == Opcode::kAppend ? 1 : 2;
      if (stack_.size() - (marks_.empty() ? 0 : marks_.back()) <= count) {
        fail("the pickle fills a container with too few values");
      }
      move_to_container(stack_.size() - count,
                        opcode == Opcode::kAppend ? Kind::kList : Kind::kDict);
      return true;
    }
    case Opcode::kAppends:
      move_to_container(pop_mark(), Kind::kList);
      return true;
    case Opcode::kSetItems:
      move_to_container(pop_mark(), Kind::kDict);
      return true;
    default:
      return false;
  }
}

// ---- The stack ----------------------------------------------------------------------------------

void Pickle::push(Value value) {
  if (stack_.size() == PickleLimits::kMaxStack) {
    fail("the pickle has more than " + std::to_string(PickleLimits::kMaxStack) +
         " values on its stack");
  }
  stack_.push_back(value);
}

Pickle::Value& Pickle::top() {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) {
    fail("the pickle takes a value from an empty stack");
  }
  return stack_.back();
}

Pickle::Value Pickle::pop() {
  const Value value = top();
  stack_.pop_back();
  return value;
}

std::size_t Pickle::pop_mark() {
  if (marks_.empty()) fail("the pickle closes a container that it did not open");
  const std::size_t begin = marks_.back();
  marks_.pop_back();
  return begin;
}

void Pickle::push_text(Kind kind, std::string_view text) {
  texts_.push_back(text);
  push({kind, static_cast<std::int64_t>(texts_.size() - 1)});
}

void Pickle::push_long() {
  const std::string_view digits = take(take_number<std::uint8_t>());
  if (digits.size() > 8) return push_text(Kind::kLongInteger, digits);
  std::uint64_t bits = !digits.empty() && (digits.back() & 0x80) != 0 ? ~std::uint64_t{0} : 0;
  for (std::size_t i = digits.size(); i-- > 0;) {
    bits = bits << 8 | static_cast<unsigned char>(digits[i]);
  }
  push({Kind::kInteger, static_cast<std::int64_t>(bits)});
}

void Pickle::push_tuple(std::size_t begin) {
  const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(begin);
  tuples_.emplace_back(items_.size(), stack_.end() - first);
  items_.insert(items_.end(), first, stack_.end());
  stack_.erase(first, stack_.end());
  push({Kind::kTuple, static_cast<std::int64_t>(tuples_.size() - 1)});
}

/// The values from `begin` on go to the container below them.
void Pickle::move_to_container(std::size_t begin, Kind kind) {
  if (begin <= (marks_.empty() ? 0 : marks_.back()) || stack_[begin - 1].kind != kind) {
    fail("the pickle fills a container that is not there");
  }
  if (kind == Kind::kDict && (stack_.size() - begin) % 2 != 0) {
    fail("the pickle gives a dict a key without a value");
  }
  const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(begin);
  auto& container = containers_[static_cast<std::size_t>(stack_[begin - 1].payload)];
  container.insert(container.end(), first, stack_.end());
  stack_.erase(first, stack_.end());
}

// ---- Tensors ------------------------------------------------------------------------------------

void Pickle::push_global() {
  const std::string_view module = take_line();
  const std::string_view name = take_line();
  const auto push_function = [this](Function function) {
    push({Kind::kFunction, static_cast<std::int64_t>(function)});
  };
  if (module == "collections" && name == "OrderedDict") {
    return push_function(Function::kOrderedDict);
  }
  if (module == "torch._utils") {
    if (name == "_rebuild_tensor_v2" || name == "_rebuild_tensor") {
      return push_function(Function::kRebuildTensor);
    }
    if (name == "_rebuild_parameter" || name == "_rebuild_parameter_with_state") {
      return push_function(Function::kRebuildParameter);
    }
  }
  const auto type = std::ranges::find(kStorageTypes, name, &StorageType::name);
  if (module == "torch" && type != kStorageTypes.end()) {
    return push({Kind::kStorageType, type - kStorageTypes.begin()});
  }
  std::string global(module);
  fail("the pickle refers to " + quote(global.append(".").append(name)) +
       "; only tensors are read, code never is");
}

/// A persistent id: ("storage", type, key, device, number of elements), and in files without an
/// archive a sixth value, None or (key, first, number of elements) of a view.
void Pickle::load_storage() {
  const Value id = pop();
  const std::span<const Value> parts = id.kind == Kind::kTuple ? tuple(id) : std::span<Value>{};
  const bool fits = (parts.size() == 5 || parts.size() == 6) && parts[0].kind == Kind::kText &&
                    text(parts[0]) == "storage" && parts[1].kind == Kind::kStorageType &&
                    parts[2].kind == Kind::kText && parts[3].kind == Kind::kText &&
                    parts[4].kind == Kind::kInteger && parts[4].payload >= 0;
  if (!fits) fail("the pickle refers to something outside of it that is not a storage");
  Storage storage{.type = &kStorageTypes[static_cast<std::size_t>(parts[1].payload)],
                  .key = text(parts[2]),
                  .num_elements = parts[4].payload,
                  .view_elements = parts[4].payload};
  if (parts.size() == 6 && parts[5].kind != Kind::kNone) {
    const std::span<const Value> view =
        parts[5].kind == Kind::kTuple ? tuple(parts[5]) : std::span<Value>{};
    const bool within = view.size() == 3 && view[1].kind == Kind::kInteger &&
                        view[2].kind == Kind::kInteger && view[1].payload >= 0 &&
                        view[2].payload >= 0 && view[1].payload <= storage.num_elements &&
                        view[2].payload <= storage.num_elements - view[1].payload;
    if (!within) fail("the view of storage " + quote(storage.key) + " reaches beyond it");
    storage.first = view[1].payload;
    storage.view_elements = view[2].payload;
  }
  storages_.push_back(storage);
  push({Kind::kStorage, static_cast<std::int64_t>(storages_.size() - 1)});
}

void Pickle::call() {
  const Value arguments = pop();
  const Value function = pop();
  if (function.kind != Kind::kFunction || arguments.kind != Kind::kTuple) {
    fail("the pickle calls what is not a function");
  }
  const std::span<const Value> values = tuple(arguments);
  switch (static_cast<Function>(function.payload)) {
    case Function::kOrderedDict:
      if (!values.empty()) fail("collections.OrderedDict() must have no arguments");
      containers_.emplace_back();
      return push({Kind::kDict, static_cast<std::int64_t>(containers_.size() - 1)});
    case Function::kRebuildTensor:
      return make_tensor(values);
    case Function::kRebuildParameter:
      if (values.empty() || values[0].kind != Kind::kTensor) fail("a parameter must be a tensor");
      return push(values[0]);
  }
}

/// Whether the value is a tuple of at most kMaxFileRank numbers that are not negative.
bool Pickle::is_rank(const Value& value) const {
  return value.kind == Kind::kTuple && tuple(value).size() <= kMaxFileRank &&
         std::ranges::all_of(tuple(value), [](const Value& one) {
           return one.kind == Kind::kInteger && one.payload >= 0;
         });
}

void Pickle::make_tensor(std::span<const Value> arguments) {
  const bool fits = arguments.size() >= 4 && arguments[0].kind == Kind::kStorage &&
                    arguments[1].kind == Kind::kInteger && arguments[1].payload >= 0 &&
                    is_rank(arguments[2]) && is_rank(arguments[3]) &&
                    tuple(arguments[2]).size() == tuple(arguments[3]).size();
  if (!fits) {
    fail(
        "a tensor must have a storage, an offset, and as many sizes as strides (at most 64), "
        "none of them negative");
  }
  tensors_.push_back({.storage = static_cast<std::size_t>(arguments[0].payload),
                      .offset = arguments[1].payload,
                      .sizes = arguments[2],
                      .strides = arguments[3]});
  push({Kind::kTensor, static_cast<std::int64_t>(tensors_.size() - 1)});
}

}  // namespace rotary::internal
