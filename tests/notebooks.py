"""Runs the notebooks of lessons/, writes them back, and says how two runs of one differ.

`python tests/notebooks.py [NAME...]` executes the notebooks (all, or those whose file name contains a NAME) and stores
the outputs of this run in them. What is written depends on the cells alone: no times, no versions, no addresses.
"""

import argparse
import html
import importlib.util
import json
import os
import re
import sys
import tempfile
import time
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LESSONS = ROOT / "lessons"
LIMIT = 60  # seconds that the cells of one notebook may take together; the start of its kernel is not counted
ADDRESS = re.compile(r"(?<= at )0x[0-9a-fA-F]+")  # <object at 0x7f5ad80a41c0>
PACKAGES = ("ipykernel", "matplotlib", "nbclient", "nbformat")
PICTURE = re.compile(r"(<\?xml[^>]*>\s*)?(<!DOCTYPE[^>]*>\s*)?<svg\b.*?</svg>", flags=re.DOTALL)
MEASURED = "measured"  # the tag of a cell that prints measured times or ratios, which no second run repeats
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
METADATA = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
PERSONAL = {"COLUMNS", "FORCE_COLOR", "JUPYTER_COLUMNS", "JUPYTER_LINES", "MPLBACKEND", "NO_COLOR", "PYTHONWARNINGS"}
# What the kernel's process runs: ipykernel, after the network was closed to Python's sockets. Its own are others.
PROGRAM = """\
import sys
def offline(event, args):
    if event == "socket.connect" and isinstance(args[1], tuple):
        args = args[1]
    elif event != "socket.getaddrinfo":
        return
    if args[0] not in (None, "", "localhost", "127.0.0.1", "::1"):
        raise OSError(f"a lesson needs no network, but this one asks for {args[0]!r}")
sys.addaudithook(offline)
from ipykernel.kernelapp import launch_new_instance
launch_new_instance()
"""


class NotebookError(Exception):
    """A notebook that can't be read, or whose run broke off: one line that names the file and the cell."""


def lessons():
    """The paths of all notebooks of the course, in their order."""
    return sorted(LESSONS.glob("[0-9][0-9]_*.ipynb"))


def cell_name(notebook, index):
    """For messages: the cell's number, counted from 1, and its first line."""
    first = notebook["cells"][index]["source"].strip().split("\n")[0]
    return f'cell {index + 1} ("{first[:60]}")'


def load(path):
    """Returns the notebook as plain dicts, each text as one string. Needs no package. Raises NotebookError."""
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        for cell in notebook["cells"]:
            cell["source"] = "".join(cell["source"])
            for output in cell.get("outputs", []):
                for texts in (output, output.get("data", {})):
                    texts |= {key: "".join(texts[key]) for key in texts if key.startswith(("text", "image/"))}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise NotebookError(f"{path.name}: not a notebook ({type(error).__name__}: {error})") from None
    return notebook


