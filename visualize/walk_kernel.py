"""The end of a walk beside the kernel itself: the same numbers through minipaged.attention.triton.decode."""

from dataclasses import dataclass

import torch

from visualize.walk_sizes import HEAD_DIM


@dataclass(frozen=True)
class Kernel:
    """What the kernel gave, or why there is none.

    output: [num_heads][head_dim]. difference: the largest between any number of it and the walk's.
    """

    output: tuple = ()
    difference: float | None = None
    is_interpreted: bool = True
    missing: str = ""


def compare(numbers, sizes, outputs):
    """Run the kernel on these numbers, in float32. Returns a Kernel; where it can't run, that says why."""
    try:
        from minipaged.attention.triton.decode import decode
        from minipaged.attention.triton.loader import wants_interpreter

        device = "cuda" if torch.cuda.is_available() else "cpu"
        q, k_cache, v_cache = (tensor.float().to(device) for tensor in numbers)
        table = torch.tensor([[*sizes.table, -1]], dtype=torch.int32, device=device)  # -1: padding, as in a batch
        seq_lens = torch.tensor([sizes.seq_len], dtype=torch.int32, device=device)
        options = {"num_splits": sizes.num_splits, "tile_size": sizes.tile_size}
        [out], _ = decode(q[None], k_cache, v_cache, table, seq_lens, HEAD_DIM**-0.5, **options)
    except ValueError as error:  # the loader's one line: no triton here, or none that runs
        return Kernel(missing=str(error))
    expected = torch.tensor([state.output for state in outputs], dtype=torch.float64)
    difference = float((out.cpu().double() - expected).abs().max())
    return Kernel(tuple(map(tuple, out.tolist())), difference, wants_interpreter())
