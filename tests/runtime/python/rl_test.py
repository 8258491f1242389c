"""The program of RL.md, with its assertions. Run with pytest in build/venv-torch."""

import pathlib
import re

PAGE = pathlib.Path(__file__).parents[3] / "runtime/python/RL.md"


def test_the_loop_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    names: dict = {}
    exec(compile("\n".join(blocks), str(PAGE), "exec"), names)
    lines = re.findall(r"^step (\d): .* model [0-9a-f]{32}$", capsys.readouterr().out, re.MULTILINE)
    assert lines == ["1", "2", "3", "4", "5"]
    assert max(names["rewards"][2:]) > names["rewards"][0]
