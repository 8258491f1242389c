"""What comes with the package: stubs, marker, version."""

import ast
import os
import pathlib
import re
import subprocess
import sys

import isobit

FOLDER = pathlib.Path(isobit.__file__).parent


def test_stubs_name_all_that_the_module_has():
    tree = ast.parse((FOLDER / "_isobit.pyi").read_text())
    named = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    classes = {name for name, value in vars(isobit._isobit).items() if isinstance(value, type)}
    assert named == classes and len(classes) >= 7
    engine = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Engine")
    methods = {n.name for n in engine.body if isinstance(n, ast.FunctionDef)}
    assert {"submit", "tokenize", "detokenize", "replay", "update_weights"} <= methods
    assert (FOLDER / "py.typed").exists()


def test_public_functions_are_annotated():
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                assert node.returns is not None or node.name == "__init__", (path.name, node.name)
                for argument in node.args.args + node.args.kwonlyargs:
                    assert argument.annotation is not None or argument.arg in ("self", "cls"), (
                        path.name, node.name, argument.arg)


def test_versions():
    assert re.fullmatch(r"\d+\.\d+\.\d+", isobit.__version__)
    assert isobit.CONTRACT_VERSION >= 1
    assert set(isobit.__all__) <= set(vars(isobit))


SNIPPET = '''
import numpy as np
import numpy.typing as npt

from isobit import LLM, RequestOutput, SamplingParams

llm = LLM("model.gguf", threads=2, enforce_eager=True)
outputs: list[RequestOutput] = llm.generate(["a", "b"], SamplingParams(seed=1))
outputs += llm.generate([[1, 2], [3]], [SamplingParams()] * 2)
ids: list[int] = outputs[0].outputs[0].token_ids
drawn: npt.NDArray[np.float32] | None = outputs[0].outputs[0].token_logprobs
one: npt.NDArray[np.float32] = llm.score(ids)
several: list[npt.NDArray[np.float32]] = llm.score([ids, [1, 2]])
answers = llm.chat([{"role": "user", "content": "hi"}], tools=[{"type": "function"}])
steps: int = llm.stats()["steps"]


async def main() -> str:
    text = ""
    async for token in llm.stream_async("a"):
        text += token.text
    return text + (await llm.generate_async("a")).digest
'''
WRONG = {
    "SamplingParams(max_tokens='many')": "max_tokens",
    "SamplingParams(best_of=2)": "best_of",
    "llm.generate([3.5])": "generate",
    "text: int = answers[0].outputs[0].text": "Incompatible types",
}


def test_a_type_checker_agrees(tmp_path):
    """With the package, strictly; with a program that is right; and not with wrong lines."""
    (tmp_path / "right.py").write_text(SNIPPET)
    wrong = SNIPPET + "".join(f"{line}\n" for line in WRONG)
    (tmp_path / "wrong.py").write_text(wrong)
    environment = dict(os.environ, MYPYPATH=str(FOLDER.parent), MYPY_CACHE_DIR=str(tmp_path))

    def check(*arguments):
        return subprocess.run([sys.executable, "-m", "mypy", "--strict", *arguments], cwd=tmp_path,
                              env=environment, text=True, stdout=subprocess.PIPE)

    right = check("--ignore-missing-imports", "-p", "isobit", "-m", "right")
    assert right.returncode == 0, right.stdout
    errors = check("wrong.py").stdout.splitlines()
    first = wrong.count("\n") - len(WRONG) + 1
    for number, (line, word) in enumerate(WRONG.items(), start=first):
        assert any(e.startswith(f"wrong.py:{number}: error") and word in e for e in errors), (
            line, errors)
