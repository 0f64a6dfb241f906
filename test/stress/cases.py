# SPDX-License-Identifier: Apache-2.0
"""The tables of cases, by class of fault. A row is a Case (see scene.py); to add one, add a line."""
import json
import os
import re
import shutil
import signal
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from faults import (DAMAGES, KINDS, SIGNALS, after_delay, at_step, both, busy_host, contents, deleted, directory,
                    emptied, fifo, flipped, full_disk, garbage, in_group, link_to, loop, memory_group, mounts,
                    nans, on, read_only, send, shorter, steps_done, truncated, wait_for)
from inputs import (channels_first, external_voxels, failing, filtered_voxels, hdf5_samples, orientation_codes, partial_voxels, plain_voxels,
                    stepped_clock, traced, virtual_voxels, volumes, without)
from scene import ALONE, EVAL, SOURCE, TRAIN, UNET, Case, expect

LONG = f"{TRAIN} --steps 200 --checkpoint-every 5 --keep 2".replace("--steps 24 --checkpoint-every 8 --keep 9", "")
SYNTH = "synth --extent 16 --train 8 --validation 4 --seed 3"
TEMPLATES = [
    f"{SYNTH} --out data",
    f"{SYNTH} --out gz --gzip",
    f"{SYNTH} --out archive --format archive",
    f"{TRAIN} --out run",
    f"{LONG} --out long",
]
USAGE, FAILED, STOPPED = 2, 1, 75

# What each option refuses, with exit code 2 and its name or the value; "" is a name like any other.
HUGE = "99999999999999999999 9223372036854775808"
REFUSED = {
    "train": {
        "batch": f"0 -1 1.5 x 4x {HUGE}", "epochs": f"-1 x {HUGE}", "steps": f"-1 1e3 {HUGE}",
        "seed": f"-1 x 1.5 {HUGE[:20]}", "lr": "x -1 nan inf 1e999", "momentum": "x -1 1 nan",
        "weight-decay": "x -1 nan inf", "dropout": "x -0.1 1 2 nan", "parts": "0x1x1 2x 2x1 x 2x1x1x1 -2x1x1",
        "input": "0x0x0x0 16x16x16 16 x -16x16x16x4", "kernel": f"0 -1 x {HUGE}", "filters": f"0 -4 x {HUGE}",
        "conv-layers": f"0 -1 x 40 {HUGE}", "fc": "0 8,0 -8 x 8,,8", "targets": f"0 -1 x {HUGE}",
        "keep": f"0 -1 x {HUGE}", "checkpoint-every": f"-1 x {HUGE}", "evaluate-every": f"-1 x {HUGE}",
        "wall-limit": "-1 x nan", "target-mae": "-1 x nan", "augment": "maybe 2", "precision": "fp8 x",
        "shuffle": "x", "schedule": "x", "resume": "", "reduction": "x", "stage-codec": "zip",
        "warmup-epochs": f"-1 x {HUGE}", "linear-epochs": f"-1 x {HUGE}", "linear-end-factor": "x nan -1",
        "model": "unet", "momentun": "0.5", "optimizer": "adam x", "betas": "x 1,0.9 0.9,-0.1 nan,0.9 0.9",
        "epsilon": "x -1 nan", "clip-norm": "x -1 nan", "accumulate": f"0 -1 x {HUGE}", "milestones": "x 1.5",
        "warmup-steps": f"-1 x {HUGE}", "gamma": "x -1 nan", "decay-steps": f"-1 x {HUGE}", "min-lr": "x -1 nan",
        "poly-power": "x -1 nan", "instances": f"0 -1 x 3 {HUGE}",
    },
    "plan": {
        "parts": "1000x1000x1000 100000x1x1 9223372036854775807x1x1 0x0x0",
        "kernel": "1000000 9223372036854775807", "filters": "9223372036854775807 1000000000000000",
        "input": "2000000x2000000x2000000x4 9223372036854775807x1x1x1", "conv-layers": "1000000 9223372036854775807",
        "fc": "9223372036854775807 4611686018427387904,4", "targets": "9223372036854775807",
        "local-batch": "0 9223372036854775807", "part": "-2 7 9223372036854775807",
    },
    "synth": {
        "extent": f"0 -1 x 1000000000 {HUGE}", "train": f"-1 x {HUGE}", "validation": f"-1 x {HUGE}",
        "universe-boxes": f"0 x {HUGE}", "particles-per-voxel": f"0 2 x {HUGE}", "voxel-mpc-h": "0 -1 x nan",
        "parameter-spread": "-1 x nan", "format": "csv",
    },
    "convert": {
        "level": f"0 10 x {HUGE}", "samples-per-file": f"0 -1 x {HUGE}", "codec": "zip 99999999999999999999",
        "split": "test", "input": "0x0x0x0 x", "targets": f"0 -1 {HUGE}",
    },
    "eval": {"batch": f"-1 x 3.5 {HUGE}", "parts": "0x1x1 x", "split": ""},
}
BASE = {
    "train": f"{ALONE} --out {{out}}", "plan": "plan", "synth": "synth --out {out} --extent 16 --train 1 --validation 1",
    "convert": "convert --from {data} --to {out} --input 16x16x16x4", "eval": f"{EVAL} {{run}}".replace("--parts 1x2x1 ", ""),
}


def absurd_values():
    """One case for each option: testing all values in one case would hide which one failed."""
    for command, options in REFUSED.items():
        for option, values in options.items():
            for value in values.split(" "):
                base = BASE[command]
                head, _, tail = base.partition(f"--{option} ")
                if tail:  # given only once
                    base = head + tail.partition(" ")[2]
                yield Case(f"{command} --{option} '{value}'", f"{base} --{option} '{value}'",
                           USAGE if value else (USAGE, FAILED), (f"--{option}|{value}" if value else "",),
                           limit_s=20)


CONFIG = "plan --config {root}/c.cfg"


def configurations():
    good = b"filters = 4\nconv-layers = 2\ninput = 16x16x16x4\nfc = 8\n"
    row = lambda name, text, code=USAGE, says=("c.cfg",), **more: Case(
        f"configuration: {name}", CONFIG, code, says, on("c.cfg", contents(text)), limit_s=15, **more)
    yield row("plain", good, 0, ("16",))
    yield row("byte order mark", b"\xef\xbb\xbf" + good, 0, ("16",))
    yield row("CRLF", good.replace(b"\n", b"\r\n"), 0, ("16",))
    yield row("empty", b"", 0, ())
    yield row("comments only", b"# nothing\n\n   \n", 0, ())
    yield row("without a last newline", good.rstrip(), 0, ("16",))
    yield row("no name", good + b"= 4\n", USAGE, ("c.cfg", "5"))
    yield row("no value", good + b"kernel =\n", USAGE, ("kernel",))
    yield row("no equals sign", good + b"kernel 2\n", USAGE, ("c.cfg", "kernel 2"))
    yield row("given twice", good + b"filters = 8\n", USAGE, ("filters",))
    yield row("NUL", good + b"ker\0nel = 2\n", USAGE, ("c.cfg",))
    yield row("unknown name", good + b"kernl = 2\n", USAGE, ("kernl", "kernel"))
    yield row("binary", bytes(range(256)) * 16, USAGE, ("c.cfg",))
    yield row("UTF-16", b"\xff\xfe" + good.decode().encode("utf-16-le"), USAGE, ("c.cfg",))
    yield row("line of a megabyte", b"fc = " + b"8," * 500000 + b"8\n", USAGE, ())
    yield row("four megabytes", good + b"#" * 4_000_000, USAGE, ("c.cfg",))
    yield row("names itself", good + b"config = c.cfg\n", USAGE, ("config",))
    for kind, fault in KINDS.items():
        yield Case(f"configuration: {kind}", CONFIG, USAGE, ("c.cfg",), on("c.cfg", fault), limit_s=15)
    yield Case("configuration: missing", CONFIG, USAGE, ("c.cfg", "No such file"))


