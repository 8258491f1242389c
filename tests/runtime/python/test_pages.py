"""PYTHON.md and the lines of README.md on Python. RAY.md and RL.md have tests of their own."""

import re

import page


def test_the_page_runs(model, other_model, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.gguf").symlink_to(model)
    (tmp_path / "newer.gguf").symlink_to(other_model)
    names = page.run(page.FOLDER / "PYTHON.md")
    assert len(names["outputs"]) == 20
    assert re.search(r"\b[0-9a-f]{32}\b", capsys.readouterr().out)


def test_the_lines_of_the_readme_run(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.gguf").symlink_to(model)
    names = page.run(page.FOLDER.parents[1] / "README.md")
    assert names["scores"].size > 5
