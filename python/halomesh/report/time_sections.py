# SPDX-License-Identifier: Apache-2.0
"""Where time goes: to the solution, in staging, in a step, and on the way to memory, network and files."""
import math

from halomesh import mlperf, records
from halomesh.records import finite, number, text
from halomesh.report.model import BARS, PAPER, POINTS, Axis, Figure, Point, Section, Series, Table, ranged
from halomesh.report.published import RUNS as PUBLISHED
from halomesh.report.runs import KINDS, group_runs, ratio, scored
from halomesh.texts import duration, percent, shown, statistics_of, with_deviation, with_prefix

MOST_BARS = 24
SMALL_SHARE = 1e-3  # of a step: smaller phases have no row
KIND_RANGE = ["mean in ms", "least in ms", "most in ms", "slowest rank", "of a step"]


def or_dash(value):
    return str(value) if value else "-"


def milliseconds(seconds):
    return f"{1e3 * seconds:.3f}"


def gigabytes(rate):
    return f"{rate * 1e-9:.3g}" if math.isfinite(rate) else "-"


def parts_of_time(groups):
    """Fig. 1: the parts of T_sol in percent, the rest included."""
    figure = Figure("time-parts", "Parts of the time to solution", Axis(), Axis("% of the time to solution"),
                    f"Staging, evaluation and training as in Fig. 1 of {PAPER}; the rest is start-up, opening "
                    "files and checkpoints.", is_stacked=True, is_horizontal=True)
    parts = [(Series(name, BARS), value) for name, value in (
        ("staging", lambda run: run.staging), ("evaluation", lambda run: run.evaluation),
        ("training", lambda run: run.training), ("rest", lambda run: run.rest()))]
    for group in groups:
        total = group.of(lambda run: run.total()).mean
        if not total > 0 or len(figure.categories) == MOST_BARS:
            continue
        for series, value in parts:
            mean = group.of(value).mean
            series.points.append(Point(len(figure.categories), 100 * max(mean, 0.0) / total,
                                       label=f"{series.name} {duration(mean)}"))
        has_ended = all(run.solution is not None for run in group.runs)
        figure.categories.append(group.label + ("" if has_ended else " (not ended)"))
    if figure.categories:
        figure.series = [series for series, _ in parts]
    return figure


def score_cells(runs):
    mean, _ = mlperf.score(runs)
    reached = statistics_of([run.minutes for run in runs if run.end == "reached"])
    return [str(len(runs)), str(sum(run.end != "reached" for run in runs)),
            "-" if mean is None else f"{mean:.2f}", with_deviation(reached),
            f"{shown(reached.median)} ({shown(reached.least)} .. {shown(reached.most)})" if reached.count > 1 else "-"]


def submission_cells(group):
    run = group.first
    if not run.files:
        return ["-", "-", group.label, "-", "-", "-"]
    sockets = finite(run.record, "machine", "sockets")
    processors = str(int(run.nodes * sockets)) if run.nodes and sockets > 0 else "-"
    return [or_dash(records.option(run.record, "submission-division")),
            or_dash(records.option(run.record, "submission-platform") or run.cpu), group.label,
            f"halomesh {text(run.record, 'version')}", processors, "0"]


def scores(input, groups):
    """Table 4."""
    table = Table("scores", "Time to solution",
                  ["division", "system", "submission", "software", "processors", "accelerators", "runs", "missed",
                   "olympic mean in min", "mean in min", "median (range) in min"], "<<<<>>>>>>>",
                  f"As Table 4 of {PAPER}. The olympic mean leaves out the fastest and the slowest run; a run that "
                  "missed the target counts as the slowest.")
    for group in groups:
        if group.any_reached():
            table.rows.append(submission_cells(group) + score_cells(scored(group)))
    for row in input.results:
        table.rows.append([*map(or_dash, row.cells), *score_cells(row.runs)])
    if input.shows_published and table.rows:
        table.rows += [[run.division, run.system, f"{run.name} (published)", "-", "-", "-", "10", "-",
                        f"{run.minutes:.2f}", "-", "-"] for run in PUBLISHED]
    return table


