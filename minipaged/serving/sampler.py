"""From logits to the next token: greedy, or drawn at a temperature.

A draw depends on the request's seed, the sequence's index in the request and the token's position, and on nothing
else. So it is the same whatever else is in the batch, and the same again after a preemption.
"""

import random

import torch

from minipaged.serving.plan import Continuation


def choose(plan, logits):
    """The next token of every due sequence: logits [num_due, vocab_size] -> list of Continuation, in the plan's order.

    The log-probability returned is the model's own, before temperature. Raises FloatingPointError for NaN, which in a
    poisoned cache means that attention read a slot that nobody had written.
    """
    if not plan.due:
        return []
    if logits.isnan().any():
        raise FloatingPointError("the logits are NaN")
    tokens = logits.argmax(dim=-1)
    drawn = [i for i, sequence in enumerate(plan.due) if sequence.request.params.temperature > 0]
    if drawn:
        numbers = [(plan.due[i].request.params.temperature, uniform(plan.due[i])) for i in drawn]
        temperatures, uniforms = torch.tensor(numbers, dtype=torch.float64).unbind(dim=1)
        tokens[drawn] = draw(logits[drawn], temperatures, uniforms)
    logprobs = logits.log_softmax(dim=-1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    return list(map(Continuation, plan.due, tokens.tolist(), logprobs.tolist()))


def uniform(sequence):
    """A number in [0, 1) for a sequence's next token. Python's Random takes a text as its seed without using hash()."""
    return random.Random(f"{sequence.request.seed}/{sequence.index}/{sequence.num_tokens}").random()


def draw(logits, temperatures, uniforms):
    """Draw tokens [n] by inverse transform: logits [n, vocab_size], temperatures [n] above 0, uniforms [n] in [0, 1).

    The token is the first at which the cumulative probability exceeds the uniform number. The largest logit is taken
    off first, so that a tiny temperature can't overflow.
    """
    scaled = (logits - logits.amax(dim=-1, keepdim=True)).double() / temperatures.double().unsqueeze(-1)
    cumulative = scaled.softmax(dim=-1).cumsum(dim=-1)
    targets = uniforms.unsqueeze(-1) * cumulative[:, -1:]
    return torch.searchsorted(cumulative, targets, right=True).squeeze(-1)
