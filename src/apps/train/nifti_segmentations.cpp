// SPDX-License-Identifier: Apache-2.0
// Predicted classes of voxels in a directory of NIfTI-1 files, two for each sample at most:
//
//   NAME.nii                uint8, D x H x W: the class with the largest output
//   NAME_probabilities.nii  float32, D x H x W x C: softmax of the outputs; if wanted
//
// NAME is Dataset::name(), with '-' for ':'. The first axis varies fastest. Rank 0 writes headers
// and makes room; then every rank writes the values of its blocks, which compressed files would not
// allow. Samples may differ in extents.
#include <nifti/nifti2_io.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <optional>

#include "error.hpp"
#include "joined.hpp"
#include "runtime/mpi/collective_errors.hpp"
#include "runtime/posix/atomic_file.hpp"
#include "runtime/posix/input_file.hpp"
#include "src/apps/train/segmentation_writer.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

/// The bytes of a header and of the four bytes that announce no extension.
constexpr std::int64_t kHeaderBytes = 352;

struct Free {
  void operator()(nifti_image* image) const { nifti_image_free(image); }
};

/// Places the voxels in space like those of the image.
void place(nifti_image& image, const Orientation& from) {
  image.sform_code = from.sform_code;
  image.qform_code = from.qform_code;
  nifti_dmat44 qform{};
  qform.m[3][3] = 1;
  for (std::size_t i = 0; i < from.qform.size(); ++i) {
    image.sto_xyz.m[i / 4][i % 4] = from.sform[i];
    qform.m[i / 4][i % 4] = from.qform[i];
  }
  nifti_dmat44_to_quatern(qform, &image.quatern_b, &image.quatern_c, &image.quatern_d,
                          &image.qoffset_x, &image.qoffset_y, &image.qoffset_z, &image.dx,
                          &image.dy, &image.dz, &image.qfac);
  image.pixdim[1] = image.dx;
  image.pixdim[2] = image.dy;
  image.pixdim[3] = image.dz;
  image.xyz_units = NIFTI_UNITS_MM;
}

/// Writes the header of a file with `channels` values per voxel, and reserves space for the values.
void make_file(const fs::path& path, const Shape& shape, std::int64_t channels, int type,
               const std::optional<Orientation>& from, const std::string& description) {
  const std::int64_t dims[8] = {channels > 1 ? 4 : 3, shape.d, shape.h, shape.w, channels, 1, 1, 1};
  const std::unique_ptr<nifti_image, Free> image(nifti_make_new_nim(dims, type, 0));
  require(image != nullptr, text("{}: no memory for a NIfTI header", path.c_str()));
  image->nifti_type = NIFTI_FTYPE_NIFTI1_1;
  image->iname_offset = kHeaderBytes;
  if (from) place(*image, *from);
  if (description.size() < sizeof image->descrip)
    std::copy(description.begin(), description.end(), std::begin(image->descrip));
  nifti_1_header header{};
  require(
      nifti_convert_nim2n1hdr(image.get(), &header) == 0,
      text("{}: NIfTI-1 has no room for {}x{}x{} voxels", path.c_str(), shape.d, shape.h, shape.w),
      "write an .h5 file");
  char bytes[kHeaderBytes] = {};
  std::memcpy(bytes, &header, sizeof header);
  std::ofstream file(path, std::ios::binary);
  file.write(bytes, sizeof bytes);
  file.close();
  std::error_code code;
  const std::int64_t values = shape.d * shape.h * shape.w * channels * image->nbyper;
  if (file) fs::resize_file(path, static_cast<std::uintmax_t>(kHeaderBytes + values), code);
  require(file && !code,
          text("cannot write {}: {}", path.c_str(), code ? code.message() : "no room"),
          "free some space, or name another --out");
}

class NiftiSegmentations final : public SegmentationWriter {
 public:
  NiftiSegmentations(const Comm& world, const fs::path& directory, SegmentationContent content)
      : world_(world), content_(std::move(content)) {
    const std::string names = on_first_rank(world, [&] { return make_files(directory); });
    for (std::size_t at = 0; at < names.size();) {
      const std::size_t end = names.find('\0', at);
      temporaries_.emplace_back(names.substr(at, end - at));
      at = end + 1;
    }
  }

