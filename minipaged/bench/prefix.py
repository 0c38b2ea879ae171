"""What prefix caching saves: the time to a prompt's first token, by how much of it all prompts share.

For each share, one request computes the shared beginning first. Then come requests that begin with it and go on each in
its own way, one at a time, with the cache and without in turn. With --trace: how many blocks of a trace's prompts are
hit, by the size of the pool; no model.
"""

import json
import random
import statistics
import time
from typing import NamedTuple

from minipaged.bench import trace_hits
from minipaged.bench.measure import Spread, progress, table, whole_list, whole_option
from minipaged.commandline import Parser
from minipaged.memory.block_table import blocks_for
from minipaged.serving.sequence import SamplingParams

BLOCK_SIZE = 16
MAX_BLOCKS = 2**20  # of a pool for --trace
ONE_TOKEN = SamplingParams(temperature=0, max_tokens=1, ignore_eos=True)
DEFAULTS = {"shared": "0,50,80,95", "prompt_tokens": "640", "requests": "16", "runs": "5"}
DEFAULT_POOLS = "1000,3000,10000,30000"


class Served(NamedTuple):
    """What a request's first token took. hit and computed count tokens of the prompt."""

    ms: float
    hit: int
    computed: int
    token: int


def engine(num_tokens, caching):
    """An engine for one prompt of num_tokens at a time, computed in one step, in a pool that holds four of them.

    In that pool blocks are evicted all the time. Those of the shared beginning never are: each request uses them anew.
    """
    from minipaged.serving.llm import LLM  # here: --trace needs no torch

    return LLM(
        block_size=BLOCK_SIZE,
        num_blocks=4 * blocks_for(num_tokens, BLOCK_SIZE),
        max_num_seqs=1,
        max_num_batched_tokens=num_tokens,
        enable_prefix_caching=caching,
        events=False,
    ).engine


def prompt(number, num_shared, num_tokens, vocab_size):
    """The shared tokens, the same for every number; then the number, and random tokens. So no two prompts have more in
    common than what is shared."""
    shared, own = random.Random("shared"), random.Random(number)
    own_tokens = [own.randrange(vocab_size) for _ in range(num_tokens - num_shared - 1)]
    return [*(shared.randrange(vocab_size) for _ in range(num_shared)), number, *own_tokens]


def first_token(engine, token_ids):
    """Run one request up to its first token, which is its last. What was computed is counted from the plans' rows."""
    computed, requests = 0, ()
    start = time.perf_counter()
    engine.add(token_ids, ONE_TOKEN)
    while not requests:
        result = engine.step()
        computed += sum(row.num_tokens for row in result.plan.rows)
        requests = result.requests
    ms = 1e3 * (time.perf_counter() - start)
    [request] = requests
    return Served(ms, request.num_cached_tokens, computed, request.sequences[0].token_ids[-1])


def demand(served, num_tokens, hit):
    """The benchmark is wrong, and shows nothing, unless exactly `hit` of the prompt's tokens were hit, and exactly the
    others computed."""
    if (served.hit, served.computed) != (hit, num_tokens - hit):
        raise RuntimeError(
            f"{served.hit} tokens hit and {served.computed} computed: {hit} of {num_tokens} should have been hit"
        )


def measure(share, num_tokens, num_requests, runs):
    """One share, in percent. Returns a dict: tokens of each kind, and times of both sides."""
    num_shared = num_tokens * share // 100
    hit = num_shared // BLOCK_SIZE * BLOCK_SIZE  # full blocks only
    sides = {"on": (engine(num_tokens, caching=True), hit), "off": (engine(num_tokens, caching=False), 0)}
    vocab_size = sides["on"][0].vocab_size
    for side, _ in sides.values():
        demand(first_token(side, prompt(0, num_shared, num_tokens, vocab_size)), num_tokens, hit=0)
    medians, same, number = {"on": [], "off": []}, 0, 0
    for run in range(runs):
        progress(f"{share}% shared: run {run + 1} of {runs}")
        times = {"on": [], "off": []}
        for _ in range(num_requests):
            number += 1
            token_ids, tokens = prompt(number, num_shared, num_tokens, vocab_size), set()
            for name in ("on", "off") if number % 2 else ("off", "on"):
                side, side_hit = sides[name]
                served = first_token(side, token_ids)
                demand(served, num_tokens, side_hit)
                times[name].append(served.ms)
                tokens.add(served.token)
            same += len(tokens) == 1
        for name, values in times.items():
            medians[name].append(statistics.median(values))
    progress()
    return {
        "shared_percent": share,
        "shared_tokens": num_shared,
        "hit_tokens": hit,
        "computed_tokens": num_tokens - hit,
        "on_ms": Spread.of(medians["on"])._asdict(),
        "off_ms": Spread.of(medians["off"])._asdict(),
        "ratio": Spread.of([on / off for on, off in zip(medians["on"], medians["off"])])._asdict(),
        "same_token": same,
    }


