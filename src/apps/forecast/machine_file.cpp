// SPDX-License-Identifier: Apache-2.0
// Files of machines: see machine_file.hpp.
#include "src/apps/forecast/machine_file.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string_view>

#include "error.hpp"
#include "joined.hpp"
#include "src/apps/options/fact_file.hpp"
#include "src/apps/options/option_text.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::optional<Origin> origin_named(const std::string& name) {
  for (const Origin origin :
       {Origin::kMeasured, Origin::kPublished, Origin::kDerived, Origin::kAssumed})
    if (name == name_of(origin)) return origin;
  return std::nullopt;
}

Interconnect interconnect_named(const std::string& name, const std::string& where) {
  for (const Interconnect kind : {Interconnect::kNone, Interconnect::kTorus,
                                  Interconnect::kDragonfly, Interconnect::kFatTree})
    if (name == name_of(kind)) return kind;
  throw UsageError(fmt::format("{}: unknown network '{}'", where, name),
                   "give none, torus, dragonfly or fat-tree");
}

std::vector<std::int64_t> extents(const std::string& text, const std::string& where) {
  std::vector<std::int64_t> all;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, 'x');) {
    const auto extent = from_text<std::int64_t>(word);
    if (!extent || *extent < 1)
      throw UsageError(fmt::format("{}: shape '{}' is not extents", where, text),
                       "give extents of at least 1, e.g. 48x69x48");
    all.push_back(*extent);
  }
  return all;
}

/// Parses a number of the form "VALUE # ORIGIN: SOURCE".
MachineNumber number_of(const std::string& name, const std::string& value,
                        const std::string& comment, const std::string& where) {
  const auto parsed = from_text<double>(value);
  if (!parsed)
    throw UsageError(fmt::format("{}: {} = '{}' is not a number", where, name, value),
                     "give one number per line");
  const auto colon = comment.find(':');
  const auto origin = origin_named(trimmed(comment.substr(0, colon)));
  const std::string source =
      colon == std::string::npos ? std::string() : trimmed(comment.substr(colon + 1));
  if (!origin || source.empty())
    throw UsageError(
        fmt::format("{}: {} = {} does not say where it comes from", where, name, value),
        "end the line with # measured: SOURCE (or published, derived, assumed)");
  return {name, *parsed, *origin, source, where};
}

void read_fact(Machine& machine, const Fact& fact) {
  const auto& [name, value, comment, where] = fact;
  if (name == "title") {
    machine.title = value;
  } else if (name == "cpu") {
    machine.cpu = value;
  } else if (name == "network") {
    machine.interconnect = interconnect_named(value, where);
  } else if (name == "shape") {
    machine.shape = extents(value, where);
  } else if (name != "kernels") {
    if (std::any_of(machine.numbers.begin(), machine.numbers.end(),
                    [&](const MachineNumber& number) { return number.name == fact.name; }))
      throw UsageError(fmt::format("{}: {} is given twice", where, name), "give it once");
    machine.set(number_of(name, value, comment, where));
  }
}

Machine read_ini(const fs::path& file, DataType precision) {
  Machine machine;
  machine.precision = precision;
  machine.name = file.stem().string();
  const std::vector<Fact> facts = read_facts(file, "machine file");
  for (const Fact& fact : facts) read_fact(machine, fact);
  machine.check_whole(file.string());
  machine.derive();
  for (const Fact& fact : facts)
    if (fact.name == "kernels") add_kernels(machine, file.parent_path() / fact.value);
  return machine;
}

/// A JSON file whose errors name its keys.
class JsonFile {
 public:
  JsonFile(const fs::path& file, std::istream& in) : file_(file.string()) {
    root_ = json::parse(in, nullptr, false);
    if (!root_.is_object())
      throw UsageError(fmt::format("{} is not a JSON object", file_),
                       "write it with halomesh bench --calibrate --json FILE");
  }
  const json& root() const { return root_; }

  /// The value at "/a/b"; empty if it is missing or null.
  std::optional<double> find(const std::string& key) const {
    const json::json_pointer pointer(key);
    if (!root_.contains(pointer) || root_.at(pointer).is_null()) return std::nullopt;
    if (!root_.at(pointer).is_number())
      throw UsageError(fmt::format("{}: {} is not a number", file_, key), "measure it again");
    return root_.at(pointer).get<double>();
  }
  std::string word(const std::string& key) const {
    const json::json_pointer pointer(key);
    return root_.contains(pointer) && root_.at(pointer).is_string()
               ? root_.at(pointer).get<std::string>()
               : std::string();
  }
  std::string where(const std::string& key) const { return fmt::format("{}: {}", file_, key); }

 private:
  std::string file_;
  json root_;
};

/// Parses "DxHxWxC".
Shape shape_of(const json& text, const std::string& where) {
  const auto shape =
      text.is_string() ? from_text<Shape>(text.get<std::string>()) : std::optional<Shape>();
  if (!shape)
    throw UsageError(fmt::format("{}: {} is not extents DxHxWxC", where, text.dump()),
                     "measure it again with halomesh bench --calibrate");
  return *shape;
}

