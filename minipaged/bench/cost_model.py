"""What a step would cost on a machine that isn't here: a formula for its time, and a clock that goes by it.

With it the real scheduler and the real memory run a 13B model on an A100 that nobody has to own (timed_run.py). It
computes nothing and imports no torch. `python -m minipaged bench cost-model` fits the formula to this machine
(fit_costs.py). Lessons 08 and 09 use it.
"""

from dataclasses import dataclass

from minipaged.arguments import real


@dataclass(frozen=True)
class CostModel:
    """The time of one step, from what its plan says:

        step_ms + row_ms * rows + max(weights_ms, token_ms * tokens) + context_ms * context  + the swapped blocks

    rows: how many sequences take part. tokens: how many tokens they compute together. context: how many keys they read
    together, those computed in this step included. The four terms: what a step costs however little it does; what a
    sequence costs the host (its row of the batch, its sample); the weights, which are read once however many tokens
    use them, until computing takes longer than reading; K and V, which every row reads for itself.

    Swapped blocks are copied before the step, one after another, and nothing else goes on: as vLLM did when the paper
    was written. A block is copies_per_block copies (K and V of a layer lie apart), and each costs copy_us, which is
    what makes small blocks costly (paper: section 7.3). Copies within the device (copy-on-write) are left out: a block
    of 16 OPT-13B tokens takes 17 us.

    What the formula doesn't know: a long chunk's attention grows with tokens * context. Every time but copy_us is in
    milliseconds; num_slots is the KV cache in tokens. Raises ValueError for a negative number.
    """

    name: str
    step_ms: float
    row_ms: float
    weights_ms: float
    token_ms: float
    context_ms: float
    num_slots: int = 0
    bytes_per_token: int = 0  # of K and V, all layers
    copies_per_block: int = 0
    copy_us: float = 0.0
    pcie_gb_per_s: float = 1.0  # 10**9 bytes a second, one way

    def __post_init__(self):
        times = "step_ms", "row_ms", "weights_ms", "token_ms", "context_ms", "copy_us"
        for name in (*times, "num_slots", "bytes_per_token", "copies_per_block"):
            real(name, getattr(self, name), lambda number: number >= 0, "0 or a positive number")
        real("pcie_gb_per_s", self.pcie_gb_per_s, lambda number: number > 0, "a positive number")

    def step_seconds(self, num_rows, num_tokens, context):
        """A step without swaps. One without rows takes no time: the model isn't called."""
        if num_rows == 0:
            return 0.0
        computed = max(self.weights_ms, self.token_ms * num_tokens)
        return (self.step_ms + self.row_ms * num_rows + computed + self.context_ms * context) / 1e3

    def swap_seconds(self, num_blocks, block_size):
        """So many blocks copied to the host, or back."""
        copies = num_blocks * self.copies_per_block * self.copy_us / 1e6
        return copies + num_blocks * block_size * self.bytes_per_token / (self.pcie_gb_per_s * 1e9)

    def plan_seconds(self, plan, block_size):
        """One step of a scheduler: its rows, and the blocks that it swaps."""
        num_tokens = sum(row.num_tokens for row in plan.rows)
        context = sum(row.start + row.num_tokens for row in plan.rows)
        swapped = len(plan.swap_out) + len(plan.swap_in)
        return self.step_seconds(len(plan.rows), num_tokens, context) + self.swap_seconds(swapped, block_size)


# Weights: 26 GB at 1.5 TB/s; K and V: 800 KiB a token at the same. token_ms is what 13e9 * 2 operations take at about
# 200 TFLOP/s. step_ms and row_ms are calibrated, not measured: with them paged memory serves ShareGPT at 2 requests
# a second with the 30.42 running requests of the paper's Figure 13. num_slots: Table 1. Assumed, not the paper's: 25
# GB/s (PCIe 4.0 x16, pinned memory), and 6 us a copy, since one cudaMemcpyAsync of a small block was measured at 5 to
# 7 us (Wu et al., DualPath, arXiv 2602.21548, section 5.2, seen in a summary only).
OPT_13B = CostModel(
    "OPT-13B, one A100-40", 8.5, 0.29, 17.3, 0.13, 0.00055,
    num_slots=15_728, bytes_per_token=819_200, copies_per_block=2 * 40, copy_us=6.0, pcie_gb_per_s=25.0,
)  # fmt: skip

# 350 GB of weights on eight GPUs at 1.72 TB/s each. step_ms and row_ms are those of OPT-13B, for want of better. Eight
# GPUs copy their eighth of each block at the same time: assumed.
OPT_175B = CostModel(
    "OPT-175B, eight A100-80", 8.5, 0.29, 25.4, 0.22, 0.00035,
    num_slots=60_100, bytes_per_token=4_718_592, copies_per_block=2 * 96, copy_us=6.0, pcie_gb_per_s=8 * 25.0,
)  # fmt: skip

PRESETS = {"opt-13b": OPT_13B, "opt-175b": OPT_175B}


class Clock:
    """A clock that stands still until somebody moves it. Called, it returns the seconds since its start: it can be
    given to a Scheduler in the place of time.monotonic."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def advance(self, seconds):
        """Move on. Raises ValueError for a negative number."""
        self.now += real("seconds", seconds, lambda number: number >= 0, "0 or a positive number")

    def advance_to(self, moment):
        """Move on to a moment. Raises ValueError for one that is past."""
        if not moment >= self.now:
            raise ValueError(f"moment={moment}: the clock stands at {self.now} already, and doesn't go back")
        self.now = moment


def main(argv=None):
    """Fit the formula to this machine. Raises ValueError for a value that isn't allowed."""
    from minipaged.bench import fit_costs

    fit_costs.main(argv)
