# SPDX-License-Identifier: Apache-2.0
"""The command `report`: runs as one page with figures and tables."""
import pathlib
import sys

from halomesh import outputs
from halomesh.errors import Error, UsageError, plain
from halomesh.options import Options, real
from halomesh.report.inputs import Input, parse_configurations, parse_epochs
from halomesh.texts import plural


def options():
    return Options(
        "report [options] RUN...",
        "Writes one HTML page about runs: what they reached, how fast, and where the time went; several\n"
        "runs are compared. RUN is the --out directory of train, an mllog.txt, a file of train --trace,\n"
        "bench --json, scaling or predict, or a table of results (CSV with the columns submission and\n"
        "minutes, a line per run).",
        "halomesh report runs/1 runs/2 bench.json --out report.html --figures figures"
    ).group("Report").add(
        "out", "FILE", "report.html", "page to write; -o FILE for short", short=("-o",)).add(
        "figures", "DIR", "", "also write each figure into DIR, as ID.svg and its numbers as ID.csv").add_choice(
        "reference", ("on", "off"), "on", "show published results of CosmoFlow in MLPerf HPC v0.7 in grey").add(
        "target", "MAE", 0.124, "validation MAE to reach, for runs that do not record their own", real(0)
    ).group("Extrapolation").add(
        "predict", "LIST", "", "also extrapolate the time to solution of configurations that did not run: "
        "REPLICASxPARTS/BATCH, e.g. 512x4x4x1/512,4096x4x1x1/4096").add(
        "epochs-to-target", "N[+-S]", "", "epochs that --predict assumes, with their standard deviation; default: "
        "those of the runs with the same batch size")


def read(values, words):
    input = Input(values["target"], values["reference"] == "on", parse_configurations(values["predict"]),
                  parse_epochs(values["epochs-to-target"]) if values["epochs-to-target"] else None,
                  "halomesh report " + " ".join(words))
    for path in values["arguments"]:
        input.add(path)
    for problem in input.problems:
        print("WARNING: " + plain(problem), file=sys.stderr)
    if input.is_empty():
        raise Error("nothing could be reported",
                    "give the directory of a run, or a file of bench --json, predict or train --trace")
    return input


def main(words):
    values = options().parse(words)
    if values is None:
        return 0
    if not values["arguments"]:
        raise UsageError("no run was given", "give the --out directory of each run")
    outputs.refuse_to_replace(values["out"], values["arguments"], "--out")
    outputs.require_writable(values["out"])
    input = read(values, words)
    # What draws is imported only now: a mistake is found without it.
    from halomesh.report.page import html, write_figures
    from halomesh.report.sections import make_page
    page = make_page(input)
    if values["figures"]:
        for figure in (figure for section in page.sections for figure in section.figures):
            for ending in (".svg", ".csv"):
                outputs.refuse_to_replace(pathlib.Path(values["figures"]) / (figure.id + ending), values["arguments"],
                                          "--figures")
    outputs.write_text(values["out"], html(page))
    print(plain("\n".join(page.verdict)) + f"\n\nreport in {plain(values['out'])}", end="")
    if values["figures"]:
        number = write_figures(page.sections, values["figures"])
        print(f", {plural(number, 'figure')} in {plain(values['figures'])}", end="")
    print()
    return 0
