# SPDX-License-Identifier: Apache-2.0
"""Sets a page as one HTML file that asks nothing of the network and is complete without its script. It is
well-formed XML, too, whatever the texts hold."""
import itertools
import pathlib
import re

import jinja2

from halomesh import outputs
from halomesh.report.drawing import HATCHES, MARKERS, Drawing, colour_of, dark_rules
from halomesh.report.model import BARS, POINTS
from halomesh.texts import clean

HERE = pathlib.Path(__file__).parent
# The shapes of MARKERS, each in a square of 14 pixels around the middle of a swatch at (14, 7).
SHAPES = ["M18 7a4 4 0 1 0-8 0a4 4 0 1 0 8 0z", "M10 3h8v8h-8z", "M14 2.5l4.5 8h-9z", "M14 2l5 5-5 5-5-5z",
          "M14 11.5l4.5-8h-9z", "M9.500 7l8-4.500v9z", "M12.500 2.500h3v3h3v3h-3v3h-3v-3h-3v-3h3z", "M18.500 7l-8-4.500v9z"]
STROKES = ["", "M0 8L8 0", "M0 4h8", "M0 0L8 8", "M0 0L8 8M0 8L8 0", "M4 0v8", "M0 4h8M4 0v8", "M0 4L4 0M4 8L8 4"]


def clean_all(value):
    if isinstance(value, (list, tuple)):
        return [clean_all(each) for each in value]
    if isinstance(value, dict):
        return {clean(key): clean_all(each) for key, each in value.items()}
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return clean(value)


class Ids:
    """Ids that are on the page: one that is taken gets a number."""

    def __init__(self, *taken):
        self._taken = set(taken)

    def __call__(self, wanted):
        base = re.sub(r"[^A-Za-z0-9_-]", "-", wanted)
        base = base if base[:1].isalpha() else "n" + base
        for found in itertools.chain([base], (f"{base}-{i}" for i in itertools.count(2))):
            if found not in self._taken:
                self._taken.add(found)
                return found


def swatches(figure):
    """What of each series a sample in the legend shows."""
    for index, series in enumerate(figure.series):
        yield {"name": series.name, "colour": colour_of(figure, index), "has_bar": series.mark == BARS or figure.spans,
               "hatch": index % len(HATCHES), "has_line": series.mark != POINTS, "is_dashed": series.is_dashed,
               "shape": SHAPES[index % len(MARKERS)], "is_hollow": series.is_dashed or series.is_published}


def html(page):
    ids = Ids("content", "warnings", "numbers")
    for section in page.sections:
        section.id = ids(section.id)
    for section in page.sections:
        for part in [*section.figures, *section.tables]:
            part.id = ids(part.id)
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(HERE), autoescape=True, trim_blocks=True,
                                     lstrip_blocks=True, finalize=clean)
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}

    def data_of(figure, drawing):
        return clean_all({"id": figure.id, "x": figure.x.label, "y": figure.y.label, "categories": figure.categories,
                          "spans": bool(figure.spans),
                          "series": [{"name": series.name, "points": marks}
                                     for series, marks in zip(figure.series, drawing.marks)]})

    def read(name):
        return jinja2.utils.markupsafe.Markup((HERE / name).read_text("utf-8"))
    return environment.get_template("page.html").render(
        page=page, draw=Drawing, data_of=data_of, swatches=swatches, strokes=list(enumerate(STROKES))[1:],
        read=read, dark_rules=dark_rules(".figure"), numbers=clean_all(page.numbers),
        markup=lambda text: jinja2.utils.markupsafe.Markup(clean(text)))


def write_figures(sections, directory):
    """Writes each figure as ID.svg and its numbers as ID.csv; returns how many there are."""
    outputs.make_directory(directory, "--figures directory")
    figures = [figure for section in sections for figure in section.figures]
    for figure in figures:
        place = pathlib.Path(directory) / figure.id
        outputs.write_text(f"{place}.svg", clean(Drawing(figure).svg))
        outputs.write_text(f"{place}.csv", figure.csv())
    return len(figures)
