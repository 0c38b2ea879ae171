"""A learner's file: run by its path, held against what it must define, and named when something in it goes wrong.

It is never imported by a name, so that it can't be mistaken for another. Imports no torch.
"""

import ast
import inspect
import reprlib
import sys
import traceback
from types import ModuleType, SimpleNamespace


class WrongFile(ValueError):
    """A learner's file can't be used. The message says why, in one line."""


class WrongAnswer(Exception):
    """A learner's part gave something else than minipaged's: it would spoil the text, and nobody would know why."""


class Interrupted(SystemExit):
    """A signal came while a learner's code ran."""


def interrupt(status, frame):
    """For the handler of a signal: raise Interrupted if a learner's code runs at `frame`; return if none does."""
    if frames := frames_in(frame):
        raise_through(Interrupted(status), frames)


def frames_in(frame):
    """The calls that led to this one and are in a learner's file, innermost first. (run_file names its module.)"""
    frames = []
    while frame:
        if frame.f_globals.get("__name__", "").endswith("_exercise_by_path"):
            frames.append(frame)
        frame = frame.f_back
    return frames


def raise_through(error, frames):
    """Raise an error in a learner's code, where a bare `except:` in a loop would catch it. So it is raised once more on
    the very next line: that is in the handler then, where the same `try` can't catch it."""

    def trace(frame, event, argument):
        if event == "line":
            raise error
        return trace

    for frame in frames:
        frame.f_trace = trace
    sys.settrace(ignore_calls)  # no trace is looked at while there is none for calls
    raise error


def ignore_calls(frame, event, argument):
    return None


def load(path, reference):
    """Run a file and take from it the names that `reference` has, a namespace too -> a namespace.

    Raises WrongFile if the file doesn't run, lacks one of them, or has it with other parameters.
    """
    module = run_file(path)
    for name, wanted in vars(reference).items():
        if not hasattr(module, name):
            raise WrongFile(f"{path.name} defines no {name}: the checks call {name}{parameters_of(wanted)}")
        must_agree(path, name, getattr(module, name), wanted)
    return SimpleNamespace(**{name: getattr(module, name) for name in vars(reference)})


def run_file(path):
    """Run a Python file -> a module of its names. Raises WrongFile, naming the line that went wrong."""
    code = compile(parse(path), str(path), "exec")  # no .pyc: a file edited twice within a second would be stale
    module = ModuleType(f"{path.stem}_exercise_by_path")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    try:
        exec(code, module.__dict__)
    except Interrupted:
        raise
    except (Exception, SystemExit) as error:
        raise WrongFile(f"{place(error, [path]) or path.name}: {type(error).__name__}: {error}") from error
    return module


def parse(path):
    """A file's syntax tree. Raises WrongFile for a file that can't be read or isn't Python."""
    try:
        return ast.parse(path.read_bytes(), str(path))
    except OSError as error:
        raise WrongFile(f"{path.name}: {error.strerror}: must be a Python file") from None
    except SyntaxError as error:
        raise WrongFile(f"{path.name}, line {error.lineno}: {type(error).__name__}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:  # NUL bytes; brackets nested a thousand deep
        raise WrongFile(f"{path.name}: {type(error).__name__}: {error}: must be a Python file") from None


def todo_line(path, exercise_id):
    """The first line that says `raise NotImplementedError("ex03: ...")`, or None. Raises WrongFile as parse does."""
    return min((node.lineno for node in ast.walk(parse(path)) if is_todo(node, exercise_id)), default=None)


def is_todo(node, exercise_id):
    call = node.exc if isinstance(node, ast.Raise) else None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "NotImplementedError"):
        return False
    return bool(call.args) and str(getattr(call.args[0], "value", "")).startswith(f"{exercise_id}:")


def must_agree(path, name, theirs, reference):
    """Raise WrongFile unless `theirs` can be called as the reference can, and so can each public method of a class.

    Theirs may have more parameters, if those have defaults. Of the reference's it needn't have the keyword-only ones
    with a default: options, which no check uses. Attributes and properties are left to the checks.
    """
    is_class = inspect.isclass(reference)
    if inspect.isclass(theirs) != is_class or not callable(theirs):
        raise WrongFile(f"{path.name}: {name} must be {'a class' if is_class else 'a function'}")
    pairs = {name: (theirs, reference)}
    methods = [each for each, value in vars(reference).items() if inspect.isfunction(value)] if is_class else []
    for method in methods:
        if not method.startswith("_"):
            if not callable(getattr(theirs, method, None)):
                wanted = parameters_of(getattr(reference, method), skip=1)
                raise WrongFile(f"{path.name}: {name} has no method {method}{wanted}")
            pairs[f"{name}.{method}"] = (getattr(theirs, method), getattr(reference, method))
    for called, (one, other) in pairs.items():
        if not same_call(one, other):
            skip = int("." in called)  # self
            one, other = parameters_of(one, skip), parameters_of(other, skip)
            raise WrongFile(f"{path.name}: {called}{one} must be {called}{other}")


def same_call(theirs, reference):
    """Do both take the same arguments, those that only theirs has being optional?"""
    theirs, reference = parameters(theirs), [p for p in parameters(reference) if not is_option(p)]
    extra = theirs[len(reference) :]
    begin_alike = [(p.name, p.default) for p in theirs[: len(reference)]] == [(p.name, p.default) for p in reference]
    return begin_alike and all(p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in extra)


def is_option(parameter):
    return parameter.kind is parameter.KEYWORD_ONLY and parameter.default is not parameter.empty


def parameters(function):
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some of Python's own functions have none that can be asked for
        return []


def parameters_of(function, skip=0):
    """The parameters as one writes them."""
    return f"({', '.join(str(each) for each in parameters(function)[skip:] if not is_option(each))})"


def call(error, path):
    """The first call into this file that an error's traceback shows, with its arguments as they are now: "waste(layout=
    ...)", or None. Long arguments are cut, and a tensor is told by its shape."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == str(path) and not frame.f_code.co_name.startswith("<"):
            names = inspect.getargs(frame.f_code).args
            values = {name: frame.f_locals[name] for name in names if name != "self" and name in frame.f_locals}
            told = (f"{name}={list(v.shape) if hasattr(v, 'shape') else reprlib.repr(v)}" for name, v in values.items())
            return f"{frame.f_code.co_name}({', '.join(told)})"
    return None


def raised_in(error):
    """The name of the file in which an error was raised."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return frame.f_code.co_filename


def place(error, paths):
    """The innermost place of an error's traceback that is in one of these files, "ex03_allocator.py, line 41, in
    allocate", or None."""
    files = {str(path): path.name for path in paths}
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename in files:
            where = "" if frame.name.startswith("<") else f", in {frame.name}"
            return f"{files[frame.filename]}, line {frame.lineno}{where}"
    return None
