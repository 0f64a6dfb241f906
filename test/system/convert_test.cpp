// SPDX-License-Identifier: Apache-2.0
// Archives made by the program: the same on any ranks, and of every kind of data.
#include <doctest/doctest.h>
#include <hdf5.h>

#include "test/system/conversion.hpp"
#include "test/system/curve.hpp"

namespace halomesh::test {
namespace {

/// The voxels and then the targets in a file of an archive.
std::vector<float> read_samples(const fs::path& path) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  REQUIRE(file >= 0);
  std::vector<float> values;
  for (const char* name : {"/x", "/y"}) {
    const hid_t id = H5Dopen2(file, name, H5P_DEFAULT), space = H5Dget_space(id);
    std::vector<float> more(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
    REQUIRE(H5Dread(id, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, more.data()) >= 0);
    values.insert(values.end(), more.begin(), more.end());
    H5Sclose(space);
    H5Dclose(id);
  }
  H5Fclose(file);
  return values;
}

/// Writes a dataset of the values of a file in the layout of the published universes.
template <class T>
void write_dataset(hid_t file, const char* name, hid_t stored, hid_t type,
                   const std::vector<hsize_t>& extents, const std::vector<T>& values) {
  const hid_t space = H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr);
  const hid_t id = H5Dcreate2(file, name, stored, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  REQUIRE(H5Dwrite(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
  H5Dclose(id);
  H5Sclose(space);
}

}  // namespace

TEST_CASE("convert: any ranks, and a copy of the data, give the same bytes and curves") {
  const Scene direct;
  const fs::path copy = workshop().fresh("copy");
  fs::copy(direct.data, copy, fs::copy_options::recursive);
  std::map<std::string, std::string> first;
  for (const int ranks : {1, 2, 4}) {
    const fs::path to = workshop().fresh("archive");
    Arguments options = conversion(ranks == 4 ? copy : direct.data, to);
    options["verify"] = "";
    const Outcome outcome = run(ranks, "convert", options);
    CAPTURE(outcome.text);
    REQUIRE(outcome.exit_code == 0);
    CHECK(outcome.text.find(
              "train: 8 samples of 32x32x32x4 in 3 files, verified against the source") !=
          std::string::npos);
    if (first.empty()) first = files_of(to);
    CHECK(first.size() == 6);  // 3 and 2 of samples, and dataset.json
    CHECK(files_of(to) == first);
  }
  Scene archived;
  archived.data = workshop().fresh("archive");
  REQUIRE(run(2, "convert", conversion(direct.data, archived.data)).exit_code == 0);
  REQUIRE(direct.train().exit_code == 0);
  REQUIRE(archived.train().exit_code == 0);
  check_same_curve(direct.out, archived.out);
  check_same_weights(checkpoints(direct.out).back(), checkpoints(archived.out).back());
}

TEST_CASE("convert: an archive of an archive, and an uncompressed one, have the same content") {
  const fs::path data = data_set(32, 8, 4);
  const fs::path once = workshop().fresh("archive"), plain = workshop().fresh("archive"),
                 twice = workshop().fresh("archive");
  REQUIRE(run(0, "convert", conversion(data, once)).exit_code == 0);
  Arguments options = conversion(once, plain);
  options.insert({{"codec", "none"}, {"verify", ""}, {"split", "train"}});
  REQUIRE(run(2, "convert", options).exit_code == 0);
  CHECK(files_of(plain).size() == 4);
  CHECK(fs::file_size(plain / "train-00000.h5") > fs::file_size(once / "train-00000.h5"));
  options = conversion(plain, twice);
  options.insert({{"verify", ""}});
  REQUIRE(run(2, "convert", options).exit_code == 0);
  CHECK(files_of(twice).size() == 4);
}

TEST_CASE("synth: an archive has the content of the TFRecord files, on any number of ranks") {
  std::map<std::string, std::string> first;
  for (const int ranks : {0, 2}) {
    const fs::path out = workshop().fresh("archive");
    const Arguments options{{"format", "archive"},
                            {"extent", "16"},
                            {"train", "21"},
                            {"validation", "3"},
                            {"universe-boxes", "2"}};
    Arguments all = options;
    all["out"] = out.string();
    REQUIRE(run(ranks, "synth", all).exit_code == 0);
    all = options;
    all["out"] = workshop().fresh("data").string();
    all["format"] = "tfrecord";
    REQUIRE(run(2, "synth", all).exit_code == 0);
    const auto files = files_of(out);
    CHECK(files.size() == 5);  // 8 + 8 + 5 and 3 samples, and dataset.json
    if (first.empty()) first = files;
    CHECK(files == first);
    // Both converted to another archive with the same files differ only by their source.
    const fs::path a = workshop().fresh("archive"), b = workshop().fresh("archive");
    for (const auto& [from, to] : {std::pair{out.string(), a}, {all["out"], b}}) {
      const Outcome outcome = run(2, "convert",
                                  {{"from", from},
                                   {"to", to.string()},
                                   {"input", "16x16x16x4"},
                                   {"codec", "none"},
                                   {"verify", ""}});
      CAPTURE(outcome.text);
      REQUIRE(outcome.exit_code == 0);
    }
    CHECK(read_samples(a / "train-00000.h5") == read_samples(b / "train-00000.h5"));
    CHECK(read_samples(a / "validation-00000.h5") == read_samples(b / "validation-00000.h5"));
    CHECK(read_samples(a / "train-00000.h5").size() == (21 * 16 * 16 * 16 * 4 + 21 * 4));
  }
}

TEST_CASE("synth: volumes and climate images are the same on any number of ranks") {
  for (const std::string kind : {"volumes", "climate"}) {
    std::map<std::string, std::string> first;
    for (const int ranks : {0, 3}) {
      const fs::path out = workshop().fresh("data");
      const Outcome outcome = run(ranks, "synth",
                                  {{"kind", kind},
                                   {"out", out.string()},
                                   {"input", kind == "volumes" ? "20x24x28x1" : "40x1x60x16"},
                                   {"train", "11"},
                                   {"validation", "2"}});
      CAPTURE(outcome.text);
      REQUIRE(outcome.exit_code == 0);
      std::map<std::string, std::string> files;
      for (const fs::path& directory : {out, out / "train", out / "validation"})
        for (const auto& [name, text] : files_of(directory))
          files[(directory / name).lexically_relative(out)] = text;
      CHECK(files.size() == (kind == "volumes" ? 4 : 2 + 11 + 2));
      if (first.empty()) first = files;
      CHECK(files == first);
    }
  }
}

TEST_CASE("convert: climate images become an archive, and an archive of it has the same samples") {
  const fs::path from = workshop().fresh("data"), once = workshop().fresh("archive"),
                 twice = workshop().fresh("archive");
  REQUIRE(run(0, "synth",
              {{"kind", "climate"},
               {"out", from.string()},
               {"input", "40x1x60x16"},
               {"train", "5"},
               {"validation", "2"}})
              .exit_code == 0);
  const auto convert = [](int ranks, const fs::path& a, const fs::path& b) {
    return run(ranks, "convert",
               {{"from", a.string()},
                {"to", b.string()},
                {"input", "40x1x60x16"},
                {"classes", "3"},
                {"samples-per-file", "3"},
                {"verify", ""}});
  };
  for (const auto& [a, b] : {std::pair{from, once}, {once, twice}}) {
    const Outcome outcome = convert(2, a, b);
    CAPTURE(outcome.text);
    REQUIRE(outcome.exit_code == 0);
    CHECK(outcome.text.find("train: 5 samples of 40x1x60x16 in 2 files, verified against") !=
          std::string::npos);
  }
  fs::remove(from / "stats.h5");
  const Outcome outcome = convert(1, from, workshop().fresh("archive"));
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.text.find("stats.h5 is missing") != std::string::npos);
}

TEST_CASE("convert: universes are cut in the published order, or kept whole") {
  constexpr std::size_t kSide = 32, kBox = kSide / 4, kChannels = 4;
  const fs::path from = workshop().fresh("universes");
  fs::create_directories(from / "train");
  std::vector<std::int16_t> voxels(kSide * kSide * kSide * kChannels);
  for (std::size_t i = 0; i < voxels.size(); ++i)
    voxels[i] = static_cast<std::int16_t>(i * 2654435761U % 30011);
  const std::vector<float> targets{0.25F, -0.5F, 0.75F, -1.0F};
  const hid_t file = H5Fcreate((from / "train" / "universe.hdf5").c_str(), H5F_ACC_TRUNC,
                               H5P_DEFAULT, H5P_DEFAULT);
  write_dataset(file, "full", H5T_STD_I16LE, H5T_NATIVE_SHORT, {kSide, kSide, kSide, kChannels},
                voxels);
  write_dataset(file, "unitPar", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {4}, targets);
  H5Fclose(file);
  for (const bool whole : {true, false}) {
    CAPTURE(whole);
    const fs::path to = workshop().fresh("archive");
    Arguments options{{"from", from.string()}, {"to", to.string()}, {"input", "8x8x8x4"},
                      {"split", "train"},      {"verify", ""},      {"samples-per-file", "64"}};
    if (whole) options["whole"] = "";
    const Outcome outcome = run(2, "convert", options);
    CAPTURE(outcome.text);
    REQUIRE(outcome.exit_code == 0);
    CHECK(outcome.text.find(whole ? "train: 1 sample of 32x32x32x4"
                                  : "train: 64 samples of 8x8x8x4") != std::string::npos);
    const std::vector<float> found = read_samples(to / "train-00000.h5");
    const std::size_t samples = whole ? 1 : 64;
    REQUIRE(found.size() == voxels.size() + samples * targets.size());
    std::size_t at = 0, wrong = 0;
    const std::size_t cuts = whole ? 1 : 4, side = whole ? kSide : kBox;
    for (std::size_t box = 0; box < samples; ++box)
      for (std::size_t d = 0; d < side; ++d)
        for (std::size_t h = 0; h < side; ++h)
          for (std::size_t w = 0; w < side; ++w)
            for (std::size_t c = 0; c < kChannels; ++c) {
              const std::size_t row =
                  (box / cuts / cuts * side + d) * kSide + box / cuts % cuts * side + h;
              const std::size_t pixel = row * kSide + box % cuts * side + w;
              wrong += found[at++] != static_cast<float>(voxels[pixel * kChannels + c]) ? 1 : 0;
            }
    CHECK(at == voxels.size());
    CHECK(wrong == 0);
    for (; at < found.size(); ++at)
      CHECK(found[at] == targets[(at - voxels.size()) % targets.size()]);
  }
}

}  // namespace halomesh::test
