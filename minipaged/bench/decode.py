"""Tokens per second of the engine, scheduler included, next to Hugging Face's `generate` on the very same weights.

Both get equal prompts and decode greedily in float32 up to the same length, as one static batch: all prompts in one
pass, then a token for each in every step. `generate` is at its best there, since nothing waits and nothing is padded.
The two take turns, each with one and with two torch threads, and the better of these counts. For the record, once
each: transformers' continuous batching.
"""

import json
import random
import time

import torch

from minipaged.arguments import MAX_SLOTS
from minipaged.bench import hugging_face
from minipaged.bench.measure import Spread, progress, table, whole_list, whole_option
from minipaged.commandline import Parser
from minipaged.memory.block_table import blocks_for
from minipaged.serving.llm import LLM
from minipaged.serving.sequence import SamplingParams

BLOCK_SIZE = 16
THREADS = (1, 2)
NO_TRANSFORMERS = "Hugging Face's side is missing here: it needs the extra 'compare' (see the README)"
NO_CONTINUOUS = "transformers' continuous batching is missing here: it needs the extra 'compare' (see the README)"


def prompts(batch, num_tokens, vocab_size):
    """The same random token ids every time."""
    draw = random.Random(0)
    return [[draw.randrange(vocab_size) for _ in range(num_tokens)] for _ in range(batch)]


def engine(batch, num_tokens, max_tokens):
    """An LLM with room for the whole batch. Its budget takes all prompts in one step, as `generate` does."""
    return LLM(
        block_size=BLOCK_SIZE,
        num_blocks=batch * blocks_for(num_tokens + max_tokens, BLOCK_SIZE),
        max_num_seqs=batch,
        max_num_batched_tokens=batch * num_tokens,
        events=False,
    )


def run_engine(llm, batch, max_tokens):
    """Returns the tokens generated: a list for each prompt."""
    params = SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True)
    return [output.outputs[0].token_ids for output in llm.generate(batch, params)]


def measure(batch, num_tokens, max_tokens, runs):
    """Tokens per second of each side for one batch size, and whether they agree. Returns a dict."""
    llm = engine(batch, num_tokens, max_tokens)
    llama = hugging_face.same_model(llm.engine.model)
    given = prompts(batch, num_tokens, llm.engine.vocab_size)
    sides = {"engine": (run_engine, llm)}
    if llama is not None:
        sides["hugging_face"] = (hugging_face.run_generate, llama)
        if hugging_face.can_batch_continuously():
            sides["continuous"] = (hugging_face.run_continuous, llama)
    # Once each, not timed: what is only made once is made here, and the tokens are compared.
    tokens = {name: run(model, given, max_tokens) for name, (run, model) in sides.items()}
    rates = {name: {threads: [] for threads in THREADS} for name in sides}
    for i in range(runs):
        progress(f"batch {batch}: run {i + 1} of {runs}")
        for threads in THREADS:
            torch.set_num_threads(threads)
            for name, (run, model) in sides.items():
                if name == "continuous" and i > 0:
                    continue
                start = time.perf_counter()
                run(model, given, max_tokens)
                rates[name][threads].append(batch * max_tokens / (time.perf_counter() - start))
    progress()
    row = {"batch": batch}
    for name in sides:
        by_threads = {threads: Spread.of(values) for threads, values in rates[name].items()}
        threads = max(by_threads, key=lambda n: by_threads[n].median)
        row[name] = {"threads": threads, "tokens_per_second": by_threads[threads]._asdict()}
    if llama is not None:
        ours, theirs = (row[name]["tokens_per_second"]["median"] for name in ("engine", "hugging_face"))
        row["ratio"] = ours / theirs
        row["same_tokens"] = sum(map(list.__eq__, tokens["engine"], tokens["hugging_face"]))
    torch.set_num_threads(row["engine"]["threads"])
    row["shares"] = shares(llm, given, max_tokens)
    return row


