# SPDX-License-Identifier: Apache-2.0
"""The command `export`: the curves of a run as event files of TensorBoard, written as they are read.

An event is a message of protobuf, tensorflow.Event of tensorflow/core/util/event.proto, in a record of
TensorFlow's format: length, checksum, message, checksum. The few fields that curves need are written here.
"""
import math
import os
import pathlib
import struct
import sys

from halomesh import records
from halomesh.errors import Error, UsageError, plain
from halomesh.options import Options
from halomesh.outputs import WholeFile, make_directory, refuse_to_replace
from halomesh.texts import plural

PREFIX = "events.out.tfevents."
# In place of host and process: a repeated export, from whichever host, replaces its files.
WRITER = ".halomesh.0."
DOUBLE, VARINT, BYTES, FLOAT = 1, 0, 2, 5  # kinds of fields of protobuf


def _table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC_TABLE = _table()


def masked_crc(data):
    """The Castagnoli checksum, rotated and shifted as TensorFlow's records have it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(value):
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, kind, value):
    key = varint(number << 3 | kind)
    if kind == BYTES:
        return key + varint(len(value)) + value
    return key + (varint(value) if kind == VARINT else struct.pack("<d" if kind == DOUBLE else "<f", value))


def event(wall_time, step, rest):
    return field(1, DOUBLE, wall_time) + field(2, VARINT, step) + rest


def summary(scalars):
    values = b"".join(field(1, BYTES, field(1, BYTES, tag.encode()) + field(2, FLOAT, value))
                      for tag, value in scalars)
    return field(5, BYTES, values)


def record(message):
    length = struct.pack("<Q", len(message))
    return (length + struct.pack("<I", masked_crc(length)) + message
            + struct.pack("<I", masked_crc(message)))


def time_tag(kind):
    """"time/halo" of the kind of time "halo wait"."""
    return "time/" + kind.removesuffix(" wait").replace(" ", "_")


class Export(records.RunFiles):
    """Writes the events of a run while its lines are read. A new file begins where steps are missing
    because a run was resumed: TensorBoard drops what earlier files hold at or after its first step."""

    def __init__(self, run, directory):
        self._directory, self.written, self.events, self.steps = pathlib.Path(directory), [], 0, 0
        self._file = self._open = self._begin = None
        self._time, self._step, self._gap = 0.0, 0, None
        try:
            super().__init__(run)
            self._close()
        except BaseException:
            if self._open:
                self._open.__exit__(*sys.exc_info())
            raise

    def _close(self):
        if self._open:
            self._open.__exit__(None, None, None)
            self._open = self._file = None

    def _write(self, wall_time, step, scalars):
        scalars = [(tag, value) for tag, value in scalars if math.isfinite(value) and abs(value) < 3.4e38]
        if not scalars:
            return
        if self._gap is not None:
            self._close()
        if self._file is None:
            first, self._gap = self._gap or 0, None
            self._begin = wall_time if self._begin is None else self._begin
            path = self._directory / f"{PREFIX}{int(max(self._begin, 0)):010d}{WRITER}{len(self.written)}"
            self._open = WholeFile(path)
            self._file = self._open.__enter__()
            self.written.append(path)
            self._file.write(record(event(wall_time, first, field(3, BYTES, b"brain.Event:2"))))
            # A session log with the status START.
            self._file.write(record(event(wall_time, first, field(7, BYTES, field(1, VARINT, 1)))))
        self._file.write(record(event(wall_time, step, summary(scalars))))
        self.events += 1

    def take(self, line):
        time = records.finite(line, "time")
        if line["event"] == "step":
            self._take_step(line, time)
        elif line["event"] == "eval":
            kind, score = records.evaluation_of(line)
            # A validation before the first step stands at step 0.
            if time <= 0 and self._step > 0:
                time = self._time + records.finite(line, "seconds")
            self._write(time, self._step, [(f"eval/{kind}", score), ("eval/loss", records.number(line, "loss"))])
        elif line["event"] == "phases" and isinstance(line.get("step"), int):
            self._write(time, line["step"], [(time_tag(records.text(row, "kind")), records.number(row, "mean"))
                                             for row in records.items(line, "kinds")])

    def _take_step(self, line, time):
        step, seconds = records.count(line, "step"), records.number(line, "seconds")
        # A line without a time was written as long after the line before as its step took.
        self._time = time if time > 0 else self._time + records.finite(line, "seconds")
        if step > self._step + 1:
            self._gap = step
        self._step, self.steps = step, self.steps + 1
        batch = records.option_number(self.record, "batch")
        self._write(self._time, step, [("train/loss", records.number(line, "loss")),
                                       ("train/lr", records.number(line, "lr")),
                                       ("speed/samples_per_s", batch / seconds if batch > 0 and seconds > 0
                                        else math.nan)])


def export(run, directory):
    """Writes the files and removes those of an earlier export that are not replaced."""
    refuse_to_replace(pathlib.Path(directory) / (PREFIX + "0"), [], "directory")
    make_directory(directory, "directory")
    done = Export(run, directory)
    if not done.events:
        raise Error(f"{run} holds no steps yet", "export it after the first step")
    for name in os.listdir(directory):
        path = pathlib.Path(directory) / name
        if name.startswith(PREFIX) and WRITER in name and path not in done.written:
            path.unlink()
    return done


def main(words):
    values = Options(
        "export tensorboard RUN DIR",
        "Writes the curves of a run (its --out directory) to DIR as event files of TensorBoard, which\n"
        "Weights & Biases and Aim import as well. The run may still be training; a repeated export\n"
        "replaces the files in DIR. Use one directory per run.",
        "halomesh export tensorboard run board/run").parse(words)
    if values is None:
        return 0
    words = values["arguments"]
    if len(words) != 3:
        raise UsageError(f"export got {len(words)} arguments instead of 3",
                         "give format, run and directory: halomesh export tensorboard run board/run")
    if words[0] != "tensorboard":
        raise UsageError(f"unknown format '{words[0]}'", "the only format is tensorboard")
    done = export(words[1], words[2])
    for problem in done.problems():
        print("WARNING: " + plain(problem), file=sys.stderr)
    print(*(plain(str(path)) for path in done.written), sep="\n")
    print(f"{plural(done.events, 'event')} of {plural(done.steps, 'step')}; show them with\n"
          f"  tensorboard --logdir {plain(words[2])}")
    return 0
