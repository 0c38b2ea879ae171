"""LLM: the friendly face. It builds an engine from its parts, the only place that does, and runs prompts through it."""

from contextlib import contextmanager

import torch

from minipaged.arguments import MAX_SLOTS, size, swapping, whole
from minipaged.attention import backends, kv_codec
from minipaged.memory.contiguous import POLICIES, ContiguousMemory
from minipaged.memory.paged import PagedMemory
from minipaged.model.load import load
from minipaged.serving.outputs import output_of
from minipaged.serving.parts import Parts
from minipaged.serving.scheduler import Scheduler
from minipaged.serving.sequence import BeamSearchParams, SamplingParams, Status

DEFAULT_BLOCKS = 256
DTYPES = {"float32": torch.float32, "float64": torch.float64}
MEMORIES = {"paged": None, **{policy: policy for policy in POLICIES}}  # name -> how long runs are reserved


class LLM:
    """A model with a KV cache of num_blocks blocks of block_size tokens. Names are vLLM's where it has them.

    model: "tiny" or the path of a folder. num_blocks: 256, unless kv_memory, such as "2MiB", says how many bytes the
    blocks may take. dtype: "float32" or "float64", in which is computed. cache_dtype: in which K and V are stored,
    "float32", "float16", "bfloat16", or as codes of a byte with scales, "int8" or "fp8"; "auto" is dtype. device: "cpu"
    or "cuda". attention: "batched", "reference" or "triton"; "auto" is triton on a GPU, and batched on a CPU, where
    triton would be interpreted, and in float64, which its kernels don't take. max_num_batched_tokens is at least
    max_num_seqs; left out, it is the larger of 512 and that. memory: "paged", or one run of blocks for each request,
    reserved when it enters: "max" for the model's context, "pow2" for the prompt, and for max_tokens rounded up to a
    power of two, "oracle" for both as they are. enable_prefix_caching: a prompt that begins as an earlier one did takes
    the blocks of that beginning, if they are still there; None: in paged memory, which alone can do that. preemption:
    what becomes of the blocks of a request that must yield, "recompute" or "swap", to a pool of swap_blocks blocks in
    the host's memory. watermark: the share of the pool that is left free when a request enters. seed: the source of
    seeds for requests without one. num_threads: torch's threads in the whole process; the tiny model is fastest with 1.
    events: whether engine.step() tells what happened. poison: fill blocks that nobody may read with NaN, so that a
    wrong read raises FloatingPointError. parts: what to build from in the place of minipaged's own.

    Raises ValueError for a value that isn't allowed. The pool may have up to 2**20 slots, num_blocks * block_size.
    """

    def __init__(
        self,
        model="tiny",
        block_size=16,
        num_blocks=None,
        dtype="float32",
        seed=0,
        max_num_seqs=64,
        max_num_batched_tokens=None,
        memory="paged",
        enable_prefix_caching=None,
        preemption="recompute",
        swap_blocks=0,
        watermark=0.0,
        attention="auto",
        device="cpu",
        num_threads=1,
        events=True,
        poison=False,
        parts=None,
        cache_dtype="auto",
        kv_memory=None,
    ):
        parts = parts or Parts()
        _one_of("cache_dtype", cache_dtype, dict.fromkeys(("auto", *kv_codec.NAMES)))
        cache_dtype = dtype if cache_dtype == "auto" else cache_dtype
        dtype = _one_of("dtype", dtype, DTYPES)
        kv_codec.code_type(cache_dtype)  # raises where this torch has none
        _one_of("device", device, {"cpu": None, "cuda": None})
        if device == "cuda" and not torch.cuda.is_available():
            raise ValueError("device='cuda': torch finds no such GPU here; must be 'cpu'")
        _one_of("attention", attention, dict.fromkeys(backends.NAMES))
        attention, cache_kind = backends.backend(attention, device, dtype)
        attention = parts.attention(cache_dtype) or attention
        whole("seed", seed, least=0)
        if kv_memory is not None and num_blocks is not None:
            raise ValueError(
                f"num_blocks={num_blocks} with kv_memory={kv_memory!r}: each says how many blocks there are"
            )
        pool_bytes = None if kv_memory is None else size("kv_memory", kv_memory)
        num_blocks = whole("num_blocks", DEFAULT_BLOCKS if num_blocks is None else num_blocks, least=1, most=MAX_SLOTS)
        whole("block_size", block_size, least=1, most=MAX_SLOTS // (num_blocks if pool_bytes is None else 1))
        whole("swap_blocks", swap_blocks, least=0, most=MAX_SLOTS // block_size)
        policy = _one_of("memory", memory, MEMORIES)
        if not (enable_prefix_caching is None or isinstance(enable_prefix_caching, bool)):
            raise ValueError(f"enable_prefix_caching={enable_prefix_caching!r}: must be True, False or None")
        if policy:
            _demand_nothing_paged(policy, enable_prefix_caching, preemption, parts)
        swapping(preemption, swap_blocks)
        if max_num_batched_tokens is None:
            max_num_batched_tokens = max(512, whole("max_num_seqs", max_num_seqs, least=1))
        num_threads = whole("num_threads", num_threads, least=1)
        with torch.inference_mode():  # weights made in it are a little faster to use
            model, tokenizer = load(model, dtype, attention, device)
        config = model.config
        if pool_bytes is not None:
            num_blocks = _blocks_in(pool_bytes, block_size, cache_dtype, config)
        shape = (config.num_layers, num_blocks, block_size, config.num_kv_heads, config.head_dim)
        if policy:
            memory = ContiguousMemory(num_blocks, block_size, policy, config.max_model_len)
        else:
            caching = enable_prefix_caching is not False
            with parts.blamed():
                memory = PagedMemory(num_blocks, block_size, caching, num_host_blocks=swap_blocks, parts=parts)
        limits = max_num_seqs, max_num_batched_tokens
        scheduler = Scheduler(memory, *limits, preemption, watermark, parts=parts)
        cache = cache_kind(*shape, cache_dtype, device, poison, num_host_blocks=swap_blocks, codec=parts)
        torch.set_num_threads(num_threads)
        self.engine = parts.engine(model, tokenizer, cache, scheduler, seed, events)

    def generate(self, prompts, sampling_params=None):
        """Complete prompts, one or a list of them. Returns a RequestOutput for each, in order.

        A prompt is a text, a list of token ids, or {"prompt": text} or {"prompt_token_ids": ids}. sampling_params:
        one for all, or a list with one for each. Every prompt is checked before the first step: ValueError names the
        first one that can't run, by its number from 0, and nothing is generated.
        """
        params = SamplingParams() if sampling_params is None else sampling_params
        return self._run(self._checked(prompts, params, SamplingParams))

    def beam_search(self, prompts, params):
        """Look for the likeliest answers to prompts. Returns a BeamSearchOutput for each, in order.

        params: BeamSearchParams, one for all or a list with one for each. Everything else is as in generate.
        """
        return self._run(self._checked(prompts, params, BeamSearchParams))

    def _run(self, pairs):
        finished = {}
        with self._nothing_left_behind():
            request_ids = [self.engine.add(*pair) for pair in pairs]
            while self.engine.has_unfinished():
                for request in self.engine.step().requests:
                    if request.status is Status.FINISHED:
                        finished[request.request_id] = output_of(request, self.engine.tokenizer)
        return [finished[request_id] for request_id in request_ids]

    def stream(self, prompts, sampling_params=None):
        """As generate, but yields a RequestOutput, with all that it has so far, whenever a request got a token.

        sampling_params may be BeamSearchParams too, as for beam_search: then it is a BeamSearchOutput. Wrong prompts
        raise at once. Closing the generator early takes its requests away.
        """
        params = SamplingParams() if sampling_params is None else sampling_params
        return self._stream(self._checked(prompts, params, (SamplingParams, BeamSearchParams)))

    def _stream(self, pairs):
        with self._nothing_left_behind():
            for pair in pairs:
                self.engine.add(*pair)
            while self.engine.has_unfinished():
                yield from self.engine.step().outputs

    @contextmanager
    def _nothing_left_behind(self):
        """Starts with an empty engine. After an error, Ctrl-C or an early end it is empty again."""
        self._must_be_idle()
        try:
            yield
        except BaseException:
            self.engine.clear()
            raise

    def _must_be_idle(self):
        if self.engine.has_unfinished():
            raise ValueError("the engine has unfinished requests: finish or abort them first")

    def _checked(self, prompts, params, kinds):
        """Pairs of a prompt and its params, of these kinds, each of which can run; ValueError otherwise."""
        is_one = not isinstance(prompts, (list, tuple)) or (prompts and isinstance(prompts[0], int))
        prompts = [prompts] if is_one else prompts
        if not isinstance(params, (list, tuple)):
            params = [params] * len(prompts)
        if len(params) != len(prompts):
            name = "BeamSearchParams" if kinds is BeamSearchParams else "SamplingParams"
            raise ValueError(f"{len(prompts)} prompts, {len(params)} {name}: give one for all or one for each")
        self._must_be_idle()
        pairs = list(zip(prompts, params))
        for i, pair in enumerate(pairs):
            try:
                _demand_kind(pair[1], kinds)
                self.engine.check(*pair)
            except ValueError as error:
                raise ValueError(f"prompt {i}: {error}") from None
        return pairs


def _demand_kind(params, kinds):
    """A wrong type altogether is the engine's to name; here, the one that belongs to the other verb."""
    if params is None and kinds is BeamSearchParams:
        raise ValueError("params=None: must be a BeamSearchParams, which has no default width")
    if isinstance(params, (SamplingParams, BeamSearchParams)) and not isinstance(params, kinds):
        verbs = "SamplingParams are for generate, BeamSearchParams for beam_search"
        raise ValueError(f"params={params!r}: {verbs}")


def _demand_nothing_paged(policy, enable_prefix_caching, preemption, parts):
    """Raise ValueError for what only a paged memory can do, or be built from."""
    if preemption == "swap":
        raise ValueError(f"preemption='swap' with memory={policy!r}: there is a host pool in paged memory only")
    if enable_prefix_caching:
        raise ValueError(f"enable_prefix_caching=True with memory={policy!r}: blocks are shared in paged memory only")
    built_from = ("allocator", "block_table", "fork", "make_writable", "block_hashes", "prefix_cache")
    if others := [name for name in built_from if getattr(parts, name) is not getattr(Parts, name)]:
        raise ValueError(f"parts with {', '.join(others)} and memory={policy!r}: these build a paged memory only")


def _blocks_in(num_bytes, block_size, cache_dtype, config):
    """How many blocks num_bytes bytes hold. Raises ValueError for none, and for more than are allowed."""
    sizes = config.num_layers, config.num_kv_heads, config.head_dim
    per_block = block_size * kv_codec.bytes_per_token(cache_dtype, *sizes)
    most = MAX_SLOTS // block_size
    if not 1 <= num_bytes // per_block <= most:
        allowed = f"{per_block:,} bytes, one block of {block_size} tokens, to {most * per_block:,}"
        raise ValueError(f"kv_memory of {num_bytes:,} bytes: must be from {allowed}")
    return num_bytes // per_block


def _one_of(name, value, allowed):
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name}={value!r}: must be one of {', '.join(allowed)}")
    return allowed[value]
