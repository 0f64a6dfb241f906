// The index of a split in HDF5 files: see hdf5_dataset.hpp.
// Knows nothing of how the files were found or of the order in which samples are used.
#include "runtime/hdf5_dataset.hpp"

#include <utility>

#include "error.hpp"
#include "runtime/archive.hpp"

namespace halomesh {
namespace {

std::string text_of(const Extents& extents) {
  std::string text;
  for (const std::int64_t extent : extents) text += cat(text.empty() ? "" : "x", extent);
  return text.empty() ? "a single value" : text;
}

/// The cure for voxels of other extents: those they have, if they are a sample's.
std::string extents_hint(const Extents& found, bool stacked) {
  Extents sample = found;
  if (stacked && !sample.empty()) sample.erase(sample.begin());
  if (sample.size() != 4) return "keep only files of one format in the directory";
  return cat("try --input ", text_of(sample));
}

void check_type(Hdf5File& file, const char* dataset, Hdf5Type type, const char* named) {
  require(file.holds(dataset, type), cat(file.path().string(), ": ", dataset, " is not of ", named),
          "the file must be in the CosmoFlow benchmark's HDF5 format, or made by "
          "`halomesh convert`");
}

}  // namespace

Hdf5Dataset::Hdf5Dataset(const Comm& comm, DatasetFiles files, const Hdf5Kind& kind,
                         const Shape& shape, std::int64_t targets)
    : Dataset(shape, targets), files_(std::move(files)), kind_(kind) {
  FileScan scanned(comm, files_, [this](std::int64_t file) { return scan(file); });
  identity_ = scanned.identity();
  index(scanned);
}

/// What is to be known of a file: its samples; of an archive's also its first sample's number and
/// the number of all.
std::vector<std::int64_t> Hdf5Dataset::scan(std::int64_t file) const {
  Hdf5File opened = Hdf5File::open(files_.path(file));
  if (!kind_.stacked) return {samples_in(opened)};
  const ArchiveFile content = read_archive_attributes(opened);
  return {samples_in(opened), content.first_sample, content.split_samples};
}

void Hdf5Dataset::index(FileScan& scanned) {
  std::int64_t expected = 0;  // samples of the archive
  const auto missing = [&](const std::string& what) {
    throw Error(cat(directory().string(), ": ", what, ": files of the archive are missing"),
                "give the same `halomesh convert` command again, or copy all files");
  };
  for (std::int64_t f = 0; f < files_.size(); ++f) {
    const std::int64_t before = f == 0 ? 0 : index_.size();
    index_.append(scanned.take(f));
    if (!kind_.stacked) continue;
    const std::int64_t first = scanned.take(f), all = scanned.take(f);
    if (first != before || (f > 0 && all != expected))
      missing(cat(files_.name(f), " starts with sample ", first, " of ", all, ", expected ", before,
                  f > 0 ? cat(" of ", expected) : ""));
    expected = all;
  }
  if (kind_.stacked && index_.size() != expected)
    missing(cat(files_.name(files_.size() - 1), " ends before sample ", index_.size(), " of ",
                expected));
}

SampleIndex::Place Hdf5Dataset::place(std::int64_t sample) const {
  if (sample < 0 || sample >= size())
    throw Error(cat("sample ", sample, " of ", directory().string(), ", which has ", size()));
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
  require(found == expected,
          cat(file.path().string(), ": ", kind_.voxels, " of ", text_of(found), ", expected ",
              text_of(expected), n > 1 ? cat(" or ", n, " times as much along d, h and w") : ""),
          extents_hint(found, kind_.stacked));
  require(found_targets == expected_targets,
          cat(file.path().string(), ": ", kind_.targets, " of ", text_of(found_targets),
              ", expected ", text_of(expected_targets)),
          found_targets.empty() ? "the file must hold a list of targets for each sample"
                                : cat("set --targets ", found_targets.back()));
  require(samples > 0, cat(file.path().string(), " holds no sample"),
          "remove the file or make it again");
  if (kind_.checksums != nullptr) {
    check_type(file, kind_.checksums, Hdf5Type::kUint32, "uint32");
    require(file.extents(kind_.checksums) == Extents{samples},
            cat(file.path().string(), ": ", kind_.checksums, " of ",
                text_of(file.extents(kind_.checksums)), ", expected ", samples),
            "the archive is damaged: make it again");
  }
  return samples;
}

}  // namespace halomesh
