// SPDX-License-Identifier: Apache-2.0
// Batches of the loader, with readers that generate their samples.
#include "runtime/load/direct_loader.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "error.hpp"
#include "test/harness/patience.hpp"

namespace halomesh {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// Sample s has the voxels 100 s, 100 s + 1, ... and the targets -s, -s - 1, ...
class CountingReader final : public SampleReader {
 public:
  explicit CountingReader(std::function<void(std::int64_t)> before = {})
      : before_(std::move(before)) {}
  void read(std::int64_t sample, AnyView dst, AnyView targets) override {
    if (before_) before_(sample);
    const View block = dst.as<float>();
    for (std::int64_t i = 0; i < block.sample_volume(); ++i)
      block.data[i] = static_cast<float>(100 * sample) + static_cast<float>(i);
    for (std::int64_t i = 0; i < targets.span.extent(kC); ++i)
      targets.as<float>().data[i] = static_cast<float>(-sample) - static_cast<float>(i);
  }

 private:
  std::function<void(std::int64_t)> before_;
};

const Box kBox{{0, 1, 0, 0}, {2, 3, 2, 3}};  // 24 voxels

BatchSpec spec(const Box& box, std::int64_t targets, std::int64_t local_batch) {
  return {{2, 4, 4, 4}, box, Box::whole({targets, 1, 1, 1}), local_batch, DataType::kFloat32, 0};
}

/// These samples, untransformed, for one replica.
BatchSchedule schedule(const std::vector<std::int64_t>& samples, std::int64_t steps,
                       std::int64_t local_batch) {
  BatchSchedule all{steps, 1, local_batch, {}};
  for (const std::int64_t sample : samples) all.uses.push_back({sample, {}});
  return all;
}

/// Checks a batch's numbers against the formula; returns how many were compared.
std::int64_t compare(const Batch& batch, const std::vector<std::int64_t>& samples,
                     std::size_t volume, std::size_t targets) {
  CHECK(std::vector<std::int64_t>(batch.samples.begin(), batch.samples.end()) == samples);
  CHECK(batch.count == static_cast<std::int64_t>(samples.size()));
  REQUIRE(static_cast<std::size_t>(batch.data.batch * batch.data.span.volume()) ==
          samples.size() * volume);
  const float* const data = batch.data.as<float>().data;
  REQUIRE(static_cast<std::size_t>(batch.targets.batch * batch.targets.span.volume()) ==
          samples.size() * targets);
  std::int64_t compared = 0;
  for (std::size_t s = 0; s < samples.size(); ++s) {
    const auto id = static_cast<float>(samples[s]);
    for (std::size_t i = 0; i < volume; ++i, ++compared)
      CHECK(data[s * volume + i] == 100 * id + static_cast<float>(i));
    for (std::size_t i = 0; i < targets; ++i, ++compared)
      CHECK(batch.targets.as<float>().data[s * targets + i] == -id - static_cast<float>(i));
  }
  return compared;
}

TEST_CASE("loader: full, ragged and empty steps, over epochs") {
  DirectLoader loader(std::make_unique<CountingReader>(), spec(kBox, 3, 2));
  loader.append(schedule({5, 1, 9}, 3, 2));
  CHECK(loader.steps_left() == 3);
  CHECK(compare(loader.next(), {5, 1}, 24, 3) == 54);
  loader.append(schedule({4, 7}, 1, 2));
  CHECK(compare(loader.next(), {9}, 24, 3) == 27);
  CHECK(compare(loader.next(), {}, 24, 3) == 0);
  CHECK(loader.steps_left() == 1);
  const Batch& last = loader.next();
  CHECK(compare(last, {4, 7}, 24, 3) == 54);
  CHECK(reinterpret_cast<std::uintptr_t>(last.data.data) % 64 == 0);
  CHECK_THROWS_AS(loader.next(), Error);
  CHECK_THROWS_AS(loader.append(schedule({1, 2, 3}, 1, 3)), Error);
  loader.append(schedule({}, 0, 2));
  loader.append(schedule({8}, 1, 2));
  CHECK(compare(loader.next(), {8}, 24, 3) == 27);
}

TEST_CASE("loader: a batch stays unchanged until the following next(), over many steps") {
  std::vector<std::int64_t> samples(400);
  for (std::size_t i = 0; i < samples.size(); ++i)
    samples[i] = static_cast<std::int64_t>(i * 7 % 50);
  DirectLoader loader(std::make_unique<CountingReader>(), spec(kBox, 1, 4));
  loader.append(schedule(samples, 100, 4));
  std::int64_t compared = 0;
  for (std::size_t step = 0; step < 100; ++step) {
    const Batch& batch = loader.next();
    if (step % 10 == 0) std::this_thread::sleep_for(milliseconds(1));  // time to overwrite it
    const auto begin = samples.begin() + static_cast<std::ptrdiff_t>(4 * step);
    compared += compare(batch, {begin, begin + 4}, 24, 1);
  }
  CHECK(compared == 100 * 4 * 25);
}

TEST_CASE("loader: reads one step ahead of the batch in use, no further") {
  std::atomic<int> reads = 0;
  DirectLoader loader(std::make_unique<CountingReader>([&](std::int64_t) { ++reads; }),
                      spec(kBox, 1, 2));
  loader.append(schedule(std::vector<std::int64_t>(20, 3), 10, 2));
  for (int step = 1; step <= 8; ++step) {
    loader.next();
    CHECK(test::wait_until(10, [&] { return reads >= 2 * (step + 1); }));
    std::this_thread::sleep_for(milliseconds(2));
    CHECK(reads == 2 * (step + 1));
  }
}

TEST_CASE("loader: an empty block reads targets only, and nothing without targets") {
  std::atomic<int> reads = 0;
  const auto count = [&](std::int64_t) { ++reads; };
  {
    DirectLoader loader(std::make_unique<CountingReader>(count), spec(Box{}, 2, 2));
    loader.append(schedule({6, 7}, 1, 2));
    CHECK(compare(loader.next(), {6, 7}, 0, 2) == 4);
    CHECK(reads == 2);
  }
  DirectLoader loader(std::make_unique<CountingReader>(count), spec(Box{}, 0, 2));
  loader.append(schedule({6, 7}, 1, 2));
  CHECK(compare(loader.next(), {6, 7}, 0, 0) == 0);
  CHECK(reads == 2);
}

/// Every voxel of every sample is a count that encodes its position.
class PlaceReader final : public SampleReader {
 public:
  static std::int16_t count(std::int64_t sample, std::int64_t c, const Spatial& at) {
    return static_cast<std::int16_t>(sample * 512 + ((at[0] * 4 + at[1]) * 4 + at[2]) * 2 + c);
  }
  void read(std::int64_t sample, AnyView dst, AnyView targets) override {
    for (std::int64_t d = dst.span.lo[kD]; d < dst.span.hi[kD]; ++d)
      for (std::int64_t h = dst.span.lo[kH]; h < dst.span.hi[kH]; ++h)
        for (std::int64_t w = dst.span.lo[kW]; w < dst.span.hi[kW]; ++w)
          for (std::int64_t c = 0; c < 2; ++c)
            dst.as<std::int16_t>().at(0, c, d, h, w) = count(sample, c, {d, h, w});
    if (!targets.span.empty()) targets.as<float>().data[0] = static_cast<float>(sample);
  }
};

TEST_CASE("loader: blocks of transformed samples are read from their source boxes") {
  const Shape shape{2, 4, 4, 4};
  BatchSchedule transformed{48, 2, 1, {}};
  for (const Symmetry& symmetry : symmetries_of(shape)) {
    transformed.uses.push_back({0, {}});  // of replica 0
    transformed.uses.push_back({7, symmetry});
  }
  DirectLoader loader(std::make_unique<PlaceReader>(),
                      {shape, kBox, Box::whole({1, 1, 1, 1}), 1, DataType::kInt16, 1});
  loader.append(transformed);
  std::int64_t compared = 0;
  for (const Symmetry& symmetry : symmetries_of(shape)) {
    const Batch& batch = loader.next();
    CHECK(batch.targets.as<float>().data[0] == 7);
    for (std::int64_t d = kBox.lo[kD]; d < kBox.hi[kD]; ++d)
      for (std::int64_t h = kBox.lo[kH]; h < kBox.hi[kH]; ++h)
        for (std::int64_t w = kBox.lo[kW]; w < kBox.hi[kW]; ++w)
          for (std::int64_t c = 0; c < 2; ++c, ++compared) {
            const Box from =
                symmetry.source_of({{c, d, h, w}, {c + 1, d + 1, h + 1, w + 1}}, shape);
            CHECK(batch.data.as<std::int16_t>().at(0, c, d, h, w) ==
                  PlaceReader::count(7, c, {from.lo[kD], from.lo[kH], from.lo[kW]}));
          }
  }
  CHECK(compared == 48 * 24);
}

TEST_CASE("loader: next() throws what reading threw, after the good batches") {
  DirectLoader loader(std::make_unique<CountingReader>([](std::int64_t sample) {
                        if (sample == 13) throw Error("sample 13 is bad", "throw it away");
                      }),
                      spec(kBox, 1, 1));
  loader.append(schedule({11, 12, 13, 14}, 4, 1));
  CHECK(compare(loader.next(), {11}, 24, 1) == 25);
  CHECK(compare(loader.next(), {12}, 24, 1) == 25);
  for (int again = 0; again < 2; ++again) {
    try {
      loader.next();
      FAIL("a bad sample was handed out");
    } catch (const Error& error) {
      CHECK(std::string(error.what()) == "sample 13 is bad");
      CHECK(error.hint() == "throw it away");
    }
  }
}

TEST_CASE("loader: ends promptly in the middle of an epoch, and counts its waits") {
  std::atomic<int> reads = 0;
  const auto slow = [&](std::int64_t) {
    ++reads;
    std::this_thread::sleep_for(milliseconds(150));
  };
  double waited = 0;
  {
    DirectLoader loader(std::make_unique<CountingReader>(slow), spec(kBox, 1, 250));
    loader.append(schedule(std::vector<std::int64_t>(5000, 1), 20, 250));
    while (reads == 0) std::this_thread::yield();
  }
  CHECK(reads < 250);  // one batch of twenty
  // A batch takes two reads of 0.15 s, less what has been read between append() and next(): on a
  // busy machine, now and then all of it.
  CHECK(test::wait_until(60, [&] {
    DirectLoader loader(std::make_unique<CountingReader>(slow), spec(kBox, 1, 2));
    CHECK(loader.input_wait_seconds() == 0);
    const auto start = steady_clock::now();
    loader.append(schedule({1, 2}, 1, 2));
    loader.next();
    waited = loader.input_wait_seconds();
    CHECK(waited <= std::chrono::duration<double>(steady_clock::now() - start).count());
    return waited > 0.05;
  }));
  const DirectLoader unused(std::make_unique<CountingReader>(), spec(kBox, 1, 1));
}

/// Labels that encode their position, on a grid of half the extents.
class LabelReader final : public SampleReader {
 public:
  static std::uint8_t label(std::int64_t sample, const Spatial& at) {
    return static_cast<std::uint8_t>(100 * sample + (at[0] * 2 + at[1]) * 2 + at[2]);
  }
  void read(std::int64_t sample, AnyView dst, AnyView targets) override {
    PlaceReader().read(sample, dst, {});
    const Box& box = targets.span;
    for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
      for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h)
        for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w)
          targets.as<std::uint8_t>().at(0, 0, d, h, w) = label(sample, {d, h, w});
  }
};

