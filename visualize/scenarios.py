"""Scenarios: short stories of which requests arrive when, and how large the pool is. Run plays one on an engine.

Arrivals are counted in steps, lengths are fixed and every request brings its own seed, so a scenario moves through
the same blocks every time; only the text depends on --seed.
"""

from difflib import get_close_matches

from minipaged.arguments import size
from minipaged.memory.block_table import blocks_for
from visualize.camera import Camera
from visualize.prefix_stories import CHAT, SHARED_PREFIX
from visualize.pressure_stories import CHUNKED_PREFILL, PREEMPTION_RECOMPUTE, PREEMPTION_SWAP, QUANTISED
from visualize.storage import storage_of
from visualize.story import Arrival, Scenario

OFF = {"enable_prefix_caching": False}  # for stories of something else
MOST_TOGETHER = 8  # sequences that run together where each prompt has several answers

GROWTH = Scenario(
    name="growth",
    title="two requests grow, a block at a time",
    before=(
        "Two requests generate text, and the pool gives each a block only when its last one is full. "
        "Watch the block table: neighbours in the text need not be neighbours in memory."
    ),
    after="At no moment did either of them hold more than one block that was not full.",
    arrivals=(
        Arrival(0, "A", "KING HENRY:\nOnce more unto the breach,", 26),
        Arrival(2, "B", "LEAR:\nBlow, winds,", 9),
    ),
    settings={"num_blocks": 16, "block_size": 4, "max_num_seqs": 2, "max_num_batched_tokens": 16, **OFF},
)

MIXED = Scenario(
    name="mixed",
    title="requests of different lengths share one small pool",
    before=(
        "Five requests of different lengths share 20 blocks, and not all of them fit at once. "
        "Watch blocks change hands: whoever leaves gives them back, and when none is free the newest has to yield."
    ),
    after="All five are done in a pool that could not hold a single one at the model's full length.",
    arrivals=(
        Arrival(0, "A", "HAMLET:\nTo be, or not to be:", 22),
        Arrival(0, "B", "KING RICHARD:\nNow is the winter of our discontent\n", 22),
        Arrival(4, "C", "JULIET:\nO Romeo,", 20),
        Arrival(13, "D", "MACBETH:\nIs this a dagger which I see before me,\n", 22),
        Arrival(16, "E", "FALSTAFF:\n", 16),
    ),
    settings={"num_blocks": 20, "block_size": 4, "max_num_seqs": 4, "max_num_batched_tokens": 16, **OFF},
)

PRESSURE = Scenario(
    name="pressure",
    title="too many requests for the pool: who yields, and who comes back",
    before=(
        "Six requests arrive at once, each small enough to enter and all of them too large to finish together. "
        "Watch the newest yield its blocks, wait at the head of the queue, and compute its tokens again."
    ),
    after="Every request got all its tokens; the ones that yielded paid with tokens computed twice.",
    arrivals=tuple(
        Arrival(0, name, f"{speaker}:\n{words}", 24)
        for name, speaker, words in (
            ("A", "ROMEO", "But, soft!"),
            ("B", "PORTIA", "The quality of mercy"),
            ("C", "IAGO", "Put money"),
            ("D", "PUCK", "Lord, what fools"),
            ("E", "OTHELLO", "It is the cause,"),
            ("F", "VIOLA", "O time,"),
        )
    ),
    settings={"num_blocks": 24, "block_size": 4, "max_num_seqs": 6, "max_num_batched_tokens": 24, **OFF},
)

RESERVATIONS = Scenario(
    name="reservations",
    title="before paging: who enters reserves the longest run",
    before=(
        "Five requests arrive, none of which will have more than 35 tokens, but each that enters reserves 64 blocks: "
        "a run for all the 1,024 tokens that the model allows. "
        "Watch C, D and E wait until a run is given back, though nearly all of its blocks hold nothing."
    ),
    after="No more than two were served at a time, and all five together would have filled 12 of the 128 blocks.",
    arrivals=(
        Arrival(0, "A", "HAMLET:\nTo be, or not to be:", 22),
        Arrival(0, "B", "KING RICHARD:\nNow is the winter of our discontent\n", 14),
        Arrival(2, "C", "JULIET:\nO Romeo,", 16),
        Arrival(4, "D", "MACBETH:\nIs this a dagger which I see before me,\n", 12),
        Arrival(6, "E", "FALSTAFF:\n", 16),
    ),
    settings={
        "memory": "max",
        "num_blocks": 128,
        "block_size": 16,
        "max_num_seqs": 5,
        "max_num_batched_tokens": 32,
        **OFF,
    },
)

PARALLEL_SAMPLING = Scenario(
    name="parallel-sampling",
    title="four answers to one prompt, which is stored once",
    before=(
        "One prompt is to be answered four times, so four block tables will name the same blocks. "
        "Watch the last of these, which is not full: three of the four copy it before they write, the fourth need not."
    ),
    after="The full blocks of the prompt stood in the pool once, and nothing but its last block was ever copied.",
    arrivals=(
        Arrival(0, "A", "HAMLET:\nTo be, or not", 10, n=4),
        Arrival(3, "B", "LEAR:\nNever, never,", 6),
    ),
    settings={"num_blocks": 20, "block_size": 4, "max_num_seqs": 5, "max_num_batched_tokens": 16, **OFF},
)

