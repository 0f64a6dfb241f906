// SPDX-License-Identifier: Apache-2.0
// The picture of a mesh: every arrow is a transfer of the plan, every dot a holder of a slice.
#include "src/apps/plan/picture.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "error.hpp"
#include "models/cosmoflow.hpp"
#include "test/harness/temp_files.hpp"

namespace halomesh {
namespace {

Model network(std::int64_t kernel) {
  CosmoFlowOptions options;
  options.kernel = kernel;
  return make_cosmoflow(options);
}

std::int64_t count(const std::string& text, const std::string& what) {
  std::int64_t found = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

std::int64_t count_to(const TransferPlan& plan, std::int64_t part) {
  std::int64_t found = 0;
  for (const Transfer& transfer : plan.transfers()) found += transfer.dst == part ? 1 : 0;
  return found;
}

TEST_CASE("a picture has an arrow for each transfer and a dot for each holder") {
  struct Row {
    PartGrid parts;
    std::int64_t kernel, replicas, part, columns;
  };
  std::int64_t arrows = 0;
  for (const Row& row :
       {Row{{2, 2, 1}, 3, 2, 0, 2}, Row{{2, 2, 1}, 2, 5, 3, 2}, Row{{4, 4, 1}, 2, 1, 5, 1},
        Row{{2, 2, 2}, 3, 2, 7, 2}, Row{{1, 3, 1}, 3, 2, 1, 2}}) {
    CAPTURE(to_string(row.parts));
    const Model model = network(row.kernel);
    const ModelGeometry geometry = model.geometry(row.parts);
    const std::string svg = draw_picture(geometry, {row.replicas, row.parts}, row.part);

    // The tensor that the picture names, and the weights of all layers.
    std::int64_t expected = 1;  // the legend's
    for (const TensorGeometry& tensor : geometry.tensors())
      if (svg.find("the tensor " + tensor.name + " of") != std::string::npos)
        expected += count_to(tensor.distribute, row.part) +
                    (row.columns == 2 ? std::ssize(tensor.distribute.transfers()) : 0);
    CHECK(expected > 1);
    CHECK(count(svg, "<line class=\"move\"") == expected);
    arrows += expected;

    std::int64_t lines = 0, dots = 0;
    std::string before;
    for (const ParameterPlacement& parameter : geometry.parameters()) {
      if (parameter.number != 0) continue;
      std::string holders;
      for (const SliceHolders& slice : parameter.holders) {
        for (const std::int64_t part : slice.parts) holders += std::to_string(part) + ' ';
        holders += '|';
      }
      if (holders == before) continue;  // layers with the same holders share their lines
      before = holders;
      lines += std::ssize(parameter.holders);
      for (const SliceHolders& slice : parameter.holders) dots += std::ssize(slice.parts);
    }
    CHECK(count(svg, "<line class=\"sum\"") == lines);
    CHECK(count(svg, "<circle class=\"holder\"") == dots * row.columns);
    CHECK(count(svg, "<rect class=\"rank\"") == row.parts.count() * row.columns);
  }
  CHECK(arrows > 50);
}

TEST_CASE("the picture of the documentation is what plan draws today") {
  const char* root = std::getenv("HALOMESH_SOURCE");  // NOLINT(concurrency-mt-unsafe)
  const std::filesystem::path file =
      std::filesystem::path(root != nullptr ? root : ".") / "docs/images/cut.svg";
  const Model model = network(3);
  const PartGrid parts{2, 2, 1};
  INFO("make docs/images/cut.svg draws it again");
  CHECK(contents(file) == draw_picture(model.geometry(parts), {2, parts}, 0));
}

TEST_CASE("what cannot be drawn is refused") {
  const Model model = network(2);
  const auto draw = [&](const PartGrid& parts, std::int64_t part) {
    return draw_picture(model.geometry(parts), {1, parts}, part);
  };
  CHECK_THROWS_AS(draw({1, 1, 1}, 0), UsageError);  // nothing moves
  CHECK_THROWS_AS(draw({2, 2, 1}, 4), UsageError);  // no such part
  CHECK_THROWS_AS(draw({2, 2, 1}, -1), UsageError);
  CHECK_THROWS_AS(draw({17, 1, 1}, 0), UsageError);  // too many to see
}

}  // namespace
}  // namespace halomesh
