"""Three hints for each exercise, each saying more than the one before. exercises.py shows them."""

HINTS = {
    "ex01": (
        "`bytes_per_token`: count numbers first, bytes last. How many numbers is one K, in one layer? What is stored "
        "beside each K? In how many layers?\n\n"
        "`attend_with_cache`: begin with the caches that you return. Once each is one tensor with the new token in it, "
        "the new token is no special case any more: it is the last of the keys and of the values.",
        "`torch.cat([k_cache, k_new[None]])` makes a new tensor: `k_new[None]` is one token more, of shape "
        "[1, num_kv_heads, head_dim]. It works for an empty cache too.\n\n"
        "For one query head `h`, its KV head is `h // (num_heads // num_kv_heads)`. Take the keys of that head, "
        "[num_tokens + 1, head_dim], and the head's query, [head_dim]: their product by `@` is a score for each token. "
        "`softmax(-1)` of torch can deal with large scores. Do one head after another before you think of all at once.",
        "`bytes_per_token`: 2 (a K and a V), times the four numbers.\n\n"
        "`attend_with_cache`: make both caches by `torch.cat`, and use these only. For each query head `h` and its "
        "KV head `kv`: scores = `k_cache[:, kv] @ q[h]`, times `head_dim ** -0.5`; weights = `scores.softmax(-1)`; the "
        "head's output = `weights @ v_cache[:, kv]`. `torch.stack` puts the heads' outputs into one tensor. Return it "
        "with the two new caches. No line needs `+=` or an assignment into a tensor, so what was given stays as it is.",
    ),
    "ex02": (
        "`first_fit`: look at the runs one by one, in the order of the list. The first that is long enough ends the "
        "search. You need its place in the list too, because what is left of it must be put back there.\n\n"
        "`waste`: draw a run on paper, from `start` to `start + size`. Mark where the stored tokens end and where the "
        "last one will be. That cuts it into three parts.",
        "`first_fit`: `enumerate(free_runs)` gives each run's place `i`. Of a run of `length` slots two things can be "
        "left: `(start + size, length - size)`, or nothing, if `length == size`. Change the list only when you know "
        "that the run is long enough; then nothing is changed where you return `None`.\n\n"
        "`waste`: a run has `num_tokens` slots with a token, `num_final - num_tokens` that wait for one, and "
        "`size - num_final` that will never have one. Sum each over all runs. You need no `start` for any of it.",
        "`first_fit`: for each `i, (start, length)`: if `length >= size`, then either `del free_runs[i]` (it fits "
        "exactly) or `free_runs[i] = (start + size, length - size)`, and in both cases return `start`. After the loop "
        "return `None`.\n\n"
        "`waste`: three sums over `layout.runs`, as in the second hint. The fourth number is what remains: "
        "`layout.num_slots` minus the `size` of every run. Return `Waste(states, reserved, internal, external)`.",
    ),
    "ex03": (
        "Begin with `num_free` and `ref_count`, then `allocate`, and let `release` be the last: the first checks pass "
        "before it is written. `ref_count(-1)` must raise, but `self._ref_counts[-1]` is the last block's count: "
        "compare the id with both ends of the pool first.\n\n"
        "For `allocate` and `release` alike: first look, then change. What can be refused is refused before the first "
        "change, so there is nothing to undo.",
        "`allocate`: `self._free.pop_front(n)` takes n ids or raises what you need, with nothing changed. What is left "
        "to do is to note that each of them has one owner.\n\n"
        "`release` has two parts. The first one only looks: how often does each id stand in `ids`, and how many owners "
        "has it? `ids.count(block)` or a `collections.Counter` tells the one, `self.ref_count(block)` the other, and "
        "raises for an id outside the pool. The second one changes: one owner less for every id, from the last to the "
        "first. Only blocks that come down to 0 are freed.",
        "`num_free` is `len(self._free)`. `ref_count`: unless `0 <= block < self.num_blocks`, raise `ValueError`; then "
        "the entry of `_ref_counts`.\n\n"
        "`allocate`: ids from `pop_front(n)`; set `_ref_counts` of each to 1; return the ids.\n\n"
        "`release`: for each id and the number of times it is given (`Counter(ids).items()`): if that is more than "
        "`self.ref_count(id)`, raise `DoubleFree`. After this loop nothing can go wrong any more. Begin with an empty "
        "list `freed`; for each id of `reversed(ids)`: subtract 1 from its count, and if it is 0 now, append the id to "
        "`freed`. Then `self._take_back(freed, keep)`, and return `freed`.",
    ),
    "ex04": (
        "Do one position by hand first: block size 4, position 21. How many full blocks lie before it? How many tokens "
        "of its own block? Which entry of `blocks` says where that block is? How many slots lie before that block in "
        "the pool? Only after that think of what must be refused, and of rounding up.",
        "The quotient of position and block size is the logical block, the remainder is the offset: `divmod` gives "
        "both. `blocks` turns logical into physical, and so many whole blocks of slots lie before the slot. Python "
        "reads `blocks[-1]` as the last entry and says `IndexError` behind the end, so compare the position with both "
        "ends before anything else. `slots` can ask `slot` for each position; a `range` that runs backwards is empty, "
        "so compare start and stop yourself. `blocks_needed`: round the quotient up, subtract the blocks that are "
        "there, and never go below 0.",
        "`append_blocks`: extend `self.blocks` by `ids`; that copies the numbers and leaves `ids` alone.\n\n"
        "`blocks_needed`: `(n + block_size - 1) // block_size` blocks hold n tokens; subtract `len(blocks)`; the "
        "larger of that and 0.\n\n"
        "`translate`: unless `0 <= position < len(blocks) * block_size`, raise `ValueError`. Then logical and offset "
        "from `divmod(position, block_size)`, the block id from `blocks[logical]`, and the slot is the block id times "
        "the block size, plus the offset.\n\n"
        "`slots`: if `start > stop`, raise `ValueError`; then a list of `self.slot(position)` for each position in "
        "`range(start, stop)`.",
    ),
    "ex05": (
        "First make it right for a sequence that fits into one block: the keys in use are "
        "`k_cache[block, :count]`, [count, num_kv_heads, head_dim]. Cut them to `count` before you compute: then no "
        "other slot can spoil anything, and nothing needs a mask. Give each query head its own KV head before anything "
        "else too: index the heads with a tensor that holds `h // (num_heads // num_kv_heads)` for each `h`.\n\n"
        "Then think about what must be remembered from block to block. The lesson needs three quantities for each "
        "query head.",
        "Carry three tensors over the blocks: the largest score so far, [num_heads], from `-inf`; the sum of "
        "`exp(score - largest)`, [num_heads], from 0; and the sum of `exp(score - largest) * value`, [num_heads, "
        "head_dim], from 0. A new block can raise the largest score. Everything summed so far was relative to the old "
        "one: multiply it, both sums, by `exp(old largest - new largest)`. In the first block that is `exp(-inf)`, "
        "which is 0, so the first block is no special case. Divide once, after the last block. With no key at all that "
        "would be 0 / 0, so return zeros there.",
        "`start` runs over `range(0, seq_len, block_size)`. In each turn: block = `int(block_table[start // "
        "block_size])`; count = the smaller of block_size and `seq_len - start`; keys and values = "
        "`k_cache[block, :count][:, kv_head]` and the same of `v_cache`, [count, num_heads, head_dim], where kv_head "
        "is `torch.arange(num_heads) // (num_heads // num_kv_heads)`.\n\n"
        "scores = `scale * (q * keys).sum(-1)`, [count, num_heads]. new = `torch.maximum(largest, scores.amax(0))`. "
        "correction = `exp(largest - new)`; weights = `exp(scores - new)`. The sum becomes itself times correction, "
        "plus `weights.sum(0)`. The weighted values become themselves times `correction[:, None]`, plus "
        "`(weights[:, :, None] * values).sum(0)`. largest = new. At the end: weighted values / `sum[:, None]`, or "
        "zeros if seq_len is 0.",
    ),
    "ex06": (
        "`merge_states` first, without a kernel: each part's weight is `exp(lse)`, and the rest is a weighted "
        "mean. Then take the larger lse off before exp. Only after that think of -inf.\n\n"
        "The kernel: it is the loop of lesson 05, with a tile in the place of a block and all query heads of a KV "
        "head at once. Begin with one full tile: positions, then block ids and slots, then offsets, K, scores. "
        "Print in it if you are lost: the interpreter runs Python's `print`.",
        "`merge_states`: where both lse are -inf, use 0 for the larger one; then the weights are exp(-inf), 0, and "
        "no NaN comes up. `torch.where(weight > 0, out, 0)` forgets what an empty part holds; 0 times NaN would "
        "not.\n\n"
        "The kernel: `positions = start + tl.arange(0, TILE)` and `visible = positions < seq_len`. Three loads: "
        "the table's entries, masked by `visible`; K and V, masked by `visible[:, None] & (dims < HEAD_DIM)[None, "
        ":]`. The offset of a key is block * stride_block + slot * stride_slot + kv_head * stride_head; "
        '`.to(tl.int64)` comes before the multiplication. `tl.dot(q, tl.trans(k), input_precision="ieee")` is '
        '[PADDED_GROUP, TILE]: hide what is not visible with `tl.where(..., float("-inf"))`. From there on it is '
        "the online softmax, along axis 1.",
        "`merge_states`: highest = `torch.maximum(lse_a, lse_b)`, 0 where that is -inf; weights `exp(lse - "
        "highest)`; out = (weight_a * out_a + weight_b * out_b) / (weight_a + weight_b), with 1 in the place of a "
        "sum of 0; lse = highest + log(weight_a + weight_b).\n\n"
        'The kernel, before the loop: largest = `tl.full([PADDED_GROUP], float("-inf"), tl.float32)`; total and '
        "weighted = `tl.zeros`, [PADDED_GROUP] and [PADDED_GROUP, PADDED_DIM]. In a turn: blocks = "
        "`tl.load(table_ptr + positions // BLOCK_SIZE, mask=visible, other=0).to(tl.int64)`; offsets = `(blocks * "
        "k_stride_block + positions % BLOCK_SIZE * k_stride_slot)[:, None] + dims[None, :]`; k = `tl.load(k_ptr + "
        "kv_head * k_stride_head + offsets, mask=mask, other=0.0)`; the same for v, with its own strides. new = "
        "`tl.maximum(largest, tl.max(scores, axis=1))`; correction = `tl.exp(largest - new)`; weights = "
        "`tl.exp(scores - new[:, None])`; total = total * correction + `tl.sum(weights, axis=1)`; weighted = "
        'weighted * `correction[:, None]` + `tl.dot(weights, v, input_precision="ieee")`; largest = new.\n\n'
        "After it: some = `tl.where(total > 0, total, 1.0)`; out = weighted / `some[:, None]`; lse = largest + "
        "`tl.log(some)`, which is -inf without a key, since largest still is.",
    ),
    "ex07": (
        "`fork`: a table is three things, `block_size`, `blocks` and `num_tokens`. Which of them may both tables "
        "have in common, and which must each have for itself? And the allocator counts how many tables name a "
        "block: it can't know of a second table unless you tell it.\n\n"
        "`make_writable`: first only look. Which logical block does the position lie in? Is it in the table? Which "
        "physical block is it, and how many owners has that? There are three ways to stop before anything is "
        "changed.",
        "`fork`: make an empty `BlockTable` of the same block size, append the ids, set `num_tokens`. `child.blocks "
        "= table.blocks` would give both tables one list; `append_blocks` copies the ids. Then one call of "
        "`allocator.share`, with all ids.\n\n"
        "`make_writable`: the logical block is the quotient of position and block size; compare it with "
        "`len(table.blocks)`. Python reads `blocks[-1]` as the last entry, so look for negative positions before "
        "anything else. When a block must be copied, three things are to be done: take a block, put it into the "
        "table, give up the old one. Only the first of them can fail. Which should come first?",
        "`fork`: `child = BlockTable(table.block_size)`; `child.append_blocks(table.blocks)`; `child.num_tokens` is "
        "the table's; `allocator.share(table.blocks)`; return the child.\n\n"
        "`make_writable`: if `position < 0`, raise `ValueError`. logical = `position // table.block_size`. If that "
        "is `len(table.blocks)` or more, return `None`. source = `table.blocks[logical]`. If "
        "`allocator.ref_count(source)` is 1, return `None`. Now `[destination] = allocator.allocate(1)`: if no "
        "block is free, it raises `OutOfBlocks`, and nothing was changed so far. Put the destination into "
        "`table.blocks[logical]`, release `[source]`, and return the pair.",
    ),
    "ex08": (
        "Write two loops that never meet: one over `running`, one that takes from `waiting`. What do they have in "
        "common? Each turn makes one row, and spends some of the budget. How much is left must be known from turn to "
        "turn, also from the one loop to the other.\n\n"
        "Whether a sequence decodes or is in the middle of its prompt need never be asked: what it lacks tells both.",
        "A turn, in both loops: the sequence lacks `num_tokens - num_computed_tokens`. It gets that or what is left of "
        "the budget, the smaller of the two: that one `min` is all there is to chunked prompts. Append the row, and "
        "subtract what it got from the budget.\n\n"
        "The second loop needs three things to be true before each turn: somebody waits, something is left of the "
        "budget, and fewer than `max_num_seqs` run. `waiting.popleft()` takes the head. Append it to `running` at "
        "once: then `len(running)` counts it the next time.",
        "`rows = []`. For each sequence of `running`: `start = sequence.num_computed_tokens`; "
        "`num_tokens = min(sequence.num_tokens - start, budget)`; append `(sequence, start, num_tokens)` to `rows`; "
        "subtract `num_tokens` from `budget`.\n\n"
        "`while waiting and budget > 0 and len(running) < max_num_seqs`: `sequence = waiting.popleft()`; "
        "`running.append(sequence)`; then the same four lines as above. Return `rows`. Nobody who runs can get 0 "
        "tokens: all but the last need 1 each, and the budget is at least `max_num_seqs`.",
    ),
    "ex09": (
        "`choose_victim`: the list is in order, the oldest first. If the newest always yields, what can be said of the "
        "oldest?\n\n"
        "`preempt`: there are two ways to give blocks up, and three cases: not asked to swap; asked, and there is room "
        "in the host pool; asked, and there is none. Two of the three end in the same way.\n\n"
        "`resume`: which of the two ways in is the right one? Something that you were given says it: is anything of "
        "the sequence computed, though it has no blocks here?",
        "`preempt`: try the way that may fail first. `swap_out` has changed nothing if it returns None, so there is "
        "nothing to put right: go on as if swap had not been asked for. After `swap_out` there is nothing left to "
        "release. `num_computed_tokens` becomes 0 in one of the two ways only.\n\n"
        "`resume`: after a swap `num_computed_tokens` is above 0, and `swap_in` returns just what `resume` must. "
        "Otherwise `admit` returns a number or None. 0 is a number: compare with `is None`, since `if not ...` takes "
        "both for the same. Both verbs want to know of `extra_blocks`.",
        "`choose_victim`: `return running[-1]`; the scheduler takes it out of the list.\n\n"
        "`preempt`: if `swap`: `pairs = memory.swap_out([sequence.name])`, and if that is not None, return it. Then, "
        "for all others: `memory.release(sequence.name)`, `sequence.num_computed_tokens = 0`, return `[]`.\n\n"
        "`resume`: if `sequence.num_computed_tokens`: return `memory.swap_in([sequence.name], extra_blocks)`. Else "
        "`num_cached = memory.admit(sequence.name, sequence.token_ids, sequence.num_tokens_left, extra_blocks, "
        "sequence.num_output_tokens)`. If that is None, return None; else it is the new `num_computed_tokens`, and "
        "`[]` is returned.",
    ),
    "ex10": (
        "`block_hashes`: one loop over the full blocks. What must be carried from one block to the next, so that the "
        "hash of the third block changes if a token of the first one does?\n\n"
        "`PrefixCache`: two questions are asked, which hash a block has, and which blocks have a hash. So there are "
        "two dicts, and they must always say the same. Write `forget` first, and look at both; `remember` can use it. "
        "`longest_hit` comes last: it only reads.",
        "`block_hashes`: `range(0, len(token_ids) - block_size + 1, block_size)` are the starts of the full blocks. "
        "For each, join the parent's hash and 8 bytes for every token, take `sha256(...).digest()`, append it, and let "
        "it be the parent of the next block. A text of all digits with nothing between the tokens would not do: "
        "`[1, 23]` and `[12, 3]` have the same digits.\n\n"
        "`forget`: `dict.pop(block, None)` gives the block's hash, or None if there is none, and then all is done. "
        "Otherwise take the block out of the list of that hash; its copies stay. `remember`: a block that has this "
        "very hash is left alone. One that has another must be forgotten first, or a prompt could still hit it for "
        "what it held before.\n\n"
        "`longest_hit`: how many tokens may be hit at most? Cut the list to those before you ask for hashes.",
        "`block_hashes`: `hashes = []`; for each `start`: `tokens = token_ids[start : start + block_size]`; `own = "
        "b''.join(token.to_bytes(8, 'little') for token in tokens)`; `parent = sha256(parent + own).digest()`; append "
        "`parent`.\n\n"
        "`remember`: if `self._hashes.get(block) == block_hash`, return. Then `self.forget(block)`; "
        "`self._hashes[block] = block_hash`; `self._blocks.setdefault(block_hash, []).append(block)`.\n\n"
        "`forget`: `block_hash = self._hashes.pop(block, None)`; if it isn't None, `self._blocks[block_hash]"
        ".remove(block)`, and if that list is empty now, delete the entry. `hash_of`: `self._hashes.get(block)`. "
        "`clear`: empty both dicts.\n\n"
        "`longest_hit`: for each hash of `block_hashes(token_ids[:-1], self.block_size)`: `blocks = "
        "self._blocks.get(block_hash)`; if there are none, stop; else append `blocks[0]`. Without the last token, the "
        "number of full blocks is just `(len(token_ids) - 1) // block_size`.",
    ),
    "ex11": (
        "First only int8, and one head: `[0, 1.27, -0.63]`. What is the largest |x|? Which number must a step stand "
        "for, so that 127 steps reach it? Then divide, and round. Think of many heads last: each part of the "
        "calculation can be done for all of them at once, if the scale has a dimension of 1 where head_dim is in x.\n\n"
        "What is x / scale for a head of zeros? And what is the largest |x| of a head that holds inf?",
        "`x.abs().amax(-1)` is the largest |x| of each head; NaN comes through it. Turn it into float32 before you "
        "divide it by `LARGEST[cache_dtype]`. `scale.isfinite()` says where no number is NaN or infinite, and "
        "`scale.where(condition, other)` puts something else where the condition is false: NaN for the scale that is "
        "returned, 1 for the one that is divided by.\n\n"
        "`tensor.to(torch.int8)` cuts off: round before it. fp8 is a float, and its `to` goes to the nearest by "
        "itself. `unsqueeze(-1)` gives a scale the dimension that head_dim has in x.",
        "`encode`: `scale = x.abs().amax(-1).float() / LARGEST[cache_dtype]`; `scale = scale.where(scale.isfinite(), "
        "torch.nan)`. To divide by: `step = scale.where(scale > 0, 1)`; NaN is not above 0, so it is 1 there too. "
        "`codes = x.float() / step.unsqueeze(-1)`; `nan_to_num(0, 0, 0)` and `clamp(-largest, largest)` make them "
        "harmless. For int8 `codes.round()`; then `.to(CODE_TYPE[cache_dtype])`. Return both.\n\n"
        "`decode`: `codes.float() * scale.unsqueeze(-1)`.",
    ),
    "ex12": (
        "Draw a request on a line: its arrival, then a mark for each token. How many distances do three marks have? "
        "One?\n\nThen write down what is divided by what, and when. `normalized_latency`: first a quotient for each "
        "request, then their mean. `throughput`: two sums over everybody, then one quotient. Who arrived first, and "
        "whose token came last? These two may stand anywhere in the list.\n\n"
        "`percentile`: of five sorted values the median stands at place 2, which is 50 / 100 * 4.",
        "`zip(times, times[1:])` pairs each token's time with the next one's. `min(request.arrival for request in "
        "requests)` is where the interval of `throughput` begins, a `max` is where it ends.\n\n"
        "`sorted(values)` makes a new list. `divmod(percent * (n - 1), 100)` gives two whole numbers: the place of the "
        "lower neighbour, and how many hundredths lie beyond it. With 0 hundredths no upper neighbour is needed.",
        "`ttft`: `request.token_times[0] - request.arrival`. `itl`: a list of `later - earlier` over that `zip`.\n\n"
        "`normalized_latency`: `(request.token_times[-1] - request.arrival) / len(request.token_times)` for each; the "
        "sum of these over `len(requests)`. `throughput`: the sum of all `len(request.token_times)`, divided by the "
        "last token of all minus the first arrival of all.\n\n"
        "`percentile`: `low, hundredths = divmod(percent * (len(values) - 1), 100)`; if `hundredths` is 0, the sorted "
        "list's entry `low`; otherwise `((100 - hundredths) * ranked[low] + hundredths * ranked[low + 1]) / 100`.",
    ),
}
