// The index of a split's samples and the decoding of their records.
// Knows nothing of the order in which samples are used, of threads or of the network.
#include "runtime/dataset.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "error.hpp"
#include "narrow.hpp"
#include "runtime/example.hpp"
#include "runtime/tfrecord.hpp"

namespace halomesh {
namespace {

// Room for the Example's own fields (55 bytes in the benchmark) and for further features.
constexpr std::int64_t kExampleSlackBytes = 64 * 1024;

std::int64_t voxel_bytes(const Shape& shape) {
  return shape.volume() * static_cast<std::int64_t>(sizeof(std::int16_t));
}

std::int64_t largest_payload(const Shape& shape, std::int64_t targets) {
  return voxel_bytes(shape) + targets * static_cast<std::int64_t>(sizeof(float)) +
         kExampleSlackBytes;
}

/// The cure for `bytes` of voxels (and up to `slack` more): the cube they would be, if any.
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

/// Runs `work` and packs its text, or the Error that it threw, so that ranks can share either.
std::string outcome_of(const std::function<std::string()>& work) {
  try {
    return "+" + work();
  } catch (const Error& error) {
    return cat('-', error.what(), '\0', error.hint());
  } catch (const std::exception& error) {
    return cat('-', error.what(), '\0');
  }
}

/// Undoes outcome_of(): the text, or the Error thrown anew.
std::string unpack_outcome(const std::string& outcome) {
  if (outcome.front() == '+') return outcome.substr(1);
  const std::size_t hint = outcome.find('\0');
  throw Error(outcome.substr(1, hint - 1), outcome.substr(hint + 1));
}

void append_integer(std::string& text, std::int64_t value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

class TfRecordSampleReader final : public SampleReader {
 public:
  explicit TfRecordSampleReader(const Dataset& dataset)
      : dataset_(dataset), records_(largest_payload(dataset.shape(), dataset.targets())) {}

  void read(std::int64_t sample, const Box& box, std::span<float> dst,
            std::span<float> targets) override {
    const Dataset::Place place = dataset_.place(sample);
    const ExampleView example = fetch(place);
    check(example, place);
    std::copy_n(example.targets.begin(), targets.size(), targets.begin());
    if (!dst.empty()) convert(example.voxel_bytes, box, dst.data(), place);
  }

 private:
  ExampleView fetch(const Dataset::Place& place);
  void check(const ExampleView& example, const Dataset::Place& place) const;
  void convert(std::string_view voxels, const Box& box, float* dst,
               const Dataset::Place& place) const;
  [[noreturn]] void fail(const Dataset::Place& place, const std::string& what,
                         const std::string& hint) const {
    throw Error(cat(records_.path(), ": record ", place.record, ": ", what), hint);
  }

  const Dataset& dataset_;
  TfRecordReader records_;
  ExampleDecoder decoder_;
  std::int64_t open_file_ = -1;
  std::string path_, payload_;
};

ExampleView TfRecordSampleReader::fetch(const Dataset::Place& place) {
  if (place.file != open_file_) {
    open_file_ = -1;
    path_.assign(dataset_.directory().native()).append("/").append(dataset_.name(place.file));
    records_.open(path_);
    open_file_ = place.file;
  }
  records_.seek(place.offset, place.record);
  if (!records_.next(payload_))
    fail(place, "the file ends before this record", "it changed while in use: start again");
  if (dataset_.one_record_a_file() && !records_.at_end())
    fail(place, "more records follow, but the file was indexed as holding one",
         "it changed while in use, or is several gzip files joined: gzip it as one");
  return decoder_.decode(payload_, records_.path(), place.record);
}

void TfRecordSampleReader::check(const ExampleView& example, const Dataset::Place& place) const {
  const Shape& shape = dataset_.shape();
  const auto found = static_cast<std::int64_t>(example.voxel_bytes.size());
  if (found != voxel_bytes(shape))
    fail(place,
         cat("voxels (feature x): expected ", voxel_bytes(shape), " bytes for ", shape, ", found ",
             found),
         extents_hint(found, 0, shape));
  if (static_cast<std::int64_t>(example.targets.size()) != dataset_.targets())
    fail(place,
         cat("targets (feature y): expected ", dataset_.targets(), ", found ",
             example.targets.size()),
         cat("set --targets ", example.targets.size()));
  for (std::size_t t = 0; t < example.targets.size(); ++t)
    if (!std::isfinite(example.targets[t]))
      fail(place, cat("target ", t, " is ", example.targets[t], ", expected a finite number"),
           "remove the file or generate it again");
}

void TfRecordSampleReader::convert(std::string_view voxels, const Box& box, float* dst,
                                   const Dataset::Place& place) const {
  const Shape& s = dataset_.shape();
  if (!Box::whole(s).contains(box))
    throw Error(cat("block ", box, " is not within the sample ", s));
  // A run is what is contiguous in both the sample and the block.
  const bool all_channels = box.extent(kC) == s.c;
  const std::int64_t runs = all_channels ? 1 : box.extent(kW);
  const std::int64_t run = all_channels ? box.extent(kW) * s.c : box.extent(kC);
  for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
    for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h)
      for (std::int64_t w = box.lo[kW]; w < box.lo[kW] + runs; ++w, dst += run) {
        const std::int64_t first = ((d * s.h + h) * s.w + w) * s.c + box.lo[kC];
        if (log_counts(voxels.data() + 2 * first, run, dst)) continue;
        std::int64_t at = first;
        std::int16_t value = 0;
        for (; value >= 0; ++at) std::memcpy(&value, voxels.data() + 2 * at, sizeof value);
        --at;
        fail(place,
             cat("voxel (d,h,w,c) = (", d, ',', h, ',', at / s.c % s.w, ',', at % s.c, ") is ",
                 value, ", expected a count of 0 or more"),
             "the data must be particle counts as int16: generate or convert the file again");
      }
}

}  // namespace

std::int64_t Dataset::size() const { return one_record_a_file() ? files() : first_sample_.back(); }

std::string_view Dataset::name(std::int64_t file) const {
  const auto f = static_cast<std::size_t>(file);
  const std::size_t begin = f == 0 ? 0 : name_end_[f - 1];
  return std::string_view(names_).substr(begin, name_end_[f] - begin);
}

Dataset::Place Dataset::place(std::int64_t sample) const {
  if (sample < 0 || sample >= size())
    throw Error(cat("sample ", sample, " of ", directory_.string(), ", which has ", size()));
  if (one_record_a_file()) return {sample, 0, 0};
  const auto after = std::upper_bound(first_sample_.begin(), first_sample_.end(), sample);
  return {after - first_sample_.begin() - 1, sample - *(after - 1),
          record_offset_[static_cast<std::size_t>(sample)]};
}

std::unique_ptr<SampleReader> Dataset::reader() const {
  return std::make_unique<TfRecordSampleReader>(*this);
}

Dataset Dataset::open(const Comm& comm, const std::filesystem::path& directory,
                      const std::string& split, const Shape& shape, std::int64_t targets) {
  Dataset dataset(directory / split, shape, targets);
  std::string outcome;
  if (comm.rank() == 0) outcome = outcome_of([&] { return dataset.list_files(split); });
  dataset.set_names(unpack_outcome(comm.broadcast(outcome, 0)));
  outcome = outcome_of([&] {
    std::string scanned;
    for (std::int64_t f = comm.rank(); f < dataset.files(); f += comm.size())
      scanned += dataset.scan(f);
    return scanned;
  });
  // Every rank sees every outcome in rank order, so all throw the same Error.
  std::vector<std::string> scanned;
  for (const std::string& of_rank : comm.all_gather(outcome))
    scanned.push_back(unpack_outcome(of_rank));
  dataset.set_records(scanned);
  // Lengths leave room for further features: one sample, read whole, shows the rest of the format.
  outcome = outcome_of([&] {
    if (comm.rank() == 0) dataset.reader()->read(0, Box{}, {}, {});
    return std::string();
  });
  unpack_outcome(comm.broadcast(outcome, 0));
  return dataset;
}

std::string Dataset::list_files(const std::string& split) const {
  namespace fs = std::filesystem;
  const std::string cure = cat("--data DIR must hold ", split,
                               "/ with *.tfrecord files; `halomesh synth` makes such a data set");
  std::error_code code;
  require(fs::is_directory(directory_, code), cat(directory_.string(), " is not a directory"),
          cure);
  std::vector<std::string> names;
  std::int64_t others = 0;
  fs::directory_iterator entry(directory_, code);
  for (; !code && entry != fs::directory_iterator(); entry.increment(code)) {
    std::string name = entry->path().filename().string();
    if (name.front() == '.' || entry->is_directory()) continue;
    if (name.find(".tfrecord") == std::string::npos)
      ++others;
    else
      names.push_back(std::move(name));
  }
  require(!code, cat("cannot list ", directory_.string(), ": ", code.message()), cure);
  require(!names.empty(),
          cat(directory_.string(), " holds no *.tfrecord file (and ", others, " others)"), cure);
  std::sort(names.begin(), names.end());
  std::string listed;
  for (const std::string& name : names) listed.append(name).push_back('\0');
  return listed;
}

void Dataset::set_names(const std::string& names) {
  names_.reserve(names.size());
  for (const char c : names)
    if (c == '\0')
      name_end_.push_back(narrow<std::uint32_t>(names_.size()));
    else
      names_.push_back(c);
  name_end_.shrink_to_fit();
}

/// One file's records as packed integers: their number, whether it is a gzip file, and the offset
/// of each unless there is just one.
std::string Dataset::scan(std::int64_t file) const {
  TfRecordReader records(std::numeric_limits<std::int64_t>::max());
  records.open((directory_ / name(file)).native());
  const auto check_length = [&] {
    const std::int64_t length = records.peek_length();
    if (length < 0) return;
    if (length < voxel_bytes(shape_) || length > largest_payload(shape_, targets_))
      throw Error(
          cat(records.path(), ": record ", records.record(), ": payload of ", length,
              " bytes, expected ", voxel_bytes(shape_), " for ", shape_, " and a little more"),
          extents_hint(length, 1024, shape_));
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
  std::string packed;
  append_integer(packed, static_cast<std::int64_t>(offsets.size()));
  append_integer(packed, records.is_gzip() ? 1 : 0);
  if (offsets.size() > 1)
    for (const std::int64_t offset : offsets) append_integer(packed, offset);
  return packed;
}

void Dataset::set_records(const std::vector<std::string>& scanned) {
  std::vector<std::size_t> taken(scanned.size(), 0);
  std::vector<std::int64_t> offsets;
  std::vector<std::int64_t> first{0};
  for (std::int64_t f = 0; f < files(); ++f) {
    const std::size_t rank = static_cast<std::size_t>(f) % scanned.size();
    const auto take = [&] {
      std::int64_t value = 0;
      std::memcpy(&value, scanned[rank].data() + taken[rank], sizeof value);
      taken[rank] += sizeof value;
      return value;
    };
    const std::int64_t records = take();
    const bool gzip = take() != 0;
    if (gzip && records > 1 && slow_file_.empty()) slow_file_ = name(f);
    for (std::int64_t r = 0; r < records; ++r) offsets.push_back(records > 1 ? take() : 0);
    first.push_back(first.back() + records);
  }
  if (first.back() == files()) return;  // one record in each file: the compact index
  first_sample_ = std::move(first);
  record_offset_ = std::move(offsets);
}

}  // namespace halomesh
