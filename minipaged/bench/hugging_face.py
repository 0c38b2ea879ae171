"""The same weights in Hugging Face's transformers, an optional package: what the engine is measured against."""

import torch

from minipaged.memory.block_table import blocks_for
from minipaged.model.weights import named


def same_model(model):
    """A GPT's weights in Hugging Face's Llama, or None where transformers isn't installed."""
    try:
        import transformers
    except ImportError:
        return None
    transformers.logging.set_verbosity_error()
    ours = model.config
    config = transformers.LlamaConfig(
        vocab_size=ours.vocab_size,
        hidden_size=ours.hidden_size,
        intermediate_size=ours.intermediate_size,
        num_hidden_layers=ours.num_layers,
        num_attention_heads=ours.num_heads,
        num_key_value_heads=ours.num_kv_heads,
        head_dim=ours.head_dim,
        max_position_embeddings=ours.max_model_len,
        rope_theta=ours.rope_theta,
        rms_norm_eps=ours.rms_norm_eps,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,  # nothing ends an answer but its length
    )
    llama = transformers.LlamaForCausalLM(config)
    llama.model.load_state_dict(named(model.weights, ours))
    return llama.eval()


def run_generate(llama, batch, max_tokens):
    """`generate`, one static batch: all prompts in one pass, then a token for each in every step.

    batch: lists of token ids, equally long. Returns the tokens generated: a list for each prompt.
    """
    ids = torch.tensor(batch)
    answer = llama.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=max_tokens, do_sample=False, pad_token_id=0
    )
    return answer[:, ids.shape[1] :].tolist()


def can_batch_continuously():
    """Whether the installed transformers has continuous batching, and psutil is there, which it needs on a CPU."""
    try:
        import psutil  # noqa: F401
        from transformers import ContinuousBatchingConfig  # noqa: F401
    except ImportError:
        return False
    return True


def run_continuous(llama, batch, max_tokens, page_size=16):
    """Continuous batching over pages, with room for the whole batch. Arguments and result are those of run_generate."""
    from transformers import ContinuousBatchingConfig, GenerationConfig

    num_tokens = len(batch[0])
    answers = llama.generate_batch(
        batch,
        # -1: no token ends an answer.
        generation_config=GenerationConfig(max_new_tokens=max_tokens, do_sample=False, eos_token_id=-1, pad_token_id=0),
        continuous_batching_config=ContinuousBatchingConfig(
            page_size=page_size,
            num_blocks=len(batch) * (blocks_for(num_tokens + max_tokens, page_size) + 1),
            max_batch_tokens=len(batch) * max(num_tokens, page_size),
        ),
    )
    return [answer.generated_tokens for answer in answers.values()]  # in the order of the prompts
