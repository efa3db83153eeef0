// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// JPEG by libjpeg. Files are hostile: sizes are checked before anything is decoded, and errors of
// the library come back here by longjmp, past C frames alone.
// clang-format off: jpeglib.h uses FILE without declaring it
#include <cstdio>
#include <jpeglib.h>
// clang-format on

#include <csetjmp>
#include <memory>
#include <vector>

#include "roformer/lab/image_data.h"
#include "rotary/error.h"
#include "support/message.h"

namespace rotary::roformer::lab {
namespace {

struct JpegErrors {
  jpeg_error_mgr manager;
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
};

void leave_jpeg(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->message);
  std::longjmp(errors->back, 1);
}

void keep_quiet(j_common_ptr /*info*/, int /*level*/) {}

/// What a decoder reads into; no C++ object lives between setjmp() and longjmp().
struct JpegTarget {
  unsigned size;
  unsigned char* rows;  // [size, size, 3]
  unsigned width = 0;
  unsigned height = 0;
  bool fits = false;
};

bool decode_jpeg(std::FILE* file, JpegErrors* errors, JpegTarget* target) {
  jpeg_decompress_struct info;
  info.err = jpeg_std_error(&errors->manager);
  errors->manager.error_exit = leave_jpeg;
  errors->manager.emit_message = keep_quiet;
  if (setjmp(errors->back) != 0) {
    jpeg_destroy_decompress(&info);
    return false;
  }
  jpeg_create_decompress(&info);
  jpeg_stdio_src(&info, file);
  jpeg_read_header(&info, TRUE);
  target->width = info.image_width;
  target->height = info.image_height;
  target->fits = info.image_width == target->size && info.image_height == target->size;
  if (target->fits) {
    info.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info);
    while (info.output_scanline < info.output_height) {
      JSAMPROW row = target->rows + std::size_t{3} * target->size * info.output_scanline;
      jpeg_read_scanlines(&info, &row, 1);
    }
    jpeg_finish_decompress(&info);
  }
  jpeg_destroy_decompress(&info);
  return true;
}

}  // namespace

bool can_read_jpeg() { return true; }

void read_jpeg(const std::filesystem::path& path, std::int64_t size, std::uint8_t* to) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  if (!file) throw IoError(path.string(), IoError::kNoOffset, "cannot be opened");
  const auto pixels = static_cast<std::size_t>(size * size);
  std::vector<unsigned char> rows(3 * pixels);
  JpegErrors errors{};
  JpegTarget target{.size = static_cast<unsigned>(size), .rows = rows.data()};
  if (!decode_jpeg(file.get(), &errors, &target)) {
    throw IoError(path.string(), IoError::kNoOffset, std::string("no JPEG: ") + errors.message);
  }
  if (!target.fits) {
    throw IoError(path.string(), IoError::kNoOffset,
                  internal::concat("must have ", size, " x ", size, " pixels, got ", target.width,
                                   " x ", target.height));
  }
  for (std::size_t i = 0; i < pixels; ++i) {
    for (std::size_t c = 0; c < 3; ++c) to[c * pixels + i] = rows[3 * i + c];
  }
}

}  // namespace rotary::roformer::lab
