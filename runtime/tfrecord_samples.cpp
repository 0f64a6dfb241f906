// Blocks of samples out of TFRecord files.
// Knows nothing of the order in which samples are used, of threads or of the network.
#include "runtime/tfrecord_samples.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "error.hpp"
#include "runtime/block_writer.hpp"
#include "runtime/descriptor.hpp"
#include "runtime/example.hpp"
#include "runtime/tfrecord.hpp"
#include "runtime/tfrecord_dataset.hpp"

namespace halomesh {

std::string extents_hint(std::int64_t bytes, std::int64_t slack, const Shape& asked) {
  for (const std::int64_t c : {asked.c, std::int64_t{4}, std::int64_t{1}, std::int64_t{2}}) {
    if (c < 1) continue;
    const std::int64_t voxels = bytes / (2 * c);
    const auto n = static_cast<std::int64_t>(std::cbrt(static_cast<double>(voxels)) + 1e-6);
    const Shape cube{c, n, n, n};
    if (n > 0 && bytes - voxel_bytes(cube) <= slack)
      return cat("these would be samples of ", cube, ": try --input ", cube);
  }
  return "set --input DxHxWxC to the extents of the data (2 bytes a voxel)";
}

namespace {

/// Makes layers of a box out of the voxels of a sample, which come piece by piece.
class LayerCollector {
 public:
  /// `memory` grows to the size of a layer.
  LayerCollector(const Shape& sample, std::vector<Box> layers, AlignedBuffer<std::int16_t>& memory,
                 const SampleReader::LayerSink& sink)
      : sample_(sample), layers_(std::move(layers)), memory_(memory), sink_(sink) {
    if (!layers_.empty() && memory_.size() < layers_.front().volume())
      memory_ = AlignedBuffer<std::int16_t>(layers_.front().volume());
    start();
  }
  /// As a VoxelSink does.
  void take(std::int64_t offset, std::span<const std::byte> bytes) {
    while (writer_) {
      // A layer's writer sees nothing of what comes before the layer: it may begin within a voxel.
      const std::int64_t skip = std::clamp<std::int64_t>(begin_ - offset, 0, std::ssize(bytes));
      writer_->take(offset + skip, bytes.subspan(static_cast<std::size_t>(skip)));
      if (offset + std::ssize(bytes) < end_) return;
      if (!negative_) negative_ = writer_->negative();
      sink_(view());
      ++layer_;
      start();
    }
  }
  /// The first voxel of the layers so far that is below 0.
  const std::optional<BlockWriter::Voxel>& negative() const { return negative_; }

 private:
  TensorView<std::int16_t> view() const { return {memory_.data(), layers_[layer_], 1}; }
  void start() {
    writer_.reset();
    if (layer_ == layers_.size()) return;
    const Box& box = layers_[layer_];
    writer_.emplace(sample_, view());
    const std::int64_t row = 2 * sample_.w * sample_.c;
    begin_ = (box.lo[kD] * sample_.h + box.lo[kH]) * row;
    end_ = ((box.hi[kD] - 1) * sample_.h + box.hi[kH]) * row;
  }

  Shape sample_;
  std::vector<Box> layers_;
  AlignedBuffer<std::int16_t>& memory_;
  const SampleReader::LayerSink& sink_;
  std::size_t layer_ = 0;
  std::optional<BlockWriter> writer_;  // of the layer that is being made; none after the last
  std::int64_t begin_ = 0, end_ = 0;   // bytes of the sample that it lies between
  std::optional<BlockWriter::Voxel> negative_;
};

class TfRecordSampleReader final : public SampleReader {
 public:
  explicit TfRecordSampleReader(const TfRecordDataset& dataset)
      : dataset_(dataset), records_(largest_payload(dataset.shape(), dataset.targets())) {}

  void read(std::int64_t sample, AnyView dst, std::span<float> targets) override {
    if (!Box::whole(dataset_.shape()).contains(dst.span))
      throw Error(cat("block ", dst.span, " is not within the sample ", dataset_.shape()));
    BlockWriter block(dataset_.shape(), dst);
    take_record(
        sample,
        [&](std::int64_t offset, std::span<const std::byte> bytes) { block.take(offset, bytes); },
        [&] { return block.negative(); }, targets);
  }
  void read_layers(std::int64_t sample, const Box& box, const LayerSink& sink,
                   std::span<float> targets) override {
    LayerCollector collector(dataset_.shape(), layers(box), layer_, sink);
    take_record(
        sample,
        [&](std::int64_t offset, std::span<const std::byte> bytes) {
          collector.take(offset, bytes);
        },
        [&] { return collector.negative(); }, targets);
  }
  void stream(std::int64_t sample, const VoxelSink& sink, std::span<float> targets) override {
    NegativeSearch search;
    take_record(
        sample,
        [&](std::int64_t offset, std::span<const std::byte> bytes) {
          search.take(offset, bytes);
          sink(offset, bytes);
        },
        [&] { return search.found(); }, targets);
  }
  void expect(std::int64_t sample) override;
  /// Checks the format of a sample in a plain file by what lies around its voxels.
  void outline(std::int64_t sample);

