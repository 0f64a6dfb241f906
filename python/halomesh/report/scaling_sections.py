# SPDX-License-Identifier: Apache-2.0
"""Batch size, epochs and throughput against the number of ranks, of runs and of bench; rooflines; and the time
to solution of configurations that did not run. Fig. 2, 3 and 5 of Farrell et al., arXiv:2110.11466."""
import dataclasses
import math

from halomesh import records
from halomesh.records import number, text
from halomesh.report.model import (LINE, LINE_AND_POINTS, PAPER, POINTS, Axis, Figure, Level, Point, Scale, Section,
                                   Series, Table, decades, ranged)
from halomesh.report.published import RUNS as PUBLISHED
from halomesh.report.runs import group_runs
from halomesh.texts import duration, percent, plural, shown, statistics_of, with_deviation

MOST_ROOFLINES = 4
SMALL_SHARE = 1e-3  # of a step: smaller phases have no point


def figure_2(letter, about):
    return f"{about} As Fig. {letter} of {PAPER}."


def series_of(name, groups, make):
    """A point for each group for which both numbers are known."""
    points = [make(group) for group in groups]
    return Series(name, POINTS, [p for p in points if p.x > 0 and 0 < p.y < math.inf])


def published(name, input, make):
    points = [Point(*make(run), label=run.name) for run in PUBLISHED] if input.shows_published else []
    return Series(name, POINTS, points, is_published=True)


def mean_training_rate(group):
    return group.of(lambda run: run.training_rate()).mean


def batch_over_ranks(input, groups):
    figure = Figure("batch-ranks", "Batch size against ranks", Axis("ranks", True), Axis("batch size", True),
                    figure_2("2a", "Diagonals: ranks per sample of the batch, the intensity of communication."))
    figure.levels = [Level(f"{each:g} ranks per sample", 1 / each, 1) for each in (0.25, 0.5, 1.0, 2.0, 4.0, 16.0)]
    return figure.add(
        series_of("runs", groups, lambda group: Point(group.first.ranks, group.first.batch, label=group.label)),
        published("published", input, lambda run: (run.workers, run.batch)))


def batch_over_epochs(input, groups):
    figure = Figure("batch-epochs", "Epochs to the target and batch size", Axis("epochs to the target", True),
                    Axis("batch size", True),
                    figure_2("2b", "Mean over the runs that reached it. Diagonals: optimizer steps."))
    figure.add(series_of("runs", groups, lambda group: Point(
        group.epochs().mean if group.any_reached() else math.nan, group.first.batch,
        label=f"{group.label}: {with_deviation(group.epochs())} epochs")),
        published("published", input, lambda run: (run.epochs, run.batch)))
    samples = next((group.first.training_samples for group in groups if group.first.training_samples), 262144)
    figure.levels = [Level(f"{shown(steps)} steps", samples / steps, 1)
                     for steps in decades(*figure.range_over(lambda p: p.x * samples / p.y))]
    return figure


def combined(group):
    first = group.first
    spread = statistics_of([first.combined_rate(seconds) for run in group.runs for seconds in run.epoch_s])
    mean = group.of(lambda run: run.combined_rate(run.epoch_seconds())).mean
    return ranged(first.ranks, mean, spread.least, spread.most, group.label)


def rate_over_ranks(input, groups):
    figure = Figure("throughput-ranks", "Throughput against ranks", Axis("ranks", True), Axis("samples/s", True),
                    figure_2("2c", "Combined: training and validation samples over the time of an epoch, mean and "
                                   "range over epochs. Diagonals: samples/s per rank."),
                    top=Scale("batch size (one sample per rank)", 1))
    samples = groups[0].first.training_samples + groups[0].first.validation_samples
    figure.right = Scale("epochs/s", 1 / samples) if samples else None
    for name, rate in (("training", lambda run: run.training_rate()), ("evaluation", lambda run: run.evaluation_rate())):
        figure.add(series_of(name, groups, lambda group, rate=rate: Point(group.first.ranks, group.of(rate).mean,
                                                                          label=group.label)))
    figure.add(series_of("combined", groups, combined))
    if len(groups) <= 8:  # from (batch, rate) to (ranks, rate), where they differ
        for group in groups:
            ranks, batch, rate = group.first.ranks, group.first.batch, mean_training_rate(group)
            if 0 < ranks != batch and rate > 0:
                figure.add(Series(f"batch to ranks: {group.label}", LINE, [Point(batch, rate), Point(ranks, rate)],
                                  is_dashed=True))
    figure.add(published("published, training", input, lambda run: (run.workers, run.training_rate())),
               published("published, evaluation", input, lambda run: (run.workers, run.evaluation_rate())))
    figure.levels = [Level(f"{shown(rate)} samples/s per rank", rate, 1)
                     for rate in decades(*figure.range_over(lambda p: p.y / p.x))]
    return figure


