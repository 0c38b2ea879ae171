"""Choosing tokens: greedy, and draws that depend on seed, sample and position alone."""

import re

import pytest

from minipaged.serving.sequence import SamplingParams


def plan_of(*params, seeds=None, num_tokens=3):
    """A plan in which one sequence for each of the params is due a token."""
    from minipaged.serving.plan import Plan
    from minipaged.serving.sequence import Request

    seeds = seeds or range(len(params))
    requests = [Request(str(s), None, [1] * num_tokens, each, 10, s) for s, each in zip(seeds, params)]
    return Plan(due=[request.sequences[0] for request in requests])


def test_greedy_takes_the_likeliest_and_tells_its_log_probability():
    import torch

    from minipaged.serving import sampler

    logits = torch.tensor([[0.0, 2.0, 1.0], [3.0, 0.0, 0.0]], dtype=torch.float64)
    plan = plan_of(SamplingParams(temperature=0), SamplingParams(temperature=0))
    chosen = sampler.choose(plan, logits)
    assert [each.token for each in chosen] == [1, 0]
    assert [each.parent for each in chosen] == plan.due
    for each, row in zip(chosen, logits):
        expected = row[each.token] - row.exp().sum().log()
        assert each.logprob == pytest.approx(expected.item(), abs=1e-12)


def test_a_draw_does_not_depend_on_its_batch():
    import torch

    from minipaged.serving import sampler

    torch.manual_seed(0)
    logits = torch.randn(20, 50, dtype=torch.float64)
    params = [SamplingParams(temperature=t) for t in [0.5, 1.0, 2.0, 0.0] * 5]
    together = [each.token for each in sampler.choose(plan_of(*params), logits)]
    alone = [sampler.choose(plan_of(params[i], seeds=[i]), logits[i : i + 1])[0].token for i in reversed(range(20))]
    assert together == alone[::-1]


def test_seed_sample_and_position_decide_a_draw():
    from minipaged.serving.sampler import uniform

    assert uniform(1, 0, 3) == uniform(1, 0, 3)
    assert len({uniform(seed, index, n) for seed in range(30) for index in range(3) for n in range(30)}) == 30 * 3 * 30


def test_draws_follow_the_probabilities():
    """A chi-squared test: 20,000 draws over 8 tokens; 24.3 is what chance exceeds once in a thousand (7 degrees)."""
    import torch

    from minipaged.serving import sampler

    logits = torch.tensor([0.0, 1.0, 2.0, -1.0, 0.5, 1.5, -2.0, 0.3])
    params = [SamplingParams(temperature=0.8)] * 20_000
    chosen = sampler.choose(plan_of(*params), logits.expand(20_000, 8))
    counts = torch.bincount(torch.tensor([each.token for each in chosen]), minlength=8)
    expected = 20_000 * (logits / 0.8).softmax(dim=0)
    assert ((counts - expected) ** 2 / expected).sum() < 24.3


def test_a_tiny_temperature_is_greedy_and_never_overflows():
    import torch

    from minipaged.serving import sampler

    logits = torch.tensor([[50.0, 100.0, 99.0]])
    for temperature in (1e-3, 1e-30, 1e-300):
        assert sampler.choose(plan_of(SamplingParams(temperature=temperature)), logits)[0].token == 1
    both = plan_of(*[SamplingParams(temperature=1e-308)] * 2)
    rows = torch.tensor([[50.0, 100.0], [1.0, 0.0]])
    assert [each.token for each in sampler.choose(both, rows)] == [1, 0]


def test_a_low_temperature_still_draws():
    import torch

    from minipaged.serving import sampler

    plan = plan_of(*[SamplingParams(temperature=0.3)] * 200)
    assert {each.token for each in sampler.choose(plan, torch.tensor([[0.0, 0.1]]).expand(200, 2))} == {0, 1}


def params_of(**options):
    return [SamplingParams(**options)]


def test_top_k_keeps_the_k_likeliest_and_those_as_likely():
    import torch

    from minipaged.serving.sampler import distribution

    logits = torch.tensor([[1.0, 3.0, 2.0, 2.0, 0.0]], dtype=torch.float64)
    for top_k, kept in (
        (1, [1]),
        (2, [1, 2, 3]),
        (3, [1, 2, 3]),
        (4, [0, 1, 2, 3]),
        (5, range(5)),
        (0, range(5)),
        (-1, range(5)),
        (99, range(5)),
    ):
        probabilities = distribution(logits, params_of(top_k=top_k))[0]
        assert probabilities.nonzero().flatten().tolist() == list(kept)
        expected = logits[0, list(kept)].softmax(dim=-1)
        assert (probabilities[list(kept)] - expected).abs().max() < 1e-12


