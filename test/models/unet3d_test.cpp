// SPDX-License-Identifier: Apache-2.0
// The 3-D U-Net: parameters, levels and invalid options.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "error.hpp"
#include "models/registry.hpp"

namespace halomesh {
namespace {

using Change = std::function<void(NetworkSettings&)>;

const Network& unet() { return network_named("unet3d"); }

NetworkSettings settings_with(const Change& change) {
  NetworkSettings settings = unet().defaults();
  change(settings);
  return settings;
}

void use_lbann(NetworkSettings& settings) {
  settings.values["levels"] = std::int64_t{4};
  settings.values["most-filters"] = std::int64_t{512};
  settings.values["down"] = std::string("pool");
  settings.values["batch-norm"] = std::int64_t{1};
}

ModelGeometry geometry_of(const NetworkSettings& settings, const PartGrid& grid = {1, 1, 1}) {
  return unet().make(settings).geometry(grid);
}

Shape shape_of(const ModelGeometry& geometry, const std::string& layer) {
  const auto found = std::find_if(geometry.tensors().begin(), geometry.tensors().end(),
                                  [&](const TensorGeometry& t) { return t.name == layer; });
  REQUIRE(found != geometry.tensors().end());
  return found->shape;
}

std::string refused(const Change& change) {
  try {
    unet().make(settings_with(change));
  } catch (const UsageError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "";
}

void expect_refused(const Change& change, const std::string& text) {
  const std::string message = refused(change);
  CAPTURE(message);
  CAPTURE(text);
  CHECK(message.find(text) != std::string::npos);
}

}  // namespace

TEST_CASE("unet3d: that of MLPerf Training has 31,190,243 parameters in 78 tensors") {
  const ModelGeometry geometry = geometry_of(unet().defaults());
  CHECK(geometry.parameter_count() == 31190243);
  CHECK(geometry.parameters().size() == 78);
  CHECK(shape_of(geometry, "down1_norm2") == Shape{32, 128, 128, 128});
  CHECK(shape_of(geometry, "down6_norm2") == Shape{320, 4, 4, 4});
  CHECK(shape_of(geometry, "up5_concat") == Shape{640, 8, 8, 8});
  CHECK(shape_of(geometry, "up1_concat") == Shape{64, 128, 128, 128});
  CHECK(geometry.tensors().back().shape == Shape{3, 128, 128, 128});
}

TEST_CASE("unet3d: axes of extent 1, as images have, stay as they are") {
  for (const char* const down : {"stride", "pool"}) {
    const ModelGeometry geometry = geometry_of(settings_with([&](NetworkSettings& settings) {
      settings.input = {16, 96, 1, 144};
      settings.values["down"] = std::string(down);
      settings.values["levels"] = std::int64_t{4};
    }));
    CHECK(shape_of(geometry, "down4_norm2").spatial() == Spatial{12, 1, 18});
    CHECK(geometry.tensors().back().shape == Shape{3, 96, 1, 144});
  }
  expect_refused(
      [](NetworkSettings& settings) {
        settings.input = {16, 97, 1, 144};
      },
      "96x1x128x16");
  expect_refused(
      [](NetworkSettings& settings) {
        settings.input = {16, 32, 1, 32};
      },
      "leaves one voxel");
}

TEST_CASE("unet3d: LBANN's has 19,070,560 parameters, and moving averages beside them") {
  const ModelGeometry geometry = geometry_of(settings_with(use_lbann));
  CHECK(geometry.parameter_count() == 19070560);
  CHECK(shape_of(geometry, "down4_norm2") == Shape{512, 16, 16, 16});
  CHECK(shape_of(geometry, "up3_concat") == Shape{768, 32, 32, 32});
  CHECK(shape_of(geometry, "up1_concat") == Shape{192, 128, 128, 128});
  // A mean and a variance for each of 2,336 channels.
  std::int64_t averages = 0;
  for (const ParameterPlacement& p : geometry.parameters())
    if (p.geometry.moving_average > 0) averages += p.geometry.volume();
  CHECK(averages == 2 * 2336);
}

TEST_CASE("unet3d: multiply-adds are those of its convolutions") {
  const Model model = unet().make(unet().defaults());
  const ModelGeometry geometry = model.geometry({1, 1, 1});
  double convolutions = 0, all = 0;
  for (std::size_t l = 0; l < model.layers().size(); ++l) {
    const ModelLayer& entry = model.layers()[l];
    const auto flops =
        static_cast<double>(entry.layer->forward_flops(geometry.layers()[l].src_shapes));
    all += flops;
    if (entry.name.find("conv") != std::string::npos || entry.name == "head" ||
        entry.name.find("larger") != std::string::npos)
      convolutions += flops;
  }
  // Counted apart, for a volume of 128^3: 477.3 billion multiply-adds.
  CHECK(convolutions * 0.5e-9 == doctest::Approx(477.3).epsilon(1e-3));
  CHECK(all < 1.02 * convolutions);
}

TEST_CASE("unet3d: labels are cut like the output, and all parts have work") {
  const ModelGeometry geometry = geometry_of(unet().defaults(), {2, 2, 1});
  const auto loss = unet().make_loss(unet().defaults(), geometry.tensors().back().shape);
  CHECK(loss->target_shape() == Shape{1, 128, 128, 128});
  std::int64_t voxels = 0;
  for (std::int64_t part = 0; part < 4; ++part) {
    const Box& owned = geometry.tensors().back().owned[static_cast<std::size_t>(part)];
    voxels += loss->target_box(owned).volume();
  }
  CHECK(voxels == 128 * 128 * 128);
}

TEST_CASE("unet3d: extents that levels cannot halve are refused with those that they can") {
  const auto input = [](const Shape& shape) {
    return [shape](NetworkSettings& s) { s.input = shape; };
  };
  expect_refused(input({1, 100, 128, 96}), "--input 100x128x96x1 cannot be halved 5 times");
  expect_refused(input({1, 100, 128, 96}), "--input 96x128x96x1 or 128x128x96x1");
  expect_refused(input({1, 16, 128, 96}), "--input 32x128x96x1, or fewer --levels");
  for (const std::int64_t batch_norm : {0, 1}) {
    const auto change = [&](NetworkSettings& s) {
      s.input = {1, 32, 32, 32};
      s.values["batch-norm"] = batch_norm;
    };
    expect_refused(change, "leaves one voxel on the lowest of 6 levels");
  }
  CHECK(refused(input({1, 64, 32, 32})).empty());
  CHECK(refused(input({4, 96, 160, 224})).empty());
  CHECK(refused([](NetworkSettings& s) {
          use_lbann(s);
          s.values["batch-norm"] = std::int64_t{2};
          s.input = {1, 8, 8, 8};
        }).empty());
}

TEST_CASE("unet3d: what it has no kernels for is refused by name") {
  expect_refused([](auto& s) { s.reproducible = true; }, "--reproducible");
  expect_refused([](auto& s) { s.values["filters"] = std::int64_t{400}; },
                 "--filters 400 is more than --most-filters 320");
  expect_refused([](auto& s) { s.input = {1, 65536, 65536, 65536}; }, "elements");
}

TEST_CASE("unet3d: in bf16 all tensors are, but for fields, statistics and logits") {
  constexpr DataType kFp32 = DataType::kFloat32, kBf16 = DataType::kBfloat16;
  for (const bool lbann : {false, true}) {
    const auto settings = settings_with([&](auto& s) {
      if (lbann) use_lbann(s);
      s.values["batch-norm"] = std::int64_t{lbann ? 2 : 0};
      s.precision = kBf16;
    });
    const Model model = unet().make(settings);
    const std::vector<DataType> types = model.types();
    CHECK(types.front() == kFp32);
    CHECK(types.back() == kFp32);
    std::size_t statistics = 0;
    for (std::size_t t = 1; t + 1 < types.size(); ++t) {
      const std::string& name = model.layers()[t - 1].name;
      const bool is_statistic =
          name.find("moments") != std::string::npos || name.find("mean") != std::string::npos;
      statistics += is_statistic ? 1 : 0;
      CHECK_MESSAGE(types[t] == (is_statistic ? DataType::kFloat64 : kBf16), name);
    }
    CHECK(statistics > 10);
  }
}

TEST_CASE("unet3d: between layers cut by channels norms and poolings are, and gather nothing") {
  const Model model = unet().make(settings_with([](auto& s) {
    use_lbann(s);
    s.values["levels"] = std::int64_t{5};
  }));
  const ModelGeometry geometry = model.geometry({4, 4, 1});
  const std::int64_t blocks_of_moments = 8 * 1024;  // bytes: fewer than of any voxel's plane
  int poolings = 0, norms = 0, transposed = 0;
  for (std::size_t l = 0; l < geometry.layers().size(); ++l) {
    const std::string& name = geometry.layers()[l].name;
    const LayerChoice& choice = geometry.cuts()[l];
    const std::size_t src = model.layers()[l].inputs[0];
    if (src == 0 || geometry.cuts()[src - 1].cut.groups == 1) continue;
    CAPTURE(name);
    if (name.find("pool") != std::string::npos) {
      ++poolings;
      CHECK(choice.bytes.exchanged == 0);
    }
    if (name.find("norm") != std::string::npos) {
      ++norms;
      CHECK(choice.cut == geometry.cuts()[src - 1].cut);
      CHECK(choice.bytes.exchanged <= blocks_of_moments);
    }
    if (name.find("larger") != std::string::npos) transposed += choice.cut.groups > 1 ? 1 : 0;
  }
  CHECK(poolings > 0);
  CHECK(norms > 4);
  CHECK(transposed > 0);
}

TEST_CASE("unet3d: --loss chooses the shares of Dice and cross entropy") {
  const Shape output{3, 2, 2, 2};
  struct Row {
    const char* kind;
    bool reads_sums;
  };
  for (const Row& row : {Row{"dice+ce", true}, {"ce", false}, {"dice", true}}) {
    CAPTURE(row.kind);
    const auto settings = settings_with([&](auto& s) { s.values["loss"] = std::string(row.kind); });
    CHECK(unet().make_loss(settings, output)->gradient_reads_sums() == row.reads_sums);
  }
}

}  // namespace halomesh
