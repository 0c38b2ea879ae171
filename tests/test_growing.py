"""The cache that grows by a token. What attend_with_cache returns is checked in exercises/test_ex01_kv_cache.py."""

import pytest


def test_decoding_with_it_is_the_dense_forward():
    torch = pytest.importorskip("torch")
    from oracle import TOLERANCE, random_model

    from minipaged.attention.growing import attend_with_cache

    model = random_model()
    config = model.config
    empty = torch.zeros(0, config.num_kv_heads, config.head_dim, dtype=torch.float64)
    caches = [(empty, empty)] * config.num_layers

    def attend(layer, q, k, v):
        out, *caches[layer] = attend_with_cache(q[0], k[0], v[0], *caches[layer])
        return out[None]

    token_ids = torch.tensor([3, 14, 15, 92, 65, 35, 89, 79, 32])
    logits = [model.logits(model.hidden(token_ids[[i]], torch.tensor([i]), attend)) for i in range(len(token_ids))]
    assert (torch.cat(logits) - model.dense(token_ids[None])[0]).abs().max() < TOLERANCE
    assert all(len(cache) == len(token_ids) for layer in caches for cache in layer)
    assert len(empty) == 0


def test_bytes_per_token_are_those_of_the_pool():
    pytest.importorskip("torch")
    from minipaged.attention.growing import bytes_per_token
    from minipaged.attention.kv_cache import KVCache

    cache = KVCache(num_layers=4, num_blocks=3, block_size=8, num_kv_heads=2, head_dim=32)
    assert bytes_per_token(4, 2, 32, 4) * cache.block_size == cache.bytes_per_block
    with pytest.raises(ValueError, match="num_kv_heads=0"):
        bytes_per_token(4, 0, 32, 4)


@pytest.mark.parametrize(
    "changed, says",
    [
        ({"q": (6, 8)}, "6 query heads on 4 KV heads"),
        ({"q": (8, 9)}, r"q \(8, 9\)"),
        ({"q": (8,)}, r"q \(8,\)"),
        ({"k_new": (2, 8)}, r"k_new \(2, 8\)"),
        ({"v_cache": (4, 4, 8)}, r"v_cache \(4, 4, 8\)"),
        ({"k_cache": (5, 2, 8), "v_cache": (5, 2, 8)}, r"k_cache \(5, 2, 8\)"),
        ({"k_new": (8,), "v_new": (8,), "k_cache": (5, 8), "v_cache": (5, 8)}, r"k_new \(8,\)"),
        ({"k_new": (0, 8), "v_new": (0, 8), "k_cache": (5, 0, 8), "v_cache": (5, 0, 8)}, "8 query heads on 0 KV heads"),
    ],
)
def test_sizes_that_do_not_fit_are_named(changed, says):
    torch = pytest.importorskip("torch")
    from minipaged.attention.growing import attend_with_cache

    shapes = {"q": (8, 8), "k_new": (4, 8), "v_new": (4, 8), "k_cache": (5, 4, 8), "v_cache": (5, 4, 8)} | changed
    with pytest.raises(ValueError, match=says):
        attend_with_cache(**{name: torch.zeros(shape) for name, shape in shapes.items()})
