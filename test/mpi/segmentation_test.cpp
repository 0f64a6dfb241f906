// SPDX-License-Identifier: Apache-2.0
// A small U-Net with each loss on any mesh equals serial fp64 loops over whole samples: loss,
// gradients of all parameters, and the quality that evaluations report. Its steps allocate nothing.
//
// Bounds. A value is rounded at most as often as the 10 layers before it have terms in a sum, of
// which 4 * 27 = 108 is the largest, and an error is passed on about as it came: weights of a
// filter and scales of a norm are near 1 in sum. The same holds of gradients, which are compared
// with the largest of all, as they are sums of terms that cancel. A halo, a sum over parts or a
// label that is missed changes them by more than a hundred times that.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rng.hpp"
#include "runtime/step/evaluator.hpp"
#include "runtime/step/training_step.hpp"
#include "src/nn/kernels/moments.hpp"
#include "src/nn/layers/global_average.hpp"
#include "src/nn/layers/normalize.hpp"
#include "src/nn/losses/mean_squared_error.hpp"
#include "src/nn/losses/segmentation_loss.hpp"
#include "src/nn/optimizers/sgd.hpp"
#include "test/harness/mpi_allocation_count.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/harness/norm_reference.hpp"
#include "test/harness/pooling_reference.hpp"
#include "test/harness/segmentation_reference.hpp"
#include "test/harness/transposed_convolution_reference.hpp"
#include "test/mpi/network_run.hpp"
#include "test/mpi/small_networks.hpp"

namespace halomesh {
namespace {

const Shape kInput{2, 10, 6, 4};
constexpr std::int64_t kClasses = 3, kLocalBatch = 2;
constexpr float kEpsilon = 1e-5F, kSlope = 0.25F;
constexpr double kBound = 10 * 108 * 0x1p-24;

const WindowOptions kWide = WindowOptions::cube(3, 1, PaddingKind::kSame);
const WindowOptions kOne = WindowOptions::cube(1, 1, PaddingKind::kSame);
const WindowOptions kHalf = WindowOptions::cube(2, 2, PaddingKind::kValid);

/// A loss of the network's output; without options the mean squared error of its means over space.
struct LossCase {
  std::string name;
  bool regression = false;
  SegmentationOptions options{};

