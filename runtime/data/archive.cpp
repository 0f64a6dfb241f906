// SPDX-License-Identifier: Apache-2.0
// Writes archives and their attributes: see archive.hpp.
#include "runtime/data/archive.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "error.hpp"
#include "joined.hpp"
#include "narrow.hpp"
#include "runtime/data/hdf5_kind.hpp"
#include "runtime/posix/atomic_file.hpp"
#include "runtime/posix/crc32c.hpp"

namespace halomesh {
namespace {

/// Version 2 has fields or labels, which earlier programs must refuse.
constexpr const char *kFormat = "halomesh archive 1", *kFormat2 = "halomesh archive 2";

/// The datasets of the affine that counts, of the qform, and of the codes of the qform and the
/// sform.
constexpr const char *kAffines = "/affine", *kQforms = "/qform", *kFormCodes = "/form_codes";
/// The code of the affines in earlier versions, which stored no codes.
constexpr std::int32_t kAligned = 2;
/// Separates the names of samples: no file's name contains it.
constexpr char kBetweenNames = '/';

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
  if (!content.names.empty()) text("names", joined(content.names, std::string(1, kBetweenNames)));
  file.write_attribute("/", "gzip", std::int64_t{content.gzip});
  for_each_number(content, [&](const char* name, std::int64_t value) {
    file.write_attribute("/", name, value);
  });
  if (!is_version_2(content)) return;
  file.write_attribute("/", "classes", content.classes);
  text("values", content.values == SampleFormat::Kind::kCounts ? "counts" : "field");
}

void write_orientations(Hdf5File& file, const std::vector<Orientation>& orientations) {
  std::vector<VoxelTransform> affines, qforms;
  std::vector<std::int32_t> codes;
  for (const Orientation& o : orientations) {
    affines.push_back(o.affine());
    qforms.push_back(o.qform);
    codes.insert(codes.end(), {o.qform_code, o.sform_code});
  }
  const auto write = [&](const char* name, Hdf5Type type, const Extents& rows, const auto& values) {
    DatasetLayout layout;
    layout.checksum = true;
    layout.chunk = rows;
    file.create_dataset(name, type, rows, layout);
    file.write(name, Slab::whole(rows), type, std::as_bytes(std::span(values)));
  };
  const std::int64_t n = std::ssize(orientations);
  write(kAffines, Hdf5Type::kDouble, {n, 3, 4}, affines);
  write(kQforms, Hdf5Type::kDouble, {n, 3, 4}, qforms);
  write(kFormCodes, Hdf5Type::kInt32, {n, 2}, codes);
}

/// Reads rows of numbers. Throws Error unless there is one for each sample.
template <class T>
void read_rows(Hdf5File& file, const char* name, const Extents& rows, Hdf5Type type,
               std::vector<T>& values) {
  const Extents found = file.extents(name);
  require(found == rows,
          text("{}: {} of {}, expected {}", file.path().c_str(), name, joined(found, "x"),
               joined(rows, "x")),
          "convert the data again");
  values.resize(static_cast<std::size_t>(rows.front()));
  file.read(name, Slab::whole(rows), type, std::as_writable_bytes(std::span(values)));
}

/// Splits a text joined by kBetweenNames.
std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(kBetweenNames, at), text.size());
    names.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return names;
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
  Hdf5File file;  // closed before `target` removes the temporary file
};

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
  if (!kind.targets.empty())
    file.create_dataset(kind.targets, Hdf5Type::kFloat, {n, content_.targets}, layout);
  layout.chunk = {n};
  file.create_dataset(kind.voxels.checksums, Hdf5Type::kUint32, {n}, layout);
  if (kind.targets.empty())
    file.create_dataset(kind.labels.checksums, Hdf5Type::kUint32, {n}, layout);
  layout.chunk = {1, std::min<std::int64_t>(8, s.d), std::min<std::int64_t>(8, s.h),
                  std::min<std::int64_t>(64, s.w), s.c};
  layout.shuffle = content_.gzip > 0;
  layout.gzip = content_.gzip;
  file.create_dataset(kind.voxels.name, value_type(content_), {n, s.d, s.h, s.w, s.c}, layout);
  layout.chunk.pop_back();
  if (kind.targets.empty())
    file.create_dataset(kind.labels.name, Hdf5Type::kUint8, {n, s.d, s.h, s.w}, layout);
  write_attributes(file, content_);
  if (!content_.orientations.empty()) write_orientations(file, content_.orientations);
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
          "use another directory");
  ArchiveFile content;
  content.source = file.read_attribute<std::string>("/", "source");
  content.gzip = file.has_attribute("/", "filter")
                     ? kOtherFilter
                     : narrow<int>(file.read_attribute<std::int64_t>("/", "gzip"));
  for_each_number(content, [&](const char* name, std::int64_t& value) {
    value = file.read_attribute<std::int64_t>("/", name);
  });
  if (file.has_attribute("/", "names")) {
    content.names = split_names(file.read_attribute<std::string>("/", "names"));
    require(std::ssize(content.names) == content.samples,
            text("{}: {} names of {} samples", file.path().c_str(), content.names.size(),
                 content.samples),
            "convert the data again");
  }
  if (format == kFormat) return content;
  content.classes = file.read_attribute<std::int64_t>("/", "classes");
  const auto values = file.read_attribute<std::string>("/", "values");
  require(values == "counts" || values == "field",
          text("{}: values are '{}', expected counts or field", file.path().c_str(), values),
          "use a newer version of this program");
  if (values == "field") content.values = SampleFormat::Kind::kField;
  return content;
}

std::vector<Orientation> read_orientations(Hdf5File& file, std::int64_t samples) {
  if (!file.contains(kAffines)) return {};
  std::vector<VoxelTransform> affines, qforms;
  std::vector<std::array<std::int32_t, 2>> codes;
  read_rows(file, kAffines, {samples, 3, 4}, Hdf5Type::kDouble, affines);
  const bool has_codes = file.contains(kFormCodes);
  if (has_codes) {
    read_rows(file, kQforms, {samples, 3, 4}, Hdf5Type::kDouble, qforms);
    read_rows(file, kFormCodes, {samples, 2}, Hdf5Type::kInt32, codes);
  }
  std::vector<Orientation> all;
  for (std::size_t i = 0; i < affines.size(); ++i)
    if (has_codes && codes[i][1] == 0)
      all.push_back({{}, qforms[i], 0, codes[i][0]});
    else if (has_codes)
      all.push_back({affines[i], qforms[i], codes[i][1], codes[i][0]});
    else
      all.push_back({affines[i], spacing_of(affines[i]), kAligned, 0});
  return all;
}

std::optional<ArchiveFile> find_archive_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) return std::nullopt;
  Hdf5File file = Hdf5File::open(path);
  ArchiveFile content = read_archive_attributes(file);
  content.orientations = read_orientations(file, content.samples);
  return content;
}

}  // namespace halomesh
