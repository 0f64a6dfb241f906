// SPDX-License-Identifier: Apache-2.0
// Volumes and labels in NIfTI files, laid out as those of KiTS19: DIR/SPLIT/case_NNNNN/ with
// imaging.nii.gz and segmentation.nii.gz (or .nii). Axes d, h and w are the first, second and third
// of the files. Files are read whole, as compressed ones must be: convert them once, then train.
#include <nifti/nifti2_io.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "error.hpp"
#include "runtime/data/dataset_format.hpp"
#include "runtime/data/sample_checks.hpp"
#include "runtime/posix/read_counts.hpp"
#include "src/nn/transform.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

struct Free {
  void operator()(nifti_image* image) const { nifti_image_free(image); }
};
using Image = std::unique_ptr<nifti_image, Free>;

/// The file `stem` of a case, compressed or not.
std::string file_of(const fs::path& of_case, const char* stem) {
  std::error_code ignored;
  for (const char* const end : {".nii.gz", ".nii"})
    if (fs::path path = of_case / (std::string(stem) + end); fs::exists(path, ignored))
      return path.string();
  throw Error(fmt::format("{} holds neither {}.nii.gz nor {}.nii", of_case.c_str(), stem, stem),
              "each case needs imaging.nii.gz and segmentation.nii.gz");
}

/// Reads the header of a file. Throws Error unless it is a volume of one channel.
Image open_image(const std::string& path) {
  nifti_set_debug_level(0);  // it must not print: what is wrong is said here
  Image image(nifti_image_read(path.c_str(), 0));
  require(image != nullptr, text("{} cannot be read: it is damaged or not a NIfTI file", path),
          "copy it again from the data set");
  require(image->nx > 0 && image->ny > 0 && image->nz > 0 &&
              image->nvox == image->nx * image->ny * image->nz,
          text("{} has {} values for {}x{}x{} voxels", path, image->nvox, image->nx, image->ny,
               image->nz),
          "a case must be one volume with one value per voxel");
  return image;
}

/// The values of a file as they are stored, in the byte order of this machine. Not by the library's
/// own function, which silently makes 0 of what is not finite.
std::vector<std::byte> elements_of(const nifti_image& image, const std::string& path) {
  const CountedRead read;
  std::vector<std::byte> bytes(static_cast<std::size_t>(image.nvox * image.nbyper));
  znzFile file = znzopen(image.iname, "rb", nifti_is_gzfile(image.iname));
  const bool complete = !znz_isnull(file) &&
                        znzseek(file, static_cast<long>(image.iname_offset), SEEK_SET) >= 0 &&
                        znzread(bytes.data(), 1, bytes.size(), file) == bytes.size();
  znzclose(file);
  require(complete, text("{} ends before its {} values", path, image.nvox),
          "copy it again from the data set");
  std::error_code ignored;  // the file has just been read
  read.count(static_cast<std::int64_t>(fs::file_size(image.iname, ignored)));
  if (image.swapsize > 1 && image.byteorder != nifti_short_order())
    nifti_swap_Nbytes(image.nvox, image.swapsize, bytes.data());
  return bytes;
}

Spatial extents_of(const nifti_image& image) { return {image.nx, image.ny, image.nz}; }

/// The values in the order d,h,w; in a file, d varies fastest.
template <class From>
std::vector<double> in_order(const nifti_image& image, const std::string& path) {
  const std::vector<std::byte> elements = elements_of(image, path);
  const auto* const from = reinterpret_cast<const From*>(elements.data());  // NOLINT: aligned
  const bool scaled = image.scl_slope != 0;
  const double slope = scaled ? image.scl_slope : 1, shift = scaled ? image.scl_inter : 0;
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(image.nvox));
  for (std::int64_t d = 0; d < image.nx; ++d)
    for (std::int64_t h = 0; h < image.ny; ++h)
      for (std::int64_t w = 0; w < image.nz; ++w)
        values.push_back(slope * static_cast<double>(from[(w * image.ny + h) * image.nx + d]) +
                         shift);
  return values;
}

std::vector<double> values_of(const std::string& path) {
  const Image image = open_image(path);
  switch (image->datatype) {
    case DT_UINT8:
      return in_order<std::uint8_t>(*image, path);
    case DT_INT8:
      return in_order<std::int8_t>(*image, path);
    case DT_UINT16:
      return in_order<std::uint16_t>(*image, path);
    case DT_INT16:
      return in_order<std::int16_t>(*image, path);
    case DT_INT32:
      return in_order<std::int32_t>(*image, path);
    case DT_FLOAT32:
      return in_order<float>(*image, path);
    case DT_FLOAT64:
      return in_order<double>(*image, path);
    default:
      throw Error(
          fmt::format("{} holds values of {}", path, nifti_datatype_string(image->datatype)),
          "use integers of up to 32 bits, float32 or float64");
  }
}

