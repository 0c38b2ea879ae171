"""An engine on a learner's parts: right ones give what minipaged's own give, wrong ones are named, with their line."""

import shutil
import subprocess
import sys
from textwrap import indent

import pytest

from minipaged.exercises import EXERCISES

SOLVED = {id: f"from {each.module} import {', '.join(each.names)}\n" for id, each in EXERCISES.items()}
COUNTING = """
from test_mine import lengths

def attend_one(q, k_cache, v_cache, block_table, seq_len, scale, solved=attend_one):
    lengths.append(seq_len)
    return solved(q, k_cache, v_cache, block_table, seq_len, scale)
"""
FORKING = """
from test_mine import forks

def fork(table, allocator, solved=fork):
    forks.append(table.blocks)
    return solved(table, allocator)
"""
lengths, forks = [], []  # what was attended to, and the blocks of what was forked, for the learner's files above
PROMPTS = ["HAMLET:\nTo be", "JULIET:\nO Romeo, Romeo", "MACBETH:\n"]


def write(folder, exercise_id, text=None):
    (folder / EXERCISES[exercise_id].file).write_text(text or SOLVED[exercise_id])


def answers(parts, n=2, **settings):
    """Token ids of n answers to each prompt, in a pool so small that somebody has to yield."""
    from minipaged.serving.llm import LLM
    from minipaged.serving.sequence import SamplingParams

    settings = {"num_blocks": 14, "block_size": 4, "dtype": "float64", "max_num_batched_tokens": 64} | settings
    llm = LLM(parts=parts, **settings)
    outputs = llm.generate(PROMPTS, SamplingParams(seed=1, n=n, max_tokens=16, ignore_eos=True))
    return [answer.token_ids for output in outputs for answer in output.outputs]


def mine():
    from minipaged.mine import Mine

    return Mine.load()


def test_nothing_is_solved_at_first(folder):
    parts = mine()
    assert parts.exercises == () and parts.notes == ()
    assert parts.yours == "yours: nothing yet"


@pytest.mark.parametrize("cache_dtype", ["float16", "bfloat16", "int8", "fp8"])
def test_attention_that_knows_no_scales_reads_a_narrow_cache(cache_dtype):
    """attend_one, encode and decode that are somebody's: the answers are minipaged's own. attend_one was called, and
    the two others where the cache has scales, for a type that they know: for floats nobody asks them."""
    from minipaged.attention import kv_codec, reference
    from minipaged.serving.parts import Parts

    called = set()

    def noted(function):
        def call(*arguments):
            called.add(function.__name__)
            assert function.__name__ != "encode" or arguments[1] == cache_dtype
            assert function.__name__ != "decode" or arguments[1].dtype.itemsize == 4
            return function(*arguments)

        return call

    expected = answers(None, cache_dtype=cache_dtype, attention="reference")
    names = ["attend_one", "encode", "decode"]
    functions = [noted(getattr(module, name)) for module, name in zip((reference, kv_codec, kv_codec), names)]
    assert answers(Parts(**dict(zip(names, functions))), cache_dtype=cache_dtype) == expected
    is_coded = cache_dtype in ("int8", "fp8")
    assert called == set(names if is_coded else names[:1])
    for name, function in zip(names[1:], functions[1:]):  # one of them alone is used too
        called.clear()
        assert answers(Parts(**{name: function}), cache_dtype=cache_dtype, attention="reference") == expected
        assert called == ({name} if is_coded else set())


@pytest.mark.slow
def test_each_right_solution_runs_the_engine(folder):
    expected = [answers(None, n=n) for n in (1, 2)]
    import honesty

    for exercise in (each for each in EXERCISES.values() if each.parts):
        for path in honesty.solutions("right", exercise):
            shutil.copy(path, folder / exercise.file)
            parts = mine()
            assert exercise in parts.exercises
            assert [answers(parts, n=n) for n in (1, 2)] == expected, path.name


@pytest.mark.slow
@pytest.mark.parametrize("cache_dtype", ["int8", "fp8"])
def test_each_right_codec_runs_the_engine(folder, cache_dtype):
    import honesty

    expected = [answers(None, n=n, cache_dtype=cache_dtype) for n in (1, 2)]
    for path in honesty.solutions("right", EXERCISES["ex11"]):
        shutil.copy(path, folder / EXERCISES["ex11"].file)
        assert [answers(mine(), n=n, cache_dtype=cache_dtype) for n in (1, 2)] == expected, path.name


