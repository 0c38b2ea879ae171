"""Beam search: which beginnings of an answer are followed, and which are given up.

A beam search follows the k likeliest beginnings that it knows, its beams. A step looks at every token behind every
beam and keeps the k best of all of these: one beam may go on in several ways, another in none. The rules are those of
Hugging Face's `generate(num_beams=k, early_stopping=True)`. It is only decided here; forks and releases are the
scheduler's, which sees no more than a list of Continuations. Lesson 07 walks through it. (Paper: section 4.4, Figure 9.
Hugging Face: _beam_search in generation/utils.py. vLLM: beam_search in entrypoints/llm.py.)
"""

import torch

from minipaged.serving.plan import Continuation
from minipaged.serving.stopping import reason


def choose(beams, logprobs, tokenizer):
    """How a beam search of width k goes on: its due sequences and their log-probabilities [num_beams, vocab_size] -> a
    list of Continuation, the likeliest first.

    The best 2 k candidates are looked at. One that ends there is an answer if it is among the best k; of the others the
    best k are the next beams. The candidates behind the first k are there for that: at most one in a beam ends by the
    end of text, so k of the 2 k go on. The search is over when there are k answers, at the latest with the last token
    that it may have; then no beam goes on. A step may find more than k: the best k by score() are given to the user.
    """
    request = beams[0].request
    width = request.params.beam_width
    chosen, num_beams = [], 0
    num_answers = sum(sequence.finish_reason == "stop" for sequence in request.sequences)
    for rank, candidate in enumerate(likeliest(beams, logprobs, 2 * width)):
        ends = reason(candidate.parent, candidate.token, tokenizer)[0] is not None
        if ends and rank < width:
            num_answers += 1
        elif not ends and num_beams < width:
            num_beams += 1
        else:
            continue
        chosen.append((candidate, ends))
    return [candidate for candidate, ends in chosen if ends or num_answers < width]


def likeliest(beams, logprobs, number):
    """The `number` candidates (or all, if there are fewer) with the largest sum of log-probabilities, as Continuations.

    Equal sums are in the order of the beam and then of the token id. The beams themselves are in the order of their
    token ids, so it doesn't matter what came of them in the memory, or how often they had to yield.
    """
    order = sorted(range(len(beams)), key=lambda row: beams[row].token_ids)
    beams, logprobs = [beams[row] for row in order], logprobs[order]
    so_far = torch.tensor([[beam.cumulative_logprob] for beam in beams], dtype=torch.float64)
    best = (so_far + logprobs).flatten().argsort(descending=True, stable=True)[:number]
    vocab_size = logprobs.shape[1]
    return [
        Continuation(beams[i // vocab_size], i % vocab_size, logprob)
        for i, logprob in zip(best.tolist(), logprobs.flatten()[best].tolist())
    ]


def score(sequence):
    """What answers are compared by: the sum of their tokens' log-probabilities / their number ** length_penalty.

    The tokens are the generated ones, an end of text among them.
    """
    return sequence.cumulative_logprob / max(1, sequence.num_output_tokens) ** sequence.request.params.length_penalty
