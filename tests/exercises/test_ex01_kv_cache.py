"""The checks of exercise 01."""

import math

from ex01_calls import EXACT, FLOAT32, HEADS, LENGTHS, answer, arguments, attend, call_of, cost_of, difference


def test_bytes_of_opt_13b(impl):
    cost = cost_of(impl, 40, 40, 128, 2)
    assert cost == 819_200, (
        f"bytes_per_token(40, 40, 128, 2) returned {cost}: a token of OPT-13B has 819200 bytes (800 KiB) of K and V"
    )


def test_bytes_of_other_models(impl):
    models = {(1, 1, 1, 1): 2, (4, 2, 32, 4): 2048, (2, 3, 5, 7): 420, (96, 96, 128, 2): 4_718_592}
    models |= {(1, 1, 8, 3): 48, (1000, 1000, 1024, 4): 8_192_000_000}
    for sizes, expected in models.items():
        cost = cost_of(impl, *sizes)
        assert cost == expected, (
            f"bytes_per_token{sizes} returned {cost}, expected {expected}: a K and a V, for each layer and each KV head"
        )


def test_the_first_token_sees_itself(impl):
    for num_heads in (1, 3):
        given = arguments(num_heads, num_heads, num_tokens=0)
        call, wanted = call_of(given), given["v_new"].clone()
        wrong = difference(attend(impl, given)[0], wanted, EXACT)
        assert not wrong, f"{call}: {wrong}: with an empty cache the only value there is, is v_new"


def test_what_is_given_is_not_changed(impl):
    import torch

    for num_tokens in (0, 5):
        given = arguments(4, 2, num_tokens)
        around = {}  # each lies between NaN that belongs to somebody else
        for name, value in given.items():
            around[name] = torch.full((len(value) + 4, *value.shape[1:]), math.nan, dtype=value.dtype)
            around[name][2:-2] = value
        lent = {name: memory[2:-2] for name, memory in around.items()}
        attend(impl, lent)
        for name, value in given.items():
            assert lent[name].shape == value.shape and torch.equal(lent[name], value), (
                f"{call_of(given)} changed the {name} that it was given: others may be reading it"
            )
            assert around[name][:2].isnan().all() and around[name][-2:].isnan().all(), (
                f"{call_of(given)} wrote into the memory beside {name}, which may be another sequence's"
            )


def test_the_new_token_is_last_in_the_caches(impl):
    import torch

    for num_tokens in LENGTHS:
        given = arguments(4, 2, num_tokens, seed=num_tokens)
        call, before = call_of(given), {name: value.clone() for name, value in given.items()}
        for letter, returned in zip("kv", attend(impl, given)[1:]):
            assert torch.equal(returned[-1], before[f"{letter}_new"]), (
                f"{call}: the last token of the {letter}_cache that came back is not {letter}_new"
            )
            assert torch.equal(returned[:-1], before[f"{letter}_cache"]), (
                f"{call}: before the new token, the {letter}_cache that came back is not the one that was given"
            )


def test_weights_are_a_softmax_of_scaled_scores(impl):
    import torch

    shares = [4.0, 1.0, 2.0, 1.0]  # of the last token, the new one, too
    for head_dim in (4, 16):
        # Scores of log(share): the key times the query is as much larger as head_dim ** -0.5 makes it smaller.
        q, keys = torch.zeros(1, head_dim, dtype=torch.float64), torch.zeros(4, 1, head_dim, dtype=torch.float64)
        q[0, 1], keys[:, 0, 1] = head_dim**0.5, torch.tensor(shares, dtype=torch.float64).log()
        values = torch.eye(4, head_dim, dtype=torch.float64)[:, None]  # value i is 1 in channel i: out is the weights
        given = {"q": q, "k_new": keys[3], "v_new": values[3], "k_cache": keys[:3], "v_cache": values[:3]}
        out, _, _ = attend(impl, given)
        weights, expected = [round(float(each), 4) for each in out[0, :4]], [share / 8 for share in shares]
        assert weights[3] or not all(weights[:3]), (
            f"{call_of(given)}: the new token has the weight 0: it attends over itself too"
        )
        assert weights == expected, (
            f"{call_of(given)}: the tokens' weights came out as {weights}, expected {expected}: a softmax over the "
            f"tokens, of dot products times head_dim ** -0.5, which is {head_dim**-0.5} here"
        )


def test_which_kv_head_a_query_head_reads(impl):
    for num_heads, num_kv_heads in HEADS:
        for num_tokens in (0, 3):
            given = arguments(num_heads, num_kv_heads, num_tokens)
            for head in range(num_kv_heads):
                given["v_new"][head] = given["v_cache"][:, head] = head  # whatever the weights, the sum is this number
            out, _, _ = attend(impl, given)
            for head in range(num_heads):
                kv_head, found = head // (num_heads // num_kv_heads), float(out[head, 0])
                assert abs(found - kv_head) < EXACT, (
                    f"{num_heads} query heads on {num_kv_heads} KV heads: query head {head} found {found:.6g}. It must "
                    f"read KV head {kv_head}, whose values were all {kv_head}"
                )


