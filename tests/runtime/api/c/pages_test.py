"""The pages on C and C++, run as a reader would: what they say is a file is written, what they say
is a command is executed, outside the source tree, on an installed isobit.

usage: pages_test.py PAGE BUILD_FOLDER MODEL ISOBIT
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^```(\w+)(?: +(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def main():
    page, build, model, isobit = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    blocks = BLOCK.findall(page.read_text())
    script = ["set -eu"]
    with tempfile.TemporaryDirectory(prefix="isobit-pages-") as folder:
        work = pathlib.Path(folder) / "work"
        work.mkdir()
        for language, name, content in blocks:
            if name:
                (work / name).write_text(content)
            elif language == "sh":
                script.append(content)
            else:
                sys.exit(f"{page}: a block of {language} has neither a name nor is a command")
        environment = dict(
            os.environ, BUILD=str(build), PREFIX=str(pathlib.Path(folder) / "prefix"),
            MODEL=str(model), CMAKE_GENERATOR="Ninja")
        result = subprocess.run(
            ["bash", "-c", "\n".join(script)], cwd=work, env=environment, text=True,
            stdout=subprocess.PIPE, timeout=900)
        print(result.stdout)
        if result.returncode != 0:
            sys.exit(f"{page}: commands ended with {result.returncode}")
        installed = {entry.name for entry in (pathlib.Path(folder) / "prefix").iterdir()}
        assert installed == {"bin", "include", "lib"}, installed
        check(result.stdout, isobit, model)


def check(output, isobit, model):
    """All programs gave the digest of the command, and none saw a difference."""
    digests = re.findall(r"^(?:digest|in company) ([0-9a-f]{32})$", output, re.MULTILINE)
    request = ('{"id":"r","prompt":"The capital of France is","max_tokens":12,"seed":7,'
               '"logprobs":0}\n')
    command = subprocess.run(
        [isobit, "batch", "-m", model, "-", "-o", "-"], input=request, text=True, check=True,
        stdout=subprocess.PIPE)
    expected = re.search(r'"digest":"([0-9a-f]{32})"', command.stdout).group(1)
    assert len(digests) >= 2, output
    assert set(digests) == {expected}, (digests, expected)
    assert output.count("scoring equal") >= 2 and "DIFFERS" not in output, output
    assert output.count("replay equal") >= 2, output
    if "in company" in output:
        assert "aborted after 5 tokens" in output, output


main()
