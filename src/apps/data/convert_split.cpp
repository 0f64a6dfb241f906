// SPDX-License-Identifier: Apache-2.0
// The files of a split's archive: see convert_split.hpp.
#include "src/apps/data/convert_split.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "error.hpp"
#include "runtime/data/data_content.hpp"
#include "runtime/mpi/collective_errors.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

/// Memory for a whole sample and its targets.
class SampleMemory {
 public:
  explicit SampleMemory(const Dataset& data) : data_(data) {}
  void read(SampleReader& reader, std::int64_t sample) {
    const Shape shape = data_.shape_of(sample);
    if (shape != values_.any_view().span.shape()) {
      Shape targets = data_.target_shape();
      if (data_.has_labels()) targets = {1, shape.d, shape.h, shape.w};
      values_ = Tensor(Box::whole(shape), 1, data_.format().type());
      targets_ = Tensor(Box::whole(targets), 1, data_.target_type());
    }
    reader.read(sample, values_.any_view(), targets_.any_view());
  }
  std::span<const std::byte> values() const { return bytes_of(values_); }
  std::span<const float> scalars() const { return of_type<float>(); }
  std::span<const std::uint8_t> labels() const { return of_type<std::uint8_t>(); }
  /// True if both hold equal bytes.
  friend bool operator==(const SampleMemory& a, const SampleMemory& b) {
    const auto same = [](std::span<const std::byte> x, std::span<const std::byte> y) {
      return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size()) == 0;
    };
    return same(a.values(), b.values()) && same(bytes_of(a.targets_), bytes_of(b.targets_));
  }

 private:
  static std::span<const std::byte> bytes_of(const Tensor& tensor) {
    const AnyView all = tensor.any_view();
    return {all.data, static_cast<std::size_t>(all.sample_bytes())};
  }
  template <class T>
  std::span<const T> of_type() const {
    const auto all = targets_.any_view().as<T>();
    return {all.data, static_cast<std::size_t>(all.sample_volume())};
  }

  const Dataset& data_;
  Tensor values_, targets_;
};

/// Describes how an existing file differs from the expected one.
std::string difference(const ArchiveFile& found, const ArchiveFile& expected) {
  const auto say = [](const char* what, const auto& is, const auto& wanted) {
    return fmt::format("{} {}, expected {}", what, is, wanted);
  };
  if (found.shape != expected.shape) return say("samples of", found.shape, expected.shape);
  if (found.targets != expected.targets) return say("targets", found.targets, expected.targets);
  if (found.classes != expected.classes) return say("classes", found.classes, expected.classes);
  if (found.values != expected.values) return "it holds values of another kind";
  if (found.source != expected.source) return say("samples from", found.source, expected.source);
  if (found.gzip == kOtherFilter) return "it is compressed by another HDF5 filter";
  if (found.gzip != expected.gzip) return say("gzip level", found.gzip, expected.gzip);
  if (found.split_samples != expected.split_samples)
    return say("samples in the split", found.split_samples, expected.split_samples);
  if (found.first_sample != expected.first_sample)
    return say("first sample", found.first_sample, expected.first_sample);
  if (found.samples != expected.samples)
    return say("samples per file", found.samples, expected.samples);
  if (found.names != expected.names)
    return found.names.empty() ? "it has no names of samples, as those of earlier versions"
                               : "its samples have other names";
  return "its voxels are elsewhere in space";
}

}  // namespace

SplitConversion::SplitConversion(const Comm& comm, const Dataset& source, std::string split,
                                 ArchiveOptions options)
    : comm_(comm),
      source_(source),
      split_(std::move(split)),
      options_(std::move(options)),
      content_(content_of(comm, source)) {
  const auto found = on_every_rank(comm, [&] {
    if (comm.rank() == 0) check_no_others();
    std::string kept;  // one letter for each file that this rank checks
    for (std::int64_t f = comm.rank(); f < files(); f += comm.size()) {
      std::optional<ArchiveFile> there = find_archive_file(path(f));
      const ArchiveFile wanted = content(f);
      // Earlier versions recorded the files and their times instead.
      if (there && there->source == source.identity()) there->source = content_;
      require(!there || *there == wanted,
              text("{} belongs to another conversion: {}", path(f).c_str(),
                   there ? difference(*there, wanted) : ""),
              "use another --to, or remove that archive's files");
      kept.push_back(there ? 'k' : 'm');
    }
    return kept;
  });
  for (std::int64_t f = 0; f < files(); ++f)
    if (found[static_cast<std::size_t>(f % comm.size())]
             [static_cast<std::size_t>(f / comm.size())] == 'm')
      missing_.push_back(f);
}

