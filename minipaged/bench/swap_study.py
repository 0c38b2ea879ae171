"""Recompute or swap? What each costs over block sizes, by the cost model: for one sequence, and for whole runs.

A CPU can't show it: there both pools are the same RAM, and a copy is always cheaper than computing. Lesson 09 draws
these numbers. (Paper: section 7.3.)

What comes out, with OPT-13B: small blocks make swapping costly and leave recompute as it is, as in the paper. For
512 tokens the two meet between blocks of 8 and of 16; from there recompute takes up to 2.1 times as long, where the
paper says at most 1.2: its sentence is what a link of about 14 GB/s gives (bandwidth_for), not 25. In whole runs the
two are within 1% of each other from blocks of 16 on, since recompute goes along in steps that others decode in anyway.
"""

import random
from typing import NamedTuple

from minipaged.arguments import whole
from minipaged.bench import timed_run
from minipaged.bench.cost_model import OPT_13B, Clock
from minipaged.memory.block_table import blocks_for
from minipaged.memory.paged import PagedMemory
from minipaged.serving.scheduler import Scheduler

BLOCK_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Return(NamedTuple):
    """What it costs that one sequence yields and comes back, in seconds."""

    block_size: int
    recompute_s: float
    swap_in_s: float
    swap_both_s: float  # out and in again

    @property
    def ratio(self):
        """Recompute's time over swapping's, out and in: below 1, recompute is the better."""
        return self.recompute_s / self.swap_both_s


def returns(num_tokens, cost=OPT_13B, block_sizes=BLOCK_SIZES):
    """A Return for each block size, of a sequence with num_tokens tokens, prompt and generated.

    Recompute: all its tokens in one chunk, a step of its own. So it is the whole step's time, and the same for every
    block size. (In a step that others decode in anyway, up to weights_ms / token_ms of its tokens would be free.)
    Swap: its blocks, whole ones, also where the last is half empty. Raises ValueError for num_tokens < 1.
    """
    whole("num_tokens", num_tokens, least=1)
    recompute_s = cost.step_seconds(1, num_tokens, num_tokens)
    made = []
    for block_size in block_sizes:
        swap_s = cost.swap_seconds(blocks_for(num_tokens, whole("block_size", block_size, least=1)), block_size)
        made.append(Return(block_size, recompute_s, swap_s, 2 * swap_s))
    return made


def bandwidth_for(ratio, num_tokens, cost=OPT_13B, block_size=256):
    """The PCIe bandwidth, in GB/s, at which recompute takes `ratio` times as long as swapping out and in.

    The paper says that recompute never takes more than 1.2 times as long; this says what link that means. Raises
    ValueError where copies take too long by themselves.
    """
    num_blocks = blocks_for(num_tokens, block_size)
    copies_s = 2 * num_blocks * cost.copies_per_block * cost.copy_us / 1e6
    left_s = cost.step_seconds(1, num_tokens, num_tokens) / ratio - copies_s
    if left_s <= 0:
        raise ValueError(f"ratio={ratio}: the copies' own {1e3 * copies_s:.1f} ms are too long for it already")
    return 2 * num_blocks * block_size * cost.bytes_per_token / left_s / 1e9


class Pressure(NamedTuple):
    """A whole run in a pool that is too small, as one line of a table."""

    preemption: str
    block_size: int
    end_s: float
    normalized_latency_s: float
    num_preemptions: int
    num_recomputed_tokens: int
    num_swapped_blocks: int
    swap_s: float


def workload(num_requests=40, rate_per_s=2.0, seed=0):
    """Poisson arrivals, log-normal lengths cut at 1,024 and 1,023 tokens: means of 148 and 320, where ShareGPT's are
    161 and 338. The spread is inferred from the paper's figures, not published. Returns (second, Request) pairs.
    """
    draw, second, made = random.Random(seed), 0.0, []
    for i in range(num_requests):
        second += draw.expovariate(rate_per_s)
        prompt, output = draw.lognormvariate(4.36, 1.2), draw.lognormvariate(5.46, 0.85)
        asked = timed_run.request(str(i), max(1, min(1024, round(prompt))), max(1, min(1023, round(output))))
        made.append((second, asked))
    return made


def pressure(preemption, block_size, num_slots=4096, cost=OPT_13B, num_requests=40, rate_per_s=2.0, seed=0):
    """Serve a workload in a pool of num_slots slots, an equally large one on the host, and say what it took.

    preemption: "recompute" or "swap" (which recomputes too where the host pool is full). Returns a Pressure. Requests,
    times and pool are the same for both, and for every block size.
    """
    clock, num_blocks = Clock(), num_slots // whole("block_size", block_size, least=1, most=num_slots)
    host = {"num_host_blocks": num_blocks} if preemption == "swap" else {}
    memory = PagedMemory(num_blocks, block_size, prefix_caching=False, **host)
    scheduler = Scheduler(memory, 256, 2048, preemption=preemption, clock=clock)
    arrivals = workload(num_requests, rate_per_s, seed)
    run = timed_run.run(scheduler, arrivals, cost, clock, f"{preemption}, block size {block_size}")
    timelines = [asked.timeline for _, asked in arrivals]
    times = sum(each.num_preemptions for each in timelines)
    lost = sum(each.num_recomputed_tokens for each in timelines)
    moved = sum(each.num_swapped_blocks for each in timelines)
    swap_s = cost.swap_seconds(moved, block_size)
    return Pressure(preemption, block_size, run.end_s, run.mean_normalized_latency_s(), times, lost, moved, swap_s)
