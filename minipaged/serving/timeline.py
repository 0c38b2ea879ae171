"""Timeline: when what happened to a request, and what the shortage of memory cost it.

Seconds on whatever clock the scheduler was given: the machine's, or a simulated one. When each token came is noted by
its Sequence. Lesson 09 reads them. (vLLM: v1/metrics/stats.py, RequestStateStats.)
"""

from dataclasses import dataclass


@dataclass
class Timeline:
    """Seconds; None for what has not happened yet."""

    arrival: float | None = None
    first_scheduled: float | None = None  # the beginning of the first step that computes some of it
    finish: float | None = None  # the end of the step that gave its last token, or when it was aborted
    num_preemptions: int = 0
    num_recomputed_tokens: int = 0  # dropped by preemptions, less what was found in the prefix cache on return
    num_swapped_blocks: int = 0  # copied to the host pool, and copied back
    num_dropped_tokens: int = 0  # by the last preemption, while it has not come back

    def preempted(self, num_dropped_tokens, num_swapped_blocks):
        """It had to yield."""
        self.num_preemptions += 1
        self.num_dropped_tokens = num_dropped_tokens
        self.num_swapped_blocks += num_swapped_blocks

    def recomputed(self, num_cached_tokens):
        """It enters, and what was dropped is computed again, but for what is cached."""
        self.num_recomputed_tokens += max(0, self.num_dropped_tokens - num_cached_tokens)
        self.num_dropped_tokens = 0
