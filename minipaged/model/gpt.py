"""One decoder-only transformer, Llama style: RMSNorm, rotary positions, grouped-query attention, SwiGLU.

There are two ways through the same weights. Calling the model is what the engine does: it writes the new K and V into
the paged cache and attends through the block tables. `dense` keeps no cache and computes every position anew; it is
slow and plainly right, so it is the oracle that paged results are compared with. The two differ only in how they
attend.

This file never decides where K and V live: it is handed slots and block tables, and uses them. (Why no nn.Module: for
a model as small as this one its bookkeeping takes a good part of a step.)
"""

import torch
import torch.nn.functional as F


def rotate(x, rotation):
    """Rotary positions (Su et al., RoFormer): turn pair i of each head by position * rope_theta ** (-2i / head_dim).

    x: [..., num_tokens, heads, head_dim]. Channels 2i and 2i + 1 are the two parts of one complex number, so turning is
    one product. rotation: [num_tokens, 1, head_dim / 2] complex, of length one: rows of GPT.rotation.
    """
    pairs = torch.view_as_complex(x.view(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * rotation).view(x.shape)


class GPT:
    """A model: its sizes (GPTConfig), its Weights and its attention backend (BatchedAttention or ReferenceAttention;
    None if only `dense` is used)."""

    def __init__(self, config, weights, attention=None):
        self.config, self.weights, self.attention = config, weights, attention
        self.scale = config.head_dim**-0.5
        dtype, self.device = weights.embedding.dtype, weights.embedding.device
        # A tensor, because addcmul takes no number in its place.
        self.eps = torch.tensor(config.rms_norm_eps, dtype=dtype, device=self.device)
        frequency = config.rope_theta ** (-torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim)
        angle = torch.outer(torch.arange(config.max_model_len, dtype=torch.float64), frequency).unsqueeze(1)
        rotation = torch.complex(angle.cos().to(dtype), angle.sin().to(dtype))
        self.rotation = rotation.to(self.device)  # [max_model_len, 1, head_dim / 2]

    def __call__(self, batch, cache):
        """One step of the engine over a flat batch of tokens, whichever sequences they belong to.

        batch: a serving.batch.Batch; cache: an attention.kv_cache.KVCache, written in place.
        Returns logits [num_due, vocab_size], one row for each sequence that is due a token.
        """
        write = cache.writer(batch.slot_mapping)
        run = self.attention.plan(batch.block_tables, batch.seq_lens, batch.query_start_loc)

        def attend(layer, q, k, v):
            write(layer, k, v)
            return run(q, cache.k[layer], cache.v[layer], self.scale, cache.k_scale[layer], cache.v_scale[layer])

        hidden = self.hidden(batch.token_ids.to(self.device), batch.positions.to(self.device), attend)
        return self.logits(hidden.index_select(0, batch.logit_rows.to(self.device)))

    def dense(self, token_ids, stored=None):
        """The oracle: token_ids [num_seqs, num_tokens] -> logits [num_seqs, num_tokens, vocab_size], no cache.

        stored: what a cache would make of K, and of V, before they are read; None: nothing.
        """

        def attend(layer, q, k, v):
            k, v = (k, v) if stored is None else (stored(k), stored(v))
            q, k, v = (x.transpose(-3, -2) for x in (q, k, v))  # [num_seqs, heads, num_tokens, head_dim]
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scale, enable_gqa=True)
            return out.transpose(-3, -2)

        positions = torch.arange(token_ids.shape[-1], device=self.device)
        return self.logits(self.hidden(token_ids.to(self.device), positions, attend))

    def hidden(self, token_ids, positions, attend):
        """All layers: token_ids [..., num_tokens], positions [num_tokens] -> [..., num_tokens, hidden_size].

        attend(layer, q, k, v): decides which keys a query sees, and returns what it found in the shape of q.
        q: [..., num_tokens, num_heads, head_dim]. k, v: [..., num_tokens, num_kv_heads, head_dim].
        """
        x = F.embedding(token_ids, self.weights.embedding)
        rotation = self.rotation.index_select(0, positions)
        for i, layer in enumerate(self.weights.layers):
            q, k, v = self.split_heads(self.norm(x, layer.attention_norm) @ layer.qkv, rotation)
            x = x + attend(i, q, k, v).flatten(-2) @ layer.out
            gate, up = (self.norm(x, layer.mlp_norm) @ layer.gate_up).chunk(2, dim=-1)
            x = x + (F.silu(gate) * up) @ layer.down  # SwiGLU: one projection gates the other
        return self.norm(x, self.weights.norm)

    def norm(self, x, weight):
        """RMSNorm: divide x [..., hidden_size] by its root mean square, then scale its channels.

        The mean of the squares is |x|^2 / hidden_size. Put this way it takes half the time of torch's rms_norm, and a
        step has 2 * num_layers + 1 of them.
        """
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        mean_square = torch.addcmul(self.eps, length, length, value=1 / self.config.hidden_size)  # plus eps
        return x * mean_square.rsqrt() * weight

    def split_heads(self, qkv, rotation):
        """[..., num_tokens, (num_heads + 2 * num_kv_heads) * head_dim] -> q, k, v, q and k rotated in one go."""
        num_heads, num_kv_heads = self.config.num_heads, self.config.num_kv_heads
        qkv = qkv.view(*qkv.shape[:-1], -1, self.config.head_dim)
        qk, v = qkv.split_with_sizes([num_heads + num_kv_heads, num_kv_heads], dim=-2)
        q, k = rotate(qk, rotation).split_with_sizes([num_heads, num_kv_heads], dim=-2)
        return q, k, v

    def logits(self, hidden):
        """[..., hidden_size] -> [..., vocab_size] on the host, where tokens are chosen. The output projection is the
        embedding itself."""
        return F.linear(hidden, self.weights.embedding).cpu()
