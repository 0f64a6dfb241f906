// SPDX-License-Identifier: Apache-2.0
// Tables of targets, and samples with them: see table_targets.hpp.
#include "runtime/data/table_targets.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <string_view>
#include <utility>

#include "error.hpp"
#include "joined.hpp"
#include "runtime/data/dataset_over.hpp"
#include "runtime/data/hdf5_dataset.hpp"
#include "runtime/data/hdf5_field.hpp"
#include "runtime/data/sample_checks.hpp"
#include "runtime/mpi/collective_errors.hpp"
#include "runtime/posix/input_file.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

/// The words of a line: between commas, semicolons or tabs if it has any, else between spaces.
Words words_of(const std::string& line) {
  const char* const marks = line.find_first_of(",;\t") == std::string::npos ? " " : ",;\t";
  Words words;
  for (std::size_t at = 0; at <= line.size();) {
    const std::size_t end = std::min(line.find_first_of(marks, at), line.size());
    const std::size_t first = line.find_first_not_of(" \r", at);
    std::string word;
    if (first < end) word = line.substr(first, line.find_last_not_of(" \r", end - 1) + 1 - first);
    if (!word.empty() || *marks != ' ') words.push_back(word);
    at = end + 1;
  }
  return words;
}

std::optional<float> number_in(std::string_view word) {
  if (word.starts_with('+')) word.remove_prefix(1);
  double number = 0;
  const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (code != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return static_cast<float>(number);
}

/// The last `count` words of a line, as titles; none if it has fewer.
Words titles_in(Words words, std::int64_t count) {
  if (std::ssize(words) < count) return {};
  words.erase(words.begin(), words.end() - count);
  for (std::string& word : words)
    std::replace_if(
        word.begin(), word.end(), [](unsigned char c) { return std::isalnum(c) == 0 && c < 128; },
        '_');
  return words;
}

}  // namespace

TargetTable parse_table(const std::string& text, const std::string& path, const TargetSpec& spec) {
  const std::int64_t targets = spec.scalars;
  TargetTable table;
  std::istringstream lines(text);
  std::string line;
  bool is_first = true;
  for (std::int64_t number = 1; std::getline(lines, line); ++number) {
    if (line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);  // the mark of UTF-8
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (line.front() == '#') {
      if (is_first) table.titles = titles_in(words_of(line.substr(1)), targets);
      continue;
    }
    const Words words = words_of(line);
    if (std::exchange(is_first, false) && !number_in(words.back())) {
      table.titles = titles_in(words, targets);
      continue;
    }
    // A name may be a number, too.
    const bool named = std::ssize(words) == targets + 1 || !number_in(words.front());
    const std::int64_t count = std::ssize(words) - (named ? 1 : 0);
    require(count == targets,
            fmt::format("{}: line {} has {}{} numbers, expected {}", path, number,
                        named ? "a name and " : "", count, targets),
            number_hint(spec.limits, count) + ", or leave the numbers to be predicted");
    if (named) table.samples.push_back(words.front());
    for (std::size_t w = named ? 1 : 0; w < words.size(); ++w) {
      const auto value = number_in(words[w]);
      require(value.has_value(),
              fmt::format("{}: line {}: '{}' is not a number", path, number, words[w]),
              "give a number for each target");
      require(
          std::isfinite(*value),
          fmt::format("{}: line {}: '{}' is not a number that fp32 holds", path, number, words[w]),
          "give a finite number for each target, of at most 3.4e38");
      table.numbers.push_back(*value);
    }
    require(
        table.samples.empty() || std::ssize(table.numbers) == targets * std::ssize(table.samples),
        fmt::format("{}: line {} has a name, others have none", path, number),
        "begin each row with the name of its sample, or none");
  }
  return table;
}

fs::path table_path(const DataSource& source, const std::string& split) {
  fs::path given = source.targets;
  std::error_code ignored;
  for (const fs::path& path : {source.of_split(split) / given, source.directory / given})
    if (fs::exists(path, ignored)) return path;
  return given;
}