def samples():
    """A file of each format damaged or replaced by something else, while two ranks train."""
    formats = {"data": "data/train/3", "gz": "gz/train/5", "archive": "archive/train-00000.h5"}
    for data, file in formats.items():
        faults = {**DAMAGES, **KINDS, "one byte short": shorter, "bits flipped": flipped}
        for name, fault in faults.items():
            says = (file.rsplit("/", 1)[0],) if file[-1].isdigit() else ("train-00000",)
            yield Case(f"sample of {data}: {name}", TRAIN.replace("{data}", f"{{root}}/{data}") + " --out {out}",
                       FAILED, says, on(file, fault), ranks=2, writes=("out", "out/*"))
    for name, fault in {**DAMAGES, "a directory": directory, "a FIFO": fifo}.items():
        yield Case(f"validation sample: {name}", f"{EVAL} {{run}}", FAILED, ("validation",),
                   on("data/validation/1", fault), ranks=2)
        yield Case(f"source of convert: {name}",
                   "convert --from {data} --to {out} --input 16x16x16x4", FAILED, ("train",),
                   on("data/train/6", fault), writes=("out", "out/*"))


def checkpoints():
    """Each reader of a checkpoint with each way in which a file is none, or no longer one."""
    readers = {
        "eval": f"{EVAL} {{last}}",
        "predict": "predict --data {data} --checkpoint {last} --out {root}/p.csv",
        "resume": f"{TRAIN} --out {{out}} --resume {{last}}",
        "init-from": f"{TRAIN} --out {{out}} --init-from {{last}}",
    }
    damages = {**DAMAGES, **KINDS, "one byte short": shorter, "bits flipped": flipped,
               "parameters of nan": nans, "missing": deleted, "/etc/passwd": link_to("/etc/passwd")}
    for reader, command in readers.items():
        for name, fault in damages.items():
            ranks = 2 if "parts 2" in command or "parts 1x2" in command else 0

            def no_advice_to_delete(scene, text):
                expect("delete" not in text, "the hint says to delete the file")
            yield Case(f"checkpoint for {reader}: {name}", command, FAILED, ("step-000000024",),
                       on("last", fault), ranks=ranks, writes=("out",),
                       after=no_advice_to_delete if fault in KINDS.values() or "passwd" in name else None)

    # An unattended chain of jobs goes back to the newest intact checkpoint.
    for name in ("empty", "truncated", "garbage", "zeros"):
        yield Case(f"newest checkpoint {name}, resumed from the one before", f"{TRAIN} --out {{run}}", 0,
                   ("step-000000024", "step-000000016"), on("last", DAMAGES[name]), ranks=2,
                   writes=("run/*",), after=same_losses("run", "long", 24))
    for name, fault in {"nan": nans, "bits": flipped, "one byte": shorter}.items():
        yield Case(f"newest checkpoint with {name} wrong, resumed from the one before",
                   f"{TRAIN} --out {{run}}", 0, ("step-000000024",), on("last", fault), ranks=2,
                   writes=("run/*",), after=same_losses("run", "long", 24))
    every = both(*(on(f"run/checkpoints/step-0000000{step}.h5", truncated) for step in ("08", "16", "24")))
    yield Case("no sound checkpoint", f"{TRAIN} --out {{run}}", FAILED, ("run/checkpoints",), every, ranks=2,
               writes=("run/checkpoints/*damaged*", "run/checkpoints/step-*"))


def same_losses(got, reference, steps):
    """The run has each of its first steps once, and bit by bit as the uninterrupted one."""
    def after(scene, text):
        mine, whole = steps_done(scene / got), steps_done(scene / reference)
        expect(len(whole) >= steps, f"the reference has {len(whole)} steps only")
        for step in range(1, steps + 1):
            expect(mine.get(step) == whole[step], f"loss of step {step}: {mine.get(step)}, not {whole[step]}")
    return after


def changed_options():
    """Resuming with one option changed: what decides the curve is refused; the rest is not."""
    refused = {
        "seed": "1", "batch": "4", "augment": "on", "shuffle": "local", "dropout": "0.25", "momentum": "0.8",
        "weight-decay": "0.01", "optimizer": "nesterov", "clip-norm": "1", "schedule": "linear", "lr": "0.01",
        "kernel": "3", "filters": "8", "conv-layers": "1", "fc": "16", "warmup-epochs": "3",
    }
    for option, value in refused.items():
        base = f"{TRAIN} --steps 32 --out {{run}}".replace("--steps 24 ", "", 1)
        head, _, tail = base.partition(f"--{option} ")
        if tail:
            base = head + tail.partition(" ")[2]
        yield Case(f"resume with another --{option}", f"{base} --{option} {value}", (FAILED, USAGE), (option, value),
                   ranks=2)
    yield Case("resume with an optimizer that remembers more",
               f"{TRAIN} --out {{run}} --optimizer lamb".replace("--steps 24", "--steps 32", 1), FAILED,
               ("written with --optimizer sgd",), ranks=2)
    harmless = {
        "another mesh": "--parts 1x2x1", "more steps": "", "fewer checkpoints kept": "--keep 1",
        "no validation": "--evaluate-every 0", "another reduction": "--reduction flat",
        "staged data": "--stage-dir {stage}",
    }
    for name, option in harmless.items():
        base = f"{TRAIN} --steps 32 --out {{run}}".replace("--steps 24 ", "", 1)
        for word in ("--parts 2x1x1", "--keep 9"):
            if word.split()[0] in option:
                base = base.replace(word, "")
        yield Case(f"resume with {name}", f"{base} {option}", 0, ("step-000000024",), ranks=2,
                   writes=("run/*",), after=lambda scene, text: expect(
                       sorted(steps_done(scene / "run")) == list(range(1, 33)), "not 32 steps"))
    yield Case("resume with nothing left to do", f"{TRAIN} --out {{run}}", 0, ("nothing to do",), ranks=2,
               writes=("run/*",), after=lambda scene, text: expect(
                   "0 -> 0" not in text and "0 samples/s" not in text, "figures of nothing"))


def records():
    """metrics.jsonl or mllog.txt damaged between two jobs: said once, and the run goes on."""
    damages = {"emptied": emptied, "deleted": deleted, "cut in a line": shorter, "cut in half": truncated,
               "of garbage": garbage}
    base = f"{TRAIN} --steps 32 --out {{run}}".replace("--steps 24 ", "", 1)
    for name, fault in damages.items():
        def whole_lines(scene, text):
            steps = steps_done(scene / "run")
            expect(set(range(25, 33)) <= set(steps), "not all of the new steps are recorded")
        says = () if name == "cut in a line" else ("metrics.jsonl",)
        yield Case(f"metrics.jsonl {name}, then resumed", base, 0, says, on("run/metrics.jsonl", fault), ranks=2,
                   writes=("run/*",), after=whole_lines)
    for name in ("a FIFO", "a directory", "/dev/zero"):
        yield Case(f"metrics.jsonl is {name}", base, FAILED, ("metrics.jsonl",),
                   on("run/metrics.jsonl", KINDS[name]), ranks=2, writes=("run/run.json",))


