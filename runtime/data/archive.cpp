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

/// Version 2: fields or labels, which earlier programs must refuse.
constexpr const char *kFormat = "halomesh archive 1", *kFormat2 = "halomesh archive 2";

constexpr const char* kAffines = "/affine";

bool is_version_2(const ArchiveFile& content) {
  return content.values != SampleFormat::Kind::kCounts || content.classes > 0;
}

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
  text("format", is_version_2(content) ? kFormat2 : kFormat);
  text("axes", content.classes > 0
                   ? "x: sample,d,h,w,c; labels: sample,d,h,w; crc32c, crc32c_labels: sample"
                   : "x: sample,d,h,w,c; y: sample,target; crc32c: sample");
  text("source", content.source);
  file.write_attribute("/", "gzip", std::int64_t{content.gzip});
  for_each_number(content, [&](const char* name, std::int64_t value) {
    file.write_attribute("/", name, value);
  });
  if (!is_version_2(content)) return;
  file.write_attribute("/", "classes", content.classes);
  text("values", content.values == SampleFormat::Kind::kCounts ? "counts" : "field");
}

const Hdf5Kind& kind_of(const ArchiveFile& content) {
  return content.classes > 0 ? kLabelArchiveKind : kArchiveKind;
}

Hdf5Type value_type(const ArchiveFile& content) {
  return content.values == SampleFormat::Kind::kCounts ? Hdf5Type::kInt16 : Hdf5Type::kFloat;
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
  const Hdf5Kind& kind = kind_of(content_);
  DatasetLayout layout;
  layout.checksum = true;
  layout.chunk = {n, content_.targets};
  Hdf5File& file = open_->file;
  if (kind.targets != nullptr)
    file.create_dataset(kind.targets, Hdf5Type::kFloat, {n, content_.targets}, layout);
  layout.chunk = {n};
  file.create_dataset(kind.voxels.checksums, Hdf5Type::kUint32, {n}, layout);
  if (kind.targets == nullptr)
    file.create_dataset(kind.labels.checksums, Hdf5Type::kUint32, {n}, layout);
  layout.chunk = {1, std::min<std::int64_t>(8, s.d), std::min<std::int64_t>(8, s.h),
                  std::min<std::int64_t>(64, s.w), s.c};
  layout.shuffle = content_.gzip > 0;
  layout.gzip = content_.gzip;
  file.create_dataset(kind.voxels.name, value_type(content_), {n, s.d, s.h, s.w, s.c}, layout);
  layout.chunk.pop_back();
  if (kind.targets == nullptr)
    file.create_dataset(kind.labels.name, Hdf5Type::kUint8, {n, s.d, s.h, s.w}, layout);
  write_attributes(file, content_);
  if (content_.affines.empty()) return;
  const Extents rows{std::ssize(content_.affines), 3, 4};
  layout = {};
  layout.checksum = true;
  layout.chunk = rows;
  file.create_dataset(kAffines, Hdf5Type::kDouble, rows, layout);
  file.write(kAffines, Slab::whole(rows), Hdf5Type::kDouble,
             std::as_bytes(std::span(content_.affines)));
}

ArchiveWriter::~ArchiveWriter() = default;

void ArchiveWriter::write_voxels(std::span<const std::byte> values) {
  const Shape& s = content_.shape;
  const std::array<std::uint32_t, 1> checksum{crc32c(values)};
  const Hdf5Tensor& voxels = kArchiveKind.voxels;
  open_->file.write(voxels.name, {{written_, 0, 0, 0, 0}, {1, s.d, s.h, s.w, s.c}},
                    value_type(content_), values);
  open_->file.write(voxels.checksums, {{written_}, {1}}, std::span<const std::uint32_t>(checksum));
}

void ArchiveWriter::write(std::span<const std::byte> values, std::span<const float> targets) {
  write_voxels(values);
  open_->file.write(kArchiveKind.targets, {{written_, 0}, {1, content_.targets}}, targets);
  ++written_;
}

void ArchiveWriter::write(std::span<const std::byte> values, std::span<const std::uint8_t> labels) {
  write_voxels(values);
  const Shape& s = content_.shape;
  const std::array<std::uint32_t, 1> checksum{crc32c(std::as_bytes(labels))};
  const Hdf5Tensor& tensor = kLabelArchiveKind.labels;
  open_->file.write(tensor.name, {{written_, 0, 0, 0}, {1, s.d, s.h, s.w}}, labels);
  open_->file.write(tensor.checksums, {{written_}, {1}}, std::span<const std::uint32_t>(checksum));
  ++written_;
}

void ArchiveWriter::commit() {
  require(written_ == content_.samples,
          text("{}: {} samples of {}", open_->target.path().c_str(), written_, content_.samples));
  open_->file.close();
  open_->target.commit();
}

ArchiveFile read_archive_attributes(const Hdf5File& file) {
  const std::string format = file.has_attribute("/", "format")
                                 ? file.read_attribute<std::string>("/", "format")
                                 : std::string();
  require(format == kFormat || format == kFormat2,
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
  if (format == kFormat) return content;
  content.classes = file.read_attribute<std::int64_t>("/", "classes");
  const auto values = file.read_attribute<std::string>("/", "values");
  require(values == "counts" || values == "field",
          text("{}: values are '{}', expected counts or field", file.path().c_str(), values),
          "use a newer version of this program");
  if (values == "field") content.values = SampleFormat::Kind::kField;
  return content;
}

std::vector<Affine> read_affines(Hdf5File& file, std::int64_t samples) {
  if (!file.contains(kAffines)) return {};
  const Extents rows{samples, 3, 4};
  require(file.extents(kAffines) == rows,
          text("{}: {} is not of {}x3x4", file.path().c_str(), kAffines, samples),
          "convert the data again");
  std::vector<Affine> affines(static_cast<std::size_t>(samples));
  file.read(kAffines, Slab::whole(rows), Hdf5Type::kDouble,
            std::as_writable_bytes(std::span(affines)));
  return affines;
}

std::optional<ArchiveFile> find_archive_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) return std::nullopt;
  Hdf5File file = Hdf5File::open(path);
  ArchiveFile content = read_archive_attributes(file);
  content.affines = read_affines(file, content.samples);
  return content;
}

}  // namespace halomesh