KernelPass pass_named(const std::string& name, const std::string& where) {
  std::string spaced = name;
  std::replace(spaced.begin(), spaced.end(), '_', ' ');
  for (const KernelPass pass :
       {KernelPass::kForward, KernelPass::kBackwardData, KernelPass::kBackwardParameters})
    if (spaced == name_of(pass)) return pass;
  throw UsageError(fmt::format("{}: unknown pass '{}'", where, name),
                   "give forward, backward data or backward parameters");
}

/// Adds the kernels of `file` with their times multiplied by `scale`.
void read_kernels(KernelTable& table, const JsonFile& file, double scale) {
  if (!file.root().contains("kernels")) return;
  std::size_t index = 0;
  for (const json& entry : file.root().at("kernels")) {
    const std::string where = file.where(fmt::format("/kernels/{}", index++));
    try {
      KernelCase call;
      call.kernel = entry.at("kernel").get<std::string>();
      call.pass = pass_named(entry.at("pass").get<std::string>(), where);
      call.src = shape_of(entry.at("src"), where);
      call.dst = shape_of(entry.at("dst"), where);
      call.batch = entry.at("batch").get<std::int64_t>();
      call.threads = entry.at("threads").get<int>();
      call.flops = entry.value("flops", 0.0);
      call.bytes = entry.value("bytes", 0.0);
      table.add(call, scale * entry.at("seconds").get<double>());
    } catch (const json::exception&) {
      throw UsageError(
          fmt::format("{}: a kernel time lacks a value or has one of a wrong type", where),
          "it needs kernel, pass, src, dst, batch, threads and seconds");
    } catch (const UsageError&) {
      throw;
    } catch (const Error& error) {
      throw UsageError(fmt::format("{}: {}", where, error.what()), error.hint());
    }
  }
}

struct JsonNumber {
  const char *key, *name;
  double scale;  ///< value of the number = scale * value of the key
  bool of_rank;  ///< times the number of ranks per node
  bool inverse;  ///< 1 / value of the key
};

constexpr const char* kBf16Peak = "peak-bf16-gflops";
constexpr double kMicro = 1e6, kGigaInverse = 1e-9;
const JsonNumber kJsonNumbers[] = {
    {"/nodes", "nodes", 1, false, false},
    {"/cores", "cores", 1, false, false},
    {"/ranks_per_node", "ranks-per-node", 1, false, false},
    {"/memory_bytes", "memory-gib", 0x1p-30, false, false},
    {"/peak/fp32_flops_per_second", "peak-gflops", kGigaInverse, true, false},
    {"/peak/bf16_flops_per_second", kBf16Peak, kGigaInverse, true, false},
    {"/peak/triad_bytes_per_second", "triad-gbs", kGigaInverse, true, false},
    {"/network/within_node/latency_s", "node-latency-us", kMicro, false, false},
    {"/network/within_node/s_per_byte", "node-message-gbs", kGigaInverse, false, true},
    {"/network/between_nodes/latency_s", "latency-us", kMicro, false, false},
    {"/network/between_nodes/s_per_byte", "message-gbs", kGigaInverse, false, true},
    {"/network/injection_s_per_byte", "injection-gbs", kGigaInverse, false, true},
    {"/network/add_s_per_byte", "add-gbs", kGigaInverse, false, true},
    {"/network/copy_s_per_byte", "copy-gbs", kGigaInverse, false, true},
    {"/network/core_copy_s_per_byte", "core-copy-gbs", kGigaInverse, false, true},
    {"/network/team_s", "team-us", kMicro, false, false},
    {"/network/poll_s", "poll-ms", 1e3, false, false},
    {"/step_spread/per_doubling", "straggler-per-doubling", 1, false, false},
    {"/step_spread/kernel_time_factor", "kernel-time-factor", 1, false, false},
    {"/input/read_bytes_per_second", "load-gbs", kGigaInverse, true, false},
    {"/input/stage_bytes_per_second", "stage-node-mbs", 1e-6, false, false},
};

/// The peak of a rank in a precision, as MachinePeak::of() has it; 0 if the file has none.
double peak_of(const JsonFile& file, DataType precision) {
  const double fp32 = file.find("/peak/fp32_flops_per_second").value_or(0);
  const double bf16 = file.find("/peak/bf16_flops_per_second").value_or(0);
  return precision == DataType::kBfloat16 ? std::max(bf16, fp32) : fp32;
}

/// The median of flops / (seconds x peak) over the measured kernels.
double efficiency_of(const JsonFile& file, double peak) {
  std::vector<double> shares;
  for (const json& entry : file.root().value("kernels", json::array()))
    if (entry.value("flops", 0.0) > 0 && entry.value("seconds", 0.0) > 0)
      shares.push_back(entry.value("flops", 0.0) / entry.value("seconds", 0.0) / peak);
  if (shares.empty()) return 0;
  std::nth_element(shares.begin(), shares.begin() + std::ssize(shares) / 2, shares.end());
  return std::clamp(shares[shares.size() / 2], 0.001, 1.0);
}

