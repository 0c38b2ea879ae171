"""Attention through a block table as Triton kernels: compiled on a GPU, interpreted on a CPU.

Start with tile.py and decode.py. Nothing outside this folder imports triton, and nothing in it does before it is asked
for a kernel, so everything else works where triton is not installed.
"""