def test_top_p_keeps_the_token_that_reaches_it():
    import torch

    from minipaged.serving.sampler import distribution

    logits = torch.tensor([[0.1, 0.5, 0.15, 0.25]], dtype=torch.float64).log()
    for top_p, kept in (
        (0.01, [1]),
        (0.49, [1]),
        (0.6, [1, 3]),
        (0.8, [1, 2, 3]),
        (0.95, [0, 1, 2, 3]),
        (1.0, [0, 1, 2, 3]),
    ):
        probabilities = distribution(logits, params_of(top_p=top_p))[0]
        assert probabilities.nonzero().flatten().tolist() == kept
        assert probabilities.sum().item() == pytest.approx(1)


def test_rows_with_different_parameters_do_not_mix():
    import torch

    from minipaged.serving.sampler import distribution

    torch.manual_seed(0)
    logits = torch.randn(4, 30, dtype=torch.float64)
    params = [
        SamplingParams(top_k=3),
        SamplingParams(top_p=0.4),
        SamplingParams(0.5),
        SamplingParams(top_k=9, top_p=0.7),
    ]
    together = distribution(logits, params)
    for i in range(4):
        assert (together[i] - distribution(logits[i : i + 1], params[i : i + 1])[0]).abs().max() < 1e-12


def test_the_same_distribution_as_hugging_face():
    """Its logits processors, in its order, on the same logits."""
    transformers = pytest.importorskip("transformers", reason="transformers isn't installed: the extra 'compare'")
    import torch

    from minipaged.serving.sampler import distribution

    torch.manual_seed(0)
    for temperature in (0.3, 1.0, 2.5):
        for top_k in (0, 1, 5, 40):
            for top_p in (0.05, 0.5, 0.9, 1.0):
                logits = 3 * torch.randn(8, 50, dtype=torch.float64)
                steps = [transformers.TemperatureLogitsWarper(temperature)]
                steps += [transformers.TopKLogitsWarper(top_k)] if top_k else []
                steps += [transformers.TopPLogitsWarper(top_p)] if top_p < 1 else []
                expected = logits
                for step in steps:
                    expected = step(None, expected)
                mine = distribution(logits, [SamplingParams(temperature, top_k=top_k, top_p=top_p)] * 8)
                assert (mine - expected.softmax(dim=-1)).abs().max() < 1e-12


def test_the_largest_number_draws_a_token_that_exists():
    import torch

    from minipaged.serving import sampler

    torch.manual_seed(0)
    probabilities = torch.randn(50, 3000, dtype=torch.float64).softmax(dim=-1)
    assert sampler.draw(probabilities, [1 - 2**-53] * 50).max() < 3000


def test_nan_is_never_a_token():
    import torch

    from minipaged.serving import sampler

    for temperature in (0, 1):
        with pytest.raises(FloatingPointError):
            sampler.choose(plan_of(SamplingParams(temperature=temperature)), torch.tensor([[0.0, torch.nan]]))


def test_an_impossible_token_is_never_drawn():
    import torch

    from minipaged.serving import sampler

    probabilities = torch.tensor([[0.0, 0.5, 0.0, 0.5, 0.0]], dtype=torch.float64).expand(4, 5)
    assert sampler.draw(probabilities, [0.0, 0.4999, 0.5, 1 - 2**-53]).tolist() == [1, 1, 3, 3]


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"max_tokens": 0},
        {"max_tokens": 2.5},
        {"max_tokens": float("nan")},
        {"seed": 1.5},
        {"seed": "x"},
        {"seed": -1},
        {"top_p": 0},
        {"top_p": 1.1},
        {"top_p": float("nan")},
        {"top_k": -2},
        {"top_k": 2.5},
        {"stop": ""},
        {"stop": ["a", ""]},
        {"stop": ["a", 3]},
    ],
)
def test_wrong_parameters_are_named(wrong):
    [(name, value)] = wrong.items()
    with pytest.raises(ValueError, match=re.escape(f"{name}={value!r}")):
        SamplingParams(**wrong)
