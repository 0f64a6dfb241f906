// SPDX-License-Identifier: Apache-2.0
// See foreground_scan.hpp.
#include "runtime/load/foreground_scan.hpp"

#include <cstring>
#include <string>

#include "partition/samples/tiles.hpp"
#include "runtime/mpi/collective_errors.hpp"

namespace halomesh {
namespace {

/// Labels of a slab.
constexpr std::int64_t kSlabLabels = 1 << 20;

/// The voxels of a sample as text, by class: their number, then their bytes.
void append(const Foreground& foreground, std::string& text) {
  text.push_back(static_cast<char>(foreground.size()));
  for (const std::vector<Voxel>& voxels : foreground) {
    text.push_back(static_cast<char>(voxels.size()));
    text.append(reinterpret_cast<const char*>(voxels.data()),  // NOLINT: bytes
                voxels.size() * sizeof(Voxel));
  }
}

Foreground next_of(const std::string& text, std::size_t& at) {
  Foreground foreground(static_cast<unsigned char>(text.at(at++)));
  for (std::vector<Voxel>& voxels : foreground) {
    voxels.resize(static_cast<unsigned char>(text.at(at++)));
    std::memcpy(voxels.data(), text.data() + at, voxels.size() * sizeof(Voxel));
    at += voxels.size() * sizeof(Voxel);
  }
  return foreground;
}

Foreground foreground_of(SampleReader& reader, std::int64_t sample, const Dataset& data) {
  Shape shape = data.shape_of(sample);
  shape.c = 1;
  ForegroundSearch search(data.classes());
  std::vector<std::uint8_t> labels;
  for (const Box& slab : slabs_of(Box::whole(shape), kSlabLabels)) {
    labels.resize(static_cast<std::size_t>(slab.volume()));
    reader.read(sample, {}, TensorView<std::uint8_t>{labels.data(), slab, 1});
    search.take(slab, labels.data());
  }
  return search.found();
}

}  // namespace

std::vector<Foreground> scan_foreground(const Comm& world, const Dataset& data,
                                        const std::function<bool()>& must_stop) {
  std::string found;
  bool stopped = false;
  run_with_collective_errors(world, [&](const std::function<bool()>& others_failed) {
    const auto reader = data.reader();
    for (std::int64_t i = world.rank(); i < data.size() && !stopped && !others_failed();
         i += world.size()) {
      append(foreground_of(*reader, i, data), found);
      stopped = must_stop();
    }
  });
  if (world.max(std::int64_t{stopped}) > 0) return {};
  const std::vector<std::string> texts = world.all_gather(found);
  std::vector<std::size_t> at(texts.size());
  std::vector<Foreground> all;
  all.reserve(static_cast<std::size_t>(data.size()));
  for (std::int64_t i = 0; i < data.size(); ++i) {
    const auto rank = static_cast<std::size_t>(i) % texts.size();
    all.push_back(next_of(texts[rank], at[rank]));
  }
  return all;
}

}  // namespace halomesh
