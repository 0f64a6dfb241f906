// SPDX-License-Identifier: Apache-2.0
// A split in HDF5 files, its index and its reader: see hdf5_dataset.hpp.
#include "runtime/data/hdf5_dataset.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "counted.hpp"
#include "error.hpp"
#include "joined.hpp"
#include "runtime/data/archive.hpp"
#include "runtime/data/block_writer.hpp"
#include "runtime/data/data_content.hpp"
#include "runtime/data/hdf5_field.hpp"
#include "runtime/data/sample_checks.hpp"

namespace halomesh {
namespace {

constexpr const char* kLabelForEach =
    "there must be a label for each voxel of a sample: make the file again";

std::string text_of(const Extents& extents) {
  return extents.empty() ? "a single value" : joined(extents, "x");
}

/// The hint for voxels of other extents: the --input that would fit, if any.
std::string extents_hint(const Extents& found, const Hdf5Kind& kind, const Shape& wanted) {
  Extents sample = found;
  if (kind.stacked && !sample.empty()) sample.erase(sample.begin());
  if (kind.is_flat && sample.size() == 3) sample.insert(sample.begin() + 1, 1);
  if (!kind.has_channels) sample.push_back(1);
  if (sample.size() != 4 || std::ranges::find(sample, 0) != sample.end())
    return "keep only files of one format in the directory";
  if (sample.front() == wanted.c && sample.back() != wanted.c)
    return "channels come last, as in depth, height, width, channel: move the first axis there";
  const std::string input = text_of(sample);
  if (sample.back() == wanted.c) return "try --input " + input;
  return fmt::format(
      "the data have {} in each voxel, the network takes {}: train one with --input {}",
      counted(sample.back(), "channel"), wanted.c, input);
}

/// The extents of a dataset with so many samples of these extents.
Extents with_samples(Extents sample, const Hdf5Kind& kind, std::int64_t samples) {
  if (kind.stacked) sample.insert(sample.begin(), samples);
  return sample;
}

class Hdf5SampleReader final : public SampleReader {
 public:
  explicit Hdf5SampleReader(const Hdf5Dataset& dataset) : dataset_(dataset) {}

  DataType type() const override { return dataset_.format().type(); }
  void read(std::int64_t sample, AnyView dst, AnyView targets) override {
    const Shape shape = dataset_.shape_of(sample);
    if (!Box::whole(shape).contains(dst.span))
      throw Error(fmt::format("block {} is not within the sample {}", dst.span, shape));
    const Place place = begin(sample, targets);
    place_in(*voxels_, type(), place, dst);
  }
  void read_slabs(std::int64_t sample, const Box& box, const SlabSink& sink,
                  AnyView targets) override {
    const Place place = begin(sample, targets);
    voxels_->each_slab(place.index, box, place.where,
                       [&](const Box& slab, std::span<const std::byte> values) {
                         sink({values.data(), type(), slab, 1});
                       });
  }
  void stream(std::int64_t sample, const VoxelSink& sink, AnyView targets) override {
    const Place place = begin(sample, targets);
    pass_on(*voxels_, content_.shape, type(), place, sink);
  }
  void stream_labels(std::int64_t sample, const VoxelSink& sink) override {
    require(dataset_.has_labels(), text("{} has no labels", dataset_.directory().c_str()));
    const Place place = begin(sample, {});
    const Shape& shape = content_.shape;
    pass_on(*labels_, {1, shape.d, shape.h, shape.w}, DataType::kUint8, place, sink);
  }

 private:
  struct Place {
    std::int64_t index = 0;  // the index within the open file
    std::string where;       // the place that messages name
  };
  /// Opens the sample's file and reads its targets.
  Place begin(std::int64_t sample, AnyView targets) {
    const SampleIndex::Place at = dataset_.place(sample);
    if (at.file != open_file_) open(at.file);
    Place place{at.index, fmt::format("{}: sample {}", file_->path().c_str(), at.index)};
    if (!dataset_.has_labels())
      read_scalars(place, targets);
    else if (!targets.span.empty())
      place_in(*labels_, DataType::kUint8, place, targets);
    return place;
  }
  void open(std::int64_t file) {
    open_file_ = -1;
    voxels_.reset();
    labels_.reset();
    file_.reset();
    file_.emplace(Hdf5File::open(dataset_.files().path(file)));
    content_ = dataset_.content_of(*file_);
    const auto& [samples, shape, kind] = content_;
    voxels_.emplace(*file_, kind, kind.voxels, shape, dataset_.format(), samples);
    if (dataset_.has_labels())
      labels_.emplace(*file_, kind, kind.labels, Shape{1, shape.d, shape.h, shape.w},
                      dataset_.label_format(), samples);
    open_file_ = file;
  }
  void read_scalars(const Place& place, AnyView targets);
  static void place_in(Hdf5Field& field, DataType type, const Place& place, AnyView dst);
  void pass_on(Hdf5Field& field, const Shape& shape, DataType type, const Place& place,
               const VoxelSink& sink) const;

