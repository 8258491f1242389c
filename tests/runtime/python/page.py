"""The Python blocks of a page, run in order in one namespace, as a reader would.

usage: page.py PAGE
"""

import ast
import asyncio
import inspect
import pathlib
import re
import sys

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FOLDER = pathlib.Path(__file__).parents[3] / "runtime/python"


def run(page: pathlib.Path, **names: object) -> dict[str, object]:
    """Runs the page; `names` are there from the start. Gives all names at its end."""
    blocks = BLOCK.findall(page.read_text())
    assert blocks, f"{page} has no block of Python"
    for block in blocks:
        code = compile(block, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(code, names)
        if inspect.iscoroutine(result):
            asyncio.run(result)
    return names


if __name__ == "__main__":
    run(pathlib.Path(sys.argv[1]))
