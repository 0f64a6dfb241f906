// The index of a split in TFRecord files.
// Knows nothing of how the files were found or of the order in which samples are used.
#include "runtime/tfrecord_dataset.hpp"

#include <limits>
#include <utility>

#include "error.hpp"
#include "runtime/tfrecord.hpp"
#include "runtime/tfrecord_samples.hpp"

namespace halomesh {

TfRecordDataset::TfRecordDataset(const Comm& comm, DatasetFiles files, const Shape& shape,
                                 std::int64_t targets)
    : Dataset(shape, targets), files_(std::move(files)) {
  FileScan scanned(comm, files_, [this](std::int64_t file) { return scan(file); });
  identity_ = scanned.identity();
  set_records(scanned);
  // Lengths leave room for further features: one sample shows the rest of the format.
  on_first_rank(comm, [this] {
    check_first();
    return std::string();
  });
}

std::string TfRecordDataset::advice() const {
  if (slow_file_ < 0) return {};
  return cat(files_.name(slow_file_),
             " is a gzip file of many records: reading it in random order is slow");
}

TfRecordDataset::Place TfRecordDataset::place(std::int64_t sample) const {
  if (sample < 0 || sample >= size())
    throw Error(cat("sample ", sample, " of ", directory().string(), ", which has ", size()));
  const SampleIndex::Place at = index_.place(sample);
  return {at.file, at.index,
          one_record_a_file() ? 0 : record_offset_[static_cast<std::size_t>(sample)]};
}

/// One file's number of records, whether it is a gzip file, and the offset of each record unless
/// there is just one.
std::vector<std::int64_t> TfRecordDataset::scan(std::int64_t file) const {
  constexpr std::int64_t kLookBytes = 4096;  // of a gzip file
  TfRecordReader records(std::numeric_limits<std::int64_t>::max(), kLookBytes);
  records.open(files_.path(file));
  const auto check_length = [&] {
    const std::int64_t length = records.peek_length();
    if (length < 0) return;
    if (length < voxel_bytes(shape()) || length > largest_payload(shape(), targets()))
      throw Error(
          cat(records.path(), ": record ", records.record(), ": payload of ", length,
              " bytes, expected ", voxel_bytes(shape()), " for ", shape(), " and a little more"),
          extents_hint(length, 1024, shape()));
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
  require(!offsets.empty(), cat(records.path(), " holds no record"),
          "remove the file or generate it again");
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
  if (one_record_a_file()) record_offset_ = {};  // all are 0
}

}  // namespace halomesh