  std::unique_ptr<Loss> make(const Shape& output) const {
    if (regression) return std::make_unique<MeanSquaredError>(output);
    return std::make_unique<SegmentationLoss>(output, options);
  }
};

std::vector<LossCase> loss_cases() {
  return {{"mean squared error", true},
          {"weighted cross entropy", false, {1, {1.0017, 2.6146, 1.7164}}},
          {"Dice and cross entropy", false, {0.5, {}, 0.5}}};
}

Model u_net(bool regression) {
  Model model(kInput);
  const auto normalized = [&](std::int64_t filters, const std::string& name) {
    const std::size_t x = model.add(
        "conv" + name, std::make_unique<Convolution>(ConvolutionOptions{filters, kWide, 1, false}));
    const std::size_t moments = model.add("moments" + name, std::make_unique<Moments>(), {x});
    model.add("norm" + name, std::make_unique<Normalize>(kEpsilon), {x, moments});
    return model.add("act" + name,
                     std::make_unique<Elementwise>(ElementFunction::leaky_relu(kSlope)));
  };
  const std::size_t across = normalized(4, "1");
  model.add("pool", std::make_unique<AveragePooling>(kHalf));
  normalized(6, "2");
  const std::size_t up = model.add(
      "up", std::make_unique<TransposedConvolution>(TransposedConvolutionOptions{3, kHalf}));
  model.add("concat", std::make_unique<Concat>(), {up, across});
  model.add("head", std::make_unique<Convolution>(ConvolutionOptions{kClasses, kOne}));
  if (regression) model.add("mean", std::make_unique<GlobalAverage>());
  model.set_cuts(parse_cuts("space"));
  return model;
}

float draw(std::uint32_t stream, std::int64_t index) {
  return 2 * CounterRng(13, RandomUse::kSynth, stream).uniform(static_cast<std::uint64_t>(index)) -
         1;
}
float input_value(std::int64_t sample, std::int64_t element) {
  return draw(static_cast<std::uint32_t>(sample), element);
}
std::uint8_t label(std::int64_t sample, std::int64_t voxel) {
  return static_cast<std::uint8_t>(1.4999F *
                                   (draw(static_cast<std::uint32_t>(100 + sample), voxel) + 1));
}
float scalar(std::int64_t sample, std::int64_t target) {
  return draw(static_cast<std::uint32_t>(200 + sample), target);
}
// Filters whose weights are about 1 in sum; scales of norms of 3/4 to 5/4.
float parameter(const ParameterPlacement& placement, std::size_t number, std::int64_t index) {
  const float value = draw(static_cast<std::uint32_t>(300 + number), index);
  if (placement.layer_name.starts_with("norm"))
    return 0.25F * value + (placement.number == 0 ? 1.0F : 0.0F);
  return value /
         std::sqrt(static_cast<float>(std::max<std::int64_t>(placement.geometry.fan_in, 4)));
}

/// The network and its loss in fp64, on whole samples.
class SerialUNet {
 public:
  SerialUNet(const LossCase& test, const ModelGeometry& geometry, std::int64_t batch)
      : batch_(batch), geometry_(geometry) {
    GlobalTensor input(kInput, batch);
    for (std::int64_t i = 0; i < std::ssize(input.values); ++i)
      input.values[static_cast<std::size_t>(i)] =
          static_cast<double>(input_value(i / kInput.volume(), i % kInput.volume()));
    tensors_.push_back(input);
    const std::size_t across = normalized(4, 0);
    const Reference pool = pooling_reference(PoolingKind::kAverage, kHalf);
    add({kInput.c + 2, 5, 3, 2}, pool, {across}, 0);
    const std::size_t low = normalized(6, tensors_.size() - 1);
    const std::size_t up = add({3, 10, 6, 4}, transposed_reference(kHalf), {low}, 2);
    const std::size_t both = add({7, 10, 6, 4}, concat_reference(), {up, across}, 0);
    add({kClasses, 10, 6, 4}, convolution_reference(kOne.resolve({10, 6, 4})), {both}, 2);
    if (test.regression) add({kClasses, 1, 1, 1}, mean_reference(), {tensors_.size() - 1}, 0);
    find_loss(test);
    backward();
  }
  double loss() const { return loss_; }
  const Quality& quality() const { return quality_; }
  double gradient(std::size_t placement, std::int64_t index) const {
    return gradients_[placement][static_cast<std::size_t>(index)];
  }
  double largest_gradient() const {
    double largest = 0;
    for (const auto& all : gradients_)
      for (const double value : all) largest = std::max(largest, std::abs(value));
    return largest;
  }

 private:
  struct Node {
    Reference reference;
    std::vector<std::size_t> inputs;
    std::size_t first = 0, count = 0;  // parameters
  };

  std::size_t add(const Shape& dst, const Reference& reference, std::vector<std::size_t> inputs,
                  std::size_t parameters) {
    const std::size_t first = parameters_.size();
    for (std::size_t p = first; p < first + parameters; ++p) {
      const ParameterPlacement& placement = geometry_.parameters()[p];
      std::vector<double>& values = parameters_.emplace_back();
      for (std::int64_t i = 0; i < placement.geometry.volume(); ++i)
        values.push_back(static_cast<double>(parameter(placement, p, i)));
    }
    nodes_.push_back({reference, std::move(inputs), first, parameters});
    tensors_.emplace_back(dst, batch_);
    tensors_.back().values = run(nodes_.back(), tensors_.back()).dst.values;
    return tensors_.size() - 1;
  }
  std::size_t normalized(std::int64_t filters, std::size_t src) {
    const Shape shape{filters, tensors_[src].shape.d, tensors_[src].shape.h, tensors_[src].shape.w};
    const std::size_t x =
        add(shape, convolution_reference(kWide.resolve(shape.spatial())), {src}, 1);
    return add(shape, leaky_reference(), {add(shape, instance_norm_reference(), {x}, 2)}, 0);
  }
  ReferenceOutput run(const Node& node, const GlobalTensor& diff) const {
    ReferenceInput in;
    for (const std::size_t i : node.inputs) in.src.push_back(tensors_[i]);
    for (std::size_t p = node.first; p < node.first + node.count; ++p)
      in.parameters.push_back(parameters_[p]);
    in.diff_dst = diff;
    return node.reference(in);
  }

