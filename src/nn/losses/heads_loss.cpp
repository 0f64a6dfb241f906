// SPDX-License-Identifier: Apache-2.0
// The loss of several levels: see heads_loss.hpp.
#include "src/nn/losses/heads_loss.hpp"

#include <algorithm>
#include <utility>

#include "error.hpp"

namespace halomesh {
namespace {

/// Calls visit(n, d, h, w) for each voxel of each sample.
template <class Visit>
void for_each_level_voxel(std::int64_t batch, const Box& box, const Visit& visit) {
  for (std::int64_t n = 0; n < batch; ++n)
    for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
      for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h)
        for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w) visit(n, d, h, w);
}

}  // namespace

HeadsLoss::HeadsLoss(const Shape& output, std::vector<OutputHead> heads,
                     const std::function<std::unique_ptr<Loss>(const Shape& output)>& make)
    : heads_(std::move(heads)), levels_(heads_.size()) {
  for (const OutputHead& head : heads_) {
    const Spatial& f = head.factor;
    require(output.d % f[0] == 0 && output.h % f[1] == 0 && output.w % f[2] == 0,
            text("an output of 1/{}x{}x{} of {}", f[0], f[1], f[2], output),
            "use extents that each level divides, or train the first output alone");
    losses_.push_back(make({head.channels, output.d / f[0], output.h / f[1], output.w / f[2]}));
  }
}

TensorView<const std::uint8_t> HeadsLoss::Level::target(std::int64_t batch) const {
  Box voxels = box;
  voxels.hi[kC] = 1;
  return {labels.data(), voxels, batch};
}

template <class Visit>
void HeadsLoss::for_each_head(const Visit& visit) const {
  std::int64_t channel = 0;
  std::size_t sum = 0;
  for (std::size_t head = 0; head < heads_.size(); ++head) {
    visit(head, channel, sum);
    channel += heads_[head].channels;
    sum += losses_[head]->sums_per_sample();
  }
}

Box HeadsLoss::target_box(const Box& output) const {
  if (output.empty()) return {};
  std::int64_t channels = 0;
  for (const OutputHead& head : heads_) channels += head.channels;
  require(output.extent(kC) == channels,
          text("channels {} to {} of outputs of {} on one part", output.lo[kC], output.hi[kC] - 1,
               channels),
          "a part needs all classes of its voxels: cut the last layer in space only");
  Box first = output;
  first.hi[kC] = heads_.front().channels;
  return losses_.front()->target_box(first);
}

void HeadsLoss::expect_padding() {
  for (const auto& loss : losses_) loss->expect_padding();
}

std::size_t HeadsLoss::sums_per_sample() const {
  std::size_t sums = 0;
  for (const auto& loss : losses_) sums += loss->sums_per_sample();
  return sums;
}

/// Copies a head's voxels of a block to its level, with their labels.
HeadsLoss::Level& HeadsLoss::level_of(std::size_t head, std::int64_t channel, ConstView output,
                                      AnyConstView target) {
  const std::int64_t channels = heads_[head].channels;
  const Spatial& f = heads_[head].factor;
  const auto labels = target.as<std::uint8_t>();
  Level& level = levels_[head];
  level.box = output.span;
  level.box.lo[kC] = 0;
  level.box.hi[kC] = channels;
  for (const std::size_t axis : {kD, kH, kW}) {
    const std::int64_t factor = f[axis - kD];
    for (std::int64_t* const bound : {&level.box.lo[axis], &level.box.hi[axis]})
      *bound = (*bound + factor - 1) / factor;
  }
  const auto voxels = static_cast<std::size_t>(output.batch * level.box.volume() / channels);
  level.values.resize(voxels * static_cast<std::size_t>(channels));
  level.diffs.resize(level.values.size());
  level.labels.resize(voxels);
  float* to = level.values.data();
  std::uint8_t* label = level.labels.data();
  for_each_level_voxel(output.batch, level.box, [&](auto n, auto d, auto h, auto w) {
    to = std::copy_n(&output.at(n, output.span.lo[kC] + channel, d * f[0], h * f[1], w * f[2]),
                     channels, to);
    *label++ = labels.at(n, labels.span.lo[kC], d * f[0], h * f[1], w * f[2]);
  });
  return level;
}

void HeadsLoss::add_sums(ConstView output, AnyConstView target, std::span<double> sums) {
  const std::size_t all = sums_per_sample();
  for_each_head([&](std::size_t head, std::int64_t channel, std::size_t first) {
    Level& level = level_of(head, channel, output, target);
    const std::size_t own = losses_[head]->sums_per_sample();
    level.sums.assign(own * static_cast<std::size_t>(output.batch), 0);
    if (level.box.empty()) return;
    losses_[head]->add_sums(level.output(output.batch), level.target(output.batch), level.sums);
    for (std::size_t i = 0; i < level.sums.size(); ++i)
      sums[i / own * all + first + i % own] += level.sums[i];
  });
}

double HeadsLoss::gradient(ConstView output, AnyConstView target, std::span<const double> sums,
                           std::int64_t global_batch, View diff) {
  if (output.span.empty()) return 0;
  std::fill_n(diff.data, diff.batch * diff.sample_volume(), 0.0F);
  const std::size_t all = sums_per_sample();
  double loss = 0;
  for_each_head([&](std::size_t head, std::int64_t channel, std::size_t first) {
    const std::int64_t channels = heads_[head].channels;
    const Spatial& f = heads_[head].factor;
    const double weight = heads_[head].weight;
    Level& level = level_of(head, channel, output, target);
    if (level.box.empty()) return;
    const std::size_t own = losses_[head]->sums_per_sample();
    level.sums.assign(sums.empty() ? 0 : own * static_cast<std::size_t>(output.batch), 0);
    for (std::size_t i = 0; i < level.sums.size(); ++i)
      level.sums[i] = sums[i / own * all + first + i % own];
    loss += weight * losses_[head]->gradient(level.output(output.batch), level.target(output.batch),
                                             level.sums, global_batch, level.diff(output.batch));
    const float* from = level.diffs.data();
    for_each_level_voxel(output.batch, level.box, [&](auto n, auto d, auto h, auto w) {
      float* const to = &diff.at(n, diff.span.lo[kC] + channel, d * f[0], h * f[1], w * f[2]);
      for (std::int64_t c = 0; c < channels; ++c)
        to[c] = static_cast<float>(weight * static_cast<double>(*from++));
    });
  });
  return loss;
}

void HeadsLoss::conclude(std::span<double> sums) const {
  for_each_head([&](std::size_t head, std::int64_t, std::size_t first) {
    losses_[head]->conclude(sums.subspan(first, losses_[head]->sums_per_sample()));
  });
}

Quality HeadsLoss::quality(std::span<const double> terms) const {
  Quality quality;
  double loss = 0;
  for_each_head([&](std::size_t head, std::int64_t, std::size_t first) {
    Quality own = losses_[head]->quality(terms.subspan(first, losses_[head]->sums_per_sample()));
    loss += heads_[head].weight * own.loss;
    if (head == 0) quality = std::move(own);
  });
  quality.loss = loss;
  return quality;
}

}  // namespace halomesh