def same_data():
    """What is known of data by their content: copies, changes behind an old time, links."""
    staged = f"{TRAIN} --stage-dir {{stage}} --keep-stage --out"

    def changed_behind_its_time(scene):
        code, text = scene.run(f"{staged} {{root}}/first", 2)
        expect(code == 0, text)
        files = sorted((scene / "data/train").iterdir())
        time_ns = files[0].stat().st_mtime_ns
        files[0].write_bytes(files[-1].read_bytes())
        os.utime(files[0], ns=(time_ns, time_ns))
    yield Case("a kept stage of data that have changed behind an old time", f"{staged} {{out}}", 0, ("staged 12 samples",),
               changed_behind_its_time, ranks=2, writes=("out*", "stage/*"),
               after=lambda scene, text: expect("reusing" not in text, "the stage was used"))

    def validation_of(make):
        def prepared(scene):
            shutil.rmtree(scene / "data/validation")
            make(scene)
        return prepared

    def some_links(scene):
        (scene / "data/validation").mkdir()
        for file in sorted((scene / "data/train").iterdir())[:3]:
            os.link(file, scene / f"data/validation/own-{file.name}")
    for name, make, count in (
            ("a copy of train", lambda scene: shutil.copytree(scene / "data/train", scene / "data/validation"),
             "8 of the 8 files"),
            ("a link to train", lambda scene: os.symlink("train", scene / "data/validation"), "8 of the 8 files"),
            ("links to some of train", some_links, "3 of the 3 files")):
        yield Case(f"validation is {name}", f"{TRAIN} --out {{out}}", 0, (f"WARNING: {count}",), validation_of(make), ranks=2,
                   writes=("out*",))

    def converted_before(scene):
        code, text = scene.run("convert --from {data} --to {root}/before --input 16x16x16x4")
        expect(code == 0, text)
        shutil.copytree(scene / "data", scene / "copy", copy_function=shutil.copyfile)

    def equal_bytes(scene, text):
        files = list((scene / "before").iterdir())
        expect(len(files) >= 2, "no archive")
        for file in files:
            expect((scene / "out" / file.name).read_bytes() == file.read_bytes(), f"{file.name} has other bytes")
    yield Case("the archive of a copy", "convert --from {root}/copy --to {out} --input 16x16x16x4", 0, (), converted_before,
               after=equal_bytes, ranks=3, writes=("out*",))


def paths():
    long_name, long_path = "n" * 300, "/".join(["d" * 200] * 25)
    good = {"spaces": "a run of mine", "unicode": "läuft-走る-🚀", "trailing slash": "slash/", "dots": "./a/../b",
            "leading dash": "./-x", "quotes": "it's", "a name of 255 bytes": "n" * 255, "newline": "two\nlines",
            "percent": "100%d%s", "braces": "a{{}}b", "not UTF-8": "caf\udce9 \udcff\udc80"}
    for name, path in good.items():
        made = path.replace("{{}}", "{}")

        def prepared(scene, made=made):
            if ".." in made:
                (scene / "a").mkdir()

        def there(scene, text, made=made):
            expect((scene / made / "checkpoints/step-000000024.h5").exists(), "no checkpoint there")
        yield Case(f"path of --out: {name}", f'{TRAIN} --out "{{root}}/{path}"', 0, (), prepared,
                   after=there, ranks=2, writes=("*",))

    def link_to_data(scene):
        os.symlink("data", scene / "d\udce9")

    def read_back(scene, text):
        options = json.loads((scene / "o\udcff/run.json").read_bytes())["options"]
        for name, value in (("data", "d\udce9"), ("out", "o\udcff"), ("trace", "t\udc80.json"), ("stage-dir", "s\udcfe")):
            expect(options[name] == str(scene / value), f"{name} is {options[name]!r}")
        json.loads((scene / "t\udc80.json").read_bytes())
        for command in ("watch --once {root}/o\udcff",
                        "export tensorboard {root}/o\udcff {root}/b\udcff",
                        "eval --checkpoint {root}/o\udcff --data {root}/d\udce9 --json {root}/e\udcff.json",
                        f"{staged} {{root}}/again --keep-stage"):
            code, more = scene.run(command, 2 if "again" in command else 0)
            expect(code == 0 and "Traceback" not in more, more)
        expect("reusing the stage" in more, "the kept stage was not used")
    staged = f"{TRAIN} --stage-dir {{root}}/s\udcfe --out".replace("{data}", "{root}/d\udce9")
    yield Case("paths that are not UTF-8 in all records", f"{staged} {{root}}/o\udcff --keep-stage --trace {{root}}/t\udc80.json",
               0, (), link_to_data, after=read_back, ranks=2, writes=("*",))
    script = (f"{{halomesh}} jobscript --site workstation --cores 2 --ranks-per-node 2 --time 1:00:00 {TRAIN[6:]} "
              "--out {root}/o\udcff >job.sh && bash job.sh").replace("{data}", "{root}/d\udce9")
    yield Case("job script of paths that are not UTF-8", f"plain env 'MPIRUN={{mpirun}}' sh -c '{script}'", 0, (),
               link_to_data, writes=("*",), after=lambda scene, text: expect(
                   (scene / "o\udcff/checkpoints/step-000000024.h5").exists(), "the job left no checkpoint"))
    yield Case("path of --out: relative", f"{TRAIN} --out here/and/there", 0, ranks=2, writes=("here*",))
    yield Case("path of --data: relative, trailing slash", TRAIN.replace("{data}", "data/") + " --out {out}", 0,
               ranks=2, writes=("out*",))
    bad = {"a name of 300 bytes": long_name, "5000 bytes": long_path}
    for command, base in {"train": f"{ALONE} --out", "synth": f"{SYNTH} --out",
                          "convert": "convert --from {data} --input 16x16x16x4 --to"}.items():
        for name, path in bad.items():
            yield Case(f"{command} into {name}", f"{base} {{root}}/{path}", FAILED, ("name too long",),
                       writes=("d*",) if "/" in path else ())
        for name, fault in {**KINDS, "a file": contents(b"mine")}.items():
            if name not in ("a directory", "a dangling link"):
                yield Case(f"{command} into {name}", f"{base} {{out}}", FAILED, ("out",), on("out", fault),
                           limit_s=20)
        yield Case(f"{command} below a file", f"{base} {{out}}/below", FAILED, ("out",), on("out", contents(b"mine")))
        yield Case(f"{command} into a read-only file system", f"{base} {{root}}/ro/out", FAILED,
                   ("ro", "Read-only file system"), read_only("ro"))
    for option, base in {"data": ALONE.replace("{data}", "{root}/x") + " --out {out}",
                         "checkpoint": f"{EVAL} {{root}}/x", "from": "convert --to {out} --from {root}/x"}.items():
        for name, fault in {"a loop of links": loop, "a FIFO": fifo, "a file": contents(b""),
                            "/dev/zero": link_to("/dev/zero")}.items():
            yield Case(f"--{option} is {name}", base, FAILED, ("x",), on("x", fault), limit_s=20)
    predict = "predict --data {data} --checkpoint {run} --out"
    for name, target, code in (("of no known format", "{root}/p.txt", USAGE), ("in no directory", "{root}/no/p.csv", FAILED),
                               ("a directory", "{data}", USAGE), ("in a read-only file system", "{root}/ro/p.h5", FAILED),
                               ("a name of 300 bytes", "{root}/" + long_name + ".csv", FAILED)):
        yield Case(f"predictions into a file {name}", f"{predict} {target}", code, ("--out",) if code == USAGE else (),
                   read_only("ro"))


