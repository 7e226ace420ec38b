"""What stands before the routes: the token, foreign pages, limits of size; and figures for whoever watches."""

import hmac
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from urllib.parse import urlsplit

import numpy as np
from fastapi import HTTPException
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from puridiver.service.engine import Engine

OPEN = ("/", "/healthz")  # need no token: they tell nothing of the learner
LOCAL = ("127.0.0.1", "localhost", "::1")


class Timer:
    """How long requests took: for Prometheus, and the last thousand of each route for the page."""

    def __init__(self, registry: CollectorRegistry) -> None:
        buckets = (0.002, 0.005, 0.01, 0.02, 0.03, 0.06, 0.1, 0.3, 1, 3, 10, 60)
        self._all = Histogram(
            "puridiver_request_seconds", "Time to answer", ["route", "status"], registry=registry, buckets=buckets
        )
        self._last: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=1_000))
        self._lock = threading.Lock()

    def note(self, route: str, status: int, seconds: float) -> None:
        self._all.labels(route, str(status)).observe(seconds)
        if status < 400:
            with self._lock:
                self._last[route].append(seconds)

    def latency(self) -> dict[str, dict[str, float]]:
        with self._lock:
            last = {route: np.array(times) * 1e3 for route, times in self._last.items()}
        quantiles = {"median_ms": 0.5, "p99_ms": 0.99}
        return {route: {q: float(np.quantile(ms, at)) for q, at in quantiles.items()} for route, ms in last.items()}


class Gate:
    """Stands before the routes: token, foreign pages, size of bodies; times what passes."""

    def __init__(self, app: ASGIApp, token: str | None, most_bytes: int, host: str, timer: Timer) -> None:
        self.app, self.most_bytes, self.timer = app, most_bytes, timer
        self.token = None if token is None else f"Bearer {token}".encode()
        # Against pages whose name points here. A public service may have any name, and such a page has no token.
        self.hosts = LOCAL if host in LOCAL and token is None else None

    def refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = dict(scope["headers"])
        host, origin = headers.get(b"host", b"").decode("latin-1"), headers.get(b"origin", b"").decode("latin-1")
        try:
            foreign = self.hosts is not None and urlsplit(f"//{host}").hostname not in self.hosts
            foreign |= bool(origin) and urlsplit(origin).netloc != host
        except ValueError:
            foreign = True
        if foreign:  # a page elsewhere must not act through the browser of somebody who may
            return 403, "this service answers its own page and programs, not pages of other hosts"
        given = headers.get(b"authorization", b"")
        if self.token is not None and scope["path"] not in OPEN and not hmac.compare_digest(given, self.token):
            return 401, "send the header Authorization: Bearer with the service's token"
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self.most_bytes:
            return 413, self.too_large
        return None

    @property
    def too_large(self) -> str:
        return f"a body may have {self.most_bytes:,} bytes: send fewer images at a time"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        taken, status, start = 0, 500, time.perf_counter()

        async def limited() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self.most_bytes:
                raise HTTPException(413, self.too_large)
            return message

        async def watched(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            if refused := self.refusal(scope):
                headers = {"WWW-Authenticate": "Bearer"} if refused[0] == 401 else {}
                await JSONResponse({"detail": refused[1]}, refused[0], headers)(scope, receive, watched)
            else:
                await self.app(scope, limited, watched)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self.timer.note(route, status, time.perf_counter() - start)


class Figures:
    """The engine's figures for Prometheus, read when it asks."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def collect(self) -> Iterator[Metric]:
        now = self.engine.status()
        counts = {"samples_learnt": now["samples_seen"], "samples_logged": now["logged"]}
        for name, value in (counts | {"consolidations": now["consolidations"]}).items():
            yield CounterMetricFamily(f"puridiver_{name}", f"{name.replace('_', ' ')} so far", value)
        gauges = {
            name: now[name] for name in ("agreement", "noise_rate", "loss", "alpha", "samples_a_second", "diverged")
        }
        gauges |= {"queue_samples": now["queue"]["samples"], "log_bytes": now["log"]["bytes"]}
        gauges |= {"consolidating": now["consolidation"] is not None, "failed": now["failure"] is not None}
        gauges["disk_problems"] = len(now["problems"])
        for name, value in gauges.items():
            if value is not None:
                yield GaugeMetricFamily(
                    f"puridiver_{name}", f"{name.replace('_', ' ')} now, as in /status", float(value)
                )
        held = GaugeMetricFamily("puridiver_memory_samples", "memory samples of a class", labels=["label"])
        for known in now["classes"]:
            held.add_metric([str(known["label"])], known["held"])
        yield held
