// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/svg_figure.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "src/apps/report/markup.hpp"
#include "src/apps/report/page_assets.hpp"
#include "src/apps/report/plot.hpp"
#include "src/apps/report/svg_marks.hpp"

namespace halomesh {
namespace {

// All lengths in pixels.
constexpr double kTitleLine = 22, kLegendLine = 22, kLegendGap = 20, kSwatchWidth = 34;

std::string text(const char* attributes, double x, double y, const std::string& content) {
  return fmt::format("<text {} x=\"{}\" y=\"{}\">{}</text>\n", attributes, px(x), px(y),
                     escaped(content));
}

std::string rule(const char* name, double x1, double y1, double x2, double y2) {
  const std::string end = x1 == x2 ? "V" + px(y2) : "H" + px(x2);
  return fmt::format("<path class=\"{}\" d=\"M{} {}{}\"/>\n", name, px(x1), px(y1), end);
}

std::string turned(double x, double y, int degrees, const std::string& content) {
  return fmt::format(
      "<text class=\"label middle\" transform=\"translate({} {}) rotate({})\">{}</text>\n", px(x),
      px(y), degrees, escaped(content));
}

std::string draw_across(const Plot& plot) {
  const PlotAxis& axis = plot.across;
  std::string out;
  for (const Tick& tick : axis.ticks) {
    const double x = axis.scale(tick.value);
    if (!axis.categories)
      out += rule(tick.label.empty() ? "grid small" : "grid", x, plot.top_edge, x, plot.bottom);
    if (tick.label.empty()) continue;
    if (axis.slanted) {
      out += fmt::format(
          "<text class=\"tick end\" transform=\"translate({} {}) rotate(-40)\">{}</text>\n",
          px(x + 4), px(plot.bottom + 16), escaped(tick.label));
    } else {
      out += text("class=\"tick middle\"", x, plot.bottom + 18, tick.label);
    }
  }
  const double middle = (plot.left + plot.right_edge) / 2;
  if (!axis.label.empty())
    out += text("class=\"label middle\"", middle, plot.height - 7, axis.label);
  if (!plot.top) return out;
  for (const Tick& tick : plot.top->ticks) {
    const double x = axis.scale(tick.value);
    out += rule("mark", x, plot.top_edge - 5, x, plot.top_edge);
    if (!tick.label.empty()) out += text("class=\"tick middle\"", x, plot.top_edge - 9, tick.label);
  }
  return out + text("class=\"label middle\"", middle, plot.top_edge - 31, plot.top->label);
}

std::string draw_down(const Plot& plot) {
  const PlotAxis& axis = plot.down;
  std::string out;
  for (const Tick& tick : axis.ticks) {
    const double y = axis.scale(tick.value);
    if (!axis.categories)
      out += rule(tick.label.empty() ? "grid small" : "grid", plot.left, y, plot.right_edge, y);
    if (!tick.label.empty()) out += text("class=\"tick end\"", plot.left - 8, y + 4.5, tick.label);
  }
  const double middle = (plot.top_edge + plot.bottom) / 2;
  if (!axis.label.empty()) out += turned(18, middle, -90, axis.label);
  if (!plot.right) return out;
  for (const Tick& tick : plot.right->ticks) {
    const double y = axis.scale(tick.value);
    out += rule("mark", plot.right_edge, y, plot.right_edge + 5, y);
    if (!tick.label.empty())
      out += text("class=\"tick\"", plot.right_edge + 8, y + 4.5, tick.label);
  }
  return out + turned(plot.width - 16, middle, 90, plot.right->label);
}

/// What a reader who cannot see the figure should know; its data stand in a table beside it.
std::string description(const Figure& figure, const Plot& plot) {
  const auto axis = [](const PlotAxis& of, const char* where) {
    const std::string label = of.label.empty() ? "" : ": " + of.label;
    if (of.categories)
      return fmt::format("{} axis{}, {} categories. ", where, label, of.ticks.size());
    return fmt::format("{} axis{}, {}from {} to {}. ", where, label,
                       of.scale.range().logarithmic ? "logarithmic, " : "",
                       readable(of.scale.range().least), readable(of.scale.range().most));
  };
  std::string out = figure.caption.empty() ? "" : figure.caption + " ";
  out += axis(plot.across, "Horizontal") + axis(plot.down, "Vertical");
  for (std::size_t i = 0; i < figure.series.size(); ++i) {
    out += (i == 0 ? "Series: " : ", ") + figure.series[i].name;
  }
  return out + (figure.series.empty() ? "" : ".");
}

/// Sets words into lines of at most `width`.
std::vector<std::string> wrapped(const std::string& content, double width, double font_px) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < content.size();) {
    const std::size_t end = std::min(content.find(' ', begin), content.size());
    const std::string word = content.substr(begin, end - begin);
    if (lines.empty() || text_width(lines.back() + " " + word, font_px) > width) {
      lines.push_back(word);
    } else {
      lines.back() += " " + word;
    }
    begin = end + 1;
  }
  return lines;
}

