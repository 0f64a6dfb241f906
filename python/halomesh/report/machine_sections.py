# SPDX-License-Identifier: Apache-2.0
"""What was run, where and with which versions: the rows of Tables 2 and 3 of Farrell et al.,
arXiv:2110.11466, and what it takes to run it again; and one step on a timeline."""
from halomesh import records
from halomesh.records import number, text
from halomesh.report.model import BARS, PAPER, Axis, Figure, Section, Series, Span, Table
from halomesh.report.runs import group_runs
from halomesh.texts import shown, with_prefix

MOST_LINES = 40  # of kernels and bindings
MOST_ROWS, MOST_SPANS = 16, 4000  # of a timeline
KIND_OF_PHASE = {
    "input wait": "input wait", "load parameters": "compute", "forward": "compute", "halo pack": "packing",
    "halo wait": "halo wait", "partial sum pack": "packing", "partial sum wait": "halo wait", "loss": "compute",
    "backward data": "compute", "backward parameters": "compute", "halo gradient pack": "packing",
    "halo gradient wait": "halo wait", "reduction start": "packing", "reduction wait": "reduction wait",
    "optimizer": "optimizer"}


def benchmark(runs):
    table = Table("benchmark", "What was trained",
                  ["runs", "network", "input", "parameters", "operations per sample", "training samples",
                   "validation samples", "metric", "target", "number of runs"], "<<>>>>><>>", f"As Table 2 of {PAPER}.")
    for group in group_runs(runs):
        run = group.first
        table.rows.append([
            group.label, run.model or "-", records.option(run.record, "input") or "-",
            shown(number(run.record, "network", "parameters")),
            with_prefix(number(run.record, "network", "flops_per_sample"), "flop"), str(run.training_samples),
            str(run.validation_samples), f"validation {records.SCORES[run.kind]}",
            f"{run.target:g}" if run.target > 0 else "-", str(len(group.runs))])
    return table


def recorded(input):
    """Name, record, and nodes, ranks and threads per rank of everything that has a record."""
    for run in input.runs:
        if run.record:
            yield run.name, run.record, run.nodes, run.ranks, run.threads
    for bench in input.benches:
        yield bench.name, bench.record, 0, records.count(bench.runs[0], "ranks"), records.count(bench.record, "threads")


def systems(input):
    table = Table("systems", "Where it ran",
                  ["run", "processor", "instructions", "nodes", "sockets per node", "NUMA nodes per node",
                   "cores per node", "L3 cache", "memory per node", "ranks", "threads per rank"], "<<<>>>>>>>>",
                  f"As Table 3 of {PAPER}; the machine is that of rank 0's node.")
    for name, record, *counts in recorded(input):
        machine = records.at(record, "machine")
        nodes, ranks, threads = (shown(each) if each > 0 else "-" for each in counts)
        table.rows.append([name, text(machine, "cpu") or "-", text(machine, "isa") or "-", nodes,
                           *(shown(number(machine, key)) for key in ("sockets", "numa_nodes", "cores")),
                           with_prefix(number(machine, "l3", "bytes"), "B"),
                           with_prefix(number(machine, "memory_bytes"), "B"), ranks, threads])
    return table


def versions(input):
    keys = ("started", "version", "git_commit", "compiler", "mpi", "onednn", "reduction")
    table = Table("versions", "Versions",
                  ["run", "started", "halomesh", "commit", "compiler", "MPI", "oneDNN", "reduction", "job"],
                  "<<<<<<<<<", "As recorded by each run.")
    for name, record, *_ in recorded(input):
        job = text(record, "job", "id")
        table.rows.append([name, *(text(record, key) or "-" for key in keys),
                           f"{text(record, 'job', 'scheduler')} {job}" if job else "-"])
    return table


def details(runs):
    """Each distinct text of binding and each kernel, of the first run."""
    table = Table("binding", "Binding and kernels", ["what", "value"], "<<", "Of the first run; equal ranks in one row.")
    record = next((run.record for run in runs if run.record), {})
    for key in ("binding", "kernels"):
        lines = records.at(record, key)
        lines = [line for line in lines if isinstance(line, str)] if isinstance(lines, list) else []
        table.rows += [[key, line] for line in list(dict.fromkeys(lines))[:MOST_LINES]]
    return table


def machine_section(input):
    section = Section("machine", "Machine and versions").add(
        benchmark(input.runs), systems(input), versions(input), details(input.runs))
    if input.command:
        section.paragraphs.append("This report was made by: " + input.command)
    return section


def timeline(trace, number_of_figure):
    """Of many ranks equally spaced ones, the first and the last included."""
    most = min(len(trace.ranks), MOST_ROWS)
    ranks = [trace.ranks[i * (len(trace.ranks) - 1) // max(most - 1, 1)] for i in range(most)]
    caption = (f"What {most} of {len(trace.ranks)} traced ranks do during a step." if most < len(trace.ranks) else
               "What each traced rank does during a step.")
    figure = Figure(f"timeline-{number_of_figure}", f"Step {trace.step} of {trace.name}", Axis("time in ms"), Axis(),
                    caption, categories=[name for _, name in ranks], is_horizontal=True)
    rows, kinds = {rank: row for row, (rank, _) in enumerate(ranks)}, {}
    for part in trace.slices:
        if part.rank in rows and len(figure.spans) < MOST_SPANS:
            kind = kinds.setdefault(KIND_OF_PHASE.get(part.phase, "other"), len(kinds))
            figure.spans.append(Span(rows[part.rank], kind, part.begin * 1e-3, part.end * 1e-3,
                                     f"{part.phase} {part.layer}".strip()))
    figure.series = [Series(kind, BARS) for kind in kinds]
    return figure


def timeline_section(input):
    section = Section("timeline", "One step on a timeline")
    for i, trace in enumerate(input.traces, 1):
        if not trace.slices:
            continue
        section.add(timeline(trace, i))
        text_of_trace = f"{trace.name}: the whole trace opens in ui.perfetto.dev."
        if trace.clock_error > 0:
            text_of_trace += f" Clocks of nodes agree within {shown(trace.clock_error)} µs."
        if trace.dropped > 0:
            text_of_trace += f" {trace.dropped} events were dropped."
        section.paragraphs.append(text_of_trace)
    return section
