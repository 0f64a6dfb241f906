// SPDX-License-Identifier: Apache-2.0
// The measurements of one machine as JSON: see machine_record.hpp.
#include "src/apps/bench/machine_record.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "src/apps/bench/bench_report.hpp"
#include "src/apps/launch/version.hpp"
#include "src/apps/options/option_text.hpp"

namespace halomesh {
namespace {

using Json = nlohmann::ordered_json;

Json positive_or_null(double value) { return value > 0 ? Json(value) : Json(); }

Json link_json(const std::optional<LinkRecord>& link) {
  if (!link) return nullptr;
  return {{"latency_s", link->fit.latency_s},
          {"s_per_byte", link->fit.s_per_byte},
          {"eager_bytes", link->eager_bytes}};
}

void add_ping_pong(Json& list, const std::optional<LinkRecord>& link, const char* name) {
  if (!link) return;
  for (const MessageTime& each : link->times)
    list.push_back({{"link", name}, {"bytes", each.bytes}, {"seconds", each.seconds}});
}

Json network_json(const MachineRecord& record) {
  Json json = {{"within_node", nullptr}, {"between_nodes", nullptr}};
  Json ping_pong = Json::array(), sums = Json::array(), barriers = Json::array();
  if (record.network) {
    const NetworkRecord& network = *record.network;
    json["within_node"] = link_json(network.within_node);
    json["between_nodes"] = link_json(network.between_nodes);
    json["injection_s_per_byte"] = positive_or_null(network.injection_s_per_byte);
    json["poll_cost_s"] = network.poll_cost_s;
    add_ping_pong(ping_pong, network.within_node, "within_node");
    add_ping_pong(ping_pong, network.between_nodes, "between_nodes");
    for (const SumTime& each : network.sums)
      sums.push_back({{"ranks", each.ranks},
                      {"bytes", each.bytes},
                      {"algorithm", each.algorithm},
                      {"seconds", each.seconds}});
    for (const auto& [ranks, seconds] : network.barriers)
      barriers.push_back({{"ranks", ranks}, {"seconds", seconds}});
  }
  json["add_s_per_byte"] = record.add_s_per_byte;
  json["copy_s_per_byte"] = record.copy.s_per_byte;
  json["core_copy_s_per_byte"] = record.copy.core_s_per_byte;
  json["team_s"] = record.copy.team_s;
  json["poll_s"] = positive_or_null(record.poll_s);
  json["ping_pong"] = ping_pong;
  json["sums"] = sums;
  json["barrier"] = barriers;
  return json;
}

Json kernels_json(const std::vector<MeasuredKernel>& kernels) {
  Json list = Json::array();
  for (const MeasuredKernel& each : kernels)
    list.push_back({{"kernel", each.call.kernel},
                    {"pass", name_of(each.call.pass)},
                    {"src", to_text(each.call.src)},
                    {"dst", to_text(each.call.dst)},
                    {"batch", each.call.batch},
                    {"threads", each.call.threads},
                    {"seconds", each.seconds},
                    {"flops", each.call.flops},
                    {"bytes", each.call.bytes}});
  return list;
}

KernelPass pass_named(const std::string& name) {
  for (const KernelPass pass : {KernelPass::kForward, KernelPass::kBackwardData})
    if (name == name_of(pass)) return pass;
  return KernelPass::kBackwardParameters;
}

const char* source(bool measured) { return measured ? "measured" : "not measured"; }

}  // namespace

double StepSpread::per_doubling() const { return relative_stddev * std::numbers::inv_sqrtpi; }

std::string StepSpread::problem() const {
  constexpr double kMost = 0.2;  // the largest value that a machine file may have
  if (per_doubling() <= kMost) return {};
  return fmt::format(
      "not recorded, as their relative standard deviation of {:.0f} % shows that other programs "
      "use the cores; calibrate when the machine is quiet",
      relative_stddev * 100);
}

Json to_json(const MachineRecord& record) {
  Json json = {{"name", record.name},
               {"cpu", record.cpu},
               {"cores", record.cores},
               {"memory_bytes", record.memory_bytes},
               {"ranks_per_node", record.ranks_per_node},
               {"threads", record.threads},
               {"isa", record.isa},
               {"program_version", version()},
               {"precision", name_of(record.precision)},
               {"ranks", record.ranks},
               {"nodes_measured", record.nodes},
               {"ranks_share_cores", record.shares_cores},
               {"peak", to_json(record.peak)},
               {"network", network_json(record)},
               {"kernels", kernels_json(record.kernels)},
               {"kernels_left_out",
                {{"time", record.kernels_left_out}, {"memory", record.kernels_too_large}}},
               {"step_spread", nullptr},
               {"input", nullptr}};
  if (record.step_spread)
    json["step_spread"] = {
        {"relative_stddev", record.step_spread->relative_stddev},
        {"per_doubling", record.step_spread->per_doubling()},
        {"steps", record.step_spread->steps},
        {"median_seconds", record.step_spread->median_s},
        {"kernel_time_factor", positive_or_null(record.step_spread->kernel_time_factor)}};
  if (record.input)
    json["input"] = {
        {"read_bytes_per_second", positive_or_null(record.input->read_bytes_per_second)},
        {"decode_bytes_per_second", positive_or_null(record.input->decode_bytes_per_second)},
        {"stage_bytes_per_second", nullptr}};
  json["sources"] = {{"peak", source(true)},
                     {"network", source(record.network.has_value())},
                     {"kernels", source(!record.kernels.empty())},
                     {"step_spread", source(record.step_spread.has_value())},
                     {"input", source(record.input.has_value())}};
  return json;
}

std::string to_text(const std::vector<MeasuredKernel>& kernels) {
  return kernels_json(kernels).dump();
}

std::vector<MeasuredKernel> kernels_of(const std::string& text) {
  std::vector<MeasuredKernel> kernels;
  for (const auto& each : nlohmann::json::parse(text)) {
    KernelCase call;
    call.kernel = each.at("kernel").get<std::string>();
    call.pass = pass_named(each.at("pass").get<std::string>());
    call.src = from_text<Shape>(each.at("src").get<std::string>()).value();
    call.dst = from_text<Shape>(each.at("dst").get<std::string>()).value();
    call.batch = each.at("batch").get<std::int64_t>();
    call.threads = each.at("threads").get<int>();
    call.flops = each.at("flops").get<double>();
    call.bytes = each.at("bytes").get<double>();
    kernels.push_back({call, each.at("seconds").get<double>()});
  }
  return kernels;
}

}  // namespace halomesh
