// SPDX-License-Identifier: Apache-2.0
// What the fuzz targets share: one file in a directory of its own, read as a whole data set.
// Knows nothing of formats.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "error.hpp"
#include "runtime/data/open_dataset.hpp"
#include "runtime/mpi/mpi.hpp"

namespace halomesh::fuzz {

/// The samples that inputs are taken for; the seeds in corpus/ hold such.
inline const Shape kShape{2, 3, 4, 5};
inline constexpr std::int64_t kTargets = 3;

/// A directory in memory that goes with the process.
class Scratch {
 public:
  Scratch() { std::filesystem::create_directories(path_ / "train"); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  /// Puts a file of this name there and reads every sample of the split `train` in each way that
  /// loaders and staging do: two types and blocks, in layers, and as a stream. That this throws
  /// Error is fine: anything else is what is looked for.
  void read(const std::string& name, std::span<const std::uint8_t> bytes) {
    std::ofstream(path_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
    attempt([&] {
      const auto dataset = open_dataset(session_.world(), path_, "train", kShape, kTargets);
      const auto reader = dataset->reader();
      for (std::int64_t sample = 0; sample < dataset->size(); ++sample) read(*reader, sample);
    });
  }

 private:
  template <class Work>
  static void attempt(const Work& work) {
    try {
      work();
    } catch (const Error&) {  // a bad file was told: as it should be
    }
  }
  static void read(SampleReader& reader, std::int64_t sample) {
    std::vector<float> targets(kTargets);
    for (const Box& box : {Box::whole(kShape), Box{{1, 0, 2, 1}, {2, 2, 4, 4}}}) {
      for (const DataType type : {DataType::kInt16, DataType::kFloat32}) {
        const Tensor block(box, 1, type);
        attempt([&] { reader.read(sample, block.any_view(), targets); });
      }
      attempt([&] {
        reader.read_slabs(
            sample, box, [](const auto&) {}, targets);
      });
    }
    attempt([&] {
      reader.stream(
          sample, [](std::int64_t, std::span<const std::byte>) {}, targets);
    });
  }

  std::filesystem::path path_ =
      std::filesystem::path("/dev/shm") / ("halomesh-fuzz-" + std::to_string(::getpid()));
  MpiSession session_{nullptr, nullptr};
};

inline Scratch& scratch() {
  static Scratch directory;
  return directory;
}

}  // namespace halomesh::fuzz
