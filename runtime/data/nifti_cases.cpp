// SPDX-License-Identifier: Apache-2.0
// Volumes and labels in NIfTI files, laid out as in KiTS19: DIR/SPLIT/case_NNNNN/ with
// imaging.nii.gz and segmentation.nii.gz (or .nii). Axes d, h and w are the first, second and third
// of the files. Files are read whole, as compressed ones must be: convert them once, then train.
#include <fcntl.h>
#include <nifti/nifti2_io.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "error.hpp"
#include "runtime/data/data_content.hpp"
#include "runtime/data/dataset_format.hpp"
#include "runtime/data/label_names.hpp"
#include "runtime/data/sample_checks.hpp"
#include "runtime/posix/input_file.hpp"
#include "runtime/posix/read_counts.hpp"
#include "src/nn/transform.hpp"
#include "system_error.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

struct Free {
  void operator()(nifti_image* image) const { nifti_image_free(image); }
};
using Image = std::unique_ptr<nifti_image, Free>;

/// The name of a NIfTI file without its ending; empty for other names.
std::string stem_of(std::string_view name) {
  for (const std::string_view end : {".nii.gz", ".nii"})
    if (name.size() > end.size() && name.ends_with(end))
      return std::string(name.substr(0, name.size() - end.size()));
  return {};
}

/// True if a file of this stem holds labels: seg, case_seg and the like.
bool names_labels(const std::string& stem) {
  return std::any_of(kLabelWords.begin(), kLabelWords.end(), [&](const std::string& word) {
    return stem == word || stem.ends_with("_" + word);
  });
}

/// The stem of an image without the number of its channel, as nnU-Net writes it: case_0000.
std::string case_of(const std::string& stem) {
  constexpr std::string_view kFirst = "_0000";
  return stem.ends_with(kFirst) ? stem.substr(0, stem.size() - kFirst.size()) : stem;
}

/// The file `stem` in a directory, compressed or not; empty if there is none.
std::string find_file(const fs::path& in, const std::string& stem) {
  std::error_code ignored;
  std::string found;
  for (const char* const end : {".nii.gz", ".nii"}) {
    const fs::path path = in / (stem + end);
    if (!fs::exists(path, ignored)) {
      require_target(path);
      continue;
    }
    require(found.empty(), text("{} holds both {}.nii.gz and {}.nii", in.c_str(), stem, stem),
            "keep only the one of this data set in that folder");
    found = path.string();
  }
  return found;
}

/// The file in a case's directory: that of the usual name, or the only one whose name says that it
/// holds labels, or that it does not; empty if there is none.
std::string find_in_case(const fs::path& of_case, bool labels) {
  std::string found = find_file(of_case, labels ? "segmentation" : "imaging");
  if (!found.empty()) return found;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(of_case, code)) {
    const std::string stem = stem_of(entry.path().filename().string());
    if (stem.empty() || stem.front() == '.' || names_labels(stem) != labels) continue;
    require(
        found.empty(),
        text("{} holds several {}, {} and {}", of_case.c_str(), labels ? "segmentations" : "images",
             fs::path(found).filename().c_str(), entry.path().filename().c_str()),
        "a case is one image of one channel, with one segmentation");
    found = entry.path().string();
  }
  return found;
}

/// The labels of a case, or "".
std::string find_labels(const fs::path& of_case) {
  std::error_code ignored;
  if (fs::is_directory(of_case, ignored)) return find_in_case(of_case, true);
  const std::string name = case_of(stem_of(of_case.filename().string()));
  const std::string images = of_case.parent_path().filename().string();
  constexpr std::string_view kImages = "images";
  if (images.starts_with(kImages)) {
    const fs::path beside = of_case.parent_path().parent_path();
    return find_file(beside / ("labels" + images.substr(kImages.size())), name);
  }
  for (const char* const word : kLabelWords)
    if (std::string found = find_file(of_case.parent_path(), fmt::format("{}_{}", name, word));
        !found.empty())
      return found;
  return {};
}

