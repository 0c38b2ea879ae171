"""Camera: takes the snapshots of an engine, one after another.

It only looks; the engine doesn't know it and nothing is changed. Whatever did not change since the last snapshot is
the same object in the next one, so that a long history stays small. It imports no torch.
"""

from minipaged.events import (
    Admitted,
    BlockCopied,
    BlocksReleased,
    BlocksTaken,
    Evicted,
    Forked,
    KeptWaiting,
    NoRun,
    Preempted,
    PrefixHit,
    Sampled,
    SwappedIn,
    SwappedOut,
)
from minipaged.memory.contiguous import ContiguousMemory, runs_of
from minipaged.memory.prefix_cache import ROOT, block_hashes
from minipaged.serving.group import unfinished
from visualize.snapshot import Block, Event, FirstOf, HostBlock, HostPool, SequenceState, Snapshot, Usage


class Camera:
    """Takes snapshots of one engine; `take` is to be called once before the first step and once after each.

    storage: a Storage, shown with each of them, or None. Raises ValueError for an engine that collects no events.
    """

    def __init__(self, engine, storage=None):
        if engine.scheduler.log is None:
            raise ValueError("this engine collects no events: it must be made with events=True")
        self.engine, self._storage = engine, storage
        self._sequences = {}  # all ever seen, by name: the engine forgets the finished ones
        self._records = {}  # per sequence: its record in the last snapshot
        self._texts = {}  # per sequence: the text of each token, and the tokens whose character isn't complete
        self._chains = {}  # per sequence: how many of its tokens are hashed, and the hash of the last full block
        self._contents = {}  # hash of a full block: the texts of its tokens, also when nobody owns it any more
        self._last = None

    def take(self, result=None):
        """The snapshot after the step that returned `result`, or, without one, before the first step."""
        engine, memory, last = self.engine, self.engine.memory, self._last
        self._meet(result.plan.rows if result else ())
        sequences = tuple(self._sequence(seq) for seq in self._sequences.values())
        usage, blocks = memory.usage(), self._blocks(sequences)
        self._last = Snapshot(
            step=last.step + 1 if last else 0,
            block_size=memory.block_size,
            num_blocks=memory.num_blocks,
            budget=engine.scheduler.max_num_batched_tokens,
            memory=getattr(memory, "policy", "paged"),
            storage=self._storage,
            blocks=blocks,
            sequences=sequences,
            queue=tuple(seq.name for request in engine.scheduler.waiting for seq in unfinished(request)),
            free_order=tuple(memory.allocator.free_order()),
            host=self._host(sequences),
            events=tuple(self._events(result.events if result else ())),
            usage=Usage(
                used_slots=usage.used_slots,
                allocated_slots=usage.allocated_slots,
                cached_slots=usage.cached_slots,
                total_slots=usage.total_slots,
                max_would_reserve=len(memory.sequences()) * engine.max_model_len,
                saved_slots=usage.saved_slots,
                saved_blocks=usage.saved_blocks,
                reserved_slots=sum(each.state == "reserved" for each in blocks) * memory.block_size,
            ),
        )
        return self._last

    def _meet(self, rows):
        """Remember every sequence that can be seen now, or that ran in this step and may have left in it."""
        scheduler = self.engine.scheduler
        for request in (*(row.sequence.request for row in rows), *scheduler.running, *scheduler.waiting):
            for seq in request.sequences:
                if self._sequences.get(seq.name) is not seq:  # never seen, or the name is used once more
                    self._sequences[seq.name] = seq
                    self._records.pop(seq.name, None)
                    self._texts[seq.name], self._chains[seq.name] = ([], []), (0, ROOT)

    def _blocks(self, sequences):
        """A record of every block; the last snapshot's own record where nothing changed."""
        memory, filled, cached = self.engine.memory, self.engine.memory.filled(), set(self.engine.memory.cached())
        hash_of = memory.prefix_cache.hash_of if memory.prefix_cache is not None else lambda block: None
        owners = [()] * memory.num_blocks
        for seq in sequences:
            for block_id in seq.device_table:
                owners[block_id] += (seq.name,)
        used = {i for i in range(memory.num_blocks) if owners[i]}
        for name, run in runs_of(memory).items():
            for block_id in run:
                owners[block_id] = (name,)
        blocks = []
        for i in range(memory.num_blocks):
            ref_count, whole_hash = memory.allocator.ref_count(i), hash_of(i)
            state = "used" if i in used else "reserved" if ref_count else "cached" if i in cached else "free"
            num_filled = memory.block_size if state == "cached" else filled.get(i, 0)
            texts = self._contents.get(whole_hash, ()) if state == "cached" else ()
            digits = None if whole_hash is None else whole_hash.hex()[:8]
            block = Block(i, state, ref_count, num_filled, owners[i], digits, texts)
            blocks.append(self._last.blocks[i] if self._last and self._last.blocks[i] == block else block)
        return tuple(blocks)

    def _host(self, sequences):
        """A record of the host pool, or None if there is none; as far as nothing changed, the last snapshot's own."""
        pool, last = self.engine.memory.host, self._last.host if self._last else None
        if pool is None:
            return None
        owners, filled = [()] * pool.num_blocks, [0] * pool.num_blocks
        for seq in sequences:
            for logical, block_id in enumerate(seq.block_table if seq.is_swapped else ()):
                owners[block_id] += (seq.name,)
                left = seq.num_computed_tokens - logical * self.engine.memory.block_size
                filled[block_id] = max(filled[block_id], min(left, self.engine.memory.block_size))
        blocks = [HostBlock(i, owners[i], pool.ref_count(i), filled[i]) for i in range(pool.num_blocks)]
        blocks = tuple(old if old == new else new for old, new in zip(last.blocks if last else blocks, blocks))
        now = HostPool(pool.num_blocks, blocks, tuple(pool.free_order()))
        return last if last == now else now

    def _sequence(self, seq):
        """A record of one sequence; the last snapshot's own record if nothing changed."""
        before = self._records.get(seq.name)
        if before and before.status == "finished":
            return before
        request, scheduler = seq.request, self.engine.scheduler
        is_unfinished = seq.finish_reason is None and (request in scheduler.running or request in scheduler.waiting)
        memory = self.engine.memory
        pools = {"gpu": memory.sequences(), "host": memory.host.tables if memory.host else ()}
        device = next((name for name, names in pools.items() if seq.name in names), None)
        table = (memory.host if device == "host" else memory).table(seq.name).blocks if device else ()
        record = SequenceState(
            name=seq.name,
            request=request.request_id,
            index=seq.index,
            status=request.status.value if is_unfinished else "finished",
            device=device,
            block_table=tuple(table),
            num_tokens=seq.num_tokens,
            num_computed_tokens=seq.num_computed_tokens,
            num_prompt_tokens=request.num_prompt_tokens,
            tokens=FirstOf(seq.token_ids, seq.num_tokens),
            token_texts=FirstOf(self._token_texts(seq), seq.num_tokens),
            finish_reason=seq.finish_reason,
        )
        self._records[seq.name] = before if before == record else record
        return self._records[seq.name]

    def _token_texts(self, seq):
        """The text of each token. A character that is spread over several tokens is given to the last of them."""
        texts, pending = self._texts[seq.name]
        for token in seq.token_ids[len(texts) :]:
            pending.append(token)  # a character has 4 bytes at most, and a token at least one
            text = self.engine.tokenizer.decode(pending) if self.engine.tokenizer else f"{token} "
            is_whole = not text.endswith("\ufffd") or len(pending) == 4
            texts.append(text if is_whole else "")
            if is_whole:
                pending.clear()
        self._learn(seq, texts)
        return texts

    def _learn(self, seq, texts):
        """Note what the full blocks of a sequence say, by their hashes: so they can be read when it is gone."""
        size, (start, parent) = self.engine.memory.block_size, self._chains[seq.name]
        if self.engine.memory.prefix_cache is not None and len(texts) - start >= size:
            for block_hash in block_hashes(seq.token_ids[start:], size, parent):
                self._contents[block_hash] = tuple(texts[start : start + size])
                start += size
            self._chains[seq.name] = start, block_hash

    def _events(self, facts):
        """The facts, each ready to be told."""
        tables = Tables(self._last)
        without_a_run, reserves = None, isinstance(self.engine.memory, ContiguousMemory)
        for before, fact, after in zip((None, *facts), facts, (*facts[1:], None)):
            if isinstance(fact, KeptWaiting) and fact.request == without_a_run:
                continue  # the memory has said already why: it counts in runs, the scheduler in blocks
            without_a_run = fact.sequence if isinstance(fact, NoRun) else None
            # A token is told by what it says, unless that is nothing that can be shown.
            text = self._texts[fact.sequence][0][fact.position] if isinstance(fact, Sampled) else None
            is_release = isinstance(fact, BlocksReleased) and fact.sequence in self._sequences
            dropped = is_release and self._sequences[fact.sequence].finish_reason == "dropped"
            may_hit = isinstance(fact, Preempted) and fact.needed_by is not None
            may_hit = may_hit and self.engine.memory.prefix_cache is not None
            in_run = reserves and isinstance(fact, (BlocksTaken, BlocksReleased))
            swapped = isinstance(fact, Preempted) and isinstance(after, SwappedOut)
            swapped = swapped or (isinstance(fact, Admitted) and isinstance(before, SwappedIn))
            yield Event(fact, text or None, tables.follow(fact), dropped, may_hit, in_run, swapped)