  static Reference instance_norm_reference() {
    return [](const ReferenceInput& in) {
      NormReference norm =
          norm_reference(in.src[0], in.diff_dst, in.src[0].shape.c, in.parameters[0],
                         in.parameters[1], static_cast<double>(kEpsilon));
      return ReferenceOutput{norm.y, {norm.dx}, {norm.dweight, norm.dbias}};
    };
  }
  static Reference leaky_reference() {
    return [](const ReferenceInput& in) {
      ReferenceOutput out{
          Estimate(in.src[0].values.size()), {Estimate(in.src[0].values.size())}, {}};
      for (std::size_t i = 0; i < in.src[0].values.size(); ++i) {
        const double x = in.src[0].values[i], slope = x > 0 ? 1 : static_cast<double>(kSlope);
        CHECK(std::abs(x) > 1e-6);  // fp32 must not see another sign
        out.dst.add(i, slope, x);
        out.diff_src[0].add(i, slope, in.diff_dst.values[i]);
      }
      return out;
    };
  }
  static Reference concat_reference() {
    return [](const ReferenceInput& in) {
      ReferenceOutput out{Estimate(in.diff_dst.values.size()), {}, {}};
      std::size_t before = 0;
      for (const GlobalTensor& src : in.src) {
        Estimate& diff = out.diff_src.emplace_back(src.values.size());
        const auto from = static_cast<std::size_t>(src.shape.c),
                   to = static_cast<std::size_t>(in.diff_dst.shape.c);
        for (std::size_t i = 0; i < src.values.size(); ++i) {
          const std::size_t at = i / from * to + before + i % from;
          out.dst.add(at, src.values[i]);
          diff.add(i, in.diff_dst.values[at]);
        }
        before += from;
      }
      return out;
    };
  }
  static Reference mean_reference() {
    return [](const ReferenceInput& in) {
      const auto channels = static_cast<std::size_t>(in.src[0].shape.c);
      const auto volume = static_cast<std::size_t>(in.src[0].shape.volume());
      const double weight = static_cast<double>(channels) / static_cast<double>(volume);
      ReferenceOutput out{
          Estimate(in.diff_dst.values.size()), {Estimate(in.src[0].values.size())}, {}};
      for (std::size_t i = 0; i < in.src[0].values.size(); ++i) {
        const std::size_t to = i / volume * channels + i % channels;
        out.dst.add(to, in.src[0].values[i], weight);
        out.diff_src[0].add(i, in.diff_dst.values[to], weight);
      }
      return out;
    };
  }

