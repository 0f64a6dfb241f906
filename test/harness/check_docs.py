#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the documentation against the source tree and the program.

Usage: check_docs.py PROGRAM [SITE]

- Links between pages lead to files and headings that exist; paths named in `code` exist.
- No option has two defaults in the help of a command.
- Every command, option and make target in code exists, and so does every variable given to make.
- The pictures of meshes in docs/images are what `PROGRAM plan --picture` draws.
- What the pages say about options that may change when a run resumes is what `PROGRAM train --help` says.
- Code below a comment `<!-- quotes PATH -->` stands in that file, line by line.
- The pages under SITE, as mkdocs built them, load nothing from another host.
Prints each fault as FILE:LINE: what; exit status 1 if there is one.
"""

import glob
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import xml.etree.ElementTree

PAGES = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"] + sorted(
    glob.glob("docs/*.md") + glob.glob("docs/tutorials/*.md"))
ROOMS = "include|partition|src|models|runtime|test|jobscripts|docs"
HISTORY = "CHANGELOG.md"  # has names that no longer exist: only its links are checked
# Options of launchers and compilers that the pages mention.
FOREIGN = {"oversubscribe", "bind-to", "map-by", "mca", "allow-run-as-root", "cpu-bind", "mpi", "per-node", "blocks",
           "cfg"}
README_LINES = 150  # the README introduces and links to docs/, which explains
PICTURES = {"docs/images/cut.svg": ["--config", "models/cosmoflow-v1.0.cfg", "--parts", "2x2x1"],
            "docs/images/tutorial-mesh.svg": ["--config", "models/quickstart.cfg", "--parts", "2x1x1"]}

faults = []
checked = {}


def count(kind):
    checked[kind] = checked.get(kind, 0) + 1


def fault(page, line, what):
    faults.append(f"{page}:{line}: {what}")


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Program:
    """The commands of the program and the options of each, from its help pages."""

    def __init__(self, path):
        self.path = path
        names = re.findall(r"(?m)^  ([a-z][a-z-]+) {2,}", output_of(path, "--help"))
        self.options = {name: set(self._options_of(name)) for name in names}
        self.options["export"] |= set(self._options_of("export", "onnx"))
        self.options["jobscript"] |= self.options["train"] | self.options["scaling"]

    def _options_of(self, *command):
        text = output_of(self.path, *command, "--help")
        for twice in re.findall(r"\(default [^)]*\)\s+\(default", text):
            fault(f"halomesh {' '.join(command)} --help", 1, f"has two defaults in a row: {' '.join(twice.split())}")
        return re.findall(r"(?m)^ +(?:-\w \[ )?--([a-z][a-z0-9-]*)", text)

    def all_options(self):
        return set().union(*self.options.values())


class Makefiles:
    """The targets and variables of the makefiles."""

    def __init__(self, paths):
        text = "\n".join(open(path, encoding="utf-8").read() for path in paths)
        self.targets = set()
        for names in re.findall(r"(?m)^([A-Za-z0-9_. -]+):(?!=)", text):
            self.targets |= set(names.split())
        self.variables = set(re.findall(r"\b([A-Z][A-Z0-9_]+)\b", text))


def slug(heading):
    """The anchor of a heading, as GitHub and mkdocs make it."""
    text = re.sub(r"[^\w\s-]", "", re.sub(r"`|\[([^]]*)\]\([^)]*\)", r"\1", heading).lower())
    return re.sub(r"\s", "-", text.strip())


def anchors(page):
    found, in_block = set(), False
    for line in open(page, encoding="utf-8"):
        if line.startswith("```"):
            in_block = not in_block
        heading = re.match(r"#+ +(.*)", line)
        if heading and not in_block:
            found.add(slug(heading.group(1)))
    return found


def check_links(page, number, text):
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        count("links")
        path, _, anchor = target.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(path):
            fault(page, number, f"link to {path}, which does not exist")
        elif anchor and anchor not in anchors(path):
            fault(page, number, f"link to {path}#{anchor}: no such heading")


def check_path(page, number, code):
    path = code.split()[0] if code.split() else ""
    if not re.match(rf"({ROOMS})/", path) or re.search(r"[A-Z]{4}|NNN|\.\.\.", path):
        return
    count("paths")
    if not (glob.glob(path) or glob.glob(path + ".*")):
        fault(page, number, f"{path} does not exist")


def check_command(page, number, words, program):
    """words[0] is the program's name or a command's."""
    if words[0] not in program.options:
        words = words[1:]
    if not words or words[0].startswith("-") or not re.fullmatch(r"[a-z][a-z-]*", words[0]):
        return
    command = words[0]
    count("commands")
    if command not in program.options:
        fault(page, number, f"halomesh has no command {command}")
        return
    for word in words[1:]:
        if word in ("|", ">", ";", "&&", "#", "--"):
            break
        option = re.match(r"--([a-z][a-z0-9-]*)", word)
        if not option:
            continue
        count("options")
        if option.group(1) not in program.options[command] | {"help"}:
            fault(page, number, f"halomesh {command} has no option --{option.group(1)}")


def check_make(page, number, words, makefiles):
    for word in words[1:]:
        if word in ("|", ">", ";", "&&", "#"):
            break
        variable = re.match(r"([A-Z][A-Z0-9_]*)=", word)
        if variable:
            count("variables")
            if variable.group(1) not in makefiles.variables:
                fault(page, number, f"no makefile uses {variable.group(1)}")
        elif re.fullmatch(r"[a-z][a-z0-9-]*", word):
            count("targets")
            if word not in makefiles.targets:
                fault(page, number, f"make has no target {word}")


def check_code(page, number, code, program, makefiles):
    code = code.split("#")[0]
    words = code.replace("`", " ").split()
    for i, word in enumerate(words):
        if os.path.basename(word) in ("halomesh", "HALOMESH"):
            check_command(page, number, words[i:], program)
        if word == "make" and (i == 0 or words[i - 1] in ("&&", ";", "$")):
            check_make(page, number, words[i:], makefiles)
    if words and words[0] in program.options and len(words) > 1:
        check_command(page, number, words, program)
    for option in re.findall(r"^--([a-z][a-z0-9-]*)", code):
        count("options")
        if option not in program.all_options() | FOREIGN:
            fault(page, number, f"no command has an option --{option}")


def check_page(page, program, makefiles):
    text = open(page, encoding="utf-8").read()
    lines = re.sub(r"\\\n", lambda _: "\0", text).split("\n")
    number = 1
    for line in lines:
        whole = line.replace("\0", " ")
        if re.match(r" {4}\S|\t", whole) and not re.match(r" {4,}[-|*\d]", whole):
            check_code(page, number, whole.strip(), program, makefiles)
        else:
            check_links(page, number, whole)
            if whole.count("`") % 2:
                fault(page, number, "code that continues on the next line is not checked: break before it")
            for code in re.findall(r"`([^`]+)`", whole) if page != HISTORY else []:
                check_code(page, number, code, program, makefiles)
                check_path(page, number, code)
        number += 1 + line.count("\0")


def resume_rules(program):
    """The rule of each setting of a run that resumes, from the end of the help page."""
    text = output_of(program.path, "train", "--help").split("What may change when resuming\n")[1]
    rules = re.findall(r"(?m)^  (never|only with --allow-changes|freely).*:\n((?:    .*\n)+)", text)
    return {name: rule for rule, names in rules for name in re.findall(r"[a-z][a-z0-9-]*", names)}


def check_resume_rules(page, rules):
    for number, line in enumerate(open(page, encoding="utf-8"), 1):
        row = re.match(r"\| (.*) \| (never|only with `--allow-changes`|freely)", line)
        for name in re.findall(r"`--([a-z0-9-]+)`", row.group(1)) if row else []:
            count("rules")
            if rules.get(name) != row.group(2).replace("`", ""):
                fault(page, number, f"train --help says of --{name}: {rules.get(name)}")


def check_quotes(page):
    text = open(page, encoding="utf-8").read()
    for quote in re.finditer(r"<!-- quotes (\S+) -->\n\n((?: {4}.*\n|\n)+)", text):
        count("quotes")
        line = text[:quote.start()].count("\n") + 1
        path, code = quote.group(1), textwrap.dedent(quote.group(2)).strip("\n")
        if not os.path.exists(path):
            fault(page, line, f"{path} does not exist")
        elif code not in open(path, encoding="utf-8").read():
            fault(page, line, f"the code below is not what {path} has: copy it again")


def check_picture(program, picture, options):
    with tempfile.TemporaryDirectory() as directory:
        drawn = os.path.join(directory, "drawn.svg")
        output_of(program.path, "plan", *options, "--picture", drawn)
        text = open(drawn, encoding="utf-8").read()
    count("pictures")
    if open(picture, encoding="utf-8").read() != text:
        fault(picture, 1, "is not what plan draws today; draw it again by `make pictures`")
    names = [element.tag.split("}")[-1] for element in xml.etree.ElementTree.fromstring(text)]
    if names[:2] != ["title", "desc"]:
        fault(picture, 1, "has no title and description for screen readers")


def check_site(site):
    pages = glob.glob(os.path.join(site, "**", "*.html"), recursive=True)
    sheets = glob.glob(os.path.join(site, "**", "*.css"), recursive=True)
    if not pages:
        fault(site, 1, "holds no page")
    loads = r"""<(?:script|img|iframe|source|link)\b[^>]*?(?:src|href)=["'](?:https?:)?//[^"']*"""
    for path in pages + sheets:
        count("built files")
        text = open(path, encoding="utf-8").read()
        for found in re.findall(loads + r"""|url\(["']?(?:https?:)?//[^)]*""", text):
            if 'rel="canonical"' not in found:
                fault(path, 1, f"loads from another host: {found}")


def main():
    program = Program(sys.argv[1])
    makefiles = Makefiles(["Makefile", "test/harness/builds.mk"])
    rules = resume_rules(program)
    for page in PAGES:
        check_page(page, program, makefiles)
        check_resume_rules(page, rules)
        check_quotes(page)
    lines = len(open("README.md", encoding="utf-8").readlines())
    if lines > README_LINES:
        fault("README.md", lines, f"is longer than {README_LINES} lines")
    for picture, options in PICTURES.items():
        check_picture(program, picture, options)
    if len(sys.argv) > 2:
        check_site(sys.argv[2])
    for line in faults:
        print(line)
    for kind in ("links", "paths", "commands", "options", "targets", "rules", "quotes"):
        if not checked.get(kind):
            faults.append(kind)
            print(f"check_docs: no {kind} found, so nothing was checked")
    print("check_docs:", ", ".join(f"{n} {kind}" for kind, n in checked.items()),
          f"in {len(PAGES)} pages; {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
