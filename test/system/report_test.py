#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The command report: its tables and figures against numbers worked out by hand, its page, and what it refuses."""
import concurrent.futures
import gzip
import json
import math
import os
import pathlib
import re
import sys
import tracemalloc
import unittest.mock
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "harness"))
from python_cases import Scene, command, eval_line, line, log_text, run, run_record, step_line  # noqa: E402

try:
    import jinja2  # noqa: F401
    import matplotlib  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}; make deps installs it\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)

from halomesh import Run, outputs  # noqa: E402
from halomesh.errors import Error, UsageError  # noqa: E402
from halomesh.mlperf import read_run  # noqa: E402
from halomesh.report.drawing import Drawing, thinned  # noqa: E402
from halomesh.report.inputs import Input, parse_configurations, parse_epochs  # noqa: E402
from halomesh.report.model import (BARS, LINE_AND_POINTS, POINTS, Axis, Figure, Level, Page, Point, Scale,  # noqa: E402
                                   Section, Series, Span, Table)
from halomesh.report.page import html  # noqa: E402
from halomesh.report.runs import MOST_PIECES, ReportedRun, group_runs  # noqa: E402
from halomesh.report.scaling_sections import Extrapolation, measured_rates, scaling_section  # noqa: E402
from halomesh.report.sections import make_page  # noqa: E402
from halomesh.report.machine_sections import KIND_OF_PHASE  # noqa: E402
from halomesh.tensorboard import Export  # noqa: E402
from halomesh.texts import duration, readable, shown, statistics_of, with_prefix  # noqa: E402
from halomesh.watch import WatchedRun  # noqa: E402


def input_of(*paths, **more):
    found = Input(**more)
    for path in paths:
        found.add(path)
    return found


def page_of(*paths):
    return make_page(input_of(*paths))


def part(page, name):
    """The table or figure with this id."""
    return next((each for section in page.sections for each in [*section.figures, *section.tables] if each.id == name),
                None)


def series_of(figure, name):
    return next(series for series in figure.series if series.name == name)


def cell_of(table, row, column):
    return next(cells for cells in table.rows if cells[0] == row)[table.columns.index(column)]


def two_epochs(start=0.0):
    """Two epochs of two steps, batch 4; steps of 2 s, validations of 1 s."""
    def at(seconds):
        return start + seconds if start else 0.0
    return (step_line(1, 0, 0.8, 2, at(2)) + step_line(2, 0, 0.6, 2, at(4)) + eval_line(0, 0.3, 1, at(5))
            + step_line(3, 1, 0.5, 2, at(7)) + step_line(4, 1, 0.4, 2, at(9)) + eval_line(1, 0.2, 1, at(10)))


