// SPDX-License-Identifier: Apache-2.0
// Judges a step over parts against its reference: see layer_check.hpp.
#include "test/harness/layer_check.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <utility>

#include "error.hpp"
#include "rng.hpp"
#include "test/harness/layer_parts.hpp"

namespace halomesh {
namespace {

// Values are uniform in [-1, 1), exact in fp32, then mapped; there is one stream for each tensor.
std::vector<double> random_values(std::size_t size, std::uint64_t seed, std::uint32_t stream,
                                  const std::function<float(float)>& map) {
  const CounterRng rng(seed, RandomUse::kSynth, stream);
  std::vector<double> values(size);
  for (std::size_t i = 0; i < size; ++i) {
    values[i] = 2.0 * static_cast<double>(rng.uniform(i)) - 1.0;
    if (map) values[i] = static_cast<double>(map(static_cast<float>(values[i])));
  }
  return values;
}

ReferenceInput random_input(const LayerCase& test, const Layer& layer) {
  ReferenceInput input;
  std::uint32_t stream = 0;
  for (const Shape& shape : test.cut.src_shapes) {
    GlobalTensor& src = input.src.emplace_back(shape, test.cut.batch);
    src.values = random_values(src.values.size(), test.seed, stream++, test.src_value);
  }
  for (const ParameterGeometry& p : layer.parameters(test.cut.src_shapes))
    input.parameters.push_back(random_values(static_cast<std::size_t>(p.volume()), test.seed,
                                             stream++, test.parameter_value));
  input.diff_dst = GlobalTensor(layer.dst_shape(test.cut.src_shapes), test.cut.batch);
  input.diff_dst.values =
      random_values(input.diff_dst.values.size(), test.seed, stream++, test.diff_value);
  input.pass = test.pass;
  return input;
}

// Counts the compared elements; a NaN on either side fails.
std::int64_t compare(const std::string& what, const Estimate& expected,
                     const std::vector<double>& got, std::vector<std::string>& failures) {
  if (expected.values.size() != got.size()) {
    failures.push_back(
        fmt::format("{}: {} values, not {}", what, got.size(), expected.values.size()));
    return 0;
  }
  std::size_t wrong = 0, first = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!(std::abs(got[i] - expected.values[i]) <= expected.tolerance(i)) && wrong++ == 0)
      first = i;
  if (wrong > 0)
    failures.push_back(fmt::format(
        "{}: {} of {} values differ, first number {}: {:g}, not {:g} +- {:g}", what, wrong,
        got.size(), first, got[first], expected.values[first], expected.tolerance(first)));
  return static_cast<std::int64_t>(got.size());
}

// An inner product and the bound on its error that follows from the bounds of its first factor.
struct Product {
  double value = 0, tolerance = 0;
};

Product product(const std::vector<double>& got, const Estimate& bound,
                const std::vector<double>& exact) {
  Product p;
  for (std::size_t i = 0; i < got.size(); ++i) {
    p.value += got[i] * exact[i];
    p.tolerance += bound.tolerance(i) * std::abs(exact[i]);
  }
  return p;
}

// Checks for dst = A x + b that <dst, y> == <x, A'y> + <b, db> with y = diff_dst and, because A is
// linear in its weight w, that <dst, y> == <w, dw> + <b, db>. No reference value enters, only its
// bounds.
void check_adjoint(const ReferenceInput& input, const ReferenceOutput& bounds,
                   const GatheredStep& step, std::vector<std::string>& failures) {
  const Product forward = product(step.dst, bounds.dst, input.diff_dst.values);
  Product data, weight;
  const auto add = [](Product& sum, const Product& term) {
    sum.value += term.value;
    sum.tolerance += term.tolerance;
  };
  for (std::size_t i = 0; i < input.src.size(); ++i)
    add(data, product(step.diff_src[i], bounds.diff_src[i], input.src[i].values));
  for (std::size_t p = 0; p < input.parameters.size(); ++p) {
    const Product term =
        product(step.diff_parameters[p], bounds.diff_parameters[p], input.parameters[p]);
    add(weight, term);
    if (p > 0) add(data, term);
  }
  const auto judge = [&](const char* what, const Product& backward) {
    if (!(std::abs(forward.value - backward.value) <= forward.tolerance + backward.tolerance))
      failures.push_back(fmt::format("adjoint in {}: {:g} forward, {:g} backward", what,
                                     forward.value, backward.value));
  };
  judge("src", data);
  if (!input.parameters.empty()) judge("weight", weight);
}

void check_repeat(const LayerStep& run_step, GatheredStep step,
                  std::vector<std::string>& failures) {
  GatheredStep again = run_step();
  // NaN never equals itself; gradients that are not needed hold only NaN.
  for (GatheredStep* s : {&step, &again})
    for (std::vector<double>& diff : s->diff_src)
      for (double& v : diff)
        if (std::isnan(v)) v = 0;
  if (!(step == again)) failures.emplace_back("a second step gives different bits");
}

}  // namespace

