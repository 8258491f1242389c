import os
import pathlib

import pytest

import isobit


def path_from(variable: str) -> pathlib.Path:
    """A file that the build names; tests fail, not pass, without it."""
    path = pathlib.Path(os.environ[variable])
    assert path.is_file(), f"{variable}={path} is no file"
    return path


@pytest.fixture(scope="session")
def model() -> pathlib.Path:
    return path_from("ISOBIT_TINY_MODEL")


@pytest.fixture(scope="session")
def other_model() -> pathlib.Path:
    """The same shape and tokenizer, other weights."""
    return path_from("ISOBIT_OTHER_TINY_MODEL")


@pytest.fixture(scope="session")
def tool_model() -> pathlib.Path:
    """Whose chat template shows tools, tool calls and a variable."""
    return path_from("ISOBIT_TOOL_TINY_MODEL")


@pytest.fixture(scope="session")
def command() -> pathlib.Path:
    return path_from("ISOBIT_COMMAND")


@pytest.fixture(scope="module")
def llm(model) -> isobit.LLM:
    return isobit.LLM(model, device="cpu", threads=1)