def ranks():
    """Numbers of ranks that are prime, or do not go with the mesh or the batch."""
    plain = TRAIN.replace("--parts 2x1x1", "")
    for count in (1, 2, 3, 5, 7):
        batch = plain.replace("--batch 2", f"--batch {count}")
        yield Case(f"{count} replicas", f"{batch} --parts 1x1x1 --out {{out}}", 0, ranks=count, writes=("out*",))
        if count > 1:
            yield Case(f"{count} parts along H", f"{plain} --parts 1x{count}x1 --out {{out}}", 0, ranks=count,
                       writes=("out*",))
            yield Case(f"evaluation on {count} ranks", "eval --data {data} --checkpoint {run}", 0, ranks=count)
    for parts, count in (("2x1x1", 3), ("2x2x2", 2), ("3x1x1", 5), ("1x1x7", 2)):
        yield Case(f"{count} ranks for {parts}", f"{plain} --parts {parts} --out {{out}}", USAGE, (parts, str(count)),
                   ranks=count)
    yield Case("batch that does not divide", f"{plain} --parts 1x1x1 --out {{out}}", USAGE, ("batch",), ranks=3)


def disks():
    """Disks that fill up: what was whole stays whole, and nothing half-written is left."""
    fails = lambda name, command, disk, kilobytes, says, **more: Case(
        f"full disk: {name}", command, FAILED, says, full_disk(disk, kilobytes), **more)
    yield fails("first checkpoint", f"{TRAIN} --out {{root}}/small/out", "small", 16, ("No space left",), ranks=2,
                writes=("small/out", "small/out/*.json*", "small/out/mllog.txt", "small/out/checkpoints"))
    yield fails("synth", f"{SYNTH} --train 64 --out {{root}}/small".replace("--train 8 ", ""), "small", 300,
                ("No space left|free",))
    yield fails("archive without compression", "convert --from {data} --to {root}/small --input 16x16x16x4 --codec none",
                "small", 100, ("small",))
    yield fails("archive", "convert --from {data} --to {root}/small --input 16x16x16x4", "small", 40,
                ("No space left",), writes=("small/*.lock",))
    yield fails("predictions", "predict --data {data} --checkpoint {run} --out {root}/small/p.h5", "small", 0,
                ("No space left",))
    yield fails("trace", f"{TRAIN} --out {{out}} --trace {{root}}/small/t.json", "small", 0, ("t.json",), ranks=2,
                writes=("out", "out/*"))
    for keep in ("", "--keep-stage"):
        yield fails(f"stage {keep}", f"{TRAIN} --out {{out}} --stage-dir {{root}}/small {keep}", "small", 64,
                    ("small",), ranks=2, writes=("out", "out/*"))


def limits():
    """Limits of the system: shared memory, the size of files, the memory of a control group."""
    for name, kilobytes, filled in (("is full", 64, 65536), ("has room for one rank", 5000, 0)):
        for command in ("info", f"{TRAIN} --out {{out}}", f"{EVAL} {{run}}"):
            yield Case(f"/dev/shm {name}: {command.split()[0]}",
                       f"plain unshare -m sh -c 'mount -t tmpfs -o size={kilobytes}k none /dev/shm && "
                       f"head -c {filled} /dev/zero >/dev/shm/full; exec {{mpirun}} -n 2 {{halomesh}} {command}'",
                       0, fault=mounts, writes=("out*", "probe"))
    below = lambda name, kilobytes, command, **more: Case(
        f"limit on the size of files: {name}",
        f"plain bash -c 'ulimit -f {kilobytes} && exec {{halomesh}} {command}'", FAILED,
        ("File too large",), **more)
    yield below("first checkpoint", 8, f"{TRAIN} --out {{out}}", ranks=2,
                writes=("out", "out/*.json*", "out/mllog.txt", "out/checkpoints"))
    for count in (0, 1):  # MPI itself writes files, too
        launched = " below a launcher" if count else ""
        yield below(f"synth{launched}", 1, f"{SYNTH} --out {{out}}", ranks=count)
        yield below(f"archive{launched}", 1, "convert --from {data} --to {out} --input 16x16x16x4 --codec none",
                    ranks=count)
        yield below(f"predictions{launched}", 1, "predict --data {data} --checkpoint {run} --out {root}/p.h5",
                    ranks=count)
    yield below("trace", 1, f"{TRAIN} --out {{out}} --trace {{root}}/t.json", ranks=2, writes=("out", "out/*"))

    def many_large_samples(scene):
        code, text = scene.run("synth --out {root}/large --extent 64 --train 1 --validation 1")
        expect(code == 0, text)
        sample = next((scene / "large/train").iterdir())
        for copy in range(250):  # of 2 MB
            os.link(sample, f"{sample}-{copy}.tfrecord")
        scene.mount("ram", "size=2g")
    in_group_of = lambda name, command, says, **more: Case(
        f"control group of 350 MB: {name}", in_group(f"{{halomesh}} {command}"), FAILED,
        ("left in the control group", says), both(many_large_samples, memory_group(350 << 20)), **more)
    large = TRAIN.replace("{data}", "{root}/large").replace("16x16x16x4", "64x64x64x4")
    yield in_group_of("a stage in memory", f"{large} --out {{out}} --stage-dir {{root}}/ram", "the stage needs",
                      ranks=2, writes=("out", "out/*"))
    yield in_group_of("an archive in memory",
                      "convert --from {root}/large --to {root}/ram --input 64x64x64x4 --codec none", "the archive needs")
    yield in_group_of("a data set in memory", "synth --out {root}/ram --extent 64 --train 400", "the data set needs")
    yield in_group_of("large universes", "synth --out {out} --extent 256 --train 8", "need")


def set_aside():
    """Options without the choice that they belong to: refused, or without effect where typed as off."""
    for name, command, code in (
            ("eval --windows off", "eval --data {data} --checkpoint {run} --windows off", 0),
            ("eval --pad 0", "eval --data {data} --checkpoint {run} --pad 0", USAGE),
            ("predict --pad 0", "predict --data {data} --checkpoint {run} --out {root}/p.csv --pad 0", USAGE),
            ("train --pad 0", f"{ALONE} --out {{out}} --pad 0", USAGE),
            ("train --momentum 0 with adamw", f"{ALONE} --out {{out}} --optimizer adamw --momentum 0", 0),
            ("eval --json without a path", "eval --data {data} --checkpoint {run} --json ''", USAGE),
            ("train --stage-dir without a path", f"{ALONE} --out {{out}} --stage-dir ''", USAGE)):
        yield Case(f"set aside: {name}", command, code, (name.split()[1],) if code else (), writes=("out*",))


