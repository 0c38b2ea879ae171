"""Pressure stories: what becomes of who must yield, a long prompt in chunks, and a memory that holds more tokens."""

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
    before=(
        "At step 7 the pool is full and C, the newest, has to yield: its blocks are dropped and its tokens kept. "
        "Watch steps 11 to 13, in which K and V of its 35 tokens are computed once more before it says anything new."
    ),
    after=(
        "C said nothing from step 7 to step 12, and of these six steps the last two went into what it had computed "
        "before."
    ),
    arrivals=THREE,
    settings=SETTINGS,
)

PREEMPTION_SWAP = Scenario(
    name="preemption-swap",
    title="who yields goes to the host pool with its blocks, and comes back",
    before=(
        "These are the requests and the pool of preemption-recompute, and again C has to yield at step 7: now its 9 "
        "blocks are copied to a second pool, in the host's memory. "
        "Watch step 11, in which they come back into other blocks than before and C goes on with its next token."
    ),
    after=(
        "18 copies of a block took the place of 35 tokens computed twice, and the run was two steps shorter than by "
        "recompute."
    ),
    arrivals=THREE,
    settings=SETTINGS | {"preemption": "swap", "swap_blocks": 10},
)

CHUNKED_PREFILL = Scenario(
    name="chunked-prefill",
    title="a long prompt enters in chunks, while others go on",
    before=(
        "A and B are generating when C arrives with a prompt of 45 tokens, and no step may compute more than 16. "
        "Watch the budget line: A and B have their token in every step, and C's prompt gets the 14 that they leave."
    ),
    after=(
        "C's prompt took four steps, of 14, 14, 14 and 3 tokens, and in none of them did A or B wait for their next "
        "token."
    ),
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

QUANTISED = Scenario(
    name="quantised",
    title="the same requests in the same bytes, first as float16, then as int8",
    before=(
        "Four requests share 72 KiB, in which K and V are stored as float16, and then once more as int8. "
        "Watch how many blocks there are: fewer bytes for a token are more tokens in the same memory."
    ),
    after="In the bytes for which two requests had to yield before, all four ran side by side to their ends.",
    arrivals=tuple(
        Arrival(0, name, f"{speaker}:\n{words}", 20)
        for name, speaker, words in (
            ("A", "ROMEO", "But, soft!"),
            ("B", "PORTIA", "The quality of mercy"),
            ("C", "IAGO", "Put money"),
            ("D", "PUCK", "Lord, what fools"),
        )
    ),
    settings={
        "kv_memory": "72KiB",
        "block_size": 4,
        "max_num_seqs": 5,
        "max_num_batched_tokens": 20,
        "enable_prefix_caching": False,
    },
    cache_dtypes=("float16", "int8"),
)
