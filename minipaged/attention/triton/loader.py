"""The one place that imports triton, and decides how it runs: compiled where there is a GPU, else interpreted.

Triton's interpreter runs a kernel's programs one after the other, in numpy. It shows whether they compute the right
numbers, and nothing about their speed.
"""

import os
from functools import cache
from types import ModuleType

import torch


@cache
def load() -> tuple[ModuleType, ModuleType]:
    """Returns the modules triton and triton.language. Raises ValueError, in a line, where kernels can't be had.

    Triton asks for TRITON_INTERPRET when it is imported, since its own library is made of kernels too. So it is set
    before that, here and nowhere else, and only if nobody has set it.
    """
    if not torch.cuda.is_available():
        os.environ.setdefault("TRITON_INTERPRET", "1")
    try:
        import triton
        import triton.language as tl
    except ImportError as error:
        raise ValueError(f"Triton's kernels need triton, and it can't be imported here: {error}") from None
    if wants_interpreter() != (type(tl.cdiv).__name__ == "InterpretedFunction"):
        raise ValueError(
            "triton was imported before minipaged's kernels, when TRITON_INTERPRET was not yet "
            f"{os.environ.get('TRITON_INTERPRET')!r}: import these first, or set it before Python starts"
        )
    return triton, tl


def wants_interpreter():
    """Whether kernels are interpreted in this process."""
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "on", "yes", "y")


def check_runs_on(device):
    """Raises ValueError if a kernel can't read tensors on this device."""
    if not wants_interpreter() and device.type != "cuda":
        raise ValueError(f"tensors on {device}: Triton's kernels are compiled here, and need them on a GPU")
