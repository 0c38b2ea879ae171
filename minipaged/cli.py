"""The work behind `python -m minipaged generate`: read prompts, run them, print what comes of them.

Imports torch only in `load`. Wrong input is a ValueError; commandline.py makes one line of it.
"""

import json
import sys
import time
from contextlib import contextmanager, suppress
from unicodedata import category

from minipaged.commandline import one_line

BAR_AFTER_SECONDS = 2


def read_prompts(path):
    r"""The prompts in a file: one a line, blank lines skipped, a backslash and an n standing for the end of a line."""
    try:
        with open(path, "rb") as file:
            text = file.read().decode("utf-8-sig")  # a byte order mark, if there is one, is no part of the first prompt
    except OSError as error:
        raise ValueError(f"--prompts-file {path}: {error.strerror}: must be a readable text file") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"--prompts-file {path}: must be UTF-8, and byte {error.start} is not") from None
    lines = [line.removesuffix("\r") for line in text.split("\n")]  # not splitlines(): it splits at more than that
    prompts = [unescaped(line) for line in lines if line.strip()]
    if not prompts:
        raise ValueError(f"--prompts-file {path}: holds no prompt: at least 1 line must not be blank")
    return prompts


def unescaped(text):
    r"""A backslash and an n, as one writes the end of a line in a shell or in a file, become one."""
    return text.replace("\\n", "\n")


class DenseModel:
    """A GPT's dense oracle in the place of its paged forward pass: the cache is neither written nor read.

    Everything else is the engine's own: sampling, stopping, streaming. The engine must run one sequence at a time, so
    that the tokens it hands over are those of one text, in order, and without prefix caching, so that it hands over all
    of them.
    """

    def __init__(self, model):
        self.model, self.config = model, model.config
        self.token_ids = []  # the sequence so far

    def __call__(self, batch, cache):
        """Logits [num_due, vocab_size], as GPT.__call__; num_due is 0 (in the middle of a long prompt) or 1."""
        start = int(batch.positions[0])  # 0 begins the next sequence
        self.token_ids[start:] = batch.token_ids.tolist()
        return self.model.dense(batch.token_ids.new_tensor([self.token_ids]))[0, start:][batch.logit_rows]


def load(settings, dense=False, mine=False):
    """An LLM for settings, its keyword arguments. dense: it runs without its cache. mine: on the learner's parts."""
    from minipaged.serving.llm import LLM

    if mine:
        from minipaged.mine import Mine

        parts = Mine.load()
        print(f"minipaged: {one_line('; '.join([parts.yours, *parts.notes]))}", file=sys.stderr)
        return LLM(**settings, events=False, parts=parts)
    if not dense:
        return LLM(**settings, events=False)
    llm = LLM(**settings, events=False, max_num_seqs=1, enable_prefix_caching=False)
    llm.engine.model = DenseModel(llm.engine.model)
    return llm


def generate(llm, prompts, params, as_json):
    """Print the answers to each prompt, in order, each as soon as it and those before it are finished.

    params: SamplingParams or BeamSearchParams.
    """
    if len(prompts) == 1 and params.n == 1 and not as_json and sys.stdout.isatty():
        stream(llm, prompts, params)
        return
    finished, num_printed = {}, 0
    with Bar(len(prompts) * params.max_tokens) as bar:
        for output in llm.stream(prompts, params):
            index = int(output.request_id)  # a new engine numbers its requests from 0
            num_tokens = max(len(answer.token_ids) for answer in output.outputs)
            num_tokens = params.max_tokens if output.finished else num_tokens
            bar.update(index, num_tokens)
            if output.finished:
                finished[index] = output
            while num_printed in finished:
                with bar.hidden():
                    show(num_printed, finished.pop(num_printed), len(prompts), as_json)
                num_printed += 1


def show(index, output, num_prompts, as_json):
    """Print one finished RequestOutput or BeamSearchOutput. Where it has several answers, each is numbered from 0."""
    if num_prompts > 1 and not as_json:
        print(f"prompt {index}: {output.prompt!r}")
    for number, answer in enumerate(output.outputs):
        has_score = hasattr(answer, "score")
        if as_json:
            record = {"index": index, "answer": number}
            for name in ("prompt", "prompt_token_ids", "num_cached_tokens"):
                record[name] = getattr(output, name)
            for name in ("text", "token_ids", "finish_reason", "stop_reason", "cumulative_logprob"):
                record[name] = getattr(answer, name)
            record |= {"score": answer.score} if has_score else {}
            print(json.dumps(record))
            continue
        if len(output.outputs) > 1:
            print(f"answer {number}{f', score {answer.score:.4f}' if has_score else ''}:")
        print(printable(answer.text), end="\n\n" if num_prompts * len(output.outputs) > 1 else "\n")
    sys.stdout.flush()


def stream(llm, prompts, params):
    """Print the text of a single prompt as it comes."""
    num_shown = 0
    for output in llm.stream(prompts, params):
        text = output.outputs[0].text
        print(printable(text[num_shown:]), end="", flush=True)
        num_shown = len(text)
    print(flush=True)


def printable(text):
    """A model can draw any byte. On a terminal, control characters other than line end and tab could do anything."""
    if not sys.stdout.isatty():
        return text
    return "".join("\ufffd" if category(c) == "Cc" and c not in "\n\t" else c for c in text)


class Bar:
    """A progress bar on stderr, if that is a terminal and the work is long. A context; total is in tokens."""

    def __init__(self, total):
        self.total = total
        self._num_tokens = {}  # of each prompt
        self._num_done = 0
        self._progress = None
        self._start = time.monotonic()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self._progress:
            with suppress(IndexError):  # rich's, if a signal came while the bar was started
                self._progress.stop()
            self._progress.console.show_cursor()

    def update(self, index, num_tokens):
        """A prompt has num_tokens tokens now."""
        self._num_done += num_tokens - self._num_tokens.get(index, 0)
        self._num_tokens[index] = num_tokens
        if self._progress:
            self._progress.update(self._task, completed=self._num_done)
        elif time.monotonic() - self._start > BAR_AFTER_SECONDS and sys.stderr is not None and sys.stderr.isatty():
            self._begin()

    def _begin(self):
        from rich.console import Console
        from rich.progress import Progress

        # Not redirected: rich would send what is printed to its own console, so to stderr.
        console = Console(stderr=True)
        self._progress = Progress(console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
        self._task = self._progress.add_task("tokens", total=self.total, completed=self._num_done)
        self._progress.start()

    @contextmanager
    def hidden(self):
        """Inside it the bar is off the terminal, which stdout may share."""
        if self._progress:
            self._progress.stop()
        yield
        if self._progress:
            self._progress.start()
