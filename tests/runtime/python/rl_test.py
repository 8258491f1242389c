"""The program of RL.md, with its assertions. Run with pytest in build/venv-torch."""

import re

import page


def test_the_loop_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    names = page.run(page.FOLDER / "RL.md")
    lines = re.findall(r"^step (\d): .* model [0-9a-f]{32}$", capsys.readouterr().out, re.MULTILINE)
    assert lines == ["1", "2", "3", "4", "5"]
    assert max(names["rewards"][2:]) > names["rewards"][0]