def outputs():
    """Outputs over what the command or another one reads, by each way to name it."""
    checkpoint = "run/checkpoints/step-000000024.h5"
    linked = lambda name, make: lambda scene: make(scene / checkpoint, scene / name)
    predict = f"predict --data {{data}} --checkpoint {{root}}/{checkpoint} --out"
    rows = {
        "predict into its checkpoint": (f"{predict} {{root}}/{checkpoint}", None),
        "predict into a hard link to it": (f"{predict} {{root}}/hard.h5", linked("hard.h5", os.link)),
        "predict into a link to it": (f"{predict} {{root}}/soft.h5", linked("soft.h5", os.symlink)),
        "predict into it by a relative path": (f"{predict} run/../run/{checkpoint[4:]}", None),
        "predict into the run's record": (f"{predict} run/run.json", None),
        "eval into the data set": ("eval --data {data} --checkpoint {run} --json data/train/e.json", None),
        "train into checkpoints": (f"{ALONE} --out {{run}}/checkpoints", None),
        "train into the data set": (f"{ALONE} --out {{data}}", None),
        "trace into the run's record": (f"{ALONE} --out {{out}} --trace {{out}}/run.json", None),
        "synth into a data set": (f"{SYNTH} --out {{data}}/train", None),
        "convert into its source": ("convert --from {data} --to {data}/train --input 16x16x16x4", None),
        "convert onto its source": ("convert --from {data} --to {data}/. --input 16x16x16x4", None),
        "report into a checkpoint": (f"report run -o {checkpoint}", None),
        "export into samples": ("export tensorboard run data/train", None),
        "figures into checkpoints": ("report run --figures run/checkpoints", None),
        "a picture into checkpoints": ("plan --picture run/checkpoints/p.svg", None),
    }
    for name, (command, fault) in rows.items():
        yield Case(f"output: {name}", command, USAGE, fault=fault)


def starts():
    """Job scripts check the checkpoint that the run starts from."""
    job = f"jobscript --site workstation --cores 2 --ranks-per-node 1 --time 1:00:00 {ALONE[6:]} --out {{out}}"
    for option in ("resume", "init-from"):
        for name, path, code in (("missing", "{root}/none.h5", FAILED), ("a sample", "{data}/dataset.json", FAILED),
                                 ("sound", "{last}", 0)):
            yield Case(f"jobscript --{option}: {name}", f"{job} --{option} {path}", code)
        yield Case(f"jobscript --{option}: another network",
                   f"{job} --{option} {{last}}".replace("--filters 4", "--filters 8"), FAILED, ("conv1",))
    yield Case("jobscript --resume: another rate", f"{job} --resume {{last}} --lr 0.5", FAILED, ("lr",))


def memory():
    """Limits of a process's memory, from too little for MPI to enough."""
    def says_what(scene, text):
        if "halomesh: error" in text:
            expect("needs" in text and "ulimit" in text, "does not say what is needed and left")
    commands = {
        "train": (f"{TRAIN} --out {{out}}", 2),
        "predict": ("predict --data {data} --checkpoint {run} --out {root}/p.csv", 2),
        "bench": ("bench --input 16x16x16x4 --conv-layers 2 --filters 4 --fc 8 --steps 2 --batch 2", 2),
        "synth": (f"{SYNTH} --out {{out}}", 2), "plan": ("plan --input 64x64x64x4", 0),
    }
    ladders = {"v": (120, 170, 210, 260, 500), "d": (10, 50, 60, 80, 300)}
    for name, (command, count) in commands.items():
        for option, megabytes in ladders.items():
            for limit in megabytes:
                yield Case(f"ulimit -{option} of {limit} MB: {name}",
                           f"plain bash -c 'ulimit -{option} {limit}000 && exec {{halomesh}} {command}'",
                           0 if limit == megabytes[-1] and name != "bench" else (0, FAILED), ranks=count, after=says_what,
                           writes=("out*", "p.csv"))


def targets():
    """Outputs into what is no regular file: written through, and nothing is replaced."""
    alone = f"{EVAL} {{run}}".replace("--parts 1x2x1 ", "")
    for name, command in (("results", f"{alone} --json {{root}}/o.json"),
                          ("predictions as text", "predict --data {data} --checkpoint {run} --out {root}/o.csv"),
                          ("predictions", "predict --data {data} --checkpoint {run} --out {root}/o.h5")):
        output = command.rsplit("/", 1)[1]
        yield Case(f"{name} into /dev/null", command, 0, fault=on(output, link_to("/dev/null")))
        yield Case(f"{name} into /dev/full", command, FAILED, ("No space left",), on(output, link_to("/dev/full")))
        yield Case(f"{name} into a loop of links", command, FAILED, ("links",), on(output, loop))
        yield Case(f"{name} into a FIFO that nobody reads", command, FAILED, ("no process reads",), on(output, fifo))

        def read_fifo(scene, output=output):
            fifo(scene / output)
            scene.reader = ThreadPoolExecutor(1).submit((scene / output).read_bytes)

        def got_all(scene, text):
            expect(len(scene.reader.result(10)) > 50, "the reader of the FIFO got nothing")
        yield Case(f"{name} into a FIFO", command, 0, fault=read_fifo, after=got_all)

        def link(scene, output=output):
            (scene / "there").mkdir()
            (scene / "there/old").write_text("old")
            link_to("there/old")(scene / output)

        def replaced(scene, text):
            expect((scene / "there/old").stat().st_size > 50, "the target of the link is as before")
        yield Case(f"{name} into a link", command, 0, fault=link, after=replaced, writes=("there/old",))
    # The shell does not wait for such a process by itself.
    yield Case("results into another process",
               f"plain bash -c '{{halomesh}} {alone} --json >(sed s/mae/got/); r=$?; wait $!; exit $r'", 0,
               ('"got"',))


def foreign_data():
    """Data sets that others' programs made, with values of every type and with parts that are not there."""
    convert = ("convert --from {root}/volumes --to {out} --input 1x1x1x1 --any-extents --classes 2 --split train "
               "--verify")
    for letter, name in (("B", "uint8"), ("h", "int16"), ("q", "int64"), ("f", "float32")):
        yield Case(f"labels of {name} in NIfTI files", convert, 0, ("verified",), volumes(letter),
                   writes=("out*",))
    yield Case("labels that lie 99 mm from their images", convert, 0, ("case_00000", "171 mm"), volumes(origin=99),
               writes=("out*",))
    yield Case("labels that lie elsewhere, refused", f"{convert} --affine-mismatch refuse", FAILED, ("case_00000", "171 mm"),
               volumes(origin=99))
    read = TRAIN.replace("{data}", "{root}/hdf5") + " --out {out}"
    for name, voxels, pattern, says in (
            ("whose sources are gone", virtual_voxels, "hdf5/train/*.src", "s0.src"),
            ("whose raw files are gone", external_voxels, "hdf5/train/*.raw", "s0.raw"),
            ("with chunks that were never written", partial_voxels, "", "never written")):
        fault = hdf5_samples(voxels)
        yield Case(f"HDF5 data {name}", read, FAILED, (says,), without(pattern, fault) if pattern else fault, ranks=2)
    yield Case("HDF5 data of others", read, 0, fault=hdf5_samples(plain_voxels), ranks=2, writes=("out*",))

    def same_codes(scene, text):
        found = orientation_codes(scene / "predicted/case_00001.nii")
        expect(found == (1, 2), f"codes {found} of qform and sform, not those of the image")
    yield Case("codes of qform and sform in predictions",
               f"plain sh -c '{{halomesh}} {UNET} --out {{out}} && {{halomesh}} predict --data {{root}}/volumes "
               "--checkpoint {out} --out {root}/predicted'", 0, fault=volumes(codes=(1, 2)), after=same_codes,
               writes=("out*", "predicted*"))


