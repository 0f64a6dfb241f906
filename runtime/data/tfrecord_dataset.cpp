// SPDX-License-Identifier: Apache-2.0
// A split in TFRecord files, its index and its reader: see tfrecord_dataset.hpp.
#include "runtime/data/tfrecord_dataset.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "error.hpp"
#include "runtime/data/block_writer.hpp"
#include "runtime/data/data_content.hpp"
#include "runtime/data/dataset_format.hpp"
#include "runtime/data/example.hpp"
#include "runtime/data/sample_checks.hpp"
#include "runtime/data/tfrecord.hpp"
#include "runtime/posix/descriptor.hpp"
#include "runtime/posix/input_file.hpp"
#include "system_error.hpp"

namespace halomesh {
namespace {

// This leaves space for the Example's own fields (55 bytes in the benchmark) and for further
// features.
constexpr std::int64_t kExampleSlackBytes = 64 * 1024;

/// The most bytes of a number in a list.
constexpr std::int64_t kMostListed = 10;

/// Bytes of the counts of a sample.
std::int64_t count_bytes(const Shape& shape) { return value_bytes(shape, DataType::kInt16); }

/// The hint for `bytes` of voxels of `type` (and up to `slack` more): the --input that would fit,
/// if any.
std::string extents_hint(std::int64_t bytes, std::int64_t slack, const Shape& asked,
                         DataType type) {
  if (type == DataType::kInt16 && bytes >= 2 * count_bytes(asked) &&
      bytes - 2 * count_bytes(asked) <= slack)
    return fmt::format(
        "byte strings are read as int16: write float32 as a list of floats, or set --input to the "
        "extents of the data instead of {}",
        asked);
  for (const std::int64_t c : {asked.c, std::int64_t{4}, std::int64_t{1}, std::int64_t{2}}) {
    if (c < 1) continue;
    const std::int64_t voxels = bytes / (size_of(type) * c);
    const auto n = static_cast<std::int64_t>(std::cbrt(static_cast<double>(voxels)) + 1e-6);
    const Shape cube{c, n, n, n};
    if (n > 0 && bytes - value_bytes(cube, type) <= slack)
      return fmt::format("these would be samples of {}: try --input {}", cube, cube);
  }
  return fmt::format("set --input DxHxWxC to the extents of the data ({} bytes per voxel)",
                     size_of(type));
}

/// Cuts slabs of a box out of the voxels of a sample, which arrive in pieces.
class SlabCollector {
 public:
  /// `memory` grows to the size of a slab.
  SlabCollector(const Shape& sample, DataType type, std::vector<Box> slabs,
                std::vector<std::byte>& memory, const SampleReader::SlabSink& sink)
      : sample_(sample), type_(type), slabs_(std::move(slabs)), memory_(memory), sink_(sink) {
    if (!slabs_.empty())
      memory_.resize(std::max(memory_.size(),
                              static_cast<std::size_t>(slabs_.front().volume() * size_of(type))));
    start();
  }
  /// Takes a piece as a VoxelSink does.
  void take(std::int64_t offset, std::span<const std::byte> bytes) {
    while (writer_) {
      // The writer of a slab does not get the bytes before the slab, so its first piece may begin
      // within a voxel.
      writer_->take(offset, bytes);
      if (offset + std::ssize(bytes) < end_) return;
      sink_(view());
      ++slab_;
      start();
    }
  }

 private:
  AnyView view() const { return {memory_.data(), type_, slabs_[slab_], 1}; }
  void start() {
    writer_.reset();
    if (slab_ == slabs_.size()) return;
    const Box& box = slabs_[slab_];
    writer_.emplace(sample_, view(), type_);
    const std::int64_t row = size_of(type_) * sample_.w * sample_.c;
    end_ = ((box.hi[kD] - 1) * sample_.h + box.hi[kH]) * row;
  }

