"""What every program here does alike on the command line: wrong input is one line and exit status 2, never a traceback,
and a reader who has gone away is no error."""

import argparse
import os
import sys


class Parser(argparse.ArgumentParser):
    """argparse, with one line for what is wrong. prog is "python -m NAME"; the line begins with NAME."""

    def __init__(self, **options):
        super().__init__(**options, allow_abbrev=False)

    def error(self, message):
        name = self.prog.split()[2]  # of a subcommand, prog goes on after it
        hint = " (--help lists what is allowed)" if message.startswith("unrecognized") else ""
        self.exit(2, f"{name}: {one_line(message)}{hint}\n")


def number(kind, name):
    """A type for argparse: `kind` is int or float. Ranges are checked where the numbers are used."""

    def parse(text):
        if len(text) > 30:
            raise argparse.ArgumentTypeError(f"'{text[:30]}...' must be {name} of at most 30 characters")
        try:
            return kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} must be {name}") from None

    return parse


def one_line(text):
    """Text for an error: whatever it quotes, on one line and without anything that a terminal obeys."""
    return "".join(char if char.isprintable() else " " if char.isspace() else "?" for char in text)


def exit_status(name, work):
    """Run a program's work, a function without arguments. Returns its exit status.

    The one place where errors become words: ValueError (whatever was wrong in the input) and OSError are one line on
    stderr and status 2. If work returns None, that is status 0.
    """
    if sys.stdout is None:
        print(f"{name}: there is no standard output to write to", file=sys.stderr)
        return 2
    try:
        status = work()
        sys.stdout.flush()  # here, where its errors are caught
        return status or 0
    except ValueError as error:
        message = str(error)
    except OSError as error:
        if error.filename is None:  # stdout itself: nothing more can be written to it, not even what is left at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if isinstance(error, BrokenPipeError):  # the reader has seen enough
                return 0
        message = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
    if sys.stderr is not None:
        print(f"{name}: {one_line(message)}", file=sys.stderr)
    return 2
