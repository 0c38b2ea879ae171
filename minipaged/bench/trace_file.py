"""Traces from files: who asked when, for how many tokens. Three forms, told apart by their first line.

    TIMESTAMP,ContextTokens,GeneratedTokens                     CSV with Azure's columns; times are dates
    num_prefill_tokens,num_decode_tokens                        CSV of lengths, or prompt_tokens,output_tokens; no times
    {"timestamp": ms, "input_length": n, "output_length": m}    JSON lines in Mooncake's form

A file may be gzip. It is read line by line, however long it is, and a bad line is named by its number.
"""

import csv
import json
import math
import os
from datetime import datetime, timezone

from minipaged.arguments import real
from minipaged.bench.measure import progress
from minipaged.bench.trace_hits import lines_of
from minipaged.bench.workload import Asked

MAX_TOKENS = 10**7  # what is longer is no request
LENGTHS = (
    ("ContextTokens", "GeneratedTokens"),
    ("num_prefill_tokens", "num_decode_tokens"),
    ("prompt_tokens", "output_tokens"),
)
EVERY = 10_000  # lines, after which progress is shown


def read(path, most=None):
    """The requests of a file, a list of Asked in order of arrival; the first comes at 0, and all do where the file has
    no times. most: read only so many. Raises ValueError, naming the line, for whatever is no such file."""
    times, lengths, columns = [], [], None
    for number, line in lines_of(path, "--workload"):
        if number % EVERY == 0:
            progress(f"{os.path.basename(path)}: {number:,} lines")
        try:
            text = line.decode("utf-8-sig").strip()
            if not text:
                continue
            if columns is None and not text.startswith("{"):
                columns = columns_of(text)
                continue
            time, *pair = of_json(text) if columns is None else of_csv(text, columns)
        except UnicodeDecodeError:
            raise ValueError(f"--workload {path}: line {number}: must be UTF-8") from None
        except ValueError as error:
            raise ValueError(f"--workload {path}: line {number}: {error}") from None
        times.append(time)
        lengths.append(pair)
        if len(lengths) == most:
            break
    progress()
    if not lengths:
        raise ValueError(f"--workload {path}: holds no request: at least 1 line must tell of one")
    first = min(times)
    return sorted((Asked(time - first, *pair) for time, pair in zip(times, lengths)), key=lambda each: each.arrival)


def columns_of(text):
    """The header of a CSV file -> its columns: (time or None, prompt, output), as indices."""
    names = [name.strip() for name in next(csv.reader([text]))]
    for pair in LENGTHS:
        if set(pair) <= set(names):
            time = names.index("TIMESTAMP") if "TIMESTAMP" in names else None
            return time, *map(names.index, pair)
    for pair in LENGTHS:
        if found := set(pair) & set(names):
            [missing] = set(pair) - found
            raise ValueError(f"has no column {missing}, beside {found.pop()}")
    allowed = " or ".join(",".join(pair) for pair in LENGTHS)
    raise ValueError(f"{text[:60]!r}: must be JSON, or name the columns {allowed}")


def of_csv(text, columns):
    """-> (seconds, prompt tokens, output tokens)"""
    cells = next(csv.reader([text]))
    if len(cells) <= max(each for each in columns if each is not None):
        raise ValueError(f"has {len(cells)} columns, fewer than the first line names")
    time, prompt, output = columns
    return (
        0.0 if time is None else seconds(cells[time]),
        tokens("prompt", cells[prompt]),
        tokens("output", cells[output]),
    )


def of_json(text):
    """-> (seconds, prompt tokens, output tokens)"""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"must be JSON: {getattr(error, 'msg', 'nested too deeply')}") from None
    for name in ("timestamp", "input_length", "output_length"):
        if name not in record:
            raise ValueError(f"has no {name}")
    time = real("timestamp", record["timestamp"], lambda number: number >= 0, "a number of milliseconds, 0 or more")
    return time / 1e3, tokens("input_length", record["input_length"]), tokens("output_length", record["output_length"])


def seconds(text):
    """ "2023-11-16 18:15:46.6805900" -> seconds. Python reads 6 digits of a fraction, and the trace has 7."""
    whole, _, fraction = text.strip().partition(".")
    try:
        return datetime.fromisoformat(whole).replace(tzinfo=timezone.utc).timestamp() + float(f"0.{fraction or 0}")
    except ValueError:
        raise ValueError(f"TIMESTAMP {text[:40]!r}: must be a date and a time") from None


def tokens(name, value):
    """A number of tokens: 1 to MAX_TOKENS."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if number % 1 or not 1 <= number <= MAX_TOKENS:
        raise ValueError(f"{name} {str(value)[:40]!r}: must be a whole number of tokens from 1 to {MAX_TOKENS:,}")
    return int(number)