/// The image or the labels of a case, which is a directory or the image itself.
std::string file_of(const fs::path& of_case, bool labels) {
  std::error_code ignored;
  const bool is_directory = fs::is_directory(of_case, ignored);
  if (!is_directory && !labels) return of_case.string();
  std::string found = labels ? find_labels(of_case) : find_in_case(of_case, false);
  if (!found.empty()) return found;
  const char* const stem = labels ? "segmentation" : "imaging";
  if (is_directory)
    throw Error(fmt::format("{} holds neither {}.nii.gz nor {}.nii", of_case.c_str(), stem, stem),
                "each case needs an image and, in a file such as segmentation.nii.gz or "
                "NAME_seg.nii.gz, its labels");
  const std::string name = case_of(stem_of(of_case.filename().string()));
  throw Error(fmt::format("{} has no segmentation", of_case.c_str()),
              fmt::format("name it {}_seg.nii.gz beside the image, or labelsTr/{}.nii.gz beside "
                          "imagesTr",
                          name, name));
}

/// Reads bytes of a file, inflated if it is compressed, from `offset` on; returns their number.
/// Throws ReadError, or Error for a damaged file.
std::int64_t read_bytes(const std::string& path, std::int64_t offset, std::span<std::byte> bytes) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;  // zlib counts in 32 bits
  const Descriptor file = open_input_file(path);
  const int own = ::fcntl(file.get(), F_DUPFD_CLOEXEC, 0);
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> stream(own < 0 ? nullptr : gzdopen(own, "rb"),
                                                          gzclose);
  if (stream == nullptr) throw read_error("open", path, errno);
  const auto check = [&](bool good) {
    int code = Z_OK;
    const int reason = errno;
    const char* const text = gzerror(stream.get(), &code);
    if (code == Z_ERRNO) throw read_error("read", path, reason);
    require(good || code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR,
            fmt::format("{}: damaged gzip stream: {}", path, text),
            "copy it again from the data set");
  };
  std::int64_t done = 0;
  if (gzseek(stream.get(), offset, SEEK_SET) < 0) check(false);
  while (done < std::ssize(bytes)) {
    const auto piece = static_cast<unsigned>(std::min(std::ssize(bytes) - done, kMost));
    const int got = gzread(stream.get(), bytes.data() + done, piece);
    check(got >= 0);
    if (got <= 0) break;
    done += got;
  }
  return done;
}

/// The type of the values of a file; empty for complex numbers, colours and the like.
std::optional<Hdf5Type> element_type(const nifti_image& image) {
  switch (image.datatype) {
    case DT_UINT8:
      return Hdf5Type::kUint8;
    case DT_INT8:
      return Hdf5Type::kInt8;
    case DT_UINT16:
      return Hdf5Type::kUint16;
    case DT_INT16:
      return Hdf5Type::kInt16;
    case DT_UINT32:
      return Hdf5Type::kUint32;
    case DT_INT32:
      return Hdf5Type::kInt32;
    case DT_UINT64:
      return Hdf5Type::kUint64;
    case DT_INT64:
      return Hdf5Type::kInt64;
    case DT_FLOAT32:
      return Hdf5Type::kFloat;
    case DT_FLOAT64:
      return Hdf5Type::kDouble;
    default:
      return std::nullopt;
  }
}

/// The header of a file; null if there is none. It is read here because the library does not
/// distinguish a failed read from a damaged file.
Image header_of(const std::string& path) {
  std::array<std::byte, sizeof(nifti_2_header)> head{};
  const std::int64_t bytes = read_bytes(path, 0, head);
  const auto parse = [&](auto header, auto convert) {
    constexpr auto kBehind = static_cast<std::int64_t>(sizeof header + sizeof(nifti1_extender));
    if (bytes < static_cast<std::int64_t>(sizeof header)) return Image();
    std::memcpy(&header, head.data(), sizeof header);
    Image image(convert(header, path.c_str()));
    // Some programs do not say where the values begin; the library then takes the first four bytes
    // behind the header for values.
    if (image != nullptr && header.vox_offset == 0) image->iname_offset = kBehind;
    require(image == nullptr || image->iname_offset >= kBehind,
            text("{}: the values begin within the header", path), "write the file again");
    return image;
  };
  switch (nifti_header_version(reinterpret_cast<const char*>(head.data()),  // NOLINT: bytes
                               static_cast<std::size_t>(bytes))) {
    case 1:
      return parse(nifti_1_header(), nifti_convert_n1hdr2nim);
    case 2:
      return parse(nifti_2_header(), nifti_convert_n2hdr2nim);
    default:
      return nullptr;
  }
}

