"""The cost model's numbers by hand, runs on its clock against a naive recount, the earlier policies, and the fit."""

import dataclasses
import json
import random
import subprocess
import sys

import pytest

from minipaged.bench import cost_model, fit_costs, swap_study
from minipaged.bench.cost_model import OPT_13B, OPT_175B, Clock, CostModel
from minipaged.bench.earlier_policies import static_batching, whole_prompts
from minipaged.bench.timed_run import request, run
from minipaged.memory.paged import PagedMemory
from minipaged.serving.plan import Plan, Row
from minipaged.serving.scheduler import Scheduler
from minipaged.serving.sequence import Request, SamplingParams

ROUND = CostModel("round numbers", 8.0, 0.5, 10.0, 0.1, 0.001, 100, 1_000_000, 10, copy_us=5.0, pcie_gb_per_s=20.0)


def scheduler_of(clock, num_blocks=100, block_size=4, budget=32, max_num_seqs=8, preemption="recompute"):
    host = {"num_host_blocks": num_blocks} if preemption == "swap" else {}
    memory = PagedMemory(num_blocks, block_size, prefix_caching=False, **host)
    return Scheduler(memory, max_num_seqs, budget, preemption=preemption, clock=clock)


def some_arrivals(seed, number=12):
    draw = random.Random(seed)
    sizes = ((draw.randint(1, 60), draw.randint(1, 25)) for _ in range(number))
    return [(draw.uniform(0, 0.5), request(f"r{i}", *size)) for i, size in enumerate(sizes)]


def test_a_step_by_hand():
    assert ROUND.step_seconds(0, 0, 0) == 0
    assert 1e3 * ROUND.step_seconds(4, 4, 2000) == pytest.approx(8 + 2 + 10 + 2)  # the weights
    assert 1e3 * ROUND.step_seconds(4, 100, 2000) == pytest.approx(8 + 2 + 10 + 2)  # both
    assert 1e3 * ROUND.step_seconds(4, 300, 2000) == pytest.approx(8 + 2 + 30 + 2)  # computing
    # 3 blocks: 30 copies of 5 us, and 3 * 4 * 1 MB at 20 GB/s
    assert 1e3 * ROUND.swap_seconds(3, block_size=4) == pytest.approx(0.15 + 0.6)


def test_a_plan_by_hand():
    [sequence] = request("A", 40, 5).sequences
    plan = Plan(rows=[Row(sequence, 16, 24), Row(sequence, 99, 1)], swap_out=[(0, 1)], swap_in=[(2, 3), (4, 5)])
    expected = 8 + 2 * 0.5 + 10 + 0.001 * (40 + 100) + 0.75
    assert 1e3 * ROUND.plan_seconds(plan, block_size=4) == pytest.approx(expected)


def test_opt_13b_is_the_published_machine():
    assert OPT_13B.bytes_per_token == 2 * 5120 * 40 * 2
    assert OPT_13B.num_slots * OPT_13B.bytes_per_token == pytest.approx(12 * 2**30, rel=0.001)
    assert OPT_175B.num_slots * OPT_175B.bytes_per_token == pytest.approx(264 * 2**30, rel=0.001)
    assert OPT_13B.weights_ms == pytest.approx(26e9 / 1.5e12 * 1e3, rel=0.01)
    assert OPT_13B.context_ms == pytest.approx(OPT_13B.bytes_per_token / 1.5e12 * 1e3, rel=0.01)
    # 30 sequences of 458 tokens: 8.5 + 0.29 * 30 + 17.3 + 0.00055 * 30 * 458
    assert 1e3 * OPT_13B.step_seconds(30, 30, 30 * 458) == pytest.approx(42.057)


