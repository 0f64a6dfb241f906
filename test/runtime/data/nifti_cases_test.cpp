// SPDX-License-Identifier: Apache-2.0
// Cases of NIfTI files, written here byte by byte, as samples; and files that do not fit.
#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "test/harness/nifti_bytes.hpp"
#include "test/runtime/data/failing_samples.hpp"
#include "test/runtime/data/sample_files.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& bytes) {
  if (path.extension() != ".gz") return put_contents(path, bytes);
  gzFile file = gzopen(path.c_str(), "wb");
  REQUIRE(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) ==
          static_cast<int>(bytes.size()));
  REQUIRE(gzclose(file) == Z_OK);
}

std::int64_t place(const Spatial& n, std::int64_t d, std::int64_t h, std::int64_t w) {
  return (d * n[1] + h) * n[2] + w;
}
float value(std::int64_t sample, std::int64_t at) {
  return 0.5F * static_cast<float>((sample * 131 + at * 7) % 4001 - 1024) + 3;
}
std::uint8_t label(std::int64_t sample, std::int64_t at) {
  return static_cast<std::uint8_t>((sample + at * 5 / 3) % 3);
}

/// Case 0 of scaled int16, compressed; case 1 of float32.
const std::vector<Spatial> kExtents{{5, 7, 6}, {4, 9, 8}};

void write_cases(const fs::path& train) {
  for (std::int64_t i = 0; i < 2; ++i) {
    const Spatial& n = kExtents[static_cast<std::size_t>(i)];
    const fs::path of_case = train / fmt::format("case_{:05}", i);
    fs::create_directories(of_case);
    const std::string end = i == 0 ? ".nii.gz" : ".nii";
    const auto stored = [&](auto d, auto h, auto w) {
      return static_cast<std::int16_t>((i * 131 + place(n, d, h, w) * 7) % 4001 - 1024);
    };
    if (i == 0)
      write(of_case / ("imaging" + end), nifti_volume<std::int16_t>(n, 4, 0.5F, 3, stored));
    else
      write(of_case / ("imaging" + end),
            nifti_volume<float>(
                n, 16, 0, 0, [&](auto d, auto h, auto w) { return value(i, place(n, d, h, w)); }));
    write(of_case / ("segmentation" + end),
          nifti_volume<std::uint8_t>(
              n, 2, 0, 0, [&](auto d, auto h, auto w) { return label(i, place(n, d, h, w)); }));
  }
}

/// The labels of case 1 as values of another type.
template <class T>
void relabel(const fs::path& train, std::int16_t type) {
  const Spatial& n = kExtents[1];
  write(train / "case_00001" / "segmentation.nii",
        nifti_volume<T>(n, type, 0, 0, [&](auto d, auto h, auto w) {
          return static_cast<T>(label(1, place(n, d, h, w)));
        }));
}

/// Says in the header of an image of case 1 where its voxels are.
void place_voxels(const fs::path& train, const char* name, const VoxelTransform& affine) {
  const fs::path file = train / "case_00001" / name;
  std::string bytes = contents(file);
  bytes[254] = 1;  // sform_code
  for (std::size_t i = 0; i < affine.size(); ++i) {
    const auto value = static_cast<float>(affine[i]);
    std::memcpy(bytes.data() + 280 + 4 * i, &value, 4);
  }
  put_contents(file, bytes);
}

}  // namespace