/// Throws Error for further files of this split, which would be read as part of it.
void SplitConversion::check_no_others() const {
  const std::string prefix = split_ + "-";
  for (const fs::directory_entry& entry : fs::directory_iterator(options_.directory)) {
    const std::string name = entry.path().filename().string();
    std::int64_t number = -1;
    if (!name.starts_with(prefix) || !name.ends_with(".h5")) continue;
    std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
    require(number < 0 || name != archive_name(split_, number) || number < files(),
            text("{} belongs to another conversion: this one makes {} files", entry.path().c_str(),
                 files()),
            "use another --to, or keep that file elsewhere");
  }
}

std::int64_t SplitConversion::files() const {
  return (source_.size() + options_.samples_per_file - 1) / options_.samples_per_file;
}

fs::path SplitConversion::path(std::int64_t file) const {
  return options_.directory / archive_name(split_, file);
}

Range SplitConversion::samples_of(std::int64_t file) const {
  const std::int64_t first = file * options_.samples_per_file;
  return {first, std::min(first + options_.samples_per_file, source_.size())};
}

ArchiveFile SplitConversion::content(std::int64_t file) const {
  const Range range = samples_of(file);
  const std::int64_t first = range.lo, samples = range.extent();
  std::vector<Orientation> orientations;
  std::vector<std::string> names;
  for (std::int64_t i = first; i < first + samples; ++i) {
    if (const auto orientation = source_.orientation_of(i)) orientations.push_back(*orientation);
    names.push_back(source_.name(i));
  }
  if (std::ssize(orientations) < samples) orientations.clear();
  return {samples,
          first,
          source_.size(),
          source_.shape_of(first),
          source_.has_labels() ? 0 : source_.targets(),
          options_.gzip,
          content_,
          source_.format().kind(),
          source_.classes(),
          std::move(orientations),
          std::move(names)};
}

std::int64_t SplitConversion::samples_kept() const {
  std::int64_t kept = samples();
  for (const std::int64_t file : missing_) kept -= samples_of(file).extent();
  return kept;
}

std::int64_t SplitConversion::bytes_missing() const {
  std::int64_t bytes = 0;
  for (const std::int64_t file : missing_)
    bytes += samples_of(file).extent() * sample_bytes(source_, samples_of(file).lo);
  return bytes;
}

void SplitConversion::run(const SampleTick& tick) const {
  run_with_collective_errors(comm_, [&](const std::function<bool()>& others_failed) {
    const auto reader = source_.reader();
    for (auto i = static_cast<std::size_t>(comm_.rank()); i < missing_.size() && !others_failed();
         i += static_cast<std::size_t>(comm_.size()))
      write_file(missing_[i], *reader, tick, others_failed);
  });
}

void SplitConversion::write_file(std::int64_t file, SampleReader& reader, const SampleTick& tick,
                                 const std::function<bool()>& others_failed) const {
  const ArchiveFile to_be = content(file);
  ArchiveWriter writer(path(file), to_be);
  SampleMemory memory(source_);
  for (std::int64_t i = 0; i < to_be.samples; ++i) {
    if (others_failed()) return;
    memory.read(reader, to_be.first_sample + i);
    if (source_.has_labels())
      writer.write(memory.values(), memory.labels());
    else
      writer.write(memory.values(), memory.scalars());
    tick();
  }
  writer.commit();
}

void verify_archive(const Comm& comm, const Dataset& archive, const Dataset* source,
                    const SampleTick& tick) {
  run_with_collective_errors(comm, [&](const std::function<bool()>& others_failed) {
    SampleMemory archived(archive);
    std::optional<SampleMemory> given;
    if (source != nullptr) given.emplace(*source);
    const auto reader = archive.reader();
    const auto source_reader = source != nullptr ? source->reader() : nullptr;
    // Runs are contiguous, so that a rank need not open every file.
    const std::int64_t end = archive.size() * (comm.rank() + 1) / comm.size();
    for (std::int64_t sample = archive.size() * comm.rank() / comm.size();
         sample < end && !others_failed(); ++sample, tick()) {
      archived.read(*reader, sample);
      if (source_reader == nullptr) continue;
      given->read(*source_reader, sample);
      require(
          archived == *given,
          text("sample {} of {} differs from the source {}", sample, archive.directory().c_str(),
               source->directory().c_str()),
          "the source has changed or one of them is damaged: remove the archive and convert again");
    }
  });
}

}  // namespace halomesh
