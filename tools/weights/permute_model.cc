// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/weights/permute_model.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "io/file_reader.h"
#include "io/json_file.h"
#include "io/pending_file.h"
#include "io/safetensors.h"
#include "json/json.h"
#include "rotary/io.h"
#include "support/quote.h"

namespace rotary::cli {
namespace {

namespace fs = std::filesystem;
using internal::FileReader;
using internal::PendingFile;

/// Bytes read and written at a time.
constexpr std::uint64_t kChunk = 8 << 20;

void append_copy(PendingFile& file, const FileReader& in, std::uint64_t begin, std::uint64_t end) {
  while (begin < end) {
    const std::string chunk =
        in.read(begin, static_cast<std::size_t>(std::min(kChunk, end - begin)));
    file.append(chunk.data(), chunk.size());
    begin += chunk.size();
  }
}

/// Reads and writes whole heads, as many as a chunk holds: rows move only inside of them.
void append_rows(PendingFile& file, const FileReader& in, const PermutedTensor& tensor,
                 Pairing from, Pairing to) {
  const std::vector<std::int64_t> sources = row_sources(tensor.num_rows, tensor.heads, from, to);
  const std::size_t row = (tensor.end - tensor.begin) / sources.size();
  const auto head_rows = static_cast<std::size_t>(tensor.heads.front().stride);
  const std::size_t step = head_rows * std::max<std::size_t>(kChunk / (head_rows * row), 1);
  std::string permuted;
  for (std::size_t first = 0; first < sources.size(); first += step) {
    const std::size_t count = std::min(step, sources.size() - first);
    const std::string rows = in.read(tensor.begin + first * row, count * row);
    permuted.resize(rows.size());
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t source = static_cast<std::size_t>(sources[first + i]) - first;
      std::memcpy(permuted.data() + i * row, rows.data() + source * row, row);
    }
    file.append(permuted.data(), permuted.size());
  }
}

void write_copy(const fs::path& from, const fs::path& to) {
  const FileReader in(from);
  PendingFile file(to);
  append_copy(file, in, 0, in.size());
  file.commit_durably();
}

void write_config(const PermutePlan& plan, Pairing to, const fs::path& path) {
  internal::Json config = internal::read_json_file(plan.folder / "config.json");
  config[plan.shape.interleave_key] = to == Pairing::kInterleaved;
  const std::string text = config.dump_lines();
  PendingFile file(path);
  file.append(text.data(), text.size());
  file.commit_durably();
}

/// The names of all tensors, by what they are.
struct Names {
  std::set<std::string> with_q;  // attentions
  std::set<std::string> with_k;
  std::set<std::string> with_v;
  std::vector<std::string> others;  // tensors that do not move
};

/// Every attention must have q, k and v of its own: q without k would change the scores, and values
/// made by the projection to k would move with it. Whatever else it has must not see q or k.
void check_complete(Names& names, const fs::path& folder) {
  const auto fail = [&folder](const std::string& name, const std::string& message) {
    throw IoError(folder.string(), IoError::kNoOffset, internal::quote(name) + message);
  };
  if (names.with_q.empty() && names.with_k.empty()) {
    throw IoError(folder.string(), IoError::kNoOffset, "has no projections to q and k");
  }
  std::vector<std::string> lone;
  std::ranges::set_symmetric_difference(names.with_q, names.with_k, std::back_inserter(lone));
  if (!lone.empty()) {
    fail(lone.front(), names.with_q.contains(lone.front())
                           ? " has a projection to q, but none to k"
                           : " has a projection to k, but none to q");
  }
  for (const std::string& name : names.others) {
    for (std::size_t dot = name.find('.'); dot != std::string::npos;
         dot = name.find('.', dot + 1)) {
      const std::string attention = name.substr(0, dot + 1);
      if (!names.with_q.contains(attention)) continue;
      const std::string rest = name.substr(dot + 1);
      const Beside beside = beside_projections(rest.substr(0, rest.find('.')));
      if (beside == Beside::kValue) names.with_v.insert(attention);
      if (beside == Beside::kUnknown) {
        fail(name, " is a part of the attention that is not known: it may see q or k");
      }
    }
  }
  for (const std::string& attention : names.with_k) {
    if (!names.with_v.contains(attention)) fail(attention, " has no projection to v of its own");
  }
}

}  // namespace

PermutePlan plan_permutation(const fs::path& folder) {
  PermutePlan plan{.folder = folder,
                   .shape = {},
                   .files = list_model_files(folder),
                   .shards = {},
                   .num_attentions = 0,
                   .num_tensors = 0,
                   .num_bytes = 0};
  plan.shape = read_attention_shape(folder / "config.json");
  Names names;
  for (const std::string& name : plan.files.shards) {
    const fs::path path = folder / name;
    const std::string source = path.string();
    const MappedFile file(path);
    PermutedShard shard{.name = name, .size = file.bytes().size(), .tensors = {}};
    for (const auto& entry : internal::parse_safetensors_header(file.bytes(), source)) {
      std::optional<Projection> found = find_projection(entry, plan.shape, source);
      if (!found) {
        names.others.push_back(entry.name);
        continue;
      }
      if (found->makes_q) names.with_q.insert(found->attention);
      if (found->makes_k) names.with_k.insert(found->attention);
      if (found->makes_q && found->makes_k) names.with_v.insert(found->attention);
      shard.tensors.push_back({.begin = entry.begin,
                               .end = entry.end,
                               .num_rows = found->num_rows,
                               .heads = std::move(found->heads)});
    }
    plan.num_tensors += static_cast<std::int64_t>(shard.tensors.size());
    plan.num_bytes += shard.size;
    plan.shards.push_back(std::move(shard));
  }
  check_complete(names, folder);
  plan.num_attentions = static_cast<std::int64_t>(names.with_q.size());
  return plan;
}

void permute_model(const PermutePlan& plan, Pairing from, Pairing to, const fs::path& out,
                   const std::function<void(std::uint64_t)>& on_bytes) {
  std::uint64_t written = 0;
  for (const PermutedShard& shard : plan.shards) {
    const FileReader in(plan.folder / shard.name);
    if (in.size() != shard.size) {
      throw IoError((plan.folder / shard.name).string(), IoError::kNoOffset,
                    "has changed meanwhile");
    }
    PendingFile file(out / shard.name);
    std::uint64_t done = 0;
    for (const PermutedTensor& tensor : shard.tensors) {
      append_copy(file, in, done, tensor.begin);
      append_rows(file, in, tensor, from, to);
      done = tensor.end;
      on_bytes(written + done);
    }
    append_copy(file, in, done, shard.size);
    file.commit_durably();
    written += shard.size;
    on_bytes(written);
  }
  for (const std::string& name : plan.files.others) {
    if (name == "config.json" && !plan.shape.interleave_key.empty()) {
      write_config(plan, to, out / name);
    } else {
      write_copy(plan.folder / name, out / name);
    }
  }
}

}  // namespace rotary::cli