/// Reads the header of a file. Throws Error unless it is a volume of one channel.
Image open_image(const std::string& path) {
  nifti_set_debug_level(0);  // errors are reported here instead
  Image image = header_of(path);
  require(image != nullptr, text("{} cannot be read: it is damaged or not a NIfTI file", path),
          "copy it again from the data set");
  require(image->nx > 0 && image->ny > 0 && image->nz > 0 &&
              image->nvox == image->nx * image->ny * image->nz,
          text("{} has {} values for {}x{}x{} voxels", path, image->nvox, image->nx, image->ny,
               image->nz),
          "a case must be one volume with one value per voxel");
  require(element_type(*image).has_value(),
          text("{} holds values of {}", path, nifti_datatype_string(image->datatype)),
          "use integers, float32 or float64");
  return image;
}

/// The values of a file as stored, in this machine's byte order. The library's own function would
/// silently turn values that are not finite into 0.
std::vector<std::byte> elements_of(const nifti_image& image, const std::string& path) {
  const CountedRead read;
  std::vector<std::byte> bytes(static_cast<std::size_t>(image.nvox * image.nbyper));
  require(read_bytes(path, image.iname_offset, bytes) == std::ssize(bytes),
          text("{} ends before its {} values", path, image.nvox),
          "copy it again from the data set");
  std::error_code ignored;  // the file has just been read
  read.count(static_cast<std::int64_t>(fs::file_size(path, ignored)));
  if (image.swapsize > 1 && image.byteorder != nifti_short_order())
    nifti_swap_Nbytes(image.nvox, image.swapsize, bytes.data());
  return bytes;
}

Spatial extents_of(const nifti_image& image) { return {image.nx, image.ny, image.nz}; }

/// The values in the order d,h,w; in a file, d varies fastest.
std::vector<double> values_of(const std::string& path) {
  const Image image = open_image(path);
  const std::vector<std::byte> elements = elements_of(*image, path);
  const bool scaled = image->scl_slope != 0;
  const double slope = scaled ? image->scl_slope : 1, shift = scaled ? image->scl_inter : 0;
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(image->nvox));
  with_type(*element_type(*image), [&](auto element) {
    using From = decltype(element);
    const auto* const from = reinterpret_cast<const From*>(elements.data());  // NOLINT: aligned
    for (std::int64_t d = 0; d < image->nx; ++d)
      for (std::int64_t h = 0; h < image->ny; ++h)
        for (std::int64_t w = 0; w < image->nz; ++w)
          values.push_back(slope * static_cast<double>(from[(w * image->ny + h) * image->nx + d]) +
                           shift);
  });
  return values;
}

Orientation orientation_in(const nifti_image& image) {
  Orientation found;
  found.qform_code = image.qform_code;
  found.sform_code = image.sform_code;
  for (std::size_t i = 0; i < found.qform.size(); ++i) {
    found.qform[i] = image.qto_xyz.m[i / 4][i % 4];
    if (found.sform_code > 0) found.sform[i] = image.sto_xyz.m[i / 4][i % 4];
  }
  return found;
}

/// The greatest distance in mm between equal voxels of two images of equal extents; 0 if it is less
/// than a hundredth of a voxel, because headers round; infinite if a header has NaN. Files without
/// codes give only the spacing.
double distance_between(const nifti_image& a, const nifti_image& b) {
  const auto is_placed = [](const nifti_image& image) {
    return image.sform_code > 0 || image.qform_code > 0;
  };
  VoxelTransform of_a = orientation_in(a).affine(), of_b = orientation_in(b).affine();
  if (!is_placed(a) || !is_placed(b)) {
    of_a = spacing_of(of_a);
    of_b = spacing_of(of_b);
  }
  double most = 0;
  for (unsigned corner = 0; corner < 8; ++corner) {
    const double point[4] = {(corner & 1U) != 0 ? static_cast<double>(a.nx - 1) : 0.0,
                             (corner & 2U) != 0 ? static_cast<double>(a.ny - 1) : 0.0,
                             (corner & 4U) != 0 ? static_cast<double>(a.nz - 1) : 0.0, 1};
    double apart[3] = {};
    for (std::size_t i = 0; i < of_a.size(); ++i)
      apart[i / 4] += (of_a[i] - of_b[i]) * point[i % 4];
    const double distance = std::hypot(apart[0], apart[1], apart[2]);
    if (!std::isfinite(distance)) return std::numeric_limits<double>::infinity();
    most = std::max(most, distance);
  }
  const double edge = std::min({std::abs(a.dx), std::abs(a.dy), std::abs(a.dz)});
  return most > 0.01 * edge ? most : 0;
}

