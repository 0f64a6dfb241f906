// SPDX-License-Identifier: Apache-2.0
// Writes archives and their attributes: see archive.hpp.
#include "runtime/data/archive.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "error.hpp"
#include "narrow.hpp"
#include "runtime/data/hdf5_kind.hpp"
#include "runtime/posix/atomic_file.hpp"
#include "runtime/posix/crc32c.hpp"

namespace halomesh {
namespace {

constexpr const char* kFormat = "halomesh archive 1";

/// The numeric attributes of the file and their names.
template <class Content, class Visit>
void for_each_number(Content& content, const Visit& visit) {
  visit("samples", content.samples);
  visit("first_sample", content.first_sample);
  visit("split_samples", content.split_samples);
  visit("extent_d", content.shape.d);
  visit("extent_h", content.shape.h);
  visit("extent_w", content.shape.w);
  visit("extent_c", content.shape.c);
  visit("targets", content.targets);
}

void write_attributes(Hdf5File& file, const ArchiveFile& content) {
  const auto text = [&](const char* name, const std::string& value) {
    file.write_attribute("/", name, value);
  };
  text("format", kFormat);
  text("axes", "x: sample,d,h,w,c; y: sample,target; crc32c: sample");
  text("source", content.source);
  file.write_attribute("/", "gzip", std::int64_t{content.gzip});
  for_each_number(content, [&](const char* name, std::int64_t value) {
    file.write_attribute("/", name, value);
  });
}

}  // namespace

struct ArchiveWriter::Open {
  explicit Open(const std::filesystem::path& path)
      : target(path), file(Hdf5File::create(target.temporary_path())) {}
  AtomicFile target;
  Hdf5File file;  // closed first
};

std::string archive_name(const std::string& split, std::int64_t file) {
  const std::string digits = std::to_string(file);
  return fmt::format("{}-{}{}.h5", split,
                     std::string(std::max<std::size_t>(5, digits.size()) - digits.size(), '0'),
                     digits);
}

bool is_archive_name(std::string_view name, std::string_view split) {
  constexpr std::string_view kEnd = ".h5";
  if (!name.starts_with(fmt::format("{}-", split)) || !name.ends_with(kEnd)) return false;
  name.remove_prefix(split.size() + 1);
  name.remove_suffix(std::min(kEnd.size(), name.size()));
  return name.size() >= 5 &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

ArchiveWriter::ArchiveWriter(const std::filesystem::path& path, ArchiveFile content)
    : content_(std::move(content)), open_(std::make_unique<Open>(path)) {
  const Shape& s = content_.shape;
  const std::int64_t n = content_.samples;
  require(n > 0, text("{}: an archive file needs at least one sample", path.c_str()));
  DatasetLayout layout;
  layout.checksum = true;
  layout.chunk = {n, content_.targets};
  Hdf5File& file = open_->file;
  file.create_dataset(kArchiveKind.targets, Hdf5Type::kFloat, {n, content_.targets}, layout);
  layout.chunk = {n};
  file.create_dataset(kArchiveKind.checksums, Hdf5Type::kUint32, {n}, layout);
  layout.chunk = {1, std::min<std::int64_t>(8, s.d), std::min<std::int64_t>(8, s.h),
                  std::min<std::int64_t>(64, s.w), s.c};
  layout.shuffle = content_.gzip > 0;
  layout.gzip = content_.gzip;
  file.create_dataset(kArchiveKind.voxels, Hdf5Type::kInt16, {n, s.d, s.h, s.w, s.c}, layout);
  write_attributes(file, content_);
}

ArchiveWriter::~ArchiveWriter() = default;

void ArchiveWriter::write(std::span<const std::int16_t> voxels, std::span<const float> targets) {
  const Shape& s = content_.shape;
  Hdf5File& file = open_->file;
  const std::array<std::uint32_t, 1> checksum{crc32c(std::as_bytes(voxels))};
  file.write(kArchiveKind.voxels, {{written_, 0, 0, 0, 0}, {1, s.d, s.h, s.w, s.c}}, voxels);
  file.write(kArchiveKind.targets, {{written_, 0}, {1, content_.targets}}, targets);
  file.write(kArchiveKind.checksums, {{written_}, {1}}, std::span<const std::uint32_t>(checksum));
  ++written_;
}

void ArchiveWriter::commit() {
  require(written_ == content_.samples,
          text("{}: {} samples of {}", open_->target.path().c_str(), written_, content_.samples));
  open_->file.close();
  open_->target.commit();
}

ArchiveFile read_archive_attributes(const Hdf5File& file) {
  require(file.has_attribute("/", "format") &&
              file.read_attribute<std::string>("/", "format") == kFormat,
          text("{} is not an archive that this version can read", file.path().c_str()),
          "use another directory, or remove the file");
  ArchiveFile content;
  content.source = file.read_attribute<std::string>("/", "source");
  content.gzip = file.has_attribute("/", "filter")
                     ? kOtherFilter
                     : narrow<int>(file.read_attribute<std::int64_t>("/", "gzip"));
  for_each_number(content, [&](const char* name, std::int64_t& value) {
    value = file.read_attribute<std::int64_t>("/", name);
  });
  return content;
}

std::optional<ArchiveFile> find_archive_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) return std::nullopt;
  return read_archive_attributes(Hdf5File::open(path));
}

}  // namespace halomesh