class Tables:
    """The block tables from fact to fact: which blocks somebody had at that moment, when no snapshot was taken."""

    def __init__(self, last):
        self._blocks = {seq.name: list(seq.block_table) for seq in last.sequences} if last else {}
        self._can_be_hit = {block.id for block in last.blocks if block.hash is not None} if last else set()

    def follow(self, fact):
        """As far as known, the blocks that a fork shares, that a sequence gives up, or that can still be hit of those
        that one leaves when it is swapped out; None for any other fact."""
        blocks = self._blocks
        if isinstance(fact, PrefixHit):
            blocks[fact.sequence] = list(fact.blocks)
        elif isinstance(fact, BlocksTaken):
            blocks[fact.sequence] = blocks.get(fact.sequence, [])[: fact.first_logical] + list(fact.blocks)
        elif isinstance(fact, BlockCopied) and fact.sequence in blocks:
            blocks[fact.sequence][fact.logical : fact.logical + 1] = [fact.destination]
        elif isinstance(fact, Forked) and len(blocks.get(fact.parent, ())) == fact.num_blocks:
            blocks[fact.child] = list(blocks[fact.parent])
            return tuple(blocks[fact.child])
        elif isinstance(fact, BlocksReleased):
            table = blocks.pop(fact.sequence, [])
            return tuple(table) if table and set(fact.freed) <= set(table) else None
        elif isinstance(fact, (SwappedOut, SwappedIn)):
            there = dict(fact.pairs)
            for name in fact.sequences:
                blocks[name] = [there[block] for block in blocks.get(name, ()) if block in there]
            if isinstance(fact, SwappedOut):
                return tuple(block for block in fact.freed if block in self._can_be_hit)
        elif isinstance(fact, Evicted):
            self._can_be_hit.difference_update(fact.blocks)
        elif isinstance(fact, Preempted) and fact.needed_by is None:  # a step broke off: all were given up
            blocks.clear()
        return None