  Shape sample_;
  DataType type_;
  std::vector<Box> slabs_;
  std::vector<std::byte>& memory_;
  const SampleReader::SlabSink& sink_;
  std::size_t slab_ = 0;
  std::optional<BlockWriter> writer_;  // the writer of the current slab; empty after the last
  std::int64_t end_ = 0;               // the end of its bytes in the sample
};

/// Converts and checks the elements of a feature as they arrive, and passes on their values.
class CheckedValues {
 public:
  CheckedValues(const SampleFormat& format, const Shape& shape, VoxelSink sink)
      : format_(format), shape_(shape), sink_(std::move(sink)) {}
  void take(std::int64_t first, Hdf5Type type, std::span<std::byte> elements) {
    if (format_.kind() == SampleFormat::Kind::kCounts) {
      type = Hdf5Type::kInt16;
      first /= size_of(type);
    }
    const std::int64_t size = size_of(format_.type()), count = std::ssize(elements) / size_of(type);
    if (invalid_ || first + count > shape_.volume()) return;
    std::span<std::byte> values = elements;
    if (!format_.is_stored_as(type)) {
      values_.resize(static_cast<std::size_t>(count * size));
      values = values_;
    }
    invalid_ = format_.convert(type, elements, 0, 1, values);
    if (invalid_)
      invalid_->index += first;
    else
      sink_(first * size, values);
  }
  void check(const std::string& where) const {
    check_values(invalid_, format_, Box::whole(shape_), where);
  }

 private:
  const SampleFormat& format_;
  Shape shape_;
  VoxelSink sink_;
  std::vector<std::byte> values_;
  std::optional<InvalidValue> invalid_;
};

class TfRecordSampleReader final : public SampleReader {
 public:
  explicit TfRecordSampleReader(const TfRecordDataset& dataset)
      : dataset_(dataset), records_(dataset.largest_payload()) {}

  DataType type() const override { return dataset_.format().type(); }
  void read(std::int64_t sample, AnyView dst, AnyView targets) override {
    if (!Box::whole(dataset_.shape()).contains(dst.span))
      throw Error(fmt::format("block {} is not within the sample {}", dst.span, dataset_.shape()));
    BlockWriter block(dataset_.shape(), dst, type());
    take_record(
        sample, [&](auto offset, auto bytes) { block.take(offset, bytes); }, targets);
  }
  void read_slabs(std::int64_t sample, const Box& box, const SlabSink& sink,
                  AnyView targets) override {
    SlabCollector collector(dataset_.shape(), type(), slabs(box, type()), slab_, sink);
    take_record(
        sample, [&](auto offset, auto bytes) { collector.take(offset, bytes); }, targets);
  }
  void stream(std::int64_t sample, const VoxelSink& sink, AnyView targets) override {
    take_record(sample, sink, targets);
  }
  void stream_labels(std::int64_t sample, const VoxelSink& sink) override {
    take_record(
        sample, [](auto, auto) {}, {}, sink);
  }
  void expect(std::int64_t sample) override;
  /// Checks the format of a sample in a plain file without reading its voxels.
  void outline(std::int64_t sample);

 private:
  /// Passes the voxels of a record to `voxels`, in pieces of whole values, and all labels to
  /// `labels`, if any.
  void take_record(std::int64_t sample, const VoxelSink& voxels, AnyView targets,
                   const VoxelSink& labels = {});
  std::int64_t open(const TfRecordDataset::Place& place);
  void decode(const TfRecordDataset::Place& place, std::int64_t length, const VoxelSink& voxels,
              AnyView targets, const VoxelSink& labels);
  void check_format(const TfRecordDataset::Place& place,
                    const ExampleDecoder::Contents& found) const;
  void check_scalars(const TfRecordDataset::Place& place,
                     const ExampleDecoder::Contents& found) const;
  void check_labels(const TfRecordDataset::Place& place,
                    const ExampleDecoder::Feature& found) const;
  [[noreturn]] void fail(const TfRecordDataset::Place& place, const std::string& what,
                         const std::string& hint) const {
    throw Error(fmt::format("{}: record {}: {}", records_.path(), place.record, what), hint);
  }