def throughput(input, groups):
    """Table 6."""
    table = Table("throughput", "Throughput and budget",
                  ["runs", "batch", "epochs", "ranks", "training in samples/s per rank",
                   "evaluation in samples/s per rank", "time to solution in min", "budget in h x ranks"], "<>>>>>>>",
                  f"As Table 6 of {PAPER}; a worker is a rank. Budget: time to solution x ranks.")
    for group in groups:
        ranks = group.first.ranks
        minutes = group.of(lambda run: run.solution and run.solution / 60)
        rates = [group.of(rate).mean / ranks if ranks else math.nan for rate in
                 (lambda run: run.training_rate(), lambda run: run.evaluation_rate())]
        table.rows.append([group.label, or_dash(group.first.batch),
                           with_deviation(group.epochs()) + ("" if group.any_reached() else " (target not reached)"),
                           or_dash(ranks), *map(shown, rates), with_deviation(minutes),
                           f"{minutes.mean / 60 * ranks:.2f}" if ranks and minutes.count else "-"])
    if input.shows_published:
        table.rows += [[f"{run.name} (published)", shown(run.batch),
                        f"{run.epochs:g} ({run.least_epochs} .. {run.most_epochs})", shown(run.workers),
                        shown(run.training_rate() / run.workers), shown(run.evaluation_rate() / run.workers),
                        shown(run.minutes), f"{run.minutes / 60 * run.workers:.2f}"] for run in PUBLISHED]
    return table


def equation(runs):
    """Eq. 1 and 2, with the epochs that were needed."""
    table = Table("equation", "Time to solution from its epochs",
                  ["run", "T_sol in s", "T_stg in s", "T_epoch in s", "median T_epoch in s", "E", "T_extra in s", "q",
                   "T_stg / T_sol", "q / (q + E)", "best score"], "<>>>>>>>>>>",
                  f"T_sol = T_stg + T_epoch E + T_extra (Eq. 1 of {PAPER}); q = T_stg / T_epoch, and T_stg / T_sol = "
                  "q / (q + E) where T_extra is 0 (Eq. 2). T_epoch includes the validation; its median leaves out the "
                  "first epoch.",
                  notes=["* T_extra is more than 2 % of T_sol: Eq. 2, which leaves it out, is off."])
    for run in runs:
        if run.epochs <= 0 or not run.epoch_s:
            continue
        q, extra, has_ended = run.staging_epochs(), run.rest(), run.solution is not None
        table.rows.append([
            run.name, shown(run.total()) if has_ended else "-", shown(run.staging), shown(run.epoch_seconds()),
            shown(statistics_of(run.later_epochs()).median), shown(run.epochs),
            "-" if not has_ended else shown(extra) + (" *" if extra > 0.02 * run.total() else ""), shown(q),
            percent(ratio(run.staging, run.total())) if has_ended else "-", percent(ratio(q, q + run.epochs)),
            "-" if run.best is None else f"{records.SCORES[run.kind]} {run.best:.5f}"])
    return table


def time_section(input):
    section, groups = Section("time", "Time to solution"), group_runs(input.runs)
    section.add(parts_of_time(groups), equation(input.runs), scores(input, groups))
    if groups:
        section.add(throughput(input, groups))
    without_log = sorted({run.name for run in input.runs if not run.has_log})
    if without_log and section.tables:
        section.paragraphs.append("Without mllog.txt, times are those of metrics.jsonl, where training is the sum "
                                  f"of the steps: {', '.join(without_log)}.")
    return section


