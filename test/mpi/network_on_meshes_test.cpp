// SPDX-License-Identifier: Apache-2.0
// Small networks for segmentation, as models/ builds them, give on every mesh what they give on one
// rank: losses and gradients of several steps, and the scores of an evaluation.
//
// With the environment variable HALOMESH_NETWORK_STEPS, a directory, it instead takes the steps
// that test/system/pytorch_networks_test.py asks for there, and leaves a checkpoint of each.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "models/registry.hpp"
#include "narrow.hpp"
#include "rng.hpp"
#include "runtime/hdf5/hdf5_file.hpp"
#include "runtime/step/evaluator.hpp"
#include "runtime/step/training_step.hpp"
#include "runtime/train/checkpoint.hpp"
#include "runtime/train/checkpoint_file.hpp"
#include "src/nn/onednn/library.hpp"
#include "src/nn/optimizers/registry.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/harness/test_comm.hpp"
#include "test/mpi/network_run.hpp"

namespace halomesh {
namespace {

/// The samples of one global batch with their labels.
struct Samples {
  Shape shape;
  std::int64_t count = 0;
  std::vector<float> values;         // n,d,h,w,c
  std::vector<std::uint8_t> labels;  // n,d,h,w
};

/// Always the same batch: this rank's blocks of the samples of its replica.
class BatchLoader final : public Loader {
 public:
  BatchLoader(const Executor& executor, const Loss& loss, const Samples& samples,
              std::int64_t first, std::int64_t count)
      : data_(executor.input_span(), count),
        targets_(loss.target_box(executor.output().span), count, loss.target_type()) {
    const View input = data_.view();
    const View whole{nullptr, Box::whole(samples.shape), samples.count};
    for_each_element(count, input.span, [&](auto n, auto c, auto d, auto h, auto w) {
      input.at(n, c, d, h, w) =
          samples.values[static_cast<std::size_t>(whole.offset(first + n, c, d, h, w))];
    });
    const View field{nullptr, Box::whole(loss.target_shape()), samples.count};
    const auto labels = targets_.any_view().as<std::uint8_t>();
    for_each_element(count, labels.span, [&](auto n, auto c, auto d, auto h, auto w) {
      labels.at(n, c, d, h, w) =
          samples.labels[static_cast<std::size_t>(field.offset(first + n, c, d, h, w))];
    });
    for (std::int64_t n = 0; n < count; ++n) numbers_.push_back(first + n);
    batch_ = {count, data_.any_view(), targets_.any_view(), numbers_};
  }
  void append(const BatchSchedule& /*schedule*/) override {}
  const Batch& next() override { return batch_; }

 private:
  Tensor data_, targets_;
  std::vector<std::int64_t> numbers_;
  Batch batch_;
};

/// A network with its optimizer on one mesh, which trains on one batch.
class Training {
 public:
  Training(const Comm& comm, const MeshShape& shape, const NetworkSpec& spec,
           const OptimizerOptions& optimizer, const Samples& samples)
      : mesh_(comm, shape),
        model_(spec.make()),
        geometry_(model_.geometry(shape.parts)),
        optimizer_(make_optimizer(optimizer)),
        parameters_(geometry_, mesh_.part(), optimizer_->states()),
        loss_(spec.make_loss(geometry_.tensors().back().shape)),
        local_(samples.count / shape.replicas),
        step_(mesh_, model_, geometry_, parameters_, *optimizer_, *loss_, local_, nullptr),
        loader_(step_.executor(), *loss_, samples, mesh_.replica() * local_, local_) {}

  /// The loss of a step.
  double step(std::int64_t number, float rate) {
    return mesh_.world().sum(step_.run(loader_, {1, number, rate}));
  }
  Evaluation evaluate_batch() {
    const std::int64_t replicas = mesh_.shape().replicas;
    return evaluate(mesh_, step_.executor(), loader_, *loss_,
                    {Shuffle::kGlobal, 1, replicas * local_, replicas, local_});
  }

  const ProcessMesh& mesh() const { return mesh_; }
  const ModelGeometry& geometry() const { return geometry_; }
  Parameters& parameters() { return parameters_; }