  const TfRecordDataset& dataset_;
  TfRecordReader records_;
  ExampleDecoder decoder_;
  std::vector<std::byte> slab_;
  std::int64_t open_file_ = -1;
  Descriptor expected_;  // a file that has been opened early
  std::int64_t expected_file_ = -1;
};

void TfRecordSampleReader::take_record(std::int64_t sample, const VoxelSink& voxels,
                                       AnyView targets, const VoxelSink& labels) {
  const TfRecordDataset::Place place = dataset_.place(sample);
  const std::int64_t length = open(place);
  // The checksum comes last: if it is wrong, the error is damage rather than an invalid value.
  std::exception_ptr problem;
  try {
    decode(place, length, voxels, targets, labels);
  } catch (const Error&) {
    problem = std::current_exception();
  }
  records_.end();
  if (problem != nullptr) std::rethrow_exception(problem);
  if (dataset_.one_record_per_file() && !records_.at_end())
    fail(place, "the file has more records than when it was indexed",
         "it changed while in use, or is several gzip files joined: gzip it as one");
}

/// Opens the file and reads its start while the previous file is in use; the kernel then reads
/// ahead, as within a file of many records.
void TfRecordSampleReader::expect(std::int64_t sample) {
  const std::int64_t file = dataset_.place(sample).file;
  if (file == open_file_ || file == expected_file_) return;
  expected_file_ = file;
  try {
    expected_ = open_input_file(dataset_.files().path(file));
  } catch (const Error&) {  // reported when the file is read
    expected_ = {};
    return;
  }
  ::posix_fadvise(expected_.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  ::posix_fadvise(expected_.get(), 0, 0, POSIX_FADV_WILLNEED);
}

std::int64_t TfRecordSampleReader::open(const TfRecordDataset::Place& place) {
  if (place.file != open_file_) {
    open_file_ = -1;
    Descriptor opened = place.file == expected_file_ ? std::move(expected_) : Descriptor();
    expected_file_ = -1;
    records_.open(dataset_.files().path(place.file), std::move(opened));
    open_file_ = place.file;
  }
  records_.seek(place.offset, place.record);
  const std::int64_t length = records_.begin();
  if (length < 0)
    fail(place, "the file ends before this record", "do not change files in use: start again");
  return length;
}

void TfRecordSampleReader::decode(const TfRecordDataset::Place& place, std::int64_t length,
                                  const VoxelSink& voxels, AnyView targets,
                                  const VoxelSink& labels) {
  const Shape& shape = dataset_.shape();
  CheckedValues values(dataset_.format(), shape, voxels);
  std::optional<BlockWriter> block;
  std::optional<CheckedValues> checked_labels;
  if (const Shape all{1, shape.d, shape.h, shape.w};
      dataset_.has_labels() && (labels || !targets.span.empty())) {
    if (!labels) block.emplace(all, targets, DataType::kUint8);
    checked_labels.emplace(
        dataset_.label_format(), all,
        labels ? labels : [&](auto offset, auto bytes) { block->take(offset, bytes); });
  }
  ElementSink take_labels;
  if (checked_labels)
    take_labels = [&](auto first, auto type, auto elements) {
      checked_labels->take(first, type, elements);
    };
  const auto found = decoder_.decode(
      length, [&](void* dst, std::int64_t count) { return records_.read(dst, count); },
      [&](auto first, auto type, auto elements) {
        if (dataset_.is_field() != (type == Hdf5Type::kUint8)) values.take(first, type, elements);
      },
      take_labels, records_.path(), place.record);
  check_format(place, found);
  const std::string where = fmt::format("{}: record {}", records_.path(), place.record);
  if (!dataset_.has_labels() && dataset_.targets() > 0) copy_scalars(found.numbers, targets);
  values.check(where);
  if (checked_labels) checked_labels->check(where);
}

void TfRecordSampleReader::outline(std::int64_t sample) {
  const TfRecordDataset::Place place = dataset_.place(sample);
  const std::int64_t length = open(place);
  const auto found = decoder_.outline(
      length, [&](void* dst, std::int64_t count) { return records_.read(dst, count); },
      [&](std::int64_t count) { return records_.step_over(count); }, records_.path(), place.record);
  check_format(place, found);
}

void TfRecordSampleReader::check_format(const TfRecordDataset::Place& place,
                                        const ExampleDecoder::Contents& found) const {
  const Shape& shape = dataset_.shape();
  const bool is_field = dataset_.is_field();
  if (is_field == (found.voxels.type == Hdf5Type::kUint8))
    fail(place,
         fmt::format("voxels (feature x) are {}, in others {}",
                     is_field ? "a byte string" : "a list of numbers",
                     is_field ? "a list of numbers" : "a byte string"),
         "records of a data set hold byte strings of int16, which are counts, or all hold lists");
  const std::int64_t expected = is_field ? shape.volume() : count_bytes(shape);
  if (found.voxels.count != expected)
    fail(place,
         fmt::format("voxels (feature x): expected {} {} for {}, found {}", expected,
                     is_field ? "numbers" : "bytes", shape, found.voxels.count),
         extents_hint(found.voxels.count * (is_field ? size_of(type()) : 1), 0, shape, type()));
  if (dataset_.has_labels())
    check_labels(place, found.labels);
  else if (dataset_.targets() > 0)
    check_scalars(place, found);
}

void TfRecordSampleReader::check_scalars(const TfRecordDataset::Place& place,
                                         const ExampleDecoder::Contents& found) const {
  const std::int64_t count = std::ssize(found.numbers);
  if (!found.targets.type)
    fail(place, "feature y (targets) is missing",
         "add it, a list of numbers, or name a table of the targets by --targets-from");
  if (count != dataset_.targets())
    fail(place,
         fmt::format("targets (feature y): expected {}, found {}", dataset_.targets(), count),
         number_hint(dataset_.target_limits(), count));
  check_targets(found.numbers, dataset_.target_limits(),
                fmt::format("{}: record {}", records_.path(), place.record));
}

void TfRecordSampleReader::check_labels(const TfRecordDataset::Place& place,
                                        const ExampleDecoder::Feature& found) const {
  const Shape& shape = dataset_.shape();
  if (!found.type)
    fail(place, "feature labels is missing",
         "add it, a list of integers or a byte string of uint8, or give a .npy array of the labels "
         "of all samples by --targets-from");
  if (const std::int64_t expected = shape.volume() / shape.c; found.count != expected)
    fail(place,
         fmt::format("labels (feature labels): expected {} for {}, found {}", expected, shape,
                     found.count),
         "there must be a label for each voxel, in a byte string as uint8");
}

}  // namespace

TfRecordDataset::TfRecordDataset(const Comm& comm, DatasetFiles files, const Shape& shape,
                                 const TargetSpec& targets, const SampleFormat& values)
    : Dataset(shape, targets, values), files_(std::move(files)) {
  require(shape.volume() > 0,
          text("{}: TFRecord files do not say the extents of samples", directory().c_str()),
          "leave out --patches, or make an archive: halomesh convert --input DxHxWxC --classes C");
  if (targets.classes > 0) label_format_ = SampleFormat::labels(targets.classes);
  FileScan scanned(comm, files_, [this](std::int64_t file) { return scan(file); });
  identity_ = scanned.identity();
  set_records(scanned);
  // Lengths leave space for further features; one sample shows the rest of the format.
  on_first_rank(comm, [this] {
    check_first();
    return std::string();
  });
}

std::int64_t TfRecordDataset::least_payload() const {
  return is_field() ? shape().volume() : count_bytes(shape());
}

std::int64_t TfRecordDataset::largest_payload() const {
  return (is_field() ? kMostListed * shape().volume() : count_bytes(shape())) +
         kMostListed * target_shape().volume() + kExampleSlackBytes;
}

std::string TfRecordDataset::name(std::int64_t sample) const {
  const Place at = place(sample);
  std::string_view stem = files_.name(at.file);
  for (const std::string_view end : {".gz", ".tfrecord", ".tfrecords"})
    if (stem.ends_with(end)) stem.remove_suffix(end.size());
  return one_record_per_file() ? std::string(stem) : fmt::format("{}:{}", stem, at.record);
}

std::string TfRecordDataset::advice() const {
  if (slow_file_ < 0) return {};
  return fmt::format("{} is a gzip file of many records: reading it in random order is slow",
                     files_.name(slow_file_));
}

TfRecordDataset::Place TfRecordDataset::place(std::int64_t sample) const {
  if (sample < 0 || sample >= size())
    throw Error(fmt::format("sample {} of {}, which has {}", sample, directory().c_str(), size()));
  const SampleIndex::Place at = index_.place(sample);
  return {at.file, at.index,
          one_record_per_file() ? 0 : record_offset_[static_cast<std::size_t>(sample)]};
}

/// A file's number of records, whether it is a gzip file, and the offset of each record unless it
/// has only one.
std::vector<std::int64_t> TfRecordDataset::scan(std::int64_t file) const {
  constexpr std::int64_t kLookBytes = 4096;  // the part of a gzip file to look at
  TfRecordReader records(std::numeric_limits<std::int64_t>::max(), kLookBytes);
  records.open(files_.path(file));
  const auto check_length = [&] {
    const std::int64_t length = records.peek_length();
    if (length < 0) return;
    if (length < least_payload() || length > largest_payload())
      throw Error(fmt::format("{}: record {}: payload of {} bytes, expected {} for {} and a little "
                              "more",
                              records.path(), records.record(), length,
                              value_bytes(shape(), format().type()), shape()),
                  extents_hint(length, 1024, shape(), format().type()));
  };
  check_length();
  std::vector<std::int64_t> offsets{0};
  if (!records.holds_one_record()) {
    while (records.skip()) {
      check_length();
      offsets.push_back(records.offset());
    }
    offsets.pop_back();
  }
  require(!offsets.empty(), text("{} holds no record", records.path()),
          "make the file again, or keep it out of the data set");
  std::vector<std::int64_t> found{static_cast<std::int64_t>(offsets.size()),
                                  records.is_gzip() ? 1 : 0};
  if (offsets.size() > 1) found.insert(found.end(), offsets.begin(), offsets.end());
  return found;
}

void TfRecordDataset::set_records(FileScan& scanned) {
  for (std::int64_t f = 0; f < files_.size(); ++f) {
    const std::int64_t records = scanned.take(f);
    const bool gzip = scanned.take(f) != 0;
    if (f == 0) first_is_gzip_ = gzip;
    if (gzip && records > 1 && slow_file_ < 0) slow_file_ = f;
    index_.append(records);
    for (std::int64_t r = 0; r < records; ++r)
      record_offset_.push_back(records > 1 ? scanned.take(f) : 0);
  }
  if (one_record_per_file()) record_offset_ = {};  // all are 0
}

/// Throws Error unless sample 0 has the format; reads only little of a plain file.
void TfRecordDataset::check_first() const {
  TfRecordSampleReader reader(*this);
  if (!first_is_gzip_) {
    try {
      reader.outline(0);
      return;
    } catch (const ReadError&) {
      throw;
    } catch (const Error&) {  // the whole record is read below, so that its checksum reports damage
    }
  }
  reader.read(0, {}, {});
}

std::uint64_t TfRecordDataset::file_hash(std::int64_t file) const {
  const std::string path = files_.path(file);
  const std::int64_t first = index_.first(file), end = index_.first(file + 1);
  if (end - first == 1) return end_hash(path);
  if (read_head(path, 2) == "\x1f\x8b") return block_hash(path);  // may have several members
  std::uint64_t hash = end_hash(path);
  const Descriptor opened = open_input_file(path);
  for (std::int64_t sample = first + 1; sample < end; ++sample) {
    std::array<char, 4> sum{};  // a record ends in its checksum
    const auto at = record_offset_[static_cast<std::size_t>(sample)] - std::ssize(sum);
    if (::pread(opened.get(), sum.data(), sum.size(), at) < 0)
      throw read_error("read", path, errno);
    hash = content_hash({sum.data(), sum.size()}, hash);
  }
  return hash;
}

std::unique_ptr<SampleReader> TfRecordDataset::reader() const {
  return std::make_unique<TfRecordSampleReader>(*this);
}

namespace {

/// The features of a file's first record; empty if it cannot be read, which opening the file says.
std::optional<ExampleDecoder::Contents> first_record(const std::filesystem::path& path) {
  try {
    TfRecordReader records(std::numeric_limits<std::int64_t>::max());
    records.open(path.string());
    const std::int64_t length = records.begin();
    return ExampleDecoder().outline(
        length, [&](void* dst, std::int64_t count) { return records.read(dst, count); },
        [&](std::int64_t count) { return records.step_over(count); }, path.string(), 0);
  } catch (const ReadError&) {
    throw;
  } catch (const Error&) {
    return std::nullopt;
  }
}

const Registered<DatasetFormat> kRegistered([] {
  return DatasetFormat{
      .name = "TFRecord",
      .files = "SPLIT/*.tfrecord* (TFRecord)",
      .targets = FormatTargets::kAny,
      // Indices of other readers lie beside the files.
      .has_name =
          [](std::string_view name, std::string_view) {
            return name.find(".tfrecord") != std::string_view::npos && !name.ends_with(".idx");
          },
      .lacks_targets =
          [](const auto& first, const auto&, const auto& targets) {
            const auto found = first_record(first);
            return found && !(targets.classes > 0 ? found->labels : found->targets).type;
          },
      .values =
          [](const auto& first, const auto&) {
            const auto found = first_record(first);
            return found && found->voxels.type != Hdf5Type::kUint8 ? SampleFormat::field()
                                                                   : SampleFormat::counts();
          },
      .open = [](const Comm& comm, DatasetFiles files, const Shape& shape,
                 const TargetSpec& targets, const SampleFormat& values,
                 const DataSource&) -> std::unique_ptr<const Dataset> {
        return std::make_unique<TfRecordDataset>(comm, std::move(files), shape, targets, values);
      }};
});

}  // namespace

}  // namespace halomesh