def staging_section(input):
    ratios = Table("staging-ratio", "Staging against an epoch",
                   ["runs", "staging in min", "staging in s", "epoch in s", "staging / epoch"], "<>>>>",
                   f"As Table 5 of {PAPER}: the last column is its compute-to-staging throughput ratio. An epoch "
                   "includes its validation.")
    for group in group_runs(input.runs):
        staging = group.of(lambda run: run.staging)
        if staging.mean > 0:
            ratios.rows.append([group.label, with_deviation(group.of(lambda run: run.staging / 60)),
                                shown(staging.mean), shown(group.of(lambda run: run.epoch_seconds()).mean),
                                f"{group.of(lambda run: run.staging_epochs()).mean:.2f}"])
    if input.shows_published and ratios.rows:
        ratios.rows += [[f"{run.name} (published)", shown(run.staging / 60), shown(run.staging), shown(run.period),
                         f"{run.staging / run.period:.2f}"] for run in PUBLISHED if run.staging > 0]
    details = Table("staging", "Staging of each run",
                    ["run", "seconds", "samples", "read", "kept", "read rate", "read rate inside calls per rank",
                     "seconds of a rank: mean (least .. most)", "slowest rank"], "<>>>>>>>>",
                    "Read: from the data set's files. Kept: on the nodes, as stored. Inside calls: bytes over the "
                    "time in read calls.")
    for run in input.runs:
        stage = run.files.stage if run.files else None
        if stage:
            seconds, read = number(stage, "seconds"), number(stage, "bytes_read")
            mean, least, most = (number(stage, "rank_seconds", key) for key in ("mean", "min", "max"))
            kept = with_prefix(number(stage, "bytes_staged"), "B") + (" (reused)" if stage.get("reused") is True else "")
            details.rows.append([
                run.name, shown(seconds), shown(number(stage, "samples")), with_prefix(read, "B"), kept,
                with_prefix(ratio(read, seconds), "B/s"), with_prefix(ratio(read, number(stage, "read_seconds")), "B/s"),
                f"{shown(mean)} ({shown(least)} .. {shown(most)})" if math.isfinite(mean) else "-",
                shown(number(stage, "rank_seconds", "max_rank"))])
    return Section("staging", "Staging").add(ratios, details)


def measured_runs(input):
    return [run for run in input.runs if run.phases]


def range_cells(seconds, phases):
    return [milliseconds(seconds.mean), milliseconds(seconds.least), milliseconds(seconds.most),
            phases.name_of_rank(seconds.slowest) if seconds.most > seconds.least else "-",
            percent(ratio(seconds.mean, phases.step.mean))]


def mesh_label(run):
    return f"{run.name}: {run.phases.replicas} x {run.parts}"


def kinds_table(runs):
    table = Table("step-kinds", "A step by kind of time", ["run", "kind", *KIND_RANGE], "<<>>>>>",
                  "Per step, over ranks; means over all steps.")
    for run in runs:
        for kind, seconds in [*run.phases.kinds.items(), ("step", run.phases.step)]:
            table.rows.append([run.name, kind, *range_cells(seconds, run.phases)])
    return table


def layers_table(run, number_of_table):
    phases = run.phases
    table = Table(f"step-layers-{number_of_table}", f"A step of {run.name} by layer and phase",
                  ["layer", "phase", *KIND_RANGE, "received in kB"], "<<>>>>>>",
                  "Per step, over ranks. Bytes: sum over ranks.")
    small = 0.0
    for layer, phase, seconds, received in sorted(phases.rows, key=lambda row: -row[2].mean):
        if seconds.mean < SMALL_SHARE * phases.step.mean:
            small += seconds.mean
            continue
        table.rows.append([or_dash(layer), phase, *range_cells(seconds, phases),
                           f"{received * 1e-3:.1f}" if received > 0 else "-"])
    if small > 0:
        table.notes.append(f"Phases below 0.1 % of a step, together: {milliseconds(small)} ms.")
    return table


