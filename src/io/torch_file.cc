// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "io/torch_file.h"

#include <limits>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "io/checks.h"
#include "io/little_endian.h"
#include "io/pickle.h"
#include "io/zip_directory.h"
#include "rotary/error.h"
#include "support/quote.h"

namespace rotary::internal {
namespace {

constexpr std::uint64_t kMaxSharing = 16;
constexpr std::size_t kMaxTorchEntries = std::size_t{1} << 16;
/// torch.serialization.MAGIC_NUMBER, 0x1950a86a20f9469cfc6c, little endian.
constexpr std::string_view kLegacyMagic{"\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10};
constexpr std::int64_t kLegacyProtocol = 1001;

struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};
using StorageRanges = std::unordered_map<std::string_view, ByteRange>;

[[noreturn]] void fail_file_of(const std::string& source, const std::string& message) {
  throw IoError(source, IoError::kNoOffset, message);
}

// ---- From a pickle to entries -------------------------------------------------------------------

class EntryMaker {
 public:
  EntryMaker(const Pickle& pickle, const StorageRanges& ranges, std::size_t file_size,
             const std::string& source)
      : pickle_(pickle), ranges_(ranges), file_size_(file_size), source_(source) {}

  std::vector<TorchEntry> make() {
    if (pickle_.result().kind != Pickle::Kind::kDict) {
      fail_file_of(source_, "the pickle is not a dict of tensors");
    }
    const auto items = pickle_.elements(pickle_.result());
    if (items.size() / 2 > kMaxTorchEntries) {
      fail_file_of(source_, "the dict has " + std::to_string(items.size() / 2) +
                                " entries; at most " + std::to_string(kMaxTorchEntries) +
                                " are allowed");
    }
    std::unordered_set<std::string_view> names;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      if (items[i].kind != Pickle::Kind::kText) {
        fail_file_of(source_, "a key of the dict is not a text");
      }
      const std::string_view name = pickle_.text(items[i]);
      if (!names.insert(name).second) {
        fail_file_of(source_, "the dict has the name " + quote(name) + " twice");
      }
      if (items[i + 1].kind != Pickle::Kind::kTensor) {
        fail_file_of(source_, "entry " + quote(name) + " of the dict is not a tensor");
      }
      entries_.push_back(entry(name, pickle_.tensor(items[i + 1])));
    }
    return std::move(entries_);
  }

 private:
  [[noreturn]] void fail(std::string_view name, const std::string& message) const {
    fail_file_of(source_, "tensor " + quote(name) + ": " + message);
  }

  std::vector<std::int64_t> numbers(const Pickle::Value& tuple) const {
    std::vector<std::int64_t> result;
    for (const Pickle::Value& value : pickle_.tuple(tuple)) result.push_back(value.payload);
    return result;
  }

  /// The elements that the storage has in the file.
  ByteRange range_of(std::string_view name, const Pickle::Storage& storage) const {
    const auto found = ranges_.find(storage.key);
    if (found == ranges_.end()) {
      fail(name, "there is no storage " + quote(storage.key) + " in the file");
    }
    const ByteRange range = found->second;
    const auto elements = static_cast<std::uint64_t>(storage.num_elements);
    const std::size_t size = range.end - range.begin;
    if (size % storage.type->element_size != 0 || elements != size / storage.type->element_size) {
      fail(name, "storage " + quote(storage.key) + " has " + std::to_string(size) + " bytes, not " +
                     std::to_string(storage.num_elements) + " elements of " +
                     std::to_string(storage.type->element_size));
    }
    return range;
  }

  /// Elements up to the last one; none if that is more than 64 bits can count.
  static std::optional<std::uint64_t> extent_of(const Pickle::Tensor& tensor,
                                                const TorchEntry& entry) {
    auto last = static_cast<std::uint64_t>(tensor.offset);
    for (std::size_t i = 0; i < entry.shape.size(); ++i) {
      if (entry.shape[i] == 0) return 0;
      const auto steps = static_cast<std::uint64_t>(entry.shape[i] - 1);
      const auto stride = static_cast<std::uint64_t>(entry.strides[i]);
      constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
      if (steps != 0 && stride > (kMax - last) / steps) return std::nullopt;
      last += steps * stride;
    }
    return last + 1;
  }

  TorchEntry entry(std::string_view name, const Pickle::Tensor& tensor) {
    const Pickle::Storage& storage = pickle_.storages()[tensor.storage];
    const std::size_t element_size = storage.type->element_size;
    const ByteRange range = range_of(name, storage);
    TorchEntry result{.name = std::string(name),
                      .dtype = storage.type->dtype,
                      .element_size = element_size,
                      .shape = numbers(tensor.sizes),
                      .strides = numbers(tensor.strides),
                      .begin = range.begin};
    const auto what = [&] {
      return "shape " + shape_text(result.shape) + " with strides " + shape_text(result.strides) +
             " from element " + std::to_string(tensor.offset);
    };
    const std::optional<std::uint64_t> bits = count_bits(result.shape, 8 * element_size);
    const std::optional<std::uint64_t> extent = extent_of(tensor, result);
    const auto elements = static_cast<std::uint64_t>(storage.view_elements);
    if (!bits || !extent || *extent > elements) {
      fail(name,
           what() + " reaches beyond the " + std::to_string(elements) + " elements of its storage");
    }
    if (*bits / 8 / element_size > elements) {
      fail(name, what() + " repeats the " + std::to_string(elements) + " elements of its storage");
    }
    total_ += *bits / 8;
    if (total_ / kMaxSharing > file_size_) {
      fail(name, "the tensors up to this one share so many bytes that they have " +
                     std::to_string(kMaxSharing) + " times those of the file");
    }
    if (*extent > 0) {
      result.begin += static_cast<std::size_t>(storage.first + tensor.offset) * element_size;
    }
    return result;
  }