def epoch_rate_over_epochs(input, groups):
    figure = Figure("epoch-rate", "Speed of an epoch against the epochs to the target",
                    Axis("epochs to the target", True), Axis("epochs/s", True),
                    figure_2("2d", "Diagonals: time of all epochs. Joins the two figures on batch size."))

    def speed(group):
        seconds = group.of(lambda run: run.epoch_seconds()).mean
        return Point(group.epochs().mean if group.any_reached() else math.nan, 1 / seconds if seconds > 0 else math.nan,
                     label=group.label)
    figure.add(series_of("runs", groups, speed),
               published("published", input, lambda run: (run.epochs, 1 / run.period)))
    least, most = figure.range_over(lambda p: p.x / p.y)
    figure.levels = [Level(duration(seconds), 1 / seconds, 1)
                     for seconds in (1.0, 10.0, 60.0, 600.0, 3600.0, 36000.0, 360000.0) if least / 10 < seconds < most * 10]
    return figure


def one_sample_per_rank(groups):
    groups = sorted((group for group in groups if 0 < group.first.ranks == group.first.batch),
                    key=lambda group: group.first.ranks)
    if len(groups) < 2:
        return []
    found = []
    for name, title, axis, side, value in (
            ("weak-time", "Time to solution with one sample per rank", "time to solution in min", "left",
             lambda group: group.of(lambda run: run.solution and run.solution / 60)),
            ("weak-epochs", "Epochs with one sample per rank", "epochs to the target", "right",
             lambda group: group.epochs())):
        figure = Figure(name, title, Axis("ranks = batch size", True), Axis(axis),
                        figure_2(f"3, {side} axis,", "Mean over the runs, and their range."))
        figure.add(Series(axis.split(" in ")[0].split(" to the target")[0], LINE_AND_POINTS, [
            ranged(group.first.ranks, values.mean, values.least, values.most, group.label)
            for group in groups for values in [value(group)]]))
        found.append(figure)
    return found


def scaling_section(input):
    section = Section("scaling", "Batch size, epochs and throughput")
    groups = [group for group in group_runs(input.runs) if group.first.batch and group.first.steps]
    if not groups:
        return section
    for make in (batch_over_ranks, batch_over_epochs, rate_over_ranks, epoch_rate_over_epochs):
        figure = make(input, groups)
        # Published points alone say nothing about these runs.
        if figure.series and not figure.series[0].is_published:
            section.add(figure)
    section.add(*one_sample_per_rank(groups))
    if input.shows_published:
        section.paragraphs.append(
            "Grey: CosmoFlow in MLPerf HPC v0.7, medians recomputed from the logs of the published runs "
            "(github.com/mlcommons/hpc_results_v0.7, result_*.txt); there a rank is a processor or accelerator.")
    section.paragraphs.append("halomesh plan --picture FILE draws how a sample is cut and what its parts exchange.")
    return section


@dataclasses.dataclass
class Line:
    """Measurements of one kind against ranks, ascending, and their predictions."""

    name: str
    is_dashed: bool
    points: list = dataclasses.field(default_factory=list)
    predicted: list = dataclasses.field(default_factory=list)

    def keep_fastest(self):
        """Of several meshes on as many ranks."""
        for points in (self.points, self.predicted):
            best = {}
            for p in points:
                if p.x not in best or p.y > best[p.x].y:
                    best[p.x] = p
            points[:] = best.values()


def lines_of(input, kind, name_of):
    """One line per name, and per file where two are compared. Runs of bench belong to both kinds of scaling; a
    study measures each run for one of them."""
    lines, two = {}, len(input.benches) == 2
    for file, bench in enumerate(input.benches):
        for run in bench.runs:
            if records.at(run, "scaling") not in (None, kind):
                continue
            # Files of one case at several numbers of ranks make one line; before and after make two.
            name = name_of(run) + (("", " (after)") if file else ("", " (before)"))[two]
            line = lines.setdefault(name, Line(name, two and file == 0))
            ranks, parts = number(run, "ranks"), f"{text(run, 'parts')} parts"
            line.points.append(ranged(ranks, *(number(run, "samples_per_second", key) for key in ("median", "min", "max")),
                                      parts))
            if number(run, "predicted_step_seconds") > 0:
                line.predicted.append(Point(ranks, number(run, "batch") / number(run, "predicted_step_seconds"),
                                            label=parts + ", predicted"))
    for line in lines.values():
        line.points.sort(key=lambda p: p.x)
        line.predicted.sort(key=lambda p: p.x)
    return list(lines.values())


