"""The oracle: everything that an engine computes is compared with the dense, cache-free forward, in float64.

Imported by tests inside their functions, since it needs torch.
"""

import random
from dataclasses import replace
from functools import partial

import torch
from harness import Witness, check_scheduler, force_preemption, memory_of

from minipaged.attention.batched import BatchedAttention
from minipaged.attention.kv_cache import KVCache
from minipaged.attention.kv_codec import stored
from minipaged.attention.reference import ReferenceAttention
from minipaged.memory.check import ShadowSlots
from minipaged.model.gpt import GPT
from minipaged.model.weights import GPTConfig, random_weights
from minipaged.serving.engine import Engine
from minipaged.serving.scheduler import Scheduler

ATTENTION = {"batched": BatchedAttention, "reference": ReferenceAttention}
TOLERANCE = 1e-9  # of logits in float64


def random_model(attention="batched", seed=0, vocab_size=97):
    """A GPT of 2 layers and 32 channels with random weights, large enough for its tokens to depend on their past."""
    torch.manual_seed(seed)
    config = GPTConfig(vocab_size, 32, num_layers=2, num_heads=4, num_kv_heads=2, head_dim=8, intermediate_size=48)
    return GPT(config, random_weights(config, torch.float64, std=0.3), ATTENTION[attention]())


class Recorder:
    """Stands in for a model: asks it for the logits of every row, keeps them, hands on those that were asked for."""

    def __init__(self, model):
        self.model, self.config, self.logits = model, model.config, None

    def __call__(self, batch, cache):
        every_row = torch.arange(len(batch.token_ids), dtype=torch.int32)
        self.logits = self.model(replace(batch, logit_rows=every_row), cache)
        return self.logits[batch.logit_rows]


class CheckedEngine(Engine):
    """An engine over a poisoned cache that checks every invariant after every step and keeps what was computed."""

    def __init__(
        self,
        model,
        num_blocks,
        block_size,
        max_num_seqs=8,
        max_num_batched_tokens=64,
        tokenizer=None,
        prefix_caching=False,
        num_host_blocks=0,
        watermark=0.0,
        memory="paged",
        cache_dtype="float64",
    ):
        config = model.config
        memory = memory_of(memory, num_blocks, block_size, config.max_model_len, prefix_caching, num_host_blocks)
        shape = (config.num_layers, num_blocks, block_size, config.num_kv_heads, config.head_dim)
        cache = KVCache(*shape, cache_dtype=cache_dtype, poison=True, num_host_blocks=num_host_blocks)
        preemption = "swap" if num_host_blocks else "recompute"
        scheduler = Scheduler(memory, max_num_seqs, max_num_batched_tokens, preemption, watermark)
        super().__init__(Recorder(model), tokenizer, cache, scheduler)
        self.shadow = ShadowSlots()
        self.log = scheduler.log = memory.log = Witness(memory, self.shadow)
        self.computed = {}  # Sequence -> list of (first position, logits [num_tokens, vocab_size]), one for each row
        self.events = []

    def force_preemption(self):
        """As if somebody older needed blocks: the newest running request yields, between two steps."""
        if self.scheduler.running:
            self.cache.swap_out(force_preemption(self.scheduler))

    def step(self):
        result = super().step()
        row = 0
        for sequence, start, num_tokens in result.plan.rows:
            self.computed.setdefault(sequence, []).append((start, self.model.logits[row : row + num_tokens]))
            row += num_tokens
        self.events += result.events
        check_scheduler(self.scheduler, self.shadow)
        return result

    def demand_equals_dense(self):
        """Every logit that was ever computed, and every token that was chosen, against one dense forward a sequence.

        The tokens of beams are left to best_answers: they come of several sequences together.
        """
        requests = dict.fromkeys(sequence.request for sequence in self.computed)
        with torch.inference_mode():
            for sequence in [sequence for request in requests for sequence in request.sequences]:
                token_ids = torch.tensor(sequence.token_ids).unsqueeze(0)
                dense = self.model.model.dense(token_ids, partial(stored, cache_dtype=self.cache.cache_dtype))[0]
                for start, logits in self.computed.get(sequence, ()):  # a fork leaves the prompt to another
                    error = (logits - dense[start : start + len(logits)]).abs().max().item()
                    assert error <= TOLERANCE, f"{sequence.name} from {start}: logits differ by {error}"
                if sequence.request.is_beam_search:
                    continue
                num_prompt_tokens = sequence.request.num_prompt_tokens
                for position in range(num_prompt_tokens, sequence.num_tokens):
                    expected = chosen_from(dense[position - 1], sequence.request, position, sequence.index)
                    assert sequence.token_ids[position] == expected, f"{sequence.name}: token {position} differs"


def chosen_from(logits, request, position, index=0):
    """The token that a sample takes at a position, from the dense logits alone, spelt out one token at a time."""
    params = request.params
    if params.temperature == 0:
        return logits.argmax().item()
    scaled = logits / params.temperature
    likeliest_first = scaled.argsort(descending=True, stable=True).tolist()
    if params.top_k > 0:
        kth = scaled[likeliest_first[min(params.top_k, len(likeliest_first)) - 1]]
        likeliest_first = [token for token in likeliest_first if scaled[token] >= kth]
    weights = scaled[likeliest_first].softmax(dim=-1).tolist()
    kept, sum_so_far = {}, 0.0
    for token, weight in zip(likeliest_first, weights):
        if sum_so_far < params.top_p or params.top_p == 1:
            kept[token] = weight
        sum_so_far += weight
    target = random.Random(f"{request.seed}/{index}/{position}").random() * sum(kept.values())
    for token in sorted(kept):
        target -= kept[token]
        if target < 0:
            break
    return token


def best_answers(model, prompt, width, max_tokens, length_penalty=1.0, eos=None):
    """What a beam search finds, from dense forwards alone: a list of (score, sum of log-probabilities, tokens).

    Every beginning is written out with every token behind it, and the whole list is sorted: by the sum, then by the
    tokens. eos: the token that ends an answer, or None.
    """
    beams, answers = [(0.0, [])], []
    for length in range(1, max_tokens + 1):
        with torch.inference_mode():
            logits = model.dense(torch.tensor([prompt + tokens for _, tokens in beams]))[:, -1]
        rows = logits.log_softmax(dim=-1).tolist()
        candidates = [
            (total + logprob, [*tokens, token])
            for (total, tokens), row in zip(beams, rows)
            for token, logprob in enumerate(row)
        ]
        candidates.sort(key=lambda candidate: (-candidate[0], candidate[1]))
        ends = [length == max_tokens or tokens[-1] == eos for _, tokens in candidates]
        for (total, tokens), is_last in list(zip(candidates, ends))[:width]:
            if is_last:
                answers.append((total / length**length_penalty, total, tokens))
        beams = [each for each, is_last in list(zip(candidates, ends))[: 2 * width] if not is_last][:width]
        if len(answers) >= width:
            break
    return sorted(answers, key=lambda answer: (-answer[0], len(answer[2]), answer[2]))[:width]
