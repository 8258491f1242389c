"""The Python blocks of PYTHON.md, run in order in one namespace, as a reader would."""

import asyncio
import inspect
import ast
import pathlib
import re

import pytest

PAGE = pathlib.Path(__file__).parents[3] / "runtime/python/PYTHON.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_runs(model, other_model, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.gguf").symlink_to(model)
    (tmp_path / "newer.gguf").symlink_to(other_model)
    blocks = BLOCK.findall(PAGE.read_text())
    assert len(blocks) >= 6
    names: dict = {}
    for block in blocks:
        code = compile(block, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(code, names)
        if inspect.iscoroutine(result):
            asyncio.run(result)
    assert re.search(r"\b[0-9a-f]{32}\b", capsys.readouterr().out)
