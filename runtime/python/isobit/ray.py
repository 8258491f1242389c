"""Beyond one machine, by Ray: a map over a dataset of prompts, and a deployment that serves.

Every worker has a model of its own. Which worker takes a request, and how often it has to be taken
anew because a worker was lost, can't be seen in the bits; so a request must have a seed or be greedy.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from isobit.errors import IsobitError
from isobit.llm import LLM
from isobit.prompts import FORMS, OF_CHATS, Message, Prompt
from isobit.sampling_params import SCORING, SamplingParams

if TYPE_CHECKING:
    import ray.data
    import ray.serve
    import starlette.requests
    import starlette.responses

Batch = dict[str, Any]


def _check_repeatable(params: SamplingParams, has_seeds: bool = False) -> None:
    if params.temperature != 0 and params.seed is None and not has_seeds:
        raise ValueError("seed is needed with a temperature: when a worker is lost, another one "
                         "takes its requests and must give the same bits")


def _repeatable(params: SamplingParams | None) -> SamplingParams:
    params = params or SamplingParams(seed=0)
    _check_repeatable(params)
    return params


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


_PARAMETERS = {field.name for field in dataclasses.fields(SamplingParams)}


class Server:
    """One replica of `deployment`: a model that many requests share."""

    def __init__(self, model: str, engine: dict[str, Any]):
        self._llm = LLM(model, **engine)

    async def generate(self, prompt: Prompt | list[Message],
                       sampling_params: SamplingParams | None = None,
                       receipt: bool = False) -> dict[str, Any]:
        """A completion as a dictionary, as `isobit batch` writes it. For handles of the deployment."""
        output = await self._llm.generate_async(prompt, _repeatable(sampling_params),
                                                receipt=receipt)
        answer = output.to_dict()
        if receipt:
            answer["receipt"] = output.receipt
        return answer

    async def stream(self, prompt: Prompt | list[Message],
                     sampling_params: SamplingParams | None = None) -> AsyncIterator[dict[str, Any]]:
        """Tokens as they are drawn, and the completion last. For `handle.options(stream=True)`."""
        stream = self._llm.stream_async(prompt, _repeatable(sampling_params))
        async for token in stream:
            yield {"choice": token.choice, "token_id": token.token_id, "text": token.text}
        yield (await stream.result()).to_dict()

    async def score(self, token_ids: list[int]) -> list[float]:
        """As LLM.score."""
        output = await self._llm.generate_async(token_ids, SCORING)
        assert output.prompt_token_logprobs is not None
        return [float(value) for value in output.prompt_token_logprobs]

    async def model_digest(self) -> str:
        return self._llm.model_digest

    async def process(self) -> int:
        """Of the replica that took the call."""
        return os.getpid()

    async def __call__(self, request: starlette.requests.Request) -> starlette.responses.Response:
        """HTTP: a request of `isobit batch` as JSON, its completion back. A seed that is not given
        is 0."""
        from starlette.responses import JSONResponse

        try:
            body = await request.json()
            prompt, params = _parse(body)
            return JSONResponse(await self.generate(prompt, params))
        except (ValueError, TypeError, IsobitError) as error:
            # ValueError: not JSON, or a parameter out of its range.
            of_caller = not isinstance(error, IsobitError) or isinstance(error, ValueError) or (
                error.status in ("UNSUPPORTED", "FAILED_PRECONDITION"))
            return JSONResponse({"error": {"code": "invalid_request" if of_caller else "internal",
                                           "message": str(error)}}, 400 if of_caller else 500)


def _parse(body: Any) -> tuple[Prompt, SamplingParams]:
    if not isinstance(body, dict):
        raise ValueError("a request is a JSON object")
    given = [name for name in FORMS if name in body]
    if len(given) != 1:
        raise ValueError(f"a request has one of {', '.join(FORMS)}, got {given}")
    if unknown := sorted(set(body) - set(given) - set(OF_CHATS) - _PARAMETERS - {"id"}):
        raise ValueError(f"unknown field {unknown[0]!r}")
    parameters = {name: value for name, value in body.items() if name in _PARAMETERS}
    parameters.setdefault("seed", 0)
    prompt = {name: body[name] for name in (given[0], *OF_CHATS) if name in body}
    return cast(Prompt, prompt), SamplingParams(**parameters)


def deployment(model: str, *, num_replicas: int = 1, num_cpus: float = 1, num_gpus: float = 0,
               max_ongoing_requests: int = 256, name: str = "isobit",
               **engine: Any) -> ray.serve.Application:
    """For `ray.serve.run`. Each of `num_replicas` has its own model; `engine`: keywords of LLM. Any
    replica gives the same bits, so a balancer needs to know nothing."""
    from ray import serve

    return serve.deployment(
        Server, name=name, num_replicas=num_replicas, max_ongoing_requests=max_ongoing_requests,
        ray_actor_options={"num_cpus": num_cpus, "num_gpus": num_gpus}).bind(model, engine)