WRONG_CODECS = {
    "codes for the whole tensor": (
        "def encode(x, cache_dtype='int8', solved=encode):\n"
        "    codes, scale = solved(x.flatten()[None], cache_dtype)\n"
        "    return codes.view(x.shape), scale.expand(x.shape[:-1])\n",
        r"encode\(\[29, 2, 32\], 'int8'\): 57 of 58 heads are read less exactly than minipaged's",
    ),
    "cut off": (
        "def encode(x, cache_dtype='int8'):\n    scale = x.abs().amax(-1).float() / 127\n"
        "    return (x / scale[..., None]).char(), scale\n",
        r"encode\(.*\): 58 of 58 heads are read less exactly",
    ),
    "no scale": (
        "def encode(x, cache_dtype='int8', solved=encode):\n    return solved(x, cache_dtype)[0], None\n",
        r"encode: scale is NoneType, and it must be \[29, 2\] torch.float32",
    ),
    "codes as floats": (
        "def encode(x, cache_dtype='int8', solved=encode):\n"
        "    codes, scale = solved(x, cache_dtype)\n    return codes.float(), scale\n",
        r"encode: codes is \[29, 2, 32\] torch.float32, and it must be \[29, 2, 32\] torch.int8",
    ),
    "decode divides": (
        "def decode(codes, scale):\n    return codes.float() / scale.unsqueeze(-1)\n",
        r"decode\(\[\d+, 4, 2, 32\]\) is .* away from minipaged's answer",
    ),
}


@pytest.mark.parametrize("text, message", WRONG_CODECS.values(), ids=list(WRONG_CODECS))
def test_codes_that_would_spoil_a_text_are_told(folder, text, message):
    write(folder, "ex11", SOLVED["ex11"] + text)
    assert answers(mine()) == answers(None)  # a cache of floats has no use for them
    with pytest.raises(ValueError, match="while the engine used encode, decode: WrongAnswer: " + message):
        answers(mine(), cache_dtype="int8")


def test_codes_that_hide_nan_are_told(folder):
    from math import nan

    import torch

    from minipaged.learner import WrongAnswer

    hiding = "def encode(x, cache_dtype='int8', solved=encode):\n    return solved(x.nan_to_num(0), cache_dtype)\n"
    write(folder, "ex11", SOLVED["ex11"] + hiding)
    x = torch.ones(3, 2, 8)
    x[1, 1, 4] = nan
    with pytest.raises(WrongAnswer, match=r"encode\(\[3, 2, 8\], 'int8'\): 1 of 6 heads are read less exactly"):
        mine().encode(x)


def test_all_of_them_together(folder):
    for exercise_id in EXERCISES:
        write(folder, exercise_id)
    parts = mine()
    names = "fork, make_writable, schedule, choose_victim, preempt, resume, block_hashes, PrefixCache, encode, decode"
    assert parts.yours == f"yours: BlockAllocator, BlockTable, attend_one, {names}"
    assert answers(parts) == answers(None)
    assert answers(parts, cache_dtype="int8") == answers(None, cache_dtype="int8")


def test_the_learners_code_is_what_runs(folder):
    write(folder, "ex03", SOLVED["ex03"] + "class BlockAllocator(BlockAllocator): pass\n")
    write(folder, "ex04", SOLVED["ex04"] + "class BlockTable(BlockTable): pass\n")
    write(folder, "ex05", SOLVED["ex05"] + COUNTING)
    from minipaged.serving.llm import LLM

    lengths.clear()
    parts = mine()
    llm = LLM(parts=parts)
    llm.engine.add([1, 2, 3], request_id="A")
    llm.engine.step()
    assert type(llm.engine.memory.allocator) is parts.allocator
    assert type(llm.engine.memory.table("A")) is parts.block_table
    assert lengths[:3] == [1, 2, 3]


def test_their_fork_is_what_runs(folder):
    write(folder, "ex07", SOLVED["ex07"] + FORKING)
    forks.clear()
    assert answers(mine()) == answers(None)
    assert len(forks) >= len(PROMPTS) and all(forks)


SCHEDULING = """
from test_mine import forks

def schedule(running, waiting, budget, max_num_seqs, solved=schedule):
    rows = solved(running, waiting, budget, max_num_seqs)
    forks.append([tuple(row) for row in rows])
    return rows
"""