  void find_loss(const LossCase& test) {
    const GlobalTensor& output = tensors_.back();
    diff_ = GlobalTensor(output.shape, batch_);
    if (!test.regression) {
      std::vector<std::uint8_t> labels;
      const std::int64_t voxels = output.shape.volume() / kClasses;
      for (std::int64_t v = 0; v < batch_ * voxels; ++v)
        labels.push_back(label(v / voxels, v % voxels));
      const SegmentationReference of = segmentation_reference(output, labels, test.options);
      loss_ = of.loss;
      diff_.values = of.diff;
      quality_ = {of.loss, batch_, {}, of.classes};
      return;
    }
    quality_.samples = batch_;
    quality_.targets.resize(kClasses);
    for (std::size_t i = 0; i < output.values.size(); ++i) {
      const std::size_t t = i % kClasses;
      const double error =
          output.values[i] - static_cast<double>(scalar(static_cast<std::int64_t>(i / kClasses),
                                                        static_cast<std::int64_t>(t)));
      const auto terms = static_cast<double>(output.values.size());
      loss_ += error * error / terms;
      diff_.values[i] = 2 * error / terms;
      quality_.targets[t].mae += std::abs(error) / static_cast<double>(batch_);
    }
    quality_.loss = loss_;
  }
  void backward() {
    gradients_.resize(parameters_.size());
    std::vector<GlobalTensor> diffs;
    for (const GlobalTensor& t : tensors_) diffs.emplace_back(t.shape, batch_);
    diffs.back() = diff_;
    for (std::size_t k = nodes_.size(); k-- > 0;) {
      const ReferenceOutput out = run(nodes_[k], diffs[k + 1]);
      for (std::size_t i = 0; i < nodes_[k].inputs.size(); ++i)
        for (std::size_t e = 0; e < out.diff_src[i].values.size(); ++e)
          diffs[nodes_[k].inputs[i]].values[e] += out.diff_src[i].values[e];
      for (std::size_t p = 0; p < nodes_[k].count; ++p)
        gradients_[nodes_[k].first + p] = out.diff_parameters[p].values;
    }
  }

  std::int64_t batch_;
  const ModelGeometry& geometry_;
  std::vector<GlobalTensor> tensors_;  // the input, then one per node
  std::vector<Node> nodes_;
  std::vector<std::vector<double>> parameters_, gradients_;
  GlobalTensor diff_;  // of the output
  double loss_ = 0;
  Quality quality_;
};

/// Always the same batch: this rank's blocks of the samples of its replica.
class FieldLoader final : public Loader {
 public:
  FieldLoader(const Executor& executor, const Loss& loss, std::int64_t first)
      : data_(executor.input_span(), kLocalBatch),
        targets_(loss.target_box(executor.output().span), kLocalBatch, loss.target_type()) {
    const View input = data_.view();
    const View whole{nullptr, Box::whole(kInput), 1};
    for_each_element(kLocalBatch, input.span, [&](auto n, auto c, auto d, auto h, auto w) {
      input.at(n, c, d, h, w) = input_value(first + n, whole.offset(0, c, d, h, w));
    });
    const View field{nullptr, Box::whole(loss.target_shape()), 1};
    const AnyView targets = targets_.any_view();
    for_each_element(kLocalBatch, targets.span, [&](auto n, auto c, auto d, auto h, auto w) {
      if (loss.target_type() == DataType::kUint8)
        targets.as<std::uint8_t>().at(n, c, d, h, w) =
            label(first + n, field.offset(0, c, d, h, w));
      else
        targets.as<float>().at(n, c, d, h, w) = scalar(first + n, c);
    });
    for (std::int64_t n = 0; n < kLocalBatch; ++n) samples_.push_back(first + n);
    batch_ = {kLocalBatch, data_.any_view(), targets_.any_view(), samples_};
  }
  void append(const BatchSchedule& /*schedule*/) override {}
  const Batch& next() override { return batch_; }