class Cases final : public Dataset {
 public:
  Cases(const Comm& comm, DatasetFiles cases, const Shape& shape, const TargetSpec& targets)
      : Dataset(shape, targets, SampleFormat::field()),
        cases_(std::move(cases)),
        labels_(SampleFormat::labels(targets.classes)) {
    const bool any_extents = shape.spatial() == Spatial{};
    require(shape.c == 1, text("samples of {} from NIfTI files, which have one channel", shape),
            text("use --input {}x{}x{}x1", shape.d, shape.h, shape.w));
    FileScan scanned(comm, cases_, [&](std::int64_t number) {
      const std::string path = file_of(cases_.path(number), "imaging");
      const Spatial found = extents_of(*open_image(path));
      require(any_extents || found == shape.spatial(),
              text("{} has {}x{}x{} voxels, expected {}x{}x{}", path, found[0], found[1], found[2],
                   shape.d, shape.h, shape.w),
              text("try --input {}x{}x{}x1, or train with --patches random", found[0], found[1],
                   found[2]));
      const std::string of_labels = file_of(cases_.path(number), "segmentation");
      require(extents_of(*open_image(of_labels)) == found,
              text("{} has other extents than its image", of_labels),
              "there must be a label for each voxel");
      // The directory's own time does not show when a file in it changes.
      const auto changed = [](const std::string& file) {
        return static_cast<std::int64_t>(fs::last_write_time(file).time_since_epoch().count());
      };
      return std::vector<std::int64_t>{found[0], found[1], found[2], changed(path),
                                       changed(of_labels)};
    });
    identity_ = scanned.identity();
    Spatial largest{};
    std::uint64_t changes = 0;
    for (std::int64_t number = 0; number < cases_.size(); ++number) {
      Spatial& extents = extents_.emplace_back();
      for (std::size_t axis = 0; axis < 3; ++axis) {
        extents[axis] = scanned.take(number);
        largest[axis] = std::max(largest[axis], extents[axis]);
      }
      for (int file = 0; file < 2; ++file)
        changes = changes * 1099511628211U + static_cast<std::uint64_t>(scanned.take(number));
    }
    identity_ += fmt::format(", {:x}", changes);
    resize(largest);
  }

  std::int64_t size() const override { return cases_.size(); }
  Shape shape_of(std::int64_t sample) const override {
    const Spatial& extents = extents_.at(static_cast<std::size_t>(sample));
    return {1, extents[0], extents[1], extents[2]};
  }
  std::string name(std::int64_t sample) const override { return std::string(cases_.name(sample)); }
  std::optional<Affine> affine_of(std::int64_t sample) const override {
    const Image image = open_image(file_of(cases_.path(sample), "imaging"));
    const nifti_dmat44& matrix = image->sform_code > 0 ? image->sto_xyz : image->qto_xyz;
    Affine affine;
    for (std::size_t i = 0; i < affine.size(); ++i) affine[i] = matrix.m[i / 4][i % 4];
    return affine;
  }
  const fs::path& directory() const override { return cases_.directory(); }
  const std::string& identity() const override { return identity_; }
  std::string advice() const override {
    return "NIfTI files are read whole by each rank: `halomesh convert --any-extents` makes an "
           "archive of them, which is read in blocks";
  }
  std::unique_ptr<SampleReader> reader() const override;

  /// Dense values or labels of a whole case.
  std::vector<std::byte> read(std::int64_t sample, bool labels) const {
    const std::string path = file_of(cases_.path(sample), labels ? "segmentation" : "imaging");
    const std::vector<double> values = values_of(path);
    const SampleFormat& format = labels ? labels_ : this->format();
    const Shape shape = shape_of(sample);
    require(std::ssize(values) == shape.volume(), text("{} has changed", path),
            "give the command again");
    std::vector<std::byte> converted(values.size() *
                                     static_cast<std::size_t>(size_of(format.type())));
    check_values(
        format.convert(Hdf5Type::kDouble, std::as_bytes(std::span(values)), 0, 1, converted),
        format, Box::whole(shape), path);
    return converted;
  }

 private:
  DatasetFiles cases_;
  SampleFormat labels_;
  std::string identity_;
  std::vector<Spatial> extents_;
};

/// Keeps the case that was read last.
class CaseReader final : public SampleReader {
 public:
  explicit CaseReader(const Cases& cases) : cases_(cases) {}

  DataType type() const override { return DataType::kFloat32; }
  void read(std::int64_t sample, AnyView dst, AnyView targets) override {
    copy(values_, sample, false, dst);
    copy(labels_, sample, true, targets);
  }
  void stream(std::int64_t sample, const VoxelSink& sink, AnyView targets) override {
    copy(labels_, sample, true, targets);
    sink(0, get(values_, sample, false));
  }
  void stream_labels(std::int64_t sample, const VoxelSink& sink) override {
    sink(0, get(labels_, sample, true));
  }

 private:
  struct Kept {
    std::int64_t sample = -1;
    std::vector<std::byte> values;
  };
  std::span<const std::byte> get(Kept& kept, std::int64_t sample, bool labels) const {
    if (kept.sample != sample) {
      kept.sample = -1;
      kept.values = cases_.read(sample, labels);
      kept.sample = sample;
    }
    return kept.values;
  }
  void copy(Kept& kept, std::int64_t sample, bool labels, AnyView dst) const {
    if (dst.span.empty()) return;
    const Shape shape = cases_.shape_of(sample);
    const AnyConstView whole{get(kept, sample, labels).data(), dst.type, Box::whole(shape), 1};
    transform(whole, dst.span, {}, shape, dst);
  }

  const Cases& cases_;
  Kept values_, labels_;
};

std::unique_ptr<SampleReader> Cases::reader() const { return std::make_unique<CaseReader>(*this); }

const Registered<DatasetFormat> kRegistered([] {
  return DatasetFormat{
      .name = "NIfTI",
      .content = "imaging.nii.gz and segmentation.nii.gz",
      .has_labels = true,
      .has_name = [](std::string_view name, std::string_view) { return name.starts_with("case_"); },
      .values = [](const fs::path&, const fs::path&) { return SampleFormat::field(); },
      .open = [](const Comm& comm, DatasetFiles cases, const Shape& shape,
                 const TargetSpec& targets, const SampleFormat&) -> std::unique_ptr<const Dataset> {
        return std::make_unique<Cases>(comm, std::move(cases), shape, targets);
      }};
});

}  // namespace
}  // namespace halomesh
