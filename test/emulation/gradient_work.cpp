// SPDX-License-Identifier: Apache-2.0
// Computes one gradient of a convolution of CosmoFlow (32x32x32 voxels, SAME padding, behind it max
// pooling of 2x2x2) several times, for an emulator that counts instructions. Prints the kernel.
// Usage: gradient_work CONVOLUTION KERNEL weights|data sparse|dense|library TIMES
//   CONVOLUTION: 2 to 5; KERNEL: 2 or 3 voxels
//   dense: the library's kernel and the un-pooling before it; library: its kernel alone
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "error.hpp"
#include "rng.hpp"
#include "src/nn/kernels/pooled_activation.hpp"
#include "src/nn/kernels/sparse_data_gradient.hpp"
#include "src/nn/kernels/sparse_weight_gradient.hpp"
#include "src/nn/onednn/onednn.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kExtent = 32, kFilters = 32;
constexpr float kSlope = 0.3F;

struct Work {
  Work(std::int64_t number, std::int64_t kernel)
      : extent(kExtent >> (number - 1)),
        ci(kFilters << (number - 2)),
        co(2 * ci),
        geometry{{ci, extent, extent, extent},
                 {co, extent, extent, extent},
                 {kernel, kernel, kernel},
                 {1, 1, 1},
                 {1, 1, 1},
                 {(kernel - 1) / 2, (kernel - 1) / 2, (kernel - 1) / 2},
                 {kernel / 2, kernel / 2, kernel / 2}},
        src(Box::whole(geometry.src), 1),
        planes(Box::whole(geometry.dst), 1),
        diff(Box::whole({co, extent / 2, extent / 2, extent / 2}), 1),
        won(static_cast<std::size_t>(diff.view().sample_volume())),
        weight(static_cast<std::size_t>(co * ci * kernel * kernel * kernel), 0.01F),
        bias(static_cast<std::size_t>(co)) {
    const CounterRng rng(1, RandomUse::kSynth);
    for (std::size_t i = 0; i < won.size(); ++i) {
      won[i] = static_cast<std::uint8_t>(rng.block(i)[1] & 0x87U);
      diff.view().data[i] = static_cast<float>(rng.block(i)[2] >> 28U);
    }
    for (std::int64_t i = 0; i < src.view().sample_volume(); ++i)
      src.view().data[i] = static_cast<float>(rng.block(static_cast<std::uint64_t>(i))[3] >> 28U);
  }
  PooledWeightGradient::Geometry pooled() const { return {ci, co, geometry.kernel, {2, 2, 2}}; }
  Spatial extents() const { return diff.view().span.shape().spatial(); }
  PooledWeightGradient::Pooled<float> diffs() const { return {diff.view().data, step()}; }
  PooledWeightGradient::Argmax argmax() const { return {won.data(), step()}; }
  Spatial step() const { return {extents()[1] * extents()[2] * co, extents()[2] * co, co}; }
  Spatial corner() const {
    const Spatial& pad = geometry.pad_before;
    return {-pad[0], -pad[1], -pad[2]};
  }

  std::int64_t extent, ci, co;
  ConvolutionGeometry geometry;
  Tensor src, planes, diff;
  std::vector<std::uint8_t> won;
  std::vector<float> weight, bias;
};

void run_library(Work& w, bool of_weights, bool unpools, int times) {
  ConvolutionKernels kernels({DataType::kFloat32, DataType::kFloat32, false});
  const std::size_t kernel =
      of_weights ? kernels.add_backward_weights(w.geometry) : kernels.add_backward_data(w.geometry);
  kernels.allocate({}, false);
  kernels.load_weights(w.weight.data(), w.bias.data());
  kernels.load_backward_weights();
  std::cout << kernels.implementations().back() << '\n';
  const PooledActivation activation{{2, 2, 2}, kSlope};
  const Box box = w.diff.view().span;
  BiasSums sums(w.co);
  std::byte* const planes = w.planes.any_view().data;
  for (int i = 0; i < times; ++i) {
    if (unpools)
      activation.backward(w.diff.any_view(), Argmax{w.won.data(), box, 1}, box, 0,
                          {planes, DataType::kFloat32, {0, w.extent}},
                          of_weights ? &sums : nullptr);
    if (of_weights) {
      kernels.backward_weights(kernel, w.src.any_view().data, planes);
      kernels.store_diff_weights(w.weight.data(), nullptr);
    } else {
      kernels.backward_data(kernel, planes, w.src.any_view().data);
    }
  }
}

void run_sparse(Work& w, bool of_weights, int times) {
  std::cout << "sparse:halomesh\n";
  if (of_weights) {
    SparseWeightGradient kernel(w.pooled(), w.extents(), 1);
    for (int i = 0; i < times; ++i) {
      kernel.add(PooledWeightGradient::Source<float>{w.src.view().data, w.geometry.src.spatial(),
                                                     w.corner()},
                 w.extents(), w.diffs(), w.argmax(), kSlope, true);
      kernel.store(w.weight.data(), w.bias.data());
    }
    return;
  }
  SparseDataGradient kernel(w.pooled(), w.extents(), 1, DataType::kFloat32, w.extent, w.extent);
  kernel.load_weights(w.weight.data());
  const std::int64_t row = w.extent * w.ci;
  const SparseDataGradient::Target<float> target{
      w.src.view().data, {w.extent * row, row, w.ci}, w.geometry.src.spatial(), w.corner()};
  for (int i = 0; i < times; ++i)
    kernel.run(target, w.extents(), {0, w.extents()[0]}, w.diffs(), w.argmax(), kSlope);
}

void run(const std::vector<std::string>& words) {
  require(words.size() == 5, text("gradient_work with {} arguments", words.size()),
          "give CONVOLUTION KERNEL weights|data sparse|dense|library TIMES");
  Work work(std::stoi(words[0]), std::stoi(words[1]));
  const bool of_weights = words[2] == "weights";
  if (words[3] == "sparse")
    run_sparse(work, of_weights, std::stoi(words[4]));
  else
    run_library(work, of_weights, words[3] == "dense", std::stoi(words[4]));
}

}  // namespace
}  // namespace halomesh

int main(int argc, char** argv) {
  try {
    halomesh::run({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& e) {
    std::cerr << "gradient_work: " << e.what() << '\n';
    return 1;
  }
}
