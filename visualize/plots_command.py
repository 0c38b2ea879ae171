"""python -m visualize.plots FILE: the figures of what `python -m minipaged bench serve --json` printed, as SVG files.

Throughput against latency, a point for each line or, where several rates were tried, one for each rate; the batch
curve with what the lines reached; and memory over time, a figure for each line at its last rate.
"""

import json
import os

from minipaged.commandline import Parser
from visualize.charts import draw_lines

USES = {"states": "token states", "reserved": "reserved", "internal": "internal", "external": "external",
        "rounding": "rounding", "cached": "cached"}  # fmt: skip


def draw_speed(rows, title="Throughput against latency"):
    """rows: "lines" of the JSON. Right is more tokens, low is less waiting."""
    series = {}
    for row in sorted(rows, key=lambda row: row["rate"] or 0):
        if row["output_tokens_per_s"] is not None:
            point = row["output_tokens_per_s"], row["normalized_s"]["mean"]
            series.setdefault(row["line"], []).append(point)
    return draw_lines(series, "output tokens a second", "normalized latency, s a token", title) if series else None


def draw_curve(points, rows, title="The batch curve"):
    """points: "curve" of the JSON; rows: its "lines", each where it stood while somebody waited."""
    series = {"curve": sorted((each["running"], each["tokens_per_s"]) for each in points)}
    series |= {row["line"]: [(row["running"], row["busy_tokens_per_s"])] for row in rows}
    return draw_lines(series, "requests that run at once", "tokens a second", title)


def draw_memory(row):
    """What a line's memory was used for over time, in percent of the pool. row: one of "lines"."""
    over = row["over_time"]
    used = {name: shares for name, shares in over["kv"].items() if any(shares)}
    series = {
        USES[name]: [(at, 100 * share) for at, share in zip(over["end_s"], shares)] for name, shares in used.items()
    }
    series = series or {USES["states"]: [(at, 0) for at in over["end_s"]]}
    return draw_lines(series, "seconds", "% of the slots", f"Memory over time: {row['line']}", markers=False)


def figures(told, path):
    """{name: Picture} of the JSON in a file. Raises ValueError, naming the file, where it is none of `bench serve`."""
    try:
        made = {"latency": draw_speed(told["lines"])}
        if told["curve"]:
            made["curve"] = draw_curve(told["curve"], [row for row in told["lines"] if row["rate"] == first_rate(told)])
        last = {row["line"]: row for row in told["lines"]}
        made |= {f"memory-{name.replace('+', '-')}": draw_memory(row) for name, row in last.items()}
    except (KeyError, TypeError, AttributeError) as error:
        wrong = f"{type(error).__name__}: {error}"
        raise ValueError(f"{path}: not what `bench serve --json` prints ({wrong:.80})") from None
    made = {name: picture for name, picture in made.items() if picture is not None}
    if not made:
        raise ValueError(f"{path}: no line was measured, so there is nothing to draw")
    return made


def first_rate(told):
    return told["lines"][0]["rate"] if told["lines"] else None


def read(path):
    """The JSON in a file. Raises ValueError, naming it, where there is none in it."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (ValueError, RecursionError):
        raise ValueError(f"{path}: must be JSON, as `bench serve --json` prints it") from None


def main(argv=None):
    """Draw, and say what was written. Raises ValueError for a file that isn't one, OSError where it can't be read or a
    figure can't be written."""
    parser = Parser(prog="python -m visualize.plots", description=__doc__.split("\n\n")[0].split(": ", 1)[1])
    parser.add_argument("file", help="what `bench serve --json` printed")
    parser.add_argument("--out", default=None, help="a folder for the figures (default: the file's own)")
    options = parser.parse_args(argv)
    made = figures(read(options.file), options.file)
    folder = options.out or os.path.dirname(options.file)
    stem = os.path.splitext(os.path.basename(options.file))[0]
    for name, picture in made.items():
        path = os.path.join(folder, f"{stem}-{name}.svg")
        picture.save(path)
        print(f"{path}: {picture.alt:.100}")