class Cases final : public Dataset {
 public:
  Cases(const Comm& comm, DatasetFiles cases, const Shape& shape, const TargetSpec& targets)
      : Dataset(shape, targets, SampleFormat::field()),
        cases_(std::move(cases)),
        labels_(SampleFormat::labels(std::max<std::int64_t>(targets.classes, 1))) {
    const bool any_extents = shape.spatial() == Spatial{};
    require(shape.c == 1, text("samples of {} from NIfTI files, which have one channel", shape),
            text("use --input {}x{}x{}x1", shape.d, shape.h, shape.w));
    FileScan scanned(comm, cases_, [&](std::int64_t number) {
      const std::string path = file_of(cases_.path(number), false);
      const std::string stem = stem_of(fs::path(path).filename().string());
      require(case_of(stem) != stem || stem.size() < 5 || !is_channel(stem.substr(stem.size() - 5)),
              text("{} is a further channel of its case", path),
              "only one channel is read: keep the files that end in _0000");
      const Image image = open_image(path);
      const Spatial found = extents_of(*image);
      std::string of_labels;
      double apart = 0;
      if (has_labels()) {
        of_labels = file_of(cases_.path(number), true);
        const Image labels = open_image(of_labels);
        require(extents_of(*labels) == found,
                text("{} has other extents than its image", of_labels),
                "there must be a label for each voxel");
        apart = distance_between(*image, *labels);
      }
      // The directory's own time does not change when a file in it does.
      const auto changed = [](const std::string& file) -> std::int64_t {
        if (file.empty()) return 0;
        return fs::last_write_time(file).time_since_epoch().count();
      };
      return std::vector<std::int64_t>{found[0],           found[1],
                                       found[2],           changed(path),
                                       changed(of_labels), std::bit_cast<std::int64_t>(apart)};
    });
    identity_ = scanned.identity();
    Spatial largest{}, least{};
    std::uint64_t changes = 0;
    for (std::int64_t number = 0; number < cases_.size(); ++number) {
      Spatial& extents = extents_.emplace_back();
      for (std::size_t axis = 0; axis < 3; ++axis) {
        extents[axis] = scanned.take(number);
        largest[axis] = std::max(largest[axis], extents[axis]);
        least[axis] = number == 0 ? extents[axis] : std::min(least[axis], extents[axis]);
      }
      for (int file = 0; file < 2; ++file)
        changes = changes * 1099511628211U + static_cast<std::uint64_t>(scanned.take(number));
      const auto apart = std::bit_cast<double>(scanned.take(number));
      misplaced_ += apart > 0 ? 1 : 0;
      if (apart <= farthest_) continue;
      farthest_ = apart;
      farthest_case_ = number;
    }
    identity_ += fmt::format(", {:x}", changes);
    if (!any_extents) require_extents(shape, least, largest);
    resize(largest);
  }