BEAM_SEARCH = Scenario(
    name="beam-search",
    title="four beams: the likeliest beginnings go on, others are given up",
    before=(
        "A beam search follows the four likeliest beginnings of an answer, and at every step one of them may go on in "
        "several ways and another in none. "
        "Watch step 5: two beams end, and of their blocks those are freed that nobody else goes on with."
    ),
    after="At nearly every step beams were forked and given up, and nothing was copied but blocks about to be written.",
    arrivals=(Arrival(0, "A", "ROMEO:", 9, beam_width=4),),
    settings={"num_blocks": 16, "block_size": 4, "max_num_seqs": 4, "max_num_batched_tokens": 16, **OFF},
)

STORIES = (
    GROWTH,
    MIXED,
    PRESSURE,
    RESERVATIONS,
    PREEMPTION_RECOMPUTE,
    PREEMPTION_SWAP,
    CHUNKED_PREFILL,
    PARALLEL_SAMPLING,
    BEAM_SEARCH,
    SHARED_PREFIX,
    CHAT,
    QUANTISED,
)
SCENARIOS = {scenario.name: scenario for scenario in STORIES}

KERNEL = Scenario(  # no engine runs: it is a walk, visualize/walk_run.py
    name="kernel",
    title="the decode kernel: one program, one tile at a time",
    before=(
        "One query reads a sequence's keys as the Triton kernel does, tile by tile: first with one program for each KV "
        "head, then with two that share the tiles. "
        "Watch which entries of the block table a tile looks up, and what a larger score does to all that was summed."
    ),
    after="In one program or in two, the same keys were read once and gave the same output.",
    arrivals=(),
)
ALL = SCENARIOS | {KERNEL.name: KERNEL}


def find(name):
    """A scenario by its name. Raises ValueError for a name that isn't there, with the nearest that is."""
    if name in ALL:
        return ALL[name]
    near = get_close_matches(name.lower(), ALL, n=1, cutoff=0)
    raise ValueError(f"--scenario {name!r}: must be one of {', '.join(ALL)}. Did you mean {near[0]!r}?")


def of_prompts(prompts, max_tokens, n=1, beam_width=None, memory=None):
    """A scenario of a user's own prompts, which all arrive at once. n, beam_width: of each of them, as in Arrival.

    memory: as of LLM. The pool grows with these: where one answer fits, all of them do, and a run of the whole context.
    """
    names = [chr(ord("A") + i) if i < 26 else f"{i}" for i in range(len(prompts))]
    arrivals = tuple(Arrival(0, name, prompt, max_tokens, n, beam_width) for name, prompt in zip(names, prompts))
    title = "your prompt" if len(prompts) == 1 else f"your {len(prompts)} prompts"
    settings, num_sequences = {key: value for key, value in MIXED.settings.items() if key not in OFF}, beam_width or n
    if memory not in (None, "paged"):
        settings |= {name: RESERVATIONS.settings[name] for name in ("num_blocks", "block_size")}
    if num_sequences > 1:
        title += f", {num_sequences} {'beams' if beam_width else 'answers'}{' each' if len(prompts) > 1 else ''}"
        # Each further one owns the blocks of its own tokens, and of those with which it begins in a copied block.
        block_size = settings["block_size"]
        settings["num_blocks"] += (num_sequences - 1) * blocks_for(max_tokens + block_size - 2, block_size)
        settings["max_num_seqs"] = MOST_TOGETHER
    return Scenario("prompts", title, arrivals, settings)


def storage_asked_for(scenario, engine):
    """The Storage of an engine's cache if the scenario says how, or in how much memory, K and V lie; else None."""
    if not {"cache_dtype", "kv_memory"} & scenario.settings.keys():
        return None
    kv_memory = scenario.settings.get("kv_memory")
    return storage_of(engine, kv_memory and size("kv_memory", kv_memory))


class Run:
    """A scenario on an engine, one snapshot at a time."""

    def __init__(self, scenario, engine, seed=0):
        self._engine, self._camera, self._seed = engine, Camera(engine, storage_asked_for(scenario, engine)), seed
        self.title, self.before, self.after = scenario.title, scenario.before, scenario.after
        self.settings = scenario.settings
        self._arrivals = list(enumerate(scenario.arrivals))
        self._num_steps = 0
        self._said = {}  # by whom: a request that is finished, and all its tokens
        self._refused = False  # a request was, and no snapshot tells of it yet
        self._add_arrivals()

    @property
    def is_over(self):
        """Nobody is left, and nobody will come."""
        return not (self._arrivals or self._refused or self._engine.has_unfinished())

    def snapshots(self):
        """Snapshot 0, then one after every step. `is_over` tells whether the one just given is the last."""
        yield self._camera.take()
        while not self.is_over:
            self._refused = False
            result = self._engine.step()
            self._num_steps += 1
            snapshot = self._camera.take(result)
            self._said |= {seq.request: seq.tokens for seq in snapshot.sequences if seq.status == "finished"}
            self._add_arrivals()
            yield snapshot

    def _add_arrivals(self):
        for number, each in list(self._arrivals):
            if each.step > self._num_steps or (each.after is not None and each.after not in self._said):
                continue
            self._arrivals.remove((number, each))
            prompt = each.prompt
            if each.after is not None:
                tokens = [*self._said[each.after], *self._engine.tokenizer.encode(prompt)]
                prompt = {"prompt_token_ids": tokens}
            try:
                self._engine.add(prompt, each.params(1000 * self._seed + number), request_id=each.name)
            except ValueError:  # it can never run: the engine has noted why, and the others go on
                self._refused = True
                self._said[each.name] = ()  # who would have gone on from there begins anew
