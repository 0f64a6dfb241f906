// SPDX-License-Identifier: Apache-2.0
// The file of --simulate-compute: see timed_machine.hpp.
#include "src/apps/bench/timed_machine.hpp"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "error.hpp"
#include "simulation.hpp"
#include "src/apps/options/option_text.hpp"

namespace halomesh {
namespace {

using Json = nlohmann::json;

/// The number at `path`, e.g. "/peak/fp32_flops_per_second"; `otherwise` where there is none.
double number_at(const Json& machine, const std::string& path, const std::string& file,
                 std::optional<double> otherwise = {}) {
  const Json::json_pointer pointer(path);
  const bool present = machine.contains(pointer) && machine.at(pointer).is_number();
  require(present || otherwise, text("{} has no number at {}", file, path),
          "write it with bench --calibrate, or add the number");
  const double value = present ? machine.at(pointer).get<double>() : *otherwise;
  require(std::isfinite(value) && value >= 0, text("{} has {} at {}", file, value, path),
          "give a number of at least 0");
  return value;
}

Shape shape_of(const Json& kernel, const char* key, const std::string& file) {
  const auto extents = kernel.value(key, std::string());
  const std::optional<Shape> shape = from_text<Shape>(extents);
  require(shape.has_value(), text("{} has a kernel with {} \"{}\"", file, key, extents),
          "write extents as DxHxWxC");
  return *shape;
}

KernelPass pass_of(const Json& kernel, const std::string& file) {
  const auto name = kernel.value("pass", std::string());
  for (const KernelPass pass :
       {KernelPass::kForward, KernelPass::kBackwardData, KernelPass::kBackwardParameters})
    if (name == name_of(pass)) return pass;
  throw Error(fmt::format("{} has a kernel with pass \"{}\"", file, name),
              "use forward, backward data or backward parameters");
}

void add_kernels(const Json& machine, const std::string& file, KernelTable& table) {
  for (const Json& kernel : machine.value("kernels", Json::array())) {
    KernelCase call;
    call.kernel = kernel.value("kernel", std::string());
    call.pass = pass_of(kernel, file);
    call.src = shape_of(kernel, "src", file);
    call.dst = shape_of(kernel, "dst", file);
    call.batch = kernel.value("batch", std::int64_t{1});
    call.threads = kernel.value("threads", 1);
    call.flops = kernel.value("flops", 0.0);
    call.bytes = kernel.value("bytes", 0.0);
    table.add(call, kernel.value("seconds", 0.0));
  }
}

}  // namespace

std::unique_ptr<TimedMachine> read_timed_machine(const std::string& file) {
  std::ifstream stream(file);
  require(static_cast<bool>(stream), text("{} cannot be read", file),
          "give --simulate-compute a file that bench --calibrate has written");
  const Json json = Json::parse(stream, nullptr, false);
  require(json.is_object(), text("{} is no JSON object", file),
          "give --simulate-compute a file that bench --calibrate has written");
  auto machine = std::make_unique<TimedMachine>();
  machine->name = json.value("name", file);
  machine->threads = static_cast<int>(number_at(json, "/threads", file, 1));
  machine->rank_peak.fp32 = number_at(json, "/peak/fp32_flops_per_second", file);
  machine->rank_peak.bf16 = number_at(json, "/peak/bf16_flops_per_second", file, 0);
  machine->rank_peak.triad = number_at(json, "/peak/triad_bytes_per_second", file);
  machine->copy_s_per_byte = number_at(json, "/network/copy_s_per_byte", file);
  machine->add_s_per_byte = number_at(json, "/network/add_s_per_byte", file);
  machine->poll_s = number_at(json, "/network/poll_s", file);
  machine->kernels.rates = {machine->rank_peak.fp32, number_at(json, "/kernel_efficiency", file, 1),
                            machine->rank_peak.triad};
  add_kernels(json, file, machine->kernels);
  if constexpr (simulation::kOn)
    simulation::set_rates(
        {machine->copy_s_per_byte, machine->add_s_per_byte, 1 / machine->rank_peak.triad});
  return machine;
}

}  // namespace halomesh
