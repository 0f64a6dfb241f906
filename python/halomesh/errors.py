# SPDX-License-Identifier: Apache-2.0
"""Errors that a user can act on, and text that may be shown on a terminal."""


class Error(Exception):
    """A failure and its remedy: what happened and where, and a hint at how to fix it."""

    exit_code = 1

    def __init__(self, what, hint=""):
        super().__init__(what)
        self.hint = hint


class UsageError(Error):
    """A request that makes no sense, found before any work is done."""

    exit_code = 2


def reason_of(error):
    """The words of the system for an OSError."""
    return error.strerror or str(error)


def plain(text):
    """The text without control characters, which could steer a terminal."""
    return "".join(c if c == "\n" or c.isprintable() else "?" for c in text)
