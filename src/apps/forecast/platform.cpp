// SPDX-License-Identifier: Apache-2.0
// Platforms of SimGrid: see platform.hpp.
#include "src/apps/forecast/platform.hpp"

#include <algorithm>

#include "error.hpp"
#include "src/apps/forecast/routes.hpp"

namespace halomesh {
namespace {

std::string parameters(const NetworkShape& t) {
  switch (t.kind) {
    case Interconnect::kTorus:
      return fmt::format(R"(topology="TORUS" topo_parameters="{},{},{}")", t.extents[0],
                         t.extents[1], t.extents[2]);
    case Interconnect::kDragonfly:
      return fmt::format(R"(topology="DRAGONFLY" topo_parameters="{},{};1,1;{},{};{}")", t.groups,
                         t.group_links, t.routers, t.pair_links, t.nodes_of_router);
    default:
      break;
  }
  if (t.children[1] * t.children[2] == 1)
    return fmt::format(R"(topology="FAT_TREE" topo_parameters="1;{};1;1")", t.children[0]);
  return fmt::format(R"(topology="FAT_TREE" topo_parameters="3;{0},{1},{2};1,{1},{1};1,1,1")",
                     t.children[0], t.children[1], t.children[2]);
}

}  // namespace

std::string platform_xml(const Machine& machine, std::int64_t nodes) {
  const NetworkShape topology = network_shape_of(machine, nodes);
  const double link = topology.link_bytes_per_s * 1e-9;
  const double wire = machine.value("hop-us");
  const double ends = std::max(0.0, machine.value("latency-us") - wire);
  std::string xml =
      "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM "
      "\"https://simgrid.org/simgrid.dtd\">\n";
  xml += fmt::format(
      "<!-- {0}: {1} nodes. What a message costs at each end: smpi/os:0:{2:.3g}:0 and "
      "smpi/or:0:{2:.3g}:0 -->\n",
      machine.name, nodes, ends * 0.5e-6);
  xml += "<platform version=\"4.1\"><zone id=\"w\" routing=\"Full\">\n";
  xml += fmt::format(
      "<cluster id=\"m\" prefix=\"n\" suffix=\"\" radical=\"0-{}\" speed=\"1Gf\" core=\"{}\" "
      "bw=\"{:.6g}GBps\" lat=\"{:.6g}us\" {} sharing_policy=\"SPLITDUPLEX\" "
      "loopback_bw=\"{:.6g}GBps\" loopback_lat=\"{:.6g}us\"/>\n",
      topology.nodes() - 1, machine.ranks_per_node(), link, wire, parameters(topology),
      machine.value("node-message-gbs"), std::max(0.0, machine.value("node-latency-us") - ends));
  return xml + "</zone></platform>\n";
}

}  // namespace halomesh