/// The legend in lines below the plot; `bottom` grows by its height.
std::string draw_legend(const Figure& figure, const Plot& plot, const std::string& id,
                        double& bottom) {
  std::string out = "<g class=\"legend\">\n";
  double x = plot.left;
  bottom += kLegendLine;
  for (std::size_t i = 0; i < figure.series.size(); ++i) {
    const std::string name = shortened(figure.series[i].name, 60);
    const double width = kSwatchWidth + text_width(name);
    if (x > plot.left && x + width > plot.width) {
      x = plot.left;
      bottom += kLegendLine;
    }
    out += fmt::format("<g class=\"{}\" transform=\"translate({} {})\">{}{}</g>\n",
                       colour_class(figure, i), px(x), px(bottom - 12), swatch(figure, i, id),
                       text("class=\"tick\"", kSwatchWidth, 11.5, name));
    x += width + kLegendGap;
  }
  bottom += kLegendLine / 2;
  return out + "</g>\n";
}

std::string draw_definitions(const Figure& figure, const Plot& plot, const std::string& id) {
  return fmt::format(
      "<defs>\n<clipPath id=\"{}-clip\"><rect x=\"{}\" y=\"{}\" width=\"{}\" "
      "height=\"{}\"/></clipPath>\n{}</defs>\n",
      id, px(plot.left), px(plot.top_edge), px(plot.right_edge - plot.left),
      px(plot.bottom - plot.top_edge), mark_definitions(figure, id));
}

std::string draw_plot(const Figure& figure, const Plot& plot, const std::string& id) {
  std::string out = "<g class=\"axes\">\n" + draw_across(plot) + draw_down(plot) + "</g>\n";
  out += draw_levels(figure, plot, id) + draw_marks(figure, plot, id);
  const Scale& values = plot.values();
  const double base =
      values.range().least <= 0 && !values.range().logarithmic ? values(0) : values.from();
  if (has_bars(figure) && figure.spans.empty()) {
    out += plot.lying ? rule("base", base, plot.top_edge, base, plot.bottom)
                      : rule("base", plot.left, base, plot.right_edge, base);
  }
  if (plot.dropped > 0) {
    out +=
        text("class=\"note\"", plot.left + 6, plot.top_edge + 15,
             fmt::format("not shown: {} {} that {} not positive", plot.dropped,
                         plot.dropped == 1 ? "value" : "values", plot.dropped == 1 ? "is" : "are"));
  }
  return out;
}

/// For a script: the pixels and values between which an axis runs.
std::string scale_attribute(const char* name, const Scale& scale) {
  return fmt::format(" data-{}=\"{} {} {:.10g} {:.10g} {}\"", name, px(scale.from()),
                     px(scale.to()), scale.range().least, scale.range().most,
                     scale.range().logarithmic ? 1 : 0);
}

}  // namespace

bool needs_legend(const Figure& figure) {
  return figure.series.size() > 1 || !figure.spans.empty();
}

std::string draw_svg(const Figure& figure) {
  const std::string id = anchor(figure.id);
  const std::vector<std::string> title = wrapped(figure.title, 660, 17);
  const Plot plot = plot_of(figure, kTitleLine * static_cast<double>(title.size()) + 6);
  double bottom = plot.height;
  std::string body = draw_definitions(figure, plot, id);
  for (std::size_t i = 0; i < title.size(); ++i) {
    body += text("class=\"title\"", 10, kTitleLine * static_cast<double>(i + 1), title[i]);
  }
  body += draw_plot(figure, plot, id);
  if (needs_legend(figure)) body += draw_legend(figure, plot, id, bottom);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"figure\" role=\"img\" "
      "aria-labelledby=\"{0}-title {0}-desc\" "
      "width=\"{1}\" height=\"{2}\" viewBox=\"0 0 {1} {2}\">\n<title id=\"{0}-title\">{3}</title>\n"
      "<desc id=\"{0}-desc\">{4}</desc>\n<style>\n{5}</style>\n<rect class=\"page\" width=\"{1}\" "
      "height=\"{2}\"/>\n{6}</svg>\n",
      id, px(plot.width), px(bottom), escaped(figure.title), escaped(description(figure, plot)),
      figure_style(), body);
}

std::string draw_inline_svg(const Figure& figure, const std::string& id) {
  const Plot plot = plot_of(figure, 0);
  return fmt::format(
      "<svg class=\"figure\" role=\"img\" aria-labelledby=\"{0}-title\" "
      "aria-describedby=\"{0}-desc\" width=\"{1}\" "
      "height=\"{2}\" viewBox=\"0 0 {1} {2}\"{3}{4}>\n<desc "
      "id=\"{0}-desc\">{5}</desc>\n{6}{7}</svg>\n",
      id, px(plot.width), px(plot.height), scale_attribute("across", plot.across.scale),
      scale_attribute("down", plot.down.scale), escaped(description(figure, plot)),
      draw_definitions(figure, plot, id), draw_plot(figure, plot, id));
}

std::string draw_swatch(const Figure& figure, std::size_t series, const std::string& id) {
  return fmt::format(
      "<svg class=\"figure swatch {}\" aria-hidden=\"true\" width=\"28\" height=\"14\" viewBox=\"0 "
      "0 28 14\">{}</svg>",
      colour_class(figure, series), swatch(figure, series, id));
}

}  // namespace halomesh