def add_lines(figure, lines):
    for line in lines:
        figure.add(Series(line.name, LINE_AND_POINTS, line.points, is_dashed=line.is_dashed),
                   Series(f"predicted: {line.name}", LINE_AND_POINTS, line.predicted, is_dashed=True))
        first, last = line.points[0], line.points[-1]
        if last.x > first.x:
            figure.add(Series(f"ideal: {line.name}", LINE,
                              [Point(first.x, first.y), Point(last.x, first.y * last.x / first.x)], is_dashed=True))
    return figure


def bench_figures(input, lines):
    weak = Figure("bench-throughput", "Training rate against ranks", Axis("ranks", True), Axis("samples/s", True),
                  "Median and range over steps. Dashed: the ideal, from the first point of a line, and predictions. "
                  f"As Fig. 5 of {PAPER}.")
    strong = Figure("bench-strong", "One batch on more ranks", Axis("ranks", True), Axis("samples/s", True),
                    "The fastest mesh of each number of ranks, for one batch size. Dashed: the ideal, from the first "
                    "point of a line, and predictions.")
    strong_lines = lines_of(input, "strong",
                            lambda run: f"batch {shown(number(run, 'batch'))}, {text(run, 'precision')}")
    for line in strong_lines:
        line.keep_fastest()
    return add_lines(weak, lines), add_lines(strong, [line for line in strong_lines if len(line.points) > 1])


def rates(input, lines):
    table = Table("bench-rates", "Measured speed",
                  ["file", "parts", "replicas", "ranks", "precision", "batch", "local batch", "step in ms",
                   "predicted in ms", "training in samples/s", "per rank", "efficiency", "evaluation in samples/s",
                   "of peak"], "<<>><>>>>>>>>>",
                  "Medians over steps, with least and most. Efficiency: rate per rank over that of the line's first "
                  "point; in a scaling study, of the fastest run on the fewest ranks.")

    def efficiency(ranks, rate):
        return next((rate / ranks / (line.points[0].y / line.points[0].x) for line in lines for p in line.points
                     if (p.x, p.y) == (ranks, rate)), math.nan)
    for bench in input.benches:
        for run in bench.runs:
            ranks, rate = number(run, "ranks"), number(run, "samples_per_second", "median")

            def spread(name, scale):
                median, least, most = (shown(scale * number(run, name, key)) for key in ("median", "min", "max"))
                return f"{median} ({least} .. {most})"
            of_study = number(run, "efficiency")
            table.rows.append([
                bench.name, text(run, "parts"), shown(number(run, "replicas")), shown(ranks), text(run, "precision"),
                shown(number(run, "batch")), shown(number(run, "local_batch")), spread("step_seconds", 1e3),
                shown(1e3 * number(run, "predicted_step_seconds")), spread("samples_per_second", 1), shown(rate / ranks),
                percent(of_study if of_study > 0 else efficiency(ranks, rate)),
                spread("evaluated_samples_per_second", 1) if "evaluated_samples_per_second" in run else "-",
                percent(number(run, "peak_fraction"))])
    return table


def bench_section(input):
    section = Section("bench", "Measured throughput")
    if input.benches:
        lines = lines_of(input, "weak", lambda run: f"{text(run, 'parts')} parts, {text(run, 'precision')}, local batch "
                                                    f"{shown(number(run, 'local_batch'))}")
        section.add(*bench_figures(input, lines), rates(input, lines))
    return section