namespace {

TargetTable read_table(const fs::path& path, const TargetSpec& spec) {
  const std::int64_t targets = spec.scalars;
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;
  if (path.extension() != ".npy") return parse_table(read_input_file(path, kMostBytes), path, spec);
  Hdf5File file = Hdf5File::open(path);
  const Extents extents = file.extents(Hdf5File::kArray);
  const std::int64_t columns = extents.size() > 1 ? extents.back() : 1;
  require(extents.size() <= 2 && !extents.empty() && columns == targets,
          text("{} has the shape {}, expected a row of {} numbers for each sample", path.c_str(),
               joined(extents, "x"), targets),
          number_hint(spec.limits, columns));
  TargetTable table;
  read_numbers(file, Hdf5File::kArray, Slab::whole(extents), table.numbers);
  const auto bad = std::find_if_not(table.numbers.begin(), table.numbers.end(),
                                    [](float value) { return std::isfinite(value); });
  require(bad == table.numbers.end(),
          fmt::format("{}: row {} holds {:g}", path.string(),
                      (bad - table.numbers.begin()) / targets, *bad),
          "give a finite number for each target");
  return table;
}

/// The rows in the order of the samples.
std::vector<float> rows_of(const TargetTable& table, const Dataset& samples, const fs::path& path,
                           const TargetSpec& spec) {
  const std::int64_t targets = spec.scalars;
  const auto width = static_cast<std::size_t>(targets);
  const auto check_row = [&](auto first, const std::string& name) {
    check_targets(std::span(first, first + static_cast<std::ptrdiff_t>(width)), spec.limits,
                  fmt::format("{}: {}", path.c_str(), name));
  };
  if (table.samples.empty()) {
    require(
        std::ssize(table.numbers) == targets * samples.size(),
        text("{} has {} rows, {} has {} samples", path.c_str(), table.numbers.size() / width,
             samples.directory().c_str(), samples.size()),
        "give a row for each sample in the order of names, or begin each with the sample's name");
    for (std::int64_t i = 0; i < samples.size(); ++i)
      check_row(table.numbers.begin() + i * targets, samples.name(i));
    return table.numbers;
  }
  std::map<std::string, std::size_t> row_of;
  for (std::size_t row = 0; row < table.samples.size(); ++row)
    require(row_of.emplace(plain_name(table.samples[row]), row).second,
            text("{} has two rows for {}", path.c_str(), table.samples[row]), "keep one of them");
  std::vector<float> rows;
  for (std::int64_t i = 0; i < samples.size(); ++i) {
    const std::string name = samples.name(i);
    const auto found = row_of.find(plain_name(name));
    require(found != row_of.end(),
            text("{} has no row for {} of {}", path.c_str(), name, samples.directory().c_str()),
            text("add a row that begins with {}, as others begin with {}", name,
                 table.samples.front()));
    const auto first = table.numbers.begin() + static_cast<std::ptrdiff_t>(found->second * width);
    check_row(first, name);
    rows.insert(rows.end(), first, first + static_cast<std::ptrdiff_t>(width));
  }
  return rows;
}

class TargetedDataset final : public DatasetOver {
 public:
  /// Without rows, targets are 0.
  TargetedDataset(std::unique_ptr<const Dataset> samples, const TargetSpec& targets,
                  std::vector<float> rows = {}, std::string titles = {})
      : DatasetOver(std::move(samples), targets),
        rows_(std::move(rows)),
        titles_(std::move(titles)) {
    const auto bytes = std::as_bytes(std::span(rows_));
    hash_ = content_hash({reinterpret_cast<const char*>(bytes.data()), bytes.size()});  // NOLINT
    identify(fmt::format("targets {:x}", hash_));
  }

  std::string target_titles() const override { return titles_; }
  bool has_truth() const override { return !rows_.empty(); }
  std::uint64_t file_hash(std::int64_t file) const override {
    return samples().file_hash(file) + (file == 0 ? hash_ : 0);
  }
  std::unique_ptr<SampleReader> reader() const override;

  /// Writes the targets of a sample, or a block of them.
  void give(std::int64_t sample, AnyView targets) const {
    const auto width = static_cast<std::size_t>(this->targets());
    if (has_truth())
      copy_scalars(std::span(rows_).subspan(static_cast<std::size_t>(sample) * width, width),
                   targets);
    else
      std::fill_n(targets.data, targets.span.empty() ? 0 : targets.sample_bytes(), std::byte{});
  }

 private:
  std::vector<float> rows_;
  std::string titles_;
  std::uint64_t hash_ = 0;
};

/// The labels of samples, which are the samples of a data set of their own.
class LabelledDataset final : public DatasetOver {
 public:
  LabelledDataset(std::unique_ptr<const Dataset> samples, std::unique_ptr<const Dataset> labels,
                  const TargetSpec& targets)
      : DatasetOver(std::move(samples), targets), labels_(std::move(labels)) {
    identify(labels_->identity());
  }

  std::uint64_t file_hash(std::int64_t file) const override {
    const bool is_paired = labels_->files().size() == files().size();
    return samples().file_hash(file) +
           (is_paired || file == 0 ? labels_->file_hash(is_paired ? file : 0) : 0);
  }
  std::unique_ptr<SampleReader> reader() const override;