def main(argv=None):
    """Measure and print. Raises ValueError for a value that isn't allowed."""
    parser = Parser(prog="python -m minipaged bench prefix", description=__doc__)
    for name, text in (
        ("shared", "how many percent of a prompt all share, a list"),
        ("prompt_tokens", "tokens in a prompt"),
        ("requests", "requests in a run"),
        ("runs", "runs of each share"),
    ):
        parser.add_argument(option(name), help=f"{text} (default: {DEFAULTS[name]})")
    parser.add_argument("--trace", metavar="FILE", help="JSON lines as Mooncake published them, gzip or not")
    parser.add_argument("--num-blocks", help=f"pools for --trace, in blocks of 512, a list (default: {DEFAULT_POOLS})")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(argv)
    if options.trace is not None:
        for name in DEFAULTS:
            if getattr(options, name) is not None:
                raise ValueError(f"--trace with {option(name)}: a trace brings its own prompts; leave one out")
        pools = whole_list("--num-blocks", DEFAULT_POOLS if options.num_blocks is None else options.num_blocks)
        for num_blocks in pools:
            if num_blocks > MAX_BLOCKS:
                raise ValueError(f"--num-blocks={num_blocks}: at most {MAX_BLOCKS:,}")
        trace_hits.run(options.trace, pools, options.json)
        return
    if options.num_blocks is not None:
        raise ValueError("--num-blocks without --trace: the other benchmark's pool holds four prompts; leave it out")
    first_tokens(options)


def first_tokens(options):
    """The benchmark without --trace."""
    given = {name: getattr(options, name) for name in DEFAULTS}
    given = {name: DEFAULTS[name] if text is None else text for name, text in given.items()}
    shares = whole_list("--shared", given.pop("shared"), least=0, most=99)
    num_tokens, num_requests, runs = (whole_option(option(name), text) for name, text in given.items())
    probe = engine(1, caching=False)
    if num_tokens >= probe.max_model_len:
        raise ValueError(f"--prompt-tokens={num_tokens}: at most {probe.max_model_len - 1}, for the model's context")
    if num_requests * runs >= probe.vocab_size:  # each goes on with a token of its own
        raise ValueError(f"--requests={num_requests} and --runs={runs}: at most {probe.vocab_size - 1} prompts in all")
    rows = [measure(share, num_tokens, num_requests, runs) for share in shares]
    if options.json:
        about = {"prompt_tokens": num_tokens, "block_size": BLOCK_SIZE, "requests": num_requests, "runs": runs}
        print(json.dumps({**about, "rows": rows}))
        return
    head = ["shared", "prompt", "hit", "computed", "first token, ms: on", "off", "on / off", "same token"]
    lines = []
    for row in rows:
        counts = [str(number) for number in (num_tokens, row["hit_tokens"], row["computed_tokens"])]
        spreads = [Spread(**row[name]).text(digits) for name, digits in (("on_ms", 1), ("off_ms", 1), ("ratio", 2))]
        same = f"{row['same_token']} of {num_requests * runs}"
        lines.append([f"{row['shared_percent']}%", *counts, *spreads, same])
    print(table(head, lines))
    print(
        f"\nTokens of each request, in blocks of {BLOCK_SIZE}, float32. Of a run, the median of its {num_requests} "
        f"requests, one at a time; over {runs} runs: median, least, most."
    )


def option(name):
    return "--" + name.replace("_", "-")