def roofline(bench, run, number_of_figure):
    """The roofline of Williams, Waterman, Patterson (CACM 52, 2009) with a point per layer and phase."""
    precision, step = text(run, "precision"), number(run, "mean_step_seconds")
    figure = Figure(f"roofline-{number_of_figure}",
                    f"Roofline: {bench.name}, {shown(number(run, 'replicas'))} x {text(run, 'parts')} parts, {precision}",
                    Axis("arithmetic intensity in operations/byte", True), Axis("GF/s", True),
                    "All ranks together. Bytes are the least that a phase must move; the roof is the measured peak of "
                    "multiply-adds and the triad bandwidth.")
    series = {}
    for row in records.items(run, "phases"):
        flops, moved, seconds = (number(row, key) for key in ("flops", "memory_bytes", "seconds_mean_over_ranks"))
        if flops > 0 and moved > 0 and seconds > SMALL_SHARE * step:
            phase = text(row, "phase")
            series.setdefault(phase, Series(phase, POINTS)).points.append(Point(
                flops / moved, 1e-9 * number(row, "flops_per_second"),
                label=f"{text(row, 'layer')} {phase}: {percent(seconds / step)} of the step, "
                      f"{percent(number(row, 'roof_fraction'))} of the roofline"))
    figure.add(*series.values())
    fp32, bf16, triad = (number(bench.record, "peak", key) for key in
                         ("fp32_flops_per_second", "bf16_flops_per_second", "triad_bytes_per_second"))
    peak = bf16 if precision == "bf16" and bf16 > fp32 else fp32
    if figure.series and peak > 0 and triad > 0:
        least, most = figure.range_over(lambda p: p.x)
        ridge = peak / triad
        first, last = min(least, ridge) / 4, max(most, ridge) * 4
        figure.add(Series(f"roof: {shown(1e-9 * peak)} GF/s, {shown(1e-9 * triad)} GB/s", LINE,
                          [Point(first, 1e-9 * triad * first), Point(ridge, 1e-9 * peak), Point(last, 1e-9 * peak)]))
    return figure


def bounds(input):
    """Every number of seconds in a run's "bound", beside the measured step."""
    table = Table("bounds", "Bounds of a step", ["run", "bound", "ms", "of the measured step"], "<<>>",
                  "Extended roofline: a step takes at least as long as the longest of computation at peak, memory at "
                  "triad bandwidth, and messages at the measured bandwidth of the network.")
    for bench in input.benches:
        for run in bench.runs:
            if not isinstance(run.get("bound"), dict):
                continue
            step = number(run, "mean_step_seconds")
            name = f"{bench.name}: {shown(number(run, 'replicas'))} x {text(run, 'parts')}"
            for key in run["bound"]:
                seconds = number(run["bound"], key)
                if "_seconds" in key and key != "step_seconds" and math.isfinite(seconds):
                    table.rows.append([name, key.split("_seconds")[0].replace("_", " "), f"{1e3 * seconds:.3f}",
                                       percent(seconds / step)])
            table.rows.append([name, "measured step", f"{1e3 * step:.3f}", "100.0 %"])
    return table


def roofline_section(input):
    section, left_out = Section("roofline", "Roofline"), 0
    for bench in input.benches:
        for run in bench.runs:
            figure = roofline(bench, run, len(section.figures) + 1)
            if len(section.figures) < MOST_ROOFLINES:
                section.add(figure)
            else:
                left_out += bool(figure.series)
    if left_out:
        section.paragraphs.append(f"Runs of bench without a roofline here: {left_out}.")
    return section.add(bounds(input))


@dataclasses.dataclass
class Rates:
    """Rates that a run or bench has measured, in samples/s of all ranks."""

    source: str
    parts: str
    ranks: float
    local_batch: float
    training: float
    evaluation: float  # nothing measured: the training rate stands in
    deviation: float  # relative, of the rates
    staging: float = 0.0

    def __post_init__(self):
        self.is_evaluated = 0 < self.evaluation < math.inf
        if not self.is_evaluated:
            self.evaluation = self.training


def measured_rates(input):
    found = []
    for run in input.runs:
        training = run.training_rate()
        if run.ranks and run.batch and 0 < training < math.inf:
            epochs = statistics_of(run.later_epochs())
            found.append(Rates(run.name, run.parts, run.ranks, run.batch // run.replicas, training, run.evaluation_rate(),
                               epochs.deviation / epochs.mean if epochs.count > 1 else 0.0, run.staging))
    for bench in input.benches:
        for run in bench.runs:
            median, least, most = (number(run, "samples_per_second", key) for key in ("median", "min", "max"))
            found.append(Rates(bench.name, text(run, "parts"), number(run, "ranks"), number(run, "local_batch"), median,
                               number(run, "evaluated_samples_per_second", "median"),
                               (most - least) / 2 / median if math.isfinite(most - least) else 0.0))
    return found


def samples_of(input):
    """Samples of training and validation: of the runs, or those of CosmoFlow's set."""
    return next(((run.training_samples, run.validation_samples) for run in input.runs if run.training_samples),
                (262144, 65536))


