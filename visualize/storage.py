"""Storage: in how many bytes a token's K and V lie, and how many blocks the same memory would hold in other types."""

from visualize.lines import fit, line
from visualize.snapshot import Storage
from visualize.words import count

COMPARED = ("float32", "float16", "int8")
UNITS = (("MiB", 2**20), ("KiB", 2**10))


def storage_of(engine, num_bytes=None):
    """The Storage of an engine's cache. num_bytes: of the memory that was asked for; None: what its blocks take."""
    from minipaged.attention.kv_codec import bytes_per_token  # imports torch: an engine has done so long ago

    config, block_size, name = engine.model.config, engine.memory.block_size, engine.cache.cache_dtype

    def per_block(cache_dtype):
        return block_size * bytes_per_token(cache_dtype, config.num_layers, config.num_kv_heads, config.head_dim)

    num_bytes = num_bytes or engine.memory.num_blocks * per_block(name)
    others = (other for other in COMPARED if per_block(other) != per_block(name))
    others = tuple((other, num_bytes // per_block(other)) for other in others)
    return Storage(name, per_block(name) // block_size, num_bytes, others)


def in_bytes(number):
    """18432 -> "18 KiB"."""
    for unit, size in UNITS:
        if number >= size:
            return f"{number / size:,.1f}".removesuffix(".0") + f" {unit}"
    return f"{number:,} B"


def stored_as(snapshot):
    """How K and V are stored, in more words and in fewer; none where nobody asked for it, or no engine runs."""
    storage = getattr(snapshot, "storage", None)
    if storage is None:
        return []
    what = f"{storage.cache_dtype}: {storage.bytes_per_token:,} B a token"
    held = f"{what}, {in_bytes(storage.num_bytes)}: {count(snapshot.num_blocks, 'block')}"
    return [f"{held}; {', '.join(f'{name} {number:,}' for name, number in storage.others)}", held, what]


def draw_storage(scene, width):
    """One line below the pool's heading where somebody asked for it, none otherwise: a list."""
    told = stored_as(scene.snapshot)
    if not told:
        return []
    return [fit(line((next((each for each in told if len(each) <= width), told[-1]), "dim")), width, scene.ink)]
