// The index of a split's samples.
// Knows nothing of the order in which samples are used, of threads or of the network.
#include "runtime/dataset.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "error.hpp"
#include "narrow.hpp"
#include "runtime/tfrecord.hpp"
#include "runtime/tfrecord_samples.hpp"

namespace halomesh {
namespace {

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
    if (comm.rank() == 0) dataset.reader()->read(0, {}, {});
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