  void write(std::span<const std::int64_t> samples, ConstView output) override {
    const auto classes = std::ssize(content_.classes);
    for (std::int64_t n = 0; n < std::ssize(samples); ++n) {
      open(samples[static_cast<std::size_t>(n)]);
      VoxelRoom room{kHeaderBytes, content_.data.shape_of(sample_).spatial(), {kW, kH, kD}};
      const auto outputs = [&](const VoxelPoint& at) {
        return &output.at(n, 0, at[kD], at[kH], at[kW]);
      };
      write_voxels<std::uint8_t>(*predicted_, room, 1, output.span,
                                 [&](const VoxelPoint& at, std::uint8_t* to) {
                                   *to = largest_class(outputs(at), classes);
                                 });
      if (!content_.with_probabilities) continue;
      std::vector<float> all(static_cast<std::size_t>(classes));
      for (std::size_t c = 0; c < all.size(); ++c) {
        write_voxels<float>(*probabilities_, room, 1, output.span,
                            [&](const VoxelPoint& at, float* to) {
                              probabilities_of(outputs(at), classes, all.data());
                              *to = all[c];
                            });
        room.begin += room.extents[0] * room.extents[1] * room.extents[2] *
                      static_cast<std::int64_t>(sizeof(float));
      }
    }
  }

  void commit() override {
    on_all_ranks(world_, [&] { close(); });
    on_first_rank(world_, [&] {
      for (const auto& file : files_) file->commit();
      return std::string();
    });
  }

 private:
  std::size_t files_per_sample() const { return content_.with_probabilities ? 2 : 1; }
  /// Returns the temporary files, each ending in '\0'.
  std::string make_files(const fs::path& directory);
  void make(const fs::path& path, const Shape& shape, std::int64_t channels, int type,
            const std::optional<Orientation>& from, std::string& temporaries);
  /// Opens the files of a sample.
  void open(std::int64_t sample) {
    if (sample == sample_) return;
    close();
    const std::size_t first = static_cast<std::size_t>(sample) * files_per_sample();
    predicted_.emplace(temporaries_.at(first));
    if (content_.with_probabilities) probabilities_.emplace(temporaries_.at(first + 1));
    sample_ = sample;
  }
  void close() {
    sample_ = -1;
    for (std::optional<SharedFile>* const file : {&predicted_, &probabilities_}) {
      if (*file) (*file)->close();
      file->reset();
    }
  }

  const Comm& world_;
  SegmentationContent content_;
  std::vector<std::unique_ptr<AtomicFile>> files_;  // on rank 0
  std::vector<fs::path> temporaries_;               // by sample
  std::int64_t sample_ = -1;                        // the sample whose files are open
  std::optional<SharedFile> predicted_, probabilities_;
};

std::string NiftiSegmentations::make_files(const fs::path& directory) {
  std::error_code code;
  require_target(directory);
  fs::create_directories(directory, code);
  require(fs::is_directory(directory),
          text("--out {}: cannot be made a directory", directory.c_str()),
          "name a directory that can be written to");
  std::string temporaries;
  const Dataset& data = content_.data;
  for (std::int64_t sample = 0; sample < data.size(); ++sample) {
    std::string name = data.name(sample);
    std::replace(name.begin(), name.end(), ':', '-');
    const std::optional<Orientation> from = data.orientation_of(sample);
    const Shape shape = data.shape_of(sample);
    make(directory / (name + ".nii"), shape, 1, DT_UINT8, from, temporaries);
    if (content_.with_probabilities)
      make(directory / (name + "_probabilities.nii"), shape, std::ssize(content_.classes),
           DT_FLOAT32, from, temporaries);
  }
  return temporaries;
}

void NiftiSegmentations::make(const fs::path& path, const Shape& shape, std::int64_t channels,
                              int type, const std::optional<Orientation>& from,
                              std::string& temporaries) {
  files_.push_back(std::make_unique<AtomicFile>(path, AtomicFile::Writers::kSeveral));
  const fs::path& temporary = files_.back()->temporary_path();
  make_file(temporary, shape, channels, type, from, joined(content_.classes, ","));
  temporaries += temporary.string();
  temporaries += '\0';
}

const Registered<SegmentationFormat> kRegistered([] {
  return SegmentationFormat{
      .name = "NIfTI",
      .files = "a directory for NIfTI files, without an extension",
      .takes = [](const fs::path& out) { return out.extension().empty(); },
      .create = [](const Comm& world, const fs::path& out,
                   const SegmentationContent& content) -> std::unique_ptr<SegmentationWriter> {
        return std::make_unique<NiftiSegmentations>(world, out, content);
      }};
});

}  // namespace
}  // namespace halomesh
