// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "io/zip_directory.h"

#include <algorithm>
#include <cstdint>
#include <unordered_set>

#include "io/checks.h"
#include "io/little_endian.h"
#include "support/quote.h"

namespace rotary::internal {
namespace {

constexpr std::size_t kMaxZipEntries = std::size_t{1} << 17;
// "APPNOTE.TXT", 4.3: signatures and sizes without the fields of variable length.
constexpr std::uint32_t kLocalSignature = 0x04034b50;
constexpr std::uint32_t kCentralSignature = 0x02014b50;
constexpr std::uint32_t kEndSignature = 0x06054b50;
constexpr std::uint32_t kEnd64Signature = 0x06064b50;
constexpr std::uint32_t kLocatorSignature = 0x07064b50;
constexpr std::size_t kLocalBytes = 30;
constexpr std::size_t kCentralBytes = 46;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kEnd64Bytes = 56;
constexpr std::size_t kLocatorBytes = 20;
constexpr std::uint16_t kZip64Field = 1;
constexpr std::uint32_t kIn64Bits = 0xffffffff;
constexpr std::uint16_t kEncrypted = 1;

class ZipReader {
 public:
  ZipReader(std::string_view bytes, const std::string& source) : bytes_(bytes), source_(source) {}

  std::vector<ZipEntry> read() {
    find_directory();
    std::size_t at = directory_;
    std::unordered_set<std::string_view> names;
    for (std::uint64_t i = 0; i < count_; ++i) {
      entries_.push_back(read_central(at));
      if (!names.insert(entries_.back().name).second) {
        fail(at, "the archive has two entries " + quote(entries_.back().name));
      }
    }
    if (at != directory_end_) fail(at, "the central directory has other bytes after its entries");
    check_overlaps();
    return std::move(entries_);
  }

 private:
  [[noreturn]] void fail(std::size_t at, const std::string& message) const {
    fail_at(source_, at, message);
  }
  std::uint16_t u16(std::size_t at) const { return read_little<std::uint16_t>(bytes_, at); }
  std::uint32_t u32(std::size_t at) const { return read_little<std::uint32_t>(bytes_, at); }
  std::uint64_t u64(std::size_t at) const { return read_little<std::uint64_t>(bytes_, at); }

  /// An archive ends with its end record: comments, which could hold another one, are not accepted.
  void find_directory() {
    if (bytes_.size() < kEndBytes || u32(bytes_.size() - kEndBytes) != kEndSignature) {
      fail(bytes_.size(), "the file does not end as an archive of torch.save() does: truncated?");
    }
    const std::size_t end = bytes_.size() - kEndBytes;
    count_ = u16(end + 10);
    std::uint64_t size = u32(end + 12);
    std::uint64_t begin = u32(end + 16);
    directory_end_ = end;
    if (end >= kLocatorBytes && u32(end - kLocatorBytes) == kLocatorSignature) {
      const std::uint64_t at = u64(end - kLocatorBytes + 8);
      if (at > end - kLocatorBytes || end - kLocatorBytes - at < kEnd64Bytes ||
          u32(at) != kEnd64Signature) {
        fail(end - kLocatorBytes, "the archive's zip64 record is not where its locator says");
      }
      count_ = u64(at + 32);
      size = u64(at + 40);
      begin = u64(at + 48);
      directory_end_ = at;
    }
    if (begin > directory_end_ || size != directory_end_ - begin) {
      fail(end, "the central directory, " + std::to_string(size) + " bytes at " +
                    std::to_string(begin) + ", does not end before its end record");
    }
    if (count_ > kMaxZipEntries) {
      fail(end, "the archive has " + std::to_string(count_) + " entries; at most " +
                    std::to_string(kMaxZipEntries) + " are allowed");
    }
    directory_ = begin;
  }

