// SPDX-License-Identifier: Apache-2.0
// Losses of classes of whole samples: see class_loss.hpp.
#include "src/nn/losses/class_loss.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "error.hpp"
#include "src/nn/losses/registry.hpp"

namespace halomesh {
namespace {

/// A label as an index. Throws Error for one that is not of a class.
std::size_t class_of(float label, std::int64_t classes) {
  require(label >= 0 && label < static_cast<float>(classes) && label == std::floor(label),
          text("label {:g} for a network of {} classes", label, classes),
          text("labels must be 0 to {}", classes - 1));
  return static_cast<std::size_t>(label);
}

}  // namespace

ClassLoss::ClassLoss(const Shape& output, bool binary, std::vector<double> weights)
    : outputs_(output.c),
      binary_(binary),
      weights_(std::move(weights)),
      probabilities_(static_cast<std::size_t>(output.c)),
      slopes_(static_cast<std::size_t>(output.c)) {
  require(output.spatial() == Spatial{1, 1, 1} && output.c >= (binary ? 1 : 2),
          text("a class for each sample from outputs of shape {}", output),
          binary
              ? "the last layer of the network must have one voxel, with a channel for each label"
              : "the network needs two outputs or more, one for each class; for one output use "
                "the loss bce");
  if (weights_.empty()) weights_.assign(probabilities_.size(), 1);
  require(weights_.size() == probabilities_.size(),
          text("{} weights for {} classes", weights_.size(), output.c));
}

Box ClassLoss::target_box(const Box& output) const {
  if (binary_ || output.empty()) return output;
  require(output.extent(kC) == outputs_,
          text("outputs {} to {} of {} on one part", output.lo[kC], output.hi[kC] - 1, outputs_),
          "a part needs all outputs of a sample: cut the last layer in space only");
  return Box::whole(target_shape());
}

void ClassLoss::to_probabilities(std::span<float> outputs) const {
  const auto width = binary_ ? std::size_t{1} : static_cast<std::size_t>(outputs_);
  for (; !outputs.empty(); outputs = outputs.subspan(width)) {
    // The softmax of one output is taken beside an output of 0.
    const double most =
        std::max(binary_ ? 0.0F : outputs[0], *std::max_element(&outputs[0], &outputs[0] + width));
    double sum = binary_ ? std::exp(-most) : 0;
    for (std::size_t c = 0; c < width; ++c) sum += std::exp(outputs[c] - most);
    for (std::size_t c = 0; c < width; ++c)
      outputs[c] = static_cast<float>(std::exp(outputs[c] - most) / sum);
  }
}

double ClassLoss::judge(const float* z, const float* labels, std::int64_t count) {
  double loss = 0;
  if (binary_) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto k = static_cast<std::size_t>(i);
      const double y = z[i], truth = static_cast<double>(class_of(labels[i], 2));
      const double small = std::exp(-std::abs(y));  // never overflows
      probabilities_[k] = (y < 0 ? small : 1) / (1 + small);
      slopes_[k] = probabilities_[k] - truth;
      loss += std::max(y, 0.0) - truth * y + std::log1p(small);
    }
    return loss;
  }
  const std::size_t label = class_of(labels[0], outputs_);
  const double most = *std::max_element(z, z + count), weight = weights_[label];
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += std::exp(z[i] - most);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto k = static_cast<std::size_t>(i);
    probabilities_[k] = std::exp(z[i] - most) / sum;
    slopes_[k] = weight * (probabilities_[k] - (k == label ? 1 : 0));
  }
  return weight * (std::log(sum) + most - z[label]);
}

/// Probabilities of all outputs, labels, and the sum of the losses.
std::size_t ClassLoss::sums_per_sample() const {
  return static_cast<std::size_t>(outputs_ + target_shape().c) + 1;
}

void ClassLoss::add_sums(ConstView output, AnyConstView target, std::span<double> sums) {
  const ConstView truth = target.as<float>();
  const std::int64_t width = output.sample_volume(), labels = truth.sample_volume();
  for (std::int64_t n = 0; n < output.batch; ++n) {
    const float* const of_sample = samples_of(truth, n, 1).data;
    double* const to = sums.data() + static_cast<std::size_t>(n) * sums_per_sample();
    to[sums_per_sample() - 1] += judge(samples_of(output, n, 1).data, of_sample, width);
    std::copy_n(probabilities_.begin(), width, to + output.span.lo[kC]);
    std::copy_n(of_sample, labels, to + outputs_ + truth.span.lo[kC]);
  }
}

double ClassLoss::gradient(ConstView output, AnyConstView target, std::span<const double>,
                           std::int64_t global_batch, View diff) {
  const ConstView truth = target.as<float>();
  const std::int64_t width = output.sample_volume();
  const auto terms = static_cast<double>(global_batch * target_shape().c);
  double loss = 0;
  for (std::int64_t n = 0; n < output.batch; ++n) {
    loss += judge(samples_of(output, n, 1).data, samples_of(truth, n, 1).data, width);
    std::transform(slopes_.begin(), slopes_.begin() + width, samples_of(diff, n, 1).data,
                   [terms](double slope) { return static_cast<float>(slope / terms); });
  }
  return loss / terms;
}

Quality ClassLoss::quality(std::span<const double> terms) const {
  const std::size_t samples = terms.size() / sums_per_sample();
  const auto outputs = static_cast<std::size_t>(outputs_);
  std::vector<double> probabilities;
  std::vector<std::int64_t> labels;
  double loss = 0;
  for (std::size_t n = 0; n < samples; ++n) {
    const auto of_sample = terms.subspan(n * sums_per_sample(), sums_per_sample());
    for (const double p : of_sample.first(outputs)) {
      if (binary_) probabilities.push_back(1 - p);
      probabilities.push_back(p);
    }
    for (std::size_t at = outputs; at + 1 < of_sample.size(); ++at)
      labels.push_back(static_cast<std::int64_t>(of_sample[at]));
    loss += of_sample.back();
  }
  Quality quality;
  quality.loss = loss / static_cast<double>(labels.size());
  quality.samples = static_cast<std::int64_t>(samples);
  quality.labels =
      class_scores(probabilities, labels, samples, static_cast<std::size_t>(sample_classes()));
  quality.score = quality.labels->accuracy;
  return quality;
}

namespace {

template <bool kBinary>
std::unique_ptr<Loss> made_of_classes(const Shape& output, const LossSettings& settings) {
  return std::make_unique<ClassLoss>(output, kBinary,
                                     kBinary ? std::vector<double>() : settings.weights);
}

const Registered<NamedSampleLoss> kSampleCrossEntropy([] {
  return NamedSampleLoss{
      {"ce", "the cross entropy of a class for each sample, 0 to T-1", made_of_classes<false>}};
});
const Registered<NamedSampleLoss> kBinaryCrossEntropy([] {
  return NamedSampleLoss{{"bce", "the binary cross entropy of T labels of 0 or 1 for each sample",
                          made_of_classes<true>}};
});

}  // namespace

}  // namespace halomesh
