// SPDX-License-Identifier: Apache-2.0
// Instance, group and batch normalization as a network on any mesh equal textbook loops over whole
// samples: output, gradient of the input, gradients of weight and bias; also where means are a
// thousand times the standard deviation.
//
// Bounds, with u = 2^-24. Means are at most 1000, variances near 1. A sum over a group is made by
// fewer than 2^8 additions in a row in fp64, so that second moments of 2^20 are off by less than
// 2^8 2^-53 2^20 = u / 2, which is the relative error of a variance, and u / 4 that of its inverse
// root. An output is rounded once besides. A gradient of the input is a sum of two terms, each
// rounded once, and rounded itself. Gradients of parameters are rounded on each rank, and in their
// sum.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "rng.hpp"
#include "src/nn/kernels/moments.hpp"
#include "src/nn/layers/affine.hpp"
#include "src/nn/layers/normalize.hpp"
#include "src/nn/layers/sample_average.hpp"
#include "src/nn/pack.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/harness/norm_reference.hpp"
#include "test/mpi/network_run.hpp"

namespace halomesh {
namespace {

constexpr float kEpsilon = 1e-5F;
constexpr std::int64_t kLocalBatch = 2;

// A copy that keeps the gradient of its output: that of what follows.
class Probe final : public Pointwise {
 public:
  explicit Probe(std::vector<float>& kept) : kept_(kept) {}
  bool splits_over_channels() const override { return true; }
  void forward(const Pass&, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override {
    clear(dst, chunk);
    std::vector<float> values(static_cast<std::size_t>(dst.batch * chunk.volume()));
    pack(src[0].as<float>(), chunk, values.data());
    unpack_copy(values.data(), chunk, dst.as<float>());
  }
  void backward_data(const Pass&, const ForwardValues&, AnyConstView diff_dst, std::size_t,
                     AnyView diff_src) override {
    const Box& box = context().boxes.dst_produced;
    kept_.resize(static_cast<std::size_t>(diff_dst.batch * box.volume()));
    pack(diff_dst.as<float>(), box, kept_.data());
    unpack_copy(kept_.data(), box, diff_src.as<float>());
  }

 private:
  std::vector<float>& kept_;
};

// Input -> affine (weight 1, bias 0: makes the gradient of its output wanted) -> probe -> norm.
struct NormCase {
  Shape shape;
  std::int64_t groups = 0;
  std::string cuts = "space";
  double mean = 0;
  std::int64_t samples = 0;  // of the global batch, normalized together; 0: each by itself
};

Model norm_model(const NormCase& test, std::vector<float>& kept) {
  Model model(test.shape);
  model.add("affine", std::make_unique<Affine>());
  const std::size_t x = model.add("probe", std::make_unique<Probe>(kept));
  std::size_t moments = model.add("moments", std::make_unique<Moments>(test.groups), {x});
  if (test.samples > 0) moments = model.add("mean", std::make_unique<SampleAverage>(test.samples));
  model.add("norm", std::make_unique<Normalize>(kEpsilon, DataType::kFloat32, test.samples),
            {x, moments});
  model.set_cuts(parse_cuts(test.cuts));
  return model;
}

float draw(std::uint32_t stream, std::int64_t index) {
  const CounterRng rng(11, RandomUse::kSynth, stream);
  return 2 * rng.uniform(static_cast<std::uint64_t>(index)) - 1;
}

StepValues norm_values(double mean) {
  StepValues values;
  // Placements: weight and bias of the affine layer, then of the norm.
  values.parameter = [](std::size_t placement, std::int64_t index) {
    if (placement < 2) return placement == 0 ? 1.0F : 0.0F;
    return draw(static_cast<std::uint32_t>(100 + placement), index);
  };
  values.input = [mean](std::int64_t sample, std::int64_t element) {
    return static_cast<float>(
        mean + 1.75 * static_cast<double>(draw(static_cast<std::uint32_t>(sample), element)));
  };
  values.output_diff = [](std::int64_t sample, std::int64_t element) {
    return draw(static_cast<std::uint32_t>(50 + sample), element);
  };
  return values;
}

NormReference expected_of(const NormCase& test, const StepValues& values, std::int64_t samples) {
  GlobalTensor x(test.shape, samples), dy = x;
  const std::int64_t volume = test.shape.volume();
  for (std::int64_t i = 0; i < samples * volume; ++i) {
    const auto at = static_cast<std::size_t>(i);
    x.values[at] = static_cast<double>(values.input(i / volume, i % volume));
    dy.values[at] = static_cast<double>(values.output_diff(i / volume, i % volume));
  }
  std::vector<double> weight, bias;
  for (std::int64_t c = 0; c < test.shape.c; ++c) {
    weight.push_back(static_cast<double>(values.parameter(2, c)));
    bias.push_back(static_cast<double>(values.parameter(3, c)));
  }
  return norm_reference(x, dy, test.groups == 0 ? test.shape.c : test.groups, weight, bias,
                        static_cast<double>(kEpsilon), std::max<std::int64_t>(test.samples, 1));
}

void check_mesh(const Comm& comm, const MeshShape& mesh, const NormCase& test, Findings& findings) {
  std::vector<float> kept;
  NetworkRun run(comm, mesh, norm_model(test, kept), kLocalBatch, norm_values(test.mean));
  run.step();
  run.step();  // nothing of the first must be left
  const std::string where = fmt::format("{} in {} groups, {} samples, cut {} on {} x {}, mean {:g}",
                                        test.shape, test.groups, test.samples, test.cuts,
                                        mesh.replicas, to_string(mesh.parts), test.mean);
  NormReference expected = expected_of(test, run.values(), mesh.replicas * kLocalBatch);
  expected.y.terms = 1 + 1;
  expected.dx.terms = 3 + 1;
  expected.dweight.terms = expected.dbias.terms = static_cast<double>(2 * comm.size()) + 1;
  expected.mean.terms = expected.variance.terms = expected.dweight.terms;
  const auto compare = [&](const char* what, const Estimate& estimate, std::size_t i, float got) {
    const double want = estimate.values[i], bound = estimate.tolerance(i);
    findings.expect(std::abs(static_cast<double>(got) - want) <= bound, [&] {
      return fmt::format("{}, {} {}: {:g}, not {:g} +- {:g}", where, what, i, got, want, bound);
    });
  };
  const GlobalTensor index(test.shape, mesh.replicas * kLocalBatch);
  const auto part = static_cast<std::size_t>(run.mesh().part());
  const ConstView out = run.executor().output();
  for_each_element(kLocalBatch, run.geometry().tensors().back().owned[part],
                   [&](auto n, auto c, auto d, auto h, auto w) {
                     compare("output", expected.y, index.offset(run.first_sample() + n, c, d, h, w),
                             out.at(n, c, d, h, w));
                   });
  std::size_t next = 0;
  for_each_element(kLocalBatch, run.geometry().tensors()[2].owned[part],
                   [&](auto n, auto c, auto d, auto h, auto w) {
                     compare("gradient", expected.dx,
                             index.offset(run.first_sample() + n, c, d, h, w), kept.at(next++));
                   });
  for_each_held(
      run.parameters(), run.geometry(), run.mesh().part(), [&](auto at, auto placement, auto i) {
        if (placement < 2) return;
        const Estimate* const all[] = {&expected.dweight, &expected.dbias, &expected.mean,
                                       &expected.variance};
        compare(run.geometry().parameters()[placement].geometry.name.c_str(), *all[placement - 2],
                static_cast<std::size_t>(i), run.parameters().diffs()[at]);
      });
}

TEST_CASE("normalization equals textbook loops on every mesh, and with means far from zero") {
  for_comms("normalization", {1, 2, 3, 4, 6, 8}, [](const Comm& comm, Findings& findings) {
    for (std::int64_t parts = 1; parts <= comm.size(); ++parts) {
      if (comm.size() % parts != 0) continue;
      for (const PartGrid& grid : grids_of(parts))
        for (const std::int64_t groups : {0, 2, 1})
          for (const double mean : {0.0, 1000.0})
            check_mesh(comm, {comm.size() / parts, grid}, {{6, 7, 5, 3}, groups, "space", mean},
                       findings);
    }
  });
}

TEST_CASE("batch normalization equals textbook loops on every mesh, within and across replicas") {
  for_comms("batch normalization", {1, 2, 3, 4, 6, 8}, [](const Comm& comm, Findings& findings) {
    for (std::int64_t parts = 1; parts <= comm.size(); ++parts) {
      if (comm.size() % parts != 0) continue;
      const std::int64_t replicas = comm.size() / parts;
      for (const PartGrid& grid : grids_of(parts))
        for (const std::int64_t samples : {1, 2, 4, 6, 12})
          if ((kLocalBatch * replicas) % samples == 0)
            check_mesh(comm, {replicas, grid}, {{6, 7, 5, 3}, 0, "space", 1000.0, samples},
                       findings);
    }
  });
}

TEST_CASE("normalization behind cuts through channels equals textbook loops") {
  for_comms("normalization of channels", {4}, [](const Comm& comm, Findings& findings) {
    for (const char* cuts : {"probe:1x4,norm:1x4", "probe:2x2,norm:2x2", "probe:1x4", "norm:2x2",
                             "probe:4x1,norm:1x4", "probe:1x4,norm:2x2"})
      for (const std::int64_t groups : {0, 4, 3, 1})
        for (const std::int64_t samples : {0, 2})
          check_mesh(comm, {1, {2, 2, 1}}, {{72, 5, 3, 2}, groups, cuts, 1000.0, samples},
                     findings);
  });
}

TEST_CASE("instance normalization of whole channels on each part sends nothing") {
  std::vector<float> kept;
  const Model model = norm_model({{64, 5, 3, 2}, 0, "probe:1x4,norm:1x4"}, kept);
  const ModelGeometry geometry = model.geometry({2, 2, 1});
  for (const std::size_t tensor : {2U, 3U, 4U}) {
    CHECK(geometry.tensors()[tensor].distribute.empty());
    CHECK(geometry.tensors()[tensor].broadcast.empty());
  }
  CHECK(geometry.tensors()[3].produced[1] == Box{{32, 0, 0, 0}, {64, 1, 1, 1}});
}

}  // namespace
}  // namespace halomesh
