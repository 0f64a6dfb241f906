# SPDX-License-Identifier: Apache-2.0
"""The page of a report: all sections, the verdict, warnings, and the numbers for scripts."""
import math

from halomesh import records
from halomesh.records import number, text
from halomesh.report.machine_sections import machine_section, timeline_section
from halomesh.report.model import Page
from halomesh.report.runs import group_runs
from halomesh.report.scaling_sections import (Extrapolation, bench_section, extrapolation_section, measured_rates,
                                              roofline_section, scaling_section)
from halomesh.report.time_sections import bandwidth_section, phases_section, staging_section, time_section
from halomesh.report.training_sections import options_section, predictions_section, quality_of, training_section
from halomesh.texts import duration, percent, plural, shown

SECTIONS = (options_section, training_section, time_section, phases_section, roofline_section, bench_section,
            scaling_section, extrapolation_section, bandwidth_section, predictions_section, timeline_section,
            staging_section, machine_section)
MOST_SENTENCES = 4
MOST_POINTS = 500  # of a curve in the numbers


def quality(group):
    run, score = group.first, group.of(lambda run: run.best)
    if not score.count:
        return "has no validation"
    value, title = f"{score.mean:.5f}", records.SCORES[run.kind]
    if len(group.runs) > 1:
        value = f"{value} on average"
    if not run.target > 0:
        return f"reached a validation {title} of {value}"
    if group.any_reached():
        return f"reached a validation {title} of {value} (target {run.target:g})"
    if group.of(lambda run: run.without_foreground or None).count:
        return f"reached no target, as no validation sample has foreground: its best {title} is {value}"
    return f"did not reach the target {title} of {run.target:g}: its best is {value}"


def epochs_text(group):
    """How far the runs came, in epochs that ended: a mean of them is no number of epochs."""
    epochs = group.epochs()
    if epochs.least == epochs.most:
        whole = math.floor(epochs.mean + 1e-9)
        if epochs.mean - whole > 0.005:
            return f"after {plural(int(group.first.steps), 'step')}, within epoch {whole + 1},"
        return f"after {plural(whole, 'epoch')}"
    return f"after {shown(math.floor(epochs.least))} to {shown(math.ceil(epochs.most))} epochs"


def pace(group):
    seconds = group.of(lambda run: run.solution)
    if not seconds.count:
        return f"{epochs_text(group)} and {duration(group.first.total())} (the run has not ended)"
    return f"{epochs_text(group)} in {duration(seconds.mean)}"


def sentence_of(group):
    run = group.first
    text_of_group = f"{group.label} {quality(group)} {pace(group)}"
    rate = group.of(lambda run: run.training_rate()).mean
    if 0 < rate < math.inf:
        text_of_group += f"; it trains {shown(rate)} samples/s"
        text_of_group += f" on {plural(run.ranks, 'rank')}" if run.ranks else ""
    if run.phases and run.phases.limit:
        text_of_group += f"; what limits: {run.phases.limit}"
    return text_of_group + "."


def sentence_of_bench(bench):
    """The fastest case of a file."""
    run = max(bench.runs, key=lambda run: number(run, "samples_per_second", "median"))
    share = number(run, "peak_fraction")
    return (f"{bench.name}: {shown(number(run, 'samples_per_second', 'median'))} samples/s on "
            f"{plural(int(number(run, 'ranks')), 'rank')} ({text(run, 'parts')} parts, {text(run, 'precision')})"
            + (f", {percent(share)} of the peak" if share > 0 else "") + ".")


def verdict(input):
    """A sentence or two per group of runs: time, quality, rate, what limits."""
    sentences = [sentence_of(group) for group in group_runs(input.runs)]
    sentences = sentences or [sentence_of_bench(bench) for bench in input.benches]
    sentences = sentences or [f"{file.name}: {quality_of(file)} over "
                              f"{plural(len(file.target[0]), 'sample')}." for file in input.predictions]
    if not sentences and input.traces:
        sentences = [f"{input.traces[0].name}: step {input.traces[0].step} of {plural(len(input.traces[0].ranks), 'rank')}."]
    if not sentences and input.results:
        sentences = [f"Results of {plural(len(input.results), 'submission')}."]
    more = len(sentences) - MOST_SENTENCES
    return sentences[:MOST_SENTENCES] + ([f"And {more} more."] if more > 0 else [])


