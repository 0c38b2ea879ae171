"""A model's weights: which there are, and how they are called in a file.

A file has the names and the layout of Hugging Face's Llama, so that its weights can be used elsewhere. In memory,
projections that read the same input are one matrix (one product is faster than three); a matrix stands as
[inputs, outputs], so that applying it is `x @ matrix`; and channels that are rotated together stand side by side, where
the file has channel i with i + head_dim / 2.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch


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


class LayerWeights(NamedTuple):
    """One layer. qkv and gate_up are several projections of one input, side by side."""

    attention_norm: torch.Tensor  # [hidden_size]
    qkv: torch.Tensor  # [hidden_size, (num_heads + 2 * num_kv_heads) * head_dim]
    out: torch.Tensor  # [num_heads * head_dim, hidden_size]
    mlp_norm: torch.Tensor  # [hidden_size]
    gate_up: torch.Tensor  # [hidden_size, 2 * intermediate_size]
    down: torch.Tensor  # [intermediate_size, hidden_size]


class Weights(NamedTuple):
    """The whole model. The output projection is the embedding itself (tied)."""

    embedding: torch.Tensor  # [vocab_size, hidden_size]
    layers: list
    norm: torch.Tensor  # [hidden_size]

    def tensors(self):
        """All of them, in one list."""
        return [self.embedding, *(tensor for layer in self.layers for tensor in layer), self.norm]


def layer_names(i, config):
    """For each field of layer i's LayerWeights: the tensors in a file that make it up, as (name, number of outputs)."""
    q, kv = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    hidden, inner = config.hidden_size, config.intermediate_size
    fields = LayerWeights(
        attention_norm=[("input_layernorm", hidden)],
        qkv=[("self_attn.q_proj", q), ("self_attn.k_proj", kv), ("self_attn.v_proj", kv)],
        out=[("self_attn.o_proj", hidden)],
        mlp_norm=[("post_attention_layernorm", hidden)],
        gate_up=[("mlp.gate_proj", inner), ("mlp.up_proj", inner)],
        down=[("mlp.down_proj", hidden)],
    )
    return LayerWeights(*([(f"layers.{i}.{name}.weight", size) for name, size in parts] for parts in fields))


def read(named, config):
    """Weights from tensors by Hugging Face's names, without the leading "model." of its LlamaForCausalLM."""

    def stacked(parts):
        tensor = torch.cat([paired(name, named[name], (2, config.head_dim // 2)) for name, _ in parts])
        return tensor.t().contiguous() if tensor.ndim == 2 else tensor

    layers = [LayerWeights(*map(stacked, layer_names(i, config))) for i in range(config.num_layers)]
    return Weights(named["embed_tokens.weight"], layers, named["norm.weight"])


def named(weights, config):
    """The inverse of `read`: tensors by Hugging Face's names."""
    tensors = {"embed_tokens.weight": weights.embedding, "norm.weight": weights.norm}
    for i, layer in enumerate(weights.layers):
        for tensor, parts in zip(layer, layer_names(i, config)):
            pieces = tensor.split([size for _, size in parts], dim=-1)
            for piece, (name, _) in zip(pieces, parts):
                tensors[name] = paired(name, piece.t(), (config.head_dim // 2, 2)).contiguous()
    return tensors


def paired(name, tensor, pairs):
    """A tensor of a file with the outputs of every head in another order, if q or k: as if they stood in a table of
    this shape and were read column by column."""
    if "q_proj" not in name and "k_proj" not in name:
        return tensor
    return tensor.unflatten(0, (-1, *pairs)).transpose(1, 2).flatten(0, 2)


def random_weights(config, dtype=torch.float32, std=0.02):
    """Fresh weights: norms of one, all else drawn from a normal distribution around zero, by torch's global seed."""
    q, kv = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim

    def draw(*shape):
        return torch.randn(shape, dtype=dtype) * std

    def norm():
        return torch.ones(config.hidden_size, dtype=dtype)

    def layer():
        hidden, inner = config.hidden_size, config.intermediate_size
        return LayerWeights(
            norm(), draw(hidden, q + 2 * kv), draw(q, hidden), norm(), draw(hidden, 2 * inner), draw(inner, hidden)
        )

    return Weights(draw(config.vocab_size, config.hidden_size), [layer() for _ in range(config.num_layers)], norm())
