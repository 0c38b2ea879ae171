"""From logits to the next token: greedy, or drawn at a temperature from all tokens or from the likeliest.

What a beam search goes on with is decided in beam_search.py, from the same log-probabilities.
A draw depends on the request's seed, the sequence's index in the request and the token's position, and on nothing
else. So it is the same whatever else is in the batch, and the same again after a preemption. (vLLM:
v1/sample/sampler.py.)
"""

import math
import random

import torch

from minipaged.serving import beam_search
from minipaged.serving.group import sample_indices
from minipaged.serving.plan import Continuation


def choose(plan, logits, tokenizer=None):
    """How every due sequence goes on: logits [num_due, vocab_size] -> list of Continuation.

    Those of samples come first, in the plan's order, one for each; at the end of a prompt all samples of a request are
    drawn from one row of logits: so many Continuations of one sequence. Behind them come those of beam searches, any
    number for each beam. tokenizer: whose end of text ends a beam; None: there is none. The log-probability returned is
    the model's own, before temperature. Raises FloatingPointError for NaN, which in a poisoned cache means that
    attention read a slot that nobody had written.
    """
    if not plan.due:
        return []
    logprobs = logits.log_softmax(dim=-1)
    if any(map(math.isnan, logprobs[:, 0].tolist())):  # one NaN among a row's logits spreads to all of its logprobs
        raise FloatingPointError("the logits are NaN")
    samples, beams = [], {}
    for row, sequence in enumerate(plan.due):
        if sequence.request.is_beam_search:
            beams.setdefault(sequence.request, []).append(row)
        else:
            samples += [(row, index) for index in sample_indices(sequence)]
    continuations = sample(plan.due, samples, logits, logprobs) if samples else []
    for rows in beams.values():
        continuations += beam_search.choose([plan.due[row] for row in rows], logprobs[rows], tokenizer)
    return continuations


def sample(due, samples, logits, logprobs):
    """One Continuation for each of the samples: pairs of a row of the logits and a sample's index in its request."""
    rows, sequences = [row for row, _ in samples], [due[row] for row, _ in samples]
    tokens = torch.from_numpy(logits.cpu().numpy().argmax(axis=-1))  # ten times as fast as torch's own on a CPU
    if rows != list(range(len(due))):
        tokens, logits, logprobs = tokens[rows], logits[rows], logprobs[rows]
    drawn = [i for i, sequence in enumerate(sequences) if sequence.request.params.temperature > 0]
    if drawn:
        uniforms = [uniform(sequences[i].request.seed, samples[i][1], sequences[i].num_tokens) for i in drawn]
        params = [sequences[i].request.params for i in drawn]
        tokens[drawn] = draw(distribution(logits[drawn], params), uniforms)
    chosen = logprobs.gather(1, tokens.unsqueeze(1)).squeeze(1)
    continuations = list(map(Continuation, sequences, tokens.tolist(), chosen.tolist()))
    for i, (sequence, token, logprob, _) in enumerate(continuations):
        if (n := sequence.request.params.logprobs) is not None:
            continuations[i] = Continuation(sequence, token, logprob, ranked(logprobs[i], token, n))
    return continuations


def ranked(logprobs, token, n):
    """One row of log-probabilities [vocab_size] -> {token: (log-probability, rank)} of a token and of the n likeliest.

    The likeliest has rank 1. The token is one of the n or one more.
    """
    values, tokens = logprobs.topk(n)
    likeliest = {t: (value, rank) for rank, (t, value) in enumerate(zip(tokens.tolist(), values.tolist()), start=1)}
    value = logprobs[token]
    return likeliest | {token: (value.item(), 1 + int((logprobs > value).sum()))}


def uniform(seed, index, position):
    """A number in [0, 1) for a sample's token there. Python's Random takes a text as its seed without using hash()."""
    return random.Random(f"{seed}/{index}/{position}").random()


def distribution(logits, params):
    """What to draw from: logits [n, vocab_size] and n SamplingParams -> probabilities [n, vocab_size] float64.

    As Hugging Face's and vLLM's: temperature, then top_k, then top_p. Tokens as likely as the k-th stay; top_p keeps
    the token with which the sum reaches it. The largest logit is taken off first, so that a tiny temperature can't
    overflow.
    """
    logits = (logits - logits.amax(dim=-1, keepdim=True)).double()
    vocab_size = logits.shape[-1]
    temperature = torch.tensor([[each.temperature] for each in params], dtype=torch.float64)
    top_k = torch.tensor([[each.top_k if 0 < each.top_k < vocab_size else vocab_size] for each in params])
    top_p = torch.tensor([[each.top_p] for each in params], dtype=torch.float64)
    scaled = logits / temperature
    if (top_k == vocab_size).all() and (top_p == 1).all():
        return scaled.softmax(dim=-1)
    ordered, order = scaled.sort(dim=-1, descending=True, stable=True)
    ordered = ordered.masked_fill(ordered < ordered.gather(-1, top_k - 1), -torch.inf)
    probabilities = ordered.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities  # what the likelier tokens have together
    # A top_p of 1 keeps all, even where rounding takes the sum to 1 early.
    probabilities = probabilities.masked_fill((before >= top_p) & (top_p < 1), 0)
    # Back into the order of the vocabulary.
    return torch.zeros_like(probabilities).scatter(-1, order, probabilities / probabilities.sum(dim=-1, keepdim=True))


def draw(probabilities, uniforms):
    """One token for each row by inverse transform: probabilities [n, vocab_size] and n numbers -> tokens [n].

    It is the first token at which the cumulative probability exceeds the row's number.
    """
    uniforms = torch.tensor(uniforms, dtype=torch.float64).unsqueeze(-1)
    cumulative = probabilities.cumsum(dim=-1)
    # Times the total, which rounding leaves only near 1.
    return torch.searchsorted(cumulative, uniforms * cumulative[:, -1:], right=True).squeeze(-1)