class Extrapolation:
    """Time to solution of a configuration that did not run, from measured rates and known epochs:
      T(B, P) = T_stg + E(B) [N_t / (s_t P/P0) + N_v / (s_v P/P0)]
    after the predictions in Farrell et al.: throughput per rank stays what it was on P0 ranks cut into the same
    parts. Rates are those with the same parts, preferably the same local batch, and the nearest number of ranks."""

    def __init__(self, configuration, rates, input):
        self.configuration, self.ranks = configuration, configuration.ranks
        self.epochs = input.epochs_to_target
        if not self.epochs:
            known = statistics_of([run.epochs for run in input.runs if run.reached and run.batch == configuration.batch])
            self.epochs = (known.mean, known.deviation) if known.count else None
        local_batch = configuration.batch / configuration.replicas
        self.base = min((each for each in rates if each.parts == configuration.parts), default=None, key=lambda each: (
            each.local_batch != local_batch, abs(math.log(self.ranks / each.ranks))))
        self.seconds_per_epoch = self.seconds = self.deviation = 0.0
        if not self.base:
            return
        self.scale = self.ranks / self.base.ranks
        training, validation = samples_of(input)
        self.seconds_per_epoch = (training / (self.base.training * self.scale)
                                  + validation / (self.base.evaluation * self.scale))
        if self.epochs:
            compute = self.epochs[0] * self.seconds_per_epoch
            self.seconds = self.base.staging + compute
            self.deviation = math.hypot(self.epochs[1] * self.seconds_per_epoch, self.base.deviation * compute)

    def row(self):
        one, base = self.configuration, self.base
        row = [f"{one.replicas} x {one.parts}", shown(self.ranks), str(one.batch)]
        if not base:
            return [*row, "-", "-", "-", "-", "-", "nothing was measured with these parts"]
        epochs = "not known"
        if self.epochs:
            epochs = shown(self.epochs[0]) + (f" ± {shown(self.epochs[1])}" if self.epochs[1] > 0 else "")
        source = f"{base.source} on {plural(int(base.ranks), 'rank')}"
        return [*row, shown(base.training * self.scale), shown(base.evaluation * self.scale),
                shown(self.seconds_per_epoch), epochs,
                f"{shown(self.seconds / 60)} ± {shown(self.deviation / 60)}" if self.epochs else "-",
                source + ("" if base.is_evaluated else "; evaluation taken as slow as training")]


def extrapolation_section(input):
    section = Section("extrapolation", "Configurations that did not run (extrapolated)")
    if not input.predict:
        return section
    table = Table("extrapolated", "Time to solution, extrapolated",
                  ["replicas x parts", "ranks", "batch", "training in samples/s", "evaluation in samples/s", "epoch in s",
                   "epochs", "time to solution in min", "rates from"], "<>>>>>>><",
                  "T = T_stg + E (N_t / s_t + N_v / s_v), with the rate per rank of the nearest measurement with the same "
                  f"parts, after {PAPER}. The deviation comes from that of the epochs and of the rates. Staging is that "
                  "of the measured run.")
    figure = Figure("extrapolated-time", "Time to solution, extrapolated", Axis("ranks", True),
                    Axis("time to solution in min", True),
                    "Extrapolated at constant throughput per rank; whiskers: one standard deviation.")
    points, measured = Series("extrapolated", POINTS), Series("measured", POINTS)
    for one in (Extrapolation(each, measured_rates(input), input) for each in input.predict):
        table.rows.append(one.row())
        configuration = one.configuration
        if one.seconds > 0:
            points.points.append(ranged(
                one.ranks, one.seconds / 60, max(one.seconds - one.deviation, one.seconds * 0.01) / 60,
                (one.seconds + one.deviation) / 60,
                f"{configuration.replicas} x {configuration.parts}, batch {configuration.batch}"))
        if one.base and not one.epochs:
            section.paragraphs.append(
                f"How many epochs batch size {configuration.batch} needs is not known: give a run with it that reached "
                "its target, or --epochs-to-target N.")
    for group in group_runs(input.runs):
        minutes = group.of(lambda run: run.solution / 60 if run.reached and run.solution else None)
        if minutes.count and group.first.ranks:
            measured.points.append(ranged(group.first.ranks, minutes.mean, minutes.least, minutes.most, group.label))
    training, validation = samples_of(input)
    table.notes.append(f"For {shown(training)} training and {shown(validation)} validation samples.")
    return section.add(figure.add(points, measured), table)
