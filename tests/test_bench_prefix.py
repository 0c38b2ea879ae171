"""The benchmark of prefix caching computes exactly what isn't hit, and hits in a trace what an LRU cache made apart
hits. Speed itself is not tested: other work on the machine would decide."""

import contextlib
import gzip
import io
import json
import random
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import pytest

from minipaged.bench import prefix, trace_hits
from minipaged.bench.trace_hits import BLOCK_SIZE, Traced, read_trace, replay

TRACE = Path(__file__).resolve().parents[2] / "shared" / "traces" / "mooncake_conversation.jsonl.gz"


@pytest.fixture(scope="module")
def result():
    """The result of one tiny run without --trace, as JSON."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        prefix.main(["--prompt-tokens", "70", "--requests", "3", "--runs", "2", "--json"])
    return json.loads(out.getvalue())


class TestFirstTokens:
    def test_what_is_computed_is_what_is_not_hit(self, result):
        about = [result[name] for name in ("prompt_tokens", "block_size", "requests", "runs")]
        assert about == [70, 16, 3, 2]
        names = ("shared_percent", "shared_tokens", "hit_tokens", "computed_tokens")
        counts = [tuple(row[name] for name in names) for row in result["rows"]]
        assert counts == [(0, 0, 0, 70), (50, 35, 32, 38), (80, 56, 48, 22), (95, 66, 64, 6)]

    def test_both_sides_say_the_same(self, result):
        assert [row["same_token"] for row in result["rows"]] == [6, 6, 6, 6]
        for row in result["rows"]:
            for name in ("on_ms", "off_ms", "ratio"):
                assert 0 < row[name]["least"] <= row[name]["median"] <= row[name]["most"]

    def test_a_table(self, capsys):
        prefix.main(["--prompt-tokens", "33", "--shared", "99", "--requests", "1", "--runs", "1"])
        table, about = capsys.readouterr().out.split("\n\n")
        head, row = table.splitlines()
        assert "on / off" in head
        assert row.split()[:4] == ["99%", "33", "32", "1"]
        assert row.endswith("1 of 1")
        assert "blocks of 16" in about

    @pytest.mark.parametrize("caching", [True, False])
    def test_counting_is_from_the_plans(self, caching):
        """Hits and computed tokens agree with the memory's own statistics, and prompts share what they should."""
        engine = prefix.engine(40, caching)
        prompts = [prefix.prompt(number, 20, 40, engine.vocab_size) for number in range(4)]
        assert len({tuple(each[:20]) for each in prompts}) == 1
        assert len({each[20] for each in prompts}) == 4
        served = [prefix.first_token(engine, each) for each in prompts]
        hit = 16 if caching else 0
        assert [(each.hit, each.computed) for each in served] == [(0, 40)] + 3 * [(hit, 40 - hit)]
        assert engine.memory.prefix_stats.tokens_saved == 3 * hit
        assert all(each.ms > 0 for each in served)

    def test_a_run_that_hit_too_much_or_too_little_is_no_result(self):
        prefix.demand(prefix.Served(1.0, hit=16, computed=24, token=0), num_tokens=40, hit=16)
        for hit, computed in ((32, 8), (0, 40), (16, 40)):
            with pytest.raises(RuntimeError, match=r"16 of 40 should have been hit"):
                prefix.demand(prefix.Served(1.0, hit, computed, token=0), num_tokens=40, hit=16)


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--shared", "100"], "--shared=100: must be a whole number, from 0 to 99"),
        (["--shared", "50,-1"], "--shared='-1'"),
        (["--shared", ""], "--shared=''"),
        (["--prompt-tokens", "1024"], "--prompt-tokens=1024: at most 1023"),
        (["--prompt-tokens", "0"], "--prompt-tokens=0"),
        (["--requests", "x"], "--requests='x'"),
        (["--requests", "512", "--runs", "2"], "--requests=512 and --runs=2: at most 1023"),
        (["--num-blocks", "5"], "--num-blocks without --trace"),
        (["--trace", "f", "--runs", "2"], "--trace with --runs"),
        (["--trace", "f", "--prompt-tokens", "2"], "--trace with --prompt-tokens"),
        (["--trace", "f", "--num-blocks", "10,x"], "--num-blocks='x'"),
        (["--trace", "f", "--num-blocks", "0"], "--num-blocks=0"),
        (["--trace", "f", "--num-blocks", ""], "--num-blocks=''"),
        (["--trace", "f", "--num-blocks", "2000000"], "--num-blocks=2000000: at most 1,048,576"),
        (["--trace", "no-such-file"], "--trace no-such-file: No such file"),
    ],
)
def test_a_wrong_value_is_named_in_one_line(argv, named):
    with pytest.raises(ValueError) as raised:
        prefix.main(argv)
    assert str(raised.value).startswith(named)
    assert "\n" not in str(raised.value)


