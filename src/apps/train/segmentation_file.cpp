// SPDX-License-Identifier: Apache-2.0
// See segmentation_file.hpp.
#include "src/apps/train/segmentation_file.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "joined.hpp"
#include "runtime/hdf5/hdf5_file.hpp"
#include "runtime/mpi/collective_errors.hpp"

namespace halomesh {

SegmentationFile::SegmentationFile(const Comm& world, const std::filesystem::path& path,
                                   const Dataset& data, const std::vector<std::string>& classes,
                                   bool with_probabilities)
    : world_(world), shape_(data.shape()) {
  shape_.c = std::ssize(classes);
  std::istringstream made(on_first_rank(world, [&] {
    target_.emplace(path, AtomicFile::Writers::kSeveral);
    Hdf5File file = Hdf5File::create(target_->temporary_path());
    const Extents voxels{data.size(), shape_.d, shape_.h, shape_.w};
    predicted_ = file.create_room("/predicted", Hdf5Type::kUint8, voxels);
    if (with_probabilities) {
      Extents of_classes = voxels;
      of_classes.push_back(shape_.c);
      probabilities_ = file.create_room("/probabilities", Hdf5Type::kFloat, of_classes);
    }
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < data.size(); ++i) names.push_back(data.name(i));
    file.write_attribute("/predicted", "classes", joined(classes, ","));
    file.write_attribute("/predicted", "samples", joined(names, "\n"));
    file.close();
    return fmt::format("{} {} {}", predicted_, probabilities_, target_->temporary_path().string());
  }));
  std::string temporary;
  made >> predicted_ >> probabilities_;
  std::getline(made >> std::ws, temporary, '\0');
  on_all_ranks(world, [&] { file_.emplace(temporary); });
}

SegmentationFile::~SegmentationFile() = default;

/// Writes `width` elements for each voxel of a block, a plane at a time; convert(d, h, w, to)
/// makes them.
template <class T, class Convert>
void SegmentationFile::write_planes(std::int64_t room, std::int64_t sample, std::int64_t width,
                                    const Box& box, const Convert& convert) {
  const std::int64_t row = box.extent(kW) * width;
  std::vector<T> plane(static_cast<std::size_t>(box.extent(kH) * row));
  const auto bytes = std::as_bytes(std::span(plane));
  const bool whole_rows = box.extent(kW) == shape_.w;
  for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d) {
    T* to = plane.data();
    for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h)
      for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w, to += width) convert(d, h, w, to);
    const auto place = [&](std::int64_t h) {
      const std::int64_t voxel = ((sample * shape_.d + d) * shape_.h + h) * shape_.w + box.lo[kW];
      return room + voxel * width * static_cast<std::int64_t>(sizeof(T));
    };
    if (whole_rows) {
      file_->write(place(box.lo[kH]), bytes);
      continue;
    }
    const std::size_t row_bytes = static_cast<std::size_t>(row) * sizeof(T);
    for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h)
      file_->write(place(h),
                   bytes.subspan(static_cast<std::size_t>(h - box.lo[kH]) * row_bytes, row_bytes));
  }
}

void SegmentationFile::write(std::span<const std::int64_t> samples, ConstView output) {
  const std::int64_t classes = shape_.c;
  for (std::int64_t n = 0; n < std::ssize(samples); ++n) {
    const std::int64_t sample = samples[static_cast<std::size_t>(n)];
    write_planes<std::uint8_t>(
        predicted_, sample, 1, output.span, [&](auto d, auto h, auto w, std::uint8_t* to) {
          const float* const z = &output.at(n, 0, d, h, w);
          *to = static_cast<std::uint8_t>(std::max_element(z, z + classes) - z);
        });
    if (probabilities_ < 0) continue;
    write_planes<float>(probabilities_, sample, classes, output.span,
                        [&](auto d, auto h, auto w, float* to) {
                          const float* const z = &output.at(n, 0, d, h, w);
                          const float largest = *std::max_element(z, z + classes);
                          float sum = 0;
                          for (std::int64_t c = 0; c < classes; ++c)
                            sum += to[c] = std::exp(z[c] - largest);
                          for (std::int64_t c = 0; c < classes; ++c) to[c] /= sum;
                        });
  }
}

void SegmentationFile::commit() {
  on_all_ranks(world_, [&] { file_->close(); });
  on_first_rank(world_, [&] {
    target_->commit();
    return std::string();
  });
}

}  // namespace halomesh