CheckReport check_layer(const LayerCase& test) {
  InProcessLink link;
  return check_layer(test, [&link](const LayerCase& c, const ReferenceInput& input) -> LayerStep {
    const auto parts = std::make_shared<LayerParts>(c, input, link);
    return [parts] { return parts->run_step(); };
  });
}

CheckReport check_layer(const LayerCase& test, const MakeLayerStep& make_step) {
  const std::unique_ptr<Layer> layer = test.make_layer();
  const ReferenceInput input = random_input(test, *layer);
  const ReferenceOutput expected = test.reference(input);
  const LayerStep run_step = make_step(test, input);
  const GatheredStep step = run_step();
  CheckReport report;
  report.failures = step.violations;
  report.moved = step.moved;
  report.dst = compare("dst", expected.dst, step.dst, report.failures);
  if (test.cut.training) {
    if (test.cut.src_diff_wanted)
      for (std::size_t i = 0; i < input.src.size(); ++i)
        report.diff_src += compare(fmt::format("diff_src {}", i), expected.diff_src.at(i),
                                   step.diff_src.at(i), report.failures);
    for (std::size_t p = 0; p < input.parameters.size(); ++p)
      report.diff_parameters +=
          compare(fmt::format("diff of parameter {}", p), expected.diff_parameters.at(p),
                  step.diff_parameters.at(p), report.failures);
    if (test.linear && test.cut.src_diff_wanted)
      check_adjoint(input, expected, step, report.failures);
  }
  if (test.repeat) check_repeat(run_step, step, report.failures);
  return report;
}

CheckReport expect_layer(const LayerCase& test) {
  CheckReport report = check_layer(test);
  INFO(test.name);
  for (const std::string& failure : report.failures) FAIL_CHECK(failure);
  CHECK(report.dst > 0);
  const bool has_parameters = !test.make_layer()->parameters(test.cut.src_shapes).empty();
  CHECK((report.diff_src > 0) == (test.cut.training && test.cut.src_diff_wanted));
  CHECK((report.diff_parameters > 0) == (test.cut.training && has_parameters));
  return report;
}

void expect_on_all_cuts(LayerCase test, std::span<const PartGrid> grids) {
  for (const PartGrid& grid : grids) {
    test.cut.grid = grid;
    expect_layer(test);
  }
  test.cut.grid = {2, 2, 1};
  test.cut.src_margin = {1, 0, 2};
  expect_layer(test);
  test.cut.src_diff_wanted = false;
  expect_layer(test);
  test.cut.training = test.pass.training = false;
  expect_layer(test);
}

Partition channel_blocks(const Shape& shape, const std::vector<std::int64_t>& ends) {
  Partition blocks;
  std::int64_t begin = 0;
  for (const std::int64_t end : ends) {
    Box& box = blocks.emplace_back(Box::whole(shape));
    box.lo[kC] = std::exchange(begin, end);
    box.hi[kC] = end;
    box = box.normalized();  // two equal ends: a part without channels
  }
  return blocks;
}

}  // namespace halomesh
