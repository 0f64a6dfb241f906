// SPDX-License-Identifier: Apache-2.0
// A cut layer over real messages: see mpi_layer_check.hpp.
#include "test/harness/mpi_layer_check.hpp"

#include <cmath>
#include <limits>
#include <memory>

#include "error.hpp"
#include "runtime/step/exchange.hpp"
#include "test/harness/layer_parts.hpp"

namespace halomesh {
namespace {

class MessageLink final : public PartLink {
 public:
  explicit MessageLink(const Comm& comm) : comm_(comm) {}

  bool runs(std::size_t part) const override {
    return part == static_cast<std::size_t>(comm_.rank());
  }
  std::int64_t copy(const TransferPlan& plan, const std::vector<AnyView>& views) override {
    return run(plan, Combine::kCopy, views);
  }
  std::int64_t add_back(const TransferPlan& plan, const std::vector<AnyView>& views) override {
    return run(plan.reversed(), Combine::kAdd, views);
  }

 private:
  std::int64_t run(const TransferPlan& plan, Combine combine, const std::vector<AnyView>& views) {
    const AnyView view = views[static_cast<std::size_t>(comm_.rank())];
    Exchange exchange(comm_, next_tag_++, plan, combine, view);
    exchange.start();
    exchange.finish();
    return exchange.received_bytes() / size_of(view.type);
  }

  const Comm& comm_;
  int next_tag_ = 0;
};

// Sums the values of all ranks: NaN counts as nothing, and remains if no rank has a value.
void join(const Comm& comm, std::vector<double>& values) {
  std::vector<double> sums(2 * values.size());  // values, then the number of ranks with each
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isnan(values[i])) {
      sums[i] = values[i];
      sums[values.size() + i] = 1;
    }
  comm.sum(sums);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = sums[values.size() + i] > 0 ? sums[i] : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

CheckReport check_layer(const Comm& comm, const LayerCase& test) {
  require(test.cut.grid.count() == comm.size(),
          text("{}: {} parts on {} ranks", test.name, test.cut.grid.count(), comm.size()));
  MessageLink link(comm);
  return check_layer(test, [&](const LayerCase& c, const ReferenceInput& input) -> LayerStep {
    const auto parts = std::make_shared<LayerParts>(c, input, link);
    return [parts, &comm] {
      GatheredStep step = parts->run_step();
      join(comm, step.dst);
      for (std::vector<double>& values : step.diff_src) join(comm, values);
      for (std::vector<double>& values : step.diff_parameters) join(comm, values);
      step.moved = comm.sum(step.moved);
      return step;
    };
  });
}

std::int64_t expect_layer(const Comm& comm, const LayerCase& test, Findings& findings) {
  const CheckReport report = check_layer(comm, test);
  findings.add(report.dst + report.diff_src + report.diff_parameters, {});
  for (const std::string& failure : report.failures) findings.fail(test.name + ": " + failure);
  const bool backward = test.cut.training;
  const bool has_parameters = !test.make_layer()->parameters(test.cut.src_shapes).empty();
  if (report.dst == 0 || (report.diff_src > 0) != (backward && test.cut.src_diff_wanted) ||
      (report.diff_parameters > 0) != (backward && has_parameters))
    findings.fail(test.name + ": nothing was compared");
  return report.moved;
}

}  // namespace halomesh