GOOD = {"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}


def without(name):
    return json.dumps({key: value for key, value in GOOD.items() if key != name})


def but(**fields):
    return json.dumps(GOOD | fields)


class TestReading:
    @pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
    def test_a_trace_whatever_it_is_called(self, tmp_path, pack):
        lines = ["\ufeff" + but(), "", "  ", but(input_length=512, hash_ids=[7]), without("timestamp")]
        (tmp_path / "trace").write_bytes(pack("\r\n".join(lines).encode()))
        assert read_trace(tmp_path / "trace") == [Traced(600, [0, 1]), Traced(512, [7]), Traced(600, [0, 1])]

    @pytest.mark.parametrize(
        ("line", "says"),
        [
            ("oops", "must be JSON: Expecting value"),
            (but()[:-5], "must be JSON"),
            ("1" * 5000, "must be JSON"),
            ("[" * 100_000, "nested too deeply"),
            (b"\xff{}", "must be UTF-8"),
            ("[1, 2]", "must be a JSON object"),
            (without("hash_ids"), "has no hash_ids"),
            (without("input_length"), "has no input_length"),
            (but(hash_ids=[0]), "has 1 hash_ids for input_length=600: must be 2"),
            (but(hash_ids=[0, 1, 2]), "has 3 hash_ids for input_length=600: must be 2"),
            (but(input_length=512), "has 2 hash_ids for input_length=512: must be 1"),
            (but(hash_ids="01"), "hash_ids must be a list"),
            (but(hash_ids=[0, -1]), "an id in hash_ids=-1"),
            (but(hash_ids=[0, 2**63]), "an id in hash_ids=9223372036854775808"),
            (but(hash_ids=[0, 1.0]), "an id in hash_ids=1.0"),
            (but(hash_ids=[0, None]), "an id in hash_ids=None"),
            (but(hash_ids=[0, True]), "an id in hash_ids=True"),
            (but(input_length=-600), "input_length=-600"),
            (but(input_length=0, hash_ids=[]), "input_length=0"),
            (but(input_length="600"), "input_length='600'"),
            (but(output_length=-5), "output_length=-5"),
            (but(timestamp=-1), "timestamp=-1"),
            (but(timestamp="now"), "timestamp='now'"),
        ],
    )
    def test_a_wrong_line_is_named(self, tmp_path, line, says):
        file = tmp_path / "trace"
        file.write_bytes(but().encode() + b"\n\n" + (line if isinstance(line, bytes) else line.encode()))
        with pytest.raises(ValueError) as raised:
            read_trace(file)
        assert str(raised.value).startswith(f"--trace {file}: line 3: ")
        assert says in str(raised.value)
        assert len(str(raised.value)) < 200 + len(str(file))

    def test_a_file_that_is_none(self, tmp_path):
        whole = gzip.compress(but().encode() * 50)
        broken = bytearray(whole)
        broken[-8:-4] = b"????"  # the checksum
        contents = {"empty": b"", "blank": b"\n \n", "cut": whole[:-10], "changed": bytes(broken), "no": b"\x1f\x8b oh"}
        for name, content in contents.items():
            (tmp_path / name).write_bytes(content)
        for name in [*contents, "missing", "."]:
            with pytest.raises(ValueError) as raised:
                read_trace(tmp_path / name)
            assert str(raised.value).startswith(f"--trace {tmp_path / name}: ")
            assert "\n" not in str(raised.value)

    def test_from_a_shell_it_is_one_line_and_status_2_and_needs_no_torch(self, tmp_path):
        (tmp_path / "trace").write_text(but() + "\n" + without("hash_ids"))
        code = "import sys; sys.modules['torch'] = None; from minipaged.__main__ import main; sys.exit(main())"
        argv = [sys.executable, "-c", code, "bench", "prefix", "--trace"]
        done = subprocess.run([*argv, str(tmp_path / "trace")], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"minipaged: --trace {tmp_path / 'trace'}: line 2: has no hash_ids\n"
        (tmp_path / "trace").write_text(but())
        done = subprocess.run([*argv, str(tmp_path / "trace")], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        assert "1,000" in done.stdout


def lru_hits(requests, num_blocks):
    """The hits in a pool that forgets what was used longest ago, made apart: no hashes, no allocator, no tables.

    A block's content is a node in a tree of all prompts: (the node of the block before it, its id). Of a request that
    is over, the last block counts as used before the one in front of it. A partly filled block takes room and is never
    hit; nor is all of a prompt. Returns (hits, evictions, prompts longer than the pool).
    """
    nodes, copies = {}, {}  # copies: node -> its blocks, the oldest first
    unused, numbers = OrderedDict(), iter(range(10**9))  # unused: block -> node, the next to be forgotten first
    hits = evictions = skipped = 0
    for input_length, hash_ids in requests:
        if len(hash_ids) > num_blocks:
            skipped += 1
            continue
        path, node = [], None
        for hash_id in hash_ids[: input_length // 512]:  # the full ones
            node = nodes.setdefault((node, hash_id), len(nodes))
            path.append(node)
        owned = []
        for node in path[: (input_length - 1) // 512]:
            if not copies.get(node):
                break
            owned.append(copies[node][0])
            del unused[owned[-1]]
        hits += len(owned)
        while len(unused) + len(hash_ids) > num_blocks:
            block, node = unused.popitem(last=False)
            copies[node].remove(block)
            evictions += 1
        for node in path[len(owned) :]:
            owned.append(next(numbers))
            copies.setdefault(node, []).append(owned[-1])
        unused.update(reversed(list(zip(owned, path))))
    return hits, evictions, skipped


def made_up(seed):
    """Requests that go on where earlier ones stopped, or within them. Lengths are often full blocks, or one token more
    or less."""
    draw, requests, fresh = random.Random(seed), [], iter(range(10**6))
    for _ in range(150):
        ids = list(draw.choice(requests).hash_ids) if requests and draw.random() < 0.8 else []
        ids = ids[: draw.randint(0, len(ids))] + [next(fresh) for _ in range(draw.choice([0, 0, 1, 2, 4, 6]))]
        ids = ids or [next(fresh)]
        requests.append(Traced(512 * len(ids) - draw.choice([0, 0, 0, 1, 511, 100]), ids))
    return requests


class TestHits:
    def test_by_hand(self):
        """Ten blocks are plenty. A prompt is never hit whole, a partial block never at all."""
        first, again, longer = Traced(1024, [0, 1]), Traced(1024, [0, 1]), Traced(1025, [0, 1, 2])
        assert replay([first], 10)["hits"] == 0
        assert replay([first, again], 10)["hits"] == 1
        assert replay([first, longer], 10)["hits"] == 2
        assert replay([longer, longer], 10)["hits"] == 2
        assert replay([first, Traced(1024, [5, 1])], 10)["hits"] == 0  # another past
        assert replay([Traced(1000, [0, 1]), longer], 10)["hits"] == 1  # block 1 was partial

    def test_what_was_used_longest_ago_goes_first_and_of_it_the_tail(self):
        a, b = Traced(1025, [0, 1, 2]), Traced(1025, [5, 6, 7])
        assert replay([a, b], 4) == {"num_blocks": 4, "hits": 0, "evictions": 1, "skipped": 0}
        assert replay([a, b, a], 4)["hits"] == 1  # block 0 was still there
        assert replay([a, a, b, b], 3)["hits"] == 4

    def test_a_prompt_longer_than_the_pool_is_skipped(self):
        assert replay([Traced(1025, [0, 1, 2]), Traced(1024, [0, 1])], 2) == {
            "num_blocks": 2,
            "hits": 0,
            "evictions": 0,
            "skipped": 1,
        }

    @pytest.mark.parametrize("seed", range(12))
    def test_as_an_lru_made_apart(self, seed):
        requests, found = made_up(seed), 0
        for num_blocks in (1, 2, 3, 5, 8, 13, 30, 200):
            ours = replay(requests, num_blocks)
            assert tuple(ours[name] for name in ("hits", "evictions", "skipped")) == lru_hits(requests, num_blocks)
            found += ours["hits"]
        assert found > 100

    def test_equal_ids_are_equal_tokens(self):
        tokens = trace_hits.token_ids_of(Traced(BLOCK_SIZE + 3, [7, 9]))
        assert tokens == [7] * BLOCK_SIZE + [9] * 3

    def test_the_table_and_the_json(self, tmp_path, capsys):
        file = tmp_path / "trace"
        file.write_text("\n".join([but(), but(), but(input_length=1500, hash_ids=[0, 1, 2])]))
        prefix.main(["--trace", str(file), "--num-blocks", "2,1000"])
        table, about = capsys.readouterr().out.split("\n\n")
        rows = [line.split() for line in table.splitlines()[1:]]
        assert rows == [["2", "1", "14.29%", "0", "1"], ["1,000", "2", "28.57%", "0", "0"]]
        assert about.startswith("3 prompts of 7 blocks of 512 tokens")
        assert "Skipped: prompts longer than the pool." in about

        prefix.main(["--trace", str(file), "--num-blocks", "1000", "--json"])
        result = json.loads(capsys.readouterr().out)
        [row] = result["rows"]
        assert [result[name] for name in ("block_size", "requests", "blocks")] == [512, 3, 7]
        assert row == {"num_blocks": 1000, "hits": 2, "evictions": 0, "skipped": 0, "hit_rate": 2 / 7}

    @pytest.mark.slow
    def test_mooncakes_conversations(self):
        if not TRACE.exists():
            pytest.skip("Mooncake's conversation trace isn't in shared/traces beside the repository")
        requests = read_trace(TRACE)
        num_ids = sum(len(request.hash_ids) for request in requests)
        assert (len(requests), num_ids) == (12_031, 288_500)
        for num_blocks, percent in ((1_000, 4.50), (3_000, 6.73), (10_000, 21.49), (30_000, 33.05)):
            ours = replay(requests, num_blocks)
            assert tuple(ours[name] for name in ("hits", "evictions", "skipped")) == lru_hits(requests, num_blocks)
            assert 100 * ours["hits"] / num_ids == pytest.approx(percent, abs=0.05)
