"""isobit: deterministic, batch-invariant inference of language models.

    from isobit import LLM, SamplingParams
    llm = LLM("model.gguf")
    for output in llm.generate(["Hello, my name is"], SamplingParams(seed=7, max_tokens=32)):
        print(output.outputs[0].text, output.digest)
"""

from isobit._isobit import CONTRACT_VERSION, VERSION, Token
from isobit.errors import (
    CancelledError,
    DifferentBitsError,
    InvalidRequestError,
    IsobitError,
    ModelNotFoundError,
)
from isobit.llm import LLM
from isobit.outputs import CompletionOutput, Logprob, RequestOutput
from isobit.sampling_params import SamplingParams
from isobit.streaming import AsyncTokenStream, TokenStream

__version__ = VERSION
__all__ = [
    "LLM",
    "SamplingParams",
    "RequestOutput",
    "CompletionOutput",
    "Logprob",
    "Token",
    "TokenStream",
    "AsyncTokenStream",
    "IsobitError",
    "InvalidRequestError",
    "ModelNotFoundError",
    "DifferentBitsError",
    "CancelledError",
    "CONTRACT_VERSION",
    "__version__",
]
