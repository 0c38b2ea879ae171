"""Halves: one story told twice, on caches that store K and V in different types and in the same bytes.

Both are one run for whoever watches: the steps are counted through, and the second half begins with an empty pool.
"""

from collections import Counter
from dataclasses import replace

from visualize.scenarios import Run
from visualize.storage import in_bytes
from visualize.words import count


class Halves:
    """A scenario with `cache_dtypes`, and an engine for each of them."""

    def __init__(self, scenario, engines, seed=0):
        self.title, self.before, self.after = scenario.title, scenario.before, scenario.after
        self.settings = scenario.settings
        self._halves = [
            Run(replace(scenario, settings=scenario.settings | {"cache_dtype": name}), engine, seed)
            for name, engine in zip(scenario.cache_dtypes, engines, strict=True)
        ]

    @property
    def is_over(self):
        return self._halves[-1].is_over

    def snapshots(self):
        """Those of the first half, then those of the second. What came of a half is told when it ends."""
        step, results = 0, []
        for part, half in enumerate(self._halves):
            kinds = Counter()
            for snapshot in half.snapshots():
                kinds.update(event.kind for event in snapshot.events)
                told = begun(snapshot, results[-1]) if part and snapshot.step == 0 else ""
                if half.is_over:
                    results.append((snapshot, happened(snapshot, kinds)))
                    told = compared(*results) if part else ended(*results[0])
                yield replace(snapshot, step=step, part=part, told=told)
                step += 1


def happened(last, kinds):
    """A half in a few words. last: its last snapshot, by its own steps. kinds: of all its events."""
    refused = f", {count(kinds['Refused'], 'request')} refused" * (kinds["Refused"] > 0)
    return f"{count(last.step, 'step')}, {count(kinds['Preempted'], 'preemption')}{refused}"


def ended(last, words):
    """What came of the first half."""
    return f"As {last.storage.cache_dtype}: {words}."


def begun(first, result):
    """What is different about the second half. first: its first snapshot. result: of the half before."""
    before, now = result[0].storage, first.storage
    return (
        f"The same requests once more, in the same {in_bytes(now.num_bytes)}: as {now.cache_dtype} a token takes "
        f"{now.bytes_per_token:,} bytes in the place of {before.bytes_per_token:,}, scales included, so there are "
        f"{first.num_blocks:,} blocks where there were {result[0].num_blocks:,}."
    )


def compared(first, second):
    """Both halves, each (its last snapshot, what happened in it)."""
    told = [f"{last.storage.cache_dtype} {count(last.num_blocks, 'block')}, {words}" for last, words in (first, second)]
    return f"In the same {in_bytes(second[0].storage.num_bytes)}: {'; '.join(told)}."
