// SPDX-License-Identifier: Apache-2.0
// Cases of kernel times: see kernel_case.hpp.
#include "src/nn/kernel_case.hpp"

namespace halomesh {
namespace {

// The part's share of the layer's work: its share of the input where it makes partial sums,
// otherwise of the output.
double share_of(const Layer& layer, std::span<const Shape> src_shapes, const LayerBoxes& boxes) {
  const Box& part = layer.splits_over_input() ? boxes.src_needed[0] : boxes.dst_produced;
  const Shape whole = layer.splits_over_input() ? src_shapes[0] : layer.dst_shape(src_shapes);
  return static_cast<double>(part.volume()) / static_cast<double>(whole.volume());
}

}  // namespace

KernelCase kernel_case(const Layer& layer, KernelPass pass, std::span<const Shape> src_shapes,
                       const LayerBoxes& boxes, std::span<const DataType> src_types,
                       std::int64_t batch, int threads) {
  const std::vector<ParameterGeometry> parameters = layer.parameters(src_shapes);
  KernelCase call;
  call.pass = pass;
  call.batch = batch;
  call.threads = threads;
  if (boxes.dst_produced.empty() || boxes.src_needed[0].empty() ||
      (pass == KernelPass::kBackwardParameters && parameters.empty()))
    return call;
  call.kernel = layer.kernel_name();
  call.src = boxes.src_needed[0].shape();
  call.dst = boxes.dst_produced.shape();
  call.flops = static_cast<double>(batch * layer.forward_flops(src_shapes)) *
               share_of(layer, src_shapes, boxes);
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < boxes.src_needed.size(); ++i)
    bytes += batch * boxes.src_needed[i].volume() * size_of(src_types[i]);
  bytes += batch * call.dst.volume() * size_of(layer.dst_type(src_types));
  for (std::size_t i = 0; i < parameters.size(); ++i)
    bytes += layer.parameter_slice(i, boxes, src_shapes).volume() * size_of(DataType::kFloat32);
  call.bytes = static_cast<double>(bytes);
  return call;
}

}  // namespace halomesh