def learning():
    """Networks that can learn nothing of their data, or compute what is not a number."""
    for filters in (3, 5, 7):  # do not fill the tiles of kernels for matrix units
        bf16 = TRAIN.replace("--filters 4", f"--filters {filters}") + " --precision bf16 --out {out}"
        yield Case(f"{filters} channels in bf16", bf16, 0, ("loss",), ranks=2, writes=("out*",))
    for loss in ("ce", "dice"):
        yield Case(f"padded samples, loss {loss}", f"{UNET} --pad -2.2 --loss {loss} --out {{out}}", 0,
                   fault=volumes(uneven=True), writes=("out*",))
    yield Case("batch norm of one value", f"{ALONE} --batch-norm 1 --out {{out}}".replace("--conv-layers 2", "--conv-layers 4"),
               USAGE, ("single value",))

    def trains_on(scene, text):
        expect(steps_done(scene / "out")[6] > 0, "the run ended before its last step")
    yield Case("validation without foreground reaches no target", f"{UNET} --target-score 1e-9 --out {{out}}".replace("epochs 1", "epochs 3"), 0,
               ("no target is reached",), volumes(labels_in=("train",)), after=trains_on, writes=("out*",))
    yield Case("classes that training data lack", f"{UNET} --out {{out}}".replace("--classes 2", "--classes 3"), 0,
               ("split train, that epoch 1 trained on is labelled class 2",), volumes(), writes=("out*",))


def sentences():
    """What messages say, in the words of who meets them."""
    alone = f"{ALONE} --out {{out}}"
    rows = {  # options beside those of a run without a launcher: what is said
        "milestones that do not increase": ("--schedule multistep --milestones 5,5", "--milestones 5,5: 5 comes after 5"),
        "no milestones": ("--schedule multistep", "--schedule multistep needs --milestones"),
        "an epsilon of 0": ("--optimizer lamb --epsilon 0", "--epsilon 0: adamw and lamb divide by it"),
        "a power of 0": ("--schedule poly --decay-steps 5 --poly-power 0", "--poly-power 0 is no decay"),
        "two targets": ("--target-mae 0.1 --target-score 0.2", "--target-mae and --target-score exclude each other"),
        "a batch norm that fits no batch": ("--batch-norm 3", "batch normalization over 3 samples does not fit a batch of 2 on 1 replica"),
        "a network too wide": ("--filters 1000000", "doubled by each of 2 convolutions is too wide"),
    }
    for name, (options, says) in rows.items():
        base = alone.replace("--filters 4", "") if "--filters" in options else alone
        yield Case(f"sentence about {name}", f"{base} {options}", (USAGE, FAILED), (says,))
    says_not = lambda *wrong: lambda scene, text: [expect(each not in text, f"says {each!r}") for each in wrong]
    yield Case("sentence about one rank", f"{alone} --skip-gradients 1@1", 0,
               ("1 rank as 1 replica x 1 part", "gradients below conv2 are skipped\n"), writes=("out*",),
               after=says_not(" 1 ranks", " 1 replicas", " 1 parts", "0 MB"))
    yield Case("sentence about steps at a rate of 0", f"{alone} --schedule cosine --decay-steps 5", 0,
               ("reaches 0 before the run ends after 24 steps",), writes=("out*",))
    yield Case("sentence about OMP_NUM_THREADS", f"plain env 'OMP_NUM_THREADS= 2' {{halomesh}} {alone}", 0,
               ("2 threads each",), writes=("out*",))
    yield Case("sentence about --out that is a dangling link", alone, FAILED, ("is a link to nowhere, which does not exist",),
               on("out", link_to("nowhere")))

    def samples_of(change):
        def fault(scene):
            for file in sorted((scene / "data/train").iterdir())[1:2]:
                change(file)
        return fault

    def index_beside(file):
        Path(f"{file}.idx").write_text("0 300\n")

    def by_zlib(file):
        file.write_bytes(zlib.compress(file.read_bytes()))
    yield Case("sentence about an index beside TFRecords", alone, 0, fault=samples_of(index_beside), writes=("out*",))
    yield Case("sentence about TFRecords of zlib", alone, FAILED, ("compressed by zlib",), samples_of(by_zlib))
    yield Case("sentence about a sample that is a dangling link", alone, FAILED, ("is a link to nowhere, which does not exist",),
               samples_of(link_to("nowhere")))
    read = ALONE.replace("{data}", "{root}/hdf5") + " --out {out}"
    for name, voxels, says in (("with channels first", channels_first, "channels come last"),
                               ("of a filter that is not installed", filtered_voxels, "HDF5 filter 32000 (lzf), which is not installed")):
        yield Case(f"sentence about HDF5 data {name}", read, FAILED, (says,), hdf5_samples(voxels))
    yield Case("sentence about HDF5 targets with another axis", read, FAILED, ("must be a list of 4 numbers",),
               hdf5_samples(plain_voxels, targets=(1, 4)))
    convert = ("convert --from {root}/volumes --to {out} --input 1x1x1x1 --any-extents --classes 2 --split train")
    yield Case("sentence about a label between integers", convert, FAILED, ("is 0.9999999, which is not an integer",),
               volumes("f", label=0.9999999))
    yield Case("sentence about a case that is a dangling link", convert, FAILED, ("is a link to nowhere, which does not exist",),
               both(volumes(), on("volumes/train/case_00001/imaging.nii", link_to("nowhere"))))
    yield Case("sentence about a file that git-annex did not get", convert, FAILED, ("git-annex",),
               both(volumes(), on("volumes/train/case_00001/imaging.nii", contents(b"/annex/objects/SHA256E-s9--1\n"))))


def scripts():
    """Job scripts that would end when they start, or run what a name holds."""
    job = f"jobscript --site workstation --cores 2 --ranks-per-node 1 --time 1:00:00 {ALONE[6:]} --out {{out}}"
    for options, says in (("--schedule cosine", "--decay-steps"), ("--optimizer adamw --epsilon 0", "--epsilon 0"),
                          ("--accumulate 3", "--accumulate"), ("--milestones 3", "--milestones"), ("--pad 2", "--pad"),
                          ("--keep-stage", "--keep-stage"), ("--betas 0.9,0.99", "--betas")):
        yield Case(f"jobscript {options}", f"{job} {options}", USAGE, (says,))
        yield Case(f"train {options}", f"{ALONE} --out {{out}} {options}", USAGE, (says,))
    yield Case("jobscript of ranks over NUMA domains", f"{job} --ranks-per-node 1".replace("workstation --cores 2 --ranks-per-node 1", "fugaku"),
               0, ("WARNING: the 48 threads of a rank are spread over NUMA domains, of which a node has 4",))
    yield Case("jobscript of a job that no node has memory for",
               f"{job} --nodes 1".replace("workstation --cores 2 --ranks-per-node 1", "fugaku").replace("16x16x16x4", "768x768x768x4").replace("--batch 2", "--batch 4"),
               USAGE, ("GiB per node, but a node of fugaku has 32",))
    for option in ("modules", "mpi-plugin", "account", "partition", "job-name"):
        yield Case(f"jobscript --{option} that runs a command", f"{job} --{option} '$(touch {{root}}/X)'", USAGE, (option,))


