# SPDX-License-Identifier: Apache-2.0
"""Curves of training, the options of the runs, and predictions."""
import math

from halomesh import records
from halomesh.report.model import (LINE, LINE_AND_POINTS, POINTS, Axis, Figure, Level, Point, Scale, Section,
                                   Series, Table)
from halomesh.texts import shown, statistics_of

MOST_COLUMNS = 12  # runs in the table of differences
RATE_POINTS = 400  # of a curve of samples/s
MOST_SAMPLES, MOST_OUTPUTS = 500, 8  # of predictions
SCORE_TITLES = {
    "mae": ("mean absolute error", "Over the validation set, after an epoch."),
    "dice": ("mean Dice coefficient", "Of all classes but the first, over the validation set, after an epoch."),
    "iou": ("mean intersection over union", "Of all classes, over the validation set, after an epoch."),
    "accuracy": ("accuracy", "Share of the labels of the validation set that are predicted, after an epoch.")}
MOST_CLASSES = 20  # of a matrix


def options_in(record):
    options = records.at(record, "options")
    return {name: records.option(record, name) for name in options} if isinstance(options, dict) else {}


def options_section(input):
    section = Section("options", "Options")
    named = [(run.name, options_in(run.record)) for run in input.runs]
    if not any(options for _, options in named):  # options of bench mean other things: only alike ones compare
        named = [(bench.name, options_in(bench.record)) for bench in input.benches]
    named = [(name, options) for name, options in named if options]
    if not named:
        return section
    if len(named) > 1:
        table = Table("options-different", "Options that differ",
                      ["option", *(name for name, _ in named[:MOST_COLUMNS])], "<" * (1 + len(named[:MOST_COLUMNS])),
                      "Options with different values.")
        # Where a run is written differs always and says nothing.
        for name in dict.fromkeys(name for _, options in named for name in options if name not in ("out", "json")):
            values = [options.get(name, "-") for _, options in named]
            if len(set(values)) > 1:
                table.rows.append([name, *values[:MOST_COLUMNS]])
        if len(named) > MOST_COLUMNS:
            table.notes.append(f"Runs not shown in this table: {len(named) - MOST_COLUMNS}.")
        section.add(table)
        if not table.rows:
            section.paragraphs.append("All runs have the same options.")
    return section.add(Table("options", f"Options of {named[0][0]}" if len(named) > 1 else "All options",
                             ["option", "value"], "<<", "All options with their values.",
                             [list(item) for item in named[0][1].items()], is_folded=True))


