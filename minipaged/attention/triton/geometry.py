"""How attention is cut into programs: which sizes the kernels are compiled for, and which program does what.

Plain arithmetic on plain numbers. The launchers use it, and so does whoever wants to draw or check what a program
reads: it imports neither torch nor triton.
"""

import math
from itertools import pairwise
from typing import NamedTuple

MAX_HEAD_DIM = 128  # a tile of K and one of V must fit into a program's registers and shared memory
LEAST = 16  # on an NVIDIA GPU tl.dot sums over at least 16 products, and fills up smaller matrices to its own size
MAX_SPLITS = 64  # the merge holds all parts of an output in registers at once
LEAST_TILES = 4  # fewer are not worth a merge: a guess, not measured


class TileSizes(NamedTuple):
    """Keys to a tile, warps to a program, and rows of queries to a program of prefill."""

    decode_tile: int
    decode_warps: int
    prefill_tile: int
    prefill_warps: int
    prefill_rows: int


# By the kind of numbers (kind_of). These are the largest for which no kernel spills registers on an A100, an H100 or an
# MI300, and nothing more: they were never tuned by measuring.
SIZES = {
    "half": TileSizes(64, 4, 32, 8, 64),
    "half over codes": TileSizes(32, 4, 16, 8, 64),
    "float32": TileSizes(32, 8, 32, 4, 32),
    "float32 over less": TileSizes(16, 8, 16, 8, 16),
}


def padded(size, least=1):
    """The power of two that tl.arange needs: the smallest that is not below size."""
    return max(least, 1 << (size - 1).bit_length())


def kind_of(query_bytes, cache_bytes):
    """The kind of numbers that a program computes with, by the bytes that one takes in q and in the cache. What is
    narrower there has to be widened, which takes registers."""
    if query_bytes == 2:
        return "half" if cache_bytes == 2 else "half over codes"
    return "float32" if cache_bytes == 4 else "float32 over less"


def rows_for(group, kind):
    """Rows of queries in a prefill program: a query has `group` of them, one for each head of one KV head."""
    return max(SIZES[kind].prefill_rows, padded(group))


def split_range(split, num_splits, seq_len, tile_size):
    """The positions that one of num_splits programs reads: whole tiles, as many as the others or fewer, or none.

    decode_kernel computes the same for itself, from its sequence's own length.
    """
    tiles_per_split = math.ceil(math.ceil(seq_len / tile_size) / num_splits)
    start = split * tiles_per_split * tile_size
    return range(min(start, seq_len), min(start + tiles_per_split * tile_size, seq_len))


def num_splits_for(num_seqs, num_kv_heads, longest, tile_size, num_processors):
    """Into how many parts decode cuts each sequence.

    One, if there is a program for every multiprocessor anyway; else so many that there are at least two for each,
    unless a part would have fewer than LEAST_TILES tiles or there would be more than MAX_SPLITS parts. longest: keys of
    the longest sequence. num_processors: how many the GPU has; 0 where kernels are interpreted, one program at a time.
    """
    num_programs = num_seqs * num_kv_heads
    if num_programs >= num_processors:
        return 1
    num_tiles = math.ceil(longest / tile_size)
    return max(1, min(math.ceil(2 * num_processors / num_programs), num_tiles // LEAST_TILES, MAX_SPLITS))


def query_tiles(query_start_loc, group, kind):
    """What each prefill program computes: a list of (sequence, its first query). query_start_loc: plain numbers.

    A tile never holds queries of two sequences. One that decodes has a tile, a chunk of a prompt has several.
    """
    step = rows_for(group, kind) // group
    counts = [stop - start for start, stop in pairwise(query_start_loc)]
    return [(sequence, first) for sequence, count in enumerate(counts) for first in range(0, count, step)]


def constants(num_heads, num_kv_heads, head_dim, block_size, kind):
    """What decode and prefill are both compiled for. Each combination is a kernel of its own.

    PRECISION: tensor cores round float32 to TF32. That has the 11 significant bits of a float16 and the exponents of
    a bfloat16, so it holds K and V of either exactly, and only the weights lose digits; float32 itself is multiplied in
    full, and slowly.
    """
    return {
        "BLOCK_SIZE": block_size,
        "GROUP": num_heads // num_kv_heads,
        "HEAD_DIM": head_dim,
        "PADDED_DIM": padded(head_dim, LEAST),
        "PRECISION": "tf32" if kind.startswith("half") else "ieee",
    }


def decode_constants(num_heads, num_kv_heads, head_dim, block_size, kind, tile_size=None, num_splits=1):
    """What decode is compiled for. tile_size has nothing to do with block_size: a tile may be a part of a block, or
    gather many."""
    shared = constants(num_heads, num_kv_heads, head_dim, block_size, kind)
    sizes = {"TILE": tile_size or SIZES[kind].decode_tile, "num_warps": SIZES[kind].decode_warps}
    return {**shared, **sizes, "PADDED_GROUP": padded(shared["GROUP"], LEAST), "NUM_SPLITS": num_splits}


def prefill_constants(num_heads, num_kv_heads, head_dim, block_size, kind, tile_size=None):
    """What prefill is compiled for."""
    shared = constants(num_heads, num_kv_heads, head_dim, block_size, kind)
    sizes = {"TILE": tile_size or SIZES[kind].prefill_tile, "num_warps": SIZES[kind].prefill_warps}
    rows = rows_for(shared["GROUP"], kind)
    return {**shared, **sizes, "ROWS": rows, "QUERIES": rows // shared["GROUP"]}


def merge_constants(num_splits, head_dim):
    """What the merge of decode's splits is compiled for."""
    return {
        "NUM_SPLITS": num_splits,
        "PADDED_SPLITS": padded(num_splits),
        "HEAD_DIM": head_dim,
        "PADDED_DIM": padded(head_dim, LEAST),
    }


def check_tile_size(tile_size):
    """Raises ValueError unless it is a size that a tile can have, or None."""
    if tile_size is not None and not (tile_size >= LEAST and tile_size == padded(tile_size)):
        raise ValueError(f"tile_size={tile_size}: must be a power of two, {LEAST} or more")