def readers():
    """Commands that read runs: repeats, damage, ends, and terminals."""
    def two_rates(scene):
        for name, rate in (("one", 0.001), ("two", 0.002)):
            code, text = scene.run(f"{ALONE} --lr {rate} --out {name}")
            expect(code == 0, text)
    yield Case("report of runs with two rates", "report one two -o r.html", 0, ("one ", "two "), two_rates, writes=("r.html",),
               after=lambda scene, text: expect("2 runs" not in text, "taken for repeats"))
    yield Case("mlperf-summary of one run three times", "mlperf-summary run run {run}", 0, ("1 run",))
    yield Case("watch of a run that diverged", f"plain sh -c '{{halomesh}} {ALONE} --lr 1e30 --out {{out}}; {{halomesh}} watch --once {{out}} && touch X'",
               FAILED, ("not finite|diverged|nan|inf",), one_error=False, writes=("out*",))
    yield Case("watch on a terminal that is dumb", "plain env TERM=dumb {halomesh} watch --once {run}", 0,
               after=lambda scene, text: expect("\033" not in text and "\r" not in text, "moves the cursor"))
    module = "plain env PYTHONPATH=" + str(Path(SOURCE).resolve() / "python")
    yield Case("Python and a damaged run.json", f"{module} {sys.executable} -c 'import halomesh; halomesh.Run(\"{{run}}\")'",
               FAILED, fault=on("run/run.json", contents(b"{")), one_error=False,
               after=lambda scene, text: expect("run/run.json: not JSON" in text or "numpy" in text, "does not name the file"))
    yield Case("instances into a run's directory", f"{ALONE} --instances 1 --out {{run}}".replace("--instances 1", "--instances 2"),
               (USAGE, FAILED), ranks=2)
    yield Case("a machine's name that is a file here", "plan --machine fugaku --nodes 4", 0, ("Fugaku",),
               on("fugaku", contents(b"mine")))
    yield Case("a file of a machine without an ending", "plain sh -c '{halomesh} plan --machine template >m8 && "
               "{halomesh} plan --machine m8 --nodes 4'", 0, ("Best:",), writes=("m8",))
    yield Case("a machine from the template", "plain sh -c '{halomesh} plan --machine template >t.ini && "
               "{halomesh} plan --machine ./t.ini --nodes 4'", 0, ("Best:",), writes=("t.ini",))
    yield Case("a machine that lacks all numbers", "plan --machine {root}/m.ini", USAGE, ("nodes, cores, ranks-per-node",),
               on("m.ini", contents(b"title = mine\nnetwork = fat-tree\n")))
    yield Case("data that are not there, without a batch", "train --data {root}/nowhere --out {out}", FAILED, ("nowhere/train",),
               ranks=2)
    yield Case("plan on a prime number of nodes", "plan --machine fugaku --nodes 16381", (0, USAGE), ("can be cut into",),
               limit_s=30)
    yield Case("padding that fp32 does not hold", f"{UNET} --pad 1e39 --out {{out}}", USAGE, ("--pad",), volumes())
    yield Case("the first steps under a short limit", f"{ALONE} --wall-limit 30 --out {{out}}", (0, STOPPED), writes=("out*",),
               after=lambda scene, text: expect(steps_done(scene / "out"), "no step was made"))
    yield Case("a trace of plain JSON", f"{ALONE} --out {{out}} --trace {{root}}/t.json", 0, writes=("out*", "t.json"),
               after=lambda scene, text: json.loads((scene / "t.json").read_text()))

    def one_default(scene, text):
        for line in re.findall(r"^  --.*(?:\n      .*)*", text, re.M):
            expect(line.count("(default") <= 1, f"several defaults: {line}")
    for model in ("cosmoflow", "unet3d", "deepcam"):
        yield Case(f"help of {model}", f"train --model {model} --help", 0, ("--filters",), after=one_default)

    def no_stand_in(scene, text):
        expect("where they differ from those of training" in " ".join(text.split()), "--input is not explained")
        expect("1x1x1x1" not in text, "a stand-in is shown as a default")
    for command in ("eval", "predict"):
        yield Case(f"help of {command}", f"{command} --help", 0, ("--input",), after=no_stand_in)


def hosts():
    """Hosts with a clock that is set, a file system that fails, many other processes, no packages for tests."""
    last = "step-000000024.h5"
    for name, error, says in (("stale", "ESTALE", "Stale file handle"), ("failing", "EIO", "Input/output error")):
        for what, path, command in (
                ("newest checkpoint", "{last}", f"{ALONE} --steps 32 --out {{run}}".replace("--steps 24 ", "", 1)),
                ("checkpoint to evaluate", "{last}", f"{EVAL} {{run}}".replace("--parts 1x2x1 ", ""))):
            yield Case(f"{what} on a {name} file system", failing("read,pread64", error, path, f"{{halomesh}} {command}"),
                       FAILED, (says, last), traced)

    def record_agrees(scene, text):
        end = json.loads((scene / "out/run.json").read_text())["end"]
        expect(0 < end["seconds"] < 3000, f"a run of {end['seconds']} s")
        code, more = scene.run("mlperf-summary {out}")
        expect(code == 0 and "stops before" not in more, more)
    yield Case("a clock that is set back during a run",
               f"plain env LD_PRELOAD={{clock}} STEP_AT={{out}}/checkpoints/step-000000008.h5 {{halomesh}} {ALONE} --out {{out}}",
               0, fault=stepped_clock, after=record_agrees, writes=("out*",))

    def report_when_busy(scene, job):
        wait_for(job, lambda: len(steps_done(scene / "out")) >= 3)
        rank = job.ranks()[0]
        os.kill(rank, signal.SIGSTOP)  # so that the run does not end before the host is busy
        with busy_host(20):
            os.kill(rank, signal.SIGUSR1)
            os.kill(rank, signal.SIGCONT)
            wait_for(job, lambda: "SIGUSR1 received" in job.output())
    yield Case("SIGUSR1 to a run on a host with a load of 20", f"{LONG} --out {{out}}", 0,
               ("SIGUSR1 received: the steps of this run",), ranks=2, during=report_when_busy, writes=("out*",))
    yield Case("tests without Python", f"plain sh -c 'mkdir -p {{stage}}/tests && PYTHON=/no/python "
               f"{SOURCE}/test/harness/run_tests.sh {{stage}}/tests test/system/python_module_test.py; test $? = 1'", 0,
               ("make deps installs it", "1 skipped"), writes=("stage/*",))


def started(scene, command, out, ranks=2):
    """A training that runs on while the case's command is tried."""
    job = scene.start(command, ranks)
    wait_for(job, lambda: len(steps_done(scene / out)) >= 3)
    expect(not job.ended(), "the first run ended too early: " + job.output())
    return job