class Curve:
    """The pieces of one run and where each stands on the axes."""

    def __init__(self, run):
        self.run, self.steps_per_epoch, self.pieces = run, run.steps_per_epoch(), run.files.pieces
        self.seconds = self.pieces[-1].end

    def place(self, step, end, over, unit):
        return {"time": end / unit, "steps": step, "epochs": step / self.steps_per_epoch}[over]

    def losses(self, over, unit):
        for piece in self.pieces:
            ends = {piece.least[0]: piece.least, piece.most[0]: piece.most}
            for _, (step, end, loss) in sorted(ends.items()):
                yield Point(self.place(step, end, over, unit), loss)

    def learning_rates(self, over, unit):
        """Only where the rate changes: the last step of the old value and the first of the new."""
        found = []
        for piece in self.pieces:
            for step, end, lr in (piece.starts, (piece.step, piece.end, piece.lr)):
                new = Point(self.place(step, end, over, unit), lr)
                if len(found) > 1 and found[-1].y == found[-2].y == lr:
                    found.pop()
                if not found or found[-1].x != new.x:
                    found.append(new)
        return found

    def rates(self, over, unit):
        size = -(-len(self.pieces) // RATE_POINTS)
        for begin in range(0, len(self.pieces), size):
            some = self.pieces[begin:begin + size]
            seconds = sum(piece.seconds for piece in some)
            samples = sum(piece.steps for piece in some) * self.run.batch
            yield Point(self.place(some[-1].step, some[-1].end, over, unit),
                        samples / seconds if seconds > 0 else math.nan)

    def scores(self, kind, over, unit):
        for each, score, epoch, _, _, end in self.run.files.evaluations:
            if each == kind:
                yield Point(self.place((epoch + 1) * self.steps_per_epoch, end, over, unit), score)


def training_figure(name, title, axis, caption, mark, curves, points, over):
    seconds = max(curve.seconds for curve in curves)
    unit, unit_name = (3600, "h") if seconds > 7200 else (60, "min") if seconds > 600 else (1, "s")
    figure = Figure(f"{name}-over-{over}", f"{title} against {over}",
                    Axis(f"time in {unit_name}" if over == "time" else over), Axis(axis), caption)
    figure.add(*(Series(curve.run.name, mark, list(points(curve, over, unit))) for curve in curves))
    values = [p.y for series in figure.series for p in series.points if math.isfinite(p.y)]
    figure.y.is_log = bool(values) and min(values) > 0 and max(values) > 20 * min(values)
    if over == "epochs" and len({curve.steps_per_epoch for curve in curves}) == 1:
        figure.top = Scale("steps", curves[0].steps_per_epoch)
    return figure


def training_section(input):
    section = Section("training", "Training")
    curves = [Curve(run) for run in input.runs if run.files and run.files.pieces]
    if not curves:
        return section
    quantities = [("loss", "Training loss", "loss", "Of each step's batch.", LINE, Curve.losses)]
    for kind, title in records.SCORES.items():
        quantities.append((kind, f"Validation {title}", *SCORE_TITLES[kind], LINE_AND_POINTS,
                           lambda curve, over, unit, kind=kind: curve.scores(kind, over, unit)))
    quantities += [("learning-rate", "Learning rate", "learning rate", "As used by each step.", LINE,
                    Curve.learning_rates),
                   ("rate", "Training rate", "samples/s", "Batch size over the mean duration of the steps.", LINE,
                    Curve.rates)]
    several = len({curve.steps_per_epoch for curve in curves}) > 1
    for name, title, axis, caption, mark, points in quantities:
        # With one number of steps per epoch the upper scale shows the steps.
        for over in ("epochs", "steps", "time") if several else ("epochs", "time"):
            figure = training_figure(name, title, axis, caption, mark, curves, points, over)
            target = next((curve.run.target for curve in curves
                           if curve.run.target > 0 and curve.run.kind == name), 0)
            if target:
                figure.levels.append(Level(f"target {shown(target)}", target, 0))
            section.add(figure)
    for number, curve in enumerate(curves, 1):
        add_confusions(section, number, curve.run)
    return section


def confusion_table(id, title, classes, matrix, caption):
    """Rows are true classes, columns predicted ones. None for what is no square of so many numbers."""
    if (not isinstance(matrix, list) or not 0 < len(matrix) <= MOST_CLASSES
            or any(not isinstance(row, list) or len(row) != len(matrix) for row in matrix)):
        return Table(id, title, [], "")
    names = classes if len(classes) == len(matrix) else [str(c) for c in range(len(matrix))]
    return Table(id, title, ["true class", *(f"as {name}" for name in names)], "<" + ">" * len(names), caption,
                 [[name, *map(str, row)] for name, row in zip(names, matrix)])


def add_confusions(section, number, run):
    """What the samples of each class were predicted to be, in the last validation."""
    found = run.files.confusion
    if not isinstance(found, list):
        return
    names = records.at(run.record, "labels", "names") or []
    classes = [str(name) for name in records.at(run.record, "labels", "classes") or []]
    for label, matrix in enumerate(found):
        title = names[label] if len(names) == len(found) > 1 else "classes"
        section.add(confusion_table(f"confusion-{number}-{label}", f"{run.name}: {title}", classes, matrix,
                                    "Samples of the last validation by true class, and what each was predicted to be."))
    section.paragraphs.append(f"{run.name}: balanced accuracy {shown(run.files.areas['balanced_accuracy'])}, "
                              f"area under the ROC curve {shown(run.files.areas['auc'])} in the last validation.")


def errors_of(predicted, target):
    """Mean absolute error, root mean square, bias and correlation of one output."""
    n = len(predicted)
    p, t = math.fsum(predicted) / n, math.fsum(target) / n
    absolute = math.fsum(abs(a - b) for a, b in zip(predicted, target)) / n
    squares = math.fsum((a - b) ** 2 for a, b in zip(predicted, target)) / n
    pp, tt = (math.fsum((a - mean) ** 2 for a in values) for values, mean in ((predicted, p), (target, t)))
    pt = math.fsum((a - p) * (b - t) for a, b in zip(predicted, target))
    return absolute, math.sqrt(squares), p - t, pt / math.sqrt(pp * tt) if pp * tt > 0 else math.nan


def quality_of(file):
    """"mean absolute error 0.12000", or "accuracy 0.95000" of labels."""
    if file.are_classes:
        hits = [found == true for values in zip(file.predicted, file.target) for found, true in zip(*values)]
        return f"accuracy {sum(hits) / len(hits):.5f}"
    return f"mean absolute error {mean_error(file):.5f}"


def mean_error(file):
    return math.fsum(errors_of(p, t)[0] for p, t in zip(file.predicted, file.target)) / len(file.target)


def title_of(file, output):
    """"sigma_8", or "output 0" where the file has no names."""
    name = file.outputs[output]
    return f"output {name}" if name.isdigit() else name


def scatter(file, output, number):
    predicted, target = file.predicted[output], file.target[output]
    samples, kept = len(target), min(len(target), MOST_SAMPLES)
    chosen = [i * samples // kept for i in range(kept)]
    caption = f"{MOST_SAMPLES} of {samples} samples." if samples > MOST_SAMPLES else "All samples."
    figure = Figure(f"predictions-{number}-{output}", f"{file.name}: {title_of(file, output)}", Axis("target"),
                    Axis("prediction"), caption + " The line is a perfect prediction.",
                    levels=[Level("perfect", 1, 1)])
    return figure.add(Series("samples", POINTS, [Point(target[i], predicted[i], label=f"sample {i}") for i in chosen]))


def labels_table(file, output, number):
    """The confusion matrix of one label."""
    predicted, target = ([int(value) for value in values[output]] for values in (file.predicted, file.target))
    count = max([1, len(file.classes) - 1, *predicted, *target]) + 1
    matrix = [[0] * count for _ in range(count)]
    for found, true in zip(predicted, target):
        matrix[true][found] += 1
    return confusion_table(f"classes-{number}-{output}", f"{file.name}: {file.outputs[output]}", file.classes, matrix,
                           "Samples by true class, and what each is predicted to be.")


def predictions_section(input):
    section = Section("predictions", "Predictions")
    table = Table("prediction-errors", "Errors of the predictions",
                  ["file", "output", "samples", "mean absolute error", "root mean square", "bias", "correlation",
                   "mean absolute error of the targets' mean"], "<>>>>>>>",
                  "Bias: mean of prediction - target. The last column is what a constant reaches.")
    for number, file in enumerate(input.predictions, 1):
        for output, (predicted, target) in enumerate(zip(file.predicted, file.target)):
            if file.are_classes:
                section.add(labels_table(file, output, number))
                continue
            if output < MOST_OUTPUTS:
                section.add(scatter(file, output, number))
            absolute, square, bias, correlation = errors_of(predicted, target)
            constant = errors_of([statistics_of(target).mean] * len(target), target)[0]
            table.rows.append([file.name, file.outputs[output], str(len(target)), shown(absolute), shown(square),
                               shown(bias), f"{correlation:.4f}", shown(constant)])
        of = " of all outputs" if len(file.target) > 1 else ""
        section.paragraphs.append(f"{file.name}: {quality_of(file)}{of}.")
    return section.add(table)
