"""isobit.ray on a cluster of a head and two nodes on this machine. Run with pytest in build/venv-ray."""

import os
import pathlib
import signal
import threading
import time

import numpy as np
import pytest
import ray
from ray.cluster_utils import Cluster

import isobit.ray
from isobit import LLM, SamplingParams

MODEL = os.environ["ISOBIT_TINY_MODEL"]
PARAMS = SamplingParams(temperature=0.8, seed=7, max_tokens=24, logprobs=0, ignore_eos=True)
PROMPTS = [f"Request {i}" for i in range(96)]


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """A head that computes nothing and two nodes of one worker each."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    for _ in range(2):
        cluster.add_node(num_cpus=4)
    environment = {"PYTHONPATH": os.environ["PYTHONPATH"] + ":" + str(pathlib.Path(__file__).parent)}
    ray.init(address=cluster.address, runtime_env={"env_vars": environment})
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(scope="module")
def expected():
    outputs = LLM(MODEL, threads=1).generate(PROMPTS, PARAMS)
    return {output.prompt: output.digest for output in outputs}


def digests(rows):
    assert len(rows) == len({row["prompt"] for row in rows})
    return {row["prompt"]: row["digest"] for row in rows}


class NotingWorker(isobit.ray.Worker):
    """Notes where it ran."""

    def __call__(self, batch):
        batch = super().__call__(batch)
        batch["node"] = [ray.get_runtime_context().get_node_id()] * len(batch["prompt"])
        batch["process"] = [os.getpid()] * len(batch["prompt"])
        return batch


class DyingWorker(NotingWorker):
    """The first process that takes a batch is killed in the middle of it."""

    def __call__(self, batch):
        if self._claim():
            threading.Thread(target=self._die).start()
            # Long enough to be in the middle when the signal comes.
            slow = SamplingParams(max_tokens=4000, ignore_eos=True, seed=1)
            self._llm.generate(["a"] * 64, slow, use_tqdm=False)
            raise AssertionError("should have been killed")
        return super().__call__(batch)

    @staticmethod
    def _claim():
        try:
            os.close(os.open(os.environ["ISOBIT_DEATH_NOTE"], os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    @staticmethod
    def _die():
        time.sleep(0.3)
        with open(os.environ["ISOBIT_DEATH_NOTE"], "w") as note:
            note.write(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)


def dataset(prompts=PROMPTS):
    return ray.data.from_items([{"prompt": p} for p in prompts], override_num_blocks=12)


def test_two_workers_give_the_bits_of_one_process(expected):
    rows = isobit.ray.generate(dataset(), MODEL, PARAMS, concurrency=2, batch_size=8, num_cpus=3,
                               worker=NotingWorker, threads=1, receipts=True).take_all()
    assert digests(rows) == expected
    assert len({row["process"] for row in rows}) == 2
    assert len({row["node"] for row in rows}) == 2
    row = rows[0]
    assert len(row["logprobs"]) == len(row["token_ids"]) == 24
    assert np.asarray(row["logprobs"]).dtype == np.float32
    LLM(MODEL).replay(row["receipt"])


def test_a_worker_that_is_killed_loses_nothing(expected, tmp_path, monkeypatch):
    note = tmp_path / "death_note"
    rows = isobit.ray.generate(
        dataset(), MODEL, PARAMS, concurrency=2, batch_size=8, num_cpus=3,
        worker=with_death_note(str(note)), threads=1).take_all()
    dead = int(note.read_text())
    assert dead not in {row["process"] for row in rows}
    assert digests(rows) == expected


def with_death_note(path):
    class Dying(DyingWorker):
        def __init__(self, **arguments):
            os.environ["ISOBIT_DEATH_NOTE"] = path
            super().__init__(**arguments)

    return Dying


def test_seeds_and_ids_come_in_columns():
    llm = LLM(MODEL)
    rows = [{"ids": llm.tokenize(f"Request {i}"), "seed": i} for i in range(8)]
    params = SamplingParams(max_tokens=5)
    done = isobit.ray.generate(ray.data.from_items(rows), MODEL, params, prompt_column="ids",
                               seed_column="seed").take_all()
    got = {row["seed"]: row["digest"] for row in done}
    for row in rows:
        alone = llm.generate(row["ids"], SamplingParams(max_tokens=5, seed=row["seed"]))[0]
        assert got[row["seed"]] == alone.digest


def test_what_could_not_be_repeated_is_refused():
    with pytest.raises(ValueError, match="seed is needed"):
        isobit.ray.generate(dataset(), MODEL, SamplingParams())
    with pytest.raises(ValueError, match="n must be 1"):
        isobit.ray.generate(dataset(), MODEL, SamplingParams(n=2, seed=1))