  std::int64_t size() const override { return cases_.size(); }
  Shape shape_of(std::int64_t sample) const override {
    const Spatial& extents = extents_.at(static_cast<std::size_t>(sample));
    return {1, extents[0], extents[1], extents[2]};
  }
  std::string name(std::int64_t sample) const override {
    const std::string found(cases_.name(sample));
    const std::string stem = stem_of(found);
    return stem.empty() ? found : case_of(stem);
  }
  std::optional<Orientation> orientation_of(std::int64_t sample) const override {
    return orientation_in(*open_image(file_of(cases_.path(sample), false)));
  }
  std::string misplacement() const override {
    if (misplaced_ == 0) return {};
    const std::string what =
        std::isinf(farthest_)
            ? "image or segmentation has NaN where it places voxels"
            : fmt::format(
                  "segmentation places voxels up to {:.3g} mm from where that of its image "
                  "does",
                  farthest_);
    return fmt::format(
        "{}: the header of {}'s {}{}", directory().c_str(), name(farthest_case_), what,
        misplaced_ > 1 ? fmt::format("; {} of {} cases are such", misplaced_, size()) : "");
  }
  const fs::path& directory() const override { return cases_.directory(); }
  const DatasetFiles& files() const override { return cases_; }
  /// Covers the checksums of compressed files.
  std::uint64_t file_hash(std::int64_t number) const override {
    std::uint64_t hash = 0;
    for (const bool labels : {false, true}) {
      if (labels && !has_labels()) continue;
      const std::string path = file_of(cases_.path(number), labels);
      hash = hash * 1099511628211U + (path.ends_with(".gz") ? end_hash(path) : block_hash(path));
    }
    return hash;
  }
  const std::string& identity() const override { return identity_; }
  std::string advice() const override {
    return "NIfTI files are read whole by each rank: `halomesh convert --any-extents` makes an "
           "archive of them, which is read in blocks";
  }
  std::unique_ptr<SampleReader> reader() const override;

  /// The dense values or labels of a whole case.
  std::vector<std::byte> read(std::int64_t sample, bool labels) const {
    const std::string path = file_of(cases_.path(sample), labels);
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
  static bool is_channel(const std::string& end) {
    return end.front() == '_' &&
           std::all_of(end.begin() + 1, end.end(), [](char c) { return c >= '0' && c <= '9'; });
  }
  /// Throws Error unless all cases have the wanted extents.
  void require_extents(const Shape& wanted, const Spatial& least, const Spatial& largest) const {
    const auto differs = [&](const Spatial& extents) { return extents != wanted.spatial(); };
    const auto first = std::find_if(extents_.begin(), extents_.end(), differs);
    if (first == extents_.end()) return;
    const std::string path = file_of(cases_.path(first - extents_.begin()), false);
    require(least != largest,
            text("{} has {}x{}x{} voxels, expected {}x{}x{}", path, largest[0], largest[1],
                 largest[2], wanted.d, wanted.h, wanted.w),
            text("try --input {}x{}x{}x1", largest[0], largest[1], largest[2]));
    throw Error(
        fmt::format("{} has {}x{}x{} voxels, expected {}x{}x{}; cases have {} to {} along d, "
                    "{} to {} along h and {} to {} along w",
                    path, (*first)[0], (*first)[1], (*first)[2], wanted.d, wanted.h, wanted.w,
                    least[0], largest[0], least[1], largest[1], least[2], largest[2]),
        kUnequalExtentsCure);
  }

  DatasetFiles cases_;
  SampleFormat labels_;
  std::string identity_;
  std::vector<Spatial> extents_;
  std::int64_t misplaced_ = 0, farthest_case_ = 0;  // cases whose labels are not at their images
  double farthest_ = 0;                             // in mm
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
      .files =
          "SPLIT/CASE/ with imaging.nii.gz and segmentation.nii.gz, SPLIT/CASE.nii.gz with "
          "CASE_seg.nii.gz, or imagesTr/CASE_0000.nii.gz with labelsTr/CASE.nii.gz (NIfTI)",
      .targets = FormatTargets::kLabels,
      .has_name =
          [](std::string_view name, std::string_view) {
            const std::string stem = stem_of(name);
            return name.ends_with('/') || (!stem.empty() && !names_labels(stem));
          },
      .recognizes =
          [](const fs::path& first, const DataSource& source) {
            std::error_code ignored;
            return source.inputs.empty() &&
                   (!fs::is_directory(first, ignored) || !find_in_case(first, false).empty() ||
                    first.filename().string().starts_with("case_"));
          },
      .lacks_targets = [](const fs::path& first, const DataSource&,
                          const TargetSpec&) { return find_labels(first).empty(); },
      .values = [](const fs::path&, const DataSource&) { return SampleFormat::field(); },
      .open = [](const Comm& comm, DatasetFiles cases, const Shape& shape,
                 const TargetSpec& targets, const SampleFormat&,
                 const DataSource&) -> std::unique_ptr<const Dataset> {
        return std::make_unique<Cases>(comm, std::move(cases), shape, targets);
      }};
});

}  // namespace
}  // namespace halomesh
