"""For the checks of exercise 07: what stands in the slots, so that one sequence's write shows in another's text."""

from ex07_world import Pool, Table, spread

NUM_BLOCKS = 60


class Texts:
    """Tables with what is written in their slots, and beside them, for each sequence, what it must read there."""

    def __init__(self, impl, block_size):
        self.impl, self.block_size = impl, block_size
        self.pool, self.slots, self.tables, self.texts, self.last = Pool(spread(NUM_BLOCKS)), {}, {}, {}, ""

    def start(self, name):
        self.tables[name], self.texts[name] = Table(self.block_size), []

    def fork(self, parent, child):
        self.tables[child] = self.impl.fork(self.tables[parent], self.pool)
        assert hasattr(self.tables[child], "blocks"), f"fork({parent}, allocator) returned no BlockTable"
        self.texts[child], self.last = list(self.texts[parent]), f"{child} was forked from {parent}"

    def write(self, name, position, word):
        table, size = self.tables[name], self.block_size
        pair = self.impl.make_writable(table, position, self.pool)
        is_right = pair is None or (isinstance(pair, tuple) and len(pair) == 2)
        assert is_right, f"make_writable({name}, {position}, allocator) returned {pair!r}: it must be None or a pair"
        if pair:
            source, destination = pair
            for offset in range(size):
                self.slots[destination * size + offset] = self.slots.get(source * size + offset)
        if position == len(table.blocks) * size:
            table.append_blocks(self.pool.allocate())
        self.slots[table.slot(position)] = word
        table.num_tokens = max(table.num_tokens, position + 1)
        self.texts[name][position : position + 1] = [word]
        self.last = f"{name} wrote {word!r} at position {position}, after make_writable had returned {pair!r}"

    def leave(self, name):
        self.pool.release(self.tables.pop(name).blocks)
        del self.texts[name]
        self.last = f"{name} left"

    def read(self):
        for name, text in self.texts.items():
            table = self.tables[name]
            assert table.num_tokens == len(text), (
                f"{self.last}, and {name}.num_tokens is {table.num_tokens}, not {len(text)}"
            )
            covered = len(table.blocks) * self.block_size
            assert covered >= len(text), f"{self.last}, and {name} has {len(text)} tokens on blocks {table.blocks}"
            for position, word in enumerate(text):
                found = self.slots.get(table.slot(position))
                where = f"position {position}, block {table.blocks[position // self.block_size]}"
                assert found == word, (
                    f"{self.last}, and now {name} reads {found!r} at {where}: its own token is {word!r}"
                )
        distinct = {block for table in self.tables.values() for block in table.blocks}
        used, tables = NUM_BLOCKS - self.pool.num_free, {name: table.blocks for name, table in self.tables.items()}
        assert used == len(distinct), f"{self.last}, and {used} blocks are in use, but the tables are {tables}"