TEST_CASE("NIfTI: cases of different extents are samples with labels") {
  const SharedDirectory directory;
  directory.fill(write_cases);
  const auto data = directory.open({1, 0, 0, 0}, TargetSpec::labels(3));
  REQUIRE(data->size() == 2);
  CHECK(data->shape() == Shape{1, 5, 9, 8});
  CHECK(data->name(1) == "case_00001");
  const auto reader = data->reader();
  std::int64_t wrong = 0, compared = 0;
  for (const std::int64_t sample : {0, 1, 0}) {
    const Spatial& n = kExtents[static_cast<std::size_t>(sample)];
    REQUIRE(data->shape_of(sample) == Shape{1, n[0], n[1], n[2]});
    const Box box{{0, 1, 2, 0}, {1, 4, 7, 5}};
    const Tensor values(box, 1), labels(box, 1, DataType::kUint8);
    reader->read(sample, values.any_view(), labels.any_view());
    for (std::int64_t d = 1; d < 4; ++d)
      for (std::int64_t h = 2; h < 7; ++h)
        for (std::int64_t w = 0; w < 5; ++w, ++compared) {
          wrong += values.view().at(0, 0, d, h, w) != value(sample, place(n, d, h, w));
          wrong += labels.any_view().as<std::uint8_t>().at(0, 0, d, h, w) !=
                   label(sample, place(n, d, h, w));
        }
    reader->stream(sample,
                   [&](std::int64_t offset, std::span<const std::byte> bytes) {
                     for (std::size_t i = 0; i < bytes.size(); i += 4, ++compared) {
                       float x = 0;
                       std::memcpy(&x, bytes.data() + i, 4);
                       wrong += x != value(sample, (offset + static_cast<std::int64_t>(i)) / 4);
                     }
                   },
                   {});
  }
  CHECK(compared == 3 * 75 + 2 * 210 + 288);
  CHECK(wrong == 0);
}

TEST_CASE("NIfTI: the affine is the header's, or the spacing alone") {
  const SharedDirectory directory;
  constexpr VoxelTransform kTilted{-0.75, 0.25, 0, 10, 0.25, 0.75, 0.125, -20, 0, 0, 3, 5.5};
  directory.fill([&](const fs::path& train) {
    write_cases(train);
    place_voxels(train, "imaging.nii", kTilted);
  });
  const auto data = directory.open({1, 0, 0, 0}, TargetSpec::labels(3));
  constexpr VoxelTransform kSpacing{3, 0, 0, 0, 0, 0.75, 0, 0, 0, 0, 0.75, 0};
  CHECK(data->orientation_of(0) == Orientation{{}, kSpacing, 0, 0});
  CHECK(data->orientation_of(0)->affine() == kSpacing);
  CHECK(data->orientation_of(1) == Orientation{kTilted, kSpacing, 1, 0});
  CHECK(data->orientation_of(1)->affine() == kTilted);
}

TEST_CASE("NIfTI: labels of every type of integer are read, and floats without fraction") {
  using Relabel = void (*)(const fs::path&, std::int16_t);
  const std::vector<std::pair<std::int16_t, Relabel>> types{
      {2, relabel<std::uint8_t>},    {256, relabel<std::int8_t>},    {4, relabel<std::int16_t>},
      {512, relabel<std::uint16_t>}, {8, relabel<std::int32_t>},     {768, relabel<std::uint32_t>},
      {1024, relabel<std::int64_t>}, {1280, relabel<std::uint64_t>}, {16, relabel<float>},
      {64, relabel<double>}};
  for (const auto& row : types) {
    const std::int16_t type = row.first;
    CAPTURE(type);
    const SharedDirectory directory;
    directory.fill([&](const fs::path& train) {
      write_cases(train);
      row.second(train, type);
    });
    const auto data = directory.open({1, 0, 0, 0}, TargetSpec::labels(3));
    std::int64_t at = 0, wrong = 0;
    data->reader()->stream_labels(1, [&](std::int64_t, std::span<const std::byte> bytes) {
      for (const std::byte b : bytes) wrong += std::to_integer<std::uint8_t>(b) != label(1, at++);
    });
    CHECK(at == 288);
    CHECK(wrong == 0);
  }
}

TEST_CASE("NIfTI: values of other types are refused before any sample is read") {
  for (const char* const name : {"imaging.nii", "segmentation.nii"})
    for (const auto& [type, bits] : {std::pair{32, 64}, std::pair{128, 24}}) {
      const SharedDirectory directory;
      directory.fill([&, of = name, as = type, wide = bits](const fs::path& train) {
        write_cases(train);
        write(train / "case_00001" / of,
              nifti_header(kExtents[1], static_cast<std::int16_t>(as),
                           static_cast<std::int16_t>(wide), 0, 0) +
                  std::string(static_cast<std::size_t>(288 * wide / 8), '\0'));
      });
      const std::string error = error_of([&] {
        directory.open({1, 0, 0, 0}, TargetSpec::labels(3));
      });
      CHECK(contains(error, fmt::format("case_00001/{} holds values of", name)));
      CHECK(contains(error, "use integers, float32 or float64"));
    }
}

