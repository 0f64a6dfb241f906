// SPDX-License-Identifier: Apache-2.0
// The distinct kernels of many meshes: see kernel_cases.hpp.
#include "src/apps/bench/kernel_cases.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "src/nn/kernel_case.hpp"
#include "src/nn/model_on_part.hpp"

namespace halomesh {
namespace {

/// The cost of measuring a case, in operations. A layer without operations, such as an activation,
/// moves bytes, each of which counts as ten operations.
double effort(const LayerCase& one) { return one.flops + 10.0 * static_cast<double>(one.memory); }

std::string key_of(const LayerCase& one) {
  std::string key;
  for (const KernelCase& pass : one.passes)
    for (const auto value :
         {static_cast<std::int64_t>(pass.pass), pass.src.d, pass.src.h, pass.src.w, pass.src.c,
          pass.dst.d, pass.dst.h, pass.dst.w, pass.dst.c})
      key += fmt::format("{} ", value);
  return key + one.passes.front().kernel;
}

std::int64_t bytes_of(const Box& box, DataType type) { return box.volume() * size_of(type); }

/// The passes of one layer on one part; empty if it computes nothing that can be measured.
LayerCase case_of(const Model& model, const ModelGeometry& geometry, std::size_t layer,
                  std::int64_t part, std::int64_t batch, int threads,
                  const std::vector<bool>& with_diff) {
  const ModelLayer& entry = model.layers()[layer];
  const LayerPlacement& placement = geometry.layers()[layer];
  const auto at = static_cast<std::size_t>(part);
  const std::vector<DataType> types = model.types();
  LayerCase result{geometry.grid(), layer, part, {}, 0, 0, 0};
  std::vector<DataType> src_types;
  bool diff_wanted = false;
  for (const std::size_t i : entry.inputs) {
    src_types.push_back(types[i]);
    diff_wanted = diff_wanted || with_diff[i];
    result.memory += 2 * batch * bytes_of(geometry.tensors()[i].span[at], types[i]);
  }
  result.memory += 2 * batch * bytes_of(geometry.tensors()[layer + 1].span[at], types[layer + 1]);
  for (const KernelPass pass :
       {KernelPass::kForward, KernelPass::kBackwardData, KernelPass::kBackwardParameters}) {
    if (pass == KernelPass::kBackwardData && !diff_wanted) continue;
    KernelCase call = kernel_case(*entry.layer, pass, placement.src_shapes, placement.boxes[at],
                                  src_types, batch, threads);
    if (call.kernel.empty()) continue;
    result.flops += call.flops;
    result.passes.push_back(std::move(call));
  }
  return result;
}

}  // namespace

std::vector<PartGrid> part_grids(std::int64_t most_parts) {
  std::vector<PartGrid> grids;
  for (std::int64_t d = 1; d <= most_parts; ++d)
    for (std::int64_t h = 1; d * h <= most_parts; ++h)
      for (std::int64_t w = 1; d * h * w <= most_parts; ++w) grids.push_back({d, h, w});
  std::stable_sort(grids.begin(), grids.end(),
                   [](const PartGrid& a, const PartGrid& b) { return a.count() < b.count(); });
  return grids;
}

std::vector<LayerCase> layer_cases(const Model& model, const std::vector<PartGrid>& grids,
                                   std::int64_t batch, int threads) {
  std::vector<LayerCase> cases;
  std::map<std::string, std::size_t> known;
  for (const PartGrid& grid : grids) {
    const ModelGeometry geometry = model.geometry(grid);
    const std::vector<bool> with_diff = tensors_with_diff(model, geometry);
    std::set<std::size_t> of_mesh;
    for (std::size_t l = 0; l < model.layers().size(); ++l)
      for (std::int64_t part = 0; part < grid.count(); ++part) {
        LayerCase one = case_of(model, geometry, l, part, batch, threads, with_diff);
        if (one.passes.empty()) continue;
        const auto [at, is_new] = known.emplace(key_of(one), cases.size());
        if (is_new) cases.push_back(std::move(one));
        if (of_mesh.insert(at->second).second) cases[at->second].meshes += 1;
      }
  }
  std::stable_sort(cases.begin(), cases.end(), [](const LayerCase& a, const LayerCase& b) {
    return effort(a) * b.meshes < effort(b) * a.meshes;
  });
  return cases;
}

double kernels_of_step(const Model& model, const KernelTable& table, std::int64_t batch,
                       int threads) {
  const ModelGeometry geometry = model.geometry({});
  const std::vector<bool> with_diff = tensors_with_diff(model, geometry);
  double sum = 0;
  for (std::size_t l = 0; l < model.layers().size(); ++l)
    for (const KernelCase& pass :
         case_of(model, geometry, l, 0, batch, threads, with_diff).passes) {
      const KernelTime time = table.time(pass);
      if (time.source == KernelTime::Source::kRoofline) return 0;
      sum += time.seconds;
    }
  return sum;
}

}  // namespace halomesh
