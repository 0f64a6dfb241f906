// SPDX-License-Identifier: Apache-2.0
// Predicted classes of voxels in one HDF5 file, with n samples in the order of the data set:
//
//   /predicted      uint8, n x D x H x W          the class with the largest output
//   /probabilities  float32, n x D x H x W x C    softmax of the outputs; if wanted
//   attributes of /predicted: classes, names separated by commas; samples, one name a line
//
// Datasets are contiguous: rank 0 makes room for them with the HDF5 library and closes the file;
// then every rank writes the bytes of its blocks.
#include <optional>
#include <sstream>

#include "error.hpp"
#include "joined.hpp"
#include "runtime/hdf5/hdf5_file.hpp"
#include "runtime/mpi/collective_errors.hpp"
#include "runtime/posix/atomic_file.hpp"
#include "src/apps/train/segmentation_writer.hpp"

namespace halomesh {
namespace {

class Hdf5Segmentations final : public SegmentationWriter {
 public:
  Hdf5Segmentations(const Comm& world, const std::filesystem::path& path,
                    const SegmentationContent& content);

  void write(std::span<const std::int64_t> samples, ConstView output) override;
  void commit() override;

 private:
  /// The place of one sample in a dataset that begins at `begin`.
  VoxelRoom room(std::int64_t begin, std::int64_t sample, std::int64_t voxel_bytes) const {
    return {begin + sample * shape_.d * shape_.h * shape_.w * voxel_bytes, shape_.spatial()};
  }

  const Comm& world_;
  Shape shape_;                       // the shape of a sample, with a channel for each class
  std::optional<AtomicFile> target_;  // on rank 0
  std::optional<SharedFile> file_;
  // Bytes from the beginning of the file; -1: not requested.
  std::int64_t predicted_ = 0, probabilities_ = -1;
};

Hdf5Segmentations::Hdf5Segmentations(const Comm& world, const std::filesystem::path& path,
                                     const SegmentationContent& content)
    : world_(world), shape_(content.data.shape()) {
  const Dataset& data = content.data;
  for (std::int64_t sample = 0; sample < data.size(); ++sample)
    require(data.shape_of(sample) == data.shape(),
            text("sample {} of {} has {}, others {} along some axis", data.name(sample),
                 data.directory().c_str(), data.shape_of(sample), data.shape()),
            "an HDF5 file of predictions has one shape: give a directory to write NIfTI files, or "
            "predict samples of each shape by themselves");
  shape_.c = std::ssize(content.classes);
  std::istringstream made(on_first_rank(world, [&] {
    target_.emplace(path, AtomicFile::Writers::kSeveral);
    Hdf5File file = Hdf5File::create(target_->temporary_path());
    const Extents voxels{data.size(), shape_.d, shape_.h, shape_.w};
    predicted_ = file.create_room("/predicted", Hdf5Type::kUint8, voxels);
    if (content.with_probabilities) {
      Extents of_classes = voxels;
      of_classes.push_back(shape_.c);
      probabilities_ = file.create_room("/probabilities", Hdf5Type::kFloat, of_classes);
    }
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < data.size(); ++i) names.push_back(data.name(i));
    file.write_attribute("/predicted", "classes", joined(content.classes, ","));
    file.write_attribute("/predicted", "samples", joined(names, "\n"));
    file.close();
    return fmt::format("{} {} {}", predicted_, probabilities_, target_->temporary_path().string());
  }));
  std::string temporary;
  made >> predicted_ >> probabilities_;
  std::getline(made >> std::ws, temporary, '\0');
  on_all_ranks(world, [&] { file_.emplace(temporary); });
}

void Hdf5Segmentations::write(std::span<const std::int64_t> samples, ConstView output) {
  const std::int64_t classes = shape_.c;
  for (std::int64_t n = 0; n < std::ssize(samples); ++n) {
    const std::int64_t sample = samples[static_cast<std::size_t>(n)];
    const auto outputs = [&](const VoxelPoint& at) {
      return &output.at(n, 0, at[kD], at[kH], at[kW]);
    };
    write_voxels<std::uint8_t>(
        *file_, room(predicted_, sample, 1), 1, output.span,
        [&](const VoxelPoint& at, std::uint8_t* to) { *to = largest_class(outputs(at), classes); });
    if (probabilities_ < 0) continue;
    const auto bytes = classes * static_cast<std::int64_t>(sizeof(float));
    write_voxels<float>(
        *file_, room(probabilities_, sample, bytes), classes, output.span,
        [&](const VoxelPoint& at, float* to) { probabilities_of(outputs(at), classes, to); });
  }
}

void Hdf5Segmentations::commit() {
  on_all_ranks(world_, [&] { file_->close(); });
  on_first_rank(world_, [&] {
    target_->commit();
    return std::string();
  });
}

const Registered<SegmentationFormat> kRegistered([] {
  return SegmentationFormat{
      .name = "HDF5",
      .files = "an .h5 file",
      .takes =
          [](const std::filesystem::path& out) {
            return out.extension() == ".h5" || out.extension() == ".hdf5";
          },
      .create = [](const Comm& world, const std::filesystem::path& out,
                   const SegmentationContent& content) -> std::unique_ptr<SegmentationWriter> {
        return std::make_unique<Hdf5Segmentations>(world, out, content);
      }};
});

}  // namespace
}  // namespace halomesh
