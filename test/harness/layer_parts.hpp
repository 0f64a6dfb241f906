// SPDX-License-Identifier: Apache-2.0
// The parts of a cut layer that this process runs: their layers, tensors and parameter slices,
// taken through one step. Gathers results into global arrays.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "test/harness/layer_check.hpp"

namespace halomesh {

/// Global results from the owners; NaN for elements that were not written. Orders as in
/// ReferenceOutput.
struct GatheredStep {
  std::vector<double> dst;
  std::vector<std::vector<double>> diff_src, diff_parameters;
  std::int64_t moved = 0;               ///< elements that went through the exchanges
  std::vector<std::string> violations;  ///< writes outside the box that a layer may write
  friend bool operator==(const GatheredStep&, const GatheredStep&) = default;
};

/// Says which parts this process runs, and moves boxes between all parts. `views` has one entry per
/// part; those of parts that run elsewhere are empty. Returns the number of elements that arrived
/// here.
class PartLink {
 public:
  PartLink() = default;
  PartLink(const PartLink&) = delete;
  PartLink& operator=(const PartLink&) = delete;
  virtual ~PartLink() = default;

  virtual bool runs(std::size_t part) const = 0;
  /// Copies along `plan`.
  virtual std::int64_t copy(const TransferPlan& plan, const std::vector<AnyView>& views) = 0;
  /// Adds along the reversed plan.
  virtual std::int64_t add_back(const TransferPlan& plan, const std::vector<AnyView>& views) = 0;
};

/// All parts in this process; boxes move by InProcessExchange.
class InProcessLink final : public PartLink {
 public:
  bool runs(std::size_t) const override { return true; }
  std::int64_t copy(const TransferPlan& plan, const std::vector<AnyView>& views) override;
  std::int64_t add_back(const TransferPlan& plan, const std::vector<AnyView>& views) override;
};

/// Calls visit(index in the slice's memory, index in the whole parameter's memory) for each element
/// of `slice`, in the order that ParameterView prescribes.
void for_each_parameter_element(const ParameterGeometry& geometry, const ParameterSlice& slice,
                                const std::function<void(std::size_t, std::size_t)>& visit);

/// The parts of one LayerCase that `link` runs here, with the values of one ReferenceInput. All
/// arguments must outlive this object.
class LayerParts {
 public:
  LayerParts(const LayerCase& test, const ReferenceInput& input, PartLink& link);
  /// Runs forward over the parts, and backward if the cut is for training. Results of parts that
  /// run elsewhere stay NaN.
  GatheredStep run_step();

 private:
  struct Part {
    LayerContext context;
    std::unique_ptr<Layer> layer;  ///< null if it produces nothing or runs elsewhere
    std::vector<Tensor> src, diff_src;
    Tensor dst, diff_dst;
    std::vector<ParameterSlice> slices;
    std::vector<std::vector<float>> values, diffs;  ///< per parameter: this part's slice
    std::vector<AnyConstView> src_views;
  };
  void make_part(std::size_t index);
  void prepare(Part& part);
  void fill_src();
  void forward(GatheredStep& step);
  void run_chunks(bool remote);
  static bool starts_at_zero(const Part& part);
  void check_untouched(const Part& part, GatheredStep& step) const;
  void backward(GatheredStep& step);
  Box src_owned_here(std::size_t input, std::size_t part) const;
  void fill_diffs(Part& part);
  void gather_parameters(GatheredStep& step) const;

  const LayerCase& test_;
  const ReferenceInput& input_;
  PartLink& link_;
  LayerCut cut_;
  std::vector<ParameterGeometry> geometry_;
  std::vector<Part> parts_;
};

}  // namespace halomesh