@pytest.mark.parametrize("num_blocks, budget", [(100, 64), (100, 3), (9, 64), (9, 5)])
def test_their_schedule_decides_the_steps(folder, num_blocks, budget):
    write(folder, "ex08", SOLVED["ex08"] + SCHEDULING)
    forks.clear()
    settings = {"n": 1, "num_blocks": num_blocks, "max_num_batched_tokens": budget, "max_num_seqs": 3}
    assert answers(mine(), **settings) == answers(None, **settings)
    assert len(forks) > 15 and any(len(rows) == 3 for rows in forks)


WRONG_SCHEDULES = {
    "overtakes": (
        "    waiting.reverse()\n    return solved(running, waiting, budget, max_num_seqs)\n",
        r"schedule\(\[\], \[0 0/7, 1 0/14, 2 0/8\], 64, 64\) gave \[\(2, 0, 8\), .*, and it must give \[\(0, 0, 7\), ",
    ),
    "loses one": (
        "    rows = solved(running, waiting, budget, max_num_seqs)\n    running.pop()\n    return rows\n",
        r"left running \[0 0/7, 1 .*\] and waiting \[\], and it must leave \[0 0/7, 1 .*, 2 .*\] and \[\]",
    ),
    "counts too early": (
        "    for each in waiting:\n        each.num_computed_tokens += 1\n    return []\n",
        r"your code, ex08_scheduler.py, line 5, in schedule: FrozenInstanceError: .*num_computed_tokens",
    ),
}


@pytest.mark.parametrize("text, message", WRONG_SCHEDULES.values(), ids=list(WRONG_SCHEDULES))
def test_a_schedule_that_decides_otherwise_is_told(folder, text, message):
    head = "\ndef schedule(running, waiting, budget, max_num_seqs, solved=schedule):\n"
    write(folder, "ex08", SOLVED["ex08"] + head + text)
    with pytest.raises(ValueError, match="^your code, .*" + message.removeprefix("your code, ")):
        answers(mine(), n=1)


def test_a_file_that_cannot_be_used_is_left_out_and_told(folder):
    write(folder, "ex03", "def f(:")
    write(folder, "ex04")
    parts = mine()
    assert parts.yours == "yours: BlockTable"
    assert parts.notes == ("not used: ex03_allocator.py, line 1: SyntaxError: invalid syntax",)


WRONG_ATTENTION = {
    "it returns nothing": ("    return None\n", "returned NoneType: a tensor of torch.Size([6, 32]) is needed"),
    "it sees a key too few": (
        "    return solved(q, k_cache, v_cache, block_table, seq_len - 1, scale)\n",
        "away from minipaged's answer",
    ),
    "it is not a number": ("    return q * float('nan')\n", "is nan away from minipaged's answer"),
}


@pytest.mark.parametrize("text, message", WRONG_ATTENTION.values(), ids=list(WRONG_ATTENTION))
def test_attention_that_answers_wrongly_is_told(folder, text, message):
    arguments = "q, k_cache, v_cache, block_table, seq_len, scale"
    write(folder, "ex05", SOLVED["ex05"] + f"solved = attend_one\ndef attend_one({arguments}):\n{text}")
    with pytest.raises(ValueError, match="while the engine used attend_one: WrongAnswer: attend_one") as error:
        answers(mine())
    assert message in str(error.value)


WRONG_WRITES = {
    "nothing is copied": ("    return None\n", "about to be written, has 2 owners"),
    "it doesn't say what": ("    solved(table, position, allocator)\n", r"and returned None, not \(\d+, \d+\)"),
    "the wrong way round": (
        "    pair = solved(table, position, allocator)\n    return pair and pair[::-1]\n",
        r"and returned \((\d+), (\d+)\), not \(\2, \1\)",
    ),
}


@pytest.mark.parametrize("text, message", WRONG_WRITES.values(), ids=list(WRONG_WRITES))
def test_copies_that_would_spoil_a_text_are_told(folder, text, message):
    write(
        folder,
        "ex07",
        SOLVED["ex07"] + f"solved = make_writable\ndef make_writable(table, position, allocator):\n{text}",
    )
    with pytest.raises(ValueError, match="while the engine used fork, make_writable: WrongAnswer: .*" + message):
        answers(mine())


def test_a_fork_that_the_allocator_was_not_told_of_is_told(folder):
    write(
        folder,
        "ex07",
        SOLVED["ex07"] + "from copy import deepcopy\ndef fork(table, allocator): return deepcopy(table)\n",
    )
    with pytest.raises(ValueError, match=r"used fork, make_writable: BrokenInvariant: block .* but 2 tables name it"):
        answers(mine())


