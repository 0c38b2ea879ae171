"""How many blocks of a trace's prompts a prefix cache hits, by the size of the pool: no model, no tensor.

A trace is what Mooncake published (Qin et al., FAST 2025): one request a line, with the ids of its prompt's blocks of
512 tokens. Two blocks have the same id if all tokens up to their ends are the same. One request at a time goes through
PagedMemory; the answers, of which a trace knows only the length, are ignored.
"""

import gzip
import json
import zlib
from typing import NamedTuple

from minipaged.arguments import real, whole
from minipaged.bench.measure import progress, table
from minipaged.memory.block_table import blocks_for
from minipaged.memory.paged import PagedMemory

BLOCK_SIZE = 512
MAX_LINE = 2**24  # bytes; what is longer is no trace
GZIP = b"\x1f\x8b"  # how such a file begins


class Traced(NamedTuple):
    """A request of a trace: its prompt's length in tokens, and an id for each of its blocks, the last of which may be
    partly filled."""

    input_length: int
    hash_ids: list


def read_trace(path):
    """The requests in a file of JSON lines, gzip or not: list[Traced]. Blank lines are skipped.

    Raises ValueError, naming the line, for whatever is no such trace.
    """
    requests = []
    for number, line in lines_of(path):
        try:
            if line.strip():
                requests.append(traced(line))
        except ValueError as error:
            raise ValueError(f"--trace {path}: line {number}: {error}") from None
    if not requests:
        raise ValueError(f"--trace {path}: holds no request: at least 1 line must not be blank")
    return requests


def lines_of(path, told="--trace"):
    """Pairs of a line's number, from 1, and its bytes. told: the option that named the file, for an error."""
    try:
        with open(path, "rb") as file:
            lines = gzip.GzipFile(fileobj=file) if file.peek(2).startswith(GZIP) else file
            yield from enumerate(iter(lambda: lines.readline(MAX_LINE), b""), 1)
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        raise ValueError(f"{told} {path}: {why}: must be a readable file of lines, gzip or not") from None


def traced(line):
    """One line of a trace -> Traced."""
    try:
        record = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError("must be UTF-8") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"must be JSON: {getattr(error, 'msg', error)}") from None
    if not isinstance(record, dict):
        raise ValueError("must be a JSON object, with input_length and hash_ids")
    for name in ("input_length", "hash_ids"):
        if name not in record:
            raise ValueError(f"has no {name}")
    for name in ("timestamp", "output_length"):  # not used here, but a trace in which they are wrong is no trace
        real(name, record.get(name, 0), lambda value: value >= 0, "a number, 0 or more")
    input_length, hash_ids = whole("input_length", record["input_length"], least=1), record["hash_ids"]
    if not isinstance(hash_ids, list):
        raise ValueError("hash_ids must be a list of whole numbers")
    for hash_id in hash_ids:
        whole("an id in hash_ids", hash_id, least=0, most=2**63 - 1)  # they become token ids of 8 bytes
    num_blocks = blocks_for(input_length, BLOCK_SIZE)
    if len(hash_ids) != num_blocks:
        raise ValueError(
            f"has {len(hash_ids):,} hash_ids for input_length={input_length}: must be {num_blocks:,}, "
            f"one for every {BLOCK_SIZE} tokens or part of them"
        )
    return Traced(input_length, hash_ids)


def token_ids_of(request):
    """A prompt to which the ids apply: the tokens of a block are its id, over and over. So two prompts have equal
    tokens up to the end of a block exactly if they have equal ids up to there. What the tokens really were, a trace
    keeps to itself; for the cache it makes no difference.
    """
    token_ids = [hash_id for hash_id in request.hash_ids for _ in range(BLOCK_SIZE)]
    return token_ids[: request.input_length]


def replay(requests, num_blocks, pool=""):
    """Every request alone, in the order of the trace, through one memory of num_blocks blocks. pool: what the progress
    calls it.

    A prompt longer than the pool is skipped. Returns a dict: blocks hit, blocks evicted, requests skipped.
    """
    memory, hits, skipped = PagedMemory(num_blocks, BLOCK_SIZE), 0, 0
    for i, request in enumerate(requests):
        if i % 100 == 0:
            progress(f"{pool}: request {i:,} of {len(requests):,}")
        if not memory.fits_ever(request.input_length, max_tokens=1):
            skipped += 1
            continue
        name, token_ids = str(i), token_ids_of(request)
        num_cached = memory.admit(name, token_ids)
        memory.grow([(name, len(token_ids) - num_cached)])
        memory.commit(name, token_ids, len(token_ids))
        memory.release(name)
        hits += num_cached // BLOCK_SIZE
    return {"num_blocks": num_blocks, "hits": hits, "evictions": memory.prefix_stats.evictions, "skipped": skipped}


def run(path, pools, as_json):
    """Replay a trace in pools of these sizes and print. Raises ValueError for a file that is no trace."""
    requests = read_trace(path)
    num_ids, rows = sum(len(request.hash_ids) for request in requests), []
    for i, num_blocks in enumerate(pools):
        row = replay(requests, num_blocks, f"pool {i + 1} of {len(pools)}, {num_blocks:,} blocks")
        rows.append({**row, "hit_rate": row["hits"] / num_ids})
    progress()
    if as_json:
        about = {"trace": str(path), "block_size": BLOCK_SIZE, "requests": len(requests), "blocks": num_ids}
        print(json.dumps({**about, "rows": rows}))
        return
    head = ["pool blocks", "blocks hit", "of all", "evicted", "prompts skipped"]
    lines = []
    for row in rows:
        counts = [f"{row[name]:,}" for name in ("num_blocks", "hits", "evictions", "skipped")]
        lines.append([*counts[:2], f"{row['hit_rate']:.2%}", *counts[2:]])
    print(table(head, lines))
    print(f"\n{len(requests):,} prompts of {num_ids:,} blocks of {BLOCK_SIZE} tokens, one after the other, no answers.")
    if any(row["skipped"] for row in rows):
        print("Skipped: prompts longer than the pool. Their blocks are among all, as blocks that were not hit.")
