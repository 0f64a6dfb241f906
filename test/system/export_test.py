#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The event files of TensorBoard, read back by protoc from a description of their messages."""
import pathlib
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "harness"))
from python_cases import Scene, command, line, run  # noqa: E402

from halomesh import tensorboard  # noqa: E402

# The fields that are written of tensorflow.Event, tensorflow.Summary and tensorflow.SessionLog, without their oneofs.
PROTO = """syntax = "proto2";
message Summary {
  message Value { optional string tag = 1; optional float simple_value = 2; }
  repeated Value value = 1;
}
message SessionLog { enum Status { STATUS_UNSPECIFIED = 0; START = 1; } optional Status status = 1; }
message Event {
  optional double wall_time = 1; optional int64 step = 2; optional string file_version = 3;
  optional Summary summary = 5; optional SessionLog session_log = 7;
}
"""
PHASES = line("phases", time=103.0, epoch=0, step=2, kinds=[
    {"kind": "compute", "mean": 0.125}, {"kind": "packing", "mean": 0.5}, {"kind": "halo wait", "mean": 0.25},
    {"kind": "reduction wait", "mean": 0.0625}, {"kind": "input wait", "mean": 0.03125},
    {"kind": "optimizer", "mean": None}])
EVALUATION = line("eval", time=104.0, epoch=0, mae=0.375, loss=0.75, samples=8, seconds=1)


def step(number, epoch, time):
    return line("step", time=time, step=number, epoch=epoch, loss=1 / number, lr=0.5, seconds=0.25)


def scalars(*values):
    return "summary {\n" + "".join(f'  value {{\n    tag: "{tag}"\n    simple_value: {value}\n  }}\n'
                                   for tag, value in values) + "}\n"


