// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/html_page.hpp"

#include <fmt/core.h>

#include <set>

#include "src/apps/report/figure_csv.hpp"
#include "src/apps/report/markup.hpp"
#include "src/apps/report/page_assets.hpp"
#include "src/apps/report/svg_figure.hpp"

namespace halomesh {
namespace {

constexpr std::size_t kMostRows = 200;

/// Ids that are on the page.
class Ids {
 public:
  /// `wanted` as an id, with a number if another element has it already.
  std::string unique(const std::string& wanted) {
    const std::string base = anchor(wanted);
    std::string id = base;
    for (int number = 2; !taken_.insert(id).second; ++number)
      id = fmt::format("{}-{}", base, number);
    return id;
  }

 private:
  std::set<std::string> taken_;
};

std::string paragraph(const char* attributes, const std::string& text) {
  return text.empty() ? "" : fmt::format("<p{}>{}</p>\n", attributes, escaped(text));
}

std::string list(const std::vector<std::string>& items) {
  std::string out = "<ul>\n";
  for (const std::string& item : items) out += "<li>" + escaped(item) + "</li>\n";
  return out + "</ul>\n";
}

bool numeric(const Table& table, std::size_t column) {
  return column < table.numeric.size() && table.numeric[column];
}

/// A cell; the first of a row names it, unless it is a number among numbers.
std::string cell(const Table& table, std::size_t column, const std::string& text) {
  const bool names = column == 0 && !numeric(table, 0);
  return fmt::format("<{0}{1}{2}>{3}</{0}>", names ? "th" : "td", names ? " scope=\"row\"" : "",
                     numeric(table, column) ? " class=\"number\"" : "", escaped(text));
}

/// In a region that scrolls sideways, which the keyboard must reach.
std::string table_html(const Table& table, const std::string& id) {
  std::string out = fmt::format(
      "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-labelledby=\"{0}\">\n<table>\n"
      "<caption><strong id=\"{0}\">{1}</strong>{2}</caption>\n<thead><tr>",
      id, escaped(table.title), paragraph("", table.caption));
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    out += fmt::format("<th scope=\"col\"{}>{}</th>", numeric(table, i) ? " class=\"number\"" : "",
                       escaped(table.columns[i]));
  }
  out += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : table.rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) out += cell(table, i, row[i]);
    out += "</tr>\n";
  }
  out += "</tbody>\n</table>\n</div>\n";
  for (const std::string& note : table.notes) out += paragraph(" class=\"notes\"", note);
  return out;
}

std::string legend(const Figure& figure, const std::string& id) {
  if (!needs_legend(figure)) return "";
  std::string out = "<ul class=\"legend\">\n";
  for (std::size_t i = 0; i < figure.series.size(); ++i) {
    out += fmt::format("<li><span data-series=\"{}\">{} {}</span></li>\n", i,
                       draw_swatch(figure, i, id), escaped(figure.series[i].name));
  }
  return out + "</ul>\n";
}

std::string figure_html(const Figure& figure, Ids& ids) {
  const std::string id = ids.unique(figure.id);
  // draw_inline_svg() names the element with this id.
  std::string out = fmt::format(
      "<figure id=\"{0}\">\n<figcaption><h3 id=\"{0}-title\">{1}</h3>{2}</figcaption>\n", id,
      escaped(figure.title), paragraph("", figure.caption));
  out += fmt::format(
      "<div class=\"plot\" role=\"group\" tabindex=\"0\" aria-labelledby=\"{}-title\">\n", id);
  out += draw_inline_svg(figure, id) + "</div>\n" + legend(figure, id);
  return out + "<details><summary>Data</summary>\n" +
         table_html(figure_table(figure, kMostRows), id + "-data") + "</details>\n</figure>\n";
}

std::string section_html(const Section& section, const std::string& id, Ids& ids) {
  std::string out = fmt::format("<section aria-labelledby=\"{0}\">\n<h2 id=\"{0}\">{1}</h2>\n", id,
                                escaped(section.title));
  for (const std::string& text : section.paragraphs) out += paragraph("", text);
  for (const Figure& figure : section.figures) out += figure_html(figure, ids);
  for (const Table& table : section.tables) {
    const std::string text = table_html(table, ids.unique(table.id));
    out += table.folded ? fmt::format("<details><summary>{}</summary>\n{}</details>\n",
                                      escaped(table.title), text)
                        : text;
  }
  return out + "</section>\n";
}

/// JSON in which no '<', '>' or '&' is left: those are found in strings only, where an escape means
/// the same.
std::string json_for_html(const std::string& json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<' || c == '>' || c == '&') {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out;
}

std::string head(const Page& page) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n<meta "
      "charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<link rel=\"icon\" "
      "href=\"data:,\"/>\n<title>{}</title>\n<style>/*<![CDATA[*/\n{}{}/*]]>*/</style>\n</head>\n",
      escaped(page.title), figure_style(), page_style());
}

}  // namespace

std::string html(const Page& page) {
  Ids ids;
  for (const char* own : {"content", "warnings", "numbers"}) ids.unique(own);
  std::vector<std::string> section_ids;
  for (const Section& section : page.sections) section_ids.push_back(ids.unique(section.id));
  std::string contents, sections;
  for (std::size_t i = 0; i < section_ids.size(); ++i) {
    const Section& section = page.sections[i];
    contents +=
        fmt::format("<li><a href=\"#{}\">{}</a></li>\n", section_ids[i], escaped(section.title));
    sections += section_html(section, section_ids[i], ids);
  }
  std::string out = head(page) +
                    "<body>\n<a class=\"skip\" href=\"#content\">Skip to the results</a>\n<div "
                    "class=\"layout\">\n";
  out += "<header>\n<h1>" + escaped(page.title) + "</h1>\n" + "<div class=\"verdict\">\n";
  for (const std::string& sentence : page.verdict) out += paragraph("", sentence);
  out += "</div>\n";
  if (!page.warnings.empty()) {
    out +=
        "<section class=\"warnings\" aria-labelledby=\"warnings\">\n<h2 "
        "id=\"warnings\">Warnings</h2>\n" +
        list(page.warnings) + "</section>\n";
  }
  out += "</header>\n";
  if (!contents.empty())
    out += "<nav aria-label=\"Sections\">\n<ol>\n" + contents + "</ol>\n</nav>\n";
  out += "<main id=\"content\" tabindex=\"-1\">\n" + sections + "</main>\n";
  out +=
      "<footer>Written by halomesh report; --figures DIR writes each figure as SVG and "
      "CSV.</footer>\n</div>\n";
  if (!page.raw_json.empty()) {
    out += R"(<script id="numbers" type="application/json">)" + json_for_html(page.raw_json) +
           "</script>\n";
  }
  return out + "<script>//<![CDATA[\n" + page_script() + "//]]></script>\n</body>\n</html>\n";
}

}  // namespace halomesh