WRONG_HASHES = {
    "two tokens are one": (
        "def block_hashes(token_ids, block_size, parent=ROOT):\n"
        "    token_ids = [5 + place % 4 if each == 9 else each for place, each in enumerate(token_ids)]\n"
        "    return solved(token_ids, block_size, parent)\n",
        "gave b.* for two texts: one would be answered for the other",
    ),
    "what comes before doesn't count": (
        "def block_hashes(token_ids, block_size, parent=ROOT):\n"
        "    starts = range(0, len(token_ids) - block_size + 1, block_size)\n"
        "    return [solved(token_ids[start : start + block_size], block_size)[0] for start in starts]\n",
        "gave b.* for two texts",
    ),
    "always another hash": (
        "from itertools import count\nnumbers = count()\n"
        "def block_hashes(token_ids, block_size, parent=ROOT):\n"
        "    return [bytes([next(numbers) % 256]) + each[1:] for each in solved(token_ids, block_size, parent)]\n",
        "gave b.* and b.* for the same text",
    ),
    "one too few": (
        "def block_hashes(token_ids, block_size, parent=ROOT):\n    return solved(token_ids, block_size, parent)[1:]\n",
        r"block_hashes of \d+ tokens gave \[.*: \d+ are needed",
    ),
}
WRONG_HITS = {
    "nothing is hit": (
        "longest_hit(self, token_ids):\n        return []\n",
        r"longest_hit of \d+ tokens is \[\], and it",
    ),
    "the whole prompt is hit": (
        "longest_hit(self, token_ids):\n        return super().longest_hit([*token_ids, 0])\n",
        r"longest_hit of 8 tokens is \[\d+, \d+\], and it must be \[\d+\]",
    ),
    "the newest copy is hit": (
        "longest_hit(self, token_ids):\n        hit = super().longest_hit(token_ids)\n"
        "        newest = {self.hash_of(block): block for block in range(14)}\n"
        "        return [newest[self.hash_of(block)] for block in hit]\n",
        r"longest_hit of 8 tokens is \[\d+\], and it must be \[\d+\]",
    ),
    "nothing is forgotten": ("forget(self, block):\n        pass\n", r"hash_of\(\d+\) is b.*, and it must be "),
    "nothing is remembered": (
        "remember(self, block, block_hash):\n        pass\n",
        r"hash_of\(\d+\) is None, and it must be b",
    ),
    "no hash is known": ("hash_of(self, block):\n        return None\n", r"hash_of\(\d+\) is None, and it must be b"),
}
KEEPING = "from minipaged.memory.prefix_cache import ROOT\nsolved = block_hashes\n"


def hits(parts):
    """Answers to prompts of which each is known when it comes: the same one three times, then others."""
    from minipaged.serving.llm import LLM
    from minipaged.serving.sequence import SamplingParams

    llm, found = LLM(num_blocks=14, block_size=4, dtype="float64", parts=parts), []
    params = SamplingParams(temperature=0, max_tokens=6, ignore_eos=True)
    block = [5, 6, 7, 8]
    for prompts in (
        [block * 2] * 2,
        [block * 2],
        [[*block, 9, 9, 9, 9, 1]],
        [block * 5],
        [[1, 1, 1] * 16],
        [block * 2],
    ):
        found += [(each.num_cached_tokens, each.outputs[0].token_ids) for each in llm.generate(prompts, params)]
    return found


def test_their_prefix_cache_is_what_runs(folder):
    text = "class PrefixCache(PrefixCache):\n    def longest_hit(self, token_ids):\n"
    text += "        forks.append(token_ids)\n        return super().longest_hit(token_ids)\n"
    write(folder, "ex10", SOLVED["ex10"] + "from test_mine import forks\n" + text)
    forks.clear()
    assert hits(mine()) == hits(None)
    assert [each for each, _ in hits(None)] == [0, 0, 4, 4, 8, 0, 0]
    assert len(forks) == 7


@pytest.mark.parametrize("text, message", WRONG_HASHES.values(), ids=list(WRONG_HASHES))
def test_hashes_that_would_spoil_a_text_are_told(folder, text, message):
    write(folder, "ex10", SOLVED["ex10"] + KEEPING + text)
    with pytest.raises(ValueError, match="while the engine used block_hashes, PrefixCache: WrongAnswer: .*" + message):
        hits(mine())