def shares(llm, given, max_tokens):
    """Where the time of the engine's decode steps goes: name -> its part of the whole.

    attention: the backend. rest of the model: matrix products, norms, rotations, the write of K and V. other: copies of
    blocks, the batch as tensors, choosing tokens, deciding who stops. The llm is left wrapped in timers: no use after.
    """
    engine, spent = llm.engine, {"scheduler": 0.0, "attention": 0.0, "model": 0.0}

    def timed(name, function):
        def wrapper(*arguments):
            start = time.perf_counter()
            result = function(*arguments)
            spent[name] += time.perf_counter() - start
            return result

        return wrapper

    scheduler, attention = engine.scheduler, engine.model.attention
    plan = timed("attention", attention.plan)
    scheduler.schedule = timed("scheduler", scheduler.schedule)
    scheduler.commit = timed("scheduler", scheduler.commit)
    attention.plan = lambda *arguments: timed("attention", plan(*arguments))
    engine.model = timed("model", engine.model)

    params = SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True)
    for prompt in given:
        engine.add(prompt, params)
    engine.step()  # the prompts: this is about decoding
    spent.update(dict.fromkeys(spent, 0.0))
    start = time.perf_counter()
    while engine.has_unfinished():
        engine.step()
    whole = time.perf_counter() - start
    parts = {
        "scheduler": spent["scheduler"],
        "attention": spent["attention"],
        "rest of the model": spent["model"] - spent["attention"],
        "other": whole - spent["scheduler"] - spent["model"],
    }
    return {name: part / whole for name, part in parts.items()}


def main(argv=None):
    """Measure and print. Raises ValueError for a value that isn't allowed."""
    parser = Parser(prog="python -m minipaged bench decode", description=__doc__)
    parser.add_argument("--batch", default="1,8,16,64", help="batch sizes, a list (default: %(default)s)")
    parser.add_argument("--runs", default="5", help="runs of each kind (default: %(default)s)")
    parser.add_argument("--prompt-tokens", default="32", help="tokens in a prompt (default: %(default)s)")
    parser.add_argument("--max-tokens", default="128", help="tokens generated, at least 2 (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(argv)
    batches, runs = whole_list("--batch", options.batch), whole_option("--runs", options.runs)
    num_tokens = whole_option("--prompt-tokens", options.prompt_tokens)
    max_tokens = whole_option("--max-tokens", options.max_tokens)
    if max_tokens < 2:
        raise ValueError(f"--max-tokens={max_tokens}: must be at least 2, since the prompt's step gives the first one")
    if max(batches) * (num_tokens + max_tokens + BLOCK_SIZE) > MAX_SLOTS:
        raise ValueError(
            f"--batch {max(batches)} with {num_tokens + max_tokens} tokens each: at most {MAX_SLOTS:,} in all"
        )
    context = engine(1, 1, 1).engine.max_model_len
    if num_tokens + max_tokens > context:
        raise ValueError(
            f"--prompt-tokens={num_tokens} and --max-tokens={max_tokens}: the model's context is {context} tokens"
        )
    threads_before = torch.get_num_threads()
    try:
        rows = [measure(batch, num_tokens, max_tokens, runs) for batch in batches]
    finally:
        torch.set_num_threads(threads_before)
    if options.json:
        about = {"prompt_tokens": num_tokens, "max_tokens": max_tokens, "dtype": "float32", "runs": runs}
        print(json.dumps({**about, "hugging_face": "ratio" in rows[0], "rows": rows}))
        return
    print(report(rows))
    print(f"\nPrompts of {num_tokens} tokens, {max_tokens} new ones, float32. Over {runs} runs: median, least, most.")
    if "ratio" not in rows[0]:
        print(NO_TRANSFORMERS)
    elif "continuous" not in rows[0]:
        print(NO_CONTINUOUS)


def report(rows):
    """The rows as two tables: tokens per second, and the shares of a step."""

    def rate(side):
        return [Spread(**side["tokens_per_second"]).text(0), str(side["threads"])]

    head, lines = ["batch", "engine, tokens/s", "threads"], [[str(row["batch"]), *rate(row["engine"])] for row in rows]
    if "ratio" in rows[0]:
        head += ["generate, tokens/s", "threads", "ratio", "same tokens"]
        for line, row in zip(lines, rows):
            same = f"{row['same_tokens']} of {row['batch']}"
            line += [*rate(row["hugging_face"]), f"{row['ratio']:.2f}", same]
    if "continuous" in rows[0]:
        head.append("continuous, tokens/s")
        for line, row in zip(lines, rows):
            line.append(f"{row['continuous']['tokens_per_second']['median']:,.0f}")
    names = list(rows[0]["shares"])
    parts = [[str(row["batch"]), *(f"{row['shares'][name]:.1%}" for name in names)] for row in rows]
    return f"{table(head, lines)}\n\nOf the engine's decode step\n{table(['batch', *names], parts)}"
