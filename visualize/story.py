"""Story: which requests arrive when, how large the pool is, and what is said before and after. Plain records."""

from dataclasses import dataclass, field, replace

from minipaged.serving.sequence import BeamSearchParams, SamplingParams

TEMPERATURE = 0.7  # the tiny model speaks more clearly than at 1


@dataclass(frozen=True)
class Arrival:
    """A request that is added when `step` steps have been run.

    n: how many answers it is to have. beam_width: how many beams a beam search follows; None: its answers are drawn.
    after: the name of a request before it, whose conversation it goes on: its prompt is all that was said there, token
    by token, and then `prompt`. It is added when that one is finished, if that is later than `step`.
    """

    step: int
    name: str
    prompt: str
    max_tokens: int
    n: int = 1
    beam_width: int | None = None
    after: str | None = None

    def params(self, seed):
        """What the engine is asked for."""
        if self.beam_width is not None:
            return BeamSearchParams(self.beam_width, self.max_tokens, ignore_eos=True)
        return SamplingParams(TEMPERATURE, seed, self.max_tokens, ignore_eos=True, n=self.n)


@dataclass(frozen=True)
class Scenario:
    """before: two sentences that are shown before the first step. after: one, after the last.

    cache_dtypes: two types of cache, if the story is told twice, on each once, in the memory of settings["kv_memory"].
    """

    name: str
    title: str
    arrivals: tuple
    settings: dict = field(default_factory=dict)  # of minipaged.serving.llm.LLM
    before: str = ""
    after: str = ""
    cache_dtypes: tuple = ()

    def of(self, parts):
        """The same story, run by a learner's parts (minipaged.mine.Mine): its title says which."""
        notes = " ".join(f"{note}." for note in parts.notes)
        return replace(self, title=f"{parts.yours} · {self.name}", before=f"{notes} {self.before}".strip())