@pytest.mark.parametrize("text, message", WRONG_HITS.values(), ids=list(WRONG_HITS))
def test_hits_that_would_spoil_a_text_are_told(folder, text, message):
    write(folder, "ex10", SOLVED["ex10"] + "class PrefixCache(PrefixCache):\n    def " + text)
    with pytest.raises(ValueError, match="while the engine used block_hashes, PrefixCache: WrongAnswer: .*" + message):
        hits(mine())


def alone(parts, **settings):
    """Token ids of one answer to each prompt, in a pool so small that somebody has to yield."""
    from minipaged.serving.llm import LLM
    from minipaged.serving.sequence import SamplingParams

    llm = LLM(parts=parts, num_blocks=9, block_size=4, dtype="float64", max_num_batched_tokens=64, **settings)
    outputs = llm.generate(PROMPTS, SamplingParams(seed=1, max_tokens=16, ignore_eos=True))
    return [output.outputs[0].token_ids for output in outputs]


YIELDING = """
from test_mine import forks

def preempt(sequence, memory, swap=False, solved=preempt):
    forks.append(sequence.name)
    return solved(sequence, memory, swap)

def resume(sequence, memory, extra_blocks=0, solved=resume):
    forks.append(sequence.name)
    return solved(sequence, memory, extra_blocks)
"""
SWAP = {"preemption": "swap", "swap_blocks": 9}


@pytest.mark.parametrize("settings", [{}, SWAP], ids=["recompute", "swap"])
def test_their_preemption_is_what_runs(folder, settings):
    write(folder, "ex09", SOLVED["ex09"] + YIELDING)
    forks.clear()
    assert alone(mine(), **settings) == alone(None, **settings)
    assert len(forks) > len(PROMPTS)


WRONG_PREEMPTION = {
    "oldest": ("def choose_victim(running): return running[0]\n", {}, "choose_victim chose .*, and the newest is"),
    "lost": ("    sequence.token_ids.pop()\n    return []\n", {}, "preempt changed the tokens of"),
    "kept": ("    return []\n", {}, "preempt left .* as computed, and it must be 0"),
    "zeroed": (
        "    pairs = memory.swap_out([sequence.name])\n    sequence.num_computed_tokens = 0\n    return pairs\n",
        SWAP,
        "preempt left 0 tokens of .* as computed, and it must be",
    ),
}


@pytest.mark.parametrize("text, settings, message", WRONG_PREEMPTION.values(), ids=list(WRONG_PREEMPTION))
def test_preemption_that_would_spoil_a_text_is_told(folder, text, settings, message):
    head = "" if text.startswith("def") else "def preempt(sequence, memory, swap=False):\n"
    head += "" if settings or not head else "    memory.release(sequence.name)\n"
    write(folder, "ex09", SOLVED["ex09"] + head + text)
    with pytest.raises(ValueError, match="while the engine used .*: WrongAnswer: .*" + message):
        alone(mine(), **settings)


WRONG_TABLE = {
    "another slot": (
        "    def slots(self, start, stop):\n        return [7] * (stop - start)\n",
        "hold the slots [0, 1, 2, 3",
    ),
    "no slots": ("    def slots(self, start, stop):\n        return []\n", "must be (0, 2, 32) for these slots"),
    "too many blocks": ("    def blocks_needed(self, n):\n        return 10**9\n", "requests wait, nobody runs"),
    "half a block": ("    def blocks_needed(self, n):\n        return n / 4\n", "must be a whole number"),
    "it leaves": (
        "    def slots(self, start, stop):\n        exit()\n",
        "line 4, in slots: SystemExit",
    ),
}


@pytest.mark.parametrize("text, message", WRONG_TABLE.values(), ids=list(WRONG_TABLE))
def test_a_wrong_table_is_theirs_too(folder, text, message):
    write(folder, "ex04", SOLVED["ex04"] + "class BlockTable(BlockTable):\n" + text)
    with pytest.raises(ValueError, match=r"^your code, ") as error:
        answers(mine())
    assert message in str(error.value)


def test_what_is_left_of_the_stub_is_told(folder):
    write(
        folder,
        "ex04",
        SOLVED["ex04"] + '\ndef left():\n    raise NotImplementedError("ex04: slots is yours to write")\n',
    )
    parts = mine()
    assert parts.exercises == ()
    assert parts.notes == ("not used: ex04_block_table.py, line 4 says that it is still to be written",)


