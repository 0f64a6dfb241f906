# SPDX-License-Identifier: Apache-2.0
"""Figures and tables as data: what a report shows, independent of how it is drawn."""
import csv
import dataclasses
import io
import math
from typing import NamedTuple

from halomesh.texts import readable

# Where the names and numbers of the figures and tables come from.
PAPER = "Farrell et al., arXiv:2110.11466"
LINE, POINTS, LINE_AND_POINTS, BARS = "line", "points", "line and points", "bars"
MOST_ROWS = 200  # of the table of a figure


class Point(NamedTuple):
    """One mark, with a whisker from low to high. NaN in y: a gap in a line."""

    x: float
    y: float
    low: float = None
    high: float = None
    label: str = ""


def ranged(x, y, low, high, label=""):
    """A point with a whisker where there is a range."""
    return Point(x, y, low, high, label) if low < high else Point(x, y, label=label)


class Span(NamedTuple):
    """An interval of a row of a timeline; row and series are indices of categories and series."""

    row: int
    series: int
    begin: float
    end: float
    label: str = ""


class Level(NamedTuple):
    """A line of y = factor * x^power, labelled."""

    label: str
    factor: float
    power: float


class Scale(NamedTuple):
    """A second scale of an axis: shown value = value x factor."""

    label: str
    factor: float


@dataclasses.dataclass
class Axis:
    label: str = ""  # with its unit: "time in s"
    is_log: bool = False


@dataclasses.dataclass
class Series:
    name: str
    mark: str = LINE
    points: list = dataclasses.field(default_factory=list)
    is_published: bool = False  # drawn in grey
    is_dashed: bool = False

    def has_points(self):
        return any(math.isfinite(p.x) and math.isfinite(p.y) for p in self.points)


@dataclasses.dataclass
class Figure:
    id: str  # of the file and the anchor
    title: str
    x: Axis
    y: Axis
    caption: str = ""
    series: list = dataclasses.field(default_factory=list)
    # With bars: a group per category, x of a point is its index; in a timeline: the rows.
    categories: list = dataclasses.field(default_factory=list)
    is_stacked: bool = False  # bars of a category on top of each other
    is_horizontal: bool = False  # bars lie, categories downwards
    levels: list = dataclasses.field(default_factory=list)
    spans: list = dataclasses.field(default_factory=list)  # not empty: a timeline
    top: Scale = None
    right: Scale = None

    def add(self, *series):
        """Adds the series that have a point that can be drawn."""
        self.series += [each for each in series if each.has_points()]
        return self

    def range_over(self, value):
        """Least and most of value(point) over all finite positive ones; (1, 1) when there is none."""
        values = [v for series in self.series for v in map(value, series.points) if math.isfinite(v) and v > 0]
        return (min(values), max(values)) if values else (1.0, 1.0)

    def place(self, x):
        """The category of x, or the number."""
        return self.categories[int(x)] if self.categories and 0 <= x < len(self.categories) else x

    def rows(self):
        """The numbers as rows under column names, for a CSV file."""
        if self.spans:
            yield "row", "series", "begin", "end", "label"
            for s in self.spans:
                yield self.categories[s.row], self.series[s.series].name, s.begin, s.end, s.label
            return
        yield "series", self.x.label or "category", self.y.label or "y", "low", "high", "label"
        for series in self.series:
            for p in series.points:
                yield series.name, self.place(p.x), p.y, p.low, p.high, p.label

    def csv(self):
        """All numbers, each with all its digits."""
        out = io.StringIO()
        csv.writer(out).writerows(
            ["" if cell is None or isinstance(cell, float) and math.isnan(cell) else cell for cell in row]
            for row in self.rows())
        return out.getvalue()

    def table(self):
        """The numbers for a reader: at most MOST_ROWS rows, evenly spaced."""
        rows = list(self.rows())
        head, rows = rows[0], rows[1:]
        step = max(1, -(-len(rows) // MOST_ROWS))
        kept = [[readable(cell) if isinstance(cell, (int, float)) else cell or "" for cell in row]
                for row in rows[::step]]
        used = [c for c in range(len(head)) if c < 3 or any(row[c] for row in kept)]
        numeric = [all(not isinstance(row[c], str) for row in rows) for c in used]
        table = Table("", f"Data: {self.title}", [head[c] for c in used],
                      "".join(">" if right else "<" for right in numeric), "", [[row[c] for c in used] for row in kept])
        if step > 1:
            table.notes.append(f"{len(kept)} of {readable(len(rows))} rows, evenly spaced; the CSV file has more.")
        return table


@dataclasses.dataclass
class Table:
    """Cells are text. `alignment` has a character per column: '<' for text, '>' for numbers."""

    id: str
    title: str
    columns: list
    alignment: str
    caption: str = ""
    rows: list = dataclasses.field(default_factory=list)
    notes: list = dataclasses.field(default_factory=list)
    is_folded: bool = False  # shown on request: long, and of interest to few


@dataclasses.dataclass
class Section:
    """One block of a page: the text, then figures, then tables. One without any is not shown."""

    id: str
    title: str
    paragraphs: list = dataclasses.field(default_factory=list)
    figures: list = dataclasses.field(default_factory=list)
    tables: list = dataclasses.field(default_factory=list)

    def add(self, *parts):
        """Adds the figures that have a series and the tables that have a row."""
        for part in parts:
            if isinstance(part, Figure) and part.series:
                self.figures.append(part)
            elif isinstance(part, Table) and part.rows:
                self.tables.append(part)
        return self

    def is_empty(self):
        return not (self.paragraphs or self.figures or self.tables)


@dataclasses.dataclass
class Page:
    title: str
    verdict: list  # a sentence for each group of runs
    warnings: list
    sections: list
    numbers: dict  # behind the page, for scripts


def decades(least, most):
    """The powers of ten around a range."""
    first, last = math.floor(math.log10(least)), math.ceil(math.log10(most))
    return [10.0 ** power for power in range(first, min(last, first + 19) + 1)]
