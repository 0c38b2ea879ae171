"""Compile every kernel, as the launchers would ask for it, for GPUs that need not be here; print a line for each.

A program of its own, because Triton either interprets or compiles in a process: TRITON_INTERPRET=0 python
compile_kernels.py TARGET ..., where a target is sm_80, sm_90 or gfx942. What a kernel spills is read from what was
compiled: for NVIDIA by the cuobjdump in triton's wheel (STACK and LOCAL, bytes a thread), for AMD from the assembly.
"""

import json
import re
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from minipaged.attention.triton import copy, decode, geometry, prefill, write

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
NUM_HEADS, NUM_KV_HEADS, BLOCK_SIZE = 32, 8, 16
NUMBERS = ("q_ptr", "k_ptr", "v_ptr", "out_ptr", "k_cache_ptr", "v_cache_ptr", "source_ptr", "destination_ptr")
SCALES = ("k_scale_ptr", "v_scale_ptr")
FLOATS = ("lse_ptr", "part_lse_ptr", "parts_ptr", *SCALES)
NOT_MULTIPLES_OF_16 = ("table_stride", "lse_stride_split", "lse_stride_row")


def variants():
    """(kernel, dtype, head_dim, what the kernel is compiled for, which pointers are float32, what the cache holds)."""
    for each in plain_variants():
        yield *each, each[1]
    # A cache that is narrower than the queries; i8 is int8, u8 is fp8. write and copy move codes, and scales.
    for dtype, stored in (*product(("fp32",), ("bf16", "i8", "u8")), *product(("bf16",), ("i8", "u8"))):
        for head_dim in (64, 128):
            sizes = (
                NUM_HEADS,
                NUM_KV_HEADS,
                head_dim,
                BLOCK_SIZE,
                "float32 over less" if dtype == "fp32" else "half over codes",
            )
            yield decode.decode_kernel, dtype, head_dim, geometry.decode_constants(*sizes), FLOATS, stored
            yield prefill.prefill_kernel, dtype, head_dim, geometry.prefill_constants(*sizes), FLOATS, stored
    for head_dim, stored in ((64, "u8"), (128, "u8"), (1, "fp32")):
        moved = write.constants(torch.empty(1, BLOCK_SIZE, NUM_KV_HEADS, head_dim, device="meta"))
        yield write.write_kernel, stored, head_dim, moved, (), stored
        yield copy.copy_kernel, stored, head_dim, moved, (), stored


def plain_variants():
    """Those of a cache that holds what the queries are."""
    for dtype, head_dim in product(DTYPES, (64, 80, 128)):
        sizes = (NUM_HEADS, NUM_KV_HEADS, head_dim, BLOCK_SIZE, "float32" if dtype == "fp32" else "half")
        yield decode.decode_kernel, dtype, head_dim, geometry.decode_constants(*sizes), FLOATS
        split = geometry.decode_constants(*sizes, num_splits=8)
        yield decode.decode_kernel, dtype, head_dim, split, (*FLOATS, "out_ptr")  # the parts are float32
        yield prefill.prefill_kernel, dtype, head_dim, geometry.prefill_constants(*sizes), FLOATS
        merged = geometry.merge_constants(geometry.MAX_SPLITS, head_dim)
        yield decode.merge_kernel, dtype, head_dim, merged, FLOATS
        moved = write.constants(torch.empty(1, BLOCK_SIZE, NUM_KV_HEADS, head_dim, device="meta"))
        yield write.write_kernel, dtype, head_dim, moved, ()
        yield copy.copy_kernel, dtype, head_dim, moved, ()


def compiled(kernel, dtype, constants, floats, stored, target):
    """The kernel, specialised as a launch would be: addresses and strides are multiples of 16."""
    options = {name: value for name, value in constants.items() if name.startswith("num_")}
    constants = {name: value for name, value in constants.items() if name not in options}
    if stored not in ("i8", "u8"):
        constants |= {name: None for name in kernel.arg_names if name in SCALES}
    signature, attributes = {}, {}
    for index, name in enumerate(kernel.arg_names):
        if name in constants:
            signature[name] = "constexpr"
        elif name in ("k_ptr", "v_ptr") and "q_ptr" in kernel.arg_names:
            signature[name] = "*" + stored
        elif name.endswith("_ptr"):
            signature[name] = "*" + ("fp32" if name in floats else dtype if name in NUMBERS else "i32")
        else:
            signature[name] = "fp32" if name == "scale" else "i32"
        if signature[name][0] == "*" or (signature[name] == "i32" and name not in NOT_MULTIPLES_OF_16):
            attributes[index,] = [["tt.divisibility", 16]]
    return triton.compile(ASTSource(kernel, signature, constants, attributes), target=target, options=options)


def spills(binary):
    """Bytes or registers that a thread puts aside for want of registers."""
    if "cubin" not in binary.asm:
        return sum(map(int, re.findall(r"\.[sv]gpr_spill_count:\s+(\d+)", binary.asm["amdgcn"])))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(binary.asm["cubin"])
        dump = [CUOBJDUMP, "--dump-resource-usage", file]
        usage = subprocess.run(dump, capture_output=True, text=True, check=True).stdout
    return sum(map(int, re.search(r"STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", usage).groups()))


for name in sys.argv[1:]:
    for kernel, dtype, head_dim, constants, floats, stored in variants():
        binary = compiled(kernel, dtype, constants, floats, stored, TARGETS[name])
        about = {"target": name, "kernel": kernel.__name__, "dtype": dtype, "head_dim": head_dim, "stored": stored}
        print(json.dumps({**about, "shared": binary.metadata.shared, "spills": spills(binary)}), flush=True)
