#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The command watch: the status of a run, its texts, the scheduler's answer and the exit codes."""
import json
import math
import os
import pathlib
import pty
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "harness"))
from python_cases import PROGRAM, SOURCE, Scene, command, line, run  # noqa: E402

from halomesh import watch  # noqa: E402

START = 1000.0  # of the times in these files
PHASES = line("phases", time=START, epoch=1, step_seconds={"mean": 2}, kinds=[
    {"kind": "compute", "mean": 1.5}, {"kind": "input wait", "mean": 0.5}],
    limit="waiting for input takes 25.0 % of a step")


def step(number, epoch, loss=0.5):
    return line("step", time=START + 2 * number, step=number, epoch=epoch, loss=loss, lr=0.1, seconds=2)


def evaluation(epoch, mae):
    return line("eval", time=START, epoch=epoch, mae=mae, loss=1, samples=4, seconds=6)


class Watched(Scene):
    """The files of a run of 3 epochs of 2 steps that has done 3 steps."""

    def setUp(self):
        super().setUp()
        self.record = {"options": {"batch": "8", "epochs": "3", "steps": "0", "evaluate-every": "1",
                                   "target-mae": "0.1", "wall-limit": "0"},
                       "mesh": {"ranks": 4}, "started": "1970-01-01T00:16:40Z"}
        self.metrics = step(1, 0, 1.5) + step(2, 0) + evaluation(0, 0.25) + step(3, 1)

    def write(self):
        return self.put_run("run", self.metrics, self.record)

    def status(self, now, limit=0.0):
        files = watch.WatchedRun(self.write())
        return watch.status_of(files, now, files.last_written, limit)

    def test_totals_rates_quality_and_the_time_left(self):
        status = self.status(START + 7)
        self.assertEqual(status.state, "running")
        self.assertEqual((status.run.step, status.run.epoch), (3, 1))
        self.assertEqual(status.steps, 6)  # 2 per epoch, as the first step of the second one shows
        self.assertEqual((status.epochs, status.ranks), (3, 4))
        self.assertEqual(status.run.losses.of(10), [1.5, 0.5, 0.5])
        self.assertEqual(status.run.evaluation, (0.25, 0))
        self.assertEqual((status.target, status.rate, status.mean_rate), (0.1, 4, 4))
        self.assertEqual((status.silent, status.silent_limit), (1, 600))
        # 3 steps of 2 s, and evaluations of 6 s after both epochs.
        self.assertEqual(status.left, 3 * 2 + 2 * 6)
        self.assertIsNone(status.wall)

    def test_samples_steps_and_wall_limit_of_the_record(self):
        self.record["samples"] = {"training": 43}  # 5 steps per epoch, the last 3 samples are dropped
        self.assertEqual(self.status(START).steps, 15)
        self.record["options"]["steps"] = "7"
        self.assertEqual(self.status(START).steps, 7)
        self.record["options"]["epochs"] = "0"
        self.assertEqual(self.status(START).steps, 7)
        self.record["options"]["wall-limit"] = "100"
        self.assertEqual(self.status(START + 30).wall, 70)
        self.record = "null"
        unknown = self.status(START + 7)
        self.assertEqual((unknown.steps, unknown.left, unknown.rate, unknown.state), (None, None, 0, "running"))

    def test_done_by_its_end_its_steps_or_its_target_and_silent_after_the_limit(self):
        self.assertEqual(self.status(START + 605).state, "running")
        self.assertEqual(self.status(START + 607).state, "silent")
        self.assertEqual(self.status(START + 607, 1000).state, "running")
        self.assertEqual(self.status(START + 17, 10).state, "silent")
        self.metrics += step(4, 1) + evaluation(1, 0.1)
        self.assertEqual(self.status(START).state, "done")  # the target
        self.record["options"]["target-mae"] = "0"
        self.assertEqual(self.status(START).state, "running")
        self.metrics += step(5, 2) + step(6, 2)
        self.assertEqual(self.status(START).state, "running")  # but for its last evaluation
        self.metrics += evaluation(2, 0.2)
        self.assertEqual(self.status(START + 10000).state, "done")
        self.assertEqual(self.status(START).run.best, 0.1)
        self.metrics = step(1, 0)
        self.record["end"] = {"result": "stopped"}
        stopped = self.status(START)
        self.assertEqual(stopped.state, "done")
        self.assertIn("stopped before the end", watch.line_of(stopped, ""))

    def test_the_exit_code_is_that_of_a_run_that_has_ended(self):
        for result, code in (("done", 0), ("target", 0), ("diverged", 1), ("stopped", 75)):
            with self.subTest(result):
                self.record["end"] = {"result": result}
                self.assertEqual(command("watch", self.write()).code, code)

    def test_slow_steps_raise_the_silent_limit(self):
        self.metrics = "".join(line("step", time=100 * n, step=n, epoch=0, loss=1, lr=1, seconds=90)
                               for n in range(1, 5))
        self.assertEqual(self.status(500).silent_limit, 1000)

    def test_a_sparkline_spans_its_values_and_marks_what_is_not_finite(self):
        for values, columns, utf8, drawn in (
                ([1, 2, 3, 4, 5, 6, 7, 8], 8, False, "_.-~=+*#"), ([1, 1, 8, 8], 2, True, "▁█"),
                ([0, math.nan, 1], 10, False, "_?#"), ([0, 2, 1, math.nan], 2, False, "__"), ([3, 3], 4, False, "__"),
                ([], 4, False, "")):
            means = watch.Means()
            for value in values:
                means.add(value)
            self.assertEqual(watch.sparkline(means.of(columns), utf8), drawn)

    def test_a_curve_of_a_million_steps_takes_no_more_memory(self):
        means = watch.Means()
        for i in range(1_000_000):
            means.add(float(i))
        self.assertEqual(len(means), 1_000_000)
        self.assertLessEqual(len(means._sums), watch.MOST_MEANS)
        ten = means.of(10)
        self.assertEqual(len(ten), 10)
        self.assertTrue(all(abs(mean - (i + 0.5) * 1e5) < 5e3 for i, mean in enumerate(ten)), ten)

    def test_screen_and_line_within_the_width_of_the_terminal(self):
        self.metrics += PHASES
        self.record["job"] = {"scheduler": "slurm", "id": "42"}
        status = self.status(START + 7)
        lines = watch.screen_of(status, "RUNNING\033[2J 1:00", 60, False)
        self.assertLessEqual(max(map(len, lines)), 60)
        screen = "\n".join(lines) + "\n"
        for part in (" on 4 ranks: running\n", "job     slurm 42: RUNNING?[2J 1:00\n",
                     "done    step 3 of 6 (50.0 %), epoch 2 of 3\n", "left    18 s to the last step\n",
                     "loss    #__ 0.5 (0.5 .. 1.5)\n", "MAE     0.25 after epoch 1, target 0.1\n",
                     "speed   4 samples/s now, 4 mean\n", "time    compute 75.0 %, input wait 25.0 %\n",
                     "limit   waiting for input takes 25.0 % of a step\n", "last    line 1 s ago\n"):
            self.assertIn(part, screen)
        text = watch.line_of(status, "RUNNING")
        self.assertIn(": running, step 3 of 6 (50.0 %), epoch 2 of 3, loss 0.5, MAE 0.25", text)
        self.assertIn("input wait 25.0 %, 18 s to the last step, job RUNNING", text)

    def test_a_command_that_hangs_is_ended_and_one_that_fails_has_no_output(self):
        self.assertEqual(watch.output_of(["echo", "a b"], 10), "a b\n")
        for failing in (["false"], ["no-such-command-of-halomesh"], ["yes"]):
            self.assertIsNone(watch.output_of(failing, 10))
        for hanging in (["sleep", "60"], ["sh", "-c", "exec >&-; exec sleep 60"]):
            self.assertIsNone(watch.output_of(hanging, 0.1))

    def fake(self, name, script):
        """While the case runs, this command is the first in PATH."""
        path = self.put(f"bin/{name}", "#!/bin/sh\n" + script)
        path.chmod(0o700)
        before = os.environ["PATH"]
        self.addCleanup(os.environ.__setitem__, "PATH", before)
        os.environ["PATH"] = f"{path.parent}:{before}"
        return path

    def test_the_scheduler_is_asked_by_number_only_without_a_shell(self):
        squeue = self.fake("squeue", 'echo "$@" >"$0.arguments"\n'
                                     "[ $3 = 7 ] || echo 'RUNNING  1:02 3:04 node[1-2]'\n")
        asked = pathlib.Path(f"{squeue}.arguments")
        self.assertEqual(watch.job_state("slurm", "123"), "RUNNING 1:02 3:04 node[1-2]")
        self.assertEqual(asked.read_text(), "-h -j 123 -o %T %M %L %R\n")
        self.assertEqual(watch.job_state("slurm", "7"), "not in the queue")
        asked.unlink()
        for odd in ("", "1;touch x", "-u", "1 2", "12345678901234567890"):
            self.assertEqual(watch.job_state("slurm", odd), "")
        self.assertEqual(watch.job_state("other", "123"), "")
        self.assertFalse(asked.exists())
        self.fake("pjstat", "echo 'JOB_ID JOB_NAME MD ST USER'\necho '12 other NM QUE me'\n"
                            "echo '123 train NM RUN me 11/22 10:00 0012:00:00 8:-'\n")
        self.assertEqual(watch.job_state("pjm", "123"), "RUN")
        self.assertEqual(watch.job_state("pjm", "5"), "not in the queue")

    def test_the_exit_code_says_whether_a_run_is_done_running_or_silent(self):
        path = self.write()
        # Files of this moment: the times of their lines are long ago.
        running = command("watch", "--once", path, "--json")
        self.assertEqual(running.code, 3)
        record = json.loads(running.out)
        for key, value in (("state", "running"), ("step", 3), ("steps", 6), ("mae", 0.25), ("seconds_left", 18),
                           ("loss", 0.5)):
            self.assertEqual(record[key], value)
        for file in ("run.json", "metrics.jsonl"):
            os.utime(path / file, (time.time() - 3600,) * 2)
        silent = command("watch", "--once", path)
        self.assertEqual(silent.code, 4)
        self.assertIn(": silent for 1 h 00 min\n", silent.out)
        self.assertEqual(command("watch", "--once", path, "--silent-limit", 7200).code, 3)
        self.record["end"] = {"result": "done"}
        self.assertEqual(command("watch", "--once", self.write()).code, 0)
        self.assertEqual(command("watch", "/nonexistent").code, 1)
        for wrong in ((), ("--onse", path), ("--interval", "0", path), ("--interval",), (path, path)):
            self.assertEqual(command("watch", *wrong).code, 2, wrong)

    def test_control_characters_never_reach_the_terminal(self):
        self.record["end"] = {"result": "done"}
        path = self.write().rename(self.directory / "a\033[31mb\rc")
        self.metrics = '{"event": "step"'
        (path / "metrics.jsonl").write_text(self.metrics)
        outcome = command("watch", "--once", path)
        self.assertIn("a?[31mb?c", outcome.out)
        self.assertNotIn("\033", outcome.out + outcome.err)

    def test_a_dumb_terminal_gets_lines(self):
        self.record["end"] = {"result": "done"}
        for term, is_redrawn in (("dumb", False), ("xterm", True)):
            main, side = pty.openpty()
            subprocess.run([sys.executable, SOURCE / "python" / "halomesh", "watch", self.write()], stdout=side,
                           env={**os.environ, "TERM": term}, timeout=60, check=True)
            os.close(side)
            text = os.read(main, 65536).decode()
            os.close(main)
            self.assertIn("step 3 of 6", text)
            self.assertEqual("\033" in text, is_redrawn)

    def test_only_what_was_added_is_read_again(self):
        files = watch.WatchedRun(self.write())
        self.assertFalse(files.update())
        with open(files.directory / "metrics.jsonl", "a") as file:
            file.write(step(4, 1)[:20])
            file.flush()
            self.assertFalse(files.update())
            self.assertIn("line 5 is incomplete", files.problems()[0])
            file.write(step(4, 1)[20:] + "damaged\n")
        self.assertTrue(files.update())
        self.assertEqual((files.step, files.steps_on_record), (4, 4))
        self.assertEqual(files.problems(), [f"{files.directory}/metrics.jsonl: damaged lines: 1 (the first is line 6)"])
        # A resumed run replaces the file.
        self.metrics = step(1, 0)
        (files.directory / "metrics.jsonl").unlink()
        self.write()
        self.assertTrue(files.update())
        self.assertEqual((files.step, files.steps_on_record, files.problems()), (1, 1, []))

    def test_a_file_that_a_resumed_run_has_cut_is_read_anew_however_long_it_is_by_now(self):
        files = watch.WatchedRun(self.write())
        self.assertEqual((files.step, files.steps_on_record), (3, 3))
        path, inode = files.directory / "metrics.jsonl", (files.directory / "metrics.jsonl").stat().st_ino
        os.truncate(path, len(step(1, 0)))
        with open(path, "a") as file:
            for number in range(2, 9):
                file.write(step(number, 0).replace("}", ', "new": true}'))
        self.assertEqual(path.stat().st_ino, inode)
        self.assertTrue(files.update())
        self.assertEqual((files.step, files.steps_on_record, files.problems()), (8, 8, []))

    def test_the_program_starts_the_package_and_names_what_is_missing(self):
        self.record["end"] = {"result": "done"}
        path = self.write()
        program = (PROGRAM,)
        self.assertIn("step 3 of 6", command("watch", path, program=program).out)
        absent = command("watch", path, program=program, HALOMESH_PYTHON="/no/python3")
        self.assertEqual(absent.code, 1)
        self.assertIn("cannot start /no/python3", absent.err)
        # Without site packages: watch and mlperf-summary need the standard library alone, report says what it needs.
        bare = self.put("bare", f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
        bare.chmod(0o700)
        self.assertEqual(command("watch", path, program=program, HALOMESH_PYTHON=str(bare)).code, 0)
        self.assertIn("usage", command("mlperf-summary", "--help", program=program, HALOMESH_PYTHON=str(bare)).out)
        report = command("report", path, "-o", self.directory / "page.html", program=program, HALOMESH_PYTHON=str(bare))
        self.assertEqual(report.code, 1)
        self.assertRegex(report.err, "report needs the Python package (jinja2|matplotlib), which .*python3.* does not have")
        self.assertIn("HALOMESH_PYTHON=", report.err)


if __name__ == "__main__":
    sys.exit(run())
