"""A walk through the decode kernel as a run for the player, and one moment of it as a picture for a notebook."""

from dataclasses import replace

from minipaged.arguments import whole
from visualize.notebook import Frame
from visualize.player import Manner
from visualize.view import MIN_HEIGHT, MIN_WIDTH
from visualize.walk_help import pages
from visualize.walk_kernel import compare
from visualize.walk_moments import moments, numbers_of
from visualize.walk_sizes import Sizes
from visualize.walk_view import title_of, view
from visualize.walk_why import KINDS, LANDMARKS

WALK = Manner(view, pages, LANDMARKS, KINDS, "no tile is left")


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


def walk(
    moment,
    num_splits=1,
    width=100,
    height=28,
    only_why=False,
    *,
    block_size=4,
    seq_len=41,
    tile_size=16,
    heads=(4, 2),
    table=None,
    seed=0,
):
    """One moment of a walk through the decode kernel. Returns a Frame: a picture in a notebook, text elsewhere.

    moment: counted from 0; a negative one from the end, and the last one compares with the kernel itself. width,
    height: in characters, the height at most. only_why: the sentences get all the room. The others: as of
    walk_sizes.Sizes. Raises ValueError for a moment that isn't there, a size too small, and what no kernel takes.
    """
    width, height = whole("width", width, least=MIN_WIDTH), whole("height", height, least=MIN_HEIGHT)
    sizes = Sizes(block_size, seq_len, tile_size, num_splits, heads, table, seed)
    all_moments = list(moments(sizes))
    number = whole("moment", moment, least=-len(all_moments), most=len(all_moments) - 1)
    shown = all_moments[number]
    if shown.kind == "end":
        shown = replace(shown, kernel=compare(numbers_of(sizes), sizes, shown.outputs))
    looks = {"width": width, "height": height, "title": title_of(sizes), "only_why": only_why}
    alt = f"{title_of(sizes)}, step {shown.step}: {'; '.join(event.why for event in shown.events)}."
    return Frame(lambda ink: view(shown, ink=ink, **looks), alt)