def shares(runs):
    """Fig. 6: computation and communication as parts of a step."""
    figure = Figure("step-shares", "Parts of a step", Axis(), Axis("% of a step"),
                    f"Mean over ranks and steps, by run and mesh (replicas x parts); compare Fig. 6 of {PAPER}.",
                    is_stacked=True, is_horizontal=True, categories=[mesh_label(run) for run in runs[:MOST_BARS]])
    for kind in dict.fromkeys([*KINDS, *(kind for run in runs for kind in run.phases.kinds)]):
        series = Series(kind, BARS)
        for i, run in enumerate(runs[:MOST_BARS]):
            if kind in run.phases.kinds:
                seconds = run.phases.kinds[kind]
                series.points.append(Point(i, 100 * ratio(seconds.mean, run.phases.step.mean), label=(
                    f"{milliseconds(seconds.mean)} ms ({milliseconds(seconds.least)} .. {milliseconds(seconds.most)})")))
        figure.add(series)
    return figure


def waiting(runs):
    figure = Figure("waiting-ranks", "Waiting against ranks", Axis("ranks", True), Axis("% of a step"),
                    "Time that ranks wait for halos and for sums of gradients: mean, and least to most over ranks.")
    for kind in ("halo wait", "reduction wait"):
        figure.add(Series(kind, POINTS, [
            ranged(run.phases.ranks, *(100 * each / run.phases.step.mean for each in (seconds.mean, seconds.least,
                                                                                     seconds.most)), mesh_label(run))
            for run in runs for seconds in [run.phases.kinds[kind]]]))
    return figure


def efficiency(runs):
    table = Table("efficiency", "Parallel efficiency",
                  ["run", "ranks", "load balance", "communication efficiency", "parallel efficiency",
                   "computation scaling", "global efficiency"], "<>>>>>>",
                  "Metrics of the POP centres of excellence (co-design.pop-coe.eu/metrics); useful time is compute and "
                  "optimizer. Load balance: mean / most useful time. Communication efficiency: most useful time / time "
                  "of a step. Parallel: their product. Computation scaling: useful time per sample of the first run / "
                  "of this run, over all ranks. Global: parallel x computation scaling.",
                  notes=["Below 80 %, look for the cause."])

    def useful_per_sample(run):
        return run.phases.useful() * run.phases.ranks / max(run.batch, 1)
    for run in runs:
        scaling = ratio(useful_per_sample(runs[0]), useful_per_sample(run)) if len(runs) > 1 else math.nan
        phases = run.phases
        table.rows.append([run.name, str(phases.ranks), percent(phases.load_balance), percent(phases.communication),
                           percent(phases.parallel), percent(scaling), percent(scaling * phases.parallel)])
    return table


def phases_section(input):
    section, runs = Section("step", "A step in parts"), measured_runs(input)
    if not runs:
        return section
    section.paragraphs = [f"{run.name}: {run.phases.limit}." for run in runs if run.phases.limit]
    section.add(shares(runs))
    if len(runs) > 1:
        section.add(waiting(runs))
    return section.add(kinds_table(runs), efficiency(runs),
                       *(layers_table(run, i) for i, run in enumerate(runs[:6], 1)))


def sum_of(rows, key):
    return math.fsum(finite(row, key) for row in rows)


