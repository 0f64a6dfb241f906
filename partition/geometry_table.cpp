// SPDX-License-Identifier: Apache-2.0
// A table of a network on a mesh: see geometry_table.hpp.
#include "partition/geometry_table.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <ostream>
#include <string>

#include "error.hpp"
#include "text_table.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kPeakBytes = 4;

/// For example "657,408". fmt::group_digits() would cause a warning of GCC 12.
std::string digits(std::int64_t value) {
  std::string text = std::to_string(value);
  const std::size_t first = value < 0 ? 1 : 0;
  for (std::size_t i = text.size(); i > first + 3; i -= 3) text.insert(i - 3, ",");
  return text;
}

std::string bytes_or_dash(std::int64_t volume) {
  return volume == 0 ? "-" : digits(volume * kPeakBytes);
}

/// The number of axes with neighbours on both sides.
std::int64_t interior_axes(const PartGrid& grid, std::int64_t part) {
  const Spatial at = grid.coordinates(part), counts{grid.d, grid.h, grid.w};
  std::int64_t axes = 0;
  for (std::size_t a = 0; a < 3; ++a)
    if (at[a] > 0 && at[a] + 1 < counts[a]) ++axes;
  return axes;
}

std::int64_t partial_sums_sent(const TensorGeometry& tensor, std::int64_t part) {
  // Partial sums take the broadcast's path in reverse.
  return tensor.broadcast.received_volume(part);
}

std::int64_t partial_sums_received(const TensorGeometry& tensor, std::int64_t part) {
  return tensor.broadcast.sent_volume(part);
}

}  // namespace

GeometryTable::GeometryTable(const ModelGeometry& geometry,
                             const std::vector<std::int64_t>& layer_flops)
    : geometry_(geometry) {
  loads_.resize(static_cast<std::size_t>(geometry.grid().count()));
  for (std::size_t part = 0; part < loads_.size(); ++part) add_local(part, layer_flops);
  add_transfers();
}

// Passes once over all transfers, because there are many more of them than parts.
void GeometryTable::add_transfers() {
  const auto load = [&](std::int64_t part) -> PartLoad& {
    return loads_[static_cast<std::size_t>(part)];
  };
  for (const Transfer& t : geometry_.tensors()[0].distribute.transfers())
    load(t.dst).input_halo_bytes += t.box.volume() * kPeakBytes;
  for (std::size_t i = 1; i < geometry_.tensors().size(); ++i) {
    const TensorGeometry& tensor = geometry_.tensors()[i];
    for (const Transfer& t : tensor.distribute.transfers()) {
      load(t.dst).received_bytes += t.box.volume() * kPeakBytes;
      load(t.src).sent_bytes += t.box.volume() * kPeakBytes;
      ++load(t.dst).messages;
    }
    // Partial sums take the broadcast's path in reverse.
    for (const Transfer& t : tensor.broadcast.transfers()) {
      load(t.dst).partial_sums_sent_bytes += t.box.volume() * kPeakBytes;
      load(t.src).partial_sums_received_bytes += t.box.volume() * kPeakBytes;
    }
  }
}

// Adds the memory and the work of one part.
void GeometryTable::add_local(std::size_t part, const std::vector<std::int64_t>& layer_flops) {
  PartLoad& load = loads_[part];
  for (std::size_t t = 0; t < geometry_.tensors().size(); ++t)
    (t == 0 ? load.input_bytes : load.tensor_bytes) +=
        geometry_.tensors()[t].span[part].volume() * kPeakBytes;
  load.parameters = geometry_.parameter_count(static_cast<std::int64_t>(part));
  for (std::size_t l = 0; l < layer_flops.size(); ++l) {
    const TensorGeometry& dst = geometry_.tensors()[l + 1];
    const LayerPlacement& layer = geometry_.layers()[l];
    // The work of a layer that is split over its input is proportional to its share of the input.
    const auto mine = dst.partial_sums ? layer.boxes[part].src_needed[0] : dst.produced[part];
    const Shape& whole = dst.partial_sums ? layer.src_shapes[0] : dst.shape;
    load.flops += static_cast<double>(layer_flops[l]) * static_cast<double>(mine.volume()) /
                  static_cast<double>(whole.volume());
  }
}

std::int64_t GeometryTable::busiest_part() const {
  const auto key = [&](std::int64_t part) {
    return std::pair(loads_[static_cast<std::size_t>(part)].halo_bytes(),
                     interior_axes(geometry_.grid(), part));
  };
  std::int64_t busiest = 0;
  for (std::int64_t part = 1; part < std::ssize(loads_); ++part)
    if (key(part) > key(busiest)) busiest = part;
  return busiest;
}

double GeometryTable::imbalance() const {
  double sum = 0, largest = 0;
  for (const PartLoad& load : loads_) {
    sum += load.flops;
    largest = std::max(largest, load.flops);
  }
  return sum > 0 ? largest * static_cast<double>(loads_.size()) / sum : 0;
}

void GeometryTable::print(std::ostream& out, std::int64_t part) const {
  if (part < 0 || part >= std::ssize(loads_))
    throw UsageError(fmt::format("there is no part {} of {}", part, to_string(geometry_.grid())),
                     fmt::format("parts are numbered 0 to {}", loads_.size() - 1));
  const auto p = static_cast<std::size_t>(part);
  const Spatial at = geometry_.grid().coordinates(part);
  out << "part " << part << " of " << to_string(geometry_.grid()) << ", at (" << at[0] << ", "
      << at[1] << ", " << at[2]
      << "); boxes are [d)x[h)x[w)xchannels, sizes are in bytes per sample\n\n";
  print_cuts(out);
  print_tensors(out, p);
  out << '\n';
  print_parameters(out, p);
  out << '\n';
  print_totals(out, p);
  out << '\n';
  print_extremes(out);
}