TEST_CASE("NIfTI: labels that are not where their images are") {
  constexpr VoxelTransform kAt{-0.75, 0.25, 0, 10, 0.25, 0.75, 0.125, -20, 0, 0, 3, 5.5};
  const auto told = [&](const std::function<void(const fs::path&)>& spoil) {
    const SharedDirectory directory;
    directory.fill([&](const fs::path& train) {
      write_cases(train);
      spoil(train);
    });
    return directory.open({1, 0, 0, 0}, TargetSpec::labels(3))->misplacement();
  };
  CHECK(told([](const fs::path&) {}).empty());
  VoxelTransform near = kAt, far = kAt;
  near[3] += 0.002;
  far[3] += 30;
  far[7] -= 40;
  CHECK(told([&](const fs::path& train) {
          place_voxels(train, "imaging.nii", kAt);
          place_voxels(train, "segmentation.nii", near);
        }).empty());
  const std::string warning = told([&](const fs::path& train) {
    place_voxels(train, "imaging.nii", kAt);
    place_voxels(train, "segmentation.nii", far);
  });
  CHECK(contains(warning, "the header of case_00001's segmentation places voxels up to 50 mm"));
  // Another spacing, where the files say nothing else: 3 voxels of the first axis are 0.5 mm
  // longer.
  CHECK(contains(told([&](const fs::path& train) {
                   const fs::path file = train / "case_00001" / "segmentation.nii";
                   std::string bytes = contents(file);
                   const float wider = 3.5F;
                   std::memcpy(bytes.data() + 80, &wider, 4);
                   put_contents(file, bytes);
                 }),
                 "up to 1.5 mm"));
}

TEST_CASE("NIfTI: values begin where the header says, or behind it") {
  const auto opened = [](std::size_t at, const std::string& bytes) {
    auto directory = std::make_unique<SharedDirectory>();
    directory->fill([&](const fs::path& train) {
      write_cases(train);
      const fs::path file = train / "case_00001" / "imaging.nii";
      std::string all = contents(file);
      put_contents(file, all.replace(at, bytes.size(), bytes));
    });
    return directory;
  };
  const auto first_of = [](const SharedDirectory& directory) {
    const auto data = directory.open({1, 0, 0, 0}, TargetSpec::labels(3));
    const Tensor values({{0, 0, 0, 0}, {1, 1, 1, 1}}, 1);
    data->reader()->read(1, values.any_view(), {});
    return *values.view().data;
  };
  const auto problem = [&](std::size_t at, const std::string& bytes) {
    const auto directory = opened(at, bytes);
    return error_of([&] { first_of(*directory); });
  };
  const auto offset = [](float begin) {
    std::string bytes(4, '\0');
    std::memcpy(bytes.data(), &begin, 4);
    return bytes;
  };
  CHECK(first_of(*opened(108, offset(352))) == value(1, 0));
  CHECK(first_of(*opened(108, offset(0))) == value(1, 0));
  for (const float wrong : {-352.0F, 4.0F, 348.0F, 351.0F})
    CHECK(contains(problem(108, offset(wrong)), "imaging.nii: the values begin within the header"));
}

TEST_CASE("NIfTI: a failed read is told as such, compressed or not") {
  for (const std::string end : {".nii", ".nii.gz"})
    check_each_read("case_00000/", {1, 0, 0, 0}, TargetSpec::labels(2), [&](const fs::path& train) {
      fs::create_directories(train / "case_00000");
      for (const char* const name : {"imaging", "segmentation"})
        write(train / "case_00000" / (name + end),
              nifti_volume<std::uint8_t>({4, 5, 6}, 2, 0, 0,
                                         [](auto d, auto, auto) { return d % 2; }));
    });
}

