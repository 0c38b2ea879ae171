"""Scenarios: which requests arrive when, and how large the pool is. Run plays one on an engine, step by step.

Arrivals are counted in steps, lengths are fixed and every request brings its own seed, so a scenario moves through
the same blocks every time; only the text depends on --seed.
"""

from dataclasses import dataclass, field

from minipaged.serving.sequence import SamplingParams
from visualize.camera import Camera

TEMPERATURE = 0.7  # the tiny model speaks more clearly than at 1


@dataclass(frozen=True)
class Arrival:
    """A request that is added when `step` steps have been run."""

    step: int
    name: str
    prompt: str
    max_tokens: int


@dataclass(frozen=True)
class Scenario:
    name: str
    title: str
    arrivals: tuple
    settings: dict = field(default_factory=dict)  # of minipaged.serving.llm.LLM


MIXED = Scenario(
    name="mixed",
    title="requests of different lengths share one small pool",
    arrivals=(
        Arrival(0, "A", "HAMLET:\nTo be, or not to be:", 22),
        Arrival(0, "B", "KING RICHARD:\nNow is the winter of our discontent\n", 22),
        Arrival(4, "C", "JULIET:\nO Romeo,", 20),
        Arrival(13, "D", "MACBETH:\nIs this a dagger which I see before me,\n", 22),
        Arrival(16, "E", "FALSTAFF:\n", 16),
    ),
    settings={"num_blocks": 20, "block_size": 4, "max_num_seqs": 4, "max_num_batched_tokens": 16},
)


class Run:
    """A scenario on an engine, one snapshot at a time."""

    def __init__(self, scenario, engine, seed=0):
        self._engine, self._camera, self._seed = engine, Camera(engine), seed
        self._arrivals = list(enumerate(scenario.arrivals))
        self._num_steps = 0
        self._refused = False  # in a way that no step has told of yet
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
            self._add_arrivals()
            yield snapshot

    def _add_arrivals(self):
        while self._arrivals and self._arrivals[0][1].step <= self._num_steps:
            number, each = self._arrivals.pop(0)
            params = SamplingParams(TEMPERATURE, 1000 * self._seed + number, each.max_tokens, ignore_eos=True)
            try:
                self._engine.add(each.prompt, params, request_id=each.name)
            except ValueError:  # it can never run: the engine has noted why, and the others go on
                self._refused = True