TEST_CASE("loader: fields of labels are transformed as their samples are, in blocks of their own") {
  const Shape shape{2, 4, 4, 4}, field{1, 2, 2, 2};
  const Box box{{0, 1, 0, 0}, {1, 2, 2, 2}};
  BatchSchedule schedule{48, 1, 2, {}};
  for (const Symmetry& symmetry : symmetries_of(shape)) {
    schedule.uses.push_back({0, {}});
    schedule.uses.push_back({1, symmetry});
  }
  // A part without a block of the input may own labels.
  for (const Box& block : {kBox, Box{}}) {
    DirectLoader loader(std::make_unique<LabelReader>(),
                        {shape, block, box, 2, DataType::kInt16, 0, field, DataType::kUint8});
    loader.append(schedule);
    std::int64_t compared = 0;
    for (const Symmetry& symmetry : symmetries_of(shape)) {
      const Batch& batch = loader.next();
      REQUIRE(batch.targets.span == box);
      REQUIRE(batch.targets.batch == 2);
      const auto labels = batch.targets.as<std::uint8_t>();
      for (std::int64_t h = 0; h < 2; ++h)
        for (std::int64_t w = 0; w < 2; ++w, ++compared) {
          const Box from = symmetry.source_of({{0, 1, h, w}, {1, 2, h + 1, w + 1}}, field);
          CHECK(labels.at(0, 0, 1, h, w) == LabelReader::label(0, {1, h, w}));
          CHECK(labels.at(1, 0, 1, h, w) ==
                LabelReader::label(1, {from.lo[kD], from.lo[kH], from.lo[kW]}));
        }
    }
    CHECK(compared == 48 * 4);
  }
}

}  // namespace
}  // namespace halomesh