def test_equal_to_torchs_attention(impl):
    for i, (num_heads, num_kv_heads) in enumerate(HEADS):
        for num_tokens in LENGTHS:
            given = arguments(num_heads, num_kv_heads, num_tokens, head_dim=(8, 5, 32)[i % 3], seed=i + num_tokens)
            call, wanted = call_of(given), answer(given)
            wrong = difference(attend(impl, given)[0], wanted, EXACT)
            assert not wrong, f"{call}: {wrong}, which is torch's own attention"


def test_in_float32(impl):
    import torch

    for num_heads, num_kv_heads in HEADS:
        given = arguments(num_heads, num_kv_heads, 33, head_dim=32, dtype=torch.float32)
        call, wanted = call_of(given), answer(given)
        wrong = difference(attend(impl, given)[0], wanted, FLOAT32)
        assert not wrong, f"{call} in float32: {wrong}"


def test_large_scores(impl):
    for one_key in (30, -30):  # with -30, large and small scores within one head
        given = arguments(2, 1, 5)
        given["q"][0, 0], given["q"][1, 0] = 300, -300
        given["k_new"][:, 0] = given["k_cache"][:, :, 0] = 30  # times 300, over the root of 8: 3,182
        given["k_cache"][2, :, 0] = one_key
        call, wanted = call_of(given), answer(given)
        wrong = difference(attend(impl, given)[0], wanted, 1e-9)
        assert not wrong, (
            f"{call} with scores near 3182 and near -3182: {wrong}: exp of the one is infinite, of the other 0. The "
            "weights of a head depend only on how far its own scores are apart"
        )


def test_two_tokens_may_follow_one_cache(impl):
    import torch

    start = arguments(4, 2, 6)
    _, k_cache, v_cache = attend(impl, start)
    tokens = [arguments(4, 2, 7, seed=seed) | {"k_cache": k_cache, "v_cache": v_cache} for seed in (50, 60)]
    wanted = [answer(token) for token in tokens]
    results = [attend(impl, token) for token in tokens]
    for which, token, (out, k_cache, v_cache), expected in zip(("first", "second"), tokens, results, wanted):
        wrong = difference(out, expected, EXACT)
        assert not wrong, (
            f"two tokens after the same two caches: for the {which} {wrong}: it must see the cached tokens and itself, "
            "nothing of another call"
        )
        assert torch.equal(k_cache[-1], token["k_new"]) and torch.equal(v_cache[-1], token["v_new"]), (
            f"two tokens after the same two caches: those that came back for the {which} now end in another token: "
            "each call must return memory of its own"
        )


def test_decoding_token_by_token(impl):
    num_heads, num_kv_heads, num_steps = 6, 2, 12
    sequences = {name: arguments(num_heads, num_kv_heads, 0, seed=9 * i) for i, name in enumerate("AB")}
    for step in range(num_steps):
        for i, (name, given) in enumerate(sequences.items()):
            new = arguments(num_heads, num_kv_heads, 0, seed=100 * step + 7 * i + 20)
            given |= {name: new[name] for name in ("q", "k_new", "v_new")}
            wanted = answer(given)
            out, given["k_cache"], given["v_cache"] = attend(impl, given)
            wrong = difference(out, wanted, EXACT)
            assert not wrong, (
                "two sequences, A and B, a token each in turn, with the caches that came back the time before: for "
                f"token {step} of {name}, {wrong}"
            )


def test_many_of_everything(impl):
    given = arguments(24, 8, num_tokens=500, head_dim=72)
    wanted = answer(given)
    wrong = difference(attend(impl, given)[0], wanted, EXACT)
    assert not wrong, f"{call_of(given)}: {wrong}: many heads, channels and tokens are no other case than a few"


def test_what_comes_back_is_memory_of_its_own(impl):
    import torch

    for num_heads, num_kv_heads, num_tokens in ((2, 2, 0), (4, 2, 0), (4, 2, 3)):
        given = arguments(num_heads, num_kv_heads, num_tokens)
        returned = attend(impl, given)
        before = [each.clone() for each in returned]
        for value in given.values():
            value.fill_(math.nan)  # the caller writes into what it gave
        for name, now, then in zip(("out", "k_cache", "v_cache"), returned, before):
            assert torch.equal(now, then), (
                f"{call_of(given)}: the {name} that came back changes with what was given: it must be a new tensor"
            )


def test_nothing_is_remembered(impl):
    given = arguments(4, 2, num_tokens=6)
    attend(impl, given)
    for name, value in arguments(4, 2, num_tokens=6, seed=1).items():
        given[name].copy_(value)
    wanted = answer(given)
    wrong = difference(attend(impl, given)[0], wanted, EXACT)
    assert not wrong, f"{call_of(given)}, the same tensors as in the call before with other numbers in them: {wrong}"