def memory(input):
    """Table 7: the bytes that a step must move at least, over its mean time."""
    table = Table("memory-bandwidth", "Memory bandwidth",
                  ["run", "system", "tool", "GB/s per rank", "GB/s per node", "GB/s in total", "of triad"], "<<<>>>>",
                  f"As Table 7 of {PAPER}. Least (model): each tensor read and written once a phase, over the mean time "
                  "of a step; caches that are too small move more.")

    def add(name, system, rate, ranks, nodes, triad):
        table.rows.append([name, or_dash(system), "least (model)", gigabytes(rate / ranks),
                           gigabytes(rate / nodes) if nodes else "-", gigabytes(rate), percent(rate / triad)])
    for run in measured_runs(input):
        moved = sum_of(records.items(run.record, "work"), "memory_bytes")
        if moved > 0:
            add(run.name, run.cpu, moved / run.phases.step.mean, run.phases.ranks, run.nodes, math.nan)
    for bench in input.benches:
        for run in bench.runs:
            moved, ranks = sum_of(records.items(run, "phases"), "memory_bytes"), number(run, "ranks")
            if moved > 0 and ranks > 0:
                add(f"{bench.name}: {shown(number(run, 'replicas'))} x {text(run, 'parts')}",
                    text(bench.record, "machine", "cpu"), ratio(moved, number(run, "mean_step_seconds")), ranks, 0,
                    number(bench.record, "peak", "triad_bytes_per_second"))
    return table


def reduction(runs):
    """Table 8. Algorithm and bus bandwidth as in nccl-tests, doc/PERFORMANCE.md."""
    table = Table("reduction-bandwidth", "Bandwidth of the sums of gradients",
                  ["run", "ranks", "system", "tool", "size in MB", "algorithm GB/s", "bus GB/s", "sums per step",
                   "a sum in ms", "waited per step in ms"], "<><<>>>>>>",
                  f"As Table 8 of {PAPER}: S / t of the mean sum, of size S and with time t from start to completion; "
                  "bus bandwidth is 2(n-1)/n times that for n ranks. The completion is seen when the program polls, so "
                  "t is an upper bound.")
    for run in runs:
        phases, n = run.phases, run.phases.ranks
        if phases.buckets > 0 and phases.reduced_bytes > 0:
            size = phases.reduced_bytes / n / phases.buckets
            rate = ratio(size, phases.bucket_seconds)
            table.rows.append([run.name, str(n), or_dash(run.cpu), "halomesh", shown(size * 1e-6), gigabytes(rate),
                               gigabytes(rate * 2 * (n - 1) / n), shown(phases.buckets / phases.steps),
                               milliseconds(phases.bucket_seconds), milliseconds(phases.exposed_seconds)])
    return table


def reading(runs):
    """Table 9."""
    table = Table("input-bandwidth", "Bandwidth of input",
                  ["run", "system", "tool", "GB/s per rank", "read per step", "in calls per step in ms",
                   "waited per step in ms"], "<<<>>>>",
                  f"As Table 9 of {PAPER}: bytes over the time inside read calls. Times: mean over ranks. What is not "
                  "waited for is hidden behind computation.")
    for run in runs:
        phases = run.phases
        if phases.input_bytes > 0:
            rank_steps = phases.ranks * phases.steps
            table.rows.append([run.name, or_dash(run.cpu), "halomesh",
                               gigabytes(ratio(phases.input_bytes, phases.input_seconds)),
                               with_prefix(phases.input_bytes / phases.steps, "B"),
                               milliseconds(phases.input_seconds / rank_steps),
                               milliseconds(phases.input_wait_seconds / rank_steps)])
    return table


def traffic(runs):
    table = Table("traffic", "Messages and memory",
                  ["run", "halos sent per step", "halo messages per step", "contributed to sums per step",
                   "peak memory of a rank: mean", "most", "rank with most"], "<>>>>>>",
                  "Sums over ranks; memory: resident set of a process.")
    for run in runs:
        phases = run.phases
        table.rows.append([run.name, with_prefix(phases.halo_sent / phases.steps, "B"),
                           shown(phases.halo_messages / phases.steps),
                           with_prefix(phases.reduced_bytes / phases.steps, "B"), with_prefix(phases.memory_mean, "B"),
                           with_prefix(phases.memory_most, "B"), phases.name_of_rank(phases.memory_rank)])
    return table


def bandwidth_section(input):
    runs = measured_runs(input)
    return Section("bandwidth", "Memory, network and input").add(
        memory(input), reduction(runs), reading(runs), traffic(runs))
