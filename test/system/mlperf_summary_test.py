#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Summaries of MLPerf logs: literal logs, whole and damaged, scores from literal times, and the command."""
import json
import math
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "harness"))
from python_cases import Scene, command, run  # noqa: E402

from halomesh import mlperf  # noqa: E402
from halomesh.errors import Error  # noqa: E402


def line(ms, key, value=None, metadata=None):
    return ":::MLLOG " + json.dumps({"namespace": "", "time_ms": ms, "event_type": "x", "key": key, "value": value,
                                     "metadata": metadata or {}}) + "\n"


def epoch(ms, number, error):
    return (line(ms, "epoch_start", None, {"epoch_num": number})
            + line(ms + 1, "eval_error", error, {"epoch_num": number}))


def log_text(last_error=0.12, status="success", stop=240000):
    """A run of two epochs, and half a minute of staging, in three minutes."""
    return ("some launcher's words\n" + line(1000, "init_start") + line(60000, "run_start")
            + line(61000, "staging_start") + "rank 0: " + line(91000, "staging_stop") + epoch(100000, 1, 0.5)
            + epoch(150000, 2, last_error) + line(stop, "run_stop", None, {"status": status}))


def runs_of(reached, missed):
    # A miss may have been quick: it counts as the slowest all the same.
    return ([mlperf.Run("", "reached", minutes=minutes) for minutes in reached]
            + [mlperf.Run("", "missed", minutes=0.5)] * missed)