// Prints each layer's cut and the bytes that other cuts would move.
void GeometryTable::print_cuts(std::ostream& out) const {
  const auto& cuts = geometry_.cuts();
  if (geometry_.grid().count() == 1) return;
  TextTable table({"layer", "space x channels", "space", "exchanged B", "gradients summed B",
                   "in space B", "by channels B"},
                  "<<<>>>>");
  const auto total = [](const std::optional<CutBytes>& bytes) {
    return bytes ? digits(bytes->total()) : "-";
  };
  CutBytes sum;
  for (std::size_t l = 0; l < cuts.size(); ++l) {
    const LayerChoice& choice = cuts[l];
    sum.exchanged += choice.bytes.exchanged;
    sum.summed += choice.bytes.summed;
    if (choice.cut.groups == 1 && choice.bytes.total() == 0) continue;
    table.add({geometry_.layers()[l].name, to_string(choice.cut), to_string(choice.cut.space),
               digits(choice.bytes.exchanged), digits(choice.bytes.summed), total(choice.in_space),
               total(choice.by_channels)});
  }
  table.add({"all", "", "", digits(sum.exchanged), digits(sum.summed)});
  out << table
      << "  cuts of layers: bytes that arrive at a part per step and sample, forward and backward; "
         "the last\n  two columns: in total, if this layer were cut so\n\n";
}

void GeometryTable::print_tensors(std::ostream& out, std::size_t part) const {
  TextTable table({"tensor", "shape", "owned", "needed", "received B", "sent B", "sums sent B",
                   "sums received B"},
                  "<<<<>>>>");
  const auto p = static_cast<std::int64_t>(part);
  for (std::size_t t = 0; t < geometry_.tensors().size(); ++t) {
    const TensorGeometry& tensor = geometry_.tensors()[t];
    const Box &owned = tensor.owned[part], &needed = tensor.needed[part];
    table.add({tensor.name, fmt::format("{}", tensor.shape), fmt::format("{}", owned),
               needed == owned || tensor.consumers.empty() ? "as owned" : fmt::format("{}", needed),
               bytes_or_dash(tensor.distribute.received_volume(p)),
               t == 0 ? "-" : bytes_or_dash(tensor.distribute.sent_volume(p)),
               bytes_or_dash(partial_sums_sent(tensor, p)),
               bytes_or_dash(partial_sums_received(tensor, p))});
  }
  out << table;
}

void GeometryTable::print_parameters(std::ostream& out, std::size_t part) const {
  TextTable table(
      {"parameter", "outputs x inputs", "floats", "slices", "holders of each", "this part B"},
      "<<>>>>");
  for (const ParameterPlacement& parameter : geometry_.parameters()) {
    std::size_t fewest = loads_.size(), most = 0;
    for (const SliceHolders& slice : parameter.holders) {
      fewest = std::min(fewest, slice.parts.size());
      most = std::max(most, slice.parts.size());
    }
    table.add({parameter.layer_name + '/' + parameter.geometry.name,
               fmt::format("{} x {}", parameter.geometry.out, parameter.geometry.in),
               digits(parameter.geometry.volume()), std::to_string(parameter.holders.size()),
               fewest == most ? fmt::format("{}", most) : fmt::format("{} to {}", fewest, most),
               bytes_or_dash(parameter.slice_volume(static_cast<std::int64_t>(part)))});
  }
  out << table;
}

void GeometryTable::print_totals(std::ostream& out, std::size_t part) const {
  const PartLoad& load = loads_[part];
  const std::int64_t held = load.parameters * kPeakBytes;
  TextTable table({"this part", "bytes"}, "<>");
  table.add({"forward halo, one sample", digits(load.halo_bytes())});
  table.add({"  of it with the input block, never sent", digits(load.input_halo_bytes)});
  table.add({fmt::format("  of it exchanged, in {} messages", load.messages),
             digits(load.received_bytes)});
  table.add({"backward returns the exchanged bytes", digits(load.received_bytes)});
  table.add({"parameters held = gradients reduced each step", digits(held)});
  out << table;
}

void GeometryTable::print_extremes(std::ostream& out) const {
  TextTable table({"over all parts", "least", "most", "sum"}, "<>>>");
  const auto row = [&](const char* name, const std::function<std::int64_t(std::int64_t)>& value) {
    std::int64_t least = value(0), most = least, sum = 0;
    for (std::int64_t part = 0; part < std::ssize(loads_); ++part) {
      least = std::min(least, value(part));
      most = std::max(most, value(part));
      sum += value(part);
    }
    table.add({name, digits(least), digits(most), digits(sum)});
  };
  const auto load = [&](std::int64_t part) { return loads_[static_cast<std::size_t>(part)]; };
  row("forward halo B, one sample", [&](auto part) { return load(part).halo_bytes(); });
  row("  of it exchanged B", [&](auto part) { return load(part).received_bytes; });
  row("partial sums received B", [&](auto part) { return load(part).partial_sums_received_bytes; });
  row("parameters B", [&](auto part) { return load(part).parameters * kPeakBytes; });
  out << table;
  out << "\n  the network has " << digits(geometry_.parameter_count()) << " parameters";
  if (imbalance() > 0)
    out << fmt::format("; the busiest part computes {:.3f} times the mean", imbalance());
  out << '\n';
}

}  // namespace halomesh