def test_the_clock_goes_forward_only():
    clock = Clock()
    clock.advance(1.5)
    clock.advance_to(2.0)
    assert clock() == clock.now == 2.0
    for move, value in ((clock.advance, -0.1), (clock.advance, float("nan")), (clock.advance_to, 1.9)):
        with pytest.raises(ValueError, match=str(value)):
            move(value)
    assert clock() == 2.0


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
@pytest.mark.parametrize("num_blocks", [22, 40, 500])
def test_a_run_is_what_a_recount_of_its_steps_says(preemption, num_blocks):
    """Seconds of every step from its recorded rows alone; tokens, order and stamps from the requests themselves."""
    for seed in range(5):
        clock, arrivals = Clock(), some_arrivals(seed)
        result = run(scheduler_of(clock, num_blocks, preemption=preemption), arrivals, ROUND, clock)
        now = 0.0
        for step in result.steps:
            assert step.start_s >= now
            tokens = sum(work.num_tokens for work in step.work)
            context = sum(work.start + work.num_tokens for work in step.work)
            ms = 8 + 0.5 * len(step.work) + max(10, 0.1 * tokens) + 0.001 * context if step.work else 0
            ms += step.num_swapped_blocks * (10 * 0.005 + 4 * 1e6 / 20e9 * 1e3)
            assert 1e3 * (step.end_s - step.start_s) == pytest.approx(ms)
            now = step.end_s
        served = result.served()
        assert clock() == result.end_s == now
        assert list(served) == [each.request_id for _, each in sorted(arrivals, key=lambda arrival: arrival[0])]
        for second, asked in arrivals:
            timeline, [sequence], facts = asked.timeline, asked.sequences, served[asked.request_id]
            assert facts.arrival_s == timeline.arrival == second
            assert facts.first_scheduled_s == timeline.first_scheduled
            assert facts.finish_s == timeline.finish == facts.token_times_s[-1]
            assert facts.token_times_s == sequence.token_times
            assert len(facts.token_times_s) == asked.max_tokens
            assert all(a < b for a, b in zip(facts.token_times_s, facts.token_times_s[1:]))
            assert second <= facts.first_scheduled_s < facts.token_times_s[0]
        swapped = sum(asked.timeline.num_swapped_blocks for _, asked in arrivals)
        assert swapped == sum(step.num_swapped_blocks for step in result.steps)
        again = any(work.kind == "recompute" for step in result.steps for work in step.work)
        assert again == any(asked.timeline.num_recomputed_tokens for _, asked in arrivals)
        yielded = {name for step in result.steps for name in step.preempted}
        assert yielded == {asked.request_id for _, asked in arrivals if asked.timeline.num_preemptions}
        if num_blocks == 22:
            assert yielded and (again or swapped)


def test_the_clock_jumps_over_idle_time_and_arrivals_keep_theirs():
    clock = Clock()
    late, first, meanwhile = request("late", 10, 1), request("first", 10, 2), request("meanwhile", 5, 1)
    result = run(scheduler_of(clock), [(9.0, late), (2.0, first), (2.001, meanwhile)], ROUND, clock)
    step = 1e-3 * (8 + 0.5 + 10 + 0.010)
    assert [each.start_s for each in result.steps] == [2.0, pytest.approx(2 + step), 9.0]
    served = result.served()
    assert served["meanwhile"].arrival_s == 2.001
    assert served["meanwhile"].first_scheduled_s == pytest.approx(2 + step)
    assert served["late"].first_token_s == pytest.approx(step)
    assert served["first"].longest_gap_s == pytest.approx(1e-3 * (8 + 1 + 10 + 0.016))
    assert served["first"].normalized_latency_s == pytest.approx((served["first"].finish_s - 2) / 2)


def test_a_request_that_can_never_run_is_counted():
    clock = Clock()
    arrivals = [(0.0, request("huge", 500, 10)), (0.1, request("small", 5, 3))]
    result = run(scheduler_of(clock), arrivals, ROUND, clock)
    assert (result.refused, list(result.arrivals)) == (["huge"], ["small"])
    only = run(scheduler_of(clock), [(0.0, request("huge", 500, 10))], ROUND, clock)
    with pytest.raises(ValueError, match="no request finished"):
        only.mean_normalized_latency_s()


def test_several_answers_to_one_prompt():
    clock, params = Clock(), SamplingParams(n=3, max_tokens=4)
    asked = Request("G", None, list(range(10)), params, 4, seed=0)
    result = run(scheduler_of(clock), [(0.0, asked)], ROUND, clock)
    assert len(result.served()["G"].token_times_s) == 12
    assert [len(step.work) for step in result.steps] == [1, 3, 3, 3]


