# SPDX-License-Identifier: Apache-2.0
"""The options of a command: as those of the program's other commands, an option that is unknown or
given twice is an error, and --config names a file of lines NAME = VALUE."""
import argparse
import difflib
import math

from halomesh import records
from halomesh.errors import UsageError

ALL_OPTIONS = "--help lists all options"


def real(least=-math.inf, most=math.inf):
    """A parser of finite numbers from `least` to `most`."""
    def parse(text):
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise argparse.ArgumentTypeError(f"'{text}' is not a number\ngive a number, e.g. 0.5")
        if value < least:
            raise argparse.ArgumentTypeError(f"{text} is too small\ngive at least {least:g}")
        if value > most:
            raise argparse.ArgumentTypeError(f"{text} is too large\ngive at most {most:g}")
        return value
    return parse


class _Once(argparse.Action):
    """Stores a value that may be given once."""

    def __call__(self, parser, namespace, value, name=None):
        given = namespace.__dict__.setdefault("given", set())
        if self.dest in given:
            raise UsageError(f"--{self.dest} is given twice", "give it once")
        given.add(self.dest)
        setattr(namespace, self.dest, value)


class _Form(argparse.HelpFormatter):
    def __init__(self, prog):
        super().__init__(prog, max_help_position=34, width=100)

    def _get_help_string(self, action):
        is_shown = action.default not in (None, "", False, argparse.SUPPRESS)
        return action.help + (f" (default {action.default:g})" if isinstance(action.default, float) else
                              f" (default {action.default})" if is_shown else "")


class Options:
    """`usage` is the line after "halomesh"; `summary`, `example` and `closing` surround the list."""

    def __init__(self, usage, summary, example, closing=""):
        self._texts = usage, summary, example, closing
        self._parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, formatter_class=_Form)
        self._parser.error = self._refuse
        self._group = None
        self.group("General")
        self.add("config", "FILE", "", "read options from a file of lines NAME = VALUE")
        self._group.add_argument("--help", "-h", action="store_true", default=False, help="print this page")
        self._parser.add_argument("arguments", nargs="*", help=argparse.SUPPRESS)

    def group(self, title):
        self._group = self._parser.add_argument_group(title)
        return self

    def add(self, name, placeholder, default, about, read=str, short=()):
        self._group.add_argument(f"--{name}", *short, dest=name, metavar=placeholder, default=default,
                                 type=read, action=_Once, help=about)
        return self

    def add_choice(self, name, choices, default, about):
        def parse(text):
            if text not in choices:
                all_of_them = "one of " + "|".join(choices)
                raise argparse.ArgumentTypeError(f"'{text}' is not {all_of_them}\ngive {all_of_them}")
            return text
        return self.add(name, "|".join(choices), default, about, parse)

    def add_switch(self, name, about):
        self._group.add_argument(f"--{name}", dest=name, action="store_true", default=False, help=about)
        return self

    def _actions(self):
        return {action.dest: action for action in self._parser._actions if action.option_strings}

    def _refuse(self, message):
        """What argparse says of a value, as an error of this program."""
        name, _, what = message.partition(": ")
        if not name.startswith("argument --"):
            raise UsageError(message, ALL_OPTIONS)
        what, _, hint = what.partition("\n")
        name = name.removeprefix("argument ").split("/")[0]
        if what.startswith("expected"):
            what, hint = "needs a value", f"give {name} {self._actions()[name[2:]].metavar}"
            raise UsageError(f"{name} {what}", hint)
        raise UsageError(f"{name}: {what}", hint)

    def _refuse_unknown(self, name, where="--"):
        near = difflib.get_close_matches(name, self._actions(), 1, 0.0)
        dashes = "--" if where == "--" else ""
        raise UsageError(f"unknown option --{name}" if dashes else f"{where}unknown option {name}",
                         f"did you mean {dashes}{near[0]}? {ALL_OPTIONS}")

    def _of_file(self, path):
        """The lines of a configuration file as words of a command line."""
        try:
            content = records.read_text(path, 1 << 20)
        except records.Error as error:
            raise UsageError(f"--config {path} cannot be read: {error}",
                             "give a text file of lines NAME = VALUE") from None
        words = {}
        for number, line in enumerate(content.splitlines(), 1):
            line = line.split("#")[0].strip()
            if not line or line[0] == ";" or (line[0] == "[" and line[-1] == "]"):
                continue
            name, equals, value = (part.strip() for part in line.partition("="))
            place = f"{path}:{number}: "
            if not name or not equals:
                raise UsageError(f"{place}'{line}' is not of the form NAME = VALUE",
                                 "write one option per line, e.g. out = page.html")
            if name == "config":
                raise UsageError(f"{place}a configuration file cannot name another",
                                 "copy the other file's lines into this one")
            if name not in self._actions():
                self._refuse_unknown(name, place)
            if self._actions()[name].nargs == 0:
                words[name] = [f"--{name}"] if value in ("on", "true", "1", "yes") else []
            else:
                words[name] = [f"--{name}={value}"]
        return words

    def parse(self, words):
        """The values by name, and the list of "arguments"; None when help was asked for: it is then
        printed."""
        if "--help" in words or "-h" in words:
            print(self.help(), end="")
            return None
        values, unknown = self._parser.parse_known_intermixed_args(words)
        if unknown:
            self._refuse_unknown(unknown[0].lstrip("-").split("=")[0])
        if values.config:
            given = {*values.__dict__.get("given", ()),
                     *(name for name, action in self._actions().items()
                       if action.nargs == 0 and getattr(values, name))}
            more = [word for name, of_file in self._of_file(values.config).items()
                    if name not in given for word in of_file]
            values = self._parser.parse_intermixed_args([*more, *words])
        return vars(values)

    def help(self):
        usage, summary, example, closing = self._texts
        options = self._parser.format_help().split("\n\n", 1)[1]
        return (f"usage: halomesh {usage}\n\n{summary}\n\nExample:\n  {example}\n\n{options}"
                + (f"\n{closing}\n" if closing else "\n"))