def tidy(notebook, stem):
    """Changes the notebook to the form in which it is committed, its sources as they are. Returns it.

    `stem` is the name of its file: a cell without an id gets the stem's number and its own, "03-07".
    """
    notebook |= {"metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}
    taken = {cell.get("id") for cell in notebook["cells"]}
    count = 0
    for number, cell in enumerate(notebook["cells"], start=1):
        new = f"{stem[:2]}-{number:02}"
        cell["id"] = cell.get("id") or (f"{new}-new" if new in taken else new)
        cell["metadata"] = {"tags": tags} if (tags := cell.get("metadata", {}).get("tags")) else {}
        if cell["cell_type"] == "code":
            count += (ran := cell.get("execution_count") is not None)
            outputs = []
            for output in cell.get("outputs", []):
                if "execution_count" in output:
                    output["execution_count"] = count
                for texts in (output, output.get("data", {})):
                    texts |= {key: ADDRESS.sub("0x...", texts[key]) for key in texts.keys() & {"text", "text/plain"}}
                if "text" in output and outputs and outputs[-1].get("name") == output["name"]:
                    outputs[-1]["text"] += output["text"]  # where one piece of what is printed ends is chance
                else:
                    outputs.append(output)
            cell |= {"execution_count": count if ran else None, "outputs": outputs}
    return notebook


def text_of(notebook):
    """The text of the notebook's file. Needs nbformat."""
    import nbformat

    return nbformat.writes(nbformat.from_dict(notebook)).rstrip("\n") + "\n"


def environment(scratch):
    """The kernel's environment variables, without what one reader has set for terminals and plots and others not."""
    kept = {name: value for name, value in os.environ.items() if name not in PERSONAL}
    (scratch / "matplotlibrc").write_text("svg.hashsalt: minipaged", encoding="utf-8")  # everything else as it comes
    return kept | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "OMP_NUM_THREADS": "1",
        "IPYTHONDIR": str(scratch),  # neither the reader's start-up files nor their history
        "MATPLOTLIBRC": str(scratch / "matplotlibrc"),
        "PYTHONDONTWRITEBYTECODE": "1",  # a run leaves nothing behind
    }


def execute(path, limit=LIMIT):
    """Runs every code cell in a new kernel of this interpreter, in the notebook's folder.

    Returns (notebook, seconds): the notebook as it would be committed, while the file stays as it is. Raises
    NotebookError where a cell raises, the cells together take more than `limit` seconds, or the kernel dies.
    """
    import matplotlib.font_manager  # noqa: F401  (here, because the first time it fills a cache and says so on stderr)
    import nbformat
    from jupyter_client import AsyncKernelManager
    from jupyter_client.kernelspec import KernelSpecManager
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    notebook = nbformat.from_dict(tidy(load(path), path.stem))
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.update(outputs=[], execution_count=None)
    # A tag neither lets a cell fail nor leaves it out.
    client = NotebookClient(notebook, force_raise_errors=True, skip_cells_with_tag="", shutdown_kernel="immediate")
    client.timeout_func = lambda _: max(began + limit - time.monotonic(), 0.01)  # 0 would mean that there is none
    where = path.name
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        scratch = Path(folder)
        (scratch / "python3").mkdir()  # found before any other kernel of that name
        argv = [sys.executable, "-c", PROGRAM, "-f", "{connection_file}"]
        (scratch / "python3" / "kernel.json").write_text(json.dumps(KERNEL | {"argv": argv}), encoding="utf-8")
        specs = KernelSpecManager(kernel_dirs=[folder])
        client.km = AsyncKernelManager(kernel_spec_manager=specs, connection_file=str(scratch / "connection.json"))
        how = {"cwd": str(path.resolve().parent), "env": environment(scratch)}
        try:
            with open(scratch / "stderr", "wb") as stderr, client.setup_kernel(stderr=stderr, **how):
                began = time.monotonic()
                for index, cell in enumerate(notebook.cells):
                    where = f"{path.name}, {cell_name(notebook, index)}"
                    client.execute_cell(cell, index)
                return tidy(notebook, path.stem), time.monotonic() - began
        except CellExecutionError as error:
            why = f"{error.ename}: {error.evalue}".strip().split("\n")[0]
        except TimeoutError:
            why = f"stopped here, its {limit} s were over"
        except RuntimeError:
            said = (scratch / "stderr").read_text(encoding="utf-8", errors="replace").split("\n")
            why = "; ".join(["its kernel died", *(line for line in said if "rror: " in line)])
    raise NotebookError(f"{where}: {why}")