EVER = """
import time
while True:
    try:
        time.sleep(0.01)
    except BaseException:
        pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("program", ["minipaged", "visualize"])
@pytest.mark.parametrize("where", ["in a method", "while the file is read"])
def test_a_signal_ends_a_loop_that_catches_everything(folder, program, where):
    text = EVER
    if where == "in a method":
        text = "class BlockTable(BlockTable):\n    def slots(self, start, stop):\n" + indent(EVER, " " * 8)
    write(folder, "ex04", SOLVED["ex04"] + text)
    argv = {"minipaged": ["generate", "--prompt", "x", "--mine"], "visualize": ["--mine", "--plain"]}[program]
    code = f"""
import sys
from pathlib import Path
import minipaged.exercises
minipaged.exercises.FOLDER = Path({str(folder)!r})
from {program}.__main__ import main
sys.exit(main({argv}))
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(6):  # the first ones may come before the loop
            try:
                assert process.wait(5) == 143
                break
            except subprocess.TimeoutExpired:
                process.terminate()
        assert process.poll() == 143
    finally:
        process.kill()


WRONG = {
    "it raises": (
        "    def release(self, ids, keep=()):\n        return ids[99]\n",
        r"your code, ex03_allocator.py, line 4, in release: IndexError: .*pytest -k 'ex03' --impl yours -x",
    ),
    "it raises ValueError": (
        "    def release(self, ids, keep=()):\n        raise ValueError('what?')\n",
        "your code, ex03_allocator.py, line 4, in release: ValueError: what?",
    ),
    "a block is given twice": (
        "    def allocate(self, n=1):\n        super().allocate(n)\n        return list(range(n))\n",
        "your code, while the engine used BlockAllocator: BrokenInvariant: block",
    ),
    "it gives nothing back": (
        "    def allocate(self, n=1):\n        super().allocate(n)\n",
        "your code, while the engine used BlockAllocator: TypeError: 'NoneType' object is not iterable",
    ),
    "nothing is freed": (
        "    def release(self, ids, keep=()):\n        return []\n",
        "your code, while the engine used BlockAllocator: BrokenInvariant: block",
    ),
}


@pytest.mark.parametrize("text, message", WRONG.values(), ids=list(WRONG))
def test_an_error_in_their_code_is_theirs(folder, text, message):
    write(folder, "ex03", SOLVED["ex03"] + "class BlockAllocator(BlockAllocator):\n" + text)
    with pytest.raises(ValueError, match=message):
        answers(mine())


def test_a_wrong_prompt_is_not_their_fault(folder):
    from minipaged.serving.llm import LLM

    write(folder, "ex03")
    with pytest.raises(ValueError, match=r"^prompt 0: the prompt is empty"):
        LLM(parts=mine()).generate([[]])


def test_dense_has_no_parts(capsys):
    from minipaged.options import parse_args

    with pytest.raises(SystemExit) as error:
        parse_args(["generate", "--prompt", "x", "--dense", "--mine"])
    assert error.value.code == 2 and "--dense with --mine" in capsys.readouterr().err


def test_the_visualizer_says_whose_parts_they_are(folder, capsys):
    import visualize.__main__

    write(folder, "ex04")
    write(folder, "ex03", "def f(:")
    assert visualize.__main__.main(["--mine", "--once", "0"]) == 0
    frame = capsys.readouterr().out
    assert "yours: BlockTable · mixed" in frame
    assert "not used: ex03_allocator.py, line 1: SyntaxError: invalid syntax." in frame


def test_the_visualizer_names_an_error_in_one_line(folder, capsys):
    import visualize.__main__

    write(
        folder,
        "ex04",
        SOLVED["ex04"] + "class BlockTable(BlockTable):\n    def slots(self, start, stop):\n        1 / 0\n",
    )
    assert visualize.__main__.main(["--mine", "--plain"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("visualize: your code, ex04_block_table.py, line 4, in slots: ZeroDivisionError: ")
    assert error.count("\n") == 1


def test_generate_says_whose_parts_they_are(folder, capsys):
    from minipaged.__main__ import run

    write(folder, "ex05")
    run(["generate", "--prompt", "ROMEO:", "--max-tokens", "2", "--mine"])
    assert capsys.readouterr().err == "minipaged: yours: attend_one\n"
