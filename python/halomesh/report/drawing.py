# SPDX-License-Identifier: Apache-2.0
"""Draws a figure by Matplotlib as SVG, and says where its marks are, for a script that shows their values."""
import io
import math
import re
import warnings
from html import escape

import matplotlib
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from halomesh.report.model import BARS, LINE, LINE_AND_POINTS, POINTS
from halomesh.texts import clean, readable

# Okabe and Ito (2008), those too pale for white darkened to a contrast of 3; beside each its colour where the
# viewer's scheme is dark: page.css and dark_rules() change one into the other.
SERIES = ["#0072b2", "#d55e00", "#009e73", "#c06a99", "#c58800", "#3a9bd9", "#1f2329", "#8f8600"]
GREY, INK, QUIET, GRID, PAPER = "#6e7781", "#1f2328", "#59636e", "#d8dee4", "#ffffff"
DARK = dict(zip([*SERIES, GREY, INK, QUIET, GRID, PAPER],
                ["#2f8fd0", "#e8743b", "#00a878", "#cc79a7", "#e69f00", "#7cc4ee", "#f0f3f6", "#f0e442",
                 "#8b949e", "#e6edf3", "#9aa4af", "#2a313a", "#0d1117"]))
MARKERS = "os^Dv<P>"
HATCHES = ["", "//", "--", "\\\\", "xx", "||", "++", "///"]
WIDTH, PLOT_HEIGHT, ROW_HEIGHT, BAR_HEIGHT = 680, 290, 26, 14  # pixels, as the two below
LABEL_ROOM, TICK_ROOM, LETTER, LINE_HEIGHT = 24, 24, 7.6, 20
COLUMNS = 600  # of pixels: a line keeps the least and the largest of each
MOST_SHAPES = 400  # of a series of points; more are drawn as dots
MOST_LETTERS = 28  # of a category
STYLE = {"svg.fonttype": "none", "font.family": ["DejaVu Sans"], "font.size": 12.5, "text.color": INK,
         "axes.labelcolor": INK, "axes.edgecolor": QUIET, "axes.facecolor": "none", "axes.linewidth": 0.8,
         "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True,
         "grid.color": GRID, "grid.linewidth": 0.8, "xtick.color": QUIET, "ytick.color": QUIET,
         "xtick.labelcolor": INK, "ytick.labelcolor": INK, "hatch.color": PAPER, "hatch.linewidth": 0.8,
         "path.simplify": True, "axes.unicode_minus": False, "figure.dpi": 72, "axes.labelsize": 13}


def drawable(text):
    """A text that is drawn as it is: a dollar begins no formula."""
    return clean(text).replace("$", r"\$")


def colour_of(figure, index):
    return GREY if figure.series[index].is_published else SERIES[index % len(SERIES)]


def dark_rules(scope=""):
    """Rules of a style sheet that change the colours of drawings for a dark scheme."""
    return "\n".join(f'{scope} [{attribute}"] {{ {kind}: {dark} !important }}' for light, dark in DARK.items()
                     for kind, attribute in (("fill", f'style*="fill: {light}'), ("fill", f'fill="{light}'),
                                             ("stroke", f'style*="stroke: {light}')))


def thinned(points, axis):
    """The points of a line: of those in a column of pixels the least, the largest and their order are kept."""
    if len(points) <= 2 * COLUMNS:
        return points

    def along(x):
        return math.log(x) if axis.is_log else x
    finite = [along(p.x) for p in points if math.isfinite(p.x) and (p.x > 0 or not axis.is_log)]
    least, most = min(finite), max(finite)
    columns = {}
    for i, p in enumerate(points):
        if not (math.isfinite(p.x) and math.isfinite(p.y)) or axis.is_log and p.x <= 0:
            continue
        low, high = columns.setdefault(int(COLUMNS * (along(p.x) - least) / ((most - least) or 1)), (i, i))
        columns[int(COLUMNS * (along(p.x) - least) / ((most - least) or 1))] = (
            i if p.y < points[low].y else low, i if p.y > points[high].y else high)
    kept = {0, len(points) - 1}.union(*columns.values())
    return [points[i] for i in sorted(kept)]


def can_be_shown(figure, p):
    """A logarithmic axis has no place for what is not positive."""
    return (math.isfinite(p.x) and math.isfinite(p.y) and (p.x > 0 or not figure.x.is_log)
            and (p.y > 0 or not figure.y.is_log))


