"""Prefix stories: prompts that begin as an earlier text did, and find its blocks in the pool."""

from visualize.story import Arrival, Scenario

EXAMPLES = "HAMLET: to think.\nLEAR: to weep.\nIAGO: to lie.\nPUCK: to laugh.\n"

SHARED_PREFIX = Scenario(
    name="shared-prefix",
    title="five questions after the same examples, which are computed once",
    before=(
        "Five questions come after the same four examples, and a prompt that begins as an earlier one did finds its "
        "full blocks instead of computing them again. "
        "Watch blocks 0 to 7, which hold the examples: nobody owns them when C arrives, and it finds them all the same."
    ),
    after=(
        "The examples were computed once, by A: each of the four others found 32 tokens of its prompt, and nothing was "
        "evicted but old endings."
    ),
    arrivals=(
        Arrival(0, "A", f"{EXAMPLES}ROMEO:", 9),
        Arrival(6, "B", f"{EXAMPLES}JULIET:", 7),
        Arrival(15, "C", f"{EXAMPLES}MACBETH:", 8),
        Arrival(25, "D", f"{EXAMPLES}FALSTAFF:", 9),
        Arrival(35, "E", f"{EXAMPLES}OTHELLO:", 6),
    ),
    settings={"num_blocks": 18, "block_size": 4, "max_num_seqs": 4, "max_num_batched_tokens": 16},
)

CHAT = Scenario(
    name="chat",
    title="two conversations: each turn begins with all that was said before",
    before=(
        "Two conversations take turns, and the prompt of a turn is all that was said before in it, token by token, and "
        "some new words. "
        "Watch A2 arrive: it finds the blocks of A1's prompt and those of A1's answer, though A1 has given them up."
    ),
    after="Every later turn found all the full blocks of the turn before it, and computed only what came after them.",
    arrivals=(
        Arrival(0, "A1", "HAMLET:\nWho's there?\nGHOST:\n", 10),
        Arrival(3, "B1", "ROMEO:\nWhat light?\nNURSE:\n", 9),
        Arrival(12, "A2", "\nHAMLET:\nSpeak.\nGHOST:\n", 9, after="A1"),
        Arrival(20, "B2", "\nROMEO:\nWhere?\nNURSE:\n", 7, after="B1"),
        Arrival(30, "A3", "\nHAMLET:\nAlas!\nGHOST:\n", 8, after="A2"),
    ),
    settings={"num_blocks": 27, "block_size": 4, "max_num_seqs": 4, "max_num_batched_tokens": 16},
)
