"""Pressure stories: what becomes of who must yield, twice with the same requests, and a long prompt in chunks."""

from visualize.story import Arrival, Scenario

THREE = (
    Arrival(0, "A", "HAMLET:\nTo be, or not to be:", 18),
    Arrival(0, "B", "LEAR:\nBlow, winds, and crack", 9),
    Arrival(1, "C", "JULIET:\nO Romeo, Romeo, wherefore art thou Romeo?\nDeny thy father and refuse", 12),
)
SETTINGS = {
    "num_blocks": 19,
    "block_size": 4,
    "max_num_seqs": 4,
    "max_num_batched_tokens": 16,
    "enable_prefix_caching": False,
}

PREEMPTION_RECOMPUTE = Scenario(
    name="preemption-recompute",
    title="who yields drops its blocks and computes its tokens again",
    before="A. B.",
    after="C.",
    arrivals=THREE,
    settings=SETTINGS,
)

PREEMPTION_SWAP = Scenario(
    name="preemption-swap",
    title="who yields goes to the host pool with its blocks, and comes back",
    before="A. B.",
    after="C.",
    arrivals=THREE,
    settings=SETTINGS | {"preemption": "swap", "swap_blocks": 10},
)

CHUNKED_PREFILL = Scenario(
    name="chunked-prefill",
    title="a long prompt enters in chunks, while others go on",
    before="A. B.",
    after="C.",
    arrivals=(
        Arrival(0, "A", "ROMEO:\nBut, soft!", 16),
        Arrival(0, "B", "VIOLA:\nO time,", 15),
        Arrival(
            4,
            "C",
            "HAMLET:\nTo be, or not to be: that is the question:\nWhether 'tis nobler in the mind to suffer\n"
            "The slings and arrows",
            7,
        ),
    ),
    settings=SETTINGS | {"num_blocks": 30},
)
