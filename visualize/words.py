"""Words: numbers and blocks as parts of a sentence."""


def count(number, noun):
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(ids, most=8):
    """3, 4 and 5. Of a long list, the first few and how many more."""
    ids = [str(i) for i in ids]
    if len(ids) > most:
        ids = [*ids[:most], f"{len(ids) - most} more"]
    return ids[0] if len(ids) == 1 else f"{', '.join(ids[:-1])} and {ids[-1]}"


def free(number, verbs="is are"):
    return f"{number:,} {verbs.split()[number != 1]} free"


def span(first, number):
    return f"{first}" if number == 1 else f"{first} to {first + number - 1}"


def these(blocks, what="block"):
    """block 3; blocks 3, 4 and 5"""
    return f"{what}{'s' * (len(blocks) > 1)} {listed(blocks)}"
