# SPDX-License-Identifier: Apache-2.0
"""Draws the figures of a scaling study, those that report draws: `figures FILE DIR`, started by `scaling`."""
import pathlib

from halomesh.errors import plain
from halomesh.report.inputs import Input, read_bench
from halomesh.report.page import write_figures
from halomesh.report.scaling_sections import bench_section
from halomesh.texts import plural


def main(words):
    """Without arguments it only finds out whether the figures can be drawn."""
    if words:
        file, directory = words
        section = bench_section(Input(benches=[read_bench(pathlib.Path(file))]))
        print(f"{plural(write_figures([section], directory), 'figure')} in {plain(directory)}")
    return 0