TEST_CASE("NIfTI: what does not fit is said with the file") {
  const auto problem = [](const std::function<void(const fs::path&)>& spoil,
                          const Shape& shape = {1, 0, 0, 0}) {
    const SharedDirectory directory;
    directory.fill([&](const fs::path& train) {
      write_cases(train);
      spoil(train / "case_00001");
    });
    return error_of([&] {
      const auto data = directory.open(shape, TargetSpec::labels(3));
      const auto reader = data->reader();
      reader->stream(1, [](auto, auto) {}, {});
      reader->stream_labels(1, [](auto, auto) {});
    });
  };
  const Spatial& n = kExtents[1];
  const auto image = [&](const fs::path& of_case, float bad) {
    write(of_case / "imaging.nii", nifti_volume<float>(n, 16, 0, 0, [&](auto d, auto h, auto w) {
            return d == 3 && h == 2 && w == 1 ? bad : 0.0F;
          }));
  };
  CHECK(problem([](const fs::path&) {}).empty());
  CHECK(contains(problem([](const fs::path& of_case) {
                   const std::string bytes = contents(of_case / "imaging.nii");
                   put_contents(of_case / "imaging.nii", bytes.substr(0, bytes.size() - 1));
                 }),
                 "imaging.nii ends before its 288 values"));
  CHECK(contains(problem([](const fs::path&) {}, {1, 5, 7, 6}),
                 "case_00001/imaging.nii has 4x9x8 voxels, expected 5x7x6"));
  CHECK(contains(problem([](const fs::path&) {}, {2, 0, 0, 0}), "one channel"));
  CHECK(contains(problem([](const fs::path& of_case) { fs::remove(of_case / "segmentation.nii"); }),
                 "case_00001 holds neither segmentation.nii.gz nor segmentation.nii"));
  CHECK(contains(problem([](const fs::path& of_case) {
                   fs::copy(of_case / "imaging.nii", of_case / "imaging.nii.gz");
                 }),
                 "case_00001 holds both imaging.nii.gz and imaging.nii"));
  CHECK(contains(
      problem([](const fs::path& of_case) { put_contents(of_case / "imaging.nii", "junk"); }),
      "case_00001/imaging.nii cannot be read"));
  CHECK(contains(problem([&](const fs::path& of_case) {
                   image(of_case, std::numeric_limits<float>::quiet_NaN());
                 }),
                 "imaging.nii: voxel (d,h,w,c) = (3,2,1,0) is nan"));
  CHECK(contains(
      problem([&](const fs::path& of_case) {
        write(of_case / "segmentation.nii",
              nifti_volume<std::uint8_t>(n, 2, 0, 0, [](auto d, auto h, auto w) {
                return static_cast<std::uint8_t>(d == 1 && h == 8 && w == 7 ? 9 : 0);
              }));
      }),
      "segmentation.nii: label of voxel (d,h,w) = (1,8,7) is 9, expected a label of 0 to 2"));
  CHECK(contains(problem([&](const fs::path& of_case) {
                   write(of_case / "segmentation.nii",
                         nifti_volume<std::uint8_t>(
                             {4, 9, 7}, 2, 0, 0, [](auto, auto, auto) { return std::uint8_t{0}; }));
                 }),
                 "segmentation.nii has other extents than its image"));
  CHECK(contains(problem([&](const fs::path& of_case) {
                   write(of_case / "segmentation.nii",
                         nifti_volume<float>(n, 16, 0, 0, [](auto d, auto h, auto w) {
                           return d == 1 && h == 8 && w == 7 ? 0.9999999F : 0.0F;
                         }));
                 }),
                 "(1,8,7) is 0.9999999, which is not an integer, expected a label of 0 to 2"));
  CHECK(contains(problem([](const fs::path& of_case) {
                   fs::remove(of_case / "imaging.nii");
                   fs::create_symlink("../gone.nii", of_case / "imaging.nii");
                 }),
                 "case_00001/imaging.nii is a link to ../gone.nii, which does not exist"));
}

}  // namespace halomesh
