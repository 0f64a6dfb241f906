// SPDX-License-Identifier: Apache-2.0
// Samples given by a formula, directories of them that all ranks see, and their comparison.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/example.hpp"
#include "runtime/data/open_dataset.hpp"
#include "test/harness/temp_files.hpp"
#include "test/harness/test_comm.hpp"

namespace halomesh {

inline const Shape kShape{2, 3, 4, 5};
inline constexpr std::int64_t kTargets = 3;

inline std::int16_t voxel(std::int64_t sample, std::int64_t at) {
  return static_cast<std::int16_t>((sample * 131 + at * 7) % 9000);
}
inline float target(std::int64_t sample, std::int64_t t) {
  return static_cast<float>(sample * 10 + t);
}

inline std::string sample_payload(std::int64_t sample, const Shape& shape = kShape,
                                  std::int64_t targets = kTargets) {
  std::vector<std::int16_t> x;
  std::vector<float> y;
  for (std::int64_t at = 0; at < shape.volume(); ++at) x.push_back(voxel(sample, at));
  for (std::int64_t t = 0; t < targets; ++t) y.push_back(target(sample, t));
  return encode_example(x, y);
}

/// A data set in a directory that rank 0 makes and all ranks see; collective.
class SharedDirectory {
 public:
  SharedDirectory() {
    if (test_world().rank() == 0) own_.emplace();
    path_ = test_world().broadcast(own_ ? own_->path().string() : "", 0);
  }
  SharedDirectory(const SharedDirectory&) = delete;
  SharedDirectory& operator=(const SharedDirectory&) = delete;
  ~SharedDirectory() { test_world().barrier(); }

  /// Runs `work` with the path of train/ on rank 0 while the others wait.
  void fill(const std::function<void(const std::filesystem::path&)>& work) const {
    if (own_) {
      std::filesystem::create_directories(path_ / "train");
      work(path_ / "train");
    }
    test_world().barrier();
  }
  std::unique_ptr<const Dataset> open(const Shape& shape = kShape,
                                      const TargetSpec& targets = kTargets) const {
    return open_dataset(test_world(), path_, "train", shape, targets);
  }
  /// The message of open(), which must be the same on every rank.
  std::string open_error(const Shape& shape = kShape) const {
    const std::string error = error_of([&] { open(shape); });
    for (const std::string& other : test_world().all_gather(error)) CHECK(other == error);
    return error;
  }

 private:
  std::optional<TempDirectory> own_;
  std::filesystem::path path_;
};

/// The counts of a sample that is read in pieces, which must be dense and in order.
inline std::vector<std::int16_t> streamed(SampleReader& reader, std::int64_t sample,
                                          std::span<float> targets) {
  std::string bytes;
  reader.stream(
      sample,
      [&](std::int64_t offset, std::span<const std::byte> piece) {
        CHECK(offset == std::ssize(bytes));
        bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      },
      scalars(targets));
  std::vector<std::int16_t> counts(bytes.size() / 2);
  std::memcpy(counts.data(), bytes.data(), 2 * counts.size());
  return counts;
}

/// Reads blocks of every sample and compares them with the formula.
inline std::int64_t compare_all(const Dataset& dataset, bool backwards) {
  const std::vector<Box> boxes = {Box::whole(kShape),
                                  {{0, 1, 0, 0}, {2, 3, 4, 5}},
                                  {{0, 1, 2, 1}, {2, 2, 4, 4}},
                                  {{1, 0, 0, 0}, {2, 3, 4, 5}}};
  const auto reader = dataset.reader();
  std::int64_t compared = 0;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const std::int64_t sample = backwards ? dataset.size() - 1 - i : i;
    for (const Box& box : boxes) {
      const Tensor logs(box, 1), counts(box, 1, DataType::kInt16);
      std::vector<float> y(kTargets);
      reader->read(sample, counts.any_view(), scalars(y));
      reader->read(sample, logs.any_view(), scalars(y));
      const float* const dst = logs.view().data;
      const std::int16_t* const stored = counts.any_view().as<std::int16_t>().data;
      std::size_t at = 0;
      for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
        for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h)
          for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w)
            for (std::int64_t c = box.lo[kC]; c < box.hi[kC]; ++c, ++compared) {
              const std::int64_t index = ((d * kShape.h + h) * kShape.w + w) * kShape.c + c;
              CHECK(stored[at] == voxel(sample, index));
              CHECK(dst[at++] == static_cast<float>(std::log1p(1.0 * voxel(sample, index))));
            }
      for (std::size_t t = 0; t < y.size(); ++t)
        CHECK(y[t] == target(sample, static_cast<std::int64_t>(t)));
    }
    reader->read(sample, {}, {});
    reader->expect((sample + 1) % dataset.size());
    std::vector<float> y(kTargets);
    const std::vector<std::int16_t> whole = streamed(*reader, sample, y);
    CHECK(std::ssize(whole) == kShape.volume());
    for (std::size_t at = 0; at < whole.size(); ++at)
      CHECK(whole[at] == voxel(sample, static_cast<std::int64_t>(at)));
    CHECK(y[1] == target(sample, 1));
  }
  return compared;
}

}  // namespace halomesh
