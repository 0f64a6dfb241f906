// SPDX-License-Identifier: Apache-2.0
// A split in HDF5 files, its index and its reader: see hdf5_dataset.hpp.
#include "runtime/data/hdf5_dataset.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "error.hpp"
#include "joined.hpp"
#include "runtime/data/archive.hpp"
#include "runtime/data/block_writer.hpp"
#include "runtime/data/sample_checks.hpp"
#include "runtime/hdf5/hdf5_blocks.hpp"
#include "runtime/posix/crc32c.hpp"

namespace halomesh {
namespace {

std::string text_of(const Extents& extents) {
  return extents.empty() ? "a single value" : joined(extents, "x");
}

/// The hint for voxels of other extents: the --input that would fit, if any.
std::string extents_hint(const Extents& found, bool stacked) {
  Extents sample = found;
  if (stacked && !sample.empty()) sample.erase(sample.begin());
  if (sample.size() != 4) return "keep only files of one format in the directory";
  return fmt::format("try --input {}", text_of(sample));
}

void check_type(Hdf5File& file, const char* dataset, Hdf5Type type, const char* named) {
  require(file.holds(dataset, type),
          text("{}: {} is not of {}", file.path().c_str(), dataset, named),
          "the file must be in the CosmoFlow benchmark's HDF5 format, or made by "
          "`halomesh convert`");
}

class Hdf5SampleReader final : public SampleReader {
 public:
  explicit Hdf5SampleReader(const Hdf5Dataset& dataset) : dataset_(dataset) {}

  void read(std::int64_t sample, AnyView dst, AnyView targets) override {
    if (!Box::whole(dataset_.shape()).contains(dst.span))
      throw Error(fmt::format("block {} is not within the sample {}", dst.span, dataset_.shape()));
    const Place place = begin(sample, targets);
    if (dst.span.empty()) return;
    go_through(place, dst.span, [&](const Box& slab, std::span<const std::byte> bytes) {
      BlockWriter writer(slab.shape(),
                         {dst.begin_of(0, slab), dst.type, Box::whole(slab.shape()), 1});
      writer.take(0, bytes);
      return writer.negative();
    });
  }
  void read_slabs(std::int64_t sample, const Box& box, const SlabSink& sink,
                  AnyView targets) override {
    const Place place = begin(sample, targets);
    if (box.empty()) return;
    go_through(place, box, [&](const Box& slab, std::span<const std::byte> bytes) {
      NegativeSearch search;
      search.take(0, bytes);
      sink({counts_.data(), slab, 1});
      return search.found();
    });
  }
  void stream(std::int64_t sample, const VoxelSink& sink, AnyView targets) override {
    const Shape& shape = dataset_.shape();
    go_through(begin(sample, targets), Box::whole(shape),
               [&](const Box& slab, std::span<const std::byte> bytes) {
                 NegativeSearch search;
                 search.take(0, bytes);
                 sink(slab.lo[kD] * voxel_bytes(shape) / shape.d, bytes);
                 return search.found();
               });
  }

 private:
  struct Place {
    std::int64_t index = 0;  // within the open file
    std::string where;       // for messages
  };
  /// Opens the sample's file and reads its targets.
  Place begin(std::int64_t sample, AnyView targets) {
    const SampleIndex::Place place = dataset_.place(sample);
    if (place.file != open_file_) open(place.file);
    const std::string where = fmt::format("{}: sample {}", file_->path().c_str(), place.index);
    read_targets(place.index, targets, where);
    return {place.index, where};
  }
  void open(std::int64_t file) {
    open_file_ = -1;
    blocks_.reset();
    file_.reset();
    file_.emplace(Hdf5File::open(dataset_.files().path(file)));
    samples_ = dataset_.samples_in(*file_);
    blocks_.emplace(*file_, dataset_.kind().voxels);
    open_file_ = file;
  }
  void read_targets(std::int64_t index, AnyView targets, const std::string& where);
  template <class Take>
  void go_through(const Place& place, const Box& block, const Take& take);
  Slab slab_of(std::int64_t index, const Box& box) const;
  void check_sum(std::int64_t index, std::uint32_t found, const std::string& where);