 private:
  Tensor data_, targets_;
  std::vector<std::int64_t> samples_;
  Batch batch_;
};

void check_mesh(const Comm& comm, const MeshShape& shape, const LossCase& test,
                const SerialUNet& expected, Findings& findings) {
  const ProcessMesh mesh(comm, shape);
  Model model = u_net(test.regression);
  const ModelGeometry geometry = model.geometry(shape.parts);
  Parameters parameters(geometry, mesh.part());
  for_each_held(parameters, geometry, mesh.part(), [&](auto at, auto placement, auto index) {
    parameters.values()[at] = parameter(geometry.parameters()[placement], placement, index);
  });
  const std::string where =
      fmt::format("{} on {} x {}", test.name, shape.replicas, to_string(shape.parts));
  const auto compare = [&](const std::string& what, double got, double want, double bound) {
    findings.expect(std::abs(got - want) <= bound, [&] {
      return fmt::format("{}, {}: {:.9g}, not {:.9g} +- {:g}", where, what, got, want, bound);
    });
  };
  const auto loss = test.make(geometry.tensors().back().shape);
  Sgd sgd({0, 0});
  TrainingStep training(mesh, model, geometry, parameters, sgd, *loss, kLocalBatch, nullptr);
  FieldLoader loader(training.executor(), *loss, mesh.replica() * kLocalBatch);
  training.run(loader, {1, 0, 0.0F});
  const std::int64_t before = test::allocation_count();
  const double share = training.run(loader, {1, 1, 0.0F});
  const std::int64_t made = test::allocation_count() - before;
  if (before >= 0) findings.expect_equal<std::int64_t>(made, 0, where + ": allocations in a step");
  compare("loss", comm.sum(share), expected.loss(), kBound * expected.loss());
  for_each_held(parameters, geometry, mesh.part(), [&](auto at, auto placement, auto index) {
    compare(fmt::format("gradient {} of {}", index, geometry.parameters()[placement].layer_name),
            static_cast<double>(parameters.diffs()[at]), expected.gradient(placement, index),
            kBound * expected.largest_gradient());
  });
  const SampleOrder order{Shuffle::kGlobal, 1, shape.replicas * kLocalBatch, shape.replicas,
                          kLocalBatch};
  const Evaluation found = evaluate(mesh, training.executor(), loader, *loss, order);
  compare("loss of evaluation", found.loss, expected.loss(), kBound * expected.loss());
  findings.expect_equal(found.samples, expected.quality().samples, where + ": samples");
  findings.expect_equal(found.classes.size(), expected.quality().classes.size(), where);
  for (std::size_t c = 0; c < expected.quality().classes.size(); ++c) {
    compare("IoU", found.classes[c].iou, expected.quality().classes[c].iou, 1e-14);
    compare("Dice", found.classes[c].dice, expected.quality().classes[c].dice, 1e-14);
  }
  findings.expect_equal(found.targets.size(), expected.quality().targets.size(), where);
  for (std::size_t t = 0; t < expected.quality().targets.size(); ++t)
    compare("MAE", found.targets[t].mae, expected.quality().targets[t].mae, kBound);
}

TEST_CASE("a U-Net with each loss equals serial fp64 loops on every mesh") {
  for_comms("segmentation", {1, 2, 3, 4, 6, 8}, [](const Comm& comm, Findings& findings) {
    for (const LossCase& test : loss_cases())
      for (std::int64_t replicas = 1; replicas <= comm.size(); ++replicas) {
        if (comm.size() % replicas != 0) continue;
        const ModelGeometry whole = u_net(test.regression).geometry({1, 1, 1});
        const SerialUNet expected(test, whole, replicas * kLocalBatch);
        for (const PartGrid& grid : grids_of(comm.size() / replicas))
          check_mesh(comm, {replicas, grid}, test, expected, findings);
      }
  });
}

TEST_CASE("reproducible training of voxels is refused") {
  for_comms("reproducible segmentation", {1}, [](const Comm& comm, Findings& findings) {
    const ProcessMesh mesh(comm, {1, {1, 1, 1}});
    Model model = u_net(false);
    const ModelGeometry geometry = model.geometry({1, 1, 1});
    Parameters parameters(geometry, 0);
    Sgd sgd;
    SegmentationLoss loss(geometry.tensors().back().shape, {});
    GradientRules rules;
    rules.reproducible = true;
    std::string message;
    try {
      TrainingStep training(mesh, model, geometry, parameters, sgd, loss, 1, nullptr,
                            Reduction::kAuto, rules);
    } catch (const Error& error) {
      message = error.what();
    }
    findings.expect(message.starts_with("this loss cannot be summed reproducibly"),
                    [&] { return "refused by: " + message; });
  });
}

}  // namespace
}  // namespace halomesh