 private:
  std::unique_ptr<const Dataset> labels_;
};

/// Reads targets by `give`, everything else by the reader of the samples; and labels by a reader of
/// these.
class TargetedReader final : public SampleReader {
 public:
  using Give = std::function<void(std::int64_t sample, AnyView targets)>;
  TargetedReader(const Dataset& samples, Give give)
      : samples_(samples.reader()), give_(std::move(give)) {}
  TargetedReader(const Dataset& samples, const Dataset& labels)
      : samples_(samples.reader()),
        labels_(labels.reader()),
        give_([this](auto sample, auto targets) {
          if (!targets.span.empty()) labels_->read(sample, targets, {});
        }) {}

  DataType type() const override { return samples_->type(); }
  void read(std::int64_t sample, AnyView dst, AnyView targets) override {
    samples_->read(sample, dst, {});
    give_(sample, targets);
  }
  void read_slabs(std::int64_t sample, const Box& box, const SlabSink& sink,
                  AnyView targets) override {
    samples_->read_slabs(sample, box, sink, {});
    give_(sample, targets);
  }
  void stream(std::int64_t sample, const VoxelSink& sink, AnyView targets) override {
    samples_->stream(sample, sink, {});
    give_(sample, targets);
  }
  void stream_labels(std::int64_t sample, const VoxelSink& sink) override {
    labels_->stream(sample, sink, {});
  }
  void expect(std::int64_t sample) override { samples_->expect(sample); }

 private:
  std::unique_ptr<SampleReader> samples_, labels_;
  Give give_;
};

std::unique_ptr<SampleReader> TargetedDataset::reader() const {
  return std::make_unique<TargetedReader>(
      samples(), [this](std::int64_t sample, AnyView targets) { give(sample, targets); });
}

std::unique_ptr<SampleReader> LabelledDataset::reader() const {
  return std::make_unique<TargetedReader>(samples(), *labels_);
}

}  // namespace

std::unique_ptr<const Dataset> with_labels(const Comm& comm, std::unique_ptr<const Dataset> samples,
                                           DatasetFiles files, const TargetSpec& targets) {
  const std::int64_t count = samples->size();
  Shape shape = samples->shape();
  shape.c = 1;
  for (std::int64_t i = 0; i < count; ++i)  // labels of other extents than the largest sample's
    if (samples->shape_of(i).spatial() != samples->shape().spatial()) shape = {1, 0, 0, 0};
  auto labels =
      std::make_unique<Hdf5Dataset>(comm, std::move(files), kArrayKind, shape, TargetSpec::none(),
                                    SampleFormat::labels(targets.classes));
  require(labels->size() == count,
          text("{} has labels of {} samples, {} has {} samples", labels->directory().c_str(),
               labels->size(), samples->directory().c_str(), count),
          "give an array of labels for each, or all in one");
  for (std::int64_t i = 0; i < count; ++i)
    require(labels->shape_of(i).spatial() == samples->shape_of(i).spatial(),
            text("the labels {} have {}, the sample {} has {}", labels->name(i),
                 labels->shape_of(i), samples->name(i), samples->shape_of(i)),
            "there must be a label for each voxel of a sample");
  return std::make_unique<LabelledDataset>(std::move(samples), std::move(labels), targets);
}

std::unique_ptr<const Dataset> without_truth(std::unique_ptr<const Dataset> samples,
                                             const TargetSpec& targets) {
  return std::make_unique<TargetedDataset>(std::move(samples), targets);
}

std::unique_ptr<const Dataset> with_table(const Comm& comm, std::unique_ptr<const Dataset> samples,
                                          const DataSource& source, const std::string& split,
                                          const TargetSpec& targets) {
  // The titles, and behind them the numbers.
  const std::string found = on_first_rank(comm, [&] {
    const fs::path path = table_path(source, split);
    const TargetTable table = read_table(path, targets);
    std::string made = joined(table.titles, ",") + '\n';
    const std::vector<float> rows = rows_of(table, *samples, path, targets);
    made.append(reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(float));  // NOLINT
    return made;
  });
  const std::size_t end = found.find('\n');
  std::vector<float> rows((found.size() - end - 1) / sizeof(float));
  std::memcpy(rows.data(), found.data() + end + 1, rows.size() * sizeof(float));
  return std::make_unique<TargetedDataset>(std::move(samples), targets, std::move(rows),
                                           found.substr(0, end));
}

}  // namespace halomesh
