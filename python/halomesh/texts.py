# SPDX-License-Identifier: Apache-2.0
"""Numbers and tables as text for people, and statistics of a few values."""
import math
import re
import statistics
from typing import NamedTuple

# Control characters, halves of surrogates and others that XML has no place for.
NO_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def clean(value):
    """A text that XML can hold, of the type that it has; anything else as it is."""
    return type(value)(NO_CHARACTERS.sub("\ufffd", value)) if isinstance(value, str) else value


class Statistics(NamedTuple):
    """Of the finite values among some; NaN where there is none."""

    count: int
    mean: float
    median: float
    least: float
    most: float
    deviation: float  # of a sample, n-1 in the denominator; 0 for one value


def statistics_of(values):
    values = [value for value in values if math.isfinite(value)]
    if not values:
        return Statistics(0, *[math.nan] * 5)
    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1)) if len(values) > 1 else 0.0
    return Statistics(len(values), mean, statistics.median(values), min(values), max(values), deviation)


def shown(value):
    """Whole numbers as such, others with about four significant digits; "-" unless finite."""
    size = abs(value)
    if not math.isfinite(value):
        return "-"
    if size < 1e15 and abs(value - round(value)) <= 1e-9 * size:
        return f"{value:.0f}"
    if size >= 1e15 or size < 1e-3:
        return f"{value:.3g}"
    digits = 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 10 else 3 if size >= 1 else 4
    return f"{value:.{digits}f}"


def with_deviation(values):
    """"12.30 ± 0.41"; the mean alone for one value."""
    return shown(values.mean) + (f" ± {shown(values.deviation)}" if values.count > 1 else "")


def percent(fraction):
    return f"{100 * fraction:.1f} %" if math.isfinite(fraction) else "-"


def with_prefix(value, unit):
    """"1.85 GB/s" or the like: `value` in `unit` with a decimal prefix."""
    if not math.isfinite(value):
        return "-"
    prefix = 0
    while abs(value) >= 1000 and prefix < 5:
        value, prefix = value / 1000, prefix + 1
    return f"{value:.3g} {['', 'k', 'M', 'G', 'T', 'P'][prefix]}{unit}"


def duration(seconds):
    """"96.4 s", "12.5 min" or "3.21 h"."""
    if abs(seconds) < 120:
        return shown(seconds) + " s"
    return shown(seconds / 60) + " min" if abs(seconds) < 7200 else shown(seconds / 3600) + " h"


def clock(seconds):
    """"42 s", "12 min 05 s" or "3 h 05 min"."""
    whole = round(min(max(seconds, 0), 1e12))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def readable(value):
    """A number of an axis or a table: "12,345", "0.0123", "3×10⁻⁷"."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "-∞"
    size = abs(value)
    if size == 0:
        return "0"
    exponent = math.floor(math.log10(size) + 1e-9)
    if size == math.floor(size) and size < 1e15:
        digits, exponent = f"{value:.0f}", 0
    elif -4 <= exponent < 9:
        digits, exponent = f"{value:.{max(0, 4 - exponent)}f}", 0
    else:
        digits = f"{value / 10.0 ** exponent:.4f}"
    if "." in digits:
        digits = digits.rstrip("0").rstrip(".")
    if size >= 10000 and exponent == 0:
        whole, _, rest = digits.partition(".")
        digits = f"{int(whole):,}" + (f".{rest}" if rest else "")
    power = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return digits if exponent == 0 else f"{digits}×10{power}"


def aligned(columns, alignment, rows):
    """A table as lines; `alignment` has a character per column: '<' for text, '>' for numbers."""
    rows = [columns, *rows]
    widths = [max(len(row[c]) for row in rows) for c in range(len(columns))]
    return "\n".join("".join(f"  {cell:{side}{width}}" for cell, side, width in
                             zip(row, alignment, widths)).rstrip() for row in rows)


def plural(count, name):
    return f"{count} {name}{'' if count == 1 else 's'}"
