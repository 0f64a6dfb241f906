// SPDX-License-Identifier: Apache-2.0
// Images of fp32 with labels for their voxels: archives and the DeepCAM benchmark's files, whole
// and in blocks; what is wrong with them.
#include <doctest/doctest.h>
#include <hdf5.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "runtime/data/archive.hpp"
#include "runtime/data/crop_reader.hpp"
#include "runtime/data/hdf5_kind.hpp"
#include "src/nn/transform.hpp"
#include "test/runtime/data/sample_files.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kClasses = 3;
// Several chunks along each axis, the last ones cut short.
const Shape kVolume{2, 19, 17, 70};
// 2-D: rows, one plane, columns.
const Shape kImage{3, 21, 1, 30};

float value(std::int64_t sample, std::int64_t at) {
  return 0.25F * static_cast<float>((sample * 131 + at * 7) % 9001) - 700.0F;
}
std::uint8_t label(std::int64_t sample, std::int64_t at) {
  return static_cast<std::uint8_t>((sample + at * 5 / 3) % kClasses);
}
std::vector<float> values_of(std::int64_t sample, const Shape& shape) {
  std::vector<float> values;
  for (std::int64_t at = 0; at < shape.volume(); ++at) values.push_back(value(sample, at));
  return values;
}
template <class T = std::uint8_t>
std::vector<T> labels_of(std::int64_t sample, const Shape& shape) {
  std::vector<T> labels;
  for (std::int64_t at = 0; at < shape.volume() / shape.c; ++at)
    labels.push_back(static_cast<T>(label(sample, at)));
  return labels;
}

ArchiveFile content(std::int64_t samples) {
  ArchiveFile content{samples, 0, samples, kVolume, 0, 4, "a formula"};
  content.values = SampleFormat::Kind::kField;
  content.classes = kClasses;
  return content;
}

/// An archive of these samples; `change` may make some of them wrong.
using Change = std::function<void(std::vector<float>&, std::vector<std::uint8_t>&)>;
void write_volumes(const fs::path& directory, std::int64_t samples, const Change& change = {}) {
  ArchiveWriter writer(directory / archive_name("train", 0), content(samples));
  for (std::int64_t i = 0; i < samples; ++i) {
    std::vector<float> values = values_of(i, kVolume);
    std::vector<std::uint8_t> labels = labels_of(i, kVolume);
    if (change && i == samples - 1) change(values, labels);
    writer.write(std::as_bytes(std::span(values)), std::span<const std::uint8_t>(labels));
  }
  writer.commit();
}

std::vector<ChannelRange> ranges_of(std::int64_t channels) {
  std::vector<ChannelRange> ranges;
  for (std::int64_t c = 0; c < channels; ++c)
    ranges.push_back({static_cast<float>(-700 - c), static_cast<float>(1500 + 10 * c)});
  return ranges;
}
void write_stats(const fs::path& directory, std::int64_t channels, bool with_maxima = true) {
  std::vector<float> least, most;
  for (const ChannelRange& range : ranges_of(channels)) {
    least.push_back(range.min);
    most.push_back(range.max);
  }
  Hdf5File file = Hdf5File::create(directory / "stats.h5");
  file.create_dataset("climate/minval", Hdf5Type::kFloat, {channels});
  file.write<float>("climate/minval", Slab::whole({channels}), least);
  if (with_maxima) {
    file.create_dataset("climate/maxval", Hdf5Type::kFloat, {channels});
    file.write<float>("climate/maxval", Slab::whole({channels}), most);
  }
  file.close();
}
template <class T>
void write_image(const fs::path& path, const std::vector<float>& values,
                 const std::vector<T>& labels, const Shape& shape, const Extents& label_extents) {
  Hdf5File file = Hdf5File::create(path);
  const Extents extents{shape.d, shape.w, shape.c};
  file.create_dataset("climate/data", Hdf5Type::kFloat, extents);
  file.write<float>("climate/data", Slab::whole(extents), values);
  file.create_dataset("climate/labels_0", hdf5_type<T>(), label_extents);
  file.write<T>("climate/labels_0", Slab::whole(label_extents), labels);
  file.close();
}
template <class T>
void write_images(const fs::path& train, std::int64_t samples, const Shape& shape = kImage) {
  write_stats(train.parent_path(), shape.c);
  for (std::int64_t i = 0; i < samples; ++i)
    write_image<T>(train / fmt::format("data-{}.h5", i), values_of(i, shape),
                   labels_of<T>(i, shape), shape, {shape.d, shape.w});
}