class Summary(Scene):
    def read(self, text, measured=None):
        return mlperf.read_run(self.put("the.log", text), 0.0, measured)

    def fault(self, text):
        with self.assertRaises(Error) as caught:
            self.read(text)
        return str(caught.exception)

    def test_how_long_a_run_took_how_far_it_came_and_how_it_staged(self):
        found = self.read(log_text())
        self.assertEqual((found.end, found.epochs, found.best_error, found.minutes, found.resumed),
                         ("reached", 2, 0.12, 3, 0))
        self.assert_close(found.staging_s, 30)

    def test_a_run_misses_its_target_in_four_ways(self):
        for text in (log_text(0.2), log_text(0.12, "aborted"), log_text(None), log_text(0.0)):
            self.assertEqual(self.read(text).end, "missed")
        unfinished = self.read(log_text()[:log_text().rindex(":::MLLOG")])
        self.assertEqual((unfinished.end, unfinished.minutes), ("unfinished", None))

    def test_staging_of_every_job_counts_and_epochs_count_once(self):
        text, at = log_text(), log_text().rindex(":::MLLOG")
        resumed = (line(95000, "staging_start") + line(97500, "staging_stop") + line(98000, "resumed", 7)
                   + epoch(99000, 2, 0.3))
        found = self.read(text[:at] + resumed + text[at:])
        self.assert_close(found.staging_s, 32.5)
        self.assertEqual((found.epochs, found.resumed), (2, 1))

    def test_damaged_logs_are_refused_naming_file_and_line(self):
        for text, words in (
                ("", "the.log: no run_start"), ("a poem\nof two lines\n", "the.log: no run_start"),
                (log_text() + log_text(), "a second run_start"),
                (line(5, "run_start") + ':::MLLOG {"names', "the.log: line 2: not a line"),
                (":::MLLOG [1]\n", "the.log: line 1: not a line"),
                (':::MLLOG {"key": 5, "time_ms": 1}\n', "line 1: not a line"),
                (':::MLLOG {"key": "run_start", "time_ms": "late"}\n', "not a line"),
                *((f':::MLLOG {{"key": "run_start", "time_ms": {time}}}\n', "the.log: line 1: a time_ms of ")
                  for time in ("1e300", "-1e300", "9223372036854775807")),
                (line(1, "run_start") + line(2, "epoch_start"), "epoch_start without epoch_num"),
                (line(1, "run_start") + line(2, "epoch_start", 1, []), "without epoch_num"),
                (line(9, "run_start") + line(2, "run_stop"), "stops before it starts"),
                ("\0\udcff:::MLLOG \udcff\0", "line 1: not a line")):
            with self.subTest(words):
                self.assertIn(words, self.fault(text.encode("utf-8", "surrogateescape")))

    def test_a_clock_that_was_set_back_leaves_the_measured_duration(self):
        text = log_text(stop=50000)
        self.assertIn("the clock was set back", self.fault(text))
        self.assertEqual(self.read(text, 90.0).minutes, 1.5)
        run = self.put_run("run", None, {"started": "2026-11-22T10:00:00Z", "end": {"seconds": 90.0}}, text)
        outcome = command("mlperf-summary", run)
        self.assertEqual(outcome.code, 0, outcome.err)
        self.assertIn("1.50", outcome.out)

    def test_the_olympic_mean_leaves_out_the_fastest_and_the_slowest_run(self):
        for reached, missed, mean, why in (
                ((3, 1, 2), 0, 2, ""), ((10, 1, 4, 5, 6), 0, 5, ""), ((10, 1, 4, 5), 1, 19 / 3, ""),
                ((10, 1, 4, 5), 2, None, "2 runs missed"), ((1, 2), 0, None, "2 runs, at least 3"),
                ((), 0, None, "0 runs, at least 3"), ((), 4, None, "4 runs missed")):
            found, reason = mlperf.score(runs_of(reached, missed))
            self.assertEqual(found is None, mean is None)
            if mean is not None:
                self.assert_close(found, mean)
            self.assertIn(why, reason)
            self.assertEqual(reason == "", mean is not None)

    def put_logs(self):
        for minutes in (4, 2, 9, 3):
            self.put_run(str(minutes), None, None,
                         line(0, "run_start") + line(1000, "eval_error", 0.1)
                         + line(minutes * 60000, "run_stop", None, {"status": "success"}))
        return [self.directory / "4", self.directory / "2" / "mllog.txt", self.directory / "9", self.directory / "3"]

    def test_the_command_reads_logs_and_directories(self):
        logs, written = self.put_logs(), self.directory / "s.json"
        outcome = command("mlperf-summary", *logs, "--json", written)
        self.assertEqual(outcome.code, 0, outcome.err)
        self.assertIn("4 runs, 0 missed the MAE of 0.124; olympic mean 3.50 min", outcome.out)
        record = json.loads(written.read_text())
        self.assertEqual((record["olympic_minutes"], len(record["runs"]), record["runs"][2]["run_minutes"]), (3.5, 4, 9.0))
        self.assertIn("no score: 4 runs missed", command("mlperf-summary", "--target=0.01", *logs).out)
        self.assertEqual(command("mlperf-summary").code, 2)
        self.assertEqual(command("mlperf-summary", self.directory / "nothing").code, 1)
        rubbish = command("mlperf-summary", *logs, self.put("rubbish", "rubbish\n"))
        self.assertEqual(rubbish.code, 1)
        self.assertIn("rubbish: no run_start", rubbish.err)

    def test_a_log_counts_once_however_often_it_is_given(self):
        logs = self.put_logs()
        shutil.copy(logs[1], self.directory / "copy.txt")
        outcome = command("mlperf-summary", logs[1], self.directory / "2", self.directory / "copy.txt")
        self.assertEqual(outcome.code, 0)
        self.assertIn("no score: 1 run, at least 3 needed", outcome.out)
        self.assertEqual(outcome.err.count("is the same log as"), 2)
        self.assertIn("copy.txt", outcome.err)

    def test_logs_of_two_benchmarks_are_refused(self):
        other = line(0, "submission_benchmark", "deepcam") + line(1, "run_start") + line(2, "eval_accuracy", 0.83) + \
            line(60001, "run_stop", None, {"status": "success"})
        outcome = command("mlperf-summary", *self.put_logs(), self.put("deepcam.txt", other))
        self.assertEqual(outcome.code, 2)
        self.assertIn("deepcam.txt is a log of deepcam", outcome.err)
        # By itself it is judged by the quality of its own benchmark.
        self.assertEqual(mlperf.read_run(self.directory / "deepcam.txt").end, "reached")
        low = self.put("low.txt", other.replace("0.83", "0.5"))
        self.assertEqual(mlperf.read_run(low).end, "missed")
        self.assertIn("missed the IoU of 0.82", command("mlperf-summary", low).out)

    def test_a_run_that_missed_beside_a_reached_target_says_why(self):
        log = self.put("a.txt", log_text(0.1, "aborted"))
        self.assertIn("its MAE reached the target, but it stopped with the status 'aborted': only 'success' counts",
                      command("mlperf-summary", log).out)

    def test_the_summary_never_replaces_a_log(self):
        logs = self.put_logs()
        for out in (logs[1], self.directory / "4" / "mllog.txt"):
            before = out.read_text()
            outcome = command("mlperf-summary", *logs, "--json", out)
            self.assertEqual(outcome.code, 2)
            self.assertEqual(out.read_text(), before)

    def test_values_that_no_log_should_hold_raise_no_other_error(self):
        for value in (None, True, "x", [], {}, -1, 1e308, math.pi):
            for key in ("eval_error", "eval_accuracy", "global_batch_size", "submission_benchmark", "opt_lr"):
                self.read(line(1, "run_start") + line(2, key, value) + line(3, "run_stop", value))


if __name__ == "__main__":
    sys.exit(run())
