// SPDX-License-Identifier: Apache-2.0
// Cases of kernel times that layers make of their boxes, against literal numbers.
#include "src/nn/kernel_case.hpp"

#include <doctest/doctest.h>

#include "src/nn/kernels/convolution_block.hpp"
#include "src/nn/layers/dense.hpp"
#include "src/nn/layers/pooling.hpp"

namespace halomesh {
namespace {

const std::vector<DataType> kFloats{DataType::kFloat32};

TEST_CASE("the case of a convolution block on half a sample") {
  ConvolutionBlockOptions options;
  options.filters = 32;
  options.window = WindowOptions::cube(2, 1, PaddingKind::kSame);
  const ConvolutionBlock layer(options);
  const std::vector<Shape> src{{16, 8, 8, 8}};
  const LayerBoxes boxes =
      boxes_of(layer, src, {Box{{0, 0, 0, 0}, {16, 4, 8, 8}}}, Box{{0, 0, 0, 0}, {32, 2, 4, 4}});
  const KernelCase call = kernel_case(layer, KernelPass::kBackwardData, src, boxes, kFloats, 3, 2);
  CHECK(call.kernel == "block 2x2x2 same pool 2x2x2 fp32");
  CHECK(call.pass == KernelPass::kBackwardData);
  CHECK(call.src == Shape{16, 5, 8, 8});
  CHECK(call.dst == Shape{32, 2, 4, 4});
  CHECK(call.batch == 3);
  CHECK(call.threads == 2);
  CHECK(call.flops == 3 * 2.0 * 32 * 4 * 8 * 8 * 16 * 8);
  CHECK(call.bytes == 4.0 * (3 * (16 * 5 * 64 + 32 * 2 * 16) + 32 * 16 * 8 + 32));
  // By channels: half of the rows of the weight, over all of space.
  const LayerBoxes rows =
      boxes_of(layer, src, {Box::whole(src[0])}, Box{{16, 0, 0, 0}, {32, 4, 4, 4}});
  const KernelCase half = kernel_case(layer, KernelPass::kForward, src, rows, kFloats, 1, 1);
  CHECK(half.flops == 2.0 * 16 * 8 * 8 * 8 * 16 * 8);
  CHECK(half.bytes == 4.0 * (16 * 512 + 16 * 64 + 16 * 16 * 8 + 16));
}

TEST_CASE("names tell kernels apart, and idle parts have none") {
  ConvolutionBlockOptions options;
  options.compute = DataType::kBfloat16;
  options.kernels = GradientKernels::kDense;
  options.window.dilation = {1, 2, 1};
  CHECK(ConvolutionBlock(options).kernel_name() ==
        "block 1x1x1 dilation 1x2x1 same pool 2x2x2 bf16 to fp32 dense gradients");
  const MaxPooling pooling(WindowOptions::cube(3, 2, PaddingKind::kValid));
  CHECK(pooling.kernel_name() == "max pooling 3x3x3 stride 2x2x2 valid fp32");
  const std::vector<Shape> src{{16, 8, 8, 8}};
  const LayerBoxes idle = boxes_of(pooling, src, {Box{}}, Box{});
  CHECK(kernel_case(pooling, KernelPass::kForward, src, idle, kFloats, 1, 1).kernel.empty());
  const LayerBoxes all = boxes_of(pooling, src, {Box::whole(src[0])}, Box::whole({16, 3, 3, 3}));
  CHECK(!kernel_case(pooling, KernelPass::kForward, src, all, kFloats, 1, 1).kernel.empty());
  CHECK(kernel_case(pooling, KernelPass::kBackwardParameters, src, all, kFloats, 1, 1)
            .kernel.empty());
}

TEST_CASE("a dense layer's share is that of its input") {
  const Dense layer(10);
  const std::vector<Shape> src{{8, 4, 1, 1}};
  const LayerBoxes boxes = boxes_of(layer, src, {Box{{0, 0, 0, 0}, {2, 4, 1, 1}}}, Box{});
  const KernelCase call = kernel_case(layer, KernelPass::kForward, src, boxes, kFloats, 2, 1);
  CHECK(call.kernel == "dense fp32");
  CHECK(call.flops == 2 * 2.0 * 8 * 10);
  CHECK(call.bytes == 4.0 * (2 * (8 + 10) + 8 * 10));
}

}  // namespace
}  // namespace halomesh