std::unique_ptr<const Dataset> open(const SharedDirectory& directory, const Shape& shape,
                                    const TargetSpec& targets = TargetSpec::labels(kClasses)) {
  return directory.open(shape, targets);
}

std::vector<std::byte> gathered(const std::function<void(const VoxelSink&)>& stream) {
  std::vector<std::byte> bytes;
  stream([&](std::int64_t offset, std::span<const std::byte> piece) {
    CHECK(offset == std::ssize(bytes));
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
  return bytes;
}

/// Compares blocks, slabs and streams of every sample with the formula; returns how many values.
std::int64_t compare(const Dataset& data, const std::vector<ChannelRange>& ranges) {
  const Shape s = data.shape();
  REQUIRE(data.format().type() == DataType::kFloat32);
  REQUIRE(data.target_shape() == Shape{1, s.d, s.h, s.w});
  const auto expected = [&](std::int64_t sample, std::int64_t at) {
    const float x = value(sample, at);
    if (ranges.empty()) return x;
    const ChannelRange& range = ranges[static_cast<std::size_t>(at % s.c)];
    return 1.0F / (range.max - range.min) * (x - range.min);
  };
  const std::vector<Box> boxes = {Box::whole(s),
                                  {{0, 0, 0, 0}, {s.c, s.d / 2, s.h, s.w / 3}},
                                  {{0, s.d / 2 - 1, 0, s.w / 3 - 2}, {s.c, s.d, s.h, s.w}},
                                  {{1, 3, 0, s.w / 2 - 1}, {2, 4, s.h, s.w}},
                                  {{0, s.d - 1, s.h - 1, s.w - 1}, {1, s.d, s.h, s.w}}};
  const auto reader = data.reader();
  std::int64_t compared = 0, wrong = 0;
  for (std::int64_t sample = 0; sample < data.size(); ++sample) {
    for (const Box& box : boxes) {
      Box field = box;
      field.lo[kC] = 0;
      field.hi[kC] = 1;
      const Tensor values(box, 1), slabs(box, 1), labels(field, 1, DataType::kUint8);
      reader->read(sample, values.any_view(), labels.any_view());
      reader->read_slabs(sample, box,
                         [&](AnyConstView slab) {
                           std::copy_n(slab.as<float>().data, slab.span.volume(),
                                       slabs.view().begin_of(0, slab.span));
                         },
                         {});
      for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
        for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h)
          for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w) {
            const std::int64_t pixel = (d * s.h + h) * s.w + w;
            wrong += labels.any_view().as<std::uint8_t>().at(0, 0, d, h, w) != label(sample, pixel);
            for (std::int64_t c = box.lo[kC]; c < box.hi[kC]; ++c, ++compared)
              wrong += values.view().at(0, c, d, h, w) != expected(sample, pixel * s.c + c) ||
                       slabs.view().at(0, c, d, h, w) != expected(sample, pixel * s.c + c);
          }
    }
    const std::vector<std::byte> all =
        gathered([&](const VoxelSink& sink) { reader->stream(sample, sink, {}); });
    REQUIRE(std::ssize(all) == 4 * s.volume());
    for (std::int64_t at = 0; at < s.volume(); ++at, ++compared) {
      float x = 0;
      std::memcpy(&x, all.data() + 4 * at, sizeof x);
      wrong += x != expected(sample, at);
    }
    const std::vector<std::byte> labels =
        gathered([&](const VoxelSink& sink) { reader->stream_labels(sample, sink); });
    const std::vector<std::uint8_t> right = labels_of(sample, s);
    CHECK(std::equal(labels.begin(), labels.end(), std::as_bytes(std::span(right)).begin(),
                     std::as_bytes(std::span(right)).end()));
  }
  CHECK(wrong == 0);
  return compared;
}

TEST_CASE("fields: an archive of volumes with labels, whole and in blocks") {
  const SharedDirectory directory;
  directory.fill([](const fs::path& train) { write_volumes(train.parent_path(), 3); });
  const auto data = open(directory, kVolume);
  CHECK(data->size() == 3);
  CHECK(data->classes() == kClasses);
  CHECK(compare(*data, {}) > 6 * kVolume.volume());
}