  const Hdf5Dataset& dataset_;
  std::int64_t open_file_ = -1;  // the open file's number
  std::optional<Hdf5File> file_;
  Hdf5Dataset::Content content_;              // that of file_
  std::optional<Hdf5Field> voxels_, labels_;  // fields of file_
  std::vector<float> all_targets_;
};

void Hdf5SampleReader::read_scalars(const Place& place, AnyView targets) {
  if (dataset_.targets() == 0) return;
  const Hdf5Kind& kind = content_.kind;
  Slab row = Slab::whole(file_->extents(kind.targets));
  if (kind.stacked) row.offset.front() = place.index;
  if (kind.stacked) row.count.front() = 1;
  read_numbers(*file_, kind.targets, row, all_targets_);
  check_targets(all_targets_, dataset_.target_limits(), place.where);
  copy_scalars(all_targets_, targets);
}

/// Fills a block of a sample; `type` is that of the field's values.
void Hdf5SampleReader::place_in(Hdf5Field& field, DataType type, const Place& place, AnyView dst) {
  field.each_slab(
      place.index, dst.span, place.where, [&](const Box& slab, std::span<const std::byte> values) {
        // The slab consists of whole planes of the block, so it is dense there.
        BlockWriter writer(slab.shape(),
                           {dst.begin_of(0, slab), dst.type, Box::whole(slab.shape()), 1}, type);
        writer.take(0, values);
      });
}

void Hdf5SampleReader::pass_on(Hdf5Field& field, const Shape& shape, DataType type,
                               const Place& place, const VoxelSink& sink) const {
  const std::int64_t plane_bytes = value_bytes(shape, type) / shape.d;
  field.each_slab(place.index, Box::whole(shape), place.where,
                  [&](const Box& slab, std::span<const std::byte> values) {
                    sink(slab.lo[kD] * plane_bytes, values);
                  });
}

}  // namespace

Hdf5Dataset::Hdf5Dataset(const Comm& comm, DatasetFiles files, Hdf5Kind kind, const Shape& shape,
                         const TargetSpec& targets, SampleFormat format)
    : Dataset(shape, targets, std::move(format)),
      files_(std::move(files)),
      kind_(std::move(kind)),
      any_extents_(shape.spatial() == Spatial{}) {
  if (targets.classes > 0) label_format_ = SampleFormat::labels(targets.classes);
  if (targets.is_none()) kind_.targets.clear();
  if (targets.is_none()) kind_.labels = {};
  require(!any_extents_ || targets.scalars == 0, "samples of any extents without labels",
          "give the extents of the samples");
  FileScan scanned(comm, files_, [this](std::int64_t file) { return scan(file); });
  identity_ = scanned.identity();
  index(scanned);
}

/// Checks that all data of a file are stored; returns the other files that have some of them.
std::vector<std::string> Hdf5Dataset::require_stored(Hdf5File& file) const {
  std::vector<std::string> others;
  for (const std::string& name : {kind_.voxels.name, kind_.voxels.checksums, kind_.targets,
                                  kind_.labels.name, kind_.labels.checksums}) {
    if (name.empty()) continue;
    for (const auto& other : file.require_stored(name)) others.push_back(other.string());
  }
  return others;
}

std::uint64_t Hdf5Dataset::file_hash(std::int64_t file) const {
  const std::string path = files_.path(file);
  Hdf5File opened = Hdf5File::open(path);
  std::uint64_t hash = !kind_.voxels.checksums.empty() ? end_hash(path) : block_hash(path);
  for (const std::string& name : {kind_.targets, kind_.voxels.checksums, kind_.labels.checksums}) {
    const auto type = name.empty() ? std::nullopt : opened.type(name);
    if (!type) continue;
    const Extents all = opened.extents(name);
    auto bytes = static_cast<std::size_t>(size_of(*type));
    for (const std::int64_t extent : all) bytes *= static_cast<std::size_t>(extent);
    std::string values(bytes, '\0');
    opened.read(name, Slab::whole(all), *type, std::as_writable_bytes(std::span(values)));
    hash = content_hash(values, hash);
  }
  for (const std::string& other : require_stored(opened)) hash += block_hash(other);
  return hash;
}

/// The number of samples in a file, their extents and the stamps of other files that it refers to;
/// for an archive also the number of its first sample and the total.
std::vector<std::int64_t> Hdf5Dataset::scan(std::int64_t file) const {
  Hdf5File opened = Hdf5File::open(files_.path(file));
  const auto [samples, shape, kind] = content_of(opened);
  std::uint64_t sum = 0;
  for (const std::string& other : require_stored(opened)) sum += stamp_of(other);
  const auto stamps = static_cast<std::int64_t>(sum);
  if (!kind_.is_archive) return {samples, shape.d, shape.h, shape.w, stamps};
  const ArchiveFile content = read_archive_attributes(opened);
  require(!has_labels() || content.classes <= label_format_->classes(),
          text("{}: labels of {} classes, expected {} at most", opened.path().c_str(),
               content.classes, label_format_->classes()),
          "the network needs an output channel for each class");
  return {samples, shape.d, shape.h, shape.w, stamps, content.first_sample, content.split_samples};
}

void Hdf5Dataset::index(FileScan& scanned) {
  std::int64_t expected = 0;  // the number of samples in the archive
  const auto missing = [&](const std::string& what) {
    throw Error(fmt::format("{}: {}: files of the archive are missing", directory().c_str(), what),
                "run the same `halomesh convert` command again, or copy all files");
  };
  Spatial largest{};
  std::uint64_t stamps = 0;
  for (std::int64_t f = 0; f < files_.size(); ++f) {
    const std::int64_t before = f == 0 ? 0 : index_.size();
    index_.append(scanned.take(f));
    Spatial& extents = extents_.emplace_back();
    for (std::size_t axis = 0; axis < 3; ++axis) {
      extents[axis] = scanned.take(f);
      largest[axis] = std::max(largest[axis], extents[axis]);
    }
    stamps += static_cast<std::uint64_t>(scanned.take(f));
    if (!kind_.is_archive) continue;
    const std::int64_t first = scanned.take(f), all = scanned.take(f);
    if (first != before || (f > 0 && all != expected))
      missing(fmt::format("{} starts with sample {} of {}, expected {}{}", files_.name(f), first,
                          all, before, f > 0 ? fmt::format(" of {}", expected) : ""));
    expected = all;
  }
  if (stamps != 0) identity_ += fmt::format(", {:x}", stamps);
  if (any_extents_)
    resize(largest);
  else
    extents_.clear();
  if (kind_.is_archive && index_.size() != expected)
    missing(fmt::format("{} ends before sample {} of {}", files_.name(files_.size() - 1),
                        index_.size(), expected));
}

SampleIndex::Place Hdf5Dataset::place(std::int64_t sample) const {
  if (sample < 0 || sample >= size())
    throw Error(fmt::format("sample {} of {}, which has {}", sample, directory().c_str(), size()));
  return index_.place(sample);
}

Shape Hdf5Dataset::shape_of(std::int64_t sample) const {
  if (!any_extents_) return shape();
  const Spatial& extents = extents_[static_cast<std::size_t>(place(sample).file)];
  return {shape().c, extents[0], extents[1], extents[2]};
}

std::string Hdf5Dataset::name(std::int64_t sample) const {
  const SampleIndex::Place at = place(sample);
  if (kind_.is_archive)
    if (const auto names = read_archive_attributes(Hdf5File::open(files_.path(at.file))).names;
        !names.empty())
      return names[static_cast<std::size_t>(at.index)];
  const std::string stem = std::filesystem::path(files_.name(at.file)).stem().string();
  const bool has_others = index_.first(at.file + 1) - index_.first(at.file) > 1;
  return kind_.is_archive || has_others ? fmt::format("{}:{}", stem, at.index) : stem;
}

std::optional<Orientation> Hdf5Dataset::orientation_of(std::int64_t sample) const {
  const SampleIndex::Place at = place(sample);
  if (!kind_.is_archive) return std::nullopt;
  Hdf5File file = Hdf5File::open(files_.path(at.file));
  const auto all = read_orientations(file, content_of(file).samples);
  if (all.empty()) return std::nullopt;
  return all[static_cast<std::size_t>(at.index)];
}

/// The kind with the axes that samples have in this file.
Hdf5Kind Hdf5Dataset::kind_in(Hdf5File& file) const {
  for (const std::string& name : {kind_.voxels.name, kind_.targets}) {
    const bool is_there = name.empty() || file.contains(name);
    require(is_there,
            text("{} has no dataset {}, only {}", file.path().c_str(), name,
                 joined(file.members("/"), ", ")),
            "name the datasets by --inputs and --targets-from, or keep only such files");
  }
  Hdf5Kind kind = kind_;
  if (!kind.has_free_axes) return kind;
  const Extents found = file.extents(kind_.voxels.name);
  const Shape& wanted = shape();
  kind.has_channels = wanted.c > 1 || found.size() > 4 ||
                      (found.size() == 4 && found.back() == 1 && (wanted.w != 1 || found[2] == 1));
  kind.stacked = found.size() == (kind.has_channels ? 5 : 4);
  return kind;
}

/// The shape that samples of the file must have: the requested one, or with any extents its own.
Shape Hdf5Dataset::shape_in(Hdf5File& file, const Hdf5Kind& kind) const {
  if (!any_extents_) return shape();
  Extents found = file.extents(kind_.voxels.name);
  if (kind.stacked && !found.empty()) found.erase(found.begin());
  if (!kind.has_channels) found.push_back(1);
  if (kind_.is_flat && found.size() == 3) found.insert(found.begin() + 1, 1);
  require(found.size() == 4 &&
              std::none_of(found.begin(), found.end(), [](std::int64_t n) { return n < 1; }),
          text("{}: {} of {}, expected a volume with channels", file.path().c_str(),
               kind_.voxels.name, text_of(file.extents(kind_.voxels.name))),
          "keep only files of one format in the directory");
  return {shape().c, found[0], found[1], found[2]};
}

Hdf5Dataset::Content Hdf5Dataset::content_of(Hdf5File& file) const {
  const Hdf5Kind kind = kind_in(file);
  const Extents found = file.extents(kind_.voxels.name);
  Content content{1, shape_in(file, kind), kind};
  if (kind.stacked) content.samples = found.empty() ? 0 : found.front();
  const Shape& s = content.shape;
  const std::int64_t n = kind_.cuts;
  if (n > 1 && found == Extents{n * s.d, n * s.h, n * s.w, s.c}) content.samples = n * n * n;
  check_voxels(file, content);
  if (has_labels())
    check_labels(file, content);
  else if (targets() > 0)
    check_scalars(file, content);
  require(content.samples > 0, text("{} holds no sample", file.path().c_str()),
          "make the file again, or keep it out of the data set");
  check_sums(file, kind_.voxels, content.samples);
  return content;
}

/// The hint for a file of other extents than those of --input: looks at those of the other files.
std::string Hdf5Dataset::extents_cure(const Extents& found, const Hdf5Kind& kind) const {
  constexpr std::int64_t kMostFiles = 1000;
  const std::ptrdiff_t first = kind.stacked ? 1 : 0, last = kind.has_channels ? 1 : 0;
  if (std::ssize(found) <= first + last || kind.cuts > 1) return extents_hint(found, kind, shape());
  const auto spatial = [&](const Extents& all) {
    return Extents(all.begin() + first, all.end() - last);
  };
  Extents least = spatial(found), largest = least;
  for (std::int64_t f = 0; f < std::min(files_.size(), kMostFiles); ++f) {
    Hdf5File other = Hdf5File::open(files_.path(f));
    const Extents all =
        other.contains(kind.voxels.name) ? other.extents(kind.voxels.name) : Extents();
    if (all.size() != found.size()) continue;
    const Extents extents = spatial(all);
    std::ranges::transform(extents, least, least.begin(), std::ranges::min);
    std::ranges::transform(extents, largest, largest.begin(), std::ranges::max);
  }
  if (least == largest) return extents_hint(found, kind, shape());
  return fmt::format("samples have extents from {} to {}: {}", text_of(least), text_of(largest),
                     kUnequalExtentsCure);
}

void Hdf5Dataset::check_voxels(Hdf5File& file, const Content& content) const {
  const std::string& name = kind_.voxels.name;
  const auto type = file.type(name);
  require(type && format().accepts(*type),
          text("{}: {} is not of {}", file.path().c_str(), name,
               format().type() == DataType::kInt16 ? "int16" : "float32"),
          "files of a data set hold int16, which are counts, or all hold other numbers");
  const Extents found = file.extents(name);
  const auto& [samples, s, kind] = content;
  const std::int64_t n = kind_.cuts;
  Extents sample{s.d, s.h, s.w, s.c};
  if (kind_.is_flat) sample = {s.d, s.w, s.c};
  if (!kind.has_channels) sample.pop_back();
  const Extents expected = with_samples(sample, kind, samples);
  const bool is_cut = n > 1 && samples > 1;  // samples_in() has compared the extents
  require(
      is_cut || (found == expected && (!kind_.is_flat || s.h == 1)),
      text("{}: {} of {}, expected {}{}", file.path().c_str(), name, text_of(found),
           text_of(expected),
           n > 1                       ? fmt::format(" or {} times as much along d, h and w", n)
           : kind_.is_flat && s.h != 1 ? fmt::format(" as samples of 1 along h, not {}", s.h)
                                       : std::string()),
      format().kind() == SampleFormat::Kind::kLabels ? kLabelForEach : extents_cure(found, kind));
}

void Hdf5Dataset::check_scalars(Hdf5File& file, const Content& content) const {
  require(file.type(kind_.targets).has_value(),
          text("{}: {} holds {}, expected numbers", file.path().c_str(), kind_.targets,
               file.type_name(kind_.targets)),
          "write integers, float32 or float64");
  const Extents found = file.extents(kind_.targets);
  const Extents expected = with_samples({targets()}, content.kind, content.samples);
  require(
      found == expected || (targets() == 1 && kind_.has_free_axes &&
                            found == with_samples({}, content.kind, content.samples)),
      text("{}: {} of {}, expected {}", file.path().c_str(), kind_.targets, text_of(found),
           text_of(expected)),
      found.size() == expected.size()
          ? number_hint(target_limits(), found.back())
          : fmt::format("the targets of a sample must be a list of {} numbers, without other axes",
                        targets()));
}

void Hdf5Dataset::check_labels(Hdf5File& file, const Content& content) const {
  const std::string& name = kind_.labels.name;
  require(file.contains(name), text("{} has no labels {}", file.path().c_str(), name),
          "name the dataset that has them by --targets-from, or make the file again");
  require(
      file.type(name).has_value(),
      text("{}: {} holds {}, expected integers", file.path().c_str(), name, file.type_name(name)),
      "labels must be integers: 0 for the first class");
  const auto& [samples, s, kind] = content;
  Extents sample{s.d, s.h, s.w};
  if (kind_.is_flat) sample = {s.d, s.w};
  const Extents found = file.extents(name), expected = with_samples(sample, kind, samples);
  require(found == expected,
          text("{}: {} of {}, expected {}", file.path().c_str(), name, text_of(found),
               text_of(expected)),
          kLabelForEach);
  check_sums(file, kind_.labels, samples);
}

void Hdf5Dataset::check_sums(Hdf5File& file, const Hdf5Tensor& tensor, std::int64_t samples) const {
  const std::string& name = tensor.checksums;
  if (name.empty()) return;
  require(file.holds(name, Hdf5Type::kUint32),
          text("{}: {} is not of uint32", file.path().c_str(), name),
          "the archive is damaged: make it again");
  const Extents found = file.extents(name);
  require(found == Extents{samples},
          text("{}: {} of {}, expected {}", file.path().c_str(), name, text_of(found), samples),
          "the archive is damaged: make it again");
}

std::unique_ptr<SampleReader> Hdf5Dataset::reader() const {
  return std::make_unique<Hdf5SampleReader>(*this);
}

}  // namespace halomesh
