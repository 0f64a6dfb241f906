// All parts of a cut layer in one process: their layers, tensors and parameter slices, run through
// one step. Gathers results into global arrays; judges nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "test/harness/layer_check.hpp"

namespace halomesh {

/// Global results as every owner holds them; NaN where nobody wrote. Orders as ReferenceOutput.
struct GatheredStep {
  std::vector<double> dst;
  std::vector<std::vector<double>> diff_src, diff_parameters;
  std::int64_t moved = 0;               ///< elements that went through the exchanges
  std::vector<std::string> violations;  ///< writes outside the box that a layer may write
  friend bool operator==(const GatheredStep&, const GatheredStep&) = default;
};

/// Calls visit(index in the slice's memory, index in the whole parameter's memory) for each element
/// of `slice`, in the order that ParameterView prescribes.
void for_each_parameter_element(const ParameterGeometry& geometry, const Box& slice,
                                const std::function<void(std::size_t, std::size_t)>& visit);

/// The parts of one LayerCase with the values of one ReferenceInput.
class LayerParts {
 public:
  LayerParts(const LayerCase& test, const ReferenceInput& input);
  /// Forward over all parts, and backward when the cut is for training.
  GatheredStep run_step();

 private:
  struct Part {
    LayerPlace place;
    std::unique_ptr<Layer> layer;  ///< none when the part produces nothing
    std::vector<Tensor> src, diff_src;
    Tensor dst, diff_dst;
    std::vector<Box> slices;
    std::vector<std::vector<float>> values, diffs;  ///< per parameter: this part's slice
    std::vector<ConstView> src_views;
  };
  void make_part(std::size_t index);
  void prepare(Part& part);
  void fill_src();
  void forward(GatheredStep& step);
  void run_chunks(bool remote);
  void check_untouched(const Part& part, GatheredStep& step) const;
  void backward(GatheredStep& step);
  void fill_diffs(Part& part);
  void gather_parameters(GatheredStep& step) const;

  const LayerCase& test_;
  const ReferenceInput& input_;
  LayerCut cut_;
  std::vector<ParameterGeometry> geometry_;
  std::vector<Part> parts_;
};

}  // namespace halomesh
