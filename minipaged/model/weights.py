"""A model's weights: which there are, and how they are called in a file.

A file has the names and the layout of Hugging Face's Llama, so that its weights can be used elsewhere. In memory,
projections that read the same input are one matrix (one product is faster than three); a matrix stands as
[inputs, outputs], so that applying it is `x @ matrix`; and channels that are rotated together stand side by side, where
the file has channel i with i + head_dim / 2.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch

from minipaged.arguments import real, whole


@dataclass(frozen=True)
class GPTConfig:
    """Sizes of a model. `max_model_len` is its context: the most tokens of prompt and output together.

    Raises ValueError for sizes that don't make one.
    """

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

    def __post_init__(self):
        for name, value in vars(self).items():
            if name in ("rope_theta", "rms_norm_eps"):
                real(name, value, lambda number: number > 0, "a positive number")
            else:
                whole(name, value, least=1)
        if self.num_heads % self.num_kv_heads or self.head_dim % 2:
            raise ValueError(
                f"num_heads={self.num_heads}, num_kv_heads={self.num_kv_heads}, head_dim={self.head_dim}: the query "
                "heads must be a multiple of the KV heads, and head_dim must be even"
            )


class LayerWeights(NamedTuple):
    """One layer. qkv and gate_up are several projections of one input, side by side.

    (vLLM stacks the same ones: qkv_proj and gate_up_proj in model_executor/models/llama.py.)
    """

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


def layer_parts(i, config):
    """For each field of layer i's LayerWeights: the tensors of a file that make it up, as (name, shape) pairs."""
    q, kv = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    hidden, inner = config.hidden_size, config.intermediate_size
    fields = LayerWeights(
        attention_norm=[("input_layernorm", (hidden,))],
        qkv=[("self_attn.q_proj", (q, hidden)), ("self_attn.k_proj", (kv, hidden)), ("self_attn.v_proj", (kv, hidden))],
        out=[("self_attn.o_proj", (hidden, q))],
        mlp_norm=[("post_attention_layernorm", (hidden,))],
        gate_up=[("mlp.gate_proj", (inner, hidden)), ("mlp.up_proj", (inner, hidden))],
        down=[("mlp.down_proj", (hidden, inner))],
    )
    return LayerWeights(*([(f"layers.{i}.{name}.weight", shape) for name, shape in parts] for parts in fields))


def shapes(config):
    """Name -> shape of every tensor in a file."""
    found = {"embed_tokens.weight": (config.vocab_size, config.hidden_size), "norm.weight": (config.hidden_size,)}
    for i in range(config.num_layers):
        for parts in layer_parts(i, config):
            found |= parts
    return found


def read(tensors, config):
    """Weights from tensors by Hugging Face's names, without the leading "model." of its LlamaForCausalLM.

    Raises ValueError for a tensor that isn't there, has another shape than the config says, or has no place in it.
    """
    expected = shapes(config)
    for name, shape in expected.items():
        if name not in tensors:
            raise ValueError(f"there is no tensor {name!r}")
        if tuple(tensors[name].shape) != shape:
            raise ValueError(f"{name} has the shape {tuple(tensors[name].shape)}: for this config it must be {shape}")
    if extra := tensors.keys() - expected.keys():
        raise ValueError(f"the tensor {min(extra)!r} has no place in this config")

    def joined(parts):
        pieces = [transpose_heads(name, tensors[name], (2, config.head_dim // 2)) for name, _ in parts]
        tensor = torch.cat(pieces)
        return tensor.t().contiguous() if tensor.ndim == 2 else tensor

    layers = [LayerWeights(*map(joined, layer_parts(i, config))) for i in range(config.num_layers)]
    return Weights(tensors["embed_tokens.weight"], layers, tensors["norm.weight"])


def named(weights, config):
    """The inverse of `read`: tensors by Hugging Face's names."""
    tensors = {"embed_tokens.weight": weights.embedding, "norm.weight": weights.norm}
    for i, layer in enumerate(weights.layers):
        for tensor, parts in zip(layer, layer_parts(i, config)):
            pieces = tensor.split([shape[0] for _, shape in parts], dim=-1)
            for piece, (name, _) in zip(pieces, parts):
                tensors[name] = transpose_heads(name, piece.t(), (config.head_dim // 2, 2)).contiguous()
    return tensors


def transpose_heads(name, tensor, shape):
    """Reorder the outputs of each head of q_proj and k_proj: read them as a table of this shape, and transpose it.

    In a file it is [2, head_dim / 2], all first parts of the rotated pairs and then all second ones; in memory
    [head_dim / 2, 2], pair by pair. So the two calls undo each other.
    """
    if "q_proj" not in name and "k_proj" not in name:
        return tensor
    return tensor.unflatten(0, (-1, *shape)).transpose(1, 2).flatten(0, 2)


def random_weights(config, dtype=torch.float32, std=0.02):
    """Fresh weights: norms of one, all else drawn from a normal distribution around zero, by torch's global seed."""
    tensors = {
        name: std * torch.randn(shape, dtype=dtype) if len(shape) > 1 else torch.ones(shape, dtype=dtype)
        for name, shape in shapes(config).items()
    }
    return read(tensors, config)
