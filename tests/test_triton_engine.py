"""The engine on Triton's kernels gives the logits of one dense float32 forward; and what is said where it can't run."""

import random

import pytest
from harness import some_slow

from minipaged.serving.sequence import SamplingParams


@pytest.fixture(scope="module")
def kernels():
    """Skips where kernels can't run, and says why."""
    pytest.importorskip("torch")
    from minipaged.attention.triton import loader

    try:
        loader.load()
    except ValueError as error:
        pytest.skip(str(error))


def make_engine(num_blocks, block_size, budget):
    """A model with random weights in float32 on a poisoned cache, which keeps all the logits that it computes."""
    import torch
    from kernel_cases import DEVICE
    from oracle import Recorder

    from minipaged.attention import backends
    from minipaged.memory.paged import PagedMemory
    from minipaged.model.gpt import GPT
    from minipaged.model.weights import GPTConfig, LayerWeights, Weights, random_weights
    from minipaged.serving.engine import Engine
    from minipaged.serving.scheduler import Scheduler

    torch.manual_seed(0)
    config = GPTConfig(97, 32, num_layers=2, num_heads=4, num_kv_heads=2, head_dim=8, intermediate_size=48)
    weights = random_weights(config, torch.float32, std=0.3)
    layers = [LayerWeights(*(tensor.to(DEVICE) for tensor in layer)) for layer in weights.layers]
    weights = Weights(weights.embedding.to(DEVICE), layers, weights.norm.to(DEVICE))
    attention, cache_kind = backends.backend("triton", DEVICE, torch.float32)
    cache = cache_kind(2, num_blocks, block_size, 2, 8, device=DEVICE, poison=True)
    scheduler = Scheduler(PagedMemory(num_blocks, block_size), 4, budget)
    return Engine(Recorder(GPT(config, weights, attention)), None, cache, scheduler)


@pytest.mark.parametrize("seed", some_slow(range(6), [0, 1, 3, 4, 5]))
def test_logits_are_those_of_a_dense_forward(kernels, seed):
    """Prompts in chunks next to decodes, a shared beginning, two samples of one prompt, a pool too small for all."""
    import torch

    rng = random.Random(seed)
    block_size = rng.choice([1, 2, 4, 16])
    engine = make_engine(-(-40 // block_size), block_size, budget=rng.choice([8, 16, 32]))
    shared = [rng.randrange(97) for _ in range(9)]
    for i in range(3):
        params = SamplingParams(n=1 + i % 2, seed=i, max_tokens=3, ignore_eos=True)
        engine.add([*shared, *(rng.randrange(97) for _ in range(rng.randint(1, 12)))], params)
    computed, num_steps = {}, 0
    while engine.has_unfinished():
        result, row, num_steps = engine.step(), 0, num_steps + 1
        assert num_steps < 100
        for sequence, start, num_tokens in result.plan.rows:
            rows = engine.model.logits[row : row + num_tokens]
            computed.setdefault(sequence, []).append((start, rows))
            row += num_tokens
    with torch.inference_mode():
        for sequence, parts in computed.items():
            dense = engine.model.model.dense(torch.tensor([sequence.token_ids]))[0]
            for start, logits in parts:
                assert (logits - dense[start : start + len(logits)]).abs().max() < 1e-4


@pytest.mark.slow
def test_the_shipped_model_answers_as_with_batched_attention(kernels):
    from kernel_cases import DEVICE

    from minipaged import LLM

    answers = [
        LLM(attention=name, device=DEVICE, num_blocks=8).generate(
            "ROMEO:\nBut", SamplingParams(temperature=0, max_tokens=5)
        )
        for name in ("batched", "triton")
    ]
    assert answers[0][0].outputs[0].token_ids == answers[1][0].outputs[0].token_ids


def test_where_it_can_not_run_it_says_so(kernels):
    import torch

    from minipaged import LLM

    with pytest.raises(ValueError, match="attention='triton' with dtype='float64'"):
        LLM(attention="triton", dtype="float64", device="cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(ValueError, match="attention='fast': must be one of auto, batched, reference, triton"):
        LLM(attention="fast")
    with pytest.raises(ValueError, match="device='tpu': must be one of cpu, cuda"):
        LLM(device="tpu")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="device='cuda': torch finds no such GPU here"):
            LLM(device="cuda")


def test_auto_is_triton_on_a_gpu_and_batched_elsewhere(kernels):
    import torch

    from minipaged.attention import backends
    from minipaged.attention.triton.backend import TritonAttention
    from minipaged.options import ATTENTION

    assert ATTENTION == backends.NAMES
    assert isinstance(backends.backend("auto", "cpu", torch.float32)[0], backends.BatchedAttention)
    assert isinstance(backends.backend("auto", "cuda", torch.float64)[0], backends.BatchedAttention)
    if torch.cuda.is_available():
        assert isinstance(backends.backend("auto", "cuda", torch.float32)[0], TritonAttention)


def test_a_gpu_runs_what_is_compiled(kernels):
    import torch

    if not torch.cuda.is_available():
        pytest.skip("there is no GPU: kernels were only interpreted")
    from minipaged import LLM

    for dtype in ("float32", "float64"):
        [output] = LLM(device="cuda", dtype=dtype).generate(["HAMLET:"], SamplingParams(max_tokens=5))
        assert len(output.outputs[0].token_ids) == 5
