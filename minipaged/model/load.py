"""Read a model's folder from disk: config.json, model.safetensors, tokenizer.json. Nothing is ever downloaded."""

import json
import os
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors.torch import load_file

from minipaged.model.gpt import GPT
from minipaged.model.tokenizer import Tokenizer
from minipaged.model.weights import GPTConfig, read

TINY = Path(__file__).parent / "weights"


def load(name="tiny", dtype=torch.float32, attention=None, device="cpu"):
    """Read "tiny", the model that ships, or the folder at a path. Returns (GPT, Tokenizer), the weights cast to dtype
    and on device.

    attention: the backend of its paged forward, as in GPT. Raises ValueError if there is no such model, or if its files
    don't make one.
    """
    if not isinstance(name, (str, Path)):
        raise ValueError(f'model={name!r}: must be "tiny" or the path of a folder')
    folder = TINY if name == "tiny" else Path(name)
    for file in ("config.json", "model.safetensors", "tokenizer.json"):
        if not os.path.isfile(folder / file):  # not Path.is_file, which raises for a name that is too long
            files = "config.json, model.safetensors and tokenizer.json"
            raise ValueError(f'model={str(name)!r}: must be "tiny" or a folder with {files}, and {file} is not there')
    with naming(folder / "config.json"):
        config = GPTConfig(**json.loads((folder / "config.json").read_text(encoding="utf-8")))
    with naming(folder / "model.safetensors"):
        tensors = {name: tensor.to(device, dtype) for name, tensor in load_file(folder / "model.safetensors").items()}
        weights = read(tensors, config)
    with naming(folder / "tokenizer.json"):
        tokenizer = Tokenizer(folder / "tokenizer.json")
    if tokenizer.vocab_size > config.vocab_size:
        raise ValueError(f"{folder}: the tokenizer has {tokenizer.vocab_size} tokens, the model {config.vocab_size}")
    return GPT(config, weights, attention), tokenizer


@contextmanager
def naming(file):
    """Whatever is wrong with a file is a ValueError that names it. Each of the libraries has its own errors for it."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{file}: {error}") from error
