"""One decoder-only transformer, Llama style: RMSNorm, rotary positions, grouped-query attention, SwiGLU.

There are two ways through the same weights. `forward` is what the engine runs: it writes the new K and V into the
paged cache and attends through the block tables. `dense` keeps no cache and computes every position anew; it is slow
and plainly right, so it is the oracle that paged results are compared with. The two differ only in how they attend.

This file never decides where K and V live: it is handed slots and block tables, and uses them.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class GPTConfig:
    """Sizes of a model. `max_model_len` is its context: the most tokens of prompt and output together."""

    vocab_size: int = 1024
    hidden_size: int = 192
    num_layers: int = 4
    num_heads: int = 6
    num_kv_heads: int = 2
    head_dim: int = 32
    intermediate_size: int = 512
    max_model_len: int = 1024
    rope_theta: float = 10_000.0
    rms_norm_eps: float = 1e-5


def rotate(x, cos, sin):
    """Turn channels i and i + head_dim / 2 of x [..., num_tokens, heads, head_dim] by an angle for each token.

    cos, sin: [num_tokens, 1, head_dim / 2]. Pairing the two halves is the layout of Hugging Face's Llama weights.
    """
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class Attention(nn.Module):
    """Projects hidden states to q, k, v and back. Which keys a query sees is decided by the `attend` handed in."""

    def __init__(self, config):
        super().__init__()
        self.head_dim = config.head_dim
        q_size, kv_size = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, q_size, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, kv_size, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv_size, bias=False)
        self.o_proj = nn.Linear(q_size, config.hidden_size, bias=False)

    def forward(self, x, cos, sin, attend):
        q, k, v = (proj(x).unflatten(-1, (-1, self.head_dim)) for proj in (self.q_proj, self.k_proj, self.v_proj))
        return self.o_proj(attend(rotate(q, cos, sin), rotate(k, cos, sin), v).flatten(-2))


class MLP(nn.Module):
    """SwiGLU: one projection gates the other."""

    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = MLP(config)

    def forward(self, x, cos, sin, attend):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, attend)
        return x + self.mlp(self.post_attention_layernorm(x))


class GPT(nn.Module):
    """The whole model. attention: the backend of the paged forward, a BatchedAttention or a ReferenceAttention; None if
    only `dense` is used.

    Weights have the names of Hugging Face's Llama, without the leading "model.". The output projection is the
    embedding itself (tied).
    """

    def __init__(self, config, attention=None):
        super().__init__()
        self.config, self.attention = config, attention
        self.scale = config.head_dim**-0.5
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_layers))
        self.norm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        frequency = config.rope_theta ** (-torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim)
        angle = torch.outer(torch.arange(config.max_model_len, dtype=torch.float64), frequency).unsqueeze(1)
        self.register_buffer("cos", angle.cos(), persistent=False)  # [max_model_len, 1, head_dim / 2]
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, batch, cache):
        """One step of the engine over a flat batch of tokens, whichever sequences they belong to.

        batch: a serving.batch.Batch; cache: an attention.kv_cache.KVCache, written in place.
        Returns logits [num_due, vocab_size], one row for each sequence that is due a token.
        """
        run = self.attention.plan(batch.block_tables, batch.seq_lens, batch.query_start_loc)

        def attend_in(layer):
            def attend(q, k, v):
                cache.write(layer, k, v, batch.slot_mapping)
                return run(q, cache.k[layer], cache.v[layer], self.scale)

            return attend

        hidden = self.hidden(batch.token_ids, batch.positions, [attend_in(i) for i in range(len(self.layers))])
        return self.logits(hidden[batch.logit_rows])

    def dense(self, token_ids):
        """The oracle: token_ids [num_seqs, num_tokens] -> logits [num_seqs, num_tokens, vocab_size], no cache."""

        def attend(q, k, v):
            q, k, v = (x.transpose(-3, -2) for x in (q, k, v))  # [num_seqs, heads, num_tokens, head_dim]
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scale, enable_gqa=True)
            return out.transpose(-3, -2)

        positions = torch.arange(token_ids.shape[-1])
        return self.logits(self.hidden(token_ids, positions, [attend] * len(self.layers)))

    def hidden(self, token_ids, positions, attends):
        """All layers: token_ids [..., num_tokens], positions [num_tokens] -> [..., num_tokens, hidden_size]."""
        x = self.embed_tokens(token_ids)
        cos, sin = self.cos[positions].to(x.dtype), self.sin[positions].to(x.dtype)
        for layer, attend in zip(self.layers, attends):
            x = layer(x, cos, sin, attend)
        return self.norm(x)

    def logits(self, hidden):
        return F.linear(hidden, self.embed_tokens.weight)
