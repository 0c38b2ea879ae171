"""What a cache of fewer bytes costs in quality: the tiny GPT on text that it wasn't trained on, for each cache type.

Every position is computed by the dense forward, with K and V as such a cache would give them back: what the paged
engine computes, but for rounding, without its steps. The text is eight scenes of Shakespeare's plays that were held
out when the model was trained (model/weights/README.md says where they come from), or a file of one's own.
"""

import json
import math
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F

from minipaged.attention.kv_codec import NAMES, bytes_per_token, stored
from minipaged.bench.measure import progress, table, whole_option
from minipaged.commandline import Parser
from minipaged.model.load import load
from minipaged.model.train import windows

HELD_OUT = Path(__file__).with_name("held_out.txt")
BETWEEN_SCENES = "* * *\n"
ROWS_AT_A_TIME = 8


@torch.inference_mode()
def measure(model, tokenizer, texts, cache_dtypes, length):
    """Returns (rows, about): a dict for each type; how many characters and tokens the texts have.

    Texts are cut into rows of `length` tokens, and each row is scored with nothing before it: every type scores a
    little worse than in one long row. Raises ValueError for a type that isn't known.

    Compared is what one type changes in the same row of text: the logits, and which token is the likeliest.
    """
    inputs, targets = windows(texts, tokenizer, length)
    num_characters, num_tokens = sum(map(len, texts)), int((targets >= 0).sum())
    sums = {name: {"nats": 0.0, "largest_logit_error": 0.0, "num_agreeing": 0} for name in cache_dtypes}
    for start in range(0, len(inputs), ROWS_AT_A_TIME):
        rows = slice(start, start + ROWS_AT_A_TIME)
        is_text = targets[rows] >= 0  # the last row of a text is padded
        expected, exact = targets[rows][is_text], model.dense(inputs[rows])[is_text]
        for name, so_far in sums.items():
            progress(f"{name}: row {start} of {len(inputs)}")
            logits = model.dense(inputs[rows], partial(stored, cache_dtype=name))[is_text]
            so_far["nats"] += F.cross_entropy(logits, expected, reduction="sum").item()
            error = (logits - exact).abs().max().item()
            so_far["largest_logit_error"] = max(so_far["largest_logit_error"], error)
            so_far["num_agreeing"] += int((logits.argmax(-1) == exact.argmax(-1)).sum())
    progress()
    sizes = model.config.num_layers, model.config.num_kv_heads, model.config.head_dim
    return [
        {
            "cache_dtype": name,
            "bytes_per_token": bytes_per_token(name, *sizes),
            "bits_per_character": so_far["nats"] / math.log(2) / num_characters,
            "largest_logit_error": so_far["largest_logit_error"],
            "greedy_agreement": so_far["num_agreeing"] / num_tokens,
        }
        for name, so_far in sums.items()
    ], {"characters": num_characters, "tokens": num_tokens}


def read_texts(path):
    """The texts in a file, which a line of `* * *` divides. Raises ValueError for a file without any."""
    try:
        texts = Path(path).read_text(encoding="utf-8").split(BETWEEN_SCENES)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise ValueError(f"--text {path}: {reason}: must be a readable text file") from None
    texts = [text for text in texts if text.strip()]
    if not texts:
        raise ValueError(f"--text {path}: holds no text: at least 1 character is needed")
    return texts


def main(argv=None):
    """Measure and print. Raises ValueError for a value that isn't allowed."""
    parser = Parser(prog="python -m minipaged bench quality", description=__doc__)
    parser.add_argument("--text", default=str(HELD_OUT), metavar="FILE", help="another text; * * * divides several")
    parser.add_argument("--row-tokens", default="512", help="tokens scored together (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(argv)
    texts = read_texts(options.text)
    torch.set_num_threads(1)
    model, tokenizer = load("tiny", torch.float32, None, "cpu")
    length = whole_option("--row-tokens", options.row_tokens, least=2, most=model.config.max_model_len)
    rows, about = measure(model, tokenizer, texts, NAMES, length)
    if options.json:
        print(json.dumps({**about, "row_tokens": length, "rows": rows}))
        return
    print(report(rows))
    print(f"\n{about['characters']:,} characters, {about['tokens']:,} tokens, in rows of {length}. Beside float32:")
    print("the largest difference of any logit, and the share of positions with the same likeliest token.")


def report(rows):
    """The rows as a table. The rise is above the first of them."""
    head = ["cache", "bytes a token", "bits a character", "rise", "largest logit error", "same greedy token"]
    lines = []
    for row in rows:
        bits = row["bits_per_character"]
        rise = f"{100 * (bits / rows[0]['bits_per_character'] - 1):+.3f}%"
        numbers = [f"{row['bytes_per_token']:,}", f"{bits:.4f}", rise, f"{row['largest_logit_error']:.4f}"]
        lines.append([row["cache_dtype"], *numbers, f"{100 * row['greedy_agreement']:.2f}%"])
    return table(head, lines)