  ZipEntry read_central(std::size_t& at) const {
    if (directory_end_ - at < kCentralBytes || u32(at) != kCentralSignature) {
      fail(at, "the central directory is damaged");
    }
    const std::size_t name_bytes = u16(at + 28);
    const std::size_t extra_bytes = u16(at + 30);
    const std::size_t length = kCentralBytes + name_bytes + extra_bytes + u16(at + 32);
    if (directory_end_ - at < length) fail(at, "the central directory is damaged");
    const std::string_view name = bytes_.substr(at + kCentralBytes, name_bytes);
    check_name(at, name);
    if ((u16(at + 8) & kEncrypted) != 0) fail(at, "entry " + quote(name) + " is encrypted");
    std::uint64_t stored = u32(at + 20);
    std::uint64_t size = u32(at + 24);
    std::uint64_t local = u32(at + 42);
    read_zip64(at + kCentralBytes + name_bytes, extra_bytes, {&size, &stored, &local});
    if (u16(at + 10) != 0 || stored != size) {
      fail(at, "entry " + quote(name) + " is compressed, which torch.save() never does");
    }
    const ZipEntry entry = locate(at, name, local, size);
    at += length;
    return entry;
  }

  /// The zip64 field of a central header has those of the numbers that do not fit 32 bits.
  void read_zip64(std::size_t at, std::size_t size,
                  std::initializer_list<std::uint64_t*> numbers) const {
    const std::size_t end = at + size;
    while (end - at >= 4) {
      const std::size_t field_end = at + 4 + u16(at + 2);
      if (field_end > end) fail(at, "the central directory is damaged");
      if (u16(at) == kZip64Field) {
        std::size_t next = at + 4;
        for (std::uint64_t* number : numbers) {
          if (*number != kIn64Bits) continue;
          if (field_end - next < 8) fail(at, "a zip64 field is too short");
          *number = u64(next);
          next += 8;
        }
        return;
      }
      at = field_end;
    }
  }

  ZipEntry locate(std::size_t at, std::string_view name, std::uint64_t local,
                  std::uint64_t size) const {
    const auto fail_local = [&](const char* what) { fail(at, "entry " + quote(name) + what); };
    if (local > directory_ || directory_ - local < kLocalBytes || u32(local) != kLocalSignature) {
      fail_local(" has no local header where the central directory says");
    }
    const std::size_t name_bytes = u16(local + 26);
    const std::size_t header = kLocalBytes + name_bytes + u16(local + 28);
    if (directory_ - local < header || directory_ - local - header < size) {
      fail_local(" reaches into the central directory");
    }
    if (bytes_.substr(local + kLocalBytes, name_bytes) != name || u16(local + 8) != 0) {
      fail_local(" differs from its local header");
    }
    return {.name = name, .begin = local + header, .end = local + header + size};
  }

  void check_name(std::size_t at, std::string_view name) const {
    const bool climbs = name.starts_with('/') || name.starts_with("../") ||
                        name.find("/../") != std::string_view::npos || name.ends_with("/..") ||
                        name == "..";
    const bool odd =
        name.find('\\') != std::string_view::npos || name.find('\0') != std::string_view::npos;
    if (name.empty() || climbs || odd) {
      fail(at, "an entry of the archive has the name " + quote(name));
    }
  }

  void check_overlaps() const {
    std::vector<ZipEntry> sorted = entries_;
    std::ranges::sort(sorted, {}, &ZipEntry::begin);
    for (std::size_t i = 1; i < sorted.size(); ++i) {
      // The header of an entry stands between its bytes and those before.
      if (sorted[i].begin - kLocalBytes < sorted[i - 1].end) {
        fail(sorted[i].begin,
             "entry " + quote(sorted[i].name) + " shares bytes with " + quote(sorted[i - 1].name));
      }
    }
  }

  std::string_view bytes_;
  const std::string& source_;
  std::size_t directory_ = 0;
  std::size_t directory_end_ = 0;
  std::uint64_t count_ = 0;
  std::vector<ZipEntry> entries_;
};

}  // namespace

std::vector<ZipEntry> read_zip_directory(std::string_view bytes, const std::string& source) {
  return ZipReader(bytes, source).read();
}

}  // namespace rotary::internal