def test_static_batching_by_hand():
    arrivals = [(0.0, request("A", 10, 1)), (0.0, request("B", 20, 3)), (0.01, request("C", 30, 1))]
    result = static_batching(arrivals, ROUND, batch_size=2)
    ms = [8 + 1 + 10 + 0.040, 8 + 1 + 10 + 0.042, 8 + 1 + 10 + 0.044, 8 + 0.5 + 10 + 0.030]  # A is padded to 20
    assert [1e3 * (step.end_s - step.start_s) for step in result.steps] == pytest.approx(ms)
    kinds = [[work.kind for work in step.work] for step in result.steps]
    assert kinds == [["prompt", "prompt"], ["held", "decode"], ["held", "decode"], ["prompt"]]
    served = result.served()
    assert served["A"].finish_s == served["B"].finish_s == served["C"].first_scheduled_s == result.steps[2].end_s
    assert len(served["A"].token_times_s) == 1


def test_whole_prompts_stall_and_chunks_do_not():
    """A decodes when a long prompt arrives: its longest gap is that prompt's step, and with chunks one step of them."""
    arrivals = [(0.0, request("A", 10, 20)), (0.05, request("long", 2000, 5))]
    whole = whole_prompts(arrivals, ROUND, max_num_seqs=8).served()
    together = 0.001 * (10 + 3 + 2000 + 1)  # the keys that both read afterwards: A has 3 tokens by then
    assert 1e3 * whole["A"].longest_gap_s == pytest.approx((8 + 0.5 + 200 + 2) + (8 + 1 + 10 + together))
    clock = Clock()
    arrivals = [(0.0, request("A", 10, 20)), (0.05, request("long", 2000, 5))]
    chunked = run(scheduler_of(clock, 1000, budget=100), arrivals, ROUND, clock).served()
    assert 1e3 * chunked["A"].longest_gap_s < 8 + 1 + 10 + 2.1
    assert chunked["long"].first_token_s > whole["long"].first_token_s  # the price


@pytest.mark.parametrize("policy", [static_batching, whole_prompts])
def test_every_policy_serves_everybody(policy):
    for seed in range(5):
        arrivals = some_arrivals(seed)
        result = policy(arrivals, ROUND, 3)
        assert all(step.end_s <= later.start_s for step, later in zip(result.steps, result.steps[1:]))
        assert all(len(step.work) <= 3 for step in result.steps)
        for second, asked in arrivals:
            served = result.served()[asked.request_id]
            assert second <= served.first_scheduled_s < served.token_times_s[0] <= served.finish_s
            assert len(served.token_times_s) == asked.max_tokens
    assert policy([], ROUND, 3).steps == []
    with pytest.raises(ValueError, match="=0: must be"):
        policy(arrivals, ROUND, 0)


def test_recompute_and_swap_for_one_sequence():
    rows = swap_study.returns(512)
    assert {row.recompute_s for row in rows} == {OPT_13B.step_seconds(1, 512, 512)}
    assert [row.block_size for row in rows if row.ratio < 1] == [1, 2, 4, 8]
    by_size = {row.block_size: row for row in rows}
    assert 1e3 * by_size[16].swap_in_s == pytest.approx(32 * 80 * 0.006 + 512 * 819_200 / 25e9 * 1e3)
    assert by_size[1].swap_both_s > 10 * by_size[32].swap_both_s
    link = swap_study.bandwidth_for(1.2, 512)
    assert 13 < link < 14.5
    [row] = swap_study.returns(512, dataclasses.replace(OPT_13B, pcie_gb_per_s=link), [256])
    assert row.ratio == pytest.approx(1.2)
    with pytest.raises(ValueError, match="already"):
        swap_study.bandwidth_for(1.2, 512, block_size=1)


@pytest.mark.slow
def test_recompute_and_swap_in_whole_runs():
    small = {"num_slots": 1024, "num_requests": 6, "rate_per_s": 4.0, "seed": 3}
    by_recompute = [swap_study.pressure("recompute", size, **small) for size in (1, 16)]
    by_swap = [swap_study.pressure("swap", size, **small) for size in (1, 16)]
    for row in by_recompute:
        assert row.num_preemptions and row.num_recomputed_tokens and not row.num_swapped_blocks
    for row in by_swap:  # the rest: the host pool was full
        assert row.num_preemptions and row.num_swapped_blocks
        assert row.num_recomputed_tokens < by_recompute[0].num_recomputed_tokens / 4
    assert by_swap[0].swap_s > 3 * by_swap[1].swap_s
    assert by_swap[0].end_s > by_recompute[0].end_s


