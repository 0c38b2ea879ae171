"""Batch: a plan as tensors. All sequences' new tokens lie one after the other in one flat run, whatever their number.

This is where block tables become numbers that the model can use; after it nobody asks which sequence a token is from.
Lesson 05 walks through one. (vLLM: v1/worker/gpu_model_runner.py, where logit_rows are called logits_indices.)
"""

from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class Batch:
    """All int32. num_tokens counts the tokens computed in this step; a sequence has 1 of them, or a chunk."""

    token_ids: torch.Tensor  # [num_tokens]
    positions: torch.Tensor  # [num_tokens] where each stands in its sequence
    slot_mapping: torch.Tensor  # [num_tokens] where its K and V are to be written
    block_tables: torch.Tensor  # [num_seqs, max_blocks] padded with -1
    seq_lens: torch.Tensor  # [num_seqs] keys visible to a sequence's last token: all cached ones and the new ones
    query_start_loc: torch.Tensor  # [num_seqs + 1] prefix sums: sequence i's tokens begin at row query_start_loc[i]
    logit_rows: torch.Tensor  # [num_due] the last row of every sequence that is due a token

    @classmethod
    def build(cls, plan, memory):
        """Translate a plan's rows through the memory's block tables."""
        due = set(plan.due)
        token_ids, positions, slot_mapping = [], [], []
        tables, seq_lens, query_start_loc, logit_rows = [], [], [0], []
        for sequence, start, num_tokens in plan.rows:
            stop, table = start + num_tokens, memory.table(sequence.name)
            token_ids += sequence.token_ids[start:stop]
            positions += range(start, stop)
            slot_mapping += table.slots(start, stop)
            tables.append(table.blocks)
            seq_lens.append(stop)
            query_start_loc.append(len(token_ids))
            if sequence in due:
                logit_rows.append(len(token_ids) - 1)
        width = max(map(len, tables), default=0)
        padded = [blocks + [-1] * (width - len(blocks)) for blocks in tables]
        columns = (token_ids, positions, slot_mapping, padded, seq_lens, query_start_loc, logit_rows)
        # By way of numpy, which reads a list several times as fast as torch does.
        return cls(*(torch.from_numpy(np.array(column, dtype=np.int32)) for column in columns))
