"""A walk through the decode kernel as a run for the player, and one moment of it as a picture for a notebook."""

from dataclasses import replace

from minipaged.arguments import whole
from visualize.notebook import Frame
from visualize.player import Manner
from visualize.view import MIN_HEIGHT, MIN_WIDTH
from visualize.walk_help import pages
from visualize.walk_kernel import compare
from visualize.walk_moments import moments
from visualize.walk_sizes import Sizes
from visualize.walk_view import title_of, view
from visualize.walk_why import KINDS, LANDMARKS

WALK = Manner(view, pages, LANDMARKS, KINDS, "the walk is at its end")


class WalkRun:
    """The walk unsplit, then the same in splits, as one run. story: a Scenario, for its words."""

    manner = WALK

    def __init__(self, story, seed=0, **sizes):
        self.title, self.before, self.after = story.title, story.before, story.after
        self._walks = [Sizes(seed=seed, num_splits=num_splits, **sizes) for num_splits in (1, 2)]
        self.is_over = False

    def snapshots(self):
        """All moments, counted through. `is_over` tells whether the one just given is the last."""
        step = 0
        for walk in self._walks:
            for moment in moments(walk, compare):
                self.is_over = walk is self._walks[-1] and moment.kind == "end"
                yield replace(moment, step=step)
                step += 1


def walk(moment, num_splits=1, width=100, height=28, only_why=False, **sizes):
    """One moment of a walk through the decode kernel. Returns a picture in a notebook, text elsewhere.

    moment: counted from 0; a negative one from the end. width, height: in characters. only_why: the sentences get all
    the room. sizes: as of walk_sizes.Sizes, such as block_size, seq_len, tile_size, heads, table. Raises ValueError for
    a moment that isn't there, a size too small, and what the kernel doesn't take.
    """
    width, height = whole("width", width, least=MIN_WIDTH), whole("height", height, least=MIN_HEIGHT)
    for name in sizes.keys() - Sizes.__dataclass_fields__.keys():
        raise ValueError(f"{name}={sizes[name]!r}: must be one of {', '.join(Sizes.__dataclass_fields__)}")
    everything = list(moments(Sizes(num_splits=num_splits, **sizes)))
    number = whole("moment", moment, least=-len(everything), most=len(everything) - 1) % len(everything)
    shown = everything[number]
    if shown.kind == "end":
        *_, shown = moments(shown.sizes, compare)
    looks = {"width": width, "height": height, "title": title_of(shown.sizes), "only_why": only_why}
    alt = f"moment {number}: {'; '.join(event.why for event in shown.events)}."
    return Frame(lambda ink: view(shown, ink=ink, **looks), alt)