def test_the_fit_finds_what_made_the_measurements():
    cells = [(rows, tokens, context) for rows in (1, 8, 40) for tokens in (40, 100, 400, 900) for context in (1e3, 9e3)]
    made = [(*cell, 1e3 * OPT_13B.step_seconds(*cell)) for cell in cells]
    found = fit_costs.fit(made)
    again = CostModel("again", **found)
    for *cell, ms in made:
        assert 1e3 * again.step_seconds(*cell) == pytest.approx(ms, rel=0.002)
    assert found["token_ms"] == pytest.approx(0.13, rel=0.02)
    assert found["context_ms"] == pytest.approx(0.00055, rel=0.05)
    assert found["row_ms"] == pytest.approx(0.29, rel=0.05)
    assert found["weights_ms"] + found["step_ms"] == pytest.approx(17.3 + 8.5, rel=0.02)


def test_the_fit_is_never_negative_and_finds_a_machine_without_weights():
    cells = [(rows, tokens, context) for rows in (1, 8) for tokens in (8, 64, 300) for context in (300, 5000)]
    draw = random.Random(0)
    for _ in range(5):
        noisy = fit_costs.fit([(*cell, draw.uniform(1, 2)) for cell in cells])
        assert min(noisy.values()) >= 0
    found = fit_costs.fit([(rows, tokens, context, 2 + 0.05 * tokens) for rows, tokens, context in cells])
    assert found == pytest.approx(
        {"step_ms": 2, "row_ms": 0, "weights_ms": 0, "token_ms": 0.05, "context_ms": 0}, abs=1e-6
    )
    with pytest.raises(ValueError, match="4 measured steps: at least 5"):
        fit_costs.fit([(1, 1, 1, 1.0)] * 4)


@pytest.mark.slow
def test_the_command_measures_fits_and_prints(monkeypatch, capsys):
    monkeypatch.setattr(fit_costs, "CELLS", fit_costs.CELLS[3:5] + fit_costs.CELLS[9:12] + fit_costs.CELLS[14:15])
    cost_model.main(["--runs", "1", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert set(result["cost"]) == set(fit_costs.TERMS)
    assert min(result["cost"].values()) >= 0
    counts = [[row[name] for name in ("rows", "tokens", "context")] for row in result["steps"]]
    decodes = [[4, 4, 4 * 66], [16, 16, 16 * 18]]
    assert counts == [*decodes, [1, 8, 8], [1, 32, 32], [1, 128, 128], [8, 128, 128]]
    for row in result["steps"]:
        assert row["error"] == pytest.approx(row["fitted_ms"] / row["measured_ms"]["median"] - 1)
    terms, steps = fit_costs.report(CostModel("this machine", **result["cost"]), result["steps"]).split("\n\n")
    assert [line.split()[0] for line in terms.splitlines()[1:-1]] == list(fit_costs.TERMS)
    assert len(steps.splitlines()) == 7


def test_wrong_input_is_one_line():
    for arguments, says in (
        (["--runs", "0"], "--runs=0: must be a whole number, from 1 to 100"),
        (["--runs", "many"], "--runs='many'"),
        (["--runs", "101"], "--runs=101"),
    ):
        with pytest.raises(ValueError, match=says):
            cost_model.main(arguments)
    done = subprocess.run(
        [sys.executable, "-m", "minipaged", "bench", "cost-model", "--runs", "-1"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("minipaged: --runs='-1'")
    with pytest.raises(ValueError, match="row_ms=-1"):
        dataclasses.replace(OPT_13B, row_ms=-1)
    with pytest.raises(ValueError, match="pcie_gb_per_s=0"):
        dataclasses.replace(OPT_13B, pcie_gb_per_s=0)


def test_it_needs_no_torch():
    code = (
        "import sys; from minipaged.bench import cost_model, earlier_policies, fit_costs, swap_study, timed_run; "
        "swap_study.pressure('recompute', 16, num_requests=2); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