def problems(notebook):
    """What no run of a notebook may show: a list of lines, most of which name a cell."""
    code = {index: cell for index, cell in enumerate(notebook["cells"]) if cell["cell_type"] == "code"}
    found = [] if any(cell["execution_count"] for cell in code.values()) else ["no code cell was run"]
    for index, cell in code.items():
        wrong = ["was not run"] if cell["source"].strip() and not cell["execution_count"] else []
        wrong += [f"{each['ename']}: {each['evalue']}" for each in cell["outputs"] if each["output_type"] == "error"]
        wrong += [f"on stderr: {each['text'].strip()}" for each in cell["outputs"] if each.get("name") == "stderr"]
        if MEASURED in cell["metadata"].get("tags", []) and not cell["outputs"]:
            wrong.append(f"tagged {MEASURED}, and shows nothing")
        found += [f"{cell_name(notebook, index)}: {line}".split("\n")[0] for line in wrong]
    return found


def picture_texts(svg):
    """What is written in an SVG: <text>, and the comments in which matplotlib says what it drew as outlines."""
    found = re.findall(r"<!--(.*?)-->|<text\b[^>]*>(.*?)</text>", svg, flags=re.DOTALL)
    return [" ".join(html.unescape(re.sub(r"<[^>]*>", "", comment + text)).split()) for comment, text in found]


def shown(output):
    """What counts of one output: the text of its richer form; of a PNG its kind, of an SVG what is written in it."""
    if "text" in output:
        return output["text"]
    lines = [f"({output['output_type']})"]
    for mime in sorted(output.get("data", {}).keys() - {"text/plain"}) or output.get("data", {}):
        text = output["data"][mime] if mime.startswith("text/") or mime == "image/svg+xml" else ""
        lines += [f"({mime})", PICTURE.sub(lambda picture: "\n".join(picture_texts(picture[0])), text)]
    return "\n".join(["", *lines, ""])


def normalised(notebook):
    """Returns for each cell the lines that two runs must have in common: none for prose and for measured cells."""
    lines = []
    for cell in notebook["cells"]:
        outputs = [] if MEASURED in cell["metadata"].get("tags", []) else cell.get("outputs", [])
        text = ADDRESS.sub("0x...", "".join(shown(output) for output in outputs))
        lines.append([line.rstrip() for line in text.split("\n") if line.strip()])
    return lines


def differences(committed, fresh):
    """Returns a list of lines, each of which names a cell; empty where both runs show the same."""
    if [cell["source"] for cell in committed["cells"]] != [cell["source"] for cell in fresh["cells"]]:
        return ["its cells are others than those that ran"]
    found = []
    for index, cells in enumerate(zip(normalised(committed), normalised(fresh))):
        for pair in [pair for pair in zip_longest(*cells) if pair[0] != pair[1]][:1]:
            was, now = ("nothing" if line is None else f'"{line[:100]}"' for line in pair)
            found.append(f"{cell_name(committed, index)}: committed is {was}, this run shows {now}")
    return found


def main(arguments=None):
    """Returns the exit status: 1 where a notebook failed, the others being written all the same."""
    parser = argparse.ArgumentParser("python tests/notebooks.py", description="Run notebooks, store their outputs.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only those whose file name contains a NAME")
    names = parser.parse_args(arguments).names or [""]
    if missing := [name for name in PACKAGES if not importlib.util.find_spec(name)]:
        parser.error(f'{", ".join(missing)} not installed: python -m pip install -e ".[lessons]"')
    if unknown := [name for name in names if not any(name in path.name for path in lessons())]:
        parser.error(f"no notebook in {LESSONS.name}/ has {unknown[0]!r} in its name")
    status = 0
    for path in [path for path in lessons() if any(name in path.name for name in names)]:
        print(f"{path.name:36}", end=" ", flush=True)
        try:
            notebook, seconds = execute(path)
            if wrong := problems(notebook):
                raise NotebookError("\n".join(f"{path.name}, {line}" for line in wrong))
            path.write_text(text_of(notebook), encoding="utf-8", newline="\n")
            print(f"{seconds:5.1f} s", flush=True)
        except (NotebookError, OSError) as error:
            status = 1
            print(f"failed\n{error}", flush=True)
    return status


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\nstopped")
