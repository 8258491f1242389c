"""One line on a terminal that is drawn over and over."""

from __future__ import annotations

import sys
import time
from types import TracebackType


class ProgressBar:
    """`with ProgressBar(total) as bar: bar.update(done, text)`. Silent unless stderr is a terminal."""

    WIDTH = 30

    def __init__(self, total: int, shown: bool = True):
        self._total = total
        self._shown = shown and total > 0 and sys.stderr.isatty()
        self._next = 0.0
        self._drawn = False

    @classmethod
    def line(cls, done: int, total: int, text: str) -> str:
        filled = cls.WIDTH * done // total
        return f"[{'#' * filled}{' ' * (cls.WIDTH - filled)}] {100 * done // total:3d}%  {text}"

    def update(self, done: int, text: str) -> None:
        if not self._shown or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + 0.1
        self._drawn = True
        sys.stderr.write("\r" + self.line(done, self._total, text) + "\x1b[K")
        sys.stderr.flush()

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