class Drawing:
    """A drawn figure.

    svg    the document, with a title and a legend of its own, which follows the scheme of its viewer
    inline the element for a page, without title and legend, which the page shows as text
    marks  for each series a list of [x, y in pixels, x, y, low, high, label], the last three where known
    """

    def __init__(self, figure):
        self.figure = figure
        with self._style():
            self._canvas = Canvas()
            FigureCanvasSVG(self._canvas)
            self._axes = self._canvas.add_axes((0, 0, 1, 1))
            self._plotted = [thinned(series.points, figure.x) if series.mark != BARS else series.points
                             for series in figure.series]
            self._dropped = sum(math.isfinite(p.x) and math.isfinite(p.y) and not can_be_shown(figure, p)
                                for series in figure.series for p in series.points)
            self._places = [[] for _ in figure.series]  # (x, y of the axes, number, ...) of each mark
            if figure.spans:
                self._draw_spans()
            else:
                for index, series in enumerate(figure.series):
                    (self._draw_bars if series.mark == BARS else self._draw_points)(index, series)
            self._set_axes()
            self._place_axes(0, 0)
            self._draw_levels()
            self.inline = self._root(self._saved())
            self.marks = self._marks()

    def _style(self):
        return matplotlib.rc_context({**STYLE, "svg.hashsalt": self.figure.id})

    def _plot_height(self):
        figure = self.figure
        if not figure.categories or not (figure.is_horizontal or figure.spans):
            return PLOT_HEIGHT
        bars = 1 if figure.is_stacked or figure.spans else len(figure.series)
        return len(figure.categories) * max(ROW_HEIGHT, bars * BAR_HEIGHT + 8)

    def _place_axes(self, above, below):
        """Gives the labels room by their lengths, and `above` and `below` to a title and a legend."""
        def widest(axis):
            return LETTER * max((len(label) for label in labels_of(axis)), default=0)
        axes = self._axes
        left = 14 + widest(axes.yaxis) + (LABEL_ROOM if axes.get_ylabel() else 0)
        right = 22 + (widest(self._right.yaxis) + LABEL_ROOM if self._right else 0)
        bottom = TICK_ROOM + (LABEL_ROOM if axes.get_xlabel() else 0) + below
        if self._is_slanted:
            bottom += 0.65 * widest(axes.xaxis)
            left = max(left, 0.8 * LETTER * len(self._names[0]))
        top = 12 + (TICK_ROOM + LABEL_ROOM if self._top else 0) + above
        height = self._plot_height() + bottom + top
        self._canvas.set_size_inches(WIDTH / 72, height / 72)
        axes.set_position((left / WIDTH, bottom / height, (WIDTH - left - right) / WIDTH, self._plot_height() / height))

    def _draw_points(self, index, series):
        points = [p for p in self._plotted[index]]
        shown = [p if can_be_shown(self.figure, p) else p._replace(y=math.nan) for p in points]
        colour, marker = colour_of(self.figure, index), MARKERS[index % len(MARKERS)]
        x, y = [p.x for p in shown], [p.y for p in shown]
        hollow = {"markerfacecolor": PAPER} if series.is_dashed or series.is_published else {}
        style = {"color": colour, "markeredgecolor": colour, "gid": f"s{index}-line", "zorder": 3, **hollow}
        if series.mark == POINTS and len(points) > MOST_SHAPES:
            self._axes.plot(x, y, linestyle="none", marker=".", markersize=3, alpha=0.6, **style)
        elif series.mark == POINTS:
            self._axes.plot(x, y, linestyle="none", marker=marker, markersize=7, **style)
        else:
            # A line of many points carries its shape at some places, so that it is known without its colour.
            several = len(self.figure.series) > 1 and series.mark == LINE and len(points) > 2
            sixth = max(len(points) // 6, 1)
            every = (sixth * (index % 8) // 8, sixth) if several or len(points) > 60 else None
            self._axes.plot(x, y, linestyle="--" if series.is_dashed else "-", linewidth=1.6, markevery=every,
                            marker=marker if several or series.mark == LINE_AND_POINTS or len(points) == 1 else "",
                            markersize=5.5, **style)
        ranged = [p for p in shown if p.low is not None and math.isfinite(p.y)]
        if ranged:
            least = min((p.low for p in ranged if p.low > 0), default=1e-300) if self.figure.y.is_log else -math.inf
            lows = [p.y - max(p.low, min(least, p.y)) for p in ranged]
            self._add_whiskers(f"s{index}-range", [p.x for p in ranged], [p.y for p in ranged], "yerr",
                               [lows, [p.high - p.y for p in ranged]], 2.5)
        self._places[index] = [(p.x, p.y, *p) for p in shown if math.isfinite(p.y)]

    def _draw_bars(self, index, series):
        figure, axes = self.figure, self._axes
        bars = [i for i, each in enumerate(figure.series) if each.mark == BARS]
        thickness = min(0.8, 0.8 if figure.is_stacked else 0.8 / len(bars))
        offset = 0 if figure.is_stacked else (bars.index(index) - (len(bars) - 1) / 2) * thickness
        if index == bars[0]:
            self._reach = {}
        style = {"color": colour_of(figure, index), "edgecolor": PAPER, "linewidth": 0.8,
                 "hatch": HATCHES[index % len(HATCHES)], "zorder": 3}
        for number, p in enumerate(series.points):
            if not can_be_shown(figure, p):
                continue
            base = self._reach.get((p.x, p.y < 0), 0.0) if figure.is_stacked else 0.0
            self._reach[p.x, p.y < 0] = base + p.y
            if figure.is_horizontal:
                drawn = axes.barh(p.x + offset, p.y, thickness, base, **style)
            else:
                drawn = axes.bar(p.x + offset, p.y, thickness, base, **style)
            drawn[0].set_gid(f"s{index}-bar{number}")
            if p.low is not None:
                end = (base + p.y, p.x) if figure.is_horizontal else (p.x + offset, base + p.y)
                self._add_whiskers(f"s{index}-range{number}", *end, "xerr" if figure.is_horizontal else "yerr",
                                   [[p.y - p.low], [p.high - p.y]], 4)
            middle = base + p.y / 2
            self._places[index].append(((middle, p.x + offset) if figure.is_horizontal else (p.x + offset, middle)) + p)

    def _add_whiskers(self, gid, x, y, direction, errors, order):
        drawn = self._axes.errorbar(x, y, **{direction: errors}, fmt="none", ecolor=INK, elinewidth=1.2, capsize=2.5,
                                    zorder=order)
        for i, artist in enumerate([*drawn[1], *drawn[2]]):
            artist.set_gid(f"{gid}-{i}")

    def _draw_spans(self):
        parts = {}
        for span in self.figure.spans:
            parts.setdefault((span.series, span.row), []).append(span)
        for (index, row), spans in parts.items():
            self._axes.broken_barh([(s.begin, s.end - s.begin) for s in spans], (row - 0.38, 0.76),
                                   facecolor=colour_of(self.figure, index), edgecolor=PAPER, linewidth=0.3,
                                   hatch=HATCHES[index % len(HATCHES)], gid=f"s{index}-row{row}", zorder=3)
            self._places[index] += [((s.begin + s.end) / 2, row, s.row, s.end - s.begin, s.begin, s.end, s.label)
                                    for s in spans]

    def _set_axes(self):
        figure, axes = self.figure, self._axes
        names = [drawable(name if len(name) <= MOST_LETTERS else name[:MOST_LETTERS - 1] + "…")
                 for name in figure.categories]
        self._names, self._is_slanted = names, False
        axes.set_xlabel(drawable((figure.y if figure.is_horizontal and not figure.spans else figure.x).label))
        axes.set_ylabel("" if figure.is_horizontal else drawable(figure.y.label))
        numeric = []
        if not names:
            numeric = [(axes.xaxis, figure.x.is_log), (axes.yaxis, figure.y.is_log)]
        elif figure.is_horizontal:
            axes.set_yticks(range(len(names)), names)
            axes.set_ylim(len(names) - 0.5, -0.5)
            axes.grid(False, axis="y")
            numeric = [(axes.xaxis, False)]
        else:
            self._is_slanted = max(map(len, names)) * LETTER > (WIDTH - 120) / len(names)
            axes.set_xticks(range(len(names)), names)
            if self._is_slanted:
                axes.tick_params("x", rotation=40)
                for label in axes.get_xticklabels():
                    label.set(ha="right", rotation_mode="anchor")
            axes.set_xlim(-0.5, len(names) - 0.5)
            axes.grid(False, axis="x")
            numeric = [(axes.yaxis, figure.y.is_log)]
        for axis, is_log in numeric:
            scale_axis(axis, is_log)
        if figure.spans:
            axes.margins(x=0)
        self._top = self._add_scale(figure.top, "top") if figure.top else None
        self._right = self._add_scale(figure.right, "right") if figure.right else None
        if self._dropped:
            axes.text(0.01, 0.98, f"not shown: {self._dropped} "
                      f"{'value that is' if self._dropped == 1 else 'values that are'} not positive",
                      transform=axes.transAxes, va="top", color=QUIET, fontsize=11)

    def _add_scale(self, second, where):
        factor = second.factor
        functions = (lambda value: value * factor, lambda value: value / factor)
        axis = (self._axes.secondary_xaxis if where == "top" else self._axes.secondary_yaxis)(where, functions=functions)
        (axis.set_xlabel if where == "top" else axis.set_ylabel)(drawable(second.label))
        axis._set_scale()
        axis._set_lims()
        scale_axis(axis.xaxis if where == "top" else axis.yaxis,
                   self.figure.x.is_log if where == "top" else self.figure.y.is_log, False)
        return axis

    def _draw_levels(self):
        """Lines of constant y / x^power, each labelled at its upper end, where there is room."""
        figure, axes = self.figure, self._axes
        (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
        labelled = []
        for level in figure.levels:
            share = [i / 512 for i in range(513)]
            x = [left * (right / left) ** s if figure.x.is_log else left + s * (right - left) for s in share]
            inside = [(a, b) for a in x for b in [level.factor * a ** level.power if a > 0 or level.power >= 0 else math.nan]
                      if low <= b <= high]
            if len(inside) < 2:
                continue
            axes.plot(*zip(*inside), color=QUIET, linewidth=0.9, linestyle=(0, (2, 3)), zorder=1.5)
            pixels = [axes.transData.transform(p) for p in (inside[0], inside[-1])]
            angle = math.degrees(math.atan2(pixels[1][1] - pixels[0][1], pixels[1][0] - pixels[0][0]))
            rises = angle >= 0
            end, at = (inside[-1], pixels[1]) if rises else (inside[0], pixels[0])
            if any(math.dist(at, other) < 18 for other in labelled) or math.dist(*pixels) < 60:
                continue
            labelled.append(at)
            # It hangs below the line, some way before its end.
            turned, back = math.radians(angle), -14 if rises else 14
            offset = (back * math.cos(turned) + 12 * math.sin(turned), back * math.sin(turned) - 12 * math.cos(turned))
            axes.annotate(drawable(level.label), end, offset, textcoords="offset points", rotation=angle,
                          rotation_mode="anchor", ha="right" if rises else "left", va="baseline", color=QUIET,
                          fontsize=11, zorder=5, gid=f"level{len(labelled)}")
        axes.set_xlim(left, right)
        axes.set_ylim(low, high)

    def _saved(self):
        out = io.BytesIO()
        with warnings.catch_warnings():  # the reader's browser has letters that Matplotlib's font lacks
            warnings.filterwarnings("ignore", message="Glyph")
            self._canvas.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        text = out.getvalue().decode()
        body = text[text.index("<svg"):]
        body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, flags=re.S)
        # A hundredth of a pixel is enough in a path; texts between elements are left as they are.
        return re.sub(r"<[^>]+>", lambda tag: re.sub(r"(\.\d\d)\d+", r"\1", tag[0]), body)

    def _root(self, body, extra="", role="img"):
        """The element with a name and a description for readers who cannot see the figure; the ids in it are made
        its own, as several figures stand on one page."""
        name = re.sub(r"[^A-Za-z0-9_-]", "-", self.figure.id)
        width, height = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', body).groups()
        body = body[body.index(">", body.index("<svg")) + 1:]
        body = re.sub(r' id="s(\d+)-([^"]*)"', rf' class="series" data-series="\1" id="{name}-s\1-\2"', body)
        body = re.sub(r' id="level(\d+)"', rf' class="level-label" id="{name}-level\1"', body)
        body = re.sub(r' id="(?!%s-s\d+-|%s-level)([^"]*)"' % (name, name), rf' id="{name}-\1"', body)
        body = re.sub(r'(href="#|url\(#)', rf"\1{name}-", body)
        body = re.sub(r'<style type="text/css">.*?</style>', "", body, flags=re.S)
        return (f'<svg class="figure" xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
                f'role="{role}" viewBox="0 0 {width} {height}" aria-labelledby="{name}-name" '
                f'aria-describedby="{name}-about">\n<title id="{name}-name">{escape(clean(self.figure.title))}</title>\n'
                f'<desc id="{name}-about">{escape(clean(self.description()))}</desc>\n{extra}{body}')

    def description(self):
        figure, axes = self.figure, self._axes

        def axis(where, label, limits, is_log, names):
            label = f": {label}" if label else ""
            if names:
                return f"{where} axis{label}, {len(names)} categories."
            low, high = sorted(limits)
            return f"{where} axis{label}, {'logarithmic, ' if is_log else ''}from {readable(low)} to {readable(high)}."
        lying = figure.is_horizontal
        parts = [figure.caption,
                 axis("Horizontal", axes.get_xlabel(), axes.get_xlim(), figure.x.is_log, not lying and figure.categories),
                 axis("Vertical", axes.get_ylabel(), axes.get_ylim(), figure.y.is_log, lying and figure.categories),
                 "Series: " + ", ".join(series.name for series in figure.series) + "."]
        return " ".join(filter(None, parts))

    @property
    def svg(self):
        figure, rows = self.figure, -(-len(self.figure.series) // 2) if len(self.figure.series) > 1 else 0
        with self._style():
            below = rows * LINE_HEIGHT + 8 * bool(rows)
            self._place_axes(34, below)
            height = self._canvas.get_figheight() * 72
            self._canvas.text(14 / WIDTH, 1 - 24 / height, drawable(figure.title), color=INK, fontsize=15)
            if rows:
                self._canvas.legend([self._handle(i) for i in range(len(figure.series))],
                                    [drawable(series.name[:60]) for series in figure.series], loc="lower left", frameon=False,
                                    ncols=2, bbox_to_anchor=(0, 0, 1, below / height), fontsize=12, labelspacing=0.3)
            style = (f"<style>.figure {{ background: {PAPER} }}\n@media (prefers-color-scheme: dark) {{\n"
                     f".figure {{ background: {DARK[PAPER]} }}\n{dark_rules('.figure')}\n}}</style>\n")
            return '<?xml version="1.0" encoding="utf-8"?>\n' + self._root(self._saved(), style)

    def _handle(self, index):
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch
        series, colour = self.figure.series[index], colour_of(self.figure, index)
        if series.mark == BARS or self.figure.spans:
            return Patch(facecolor=colour, edgecolor=PAPER, hatch=HATCHES[index % len(HATCHES)])
        hollow = {"markerfacecolor": PAPER} if series.is_dashed or series.is_published else {}
        return Line2D([], [], color=colour, marker=MARKERS[index % len(MARKERS)], markeredgecolor=colour,
                      linestyle="none" if series.mark == POINTS else "--" if series.is_dashed else "-", **hollow)

    def _marks(self):
        """Where the marks of each series are in the element, and their values."""
        height = self._canvas.get_figheight() * 72
        found = []
        for places in self._places:
            rows = []
            at = self._axes.transData.transform([place[:2] for place in places]) if places else []
            for (left, up), (_, _, x, y, low, high, label) in zip(at, places):
                row = [round(float(left), 1), round(float(height - up), 1), short(x), short(y), short(low), short(high),
                       label]
                while row[-1] in (None, ""):
                    row.pop()
                rows.append(row)
            found.append(rows)
        return found


def labels_of(axis):
    """The texts of the ticks in view."""
    least, most = sorted(axis.get_view_interval())
    places = [place for place in axis.get_majorticklocs() if least <= place <= most]
    return axis.get_major_formatter().format_ticks(places)


def short(value):
    return None if value is None else float(f"{value:.7g}")


def scale_axis(axis, is_log, sets_scale=True):
    """Ticks with readable numbers."""
    if not is_log:
        axis.set_major_locator(MaxNLocator(7, steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(FuncFormatter(lambda value, _: readable(float(f"{value:.10g}"))))
        return
    if sets_scale:
        (axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale)("log")
    least, most = sorted(axis.get_view_interval())
    decades = math.log10(most / least) if least > 0 else 9
    axis.set_minor_locator(LogLocator(subs=range(2, 10)) if decades < 6 else NullLocator())
    if decades < 0.7:
        axis.set_major_locator(FixedLocator([v for v in MaxNLocator(5).tick_values(least, most) if least <= v <= most]))
        axis.set_minor_locator(NullLocator())
    else:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 2.5 else (1,), numticks=9))
    axis.set_major_formatter(FuncFormatter(lambda value, _: readable(float(f"{value:.10g}"))))
    axis.set_minor_formatter(NullFormatter())
