// SPDX-License-Identifier: Apache-2.0
// Platforms of SimGrid: see platform.hpp.
#include "src/apps/forecast/platform.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "error.hpp"

namespace halomesh {
namespace {

// The extents whose sum is least: of all that multiply to `nodes`, the most cube-like.
std::array<std::int64_t, 3> cube(std::int64_t nodes) {
  std::array<std::int64_t, 3> best{nodes, 1, 1};
  for (std::int64_t a = 1; a * a * a <= nodes; ++a)
    for (std::int64_t b = a; nodes % a == 0 && a * b * b <= nodes; ++b)
      if (nodes / a % b == 0 && nodes / a / b + a + b < best[0] + best[1] + best[2])
        best = {nodes / a / b, b, a};
  return best;
}

std::string topology(const Machine& machine, std::int64_t nodes) {
  const std::vector<std::int64_t>& s = machine.shape;
  const auto wants = [&](std::size_t extents, const char* names) {
    if (s.size() != extents)
      throw UsageError(fmt::format("{}: a {} needs a shape of {} extents", machine.name,
                                   name_of(machine.interconnect), extents),
                       fmt::format("give shape = {}", names));
  };
  switch (machine.interconnect) {
    case Interconnect::kTorus: {
      const auto extents = cube(nodes);
      return fmt::format(R"(topology="TORUS" topo_parameters="{},{},{}")", extents[0], extents[1],
                         extents[2]);
    }
    case Interconnect::kDragonfly: {
      wants(4, "GROUPSxCHASSISxROUTERSxNODES");
      const std::int64_t of_group = s[1] * s[2] * s[3];
      const std::int64_t groups = std::max<std::int64_t>((nodes + of_group - 1) / of_group, 2);
      // Ten optical links of each router, shared among the pairs of groups.
      const std::int64_t blue = std::max<std::int64_t>(10 * s[1] * s[2] / (groups - 1), 1);
      return fmt::format(R"(topology="DRAGONFLY" topo_parameters="{},{};{},3;{},1;{}")", groups,
                         blue, s[1], s[2], s[3]);
    }
    case Interconnect::kFatTree: {
      if (s.empty()) return fmt::format(R"(topology="FAT_TREE" topo_parameters="1;{};1;1")", nodes);
      wants(3, "NODESxSWITCHESxSWITCHES, the children of each level");
      const std::int64_t top = (nodes + s[0] * s[1] - 1) / (s[0] * s[1]);
      return fmt::format(R"(topology="FAT_TREE" topo_parameters="3;{0},{1},{2};1,{1},{1};1,1,1")",
                         s[0], s[1], std::max<std::int64_t>(top, 1));
    }
    case Interconnect::kNone:
      break;
  }
  throw UsageError(fmt::format("{} has no network between nodes", machine.name),
                   "name a machine with a network, or calibrate on two nodes or more");
}

// Hosts that the topology has: SimGrid wants all of them named.
std::int64_t hosts(const Machine& machine, std::int64_t nodes) {
  const std::vector<std::int64_t>& s = machine.shape;
  if (machine.interconnect == Interconnect::kDragonfly) {
    const std::int64_t of_group = s[1] * s[2] * s[3];
    return std::max<std::int64_t>((nodes + of_group - 1) / of_group, 2) * of_group;
  }
  if (machine.interconnect == Interconnect::kFatTree && !s.empty()) {
    const std::int64_t of_pod = s[0] * s[1];
    return (nodes + of_pod - 1) / of_pod * of_pod;
  }
  return nodes;
}

}  // namespace

std::string platform_xml(const Machine& machine, std::int64_t nodes) {
  const std::string shape = topology(machine, nodes);
  const double link =
      machine.value("link-gbs") > 0 ? machine.value("link-gbs") : machine.value("message-gbs");
  const double wire = machine.value("hop-us");
  std::string xml =
      "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM "
      "\"https://simgrid.org/simgrid.dtd\">\n";
  xml += fmt::format(
      "<!-- {}: {} nodes. A message costs {:.3g} us beyond its links: "
      "smpi/os:0:{:.3g}:0 and smpi/or:0:{:.3g}:0 -->\n",
      machine.name, nodes, std::max(0.0, machine.value("latency-us") - wire),
      std::max(0.0, machine.value("latency-us") - wire) * 0.5e-6,
      std::max(0.0, machine.value("latency-us") - wire) * 0.5e-6);
  xml += "<platform version=\"4.1\"><zone id=\"w\" routing=\"Full\">\n";
  xml += fmt::format(
      "<cluster id=\"m\" prefix=\"n\" suffix=\"\" radical=\"0-{}\" speed=\"1Gf\" core=\"{}\" "
      "bw=\"{:.6g}GBps\" lat=\"{:.6g}us\" {} sharing_policy=\"SPLITDUPLEX\" "
      "loopback_bw=\"{:.6g}GBps\" loopback_lat=\"{:.6g}us\"/>\n",
      hosts(machine, nodes) - 1, machine.ranks_per_node(), link, wire, shape,
      machine.value("node-message-gbs"), machine.value("node-latency-us"));
  return xml + "</zone></platform>\n";
}

}  // namespace halomesh