class Export(Scene):
    def export(self, metrics):
        self.exported = self.put_run("run", metrics, {"options": {"batch": "8"}})
        return tensorboard.export(self.exported, self.directory / "board").written

    def decoded(self, file):
        """What protoc prints for each record, whose checksums are right."""
        if not shutil.which("protoc"):
            self.skipTest("no protoc; make deps installs it")
        proto, data, texts = self.put("event.proto", PROTO), pathlib.Path(file).read_bytes(), []
        while data:
            length, crc = struct.unpack("<QI", data[:12])
            self.assertEqual(tensorboard.masked_crc(data[:8]), crc)
            message = data[12:12 + length]
            self.assertEqual(tensorboard.masked_crc(message), struct.unpack("<I", data[12 + length:16 + length])[0])
            data = data[16 + length:]
            texts.append(subprocess.run(["protoc", f"--proto_path={proto.parent}", "--decode=Event", proto], input=message,
                                        stdout=subprocess.PIPE, check=True).stdout.decode())
        return texts

    def test_the_checksum_is_that_of_the_standard(self):
        # RFC 3720, section B.4: 32 bytes of zeros have the CRC-32C 0x8a9136aa.
        crc = (tensorboard.masked_crc(bytes(32)) - 0xA282EAD8) & 0xFFFFFFFF
        self.assertEqual((crc >> 17 | crc << 15) & 0xFFFFFFFF, 0x8A9136AA)

    def test_an_exported_run_decodes_to_its_curves(self):
        files = self.export(step(1, 0, 101.5) + step(2, 0, 102.5) + PHASES + EVALUATION)
        self.assertEqual([file.name for file in files], ["events.out.tfevents.0000000101.halomesh.0.0"])
        speed = ("speed/samples_per_s", 32)
        self.assertEqual(self.decoded(files[0]), [
            'wall_time: 101.5\nstep: 0\nfile_version: "brain.Event:2"\n',
            "wall_time: 101.5\nstep: 0\nsession_log {\n  status: START\n}\n",
            "wall_time: 101.5\nstep: 1\n" + scalars(("train/loss", 1), ("train/lr", 0.5), speed),
            "wall_time: 102.5\nstep: 2\n" + scalars(("train/loss", 0.5), ("train/lr", 0.5), speed),
            "wall_time: 103\nstep: 2\n" + scalars(("time/compute", 0.125), ("time/packing", 0.5), ("time/halo", 0.25),
                                                  ("time/reduction", 0.0625), ("time/input", 0.03125)),
            "wall_time: 104\nstep: 2\n" + scalars(("eval/mae", 0.375), ("eval/loss", 0.75))])

    def test_missing_steps_start_a_new_file_and_files_before_are_replaced(self):
        board = self.directory / "board"
        self.export(step(1, 0, 101) + step(2, 0, 102))
        self.put("board/events.out.tfevents.0000000099.halomesh.0.0", "old")
        self.put("board/events.out.tfevents.0000000099.node1.7.0", "of another writer")
        files = self.export(step(1, 0, 101) + line("resumed", step=4, records_missing=3) + step(5, 1, 201)
                            + step(6, 1, 202))
        self.assertEqual(sorted(path.name for path in board.iterdir()), [
            "events.out.tfevents.0000000099.node1.7.0", "events.out.tfevents.0000000101.halomesh.0.0",
            "events.out.tfevents.0000000101.halomesh.0.1"])
        self.assertEqual(len(self.decoded(files[0])), 3)
        events = self.decoded(files[1])
        self.assertEqual(len(events), 4)
        self.assertEqual(events[1], "wall_time: 201\nstep: 5\nsession_log {\n  status: START\n}\n")
        self.assertIn("step: 5\n", events[2])
        self.assertIn("step: 6\n", events[3])

    def test_a_validation_before_the_first_step_and_lines_without_a_time(self):
        evaluation = line("eval", epoch=0, mae=0.375, loss=None, samples=8, seconds=1)
        files = self.export(evaluation + line("step", step=1, epoch=0, loss=None, lr=0.5, seconds=0.25) + evaluation)
        self.assertEqual(self.decoded(files[0])[2:], [
            "wall_time: 0\nstep: 0\n" + scalars(("eval/mae", 0.375)),
            "wall_time: 0.25\nstep: 1\n" + scalars(("train/lr", 0.5), ("speed/samples_per_s", 32)),
            "wall_time: 1.25\nstep: 1\n" + scalars(("eval/mae", 0.375))])

    def test_the_command(self):
        self.export(step(1, 0, 101))
        outcome = command("export", "tensorboard", self.exported, self.directory / "again")
        self.assertEqual(outcome.code, 0, outcome.err)
        self.assertIn("1 event of 1 step", outcome.out)
        empty = self.put_run("empty", "")
        for words, code, why in ((("tensorboard", empty, self.directory / "b"), 1, "holds no steps yet"),
                                 (("csv", empty, "b"), 2, "unknown format 'csv'"), ((), 2, "0 arguments instead of 3"),
                                 (("tensorboard", self.exported, self.put("file", "x")), 1, "cannot create directory")):
            outcome = command("export", *words)
            self.assertEqual(outcome.code, code)
            self.assertIn(why, outcome.err)

    def test_nothing_is_written_among_samples_or_checkpoints(self):
        self.export(step(1, 0, 101))
        self.put("data/dataset.json", "{}")
        self.put("data/train/a.tfrecord", "")
        self.put("run/checkpoints/step-000000001.h5", "")
        for place, why in (("data/train", "lies in train/ of the data set"), ("data/train/new", "lies in train/ of"),
                           ("run/checkpoints", "lies in checkpoints/ of the run")):
            before = sorted(self.directory.rglob("*"))
            exported = command("export", "tensorboard", self.exported, self.directory / place)
            page = command("report", self.exported, "-o", self.directory / place / "page.html")
            for outcome in (exported, page):
                self.assertEqual(outcome.code, 2)
                self.assertIn(why, outcome.err)
            self.assertEqual(sorted(self.directory.rglob("*")), before)


if __name__ == "__main__":
    sys.exit(run())