def two_writers():
    """The second writer of a directory is refused; the first one loses nothing."""
    long_run = LONG.replace("--steps 200", "--steps 1000000")
    first = {}

    def begin(scene):
        first[scene] = started(scene, f"{long_run} --out {{out}}", "out")

    def first_ends_well(scene, text):
        job = first.pop(scene)
        os.kill(job.ranks()[0], SIGNALS["TERM"])
        code = job.wait(60)
        expect(code == STOPPED, f"the first run: exit code {code}\n{job.output()}")
        steps = sorted(steps_done(scene / "out"))
        last = int(max(path.stem for path in scene.root.glob("out/checkpoints/*.h5"))[5:])
        expect(steps == list(range(1, last + 1)), f"{len(steps)} steps recorded, last checkpoint {last}")
        expect(not list(scene.root.glob("out/**/*superseded*")), "the first run's checkpoints were renamed")
    writes = ("out", "out/*")
    for name, command, count in (
            ("a second train", f"{long_run} --out {{out}}", 2),
            ("a second train on one rank", f"{long_run} --out {{out}}".replace("--parts 2x1x1", ""), 0),
            ("a second train with --resume never", f"{long_run} --out {{out}} --resume never", 2),
            ("a second train by another path", f"{long_run} --out {{root}}/data/../out", 2)):
        yield Case(f"two writers: {name}", command, (FAILED, USAGE), ("out",), begin, after=first_ends_well, ranks=count,
                   writes=writes)

    def synth(scene):
        first[scene] = scene.start("synth --out {out} --extent 16 --train 400 --validation 4")
        wait_for(first[scene], lambda: len(list(scene.root.glob("out/train/*"))) >= 3)

    def synth_ends_well(scene, text):
        code = first.pop(scene).wait(300)
        expect(code == 0, f"the first synth: exit code {code}")
        expect(len(list(scene.root.glob("out/train/*.tfrecord"))) == 400, "not 400 samples")
    yield Case("two writers: a second synth", "synth --out {out} --extent 16 --train 2 --validation 1 --overwrite",
               (FAILED, USAGE), ("out",), synth, after=synth_ends_well, writes=writes, limit_s=30)

    def killed(scene):
        job = started(scene, f"{long_run} --out {{out}}", "out")
        job.kill()
    yield Case("two writers: the first one was killed", f"{LONG} --steps 10 --out {{out}}".replace("--steps 200 ", ""), (0,),
               (), killed, ranks=2, writes=writes)

    def writes_many_checkpoints(scene):
        first[scene] = started(scene, f"{long_run} --out {{out}}".replace("--checkpoint-every 5 --keep 2", "--checkpoint-every 1 --keep 1"), "out")

    def again(scene, text):
        ended = [scene.run("eval --data {data} --checkpoint {out}") for _ in range(4)]
        first.pop(scene).kill()
        for code, more in ended:
            expect(code == 0, more)
    yield Case("the newest checkpoint of a run that removes it", f"{EVAL} {{out}}", 0, ("MAE",), writes_many_checkpoints,
               after=again, ranks=2, writes=writes)
    yield Case("two readers of a run", f"{EVAL} {{run}}", 0, ("MAE",),
               lambda scene: scene.start(f"{EVAL} {{run}}", 2), ranks=2)


def stops(short):
    """Signals at random moments; the same command then ends with the uninterrupted curve."""
    def then_same(scene, text):
        expect(scene.steps_when_sent > 195 or "epochs 50: done" not in text, "the signal was ignored")
        code, more = scene.run(f"{LONG} --out {{out}}", 2)
        expect(code == 0, f"resuming: exit code {code}\n{more}")
        same_losses("out", "long", 200)(scene, more)
        expect(not list(scene.root.glob("out/**/.*")), "temporary files are left")
    endless = LONG.replace("--steps 200", "--steps 1000000").replace("--parts 2x1x1", "")
    grid = "batch = 2\nepochs = 100000\ninput = 16x16x16x4\nconv-layers = 2\nfilters = 4\nfc = 8\nlr = {0.001 | 0.002}\n"

    def both_train(scene, job):
        logs = [path.parent for path in scene.root.glob("out/*/metrics.jsonl")]
        return len(logs) == 2 and all(map(steps_done, logs))
    for name, command, fault in (
            ("two instances", f"{endless} --instances 2 --out {{out}}", None),
            ("a study", "study {root}/grid --data {data} --out {out} --ranks-each 1", on("grid", contents(grid.encode())))):
        yield Case(f"TERM to one rank of {name}", command, STOPPED, ranks=2, fault=fault,
                   during=send(SIGNALS["TERM"], 1, both_train), writes=("out", "out/*"), one_error=False)
    for turn in range(1 if short else 4):
        for name, number in SIGNALS.items():
            for to in (0, 1, "launcher"):
                if name == "HUP" and to == "launcher":
                    continue  # mpirun does not pass it on
                killed = name == "KILL" and to != "launcher"
                # 0: the signal came when nothing but the end of the process was left.
                code = (0, *range(1, 256)) if killed or to == "launcher" else (0, STOPPED)
                yield Case(f"training: {name} to {to}, moment {turn}", f"{LONG} --out {{out}}", code, (), ranks=2,
                           during=send(number, to, at_step(100 if to == "launcher" else 150)), after=then_same, writes=("out", "out/*"),
                           one_error=False, limit_s=300)
        busy = LONG.replace("--checkpoint-every 5", "--checkpoint-every 1")
        for name in ("KILL", "TERM"):
            yield Case(f"checkpointing: {name}, moment {turn}", f"{busy} --out {{out}}", (0, *range(1, 256)),
                       ranks=2, during=send(SIGNALS[name], 0, at_step(100)), after=then_same,
                       writes=("out", "out/*"), one_error=False)


            def alone(scene, job, when=at_step(100)):
                expect(len(job.pids()) <= 1, "MPI has started a process")
                return when(scene, job)
            yield Case(f"training without a launcher: {name}, moment {turn}",
                       f"{LONG} --out {{out}}".replace("--parts 2x1x1", ""), (0, STOPPED, 128 + SIGNALS[name]),
                       during=send(SIGNALS[name], 0, alone), writes=("out", "out/*"), one_error=False)

            def stage_is_empty(scene, text):
                expect(not list((scene / "stage").iterdir()), "the stage is left behind")
            yield Case(f"staging: {name}, moment {turn}", f"{LONG} --stage-dir {{stage}} --out {{out}}",
                       (0, *range(1, 256)), ranks=2, during=send(SIGNALS[name], 1, after_delay(0.3, "out/run.json")),
                       writes=("out", "out/*", "stage/*"), one_error=False,
                       after=stage_is_empty if name == "TERM" else None)
            yield Case(f"evaluation: {name}, moment {turn}", f"{EVAL} {{run}} --split train",
                       (0, *range(1, 256)), ranks=2, during=send(SIGNALS[name], 1, after_delay(0.3)),
                       one_error=False)
            yield Case(f"predictions: {name}, moment {turn}",
                       "predict --data {data} --checkpoint {run} --out {root}/p.csv --split train",
                       (0, *range(1, 256)), ranks=2, during=send(SIGNALS[name], 0, after_delay(0.3)),
                       writes=("p.csv",), one_error=False)

            def convert_again(scene, text):
                code, more = scene.run("convert --from {root}/more --to {out} --input 16x16x16x4 --samples-per-file 4 --verify")
                expect(code == 0, f"converting again: exit code {code}\n{more}")
                left = [p.name for p in (scene / "out").iterdir() if "partial" in p.name or p.name[0] == "."]
                expect(not left, f"left behind: {left}")

            def more_data(scene):
                code, text = scene.run("synth --out {root}/more --extent 16 --train 100 --validation 4")
                expect(code == 0, text)
            yield Case(f"conversion: {name}, moment {turn}",
                       "convert --from {root}/more --to {out} --input 16x16x16x4 --samples-per-file 4",
                       (0, *range(1, 256)), ranks=2, fault=more_data,
                       during=send(SIGNALS[name], 0, after_delay(0.5, "out/*")), after=convert_again,
                       writes=("out", "out/*"), one_error=False)


def all_cases(short):
    tables = (absurd_values, configurations, samples, checkpoints, changed_options, records, same_data, paths, ranks, disks,
              limits, set_aside, outputs, starts, memory, targets, foreign_data, learning, sentences, scripts, readers, hosts, two_writers)
    return [case for table in tables for case in table()] + list(stops(short))