  const Pickle& pickle_;
  const StorageRanges& ranges_;
  std::size_t file_size_;
  const std::string& source_;
  std::uint64_t total_ = 0;
  std::vector<TorchEntry> entries_;
};

// ---- Archives -----------------------------------------------------------------------------------

std::vector<TorchEntry> parse_archive(std::string_view bytes, const std::string& source) {
  constexpr std::string_view kDict = "/data.pkl";
  const std::vector<ZipEntry> entries = read_zip_directory(bytes, source);
  const ZipEntry* dict = nullptr;
  for (const ZipEntry& entry : entries) {
    if (!entry.name.ends_with(kDict) || entry.name.find('/') + kDict.size() != entry.name.size()) {
      continue;
    }
    if (dict != nullptr) fail_file_of(source, "the archive has two data.pkl");
    dict = &entry;
  }
  if (dict == nullptr) fail_file_of(source, "not an archive of torch.save(): no data.pkl in it");
  const std::string_view folder = dict->name.substr(0, dict->name.find('/') + 1);
  const std::string data = std::string(folder) + "data/";
  StorageRanges ranges;
  for (const ZipEntry& entry : entries) {
    if (entry.name.starts_with(data)) {
      ranges.emplace(entry.name.substr(data.size()), ByteRange{entry.begin, entry.end});
    }
    if (entry.name.starts_with(folder) && entry.name.substr(folder.size()) == "byteorder") {
      const std::string_view order = bytes.substr(entry.begin, entry.end - entry.begin);
      if (order != "little")
        fail_at(source, entry.begin, "byteorder must be little, got " + quote(order));
    }
  }
  std::size_t at = dict->begin;
  const Pickle pickle(bytes.substr(0, dict->end), at, source);
  return EntryMaker(pickle, ranges, bytes.size(), source).make();
}

// ---- The legacy format --------------------------------------------------------------------------

bool is_magic(const Pickle& pickle) {
  return pickle.result().kind == Pickle::Kind::kLongInteger &&
         pickle.text(pickle.result()) == kLegacyMagic;
}

/// Of the dict that describes the machine.
bool is_little_endian(const Pickle& pickle) {
  if (pickle.result().kind != Pickle::Kind::kDict) return false;
  const auto items = pickle.elements(pickle.result());
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i].kind == Pickle::Kind::kText && pickle.text(items[i]) == "little_endian") {
      return items[i + 1].kind == Pickle::Kind::kBoolean && items[i + 1].payload == 1;
    }
  }
  return false;
}

/// Storages in the order of `keys`, from `at` on.
StorageRanges locate_storages(const Pickle& dict, const Pickle& keys, std::string_view bytes,
                              std::size_t at, const std::string& source) {
  std::unordered_map<std::string_view, std::size_t> element_sizes;
  for (const Pickle::Storage& storage : dict.storages()) {
    const auto [known, is_new] = element_sizes.try_emplace(storage.key, storage.type->element_size);
    if (!is_new && known->second != storage.type->element_size) {
      fail_file_of(source, "storage " + quote(storage.key) + " has two element types");
    }
  }
  if (keys.result().kind != Pickle::Kind::kList) {
    fail_file_of(source, "the list of storages is missing");
  }
  StorageRanges ranges;
  for (const Pickle::Value& value : keys.elements(keys.result())) {
    const std::string_view key =
        value.kind == Pickle::Kind::kText ? keys.text(value) : std::string_view();
    const auto size = element_sizes.find(key);
    if (size == element_sizes.end()) {
      fail_at(source, at, "the list of storages names " + quote(key) + ", which no tensor has");
    }
    if (bytes.size() - at < 8) fail_at(source, at, "the file ends within a storage: truncated?");
    const auto elements = read_little<std::uint64_t>(bytes, at);
    at += 8;
    if (elements > (bytes.size() - at) / size->second) {
      fail_at(source, at,
              "storage " + quote(key) + " has " + std::to_string(elements) +
                  " elements, which the file is too short for");
    }
    const ByteRange range{at, at + elements * size->second};
    if (!ranges.emplace(key, range).second) {
      fail_at(source, at, "the list of storages names " + quote(key) + " twice");
    }
    at = range.end;
  }
  if (at != bytes.size()) fail_at(source, at, "bytes after the last storage");
  return ranges;
}

std::vector<TorchEntry> parse_legacy(std::string_view bytes, const std::string& source) {
  std::size_t at = 0;
  if (!is_magic(Pickle(bytes, at, source))) fail_at(source, 0, "not a file of torch.save()");
  const Pickle protocol(bytes, at, source);
  if (protocol.result().kind != Pickle::Kind::kInteger ||
      protocol.result().payload != kLegacyProtocol) {
    fail_at(source, at, "the version of the format must be 1001");
  }
  if (!is_little_endian(Pickle(bytes, at, source))) {
    fail_at(source, at, "the file must be little-endian");
  }
  const Pickle dict(bytes, at, source);
  const Pickle keys(bytes, at, source);
  return EntryMaker(dict, locate_storages(dict, keys, bytes, at, source), bytes.size(), source)
      .make();
}

}  // namespace

std::vector<TorchEntry> parse_torch_file(std::string_view bytes, const std::string& source) {
  return bytes.starts_with(kZipMagic) ? parse_archive(bytes, source) : parse_legacy(bytes, source);
}

}  // namespace rotary::internal
