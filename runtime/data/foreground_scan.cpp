// SPDX-License-Identifier: Apache-2.0
// The search for foreground: see foreground_scan.hpp.
#include "runtime/data/foreground_scan.hpp"

#include <string>

#include "error.hpp"
#include "partition/samples/tiles.hpp"
#include "runtime/mpi/collective_errors.hpp"

namespace halomesh {
namespace {

/// The number of labels in a slab.
constexpr std::int64_t kSlabLabels = 1 << 20;

/// Appends the voxels of a sample as text: the numbers of the sample and of its classes, then for
/// each class the number of its voxels and their bytes.
void append(std::int64_t sample, const ForegroundSearch& search, std::string& text) {
  const auto all = search.found_by_class();
  text += fmt::format("{} {} ", sample, all.size());
  for (const std::vector<Voxel>& voxels : all) {
    text.push_back(static_cast<char>(voxels.size()));
    text.append(reinterpret_cast<const char*>(voxels.data()),  // NOLINT: bytes
                voxels.size() * sizeof(Voxel));
  }
}

/// Reads a number and the space after it.
std::int64_t next_number(const std::string& text, std::size_t& at) {
  const std::size_t end = text.find(' ', at);
  const std::int64_t number = std::stoll(text.substr(at, end - at));
  at = end + 1;
  return number;
}

/// Adds the sample at position `at` of a text, and moves `at` past it.
void take_next(const std::string& text, std::size_t& at, ForegroundSearches& all) {
  const std::int64_t sample = next_number(text, at), classes = next_number(text, at);
  ForegroundSearch& search = all.try_emplace(sample, classes).first->second;
  for (std::int64_t label = 0; label < classes; ++label) {
    std::vector<Voxel> voxels(static_cast<unsigned char>(text.at(at++)));
    at += text.copy(reinterpret_cast<char*>(voxels.data()),  // NOLINT: bytes
                    voxels.size() * sizeof(Voxel), at);
    for (const Voxel& voxel : voxels) search.take(static_cast<std::size_t>(label), voxel);
  }
}

ForegroundSearch search_of(SampleReader& reader, std::int64_t sample, const Dataset& data) {
  Shape shape = data.shape_of(sample);
  shape.c = 1;
  ForegroundSearch search(data.classes());
  std::vector<std::uint8_t> labels;
  for (const Box& slab : slabs_of(Box::whole(shape), kSlabLabels)) {
    labels.resize(static_cast<std::size_t>(slab.volume()));
    reader.read(sample, {}, TensorView<std::uint8_t>{labels.data(), slab, 1});
    search.take(slab, labels.data());
  }
  return search;
}

}  // namespace

ForegroundSearches joined_over(const Comm& comm, const ForegroundSearches& mine) {
  std::string found;
  for (const auto& [sample, search] : mine) append(sample, search, found);
  ForegroundSearches all;
  for (const std::string& text : comm.all_gather(found))
    for (std::size_t at = 0; at < text.size();) take_next(text, at, all);
  return all;
}

std::vector<Foreground> foreground_of(const ForegroundSearches& searches, std::int64_t samples) {
  std::vector<Foreground> all;
  all.reserve(static_cast<std::size_t>(samples));
  for (std::int64_t sample = 0; sample < samples; ++sample)
    all.push_back(searches.at(sample).found());
  return all;
}

std::vector<Foreground> scan_foreground(const Comm& world, const Dataset& data,
                                        const std::function<bool()>& must_stop) {
  ForegroundSearches mine;
  bool stopped = false;
  run_with_collective_errors(world, [&](const std::function<bool()>& others_failed) {
    const auto reader = data.reader();
    for (std::int64_t i = world.rank(); i < data.size() && !stopped && !others_failed();
         i += world.size()) {
      mine.emplace(i, search_of(*reader, i, data));
      stopped = must_stop();
    }
  });
  if (world.max(std::int64_t{stopped}) > 0) return {};
  return foreground_of(joined_over(world, mine), data.size());
}

}  // namespace halomesh
