"""What comes with the package: stubs, marker, version."""

import ast
import pathlib
import re

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