def network_of(run):
    """"cosmoflow, input 128x128x128x4, 5597604 parameters"."""
    parts = [records.option(run.record, "model"), f"input {records.option(run.record, 'input')}",
             f"{shown(number(run.record, 'network', 'parameters'))} parameters"]
    return ", ".join(part for part in parts if part and not part.endswith(" ") and not part.startswith("-"))


def warnings_of(input):
    found = list(input.problems)
    # Loss and rates of different networks or data sets cannot be compared.
    with_record = [run for run in input.runs if run.record]
    networks = sorted({network_of(run) for run in with_record})
    samples = sorted({run.training_samples for run in with_record if run.training_samples})
    if len(networks) > 1:
        found.append("The runs train different networks: " + "; ".join(networks))
    if len(samples) > 1:
        found.append("The runs train on different numbers of samples: " + ", ".join(map(str, samples)))
    for run in with_record:
        kernels = records.at(run.record, "kernels")
        found += [f"{run.name}: slow reference kernel of oneDNN in {line}"
                  for line in (kernels if isinstance(kernels, list) else []) if isinstance(line, str) and "ref" in line]
    return found


def range_numbers(seconds):
    return {"mean": seconds.mean, "min": seconds.least, "max": seconds.most, "max_rank": seconds.slowest}


def run_numbers(run):
    kind = run.kind
    found = {"name": run.name, "ranks": run.ranks, "replicas": run.replicas, "parts": run.parts, "batch": run.batch,
             "training_samples": run.training_samples, "validation_samples": run.validation_samples,
             f"target_{kind}": run.target, "reached": run.reached,
             ("best_" if records.higher_is_better(kind) else "least_") + kind: run.best, "epochs": run.epochs,
             "steps": run.steps, "solution_seconds": run.solution, "staging_seconds": run.staging,
             "training_seconds": run.training, "evaluation_seconds": run.evaluation, "rest_seconds": run.rest(),
             "epoch_seconds": run.epoch_seconds(), "training_samples_per_second": run.training_rate(),
             "evaluated_samples_per_second": run.evaluation_rate()}
    if run.files:
        evaluations = run.files.evaluations
        every = max(1, -(-len(evaluations) // MOST_POINTS))
        found[f"{kind}_of_epochs"] = [[epoch, score] for _, score, epoch, *_ in evaluations[::every]]
    if run.phases:
        phases = run.phases
        found["phases"] = {
            "steps": phases.steps, "step_seconds": range_numbers(phases.step),
            "kinds": {name: range_numbers(seconds) for name, seconds in phases.kinds.items()},
            "load_balance": phases.load_balance, "communication_efficiency": phases.communication,
            "parallel_efficiency": phases.parallel, "limit": phases.limit, "halo_sent_bytes": phases.halo_sent,
            "reduced_bytes": phases.reduced_bytes, "input_bytes": phases.input_bytes}
    return found


def numbers_of(input):
    """The numbers behind the page; no more than some hundred values a run."""
    benches = [{"name": bench.name, "runs": [
        {"parts": text(run, "parts"), "ranks": number(run, "ranks"), "precision": text(run, "precision"),
         "batch": number(run, "batch"), "mean_step_seconds": number(run, "mean_step_seconds"),
         "samples_per_second": number(run, "samples_per_second", "median"),
         "evaluated_samples_per_second": number(run, "evaluated_samples_per_second", "median")}
        for run in bench.runs]} for bench in input.benches]
    extrapolated = [{"replicas": one.configuration.replicas, "parts": one.configuration.parts,
                     "batch": one.configuration.batch, "ranks": one.ranks, "epoch_seconds": one.seconds_per_epoch,
                     "seconds": one.seconds, "deviation_seconds": one.deviation}
                    for one in (Extrapolation(each, measured_rates(input), input) for each in input.predict)]
    return {"runs": [run_numbers(run) for run in input.runs], "bench": benches, "extrapolated": extrapolated,
            "warnings": input.problems}


def make_page(input):
    names = [each.name for each in [*input.runs, *input.benches]]
    title = "halomesh report"
    if names:
        title = "halomesh: " + (", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} more")
    sections = [section for section in (make(input) for make in SECTIONS) if not section.is_empty()]
    return Page(title, verdict(input), warnings_of(input), sections, numbers_of(input))