  const Hdf5Dataset& dataset_;
  std::int64_t open_file_ = -1, samples_ = 0;  // number of the open file, and what it holds
  std::optional<Hdf5File> file_;
  std::optional<Hdf5Blocks> blocks_;  // of file_
  std::vector<std::int16_t> counts_;
  std::vector<float> all_targets_;
};

/// The block `box` of a sample in terms of the voxels of its file.
Slab Hdf5SampleReader::slab_of(std::int64_t index, const Box& box) const {
  const Shape& s = dataset_.shape();
  Slab slab{{box.lo[kD], box.lo[kH], box.lo[kW], box.lo[kC]},
            {box.extent(kD), box.extent(kH), box.extent(kW), box.extent(kC)}};
  if (dataset_.kind().stacked) {
    slab.offset.insert(slab.offset.begin(), index);
    slab.count.insert(slab.count.begin(), 1);
  } else if (samples_ > 1) {  // a box of a universe
    const std::int64_t n = dataset_.kind().cuts;
    slab.offset[0] += index / n / n * s.d;
    slab.offset[1] += index / n % n * s.h;
    slab.offset[2] += index % n * s.w;
  }
  return slab;
}

void Hdf5SampleReader::read_targets(std::int64_t index, AnyView targets, const std::string& where) {
  Slab row{{0}, {dataset_.targets()}};
  if (dataset_.kind().stacked) row = {{index, 0}, {1, dataset_.targets()}};
  all_targets_.resize(static_cast<std::size_t>(dataset_.targets()));
  file_->read<float>(dataset_.kind().targets, row, all_targets_);
  check_targets(all_targets_, where);
  copy_scalars(all_targets_, targets);
}

/// Reads a block in slabs of whole planes: take(slab, its counts) returns the first negative voxel
/// of the slab.
template <class Take>
void Hdf5SampleReader::go_through(const Place& place, const Box& block, const Take& take) {
  const auto& [index, where] = place;
  const bool whole = block == Box::whole(dataset_.shape());
  const std::int64_t origin = slab_of(index, block).offset[dataset_.kind().stacked ? 1 : 0];
  const std::int64_t planes = blocks_->chunk_extent(dataset_.kind().stacked ? 1 : 0);
  std::uint32_t checksum = 0;
  for (std::int64_t d = block.lo[kD]; d < block.hi[kD];) {
    // Up to the next chunk's first plane in the file, so that no chunk is read twice.
    const std::int64_t left = planes - (origin + d - block.lo[kD]) % planes;
    const Box slab = with_d_range(block, d, std::min(d + left, block.hi[kD]));
    counts_.resize(static_cast<std::size_t>(slab.volume()));
    blocks_->read(slab_of(index, slab), counts_);
    const auto bytes = std::as_bytes(std::span(counts_));
    if (whole) checksum = crc32c(bytes, checksum);
    check_voxels(take(slab, bytes), slab.shape(),
                 {slab.lo[kD], slab.lo[kH], slab.lo[kW], slab.lo[kC]}, where);
    d = slab.hi[kD];
  }
  if (whole && dataset_.kind().checksums != nullptr) check_sum(index, checksum, where);
}

void Hdf5SampleReader::check_sum(std::int64_t index, std::uint32_t found,
                                 const std::string& where) {
  std::array<std::uint32_t, 1> stored{};
  file_->read<std::uint32_t>(dataset_.kind().checksums, {{index}, {1}}, stored);
  require(stored[0] == found,
          text("{}: checksum of the voxels: expected {:#x}, found {:#x}", where, stored[0], found),
          "the archive is damaged: copy it or convert again");
}

}  // namespace

Hdf5Dataset::Hdf5Dataset(const Comm& comm, DatasetFiles files, const Hdf5Kind& kind,
                         const Shape& shape, std::int64_t targets)
    : Dataset(shape, targets), files_(std::move(files)), kind_(kind) {
  FileScan scanned(comm, files_, [this](std::int64_t file) { return scan(file); });
  identity_ = scanned.identity();
  index(scanned);
}

/// The number of samples in a file; of an archive also the number of its first sample and of all.
std::vector<std::int64_t> Hdf5Dataset::scan(std::int64_t file) const {
  Hdf5File opened = Hdf5File::open(files_.path(file));
  if (!kind_.stacked) return {samples_in(opened)};
  const ArchiveFile content = read_archive_attributes(opened);
  return {samples_in(opened), content.first_sample, content.split_samples};
}

void Hdf5Dataset::index(FileScan& scanned) {
  std::int64_t expected = 0;  // samples of the archive
  const auto missing = [&](const std::string& what) {
    throw Error(fmt::format("{}: {}: files of the archive are missing", directory().c_str(), what),
                "run the same `halomesh convert` command again, or copy all files");
  };
  for (std::int64_t f = 0; f < files_.size(); ++f) {
    const std::int64_t before = f == 0 ? 0 : index_.size();
    index_.append(scanned.take(f));
    if (!kind_.stacked) continue;
    const std::int64_t first = scanned.take(f), all = scanned.take(f);
    if (first != before || (f > 0 && all != expected))
      missing(fmt::format("{} starts with sample {} of {}, expected {}{}", files_.name(f), first,
                          all, before, f > 0 ? fmt::format(" of {}", expected) : ""));
    expected = all;
  }
  if (kind_.stacked && index_.size() != expected)
    missing(fmt::format("{} ends before sample {} of {}", files_.name(files_.size() - 1),
                        index_.size(), expected));
}

SampleIndex::Place Hdf5Dataset::place(std::int64_t sample) const {
  if (sample < 0 || sample >= size())
    throw Error(fmt::format("sample {} of {}, which has {}", sample, directory().c_str(), size()));
  return index_.place(sample);
}

std::int64_t Hdf5Dataset::samples_in(Hdf5File& file) const {
  check_type(file, kind_.voxels, Hdf5Type::kInt16, "int16");
  check_type(file, kind_.targets, Hdf5Type::kFloat, "float32");
  const Shape& s = shape();
  Extents expected{s.d, s.h, s.w, s.c}, expected_targets{targets()};
  const Extents found = file.extents(kind_.voxels), found_targets = file.extents(kind_.targets);
  std::int64_t samples = 1;
  if (kind_.stacked) {
    samples = found.empty() ? 0 : found.front();
    expected.insert(expected.begin(), samples);
    expected_targets.insert(expected_targets.begin(), samples);
  }
  const std::int64_t n = kind_.cuts;
  if (n > 1 && found == Extents{n * s.d, n * s.h, n * s.w, s.c}) return n * n * n;
  require(
      found == expected,
      text("{}: {} of {}, expected {}{}", file.path().c_str(), kind_.voxels, text_of(found),
           text_of(expected), n > 1 ? fmt::format(" or {} times as much along d, h and w", n) : ""),
      extents_hint(found, kind_.stacked));
  require(found_targets == expected_targets,
          text("{}: {} of {}, expected {}", file.path().c_str(), kind_.targets,
               text_of(found_targets), text_of(expected_targets)),
          found_targets.empty() ? "the file must hold a list of targets for each sample"
                                : fmt::format("set --targets {}", found_targets.back()));
  require(samples > 0, text("{} holds no sample", file.path().c_str()),
          "remove the file or make it again");
  if (kind_.checksums != nullptr) {
    check_type(file, kind_.checksums, Hdf5Type::kUint32, "uint32");
    require(file.extents(kind_.checksums) == Extents{samples},
            text("{}: {} of {}, expected {}", file.path().c_str(), kind_.checksums,
                 text_of(file.extents(kind_.checksums)), samples),
            "the archive is damaged: make it again");
  }
  return samples;
}

std::unique_ptr<SampleReader> Hdf5Dataset::reader() const {
  return std::make_unique<Hdf5SampleReader>(*this);
}

}  // namespace halomesh
