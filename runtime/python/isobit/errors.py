"""What can go wrong, as exceptions."""


class IsobitError(RuntimeError):
    """An error of the engine. `status` is the name of its code: "NOT_FOUND", "OUT_OF_RANGE" ..."""

    def __init__(self, message: str, status: str = "INTERNAL"):
        super().__init__(message, status)
        self.status = status

    def __str__(self) -> str:
        return str(self.args[0])


class InvalidRequestError(IsobitError, ValueError):
    """A parameter, prompt or file that can't be; the message names it and its limit."""


class ModelNotFoundError(IsobitError, FileNotFoundError):
    """A file that does not exist."""


class DifferentBitsError(IsobitError):
    """A replay that gave other bits; the message is the first difference."""


class CancelledError(IsobitError):
    """The engine was closed before the request ended."""


_CLASSES = {
    "INVALID_ARGUMENT": InvalidRequestError,
    "OUT_OF_RANGE": InvalidRequestError,
    "NOT_FOUND": ModelNotFoundError,
    "DIFFERENT": DifferentBitsError,
    "CANCELLED": CancelledError,
}


def error_of(status: str, message: str) -> IsobitError:
    """The exception for a status of the C interface."""
    return _CLASSES.get(status, IsobitError)(message, status)