 private:
  using Negative = std::function<std::optional<BlockWriter::Voxel>()>;
  /// Hands on the voxels of a record; when all have been, `negative` is the first one below 0.
  void take_record(std::int64_t sample, const VoxelSink& sink, const Negative& negative,
                   std::span<float> targets);
  std::int64_t open(const TfRecordDataset::Place& place);
  void decode(const TfRecordDataset::Place& place, std::int64_t length, const VoxelSink& sink,
              const Negative& negative, std::span<float> targets);
  void check_format(const TfRecordDataset::Place& place,
                    const ExampleDecoder::Contents& found) const;
  [[noreturn]] void fail(const TfRecordDataset::Place& place, const std::string& what,
                         const std::string& hint) const {
    throw Error(cat(records_.path(), ": record ", place.record, ": ", what), hint);
  }

  const TfRecordDataset& dataset_;
  TfRecordReader records_;
  ExampleDecoder decoder_;
  AlignedBuffer<std::int16_t> layer_;
  std::int64_t open_file_ = -1;
  Descriptor expected_;  // of a file that has been opened early
  std::int64_t expected_file_ = -1;
};

void TfRecordSampleReader::take_record(std::int64_t sample, const VoxelSink& sink,
                                       const Negative& negative, std::span<float> targets) {
  const TfRecordDataset::Place place = dataset_.place(sample);
  const std::int64_t length = open(place);
  // A damaged record is told by its checksum, which is known last; what else is wrong waits.
  std::exception_ptr problem;
  try {
    decode(place, length, sink, negative, targets);
  } catch (const Error&) {
    problem = std::current_exception();
  }
  records_.end();
  if (problem != nullptr) std::rethrow_exception(problem);
  if (dataset_.one_record_a_file() && !records_.at_end())
    fail(place, "more records follow, but the file was indexed as holding one",
         "it changed while in use, or is several gzip files joined: gzip it as one");
}

/// Has the file opened and its start fetched while the one before is used; from there on the kernel
/// reads ahead by itself, as it does within a file of many records.
void TfRecordSampleReader::expect(std::int64_t sample) {
  const std::int64_t file = dataset_.place(sample).file;
  if (file == open_file_ || file == expected_file_) return;
  expected_ = Descriptor(::open(dataset_.files().path(file).c_str(), O_RDONLY | O_CLOEXEC));
  expected_file_ = file;
  // What is wrong with the file is told when it is read.
  if (expected_.get() < 0) return;
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
    fail(place, "the file ends before this record", "it changed while in use: start again");
  return length;
}

void TfRecordSampleReader::decode(const TfRecordDataset::Place& place, std::int64_t length,
                                  const VoxelSink& sink, const Negative& negative,
                                  std::span<float> targets) {
  const Shape& shape = dataset_.shape();
  const std::int64_t expected = voxel_bytes(shape);
  const auto found = decoder_.decode(
      length, [&](void* dst, std::int64_t count) { return records_.read(dst, count); },
      [&](std::int64_t offset, std::span<const std::byte> bytes) {
        if (offset + static_cast<std::int64_t>(bytes.size()) <= expected) sink(offset, bytes);
      },
      records_.path(), place.record);
  check_format(place, found);
  std::copy_n(found.targets.begin(), targets.size(), targets.begin());
  check_voxels(negative(), shape, {}, cat(records_.path(), ": record ", place.record));
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
  const std::int64_t expected = voxel_bytes(shape);
  if (found.voxel_bytes != expected)
    fail(place,
         cat("voxels (feature x): expected ", expected, " bytes for ", shape, ", found ",
             found.voxel_bytes),
         extents_hint(found.voxel_bytes, 0, shape));
  if (static_cast<std::int64_t>(found.targets.size()) != dataset_.targets())
    fail(
        place,
        cat("targets (feature y): expected ", dataset_.targets(), ", found ", found.targets.size()),
        cat("set --targets ", found.targets.size()));
  check_targets(found.targets, cat(records_.path(), ": record ", place.record));
}

}  // namespace

/// Throws Error unless sample 0, of which little is read in a plain file, is in the format.
void TfRecordDataset::check_first() const {
  TfRecordSampleReader reader(*this);
  if (!first_is_gzip_) {
    try {
      reader.outline(0);
      return;
    } catch (const Error&) {  // what is damaged is told by its checksum: it is read whole below
    }
  }
  reader.read(0, {}, {});
}

std::unique_ptr<SampleReader> TfRecordDataset::reader() const {
  return std::make_unique<TfRecordSampleReader>(*this);
}

}  // namespace halomesh
