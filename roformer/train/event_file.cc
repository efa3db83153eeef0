// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/train/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>

#include "roformer/train/append.h"
#include "rotary/error.h"

namespace rotary::roformer {
namespace {

constexpr std::array<std::uint32_t, 256> make_table() {
  constexpr std::uint32_t kPolynomial = 0x82f63b78u;  // Castagnoli's, bits reversed
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1u) != 0 ? kPolynomial : 0);
    table[i] = value;
  }
  return table;
}

/// TFRecord's masked CRC: rotated and offset, so that a CRC of data that contains CRCs stays safe.
std::uint32_t masked(std::string_view bytes) {
  constexpr std::uint32_t kShift = 0xa282ead8u;
  return std::rotr(crc32c(bytes), 15) + kShift;
}

template <typename T>
void add_fixed(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

// ---- Protocol Buffers: a field is its number and kind, then its value ---------------------------

void add_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  out += static_cast<char>(value);
}

enum Kind : std::uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void add_tag(std::string& out, std::uint32_t field, Kind kind) {
  add_varint(out, field << 3 | kind);
}
void add_bytes(std::string& out, std::uint32_t field, std::string_view bytes) {
  add_tag(out, field, kBytes);
  add_varint(out, bytes.size());
  out += bytes;
}
void add_number(std::string& out, std::uint32_t field, std::uint64_t value) {
  add_tag(out, field, kVarint);
  add_varint(out, value);
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Event: 1 wall_time, 2 step, 3 file_version, 5 summary, 7 session_log.
std::string event_at(std::int64_t step) {
  std::string event;
  add_tag(event, 1, kFixed64);
  add_fixed(event, std::bit_cast<std::uint64_t>(now()));
  add_number(event, 2, static_cast<std::uint64_t>(step));
  return event;
}

std::string name_of_file() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return "events.out.tfevents." + std::to_string(static_cast<std::int64_t>(now())) + "." +
         (host[0] == '\0' ? "localhost" : host.data()) + "." + std::to_string(::getpid());
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) noexcept {
  static constexpr auto kTable = make_table();
  std::uint32_t value = ~0u;
  for (const char c : bytes) {
    value = kTable[(value ^ static_cast<unsigned char>(c)) & 0xff] ^ (value >> 8);
  }
  return ~value;
}

EventFile::EventFile(const std::filesystem::path& folder, std::int64_t first_step)
    : path_(folder / name_of_file()), descriptor_(open_to_append(path_)) {
  std::string version = event_at(0);
  add_bytes(version, 3, "brain.Event:2");
  append(version);
  std::string start = event_at(first_step);
  std::string log;
  add_number(log, 1, 1);  // SessionLog: 1 status, of which 1 is START
  add_bytes(start, 7, log);
  append(start);
}

EventFile::~EventFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void EventFile::write(std::int64_t step,
                      const std::vector<std::pair<std::string, double>>& scalars) {
  std::string summary;
  for (const auto& [name, number] : scalars) {
    // Summary: 1 value, of which 1 is tag and 2 simple_value.
    std::string value;
    add_bytes(value, 1, name);
    add_tag(value, 2, kFixed32);
    add_fixed(value, std::bit_cast<std::uint32_t>(static_cast<float>(number)));
    add_bytes(summary, 1, value);
  }
  std::string event = event_at(step);
  add_bytes(event, 5, summary);
  append(event);
}

void EventFile::append(const std::string& event) {
  std::string record;
  add_fixed(record, static_cast<std::uint64_t>(event.size()));
  add_fixed(record, masked(record));
  record += event;
  add_fixed(record, masked(event));
  append_whole(descriptor_, record, path_);
}

}  // namespace rotary::roformer