template <class T>
void check_images() {
  const SharedDirectory directory;
  directory.fill([](const fs::path& train) { write_images<T>(train, 3); });
  CHECK(compare(*open(directory, kImage), ranges_of(kImage.c)) > 6 * kImage.volume());
}

TEST_CASE("fields: climate images with labels of several types, normalized by stats.h5") {
  check_images<std::uint8_t>();
  check_images<std::int32_t>();
  check_images<std::int64_t>();
  check_images<float>();
}

/// Stores the labels of an image again as values of `type`; `values` are those labels in memory.
template <class T>
void store_labels_as(hid_t type, const fs::path& path, const std::vector<T>& values) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  REQUIRE(H5Ldelete(file, "/climate/labels_0", H5P_DEFAULT) >= 0);
  const std::array<hsize_t, 2> extents{21, 30};  // of kImage
  const hid_t space = H5Screate_simple(2, extents.data(), nullptr);
  const hid_t labels =
      H5Dcreate2(file, "/climate/labels_0", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  REQUIRE(H5Dwrite(labels, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
  H5Dclose(labels);
  H5Sclose(space);
  REQUIRE(H5Fclose(file) >= 0);
}

/// An enumeration of integers of `base`, in which each label has a name.
hid_t enumeration(hid_t base) {
  const hid_t type = H5Tenum_create(base);
  for (int c = 0; c < kClasses; ++c) {
    int value = c;
    REQUIRE(H5Tconvert(H5T_NATIVE_INT, base, 1, &value, nullptr, H5P_DEFAULT) >= 0);
    REQUIRE(H5Tenum_insert(type, fmt::format("class {}", c).c_str(), &value) >= 0);
  }
  return type;
}

TEST_CASE("fields: labels that are enumerations, as booleans of h5py are, are read as integers") {
  for (const hid_t base :
       {H5T_STD_I8LE, H5T_STD_I8BE, H5T_STD_U8LE, H5T_STD_I32LE, H5T_STD_I32BE}) {
    const SharedDirectory directory;
    directory.fill([&](const fs::path& train) {
      write_images<std::uint8_t>(train, 3);
      for (std::int64_t i = 0; i < 3; ++i) {
        const hid_t type = enumeration(base);
        std::vector<std::int32_t> values = labels_of<std::int32_t>(i, kImage);
        REQUIRE(H5Tconvert(H5T_NATIVE_INT32, base, values.size(), values.data(), nullptr,
                           H5P_DEFAULT) >= 0);
        store_labels_as(type, train / fmt::format("data-{}.h5", i), values);
        H5Tclose(type);
      }
    });
    CHECK(compare(*open(directory, kImage), ranges_of(kImage.c)) > 6 * kImage.volume());
  }
}

TEST_CASE("fields: labels of a type that is not read are found when the data set is opened") {
  const auto problem = [](hid_t type) {
    const SharedDirectory directory;
    directory.fill([&](const fs::path& train) {
      write_images<std::uint8_t>(train, 2);
      store_labels_as(type, train / "data-1.h5", labels_of<std::int64_t>(1, kImage));
    });
    return error_of([&] { open(directory, kImage); });
  };
  const auto holds = [](const char* what) {
    return fmt::format("data-1.h5: /climate/labels_0 holds {}, expected integers", what);
  };
  CHECK(contains(problem(H5T_NATIVE_B8), holds("bit fields of 8")));
  CHECK(contains(problem(H5T_C_S1), holds("string")));
  const hid_t pairs = H5Tcreate(H5T_COMPOUND, 2);
  H5Tinsert(pairs, "a", 0, H5T_NATIVE_INT8);
  H5Tinsert(pairs, "b", 1, H5T_NATIVE_INT8);
  CHECK(contains(problem(pairs), holds("compound values")));
  H5Tclose(pairs);
}

/// The message of the first error in opening an archive and reading its last sample.
std::string problem_with(const Change& change, const Box& box = Box::whole(kVolume)) {
  const SharedDirectory directory;
  directory.fill([&](const fs::path& train) { write_volumes(train.parent_path(), 2, change); });
  const auto data = open(directory, kVolume);
  const auto reader = data->reader();
  const Tensor values(box, 1), labels(Box::whole(data->target_shape()), 1, DataType::kUint8);
  reader->read(0, values.any_view(), labels.any_view());
  const std::string read = error_of([&] { reader->read(1, values.any_view(), labels.any_view()); });
  const std::string streamed = error_of([&] {
    reader->stream(1, [](auto, auto) {}, {});
    reader->stream_labels(1, [](auto, auto) {});
  });
  CHECK(streamed == read);
  return read;
}

TEST_CASE("fields: NaN and labels without a class are errors that say where") {
  const auto at = [](std::int64_t d, std::int64_t h, std::int64_t w) {
    return static_cast<std::size_t>((d * kVolume.h + h) * kVolume.w + w);
  };
  const std::string nan = problem_with([&](auto& values, auto&) {
    values[2 * at(10, 3, 69) + 1] = std::numeric_limits<float>::quiet_NaN();
  });
  CHECK(contains(nan,
                 "train-00000.h5: sample 1: voxel (d,h,w,c) = (10,3,69,1) is nan, expected a "
                 "finite number"));
  const std::string bad =
      problem_with([&](auto&, auto& labels) { labels[at(9, 16, 5)] = kClasses; });
  CHECK(contains(bad,
                 "train-00000.h5: sample 1: label of voxel (d,h,w) = (9,16,5) is 3, expected a "
                 "label of 0 to 2"));
}

TEST_CASE("fields: data and network must agree on targets, classes and extents") {
  const SharedDirectory directory;
  directory.fill([](const fs::path& train) { write_volumes(train.parent_path(), 1); });
  const auto error = [&](const Shape& shape, const TargetSpec& targets) {
    return error_of([&] { open(directory, shape, targets); });
  };
  CHECK(contains(error(kVolume, 4), "holds samples with labels, the network is trained for 4"));
  CHECK(contains(error(kVolume, TargetSpec::labels(2)), "labels of 3 classes, expected 2 at most"));
  CHECK(contains(error({1, 19, 17, 70}, TargetSpec::labels(3)),
                 "/x of 1x19x17x70x2, expected 1x19x17x70x1"));
  const SharedDirectory counts;
  counts.fill([](const fs::path& train) {
    ArchiveWriter writer(train.parent_path() / archive_name("train", 0),
                         {1, 0, 1, kShape, 1, 4, "a formula"});
    writer.write(std::vector<std::int16_t>(static_cast<std::size_t>(kShape.volume())),
                 std::vector<float>(1));
    writer.commit();
  });
  CHECK(contains(error_of([&] { open(counts, kShape); }), "without labels"));
}

TEST_CASE("fields: images of different extents, and crops of them") {
  const std::vector<Shape> shapes{{3, 21, 1, 30}, {3, 18, 1, 44}, {3, 5, 1, 26}};
  const SharedDirectory directory;
  directory.fill([&](const fs::path& train) {
    write_stats(train.parent_path(), 3);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const auto sample = static_cast<std::int64_t>(i);
      write_image(train / fmt::format("data-{}.h5", i), values_of(sample, shapes[i]),
                  labels_of(sample, shapes[i]), shapes[i], {shapes[i].d, shapes[i].w});
    }
  });
  const auto data = open(directory, {3, 0, 0, 0});
  REQUIRE(data->size() == 3);
  CHECK(data->shape() == Shape{3, 21, 1, 44});
  CHECK(data->target_shape() == Shape{1, 21, 1, 44});
  const std::vector<ChannelRange> ranges = ranges_of(3);
  CropReader reader(data->reader(), -7);
  const Box box{{0, 3, 0, 2}, {3, 12, 1, 20}}, field{{0, 3, 0, 2}, {1, 12, 1, 20}};
  const Tensor values(box, 1), slabs(box, 1), labels(field, 1, DataType::kUint8);
  std::int64_t compared = 0, wrong = 0, beyond = 0;
  for (std::int64_t sample = 0; sample < 3; ++sample)
    for (const Spatial& origin : {Spatial{0, 0, 0}, {6, 0, 8}, {-4, 0, 20}, {-30, 0, 0}}) {
      const Shape& s = shapes[static_cast<std::size_t>(sample)];
      CHECK(data->shape_of(sample) == s);
      const CropReader::Crop crop{sample, s, origin};
      reader.read(crop, values.any_view(), labels.any_view());
      reader.pad(slabs.any_view());
      reader.read_slabs(crop, box,
                        [&](AnyConstView slab) {
                          transform(slab, slab.span, {}, {3, 30, 1, 30}, slabs.any_view());
                        },
                        {});
      for (std::int64_t d = 3; d < 12; ++d)
        for (std::int64_t w = 2; w < 20; ++w) {
          const std::int64_t row = d + origin[0], column = w + origin[2];
          const bool inside = row >= 0 && row < s.d && column >= 0 && column < s.w;
          beyond += inside ? 0 : 1;
          const std::int64_t pixel = row * s.w + column;
          wrong += labels.any_view().as<std::uint8_t>().at(0, 0, d, 0, w) !=
                   (inside ? label(sample, pixel) : 255);
          for (std::int64_t c = 0; c < 3; ++c, ++compared) {
            const ChannelRange& range = ranges[static_cast<std::size_t>(c)];
            const float x =
                inside ? 1.0F / (range.max - range.min) * (value(sample, pixel * 3 + c) - range.min)
                       : -7;
            wrong += values.view().at(0, c, d, 0, w) != x || slabs.view().at(0, c, d, 0, w) != x;
          }
        }
    }
  CHECK(wrong == 0);
  CHECK(compared == 3 * 4 * 9 * 18 * 3);
  CHECK(beyond > 500);
}

TEST_CASE("fields: a flipped bit in an archive's labels is found") {
  const SharedDirectory directory;
  directory.fill([](const fs::path& train) {
    write_volumes(train.parent_path(), 1);
    const fs::path path = train.parent_path() / archive_name("train", 0);
    std::string bytes = contents(path);
    for (std::size_t i = bytes.size() / 2; i < bytes.size() / 2 + 4000; i += 7)
      bytes[i] = static_cast<char>(bytes[i] ^ 16);
    put_contents(path, bytes);
  });
  CHECK(!error_of([&] {
           const auto data = open(directory, kVolume);
           const auto reader = data->reader();
           reader->stream(0, [](auto, auto) {}, {});
           reader->stream_labels(0, [](auto, auto) {});
         }).empty());
}

TEST_CASE("fields: climate files that lack something, or have other extents") {
  const auto problem = [](const std::function<void(const fs::path&)>& make,
                          const Shape& shape = kImage) {
    const SharedDirectory directory;
    directory.fill(make);
    return error_of([&] { open(directory, shape); });
  };
  const auto labels = [](const Shape& s) { return labels_of(0, s); };
  const auto without_stats = [&](const fs::path& train) {
    write_images<std::uint8_t>(train, 1);
    fs::remove(train.parent_path() / "stats.h5");
  };
  CHECK(contains(problem(without_stats), "stats.h5 is missing"));
  const auto without_maxima = [&](const fs::path& train) {
    write_images<std::uint8_t>(train, 1);
    write_stats(train.parent_path(), kImage.c, false);
  };
  CHECK(contains(problem(without_maxima), "stats.h5 has no dataset climate/maxval"));
  const auto images = [](const fs::path& train) { write_images<std::uint8_t>(train, 1); };
  CHECK(contains(problem(images, {4, 21, 1, 30}), "ranges of 3 channels, samples are 21x1x30x4"));
  CHECK(contains(problem(images, {3, 21, 2, 30}), "expected 21x30x3 as samples of 1 along h"));
  CHECK(contains(problem(images, {3, 20, 1, 30}), "/climate/data of 21x30x3, expected 20x30x3"));
  const auto other_channels = [&](const fs::path& train) {
    write_images<std::uint8_t>(train, 1, {4, 21, 1, 30});
    write_stats(train.parent_path(), kImage.c);
  };
  CHECK(contains(problem(other_channels), "/climate/data of 21x30x4, expected 21x30x3"));
  const auto short_labels = [&](const fs::path& train) {
    write_stats(train.parent_path(), kImage.c);
    write_image(train / "data-0.h5", values_of(0, kImage), labels({3, 20, 1, 30}), kImage,
                {20, 30});
  };
  CHECK(contains(problem(short_labels), "/climate/labels_0 of 20x30, expected 21x30"));
}

}  // namespace
}  // namespace halomesh
