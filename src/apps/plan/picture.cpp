// SPDX-License-Identifier: Apache-2.0
#include "src/apps/plan/picture.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "counted.hpp"
#include "error.hpp"
#include "partition/transfer_plan.hpp"

namespace halomesh {
namespace {

// All lengths are in pixels.
constexpr std::int64_t kMostParts = 16;
constexpr std::int64_t kEdge = 240;  // front edge of the uncut cube, d downwards, h to the right
constexpr std::int64_t kAwayX = 72, kAwayY = 54;     // w leads to the upper right
constexpr std::int64_t kGap = 40, kAwayGap = 16;     // between parts
constexpr std::int64_t kMargin = 32, kBetween = 56;  // between replicas
constexpr std::int64_t kHead = 64;                   // for the labels of replicas
constexpr std::int64_t kRankStep = 30, kLineStep = 11, kRowGap = 16;

constexpr const char* kStyle = R"(<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.strong { font-weight: 600 } .small { font-size: 12px } .middle { text-anchor: middle }
.page { fill: #ffffff }
.front { fill: #dbe4ee } .top { fill: #eef2f7 } .side { fill: #bccadb }
.front, .top, .side { stroke: #5b6b7d; stroke-width: 1 }
.shown .front { fill: #9cc7f0 } .shown .top { fill: #c4def7 } .shown .side { fill: #74abdf }
.needed { fill: none; stroke: #0b5cad; stroke-width: 2; stroke-dasharray: 6 4 }
.halo { fill: #e8801a; fill-opacity: 0.6 }
.move { stroke: #b4540a; stroke-width: 2; marker-end: url(#tip) } .tip { fill: #b4540a }
.sum { stroke: #1a7f4b; stroke-width: 2 } .holder { fill: #1a7f4b }
.rank { fill: #dbe4ee; stroke: #5b6b7d }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .page { fill: #0d1117 }
.front { fill: #2b3645 } .top { fill: #3a4758 } .side { fill: #1d2631 }
.front, .top, .side { stroke: #8494a7 }
.shown .front { fill: #1f5288 } .shown .top { fill: #2f6cab } .shown .side { fill: #153b64 }
.needed { stroke: #79b8ff } .halo { fill: #f0a04b }
.move { stroke: #ffb86b } .tip { fill: #ffb86b }
.sum { stroke: #4cc38a } .holder { fill: #4cc38a }
.rank { fill: #2b3645; stroke: #8494a7 }
}
</style>
)";

struct Point {
  std::int64_t x = 0, y = 0;
};

std::string extents(const Box& box) {
  return fmt::format("{}x{}x{}", box.extent(kD), box.extent(kH), box.extent(kW));
}

/// The index of the tensor to show, or 0 if there is none.
std::size_t tensor_with_halo(const ModelGeometry& geometry) {
  for (std::size_t t = geometry.tensors().size() - 1; t > 0; --t) {
    const TensorGeometry& tensor = geometry.tensors()[t];
    const bool whole = std::ranges::any_of(
        tensor.needed, [&](const Box& needed) { return needed == Box::whole(tensor.shape); });
    if (!whole && !tensor.distribute.empty()) return t;
  }
  return 0;
}

/// Layers whose first parameter (the weights) has the same holders, in the order of the network.
struct HolderGroup {
  std::vector<std::string> layers;
  const std::vector<SliceHolders>* slices = nullptr;

  std::string label() const {
    if (layers.size() == 1) return layers.front();
    return layers.front() + (layers.size() == 2 ? " and " : " to ") + layers.back();
  }
};

std::vector<HolderGroup> holder_groups(const ModelGeometry& geometry) {
  const auto same = [](const SliceHolders& a, const SliceHolders& b) { return a.parts == b.parts; };
  std::vector<HolderGroup> groups;
  for (const ParameterPlacement& parameter : geometry.parameters()) {
    if (parameter.number != 0) continue;
    if (groups.empty() || !std::ranges::equal(*groups.back().slices, parameter.holders, same))
      groups.push_back({{}, &parameter.holders});
    groups.back().layers.push_back(parameter.layer_name);
  }
  return groups;
}

class Picture {
 public:
  Picture(const ModelGeometry& geometry, const MeshShape& mesh, std::int64_t part)
      : geometry_(geometry),
        mesh_(mesh),
        grid_(mesh.parts),
        part_(part),
        tensor_(geometry.tensors()[tensor_with_halo(geometry)]) {}

  std::string draw() {
    for (std::int64_t t = 0; t < std::ssize(columns()); ++t) replica(t);
    const std::int64_t bottom = sums(legend(cube_top() + cube_height() + 36));
    const std::int64_t height = bottom + kMargin - kRowGap;
    return fmt::format(
        R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" )"
        R"(role="img" aria-labelledby="title desc">
<title id="title">{2}</title>
<desc id="desc">{3}</desc>
{4}<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9" )"
        R"(markerUnits="userSpaceOnUse" orient="auto"><path class="tip" d="M0 0L10 5L0 10z"/>)"
        R"(</marker></defs>
<rect class="page" width="{0}" height="{1}" rx="8"/>
{5}</svg>
)",
        width(), height, title(), description(), kStyle, out_);
  }

 private:
  const Box& owned(std::int64_t part) const {
    return tensor_.owned[static_cast<std::size_t>(part)];
  }
  const Box& needed() const { return tensor_.needed[static_cast<std::size_t>(part_)]; }

  /// The replicas in the picture: the first and the last.
  std::vector<std::int64_t> columns() const {
    if (mesh_.replicas == 1) return {0};
    return {0, mesh_.replicas - 1};
  }
  std::int64_t cube_width() const {
    return kEdge + (grid_.h - 1) * kGap + kAwayX + (grid_.w - 1) * kAwayGap;
  }
  std::int64_t cube_height() const { return kEdge + (grid_.d - 1) * kGap; }
  std::int64_t cube_top() const { return kHead + kAwayY + (grid_.w - 1) * kAwayGap; }
  std::int64_t width() const {
    const auto shown = std::ssize(columns());
    return std::max(2 * kMargin + shown * cube_width() + (shown - 1) * kBetween,
                    2 * kMargin + kLabelWidth + shown * (grid_.count() + 1) * kRankStep + 250);
  }

  /// A corner of a box of the tensor, at its place in the drawing of `part`.
  Point at(std::int64_t column, std::int64_t part, std::int64_t d, std::int64_t h,
           std::int64_t w) const {
    const Spatial place = grid_.coordinates(part);
    return {kMargin + column * (cube_width() + kBetween) + h * kEdge / tensor_.shape.h +
                place[1] * kGap + w * kAwayX / tensor_.shape.w + place[2] * kAwayGap,
            cube_top() + d * kEdge / tensor_.shape.d + place[0] * kGap -
                w * kAwayY / tensor_.shape.w - place[2] * kAwayGap};
  }

  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    out_ += fmt::format(format, std::forward<Args>(args)...);
  }
  void polygon(const char* style, const std::vector<Point>& points) {
    add(R"(<polygon class="{}" points=")", style);
    for (const Point& p : points) add("{},{}{}", p.x, p.y, &p == &points.back() ? "" : " ");
    add("\"/>\n");
  }
  void line(const char* style, Point a, Point b) {
    add("<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n", style, a.x, a.y, b.x,
        b.y);
  }
  void text(const char* style, Point p, const std::string& what) {
    add("<text class=\"{}\" x=\"{}\" y=\"{}\">{}</text>\n", style, p.x, p.y, what);
  }

  /// Draws the three visible faces of a box; faces inside `part` are left out for a piece of that
  /// part's box.
  void faces(const char* front, const char* top, const char* side, std::int64_t column,
             std::int64_t part, const Box& b) {
    const Box& whole = owned(part);
    const auto corner = [&](std::int64_t d, std::int64_t h, std::int64_t w) {
      return at(column, part, d, h, w);
    };
    const auto [c0, d0, h0, w0] = b.lo;
    const auto [c1, d1, h1, w1] = b.hi;
    if (w0 == whole.lo[kW])
      polygon(front,
              {corner(d0, h0, w0), corner(d0, h1, w0), corner(d1, h1, w0), corner(d1, h0, w0)});
    if (d0 == whole.lo[kD])
      polygon(top,
              {corner(d0, h0, w0), corner(d0, h0, w1), corner(d0, h1, w1), corner(d0, h1, w0)});
    if (h1 == whole.hi[kH])
      polygon(side,
              {corner(d0, h1, w0), corner(d0, h1, w1), corner(d1, h1, w1), corner(d1, h1, w0)});
  }

  Point centre(std::int64_t column, std::int64_t part, const Box& b) const {
    const Point lo = at(column, part, b.lo[kD], b.lo[kH], b.lo[kW]);
    const Point hi = at(column, part, b.hi[kD], b.hi[kH], b.lo[kW]);
    return {(lo.x + hi.x) / 2, (lo.y + hi.y) / 2};
  }

  /// Draws the arrow of `transfer` from source to destination. Opposite directions lie beside each
  /// other.
  void move(std::int64_t column, const Transfer& transfer) {
    Point from = centre(column, transfer.src, transfer.box);
    Point to = centre(column, transfer.dst, transfer.box);
    const std::int64_t aside = transfer.src < transfer.dst ? 8 : -8;
    if (from.x == to.x)
      from.x += aside, to.x += aside;
    else
      from.y += aside, to.y += aside;
    line("move", from, to);
  }

  /// Orders parts from back to front, so that nearer ones cover those behind.
  std::vector<std::int64_t> drawing_order() const {
    std::vector<std::int64_t> order;
    for (std::int64_t w = grid_.w - 1; w >= 0; --w)
      for (std::int64_t d = grid_.d - 1; d >= 0; --d)
        for (std::int64_t h = 0; h < grid_.h; ++h) order.push_back((d * grid_.h + h) * grid_.w + w);
    return order;
  }

  void replica(std::int64_t column) {
    const std::int64_t number = columns()[static_cast<std::size_t>(column)];
    const bool shows_part = column == 0;
    for (const std::int64_t part : drawing_order()) {
      if (owned(part).empty()) continue;
      add("{}", shows_part && part == part_ ? "<g class=\"shown\">\n" : "<g>\n");
      faces("front", "top", "side", column, part, owned(part));
      for (const Transfer& transfer : tensor_.distribute.transfers())
        if (transfer.src == part && (!shows_part || transfer.dst == part_))
          faces("halo", "halo", "halo", column, part, transfer.box);
      add("</g>\n");
    }
    for (const Transfer& transfer : tensor_.distribute.transfers())
      if (!shows_part || transfer.dst == part_) move(column, transfer);
    if (shows_part) {
      const Point lo = at(column, part_, needed().lo[kD], needed().lo[kH], needed().lo[kW]);
      const Point hi = at(column, part_, needed().hi[kD], needed().hi[kH], needed().lo[kW]);
      polygon("needed", {lo, {hi.x, lo.y}, hi, {lo.x, hi.y}});
    }
    for (const std::int64_t part : drawing_order()) {
      if (owned(part).empty() || grid_.coordinates(part)[2] > 0) continue;
      const Point p = centre(column, part, owned(part));
      text("strong middle", {p.x, p.y - 4}, "part " + std::to_string(part));
      text("small middle", {p.x, p.y + 13}, "rank " + std::to_string(mesh_.rank_of(number, part)));
    }
    const std::int64_t left = kMargin + column * (cube_width() + kBetween);
    text("strong", {left, kMargin}, "replica " + std::to_string(number));
    text("small", {left, kMargin + 18},
         shows_part ? fmt::format("part {} owns {}, needs {} voxels of {}", part_,
                                  extents(owned(part_)), extents(needed()), tensor_.name)
                    : fmt::format("another sample; all {} transfers of the plan of {}",
                                  tensor_.distribute.transfers().size(), tensor_.name));
  }

  /// Returns the start of the next paragraph.
  std::int64_t legend(std::int64_t y) {
    const std::int64_t x = kMargin;
    polygon("needed", {{x + 1, y - 10}, {x + 21, y - 10}, {x + 21, y + 2}, {x + 1, y + 2}});
    text("small", {x + 30, y}, "needed by part " + std::to_string(part_));
    polygon("halo", {{x + 171, y - 11}, {x + 179, y - 11}, {x + 179, y + 3}, {x + 171, y + 3}});
    line("move", {x + 182, y - 4}, {x + 214, y - 4});
    text("small", {x + 224, y},
         "halo: owned by another part; copied forward, its gradient added back");
    return y + 40;
  }

  /// Draws a row for each group of layers: a line for each slice of their weights, with a dot for
  /// each rank that holds it.
  std::int64_t sums(std::int64_t y) {
    const auto shown = columns();
    const auto rank_x = [&](std::size_t column, std::int64_t part) {
      return kMargin + kLabelWidth +
             static_cast<std::int64_t>(column) * (grid_.count() + 1) * kRankStep +
             part * kRankStep + kRankStep / 2;
    };
    text("strong", {kMargin, y}, "gradient sums over ranks");
    for (std::size_t column = 0; column < shown.size(); ++column)
      for (std::int64_t part = 0; part < grid_.count(); ++part) {
        add("<rect class=\"rank\" x=\"{}\" y=\"{}\" width=\"22\" height=\"20\" rx=\"3\"/>\n",
            rank_x(column, part) - 11, y - 15);
        text("small middle", {rank_x(column, part), y},
             std::to_string(mesh_.rank_of(shown[column], part)));
      }
    y += 28;
    for (const HolderGroup& group : holder_groups(geometry_)) {
      const std::int64_t lines = std::ssize(*group.slices);
      const std::int64_t label = y + (lines - 1) * kLineStep / 2 + 4;
      text("small", {kMargin, label}, group.label());
      text("small", {rank_x(shown.size() - 1, grid_.count()), label}, sum_of(group));
      for (const SliceHolders& slice : *group.slices) {
        line("sum", {rank_x(0, slice.parts.front()), y},
             {rank_x(shown.size() - 1, slice.parts.back()), y});
        for (std::size_t column = 0; column < shown.size(); ++column)
          for (const std::int64_t part : slice.parts)
            add("<circle class=\"holder\" cx=\"{}\" cy=\"{}\" r=\"4\"/>\n", rank_x(column, part),
                y);
        y += kLineStep;
      }
      y += kRowGap;
    }
    return y;
  }

  std::string sum_of(const HolderGroup& group) const {
    const auto slices = std::ssize(*group.slices);
    const std::int64_t ranks = std::ssize(group.slices->front().parts) * mesh_.replicas;
    return (slices == 1 ? "summed over " : counted(slices, "slice") + ", each over ") +
           counted(ranks, "rank");
  }

  std::string title() const {
    return fmt::format("One sample cut into {} parts, on {}", to_string(grid_),
                       counted(mesh_.replicas, "replica"));
  }

  std::string description() const {
    std::string text = fmt::format(
        "Each replica is a cube, the tensor {} of {}x{}x{} voxels and {} channels, cut into {}. "
        "Part {} owns {} and needs {}; arrows lead from the parts that own the difference. Below, "
        "lines join the ranks that sum the gradient of a slice of the weights:",
        tensor_.name, tensor_.shape.d, tensor_.shape.h, tensor_.shape.w, tensor_.shape.c,
        counted(grid_.count(), "part"), part_, owned(part_), needed());
    for (const HolderGroup& group : holder_groups(geometry_))
      text += fmt::format(" {}, {};", group.label(), sum_of(group));
    text.back() = '.';
    return text;
  }

  static constexpr std::int64_t kLabelWidth = 200;
  const ModelGeometry& geometry_;
  MeshShape mesh_;
  PartGrid grid_;
  std::int64_t part_;
  const TensorGeometry& tensor_;
  std::string out_;
};

}  // namespace

std::string draw_picture(const ModelGeometry& geometry, const MeshShape& mesh, std::int64_t part) {
  const std::int64_t parts = mesh.parts.count();
  if (parts > kMostParts)
    throw UsageError(fmt::format("a picture shows at most {} parts, not {}", kMostParts, parts),
                     "give --picture with fewer --parts");
  if (part < 0 || part >= parts)
    throw UsageError(fmt::format("there is no part {} among {}", part, parts),
                     "parts are numbered from 0");
  if (tensor_with_halo(geometry) == 0)
    throw UsageError("nothing to draw: no halo moves between the parts",
                     "cut the sample, for example by --parts 2x2x1");
  return Picture(geometry, mesh, part).draw();
}

}  // namespace halomesh
