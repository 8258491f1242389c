"""Beyond one machine, by Ray: a map over a dataset of prompts.

Every worker has a model of its own. Which worker takes a request, and how often it has to be taken
anew because a worker was lost, can't be seen in the bits; so a request must have a seed or be greedy.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from isobit.llm import LLM
from isobit.sampling_params import SamplingParams

if TYPE_CHECKING:
    import ray.data

Batch = dict[str, Any]


def _check_repeatable(params: SamplingParams, has_seeds: bool = False) -> None:
    if params.temperature != 0 and params.seed is None and not has_seeds:
        raise ValueError("seed is needed with a temperature: when a worker is lost, another one "
                         "takes its requests and must give the same bits")


class Worker:
    """What each actor of `generate` runs: a model, and batches of prompts to completions."""

    def __init__(self, model: str, sampling_params: SamplingParams, prompt_column: str,
                 seed_column: str | None, receipts: bool, engine: dict[str, Any]):
        self._llm = LLM(model, **engine)
        self._params = sampling_params
        self._prompt_column = prompt_column
        self._seed_column = seed_column
        self._receipts = receipts

    def __call__(self, batch: Batch) -> Batch:
        prompts = [p.tolist() if isinstance(p, np.ndarray) else p for p in batch[self._prompt_column]]
        params = [self._params] * len(prompts)
        if self._seed_column is not None:
            params = [dataclasses.replace(self._params, seed=int(seed))
                      for seed in batch[self._seed_column]]
        outputs = self._llm.generate(prompts, params, use_tqdm=False, receipts=self._receipts)
        choices = [output.outputs[0] for output in outputs]
        batch["text"] = [choice.text for choice in choices]
        batch["token_ids"] = _ragged([np.array(choice.token_ids, np.int32) for choice in choices])
        batch["finish_reason"] = [choice.finish_reason for choice in choices]
        batch["digest"] = [output.digest for output in outputs]
        batch["model_digest"] = [output.model_digest for output in outputs]
        if self._params.logprobs is not None:
            batch["logprobs"] = _ragged([choice.token_logprobs for choice in choices])
        if self._receipts:
            batch["receipt"] = [output.receipt for output in outputs]
        return batch


def _ragged(arrays: list[Any]) -> Any:
    """A column of arrays that may differ in length."""
    column = np.empty(len(arrays), object)
    column[:] = arrays
    return column


def generate(dataset: ray.data.Dataset, model: str, sampling_params: SamplingParams, *,
             prompt_column: str = "prompt", seed_column: str | None = None, receipts: bool = False,
             concurrency: int = 1, batch_size: int = 64, num_cpus: float = 1, num_gpus: float = 0,
             worker: type[Worker] = Worker, **engine: Any) -> ray.data.Dataset:
    """The dataset with columns text, token_ids, finish_reason, digest and model_digest; logprobs if
    asked for, receipt with `receipts`.

    `prompt_column` holds texts or token ids. `seed_column`: a seed for each row. `concurrency`:
    workers, each with its own model of `num_cpus` and `num_gpus`; `engine`: keywords of LLM. A batch
    of a worker that is lost goes to another."""
    if sampling_params.n != 1:
        raise ValueError(f"n must be 1, got {sampling_params.n}: give each completion a row")
    _check_repeatable(sampling_params, seed_column is not None)
    return dataset.map_batches(
        worker,
        fn_constructor_kwargs={
            "model": model, "sampling_params": sampling_params, "prompt_column": prompt_column,
            "seed_column": seed_column, "receipts": receipts, "engine": engine,
        },
        batch_size=batch_size, concurrency=concurrency, num_cpus=num_cpus, num_gpus=num_gpus)