/// Sets the efficiency of kernels in the precision of the calibration; in fp32 it is required.
void set_efficiency(Machine& machine, const JsonFile& file) {
  const bool bf16 = file.word("/precision") == name_of(DataType::kBfloat16);
  const double peak = peak_of(file, bf16 ? DataType::kBfloat16 : DataType::kFloat32);
  const double share = peak > 0 ? efficiency_of(file, peak) : 0;
  const std::string where = file.where("/kernels");
  if (share > 0)
    machine.set({bf16 ? "kernel-efficiency-bf16" : "kernel-efficiency", share, Origin::kDerived,
                 "median of the measured kernels", where});
  if (peak > 0 && (bf16 || share <= 0))
    machine.set(
        {"kernel-efficiency", 0.3, Origin::kAssumed, "no kernel was measured in fp32", where});
}

Machine read_json(const fs::path& path, std::istream& in, DataType precision) {
  const JsonFile file(path, in);
  Machine machine;
  machine.precision = precision;
  machine.name = file.word("/name").empty() ? path.stem().string() : file.word("/name");
  machine.title = machine.name;
  machine.cpu = file.word("/cpu");
  read_kernels(machine.kernels, file, 1);
  const bool has_network = file.find("/network/between_nodes/latency_s").has_value();
  machine.interconnect = has_network ? Interconnect::kFatTree : Interconnect::kNone;
  const double ranks = file.find("/ranks_per_node").value_or(0);
  for (const JsonNumber& number : kJsonNumbers) {
    auto value = file.find(number.key);
    if (!value) continue;
    // Too fast to be measured, or no instructions for it.
    if (*value == 0 && (number.inverse || std::string_view(number.name) == kBf16Peak)) continue;
    double converted = number.scale * (number.inverse ? 1 / *value : *value);
    if (number.of_rank) converted *= ranks;
    machine.set(
        {number.name, converted, Origin::kMeasured, "bench --calibrate", file.where(number.key)});
  }
  if (!file.find("/nodes"))
    machine.set({"nodes", has_network ? 1e6 : 1, has_network ? Origin::kAssumed : Origin::kMeasured,
                 "the calibration ran on one allocation", file.where("/nodes")});
  set_efficiency(machine, file);
  machine.check_whole(path.string());
  machine.derive();
  if (machine.kernels.size() > 0) machine.kernel_cpu = machine.cpu;
  return machine;
}

}  // namespace

Machine read_machine(const fs::path& file, DataType precision) {
  if (file.extension() != ".json") return read_ini(file, precision);
  std::ifstream in(file);
  if (!in || fs::is_directory(file))
    throw UsageError(fmt::format("the machine file {} cannot be read", file.c_str()),
                     "give the name of a machine (--machine list) or the path of a file");
  return read_json(file, in, precision);
}

void add_kernels(Machine& machine, const fs::path& file) {
  std::ifstream in(file);
  if (!in)
    throw UsageError(fmt::format("the kernel times {} cannot be read", file.c_str()),
                     "give a file of halomesh bench --calibrate --json");
  const JsonFile times(file, in);
  const std::string cpu = times.word("/cpu");
  double scale = 1;
  if (cpu != machine.cpu) {
    const double peak = peak_of(times, machine.precision);
    if (peak <= 0)
      throw UsageError(fmt::format(R"({}: measured on "{}", not on "{}", and its peak is missing)",
                                   file.c_str(), cpu, machine.cpu),
                       "measure the kernels on the machine itself");
    scale = peak / machine.kernels.rates.peak_flops;
    machine.notes.push_back(fmt::format(
        "kernel times of {} are from another CPU ({}, not {}): scaled by the ratio of the peaks in "
        "{}, {:.3g}",
        file.filename().string(), cpu, machine.cpu, name_of(machine.precision), scale));
  }
  machine.kernel_cpu = cpu;
  read_kernels(machine.kernels, times, scale);
}

std::vector<std::string> machine_names(const fs::path& directory) {
  return fact_file_names(directory / "machines");
}

std::string machine_template(const Machine& example) {
  std::string text = fmt::format(
      "# Replace each value by yours, and \"assumed: an example\" by where it comes from: "
      "measured,\n"
      "# published, derived or assumed, with the source. The network is none, torus, dragonfly or "
      "fat-tree.\n"
      "title = {}\ncpu = {}\nnetwork = {}\nshape = {}\n",
      example.title, example.cpu, name_of(example.interconnect), joined(example.shape, "x"));
  for (const NumberRule& rule : number_rules()) {
    const double value = example.value(rule.name);
    if (value == 0) continue;  // only fitted
    const std::string left_out = rule.required ? ""
                                 : rule.fallback > 0
                                     ? fmt::format("; without this line {:g}", rule.fallback)
                                     : "; may be left out";
    text += fmt::format("{} = {:g} # assumed: an example, {}{}\n", rule.name, value, rule.unit,
                        left_out);
  }
  return text;
}

Machine load_machine(const std::string& machine, const fs::path& directory, DataType precision) {
  Machine read =
      read_machine(find_fact_file("machine", machine, directory / "machines"), precision);
  read.note_stand_ins();
  return read;
}

}  // namespace halomesh