 private:
  ProcessMesh mesh_;
  Model model_;
  ModelGeometry geometry_;
  std::unique_ptr<Optimizer> optimizer_;
  Parameters parameters_;
  std::unique_ptr<Loss> loss_;
  std::int64_t local_;
  TrainingStep step_;
  BatchLoader loader_;
};

Samples random_samples(const Shape& shape, std::int64_t count, std::int64_t classes) {
  Samples samples{shape, count, {}, {}};
  const CounterRng rng(29, RandomUse::kSynth, 1);
  for (std::int64_t i = 0; i < count * shape.volume(); ++i)
    samples.values.push_back(2 * rng.uniform(static_cast<std::uint64_t>(i)) - 1);
  const CounterRng labels(29, RandomUse::kSynth, 2);
  for (std::int64_t i = 0; i < count * shape.volume() / shape.c; ++i)
    samples.labels.push_back(static_cast<std::uint8_t>(
        static_cast<float>(classes) * 0.9999F * labels.uniform(static_cast<std::uint64_t>(i))));
  return samples;
}

struct NetworkCase {
  std::string name, network;
  Shape input;
  std::map<std::string, NetworkValue> values;
  DataType precision = DataType::kFloat32;
  // Layers on the longest way through the network, and the root of the terms of their longest sums.
  double layers = 20, root_terms = 51;
  int most_ranks = 6;
  // The root of the number of voxels whose errors have nothing in common, in bf16.
  double root_voxels = 32;
};

/// Batch normalization, where there is any, is over the whole batch.
std::vector<NetworkCase> network_cases(std::int64_t batch) {
  using Integer = std::int64_t;
  std::vector<NetworkCase> cases{
      {"unet3d", "unet3d", {1, 8, 4, 12}, {{"filters", Integer{2}}, {"levels", Integer{3}}}},
      // Layers wide enough for cuts by channels.
      {"unet3d, wide",
       "unet3d",
       {2, 4, 8, 4},
       {{"filters", Integer{16}}, {"levels", Integer{3}}, {"most-filters", Integer{48}}}},
      {"unet3d, pooled",
       "unet3d",
       {1, 8, 4, 12},
       {{"filters", Integer{2}},
        {"levels", Integer{3}},
        {"down", std::string("pool")},
        {"batch-norm", batch},
        {"loss", std::string("ce")}}},
      {"deepcam",
       "deepcam",
       {2, 48, 1, 16},
       {{"filters", Integer{2}}, {"middle-blocks", Integer{1}}, {"batch-norm", batch}},
       DataType::kFloat32,
       60,
       34,
       3}};
  if (!cpu_computes_bf16()) return cases;
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    NetworkCase half = cases[i];
    half.name += ", bf16";
    half.precision = DataType::kBfloat16;
    // Normalized values of the few voxels of a third level would be little but rounding.
    half.values["levels"] = Integer{2};
    half.input.d = half.input.h = 8;
    cases.push_back(half);
  }
  NetworkCase images = cases[3];
  images.name += ", bf16";
  images.precision = DataType::kBfloat16;
  images.input = {3, 32, 1, 48};
  images.values["filters"] = Integer{4};
  images.root_voxels = 16;
  cases.push_back(images);
  return cases;
}

NetworkSpec spec_of(const NetworkCase& test) {
  const Network& network = network_named(test.network);
  NetworkSpec spec{&network, network.defaults()};
  spec.settings.input = test.input;
  spec.settings.precision = test.precision;
  for (const auto& [name, value] : test.values) spec.settings.values.at(name) = value;
  return spec;
}

// A value is rounded at most as often as the layers before it have terms in a sum, and errors are
// passed on about as they came, as the normalization keeps values near 1: see segmentation_test.
// Here 20 layers of U-Nets have sums of at most 27 * 96 terms and 60 of DeepCAM of 9 * 128, whose
// errors add up as their square root: see NetworkCase.
// Should some voxel come so near to zero under a ReLU, or to its neighbour in a pooling window,
// that rounding moves it to the other side, then its share of the gradient would be another; a halo
// or a sum over parts that is missed makes another of one in eight voxels or more. Each element is
// compared in segmentation_test, and with PyTorch's.
constexpr double kGradientBound = 0.01;
// In bf16 a value under a ReLU is often rounded to the other side of zero: of values with variance
// 1 one in 0.8 * 2^-8 lies that near, under each of 8 ReLUs (DeepCAM has more, but sums around
// them), and makes another of its voxel's share of the gradient.
constexpr double kShortGradientBound = 0.16;
// In bf16, the loss is a mean over voxels of which each is off by a rounding per layer. Those of
// DeepCAM are few and coarse before it enlarges them.
double loss_bound(const NetworkCase& test) {
  if (test.precision == DataType::kFloat32) return test.layers * test.root_terms * 0x1p-24;
  return std::sqrt(test.layers) * 0x1p-8 / test.root_voxels;
}
double gradient_bound(DataType precision) {
  return precision == DataType::kFloat32 ? kGradientBound : kShortGradientBound;
}
constexpr std::int64_t kSteps = 2;
constexpr float kRate = 0.01F;

void check_mesh(const Comm& comm, const MeshShape& shape, const NetworkCase& test,
                const Samples& samples, Training& serial, const std::vector<double>& losses,
                const Evaluation& expected, Findings& findings) {
  Training cut(comm, shape, spec_of(test), {"nesterov", 0.9, 0}, samples);
  cut.parameters().initialize(3);
  const std::string where =
      fmt::format("{} on {} x {}", test.name, shape.replicas, to_string(shape.parts));
  const auto compare = [&](const std::string& what, double got, double want, double bound) {
    findings.expect(std::abs(got - want) <= bound, [&] {
      return fmt::format("{}, {}: {:.9g}, not {:.9g} +- {:g}", where, what, got, want, bound);
    });
  };
  for (std::int64_t s = 0; s < kSteps; ++s)
    compare("loss", cut.step(s, kRate), losses[static_cast<std::size_t>(s)],
            loss_bound(test) * losses[static_cast<std::size_t>(s)]);
  // The serial run holds whole parameters, in this order.
  std::vector<std::vector<double>> whole(serial.geometry().parameters().size());
  for (std::size_t p = 0; p < whole.size(); ++p)
    whole[p].resize(static_cast<std::size_t>(serial.geometry().parameters()[p].geometry.volume()));
  for_each_held(serial.parameters(), serial.geometry(), 0, [&](auto at, auto p, auto index) {
    whole[p][static_cast<std::size_t>(index)] =
        static_cast<double>(serial.parameters().diffs()[at]);
  });
  std::vector<double> errors(whole.size(), 0.0), sizes(whole.size(), 0.0);
  for_each_held(cut.parameters(), cut.geometry(), cut.mesh().part(),
                [&](auto at, auto p, auto index) {
                  const double want = whole[p][static_cast<std::size_t>(index)];
                  const double miss = static_cast<double>(cut.parameters().diffs()[at]) - want;
                  errors[p] += miss * miss;
                  sizes[p] += want * want;
                });
  // Gradients that nearly cancel, as those of a scale before another norm, are rounding in bf16.
  const double all =
      test.precision == DataType::kFloat32
          ? 0
          : std::accumulate(sizes.begin(), sizes.end(), 0.0) / static_cast<double>(sizes.size());
  for (std::size_t p = 0; p < whole.size(); ++p) {
    const ParameterPlacement& placement = cut.geometry().parameters()[p];
    if (placement.slice_volume(cut.mesh().part()) == 0) continue;
    compare(fmt::format("gradient of {}/{}", placement.layer_name, placement.geometry.name),
            std::sqrt(errors[p]), 0,
            gradient_bound(test.precision) * std::sqrt(std::max(sizes[p], all)));
  }
  const Evaluation found = cut.evaluate_batch();
  findings.expect_equal(found.samples, expected.samples, where + ": samples");
  const auto& c = found.classes;
  const bool dice = test.network == "unet3d";
  findings.expect(found.kind == (dice ? Score::kDice : Score::kIou),
                  [&] { return where + ": another score"; });
  compare("score", found.score,
          dice ? (c[1].dice + c[2].dice) / 2 : (c[0].iou + c[1].iou + c[2].iou) / 3, 1e-14);
  compare("score", found.score, expected.score, gradient_bound(test.precision));
  compare("loss of evaluation", found.loss, expected.loss, loss_bound(test) * expected.loss);
}

TEST_CASE("networks for segmentation train on every mesh as on one rank") {
  if (std::getenv("HALOMESH_NETWORK_STEPS") != nullptr) return;  // NOLINT(concurrency-mt-unsafe)
  for_comms("networks for segmentation", {1, 2, 3, 4, 6}, [](const Comm& comm, Findings& findings) {
    const Comm alone = comm.split(comm.rank(), 0);
    const std::int64_t batch = comm.size() == 4 ? 4 : 6;
    for (const NetworkCase& test : network_cases(batch)) {
      if (comm.size() > test.most_ranks) continue;
      const Samples samples = random_samples(test.input, batch, 3);
      Training serial(alone, {1, {1, 1, 1}}, spec_of(test), {"nesterov", 0.9, 0}, samples);
      serial.parameters().initialize(3);
      std::vector<double> losses;
      for (std::int64_t s = 0; s < kSteps; ++s) losses.push_back(serial.step(s, kRate));
      const Evaluation expected = serial.evaluate_batch();
      if (test.precision == DataType::kBfloat16) {
        NetworkCase single = test;
        single.precision = DataType::kFloat32;
        Training exact(alone, {1, {1, 1, 1}}, spec_of(single), {"nesterov", 0.9, 0}, samples);
        exact.parameters().initialize(3);
        const double loss = exact.step(0, kRate);
        findings.expect(std::abs(losses[0] - loss) <= loss_bound(test) * loss, [&] {
          return fmt::format("{}: a loss of {}, and {} in fp32", test.name, losses[0], loss);
        });
        findings.expect(losses[0] != loss, [&] { return test.name + ": nothing is rounded"; });
      }
      for (std::int64_t replicas = 1; replicas <= comm.size(); ++replicas) {
        if (comm.size() % replicas != 0) continue;
        for (const PartGrid& grid : grids_of(comm.size() / replicas))
          check_mesh(comm, {replicas, grid}, test, samples, serial, losses, expected, findings);
      }
    }
  });
}

/// The batch of a file that the Python script has written: x (n,d,h,w,c) and labels (n,d,h,w).
Samples read_samples(const std::filesystem::path& path) {
  Hdf5File file = Hdf5File::open(path);
  const Extents extents = file.extents("/x");
  Samples samples{{extents[4], extents[1], extents[2], extents[3]}, extents[0], {}, {}};
  samples.values.resize(static_cast<std::size_t>(samples.count * samples.shape.volume()));
  std::vector<std::int64_t> labels(samples.values.size() /
                                   static_cast<std::size_t>(samples.shape.c));
  file.read("/x", Slab::whole(extents), std::span<float>(samples.values));
  file.read("/labels", Slab::whole(file.extents("/labels")), std::span<std::int64_t>(labels));
  for (const std::int64_t label : labels) samples.labels.push_back(narrow<std::uint8_t>(label));
  return samples;
}

/// The network that a checkpoint's settings describe.
NetworkSpec spec_of(const TrainingState& state, const Shape& input) {
  const Network& network = network_named(state.model.at("model"));
  NetworkSpec spec{&network, network.defaults()};
  spec.settings.input = input;
  for (auto& [name, value] : spec.settings.values) {
    const auto text = state.model.find(name);
    if (text == state.model.end()) continue;
    if (std::holds_alternative<std::int64_t>(value))
      value = static_cast<std::int64_t>(std::stoll(text->second));
    else
      value = text->second;
  }
  return spec;
}

/// Trains from DIRECTORY/start.h5 on DIRECTORY/batch.h5, as its attributes say, and leaves
/// checkpoints and DIRECTORY/losses.
void take_steps(const Comm& comm, const std::filesystem::path& directory, Findings& findings) {
  Hdf5File request = Hdf5File::open(directory / "batch.h5");
  const auto parts = parse_part_grid(request.read_attribute<std::string>("/", "parts"));
  const auto steps = request.read_attribute<std::int64_t>("/", "steps");
  const auto rate = static_cast<float>(request.read_attribute<double>("/", "rate"));
  OptimizerOptions optimizer{request.read_attribute<std::string>("/", "optimizer"), 0.9, 0};
  request.close();
  const Samples samples = read_samples(directory / "batch.h5");
  TrainingState state = read_state(directory / "start.h5");
  Training training(comm, make_mesh(comm.size(), parts), spec_of(state, samples.shape), optimizer,
                    samples);
  load_checkpoint(training.mesh(), training.geometry(), training.parameters(),
                  directory / "start.h5", LoadWhat::kParametersOnly);
  std::string losses;
  for (state.step = 1; state.step <= steps; ++state.step) {
    losses += fmt::format("{}\n", training.step(state.step - 1, rate));
    save_checkpoint(training.mesh(), training.geometry(), training.parameters(), state,
                    directory / "checkpoints", 0);
    findings.expect(true, [] { return ""; });
  }
  if (comm.rank() == 0) std::ofstream(directory / "losses") << losses;
}

TEST_CASE("steps asked for from outside") {
  const char* const directory =
      std::getenv("HALOMESH_NETWORK_STEPS");  // NOLINT(concurrency-mt-unsafe)
  if (directory == nullptr) return;
  for_comms("steps asked for from outside", {test_world().size()},
            [&](const Comm& comm, Findings& findings) { take_steps(comm, directory, findings); });
}

}  // namespace
}  // namespace halomesh
