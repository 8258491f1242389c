"""Tokens as they are drawn, for `for` and for `async for`."""

from __future__ import annotations

import asyncio
import itertools
import threading
import weakref
from collections.abc import AsyncIterator, Iterator

from isobit import _isobit
from isobit._isobit import Token
from isobit.outputs import RequestOutput

POLL_MS = 100  # how long Ctrl-C may take


class LoopHub:
    """The streams that one event loop waits for, behind one file descriptor.

    The engine's thread only writes to that descriptor; it never waits for Python. Everything else
    happens in the loop's thread. A stream that is lost is forgotten with its event."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self.wakeups = _isobit.Wakeups()
        self._news: weakref.WeakValueDictionary[int, asyncio.Event] = weakref.WeakValueDictionary()
        self._keys = itertools.count()
        # Stays until the loop is closed, and keeps this object and its descriptor as long.
        loop.add_reader(self.wakeups.fileno(), self._on_news)

    def add(self) -> tuple[int, asyncio.Event]:
        key, event = next(self._keys), asyncio.Event()
        self._news[key] = event
        return key, event

    def _on_news(self) -> None:
        for key in self.wakeups.take():
            if event := self._news.get(key):
                event.set()


class TokenStream:
    """A request under way. Iterate it once for its tokens; `result()` is the whole completion.

    Leaving the loop early, or losing the object, cancels the request."""

    def __init__(self, stream: _isobit.Stream, wakeups: _isobit.Wakeups, request_id: str,
                 prompt: str | None):
        self._stream = stream
        self._wakeups = wakeups
        self.request_id = request_id
        self._prompt = prompt

    def __iter__(self) -> Iterator[Token]:
        complete = False
        try:
            while True:
                done = self._stream.done  # before the tokens: none comes after it
                yield from self._stream.take()
                if done:
                    complete = True
                    return
                self._wakeups.wait(POLL_MS)
        finally:
            if not complete:
                self.cancel()

    def cancel(self) -> None:
        """Ends the request, soon: `result()` has what was drawn so far."""
        self._stream.cancel()

    def result(self) -> RequestOutput:
        """Waits for the end."""
        while not self._stream.done:
            self._wakeups.wait(POLL_MS)
        return RequestOutput(self._stream.result(), self.request_id, self._prompt)


class AsyncTokenStream:
    """As TokenStream, in an event loop. `await stream.result()` is the whole completion."""

    def __init__(self, stream: _isobit.Stream, news: asyncio.Event, request_id: str,
                 prompt: str | None):
        self._stream = stream
        self._news = news
        self.request_id = request_id
        self._prompt = prompt

    async def __aiter__(self) -> AsyncIterator[Token]:
        complete = False
        try:
            while True:
                self._news.clear()  # before looking: what comes later sets it again
                done = self._stream.done
                for token in self._stream.take():
                    yield token
                if done:
                    complete = True
                    return
                await self._news.wait()
        finally:
            if not complete:
                self.cancel()

    def cancel(self) -> None:
        """Ends the request, soon: `result()` has what was drawn so far."""
        self._stream.cancel()

    async def result(self) -> RequestOutput:
        try:
            while not self._stream.done:
                self._news.clear()  # the end is still to come, and sets it in this thread
                await self._news.wait()
        except asyncio.CancelledError:
            self.cancel()
            raise
        return RequestOutput(self._stream.result(), self.request_id, self._prompt)


class LoopHubs:
    """One hub a running event loop; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hubs: dict[asyncio.AbstractEventLoop, LoopHub] = {}

    def of_running_loop(self) -> LoopHub:
        loop = asyncio.get_running_loop()
        with self._lock:
            for closed in [known for known in self._hubs if known.is_closed()]:
                del self._hubs[closed]
            if loop not in self._hubs:
                self._hubs[loop] = LoopHub(loop)
            return self._hubs[loop]