class Times(Scene):
    def test_the_parts_of_the_time_to_solution_add_up(self):
        # 6 + 2 (10 + 2) + 10 = 40 s
        found = input_of(self.put_run("one", None, None, log_text(staging=6, rest=10)))
        run = found.runs[0]
        self.assertTrue(run.reached)
        for value, expected in ((run.epochs, 2), (run.total(), 40), (run.staging, 6), (run.training, 20),
                                (run.evaluation, 4), (run.rest(), 10), (run.epoch_seconds(), 12),
                                (run.training_rate(), 0.8), (run.evaluation_rate(), 2), (run.staging_epochs(), 0.5)):
            self.assert_close(value, expected)
        page = make_page(found)
        bars = part(page, "time-parts")
        self.assertEqual(bars.categories, ["one"])
        for name, percent in (("staging", 15), ("evaluation", 10), ("training", 50), ("rest", 25)):
            self.assert_close(series_of(bars, name).points[0].y, percent)
        for column, cell in (("T_sol in s", "40"), ("q", "0.5000"), ("q / (q + E)", "20.0 %"),
                             ("T_stg / T_sol", "15.0 %"), ("T_extra in s", "10 *")):
            self.assertEqual(cell_of(part(page, "equation"), "one", column), cell)
        self.assertIn("one reached a validation MAE of 0.12000 (target 0.124) after 2 epochs in 40 s", page.verdict[0])

    def test_staging_is_compared_with_an_epoch_that_includes_its_validation(self):
        # Cori-GPU: 989 s of staging, epochs of 386 s; Fugaku on 512 nodes: 93 s and 144.8 s.
        page = page_of(
            self.put_run("cori", None, None, log_text(staging=989, training=338.7, evaluation=47.3)),
            self.put_run("fugaku", None, None, log_text(staging=93, training=127.24, evaluation=17.56, batch=8)))
        table = part(page, "staging-ratio")
        for row, column, cell in (("cori", "staging / epoch", "2.56"), ("cori", "epoch in s", "386"),
                                  ("cori", "staging in min", "16.48"), ("fugaku", "staging / epoch", "0.64")):
            self.assertEqual(cell_of(table, row, column), cell)

    def test_throughput_per_rank_and_budget(self):
        # 364.73 min on 64 ranks are 389.05 h.
        table = part(page_of(self.put_run("one", None, run_record(64, "1x1x1", 64, 4),
                                          log_text(rest=364.73 * 60 - 24))), "throughput")
        for row, column, cell in (
                ("one", "budget in h x ranks", "389.05"), ("one", "time to solution in min", "364.7"),
                ("one", "training in samples/s per rank", shown(0.8 / 64)),
                ("one", "evaluation in samples/s per rank", shown(2.0 / 64)), ("one", "epochs", "2"),
                ("Cori-GPU 64 (published)", "budget in h x ranks", "389.05")):
            self.assertEqual(cell_of(table, row, column), cell)

    def test_the_score_of_published_runs_is_that_of_their_logs(self):
        # Minutes of each run, the number of the one that missed the target, and the olympic mean, of v0.7's logs.
        rows = (("F512", (198.40, 281.22, 225.31, 295.60, 243.62, 208.14, 236.79, 257.13, 282.10, 260.46), 4, "249.35"),
                ("F8192", (118.54, 82.93, 117.71, 97.79, 132.84, 86.66, 86.01, 106.64, 106.18, 92.38), 0, "101.49"),
                ("F16384", (29.42, 29.52, 30.56, 28.92, 29.56, 30.14, 30.69, 30.22, 30.48, 30.94), 0, "30.07"),
                ("KNL512", (443.21, 556.15, 478.54, 549.90, 643.38, 482.48, 503.94, 630.89, 430.00, 703.28), 0, "536.06"),
                ("KNL1024", (635.77, 341.62, 421.29, 389.77, 370.55, 512.01, 338.80, 448.36, 413.97, 459.98), 0, "419.69"))
        text = "division,system,submission,software,processors,accelerators,minutes,reached\n"
        for name, minutes, missed, _ in rows:
            for i, each in enumerate(minutes, 1):
                text += f'closed,"a, b",{name},TF,1,0,{each},{"no" if i == missed else "yes"}\n'
        found = input_of(self.put("results.csv", text))
        self.assertEqual(found.problems, [])
        table = part(make_page(found), "scores")
        cells = {row[2]: row for row in table.rows}
        for name, _, missed, olympic in rows:
            self.assertEqual((cells[name][1], cells[name][6], cells[name][7], cells[name][8]),
                             ("a, b", "10", "1" if missed else "0", olympic))

    def test_runs_that_differ_in_their_seed_alone_are_one_group(self):
        runs = [self.put_run(f"run{epochs}", None, run_record(4, "2x2x1", 16, 4, seed=epochs,
                                                              options={"seed": str(epochs), "out": f"run{epochs}"}),
                             log_text(epochs=epochs)) for epochs in (2, 3, 4)]
        found = input_of(*runs)
        groups = group_runs(found.runs)
        self.assertEqual([group.label for group in groups], ["4 x 2x2x1 parts, batch 4 (3 runs)"])
        self.assertEqual((groups[0].epochs().mean, groups[0].epochs().deviation), (3, 1))
        page = make_page(found)
        # 24, 36 and 48 s: the olympic mean is that of the middle run.
        self.assertEqual(part(page, "scores").rows[0][8], "0.60")
        self.assertEqual(cell_of(part(page, "throughput"), groups[0].label, "epochs"), "3 ± 1")
        self.assertIn("after 2 to 4 epochs in 36 s", page.verdict[0])

    def test_runs_of_other_networks_or_rates_are_no_repeats(self):
        runs = [self.put_run("a", two_epochs(), run_record(4, "2x2x1", 16, 4))]
        for i, options in enumerate(({"lr": "0.002"}, {"filters": "8"}, {"schedule": "step"})):
            runs.append(self.put_run(f"b{i}", two_epochs(), run_record(4, "2x2x1", 16, 4, options=options)))
        self.assertEqual(len(group_runs(input_of(*runs).runs)), 4)
        logs = [self.put(f"{rate}.txt", log_text().replace(
            '"global_batch_size"', '"opt_base_learning_rate"', 1).replace('"value": 4', f'"value": {rate}', 1))
            for rate in (0.1, 0.2)]
        self.assertEqual(len(group_runs(input_of(*logs).runs)), 2)

    def test_a_part_of_an_epoch_is_said_as_such(self):
        steps = "".join(step_line(i, (i - 1) // 2, 0.5, 1) for i in range(1, 12))
        verdict = page_of(self.put_run("one", steps, run_record(1, "1x1x1", 1, 4))).verdict[0]
        self.assertIn("after 11 steps, within epoch 6, and 11 s", verdict)


class Targets(Scene):
    def test_a_run_has_reached_its_target_by_its_best_validation(self):
        for name, error, log, said in (
                ("within", 0.12, log_text(last_mae=0.2), "within reached a validation MAE of 0.12000 (target 0.124)"),
                ("beyond", 0.2, log_text(), "beyond did not reach the target MAE of 0.124: its best is 0.20000")):
            lines = step_line(1, 0, 0.8, 2, 0.0) + eval_line(0, error, 1, 0.0)
            self.assertIn(said, page_of(self.put_run(name, lines, run_record(1, "1x1x1", 1, 4), log)).verdict[0])

    def test_validations_without_foreground_reach_no_target(self):
        line = '{"event":"eval","epoch":0,"dice":1.0,"loss":0.1,"samples":4,"seconds":1,"empty":true}\n'
        record = run_record(1, "1x1x1", 1, 4, {"target-score": "0.9"})
        page = page_of(self.put_run("empty", step_line(1, 0, 0.8, 2, 0.0) + line, record))
        self.assertIn("empty reached no target, as no validation sample has foreground: its best Dice is 1.00000", page.verdict[0])


class Training(Scene):
    def test_curves_against_epochs_and_time(self):
        # With times of day and without them the curves are the same.
        for name, start in (("untimed", 0.0), ("timed", 1.79e9)):
            page = page_of(self.put_run(name, two_epochs(start), run_record(1, "1x1x1", 1, 4)))
            loss = part(page, "loss-over-epochs")
            self.assertEqual([p[:2] for p in loss.series[0].points], [(0.5, 0.8), (1, 0.6), (1.5, 0.5), (2, 0.4)])
            self.assertEqual(loss.top.factor, 2)
            self.assert_close(part(page, "loss-over-time").series[0].points[2].x, 7, 5)
            mae = part(page, "mae-over-time")
            self.assertEqual([(round(p.x, 5), p.y) for p in mae.series[0].points], [(5, 0.3), (10, 0.2)])
            self.assertEqual([level[1:] for level in mae.levels], [(0.124, 0)])
            self.assertEqual(part(page, "mae-over-epochs").series[0].points[1].x, 2)
            rate = part(page, "rate-over-epochs").series[0].points
            self.assertEqual((len(rate), rate[0].y), (4, 2))
            self.assertEqual(len(part(page, "learning-rate-over-epochs").series[0].points), 4)
            self.assertIsNone(part(page, "loss-over-steps"))
            self.assertIn("did not reach the target MAE of 0.124: its best is 0.20000", page.verdict[0])
            self.assertIn("(the run has not ended); it trains 2 samples/s on 1 rank", page.verdict[0])

    def test_a_run_that_has_ended_by_its_record(self):
        # 10:00:00 to 10:00:20 UTC.
        path = self.put_run("one", two_epochs(1795341605.0),
                            run_record(1, "1x1x1", 1, 4, end={"time": 1795341620, "result": "done"}))
        run = input_of(path).runs[0]
        for value, expected in ((run.solution, 20), (run.training, 8), (run.evaluation, 2), (run.epochs, 2)):
            self.assert_close(value, expected)
        self.assertEqual(run.epoch_s, [5, 5])

    def test_a_stepped_clock_changes_no_duration(self):
        for end, seconds in (({"time": 1795338020, "result": "done", "seconds": 20.5}, 20.5),
                             ({"time": 1795338020, "result": "done"}, 10)):  # without it, what the lines add up to
            found = input_of(self.put_run("one", two_epochs(), run_record(1, "1x1x1", 1, 4, end=end)))
            self.assert_close(found.runs[0].solution, seconds)
            text = html(make_page(found))
            self.assertNotIn("not ended", text)
            self.assertNotRegex(text, r"-\d[\d.]* (s|min|h)\b")

    def test_differing_options_and_networks_are_shown(self):
        page = page_of(self.put_run("a", two_epochs(), run_record(1, "1x1x1", 1, 4)),
                       self.put_run("b", two_epochs(), run_record(1, "1x1x1", 1, 8, options={"model": "othernet"})))
        table = part(page, "options-different")
        self.assertEqual(table.columns, ["option", "a", "b"])
        self.assertEqual(sorted(table.rows), [["batch", "4", "8"], ["model", "cosmoflow", "othernet"]])
        self.assertEqual(len(page.warnings), 1)
        self.assertIn("different networks", page.warnings[0])
        self.assertEqual(len(part(page, "loss-over-epochs").series), 2)
        # Steps per epoch differ: steps have figures of their own.
        self.assertIsNone(part(page, "loss-over-epochs").top)
        self.assertIsNotNone(part(page, "loss-over-steps"))

    def test_each_wrong_input_has_one_message_and_the_rest_is_reported(self):
        good = self.put_run("good", two_epochs(), run_record(1, "1x1x1", 1, 4))
        self.put_run("cut", two_epochs() + '{"event":"st', run_record(1, "1x1x1", 1, 4))
        self.put_run("silent", "", run_record(1, "1x1x1", 1, 4))
        self.put_run("damaged", two_epochs(), "{")
        (self.directory / "empty").mkdir()
        for name, content in (
                ("bench.json", {"runs": []}), ("trace.json.gz", {"traceEvents": []}),
                ("broken.json.gz", '{"traceEvents":[{"ph":'), ("half.json.gz", gzip.compress(b"{}" * 99)[:20]),
                ("predictions.csv", "sample,predicted_0,target_0\n0,1,x\n"),
                ("short.csv", "sample,predicted_0,target_0\n0,1\n"), ("results.csv", "submission,minutes\na,-1\n"),
                ("other.csv", "a,b\n1,2\n"), ("file.bin", "abc"), ("log.txt", ":::MLLOG {\n"), ("wrong.h5", "not HDF5")):
            self.put(name, content)
        for name, message in (
                ("nowhere", "does not exist"), ("empty", "neither run.json nor metrics.jsonl"),
                ("silent", "no step has been recorded"), ("cut", "line 7 is incomplete"),
                ("damaged", "run.json: not a JSON object"), ("bench.json", "not a file of bench --json"),
                ("trace.json.gz", "no traced step"), ("broken.json.gz", "not JSON"), ("half.json.gz", "damaged gzip"),
                ("predictions.csv", "line 2: 'x' is not a number"), ("short.csv", "line 2: 2 values instead of 3"),
                ("results.csv", "line 2: '-1' is not a number of at least 0"),
                ("other.csv", "neither predictions nor results"), ("file.bin", "not a file that a report can show"),
                ("log.txt", "line 1: not a line of an MLPerf log"), ("wrong.h5", "wrong.h5")):
            with self.subTest(name):
                found = input_of(good, self.directory / name)
                self.assertEqual(len(found.problems), 1)
                self.assertIn(name, found.problems[0])
                self.assertIn(message, found.problems[0])
                page = make_page(found)
                self.assertEqual([w for w in page.warnings if "different" not in w], found.problems)
                self.assertEqual(part(page, "loss-over-epochs").series[0].name, "good")

    def test_a_long_run_takes_no_more_memory_than_a_short_one(self):
        def metrics(steps):
            rows = [{"phase": "forward", "layer": f"conv{i}", "kind": "compute", "mean": 0.1, "min": 0.1, "max": 0.1,
                     "max_rank": 0, "received_bytes": 0} for i in range(20)]
            text = ""
            for i in range(1, steps + 1):
                text += step_line(i, (i - 1) // 100, 1 / i, 0.1, 1.79e9 + 0.1 * i)
                if i % 100 == 0:
                    text += line("phases", steps=100, step=i, epoch=i // 100 - 1, step_seconds={"mean": 0.1}, rows=rows)
                    text += eval_line(i // 100 - 1, 0.2, 1, 1.79e9 + 0.1 * i)
            return text
        paths = [self.put_run(f"{steps}", metrics(steps)) for steps in (10000, 100000)]
        peaks = []
        for path in paths:
            tracemalloc.start()
            run = ReportedRun(path)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        self.assertEqual(run.steps, 100000)
        self.assertLessEqual(len(run.pieces), MOST_PIECES)
        self.assertLess(peaks[1], 2 * peaks[0], peaks)  # of ten times the steps
        page = page_of(paths[1])
        loss = part(page, "loss-over-epochs").series[0].points
        self.assertEqual((loss[0].y, loss[-1].y), (1, 1e-5))  # no extreme is lost
        self.assertLessEqual(len(part(page, "rate-over-epochs").series[0].points), 410)
        self.assertLess(len(json.dumps(page.numbers)), 100_000)

    def test_a_damaged_line_of_64_mb_is_counted_and_not_held(self):
        run = self.put_run("zeros", two_epochs(), run_record(1, "1x1x1", 1, 4), log_text())
        whole = (run / "metrics.jsonl").read_bytes()
        for log in (run / "metrics.jsonl", run / "mllog.txt"):
            with open(log, "ab") as file:
                for _ in range(64):
                    file.write(bytes(1 << 20))
                file.write(b"\n")
        with open(run / "metrics.jsonl", "ab") as file:
            file.write(whole.splitlines(keepends=True)[-1])
        lines = len(whole.splitlines())
        readers = {"report": ReportedRun, "watch": WatchedRun, "module": Run,
                   "export": lambda run: Export(run, self.directory), "phases": lambda run: len(Run(run).phases),
                   "mlperf-summary": lambda run: read_run(run / "mllog.txt")}
        for name, read in readers.items():
            with self.subTest(name):
                tracemalloc.start()
                found = read(run)
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                self.assertLess(peak, 16 << 20)
                if hasattr(found, "problems"):
                    self.assertEqual(found.problems(), [f"{run}/metrics.jsonl: damaged lines: 1 "
                                                        f"(the first is line {lines + 1})"])
                    self.assertFalse(found.update())


def phases_line(steps, scale):
    """A line of the event "phases" of 4 ranks in 2 replicas. `scale` stretches all times."""
    def spread(mean, least, most, rank):
        return {"mean": scale * mean, "min": scale * least, "max": scale * most, "max_rank": rank}
    compute, halo = spread(0.06, 0.05, 0.07, 3), spread(0.02, 0.01, 0.03, 2)
    return line(
        "phases", epoch=0, step=steps, steps=steps, ranks=4, replicas=2, parts="2x1x1", batch=4,
        step_seconds=spread(0.1, 0.1, 0.1, 0),
        rows=[{"phase": "forward", "layer": "conv1", "kind": "compute", **compute, "received_bytes": 0},
              {"phase": "halo wait", "layer": "conv2", "kind": "halo wait", **halo, "received_bytes": 2000},
              {"phase": "loss", "layer": "", "kind": "compute", "mean": 1e-6, "min": 0, "max": 1e-6, "max_rank": 0,
               "received_bytes": 0}],
        kinds=[{"kind": "compute", **compute}, {"kind": "halo wait", **halo},
               {"kind": "optimizer", **spread(0.01, 0.01, 0.01, 1)}, {"kind": "other", **spread(0.01, 0.01, 0.01, 1)}],
        efficiency={"load_balance": 0.9, "communication": 0.8, "parallel": 0.72},
        limit="waiting for halos takes 20.0 % of a step",
        halo={"sent_bytes": steps * 8000, "received_bytes": steps * 8000, "messages": steps * 6},
        # Two sums of 1 MB per step on each of 4 ranks, 0.5 ms each.
        reduction={"bytes": steps * 8e6, "buckets": steps * 2, "seconds": 0.0005 * scale,
                   "exposed_seconds": 0.0002 * scale},
        # 4 GB per step in 2 s inside calls, 0.4 s waited: sums over the 4 ranks.
        input={"bytes": steps * 4e9, "calls": steps * 2, "seconds": steps * 2.0 * scale,
               "wait_seconds": steps * 0.4 * scale},
        memory_bytes={"mean": 1e6, "max": 2e6, "max_rank": 3})


class Phases(Scene):
    def put_phases(self, name, *lines):
        work = [{"phase": "forward", "layer": "conv1", "flops": 1e9, "memory_bytes": 6e9},
                {"phase": "optimizer", "layer": "", "flops": 0, "memory_bytes": 2e9}]
        return self.put_run(name, step_line(1, 0, 0.5, 0.1) + step_line(2, 0, 0.4, 0.1) + "".join(lines),
                            run_record(2, "2x1x1", 4, 4, work=work))

    def test_lines_of_phases_are_put_together_by_their_steps(self):
        # 10 steps of 100 ms and 30 of 200 ms: 175 ms.
        phases = input_of(self.put_phases("one", phases_line(10, 1), phases_line(30, 2))).runs[0].phases
        for value, expected in (
                (phases.steps, 40), (phases.step.mean, 0.175), (phases.kinds["compute"].mean, 0.06 * 1.75),
                (phases.kinds["compute"].least, 0.05 * 1.75), (phases.kinds["compute"].slowest, 3),
                (phases.useful(), 0.07 * 1.75), (phases.parallel, 0.72), (phases.halo_sent, 40 * 8000),
                (phases.buckets, 80), (phases.bucket_seconds, 0.0005 * 1.75), (phases.exposed_seconds, 0.0002 * 1.75),
                (len(phases.rows), 3), (phases.rows[1][3], 2000)):
            self.assert_close(value, expected)

    def test_lines_of_layers_may_cover_other_steps_than_those_of_phases(self):
        kinds, rows = [json.loads(phases_line(steps, scale)) for steps, scale in ((10, 1), (30, 2))], []
        for each in kinds:
            rows.append(line("layers", epoch=0, step=each["step"], steps=20, rows=each.pop("rows")))
        phases = input_of(self.put_phases("one", *(json.dumps(each) + "\n" for each in kinds), *rows)).runs[0].phases
        self.assert_close(phases.step.mean, 0.175)
        for value, expected in ((phases.rows[0][2].mean, 0.06 * 1.5), (phases.rows[1][2].most, 0.03 * 1.5),
                                (phases.rows[1][3], 2000), (phases.steps, 40)):
            self.assert_close(value, expected)
        # A run that was killed before its second line of layers.
        phases = input_of(self.put_phases("two", *(json.dumps(each) + "\n" for each in kinds), rows[0])).runs[0].phases
        self.assert_close(phases.rows[0][2].mean, 0.06)

    def test_the_parts_of_a_step_the_slowest_rank_and_efficiency(self):
        page = page_of(self.put_phases("fast", phases_line(10, 1)), self.put_phases("slow", phases_line(10, 2)))
        shares = part(page, "step-shares")
        self.assertEqual(shares.categories, ["fast: 2 x 2x1x1", "slow: 2 x 2x1x1"])
        for kind, share in (("compute", 60), ("halo wait", 20), ("optimizer", 10), ("other", 10), ("packing", 0)):
            for p in series_of(shares, kind).points:
                self.assert_close(p.y, share)
        wait = series_of(part(page, "waiting-ranks"), "halo wait").points[0]
        self.assertEqual(wait.x, 4)
        self.assert_close(wait.low, 10)
        self.assert_close(wait.high, 30)
        layers = part(page, "step-layers-1")
        self.assertEqual(layers.rows[0], ["conv1", "forward", "60.000", "50.000", "70.000", "3 (replica 1, part 1)",
                                          "60.0 %", "-"])
        self.assertEqual((len(layers.rows), layers.rows[1][5], layers.rows[1][7]), (2, "2 (replica 1, part 0)", "2.0"))
        self.assertEqual(len(layers.notes), 1)  # the loss is too small
        for row, column, cell in (("fast", "load balance", "90.0 %"), ("slow", "parallel efficiency", "72.0 %"),
                                  # Twice the useful time for the same samples.
                                  ("slow", "computation scaling", "50.0 %"), ("slow", "global efficiency", "36.0 %")):
            self.assertEqual(cell_of(part(page, "efficiency"), row, column), cell)
        self.assertIn("what limits: waiting for halos takes 20.0 % of a step", page.verdict[0])

    def test_bandwidths_of_memory_sums_and_input(self):
        page = page_of(self.put_phases("one", phases_line(10, 1)))
        for table, column, cell in (
                ("memory-bandwidth", "GB/s in total", "80"), ("memory-bandwidth", "GB/s per rank", "20"),  # 8 GB, 100 ms
                ("memory-bandwidth", "GB/s per node", "40"), ("memory-bandwidth", "tool", "least (model)"),
                ("reduction-bandwidth", "size in MB", "1"), ("reduction-bandwidth", "algorithm GB/s", "2"),
                ("reduction-bandwidth", "bus GB/s", "3"), ("reduction-bandwidth", "sums per step", "2"),
                ("reduction-bandwidth", "waited per step in ms", "0.200"), ("input-bandwidth", "GB/s per rank", "2"),
                ("input-bandwidth", "in calls per step in ms", "500.000"),
                ("input-bandwidth", "waited per step in ms", "100.000"), ("traffic", "halos sent per step", "8 kB"),
                ("traffic", "halo messages per step", "6"), ("traffic", "rank with most", "3 (replica 1, part 1)")):
            self.assertEqual(cell_of(part(page, table), "one", column), cell, column)

    def test_every_phase_of_the_program_has_its_kind(self):
        source = (pathlib.Path(__file__).parents[2] / "include" / "phase.hpp").read_text()
        names = dict(re.findall(r'\{Phase::k\w+, "([^"]+)", PhaseKind::k(\w+)\}', source))
        self.assertGreater(len(names), 15)
        for phase, kind in names.items():
            self.assertEqual(KIND_OF_PHASE.get(phase, "other"), re.sub(r"(?<!^)([A-Z])", r" \1", kind).lower(), phase)


def bench_run(parts, ranks, rate, local_batch=1, **more):
    return {"parts": parts, "replicas": ranks, "ranks": ranks, "precision": "fp32", "batch": ranks * local_batch,
            "local_batch": local_batch, "step_seconds": {"median": 0.1, "min": 0.1, "max": 0.1},
            "samples_per_second": {"median": rate, "min": 0.9 * rate, "max": 1.1 * rate},
            "evaluated_samples_per_second": {"median": 4 * rate, "min": 1, "max": 1}, "mean_step_seconds": 0.1,
            "peak_fraction": 0.25, **more}


class Scaling(Scene):
    def put_bench(self, name, *runs):
        peak = {"fp32_flops_per_second": 4e12, "bf16_flops_per_second": 0, "triad_bytes_per_second": 1e12}
        return self.put(name, {"threads": 2, "machine": {"cpu": "A64FX"}, "peak": peak, "runs": runs})

    def test_batch_size_epochs_and_throughput_of_runs_and_published_ones(self):
        found = input_of(self.put_run("one", None, run_record(2, "2x1x1", 4, 4), log_text()),
                         self.put_run("two", None, run_record(8, "1x1x1", 8, 8), log_text(batch=8, epochs=4)))
        page = make_page(found)
        batches = part(page, "batch-ranks")
        self.assertTrue(batches.x.is_log)
        self.assertEqual([p[:2] for p in series_of(batches, "runs").points], [(4, 4), (8, 8)])
        self.assertTrue(series_of(batches, "published").is_published)
        self.assertEqual(len(series_of(batches, "published").points), 12)
        levels = {level.label: level.factor for level in batches.levels}
        self.assertEqual((levels["16 ranks per sample"], levels["0.25 ranks per sample"]), (1 / 16, 4))
        epochs = part(page, "batch-epochs")
        self.assertEqual(series_of(epochs, "runs").points[1].x, 4)
        # 8 samples: at batch 8 an epoch is a step, at batch 4 two.
        self.assert_close({level.label: level.factor for level in epochs.levels}["10 steps"], 0.8)
        rates = part(page, "throughput-ranks")
        # 16 samples in 20 s; 8 validated in 4 s; 12 samples in 12 s.
        for name, rate in (("training", 0.8), ("evaluation", 2), ("combined", 1)):
            self.assert_close(series_of(rates, name).points[0].y, rate)
        self.assert_close(rates.right.factor, 1 / 12)
        self.assert_close(series_of(rates, "published, training").points[0].y, 2060.24, 1)
        self.assert_close(series_of(rates, "published, evaluation").points[0].y, 3732.1, 0)
        speed = part(page, "epoch-rate")
        self.assert_close(series_of(speed, "runs").points[0].y, 1 / 12)
        self.assert_close({level.label: level.factor for level in speed.levels}["60 s"], 1 / 60)
        found.shows_published = False
        self.assertFalse(any(series.is_published for figure in scaling_section(found).figures for series in figure.series))

    def test_one_sample_per_rank(self):
        page = page_of(self.put_run("two", None, run_record(8, "1x1x1", 8, 8), log_text(batch=8, epochs=5)),
                       self.put_run("one", None, run_record(4, "1x1x1", 4, 4), log_text(rest=36)))  # 24 + 36 s
        time = part(page, "weak-time").series[0].points
        self.assertEqual([p.x for p in time], [4, 8])
        self.assert_close(time[0].y, 1)
        self.assert_close(time[1].y, 1)
        self.assertEqual(part(page, "weak-epochs").series[0].points[1].y, 5)

    def test_throughput_of_bench_over_ranks_before_and_after(self):
        page = page_of(self.put_bench("before.json", bench_run("1x1x1", 4, 15), bench_run("1x1x1", 2, 10),
                                      bench_run("1x1x1", 1, 12, 4)),
                       self.put_bench("after.json", bench_run("1x1x1", 1, 20)))
        figure = part(page, "bench-throughput")
        line_of = series_of(figure, "1x1x1 parts, fp32, local batch 1 (before)")
        self.assertTrue(line_of.is_dashed)
        self.assertEqual([p[:2] for p in line_of.points], [(2, 10), (4, 15)])
        self.assert_close(line_of.points[1].low, 13.5)
        ideal = series_of(figure, "ideal: 1x1x1 parts, fp32, local batch 1 (before)")
        self.assert_close(ideal.points[1].y, 20)
        self.assertFalse(series_of(figure, "1x1x1 parts, fp32, local batch 1 (after)").is_dashed)
        self.assertEqual(len(series_of(figure, "1x1x1 parts, fp32, local batch 4 (before)").points), 1)
        table = part(page, "bench-rates")
        self.assertEqual([len(table.rows), table.rows[0][11], table.rows[1][11]], [4, "75.0 %", "100.0 %"])
        self.assertIn("before: 15 samples/s on 4 ranks", page.verdict[0])

    def test_one_batch_on_more_ranks_measured_and_predicted(self):
        page = page_of(self.put_bench(
            "scaling.json", bench_run("1x1x1", 1, 10, 4), bench_run("1x1x1", 2, 14, 2, predicted_step_seconds=0.5),
            bench_run("2x1x1", 2, 16, 2), bench_run("1x1x1", 2, 20, 4)))
        figure = part(page, "bench-strong")
        self.assertEqual(len(figure.series), 3)  # the batch of 8 was trained on 2 ranks alone
        self.assertEqual([p[:2] for p in series_of(figure, "batch 4, fp32").points], [(1, 10), (2, 16)])
        self.assert_close(series_of(figure, "predicted: batch 4, fp32").points[0].y, 8)
        self.assert_close(series_of(figure, "ideal: batch 4, fp32").points[1].y, 20)

    def test_strong_and_weak_runs_of_a_study_go_into_a_figure_each(self):
        def run(scaling, ranks, parts, batch, step, **more):
            rate = batch / step
            return {"scaling": scaling, "parts": parts, "replicas": 1, "ranks": ranks, "precision": "fp32", "batch": batch,
                    "local_batch": 1, "mean_step_seconds": step,
                    "step_seconds": {"median": step, "min": step / 2, "max": step * 2},
                    "samples_per_second": {"median": rate, "min": rate / 2, "max": rate * 2}, "efficiency": 0.75, **more}
        study = {"study": {}, "measurements": [], "runs": [
            run("strong", 1, "1x1x1", 4, 4), run("strong", 2, "1x1x1", 4, 2.5, predicted_step_seconds=2),
            run("strong", 2, "2x1x1", 4, 3), run("weak", 1, "1x1x1", 1, 1), run("weak", 2, "1x1x1", 2, 1.25)]}
        file = self.put("study.json", study)
        page = page_of(file)
        # Of the strong runs alone: the fastest on two ranks, its prediction, and the ideal.
        strong = part(page, "bench-strong")
        self.assertEqual(len(strong.series), 3)
        self.assert_close(strong.series[0].points[1].y, 1.6)
        self.assert_close(strong.series[0].points[1].low, 0.8)
        self.assertTrue(strong.series[1].name.startswith("predicted"))
        self.assert_close(strong.series[1].points[0].y, 2)
        self.assert_close(strong.series[2].points[1].y, 2)
        weak = part(page, "bench-throughput")
        self.assertEqual(len(weak.series), 2)  # one mesh, and its ideal
        self.assert_close(weak.series[0].points[1].y, 1.6)
        self.assertEqual([row[11] for row in part(page, "bench-rates").rows], ["75.0 %"] * 5)
        drawn = command("figures", file, self.directory / "figures")
        self.assertEqual((drawn.code, drawn.out), (0, f"2 figures in {self.directory}/figures\n"))
        self.assertEqual(sorted(path.name for path in (self.directory / "figures").iterdir()),
                         ["bench-strong.csv", "bench-strong.svg", "bench-throughput.csv", "bench-throughput.svg"])

    def test_the_roofline_of_bench_and_its_bounds(self):
        phases = [{"layer": "conv1", "phase": "forward", "seconds_mean_over_ranks": 0.05, "flops": 1e11,
                   "memory_bytes": 5e10, "flops_per_second": 2e12, "roof_fraction": 0.5},
                  {"layer": "", "phase": "optimizer", "seconds_mean_over_ranks": 0.01, "flops": 0, "memory_bytes": 3e10,
                   "flops_per_second": 0},
                  {"layer": "fc", "phase": "forward", "seconds_mean_over_ranks": 1e-6, "flops": 1, "memory_bytes": 1,
                   "flops_per_second": 1}]
        bound = {"compute_seconds": 0.025, "memory_seconds": 0.08, "largest": "memory"}
        page = page_of(self.put_bench("bench.json", bench_run("2x1x1", 2, 10, 1, phases=phases, bound=bound)))
        forward = series_of(part(page, "roofline-1"), "forward").points
        self.assertEqual(len(forward), 1)
        self.assert_close(forward[0].x, 2)
        self.assert_close(forward[0].y, 2000)
        self.assertIn("conv1 forward: 50.0 % of the step", forward[0].label)
        roof = series_of(part(page, "roofline-1"), "roof: 4000 GF/s, 1000 GB/s").points
        self.assert_close(roof[1].x, 4)  # 4 Tflop/s at 1 TB/s
        self.assert_close(roof[1].y, 4000)
        self.assert_close(roof[0].y, 1000 * roof[0].x)
        self.assertEqual(part(page, "bounds").rows[1], ["bench: 2 x 2x1x1", "memory", "80.000", "80.0 %"])
        self.assertEqual(len(part(page, "bounds").rows), 3)
        self.assertEqual(part(page, "memory-bandwidth").rows[0][6], "80.0 %")  # 80 GB in 0.1 s

    def test_time_to_solution_of_configurations_that_did_not_run(self):
        found = input_of(self.put_run("run", None, run_record(2, "2x1x1", 4, 4), log_text(staging=6)),
                         self.put_bench("bench.json", bench_run("1x1x1", 1, 2), bench_run("1x1x1", 4, 6)),
                         predict=parse_configurations("4x2x1x1/4,16x1x1x1/16,1x4x4x1/4"))
        rates = measured_rates(found)
        self.assertEqual(len(rates), 3)
        # Twice the ranks: 8 samples at 1.6/s and 4 at 4/s, two epochs, 6 s of staging.
        twice = Extrapolation(found.predict[0], rates, found)
        self.assertEqual((twice.ranks, twice.base.source), (8, "run"))
        self.assert_close(twice.seconds_per_epoch, 6)
        self.assert_close(twice.seconds, 18)
        # From bench on 4 ranks, the nearest: 24 samples/s, evaluation 96; epochs are not known.
        wide = Extrapolation(found.predict[1], rates, found)
        self.assertEqual((wide.base.ranks, wide.epochs, wide.seconds), (4, None, 0))
        self.assert_close(wide.seconds_per_epoch, 8 / 24 + 4 / 96)
        # Given: 100 +- 5 epochs; rates within 10 %.
        found.epochs_to_target = parse_epochs("100+-5")
        given = Extrapolation(found.predict[1], rates, found)
        self.assert_close(given.seconds, 37.5)
        self.assert_close(given.deviation, math.hypot(5 * 0.375, 0.1 * 37.5))
        self.assertIsNone(Extrapolation(found.predict[2], rates, found).base)
        page = make_page(found)
        table = part(page, "extrapolated")
        self.assertEqual(len(table.rows), 3)
        self.assertEqual(cell_of(table, "16 x 1x1x1", "epochs"), "100 ± 5")
        self.assertEqual(cell_of(table, "1 x 4x4x1", "rates from"), "nothing was measured with these parts")
        figure = part(page, "extrapolated-time")
        self.assertEqual(len(series_of(figure, "extrapolated").points), 2)
        self.assert_close(series_of(figure, "measured").points[0].y, 0.5)

    def test_what_is_no_configuration_or_number_of_epochs_is_refused(self):
        for text in ("1", "2x2", "x1x1x1/4", "2x1x1x1", "2x1x1x1/0", "0x1x1x1/4", "2x1x1/4", "2x1x1x1/4,,", "ax1x1x1/4"):
            with self.assertRaisesRegex(UsageError, "is not a configuration"):
                parse_configurations(text)
        for text in ("", "x", "5+-", "5+-x", "-1", "0", "5+--1"):
            with self.assertRaisesRegex(UsageError, "is not a number of epochs"):
                parse_epochs(text)
        self.assertEqual(parse_epochs("92"), (92, 0))
        self.assertEqual(parse_configurations("512x4x4x1/256")[0].ranks, 512 * 16)


def slice_of(rank, name, layer, step, begin, length, track=0):
    return {"ph": "X", "pid": rank, "tid": track, "name": name, "cat": "c", "ts": begin, "dur": length,
            "args": {"step": step, "layer": layer}}


class Others(Scene):
    def test_errors_of_predictions_from_csv_and_hdf5(self):
        paths = [self.put("p.csv", "sample,predicted_0,predicted_1,target_0,target_1\n0,1,0.5,0,0.5\n1,3,0.5,2,-0.5\n")]
        try:
            import h5py
            paths.append(self.directory / "p.h5")
            with h5py.File(paths[-1], "w") as file:
                file["predicted"] = [[1, 0.5], [3, 0.5]]
                file["target"] = [[0, 0.5], [2, -0.5]]
        except ImportError:
            pass
        for path in paths:
            found = input_of(path)
            self.assertEqual(found.problems, [])
            self.assertEqual(found.predictions[0].predicted[1][1], 0.5)
            page = make_page(found)
            rows = part(page, "prediction-errors").rows
            # Output 0 is 1 too high twice; output 1 is right once and 1 too high once.
            self.assertEqual(rows[0], [path.name, "0", "2", "1", "1", "1", "1.0000", "1"])
            self.assertEqual((len(rows), rows[1][3], rows[1][4]), (2, "0.5000", shown(math.sqrt(0.5))))
            self.assertEqual(part(page, "predictions-1-0").series[0].points[1][:2], (2, 3))
            self.assertIn("mean absolute error 0.75000 over 2 samples", page.verdict[0])

    def test_outputs_of_predictions_have_their_names(self):
        paths = [self.put("p.csv", "sample,predicted_Omega_M,predicted_sigma_8,target_Omega_M,target_sigma_8\n0,1,0.5,0,1\n")]
        try:
            import h5py
            paths.append(self.directory / "p.h5")
            with h5py.File(paths[-1], "w") as file:
                file["predicted"], file["target"] = [[1, 0.5]], [[0, 1]]
                file["predicted"].attrs["names"] = file["target"].attrs["names"] = "Omega_M,sigma_8"
        except ImportError:
            pass
        for path in paths:
            page = page_of(path)
            self.assertEqual([row[1] for row in part(page, "prediction-errors").rows], ["Omega_M", "sigma_8"])
            self.assertEqual(part(page, "predictions-1-1").title, f"{path.name}: sigma_8")

    def test_large_prediction_files_are_thinned_in_the_figure_only(self):
        page = page_of(self.put("p.csv", "sample,predicted_0,target_0\n" + "".join(f"{i},{i + 1},{i}\n" for i in range(3000))))
        self.assertEqual(len(part(page, "predictions-1-0").series[0].points), 500)
        self.assertEqual(part(page, "prediction-errors").rows[0][2], "3000")

    def test_the_first_traced_step_of_several_ranks_is_a_timeline(self):
        # Members of several ranks, one after the other.
        members = (
            '{"displayTimeUnit":"ms","otherData":{"ranks":64,"clock_error_us":1.5,"dropped_events":7},"traceEvents":['
            '{"ph":"M","pid":5,"name":"process_name","args":{"name":"rank 5 (replica 1, part 1)"}},',
            ",".join(map(json.dumps, (
                slice_of(0, "step", "", 6, 1000, 2000), slice_of(0, "forward", "conv1", 6, 1100, 500),
                slice_of(0, "halo wait", "conv2", 6, 1700, 300), slice_of(0, "send", "conv2", 6, 1700, 300, 1),
                slice_of(0, "step", "", 7, 5000, 2000), slice_of(0, "forward", "conv1", 7, 5100, 500)))) + ",",
            ",".join(map(json.dumps, (slice_of(5, "step", "", 6, 900, 2000), slice_of(5, "forward", "conv1", 6, 1000, 100))))
            + "]}")
        found = input_of(self.put("trace.json.gz", b"".join(gzip.compress(each.encode()) for each in members)))
        self.assertEqual(found.problems, [])
        page = make_page(found)
        figure = part(page, "timeline-1")
        self.assertEqual(figure.categories, ["rank 0", "rank 5 (replica 1, part 1)"])
        self.assertEqual([(s.row, round(s.begin, 9), round(s.end, 9)) for s in figure.spans],
                         [(1, 0.1, 0.2), (0, 0.2, 0.7), (0, 0.8, 1.1)])
        self.assertEqual(figure.spans[2].label, "halo wait conv2")
        self.assertEqual([figure.series[s.series].name for s in figure.spans[1:]], ["compute", "halo wait"])
        self.assertIn("within 1.500 µs. 7 events", next(s for s in page.sections if s.id == "timeline").paragraphs[0])

    def test_of_many_traced_ranks_16_are_shown(self):
        events = [slice_of(rank, *what) for rank in range(40) for what in (("step", "", 1, 0, 10), ("forward", "", 1, 1, 2))]
        figure = part(page_of(self.put("t.json", {"traceEvents": events})), "timeline-1")
        self.assertEqual((len(figure.categories), len(figure.spans)), (16, 16))
        self.assertEqual((figure.categories[0], figure.categories[-1]), ("rank 0", "rank 39"))

    def test_machine_versions_and_staging_of_a_run(self):
        record = run_record(2, "2x1x1", 4, 4, job={"scheduler": "slurm", "id": "123"},
                            network={"parameters": 5597604, "flops_per_sample": 56.93e9},
                            kernels=["conv1: forward ref:any"], binding=["core 0", "core 0", "core 1"])
        stage = line("stage", seconds=2, samples=12, bytes_read=4e9, bytes_staged=1e9, reused=False, read_seconds=4,
                     read_calls=3, rank_seconds={"mean": 1.5, "min": 1, "max": 2, "max_rank": 3})
        found = input_of(self.put_run("one", stage + step_line(1, 0, 0.5, 1), record), command="halomesh report one")
        page = make_page(found)
        for table, column, cell in (
                ("benchmark", "parameters", "5597604"), ("benchmark", "operations per sample", "56.9 Gflop"),
                ("systems", "processor", "A64FX"), ("systems", "nodes", "2"), ("versions", "job", "slurm 123"),
                ("staging", "read rate", "2 GB/s"), ("staging", "read rate inside calls per rank", "1 GB/s"),
                ("staging", "seconds of a rank: mean (least .. most)", "1.500 (1 .. 2)")):
            self.assertEqual(cell_of(part(page, table), "one", column), cell)
        self.assertEqual(len(part(page, "binding").rows), 3)
        self.assertIn("halomesh report one", page.sections[-1].paragraphs[0])
        self.assertEqual(len(page.warnings), 1)
        self.assertIn("slow reference kernel of oneDNN in conv1", page.warnings[0])
        self.assertEqual(page.numbers["runs"][0]["ranks"], 4)

    def test_statistics_and_numbers_as_text(self):
        self.assertEqual(statistics_of([math.nan]).count, 0)
        some = statistics_of([4, 1, 3, math.nan, 2])
        self.assertEqual((some.count, some.mean, some.median), (4, 2.5, 2.5))
        self.assert_close(some.deviation, math.sqrt(5 / 3))
        for value, text in ((0, "0"), (1, "1"), (12.345, "12.35"), (-123.45, "-123.5"), (12345.6, "12346"),
                            (0.012345, "0.0123"), (1e-5, "1e-05"), (math.nan, "-")):
            self.assertIn(shown(value), (text, text.replace("12.35", "12.35").replace("-123.5", "-123.5")))
        self.assertEqual(with_prefix(1.5e9, "B"), "1.5 GB")
        self.assertEqual((duration(90), duration(600), duration(36000)), ("90 s", "10 min", "10 h"))
        for value, text in ((0, "0"), (12345, "12,345"), (0.0123, "0.0123"), (3e-7, "3×10⁻⁷"), (math.nan, "–"),
                            (1234.5, "1234.5"), (2.5e12, "2,500,000,000,000"), (-math.inf, "-∞")):
            self.assertEqual(readable(value), text)


def sample_page():
    """A page with a figure of every kind, and with texts that a careless page would take for markup."""
    curve = [Point(i, 0.5 * (1 + 0.3 * math.sin(i * i)) / (1 + i / 100)) for i in range(1, 5000)]
    gap = [Point(500.0 * i, 0.6 / i if i != 5 else math.nan, label=f"epoch {i}") for i in range(1, 11)]
    loss = Figure("loss", "Training loss", Axis("step"), Axis("loss", True), "Of each step.", right=Scale("relative", 2))
    loss.series = [Series('4 replicas <b>&"quoted"', points=curve), Series("evaluation", LINE_AND_POINTS, gap)]
    shares = Figure("shares", "Shares", Axis(), Axis("share in %"), categories=["a", "b", "a longer name <i> of a mesh"],
                    is_stacked=True, is_horizontal=True,
                    series=[Series(name, BARS, [Point(i, y) for i in range(3)]) for name, y in
                            (("staging", 12.0), ("training", 75.0), ("evaluation", 10.0), ("other", 3.0))])
    layers = Figure("layers", "Time of a step by layer", Axis(), Axis("time in ms"),
                    categories=[f"conv{i} weights" for i in range(14)],
                    series=[Series(name, BARS, [Point(i, 20 / (1 + i), 16 / (1 + i), 26 / (1 + i)) for i in range(14)])
                            for name in ("forward", "backward", "halo wait")])
    kinds = Figure("kinds", "By kind", Axis(), Axis("time in s"), categories=["1x1x1", "2x1x1"], is_stacked=True,
                   series=[Series(f"kind {k}", BARS, [Point(i, 0.2 / (1 + k + i)) for i in range(2)]) for k in range(8)])
    timeline = Figure("timeline", "One step", Axis("time in ms"), Axis(), categories=[f"rank {r}" for r in range(16)],
                      is_horizontal=True, series=[Series("compute", BARS), Series("halo wait", BARS)],
                      spans=[Span(r, i % 2, i + r / 20, i + 0.9, f"conv{i}") for r in range(16) for i in range(40)])
    scaling = Figure("scaling", "Batch size", Axis("processors", True), Axis("batch size", True),
                     top=Scale("threads", 48), levels=[Level(f"{r} per sample", 1 / r, 1) for r in (0.25, 0.5, 1, 2, 4, 16)],
                     series=[Series("halomesh", POINTS, [Point(16, 64, label="a"), Point(512, 512, 300, 800)]),
                             Series("before", LINE_AND_POINTS, [Point(16, 32), Point(256, 512)], is_dashed=True),
                             Series("published", POINTS, [Point(128, 64), Point(4096, 4096), Point(-1, 3)], is_published=True)])
    scatter = Figure("scatter", "Predicted", Axis("true"), Axis("predicted"), levels=[Level("perfect", 1, 1)],
                     series=[Series("s8", POINTS, [Point(math.sin(i), math.sin(i) + 0.1 * math.cos(7 * i)) for i in range(2000)])])
    table = Table("options", "Options that differ", ["option", "a", "samples/s"], "<<>", "Of this page.",
                  [["--parts", "2x2x1", "1,530"], ["--out", "</td>\x01\udcff", "980"]], ["A note."])
    return Page("Run: <script>alert(1)</script>", ["Reached the target in 3 h."], ["run 2 has no phases"], [
        Section("options", "Options", ["Two runs."], [], [table]), Section("same", "Curves", [], [loss]),
        Section("same", "Time", [], [shares, layers, kinds, timeline]), Section("scaling", "Scaling", [], [scaling, scatter])],
        {"name": "</script><script>alert(2)</script>", "value": math.nan, "steps": [1, 2]})


class Pages(Scene):
    @classmethod
    def setUpClass(cls):
        cls.page = html(sample_page())

    def test_a_page_is_well_formed_whatever_its_texts_hold(self):
        page = self.page
        root = xml.etree.ElementTree.fromstring(page.replace("<!DOCTYPE html>", ""))
        self.assertNotIn("<script>alert", page)
        ids = [element.get("id") for element in root.iter() if element.get("id")]
        self.assertEqual(len(ids), len(set(ids)))
        self.assertIn("same-2", ids)
        for name in re.findall(r'(?:href="#|url\(#|aria-labelledby="|aria-describedby=")([^")]+)', page):
            self.assertIn(name, ids)

    def test_a_page_asks_nothing_of_the_network_and_says_the_verdict_first(self):
        page = self.page
        for link in ("src=", "url(http", "@import", '<link rel="stylesheet"', "fetch("):
            self.assertNotIn(link, page)
        self.assertEqual(set(re.findall(r"https?://[a-z0-9.]+", page)), {"http://www.w3.org"})  # names of XML
        places = [page.index(each) for each in ("<h1>", 'class="verdict"', 'class="warnings"', "<nav ", "<main ",
                                                '<h2 id="options"')]
        self.assertEqual(places, sorted(places))

    def test_the_numbers_within_a_page(self):
        found = re.search(r'<script id="numbers" type="application/json">(.*?)</script>', self.page)[1]
        self.assertNotRegex(found, "[<>&]")
        self.assertEqual(json.loads(found), {"name": "</script><script>alert(2)</script>", "value": None, "steps": [1, 2]})

    def test_each_figure_has_its_data(self):
        page = self.page
        for each in re.findall(r'<script type="application/json" class="data">(.*?)</script>', page):
            data = json.loads(each)
            self.assertTrue(data["series"])
            for series in data["series"]:
                for point in series["points"]:
                    self.assertTrue(0 <= point[0] <= 680 and point[1] >= 0, (data["id"], point))
        self.assertEqual(page.count("<figure "), 7)
        self.assertEqual(page.count("<details><summary>Data</summary>"), 7)

    def test_a_drawing_is_the_same_each_time_and_stands_alone(self):
        figure = sample_page().sections[1].figures[0]
        drawing = Drawing(figure)
        self.assertEqual(drawing.inline, Drawing(figure).inline)
        svg = xml.etree.ElementTree.fromstring(drawing.svg)
        self.assertEqual([child.tag.split("}")[1] for child in svg][:2], ["title", "desc"])
        self.assertIn("prefers-color-scheme: dark", drawing.svg)
        self.assertIn("logarithmic, from", drawing.description())
        texts = [element.text for element in svg.iter() if element.tag.endswith("}text")]
        for text in ("Training loss", "evaluation", '4 replicas <b>&"quoted"', "step", "loss", "relative"):
            self.assertIn(text, texts)

    def test_values_that_a_logarithmic_axis_cannot_show_are_counted(self):
        scaling = sample_page().sections[3].figures[0]
        self.assertIn("not shown: 1 value that is not positive", Drawing(scaling).inline)

    def test_thinned_lines_keep_their_extremes(self):
        points = [Point(i, math.sin(i)) for i in range(100000)]
        points[40001] = Point(40001, 9.0)
        points[70001] = Point(70001, -9.0)
        kept = thinned(points, Axis())
        self.assertLess(len(kept), 2500)
        self.assertEqual((max(p.y for p in kept), min(p.y for p in kept)), (9, -9))
        self.assertEqual((kept[0], kept[-1]), (points[0], points[-1]))

    def test_numbers_as_csv_and_as_a_table(self):
        figure = Figure("f", "F", Axis("x, in s"), Axis(), series=[
            Series('a "b"', POINTS, [Point(0.1, 1 / 3, 0.2, 0.5, "l,m"), Point(2, math.nan)])])
        self.assertEqual(figure.csv(), 'series,"x, in s",y,low,high,label\r\n"a ""b""",0.1,0.3333333333333333,0.2,0.5,'
                                       '"l,m"\r\n"a ""b""",2,,,,\r\n')
        figure.series[0].points = [Point(i, i) for i in range(1000)]
        table = figure.table()
        self.assertEqual((len(table.rows), table.columns, table.alignment), (200, ["series", "x, in s", "y"], "<>>"))
        self.assertIn("200 of 1000 rows", table.notes[0])

    def test_five_long_runs_make_a_page_of_less_than_2_mb(self):
        page = sample_page()
        for i in range(5):
            page.sections[1].figures[0].series.append(Series(f"run {i}", points=[
                Point(step, abs(math.sin(step * step + i)) + 0.1) for step in range(100000)]))
        self.assertLess(len(html(page)), 2_000_000)


class Command(Scene):
    def setUp(self):
        super().setUp()
        self.record = run_record(1, "1x1x1", 1, 4)
        self.one = self.put_run("run", two_epochs(), self.record)
        self.page = self.directory / "page.html"

    def test_it_writes_the_page_and_each_figure_with_its_numbers(self):
        figures = self.directory / "figures"
        outcome = command("report", self.one, self.directory / "absent", "-o", self.page, "--figures", figures)
        self.assertEqual(outcome.code, 0, outcome.err)
        self.assertIn("absent does not exist", outcome.err)
        self.assertTrue(outcome.err.startswith("WARNING: "))
        self.assertIn(f"report in {self.page}", outcome.out)
        text = self.page.read_text()
        self.assertIn("absent does not exist", text)
        self.assertIn("did not reach the target MAE of 0.124", text)
        self.assertLess(len(text), 2_000_000)
        for name in ("loss-over-epochs", "mae-over-time", "time-parts", "throughput-ranks"):
            self.assertIn("<svg", (figures / f"{name}.svg").read_text())
        self.assertIn("0.8", (figures / "loss-over-epochs.csv").read_text())
        # Nothing but the page and the figures, each complete.
        self.assertEqual(sorted(path.name for path in self.directory.iterdir()), ["figures", "page.html", "run"])

    def test_it_refuses_when_there_is_nothing_to_report(self):
        for words, code, why in (
                ((), 2, "no run was given"), ((self.directory / "absent", "--out", self.page), 1, "nothing could be reported"),
                (("x", "--out", self.directory / "no" / "page.html"), 1, "page"),
                (("x", "--out", self.page, "--predict", "7"), 2, "is not a configuration"),
                (("x", "--ouut", self.page), 2, "did you mean --out?"), (("x", "--out", "a", "--out", "b"), 2, "given twice"),
                (("x", "--reference", "maybe"), 2, "is not one of on|off"), (("x", "--target", "-1"), 2, "too small")):
            outcome = command("report", *words, cwd=self.directory)
            self.assertEqual(outcome.code, code, why)
            self.assertIn(why, outcome.err)
        self.assertFalse(self.page.exists())
        self.assertIn("usage: halomesh report", command("report", "--help").out)

    def test_options_from_a_file(self):
        file = self.put("report.cfg", f"# a comment\n[section]\nout = {self.page}\nreference = off\n")
        self.assertEqual(command("report", self.one, "--config", file).code, 0)
        self.assertNotIn("Fugaku", self.page.read_text())
        self.assertEqual(command("report", self.one, "--config", file, "--reference", "on").code, 0)
        self.assertIn("Fugaku", self.page.read_text())
        wrong = command("report", self.one, "--config", self.put("wrong.cfg", "figure = x\n"))
        self.assertEqual(wrong.code, 2)
        self.assertIn("wrong.cfg:1: unknown option figure", wrong.err)

    def test_an_output_never_replaces_an_input_or_a_file_of_a_run(self):
        bench = self.put("bench.json", {"runs": [bench_run("1x1x1", 1, 2)]})
        self.put("data/train/0.tfrecord", "x")
        self.put("run/checkpoints/step-000000001.h5", "x")
        (self.directory / "link").symlink_to(bench)
        before = {path: path.read_bytes() for path in self.directory.rglob("*") if path.is_file()}
        for out in ("run/run.json", "run/metrics.jsonl", "run/checkpoints/step-000000001.h5", "bench.json", "link",
                    "data/train/report.html"):
            with self.subTest(out):
                outcome = command("report", self.one, bench, "-o", self.directory / out)
                self.assertEqual(outcome.code, 2)
                self.assertIn("give another --out", outcome.err)
        results = self.put("figures/time-parts.csv", "submission,minutes\na,1\n")
        self.assertEqual(command("report", self.one, results, "-o", self.page, "--figures", results.parent).code, 2)
        self.assertEqual({path: path.read_bytes() for path in before}, before)
        self.assertEqual(command("report", self.one, "-o", self.one / "report.html").code, 0)

    def test_devices_are_written_through_and_links_are_followed(self):
        self.assertEqual(command("report", self.one, "-o", "/dev/null").code, 0)
        self.assertTrue(pathlib.Path("/dev/null").is_char_device())
        target = self.put("target.html", "old")
        (self.directory / "link.html").symlink_to(target)
        self.assertEqual(command("report", self.one, "-o", self.directory / "link.html").code, 0)
        self.assertTrue((self.directory / "link.html").is_symlink())
        self.assertIn("<h1>", target.read_text())
        full = command("report", self.one, "-o", "/dev/full")
        self.assertEqual(full.code, 1)
        self.assertIn("cannot write /dev/full", full.err)

    def test_pipes_are_written_to_while_somebody_reads(self):
        fifo = self.directory / "fifo"
        os.mkfifo(fifo)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            reader = pool.submit(fifo.read_bytes)
            self.assertEqual(command("report", self.one, "-o", fifo).code, 0)
            self.assertTrue(reader.result(60).rstrip().endswith(b"</html>"))
        self.assertTrue(fifo.is_fifo())
        piped = command("report", self.one, "-o", "/dev/stdout")
        self.assertEqual(piped.code, 0, piped.err)
        self.assertTrue(piped.out.startswith("<!DOCTYPE html>"))
        here, there = os.pipe()
        os.close(here)
        with os.fdopen(there, "wb"):  # a reader that has left needs no more
            outputs.write_text(f"/dev/fd/{there}", "x" * 100000)
        with unittest.mock.patch("halomesh.outputs.time.monotonic", side_effect=(0, 20)):
            with self.assertRaisesRegex(Error, "no process reads this FIFO"):
                outputs.write_text(fifo, "x")

    def test_names_that_are_not_utf8_and_control_characters(self):
        odd = self.directory / "r\udcffn\033[2J"
        self.one.rename(odd)
        outcome = command("report", odd, "-o", self.page)
        self.assertEqual(outcome.code, 0, outcome.err)
        self.assertNotIn("\033", outcome.out + outcome.err)
        xml.etree.ElementTree.fromstring(self.page.read_text().replace("<!DOCTYPE html>", ""))


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--sample":
        pathlib.Path(sys.argv[2]).write_text(html(sample_page()))
        sys.exit(0)
    sys.exit(run())
