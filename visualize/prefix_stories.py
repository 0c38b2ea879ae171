"""Prefix stories: prompts that begin as an earlier text did, and find its blocks."""

from visualize.story import Arrival, Scenario

EXAMPLES = "HAMLET: to think.\nLEAR: to weep.\nIAGO: to lie.\nPUCK: to laugh.\n"

SHARED_PREFIX = Scenario(
    name="shared-prefix",
    title="the same examples before every question: they are computed once",
    before="a b. c d.",
    after="x.",
    arrivals=(
        Arrival(0, "A", EXAMPLES + "ROMEO:", 10),
        Arrival(6, "B", EXAMPLES + "JULIET:", 8),
        Arrival(20, "C", EXAMPLES + "MACBETH:", 9),
        Arrival(31, "D", EXAMPLES + "FALSTAFF:", 9),
        Arrival(42, "E", EXAMPLES + "OTHELLO:", 6),
    ),
    settings={"num_blocks": 20, "block_size": 4, "max_num_seqs": 4, "max_num_batched_tokens": 16},
)

CHAT = Scenario(
    name="chat",
    title="a conversation: each turn begins with all that was said before",
    before="a b. c d.",
    after="x.",
    arrivals=(
        Arrival(0, "A1", "HAMLET:\nWho's there?\nGHOST:\n", 10),
        Arrival(4, "B1", "ROMEO:\nWhat light?\nNURSE:\n", 9),
        Arrival(15, "A2", "\nHAMLET:\nSpeak to me.\nGHOST:\n", 10, after="A1"),
        Arrival(22, "B2", "\nROMEO:\nWhere?\nNURSE:\n", 9, after="B1"),
        Arrival(33, "A3", "\nHAMLET:\nAlas!\nGHOST:\n", 8, after="A2"),
    ),
    settings={"num_blocks": 30, "block_size": 4, "max_num_seqs": 4, "max_num_batched_tokens": 16},
)
