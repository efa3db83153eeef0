// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "bindings/convert.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "bindings/fields.h"

namespace rotary::python {
namespace {

// ---- One field ----------------------------------------------------------------------------------

/// Class and field of a value, for messages: "Yarn.factor".
struct FieldPath {
  const char* type;
  const char* field;
};

[[noreturn]] void reject_type(const FieldPath& path, const char* wanted, nb::handle got) {
  const std::string text = std::string("[") + path.type + "] " + path.field + " must be " + wanted +
                           ", got " + nb::repr(got).c_str();
  throw nb::type_error(text.c_str());
}

template <typename T>
void read_plain(const FieldPath& path, const char* wanted, nb::handle value, T& out) {
  if (!nb::try_cast<T>(value, out)) reject_type(path, wanted, value);
}

template <HasDataclass T>
void read(const FieldPath& outer, nb::handle object, T& out);
template <typename... T>
void read(const FieldPath& path, nb::handle object, std::variant<T...>& out);
template <HasDataclass T>
nb::object python_value(const T& value);
template <typename... T>
nb::object python_value(const std::variant<T...>& value);

void read(const FieldPath& p, nb::handle v, double& out) { read_plain(p, "a number", v, out); }
void read(const FieldPath& p, nb::handle v, std::int64_t& out) {
  read_plain(p, "a whole number", v, out);
}
void read(const FieldPath& p, nb::handle v, bool& out) { read_plain(p, "True or False", v, out); }
void read(const FieldPath& p, nb::handle v, std::string& out) { read_plain(p, "a str", v, out); }

/// A word of an enumeration; the str enums of the package are words too.
template <typename Enum>
  requires std::is_enum_v<Enum>
void read(const FieldPath& path, nb::handle value, Enum& out) {
  std::string word;
  read_plain(path, "a str", value, word);
  std::string words;
  for (const auto& [name, known] : words_of<Enum>) {
    if (word == name) {
      out = known;
      return;
    }
    words += (words.empty() ? "" : ", ") + std::string(name);
  }
  throw std::invalid_argument(std::string("[") + path.type + "] " + path.field +
                              " must be one of " + words + ", got " + word);
}

template <typename T>
void read(const FieldPath& path, nb::handle value, std::optional<T>& out) {
  out.reset();
  if (!value.is_none()) read(path, value, out.emplace());
}

template <typename T>
void read(const FieldPath& path, nb::handle value, std::vector<T>& out) {
  out.clear();
  if (!nb::isinstance<nb::sequence>(value) || nb::isinstance<nb::str>(value)) {
    reject_type(path, "a sequence", value);
  }
  for (nb::handle entry : value) read(path, entry, out.emplace_back());
}

nb::object python_value(double value) { return nb::cast(value); }
nb::object python_value(std::int64_t value) { return nb::cast(value); }
nb::object python_value(bool value) { return nb::cast(value); }
nb::object python_value(const std::string& value) {  // text from files: any bytes
  return nb::steal(PyUnicode_DecodeUTF8(value.data(), static_cast<Py_ssize_t>(value.size()),
                                        "backslashreplace"));
}

template <typename Enum>
  requires std::is_enum_v<Enum>
nb::object python_value(Enum value) {
  for (const auto& [name, known] : words_of<Enum>) {
    if (known == value) return nb::str(name.data(), name.size());
  }
  return nb::none();
}

template <typename T>
nb::object python_value(const std::optional<T>& value) {
  return value ? python_value(*value) : nb::none();
}

template <typename T>
nb::object python_value(const std::vector<T>& values) {
  nb::list list;
  for (const T& value : values) list.append(python_value(value));
  return nb::tuple(list);
}

// ---- Structs ------------------------------------------------------------------------------------

nb::object class_of(const char* module, const char* name) {
  return nb::module_::import_(module).attr(name);
}

template <HasDataclass T>
void read(const FieldPath& outer, nb::handle object, T& out) {
  const auto one = [&](const auto& field) {
    const nb::object value = nb::getattr(object, field.first, nb::handle());
    if (!value.is_valid()) reject_type(outer, dataclass_of<T>.name, object);
    read(FieldPath{dataclass_of<T>.name, field.first}, value, out.*field.second);
  };
  std::apply([&](const auto&... field) { (one(field), ...); }, dataclass_of<T>.list);
}

template <HasDataclass T>
nb::object python_value(const T& value) {
  const auto& shape = dataclass_of<T>;
  nb::dict arguments;
  const auto one = [&](const auto& field) {
    arguments[field.first] = python_value(value.*field.second);
  };
  std::apply([&](const auto&... field) { (one(field), ...); }, shape.list);
  return class_of(shape.module, shape.name)(**arguments);
}

/// The alternative whose dataclass the object is.
template <typename... T>
void read(const FieldPath& path, nb::handle object, std::variant<T...>& out) {
  std::string names;
  const auto one = [&](auto alternative) {
    using Alternative = decltype(alternative);
    const auto& shape = dataclass_of<Alternative>;
    names += (names.empty() ? "" : ", ") + std::string(shape.name);
    if (!nb::isinstance(object, class_of(shape.module, shape.name))) return false;
    read(path, object, out.template emplace<Alternative>());
    return true;
  };
  if (!(one(T{}) || ...)) reject_type(path, ("one of " + names).c_str(), object);
}

template <typename... T>
nb::object python_value(const std::variant<T...>& value) {
  return std::visit([](const auto& alternative) { return python_value(alternative); }, value);
}

template <typename T>
T value_of(nb::handle object) {
  T value;
  read(FieldPath{"rotary", "value"}, object, value);
  return value;
}

}  // namespace

Recipe recipe_of(nb::handle recipe) { return value_of<Recipe>(recipe); }
HeadLayout layout_of(nb::handle layout) { return value_of<HeadLayout>(layout); }
ModelRope model_rope_of(nb::handle rope) { return value_of<ModelRope>(rope); }

RopeOptions options_of(nb::handle options) {
  RopeOptions value;
  read(FieldPath{"Rope", "precision"}, options[0], value.precision);
  read(FieldPath{"Rope", "cache"}, options[1], value.cache);
  std::int64_t threads = 0;
  read(FieldPath{"Rope", "threads"}, options[2], threads);
  constexpr std::int64_t kMaxThreads = std::numeric_limits<int>::max();
  if (threads > kMaxThreads || threads < -kMaxThreads) {
    throw std::invalid_argument("[Rope] threads must be at most " + std::to_string(kMaxThreads) +
                                ", got " + std::to_string(threads));
  }
  value.threads.count = static_cast<int>(threads);
  return value;
}

nb::object to_python(const HeadLayout& layout) { return python_value(layout); }
nb::object to_python(const Model& model) { return python_value(model); }
nb::object to_python(const Recipe& recipe) { return python_value(recipe); }

}  // namespace rotary::python
