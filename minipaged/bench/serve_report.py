"""What `bench serve` prints: one table for each part that was measured, and what the columns mean."""

from minipaged.bench.measure import Spread, table
from minipaged.bench.results import stable_rate


def report(told):
    """The dict of serve_run.run as text."""
    parts = ["PARTIAL: the run was interrupted."] * told["partial"]
    tables = {"lines": lines_report, "curve": curve_report, "block_sizes": block_sizes_report}
    tables["indirection"] = indirection_report
    parts += [made(told[name]) for name, made in tables.items() if told[name]]
    return "\n\n".join([*parts, about(told)])


def percent(share, digits=1):
    return "-" if share is None else f"{100 * share:.{digits}f}%"


def number(value, digits):
    return "-" if value is None else f"{value:,.{digits}f}"


def lines_report(lines):
    head = ["", "rate", "blocks", "running", "tokens/s", "of curve", "states", "reserved", "internal", "external",
            "cached", "computed", "preempted", "TTFT s", "ITL ms", "s/token", "goodput/s"]  # fmt: skip
    rows = []
    for row in lines:
        kv, itl, curve = row["kv"], row["itl_s"]["p50"], row["curve_tokens_per_s"]
        cells = [row["line"], row["rate"] or "at once", f"{row['num_blocks']:,}", f"{row['running']:.2f}"]
        cells += [number(row["output_tokens_per_s"], 0), percent(curve and row["busy_tokens_per_s"] / curve, 0)]
        cells += [percent(kv[name]) for name in ("states", "reserved", "internal")]
        cells += [percent(kv["external"] + kv["rounding"]), percent(kv["cached"]), f"{row['computed_tokens']:,}"]
        cells += [f"{row['preemptions']:,}", number(row["ttft_s"]["p50"], 2), number(itl and 1e3 * itl, 1)]
        rows.append([*map(str, cells), number(row["normalized_s"]["mean"], 4), number(row["goodput_per_s"], 2)])
    unused = [i for i, name in enumerate(head) if name in ("of curve", "goodput/s") and all(r[i] == "-" for r in rows)]
    head, *rows = ([cell for i, cell in enumerate(row) if i not in unused] for row in [head, *rows])
    said = [
        "running, and the shares of the slots: means over the time in which somebody waits.",
        "TTFT, ITL: medians. s/token: the paper's normalized latency, a mean.",
    ]
    if "of curve" in head:
        said.insert(1, "of curve: tokens a second in that time, as a part of what the batch curve has for as many.")
    return "\n".join([table(head, rows), *said, *stable_rates(lines)])


def stable_rates(rows):
    """A sentence about each line that was tried at several rates."""
    if len({row["rate"] for row in rows}) < 2:
        return []
    rates = {name: stable_rate(rows, name) for name in dict.fromkeys(row["line"] for row in rows)}
    told = ", ".join(f"{name} {'none' if rate is None else f'{rate:g}'}" for name, rate in rates.items())
    return [f"The highest of the rates at which the queue doesn't grow: {told}."]


def curve_report(points):
    head = ["running", "tokens/s", "of 1"]
    first = min(points, key=lambda each: each["running"])["tokens_per_s"]
    rows = [
        [f"{each['running']:.1f}", f"{each['tokens_per_s']:,.0f}", f"{each['tokens_per_s'] / first:.2f}x"]
        for each in sorted(points, key=lambda each: each["running"])
    ]
    return f"The batch curve: memory for all, so many at a time\n{table(head, rows)}"


def block_sizes_report(rows):
    head = ["block size", "running", "filled", "by lengths", "tokens/s", "tables, bytes", "preempted"]
    cells = [
        [str(row["block_size"]), f"{row['running']:.2f}", percent(row["filled"]), percent(row["filled_by_lengths"]),
         number(row["output_tokens_per_s"], 0), f"{row['table_bytes']:,}", f"{row['preemptions']:,}"]
        for row in rows
    ]  # fmt: skip
    said = "filled: of the slots in tables, those with a token; by lengths: computed from the requests' lengths alone."
    return f"Paged memory by block size\n{table(head, cells)}\n{said}"


def indirection_report(rows):
    head = ["batch", "context", "through tables, us", "over slices, us", "ratio"]
    cells = [
        [str(row["batch"]), str(row["context"]), Spread(**row["paged_us"]).text(0),
         Spread(**row["contiguous_us"]).text(0), Spread(**row["ratio"]).text(2)]
        for row in rows
    ]  # fmt: skip
    return f"Attention of one layer in a decode step: median, least, most\n{table(head, cells)}"


def about(told):
    text = f"{told['requests']:,} requests of {told['workload']}, lengths times {told['scale']:g}, "
    text += f"{told['kv_memory']:,} bytes of K and V for each line, {told['shared']:.0%} of each prompt shared."
    if told["too_long"]:
        text += f" {told['too_long']:,} more are longer than the context of {told['context']:,}, and were left out."
    return text
