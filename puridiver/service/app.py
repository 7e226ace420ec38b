"""The routes of the service. What changes the learner is the engine's."""

import asyncio
import base64
import io
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Annotated, Any

import numpy as np
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Depends, FastAPI, Header, HTTPException, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from fastapi.security import HTTPBearer
from PIL import Image
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from pydantic import ValidationError

from puridiver._version import __version__
from puridiver.errors import DataError, DivergedError, few
from puridiver.learner.predictor import check_finite
from puridiver.service import bodies, models
from puridiver.service.engine import Engine
from puridiver.service.gate import Figures, Gate, Timer
from puridiver.service.intake import BusyQueue, Stopped

POLL = 0.01  # seconds between two looks whether a record has been applied
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
ERRORS: dict[int, str] = {
    400: "The body cannot be parsed", 401: "The token is missing or wrong", 403: "The request is of a page elsewhere",
    413: "The body is too large", 422: "Something in the request cannot be used; nothing has changed",
}  # fmt: skip
OF_A_CHANGE = {429: "The queue is full: see Retry-After", 503: "It learns no more", 507: "The disk is full"}


def _told(*more: int) -> dict[int | str, dict[str, Any]]:
    known = ERRORS | OF_A_CHANGE | {404: "There is none", 409: "Not yet", 415: "Another kind of body"}
    return {code: {"model": models.Problem, "description": known[code]} for code in (*ERRORS, *more)}


Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")]
Wait = Annotated[float, Query(ge=0, le=60, description="seconds to wait until the change is applied")]


def make_app(engine: Engine, token: str | None = None, most_bytes: int = 32 << 20, host: str = "127.0.0.1") -> FastAPI:
    """The application; it starts the engine when it is served, and closes it afterwards."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        engine.start()
        yield
        await run_in_threadpool(engine.close)

    registry = CollectorRegistry()
    registry.register(Figures(engine))
    ProcessCollector(registry=registry)
    timer = Timer(registry)
    app = FastAPI(
        title="puridiver", version=__version__, summary="A learner that learns online from images with wrong labels",
        lifespan=lifespan, docs_url=None, redoc_url=None, responses=_told(),
        dependencies=[Depends(HTTPBearer(auto_error=False))] if token else [],
    )  # fmt: skip
    app.add_middleware(Gate, token=token, most_bytes=most_bytes, host=host, timer=timer)
    _handle_errors(app)
    _add_learning(app, engine)
    _add_reading(app, engine, timer, registry)
    return app


def _handle_errors(app: FastAPI) -> None:
    def answer(status: int, text: str, **headers: str) -> JSONResponse:
        return JSONResponse({"detail": text}, status, headers)

    def of_fields(_: Request, error: Any) -> JSONResponse:
        found = [f"{'.'.join(map(str, each['loc'])) or 'body'}: {each['msg']}" for each in error.errors()]
        return answer(422, few(found, 5, "; "))

    app.add_exception_handler(RequestValidationError, of_fields)
    app.add_exception_handler(ValidationError, of_fields)
    app.add_exception_handler(ValueError, lambda _, error: answer(422, str(error)))
    app.add_exception_handler(Stopped, lambda _, error: answer(503, str(error)))
    app.add_exception_handler(DivergedError, lambda _, error: answer(503, str(error)))
    app.add_exception_handler(OSError, lambda _, error: answer(507, f"nothing was changed: {error.strerror or error}"))
    app.add_exception_handler(
        BusyQueue, lambda _, error: answer(429, str(error), **{"Retry-After": str(getattr(error, "seconds", 1))})
    )


def _add_learning(app: FastAPI, engine: Engine) -> None:
    """The routes that change the learner."""
    shape = engine.learner.input_shape
    errors = _told(429, 503, 507)

    async def finished(answer: dict[str, Any], wait: float) -> dict[str, Any]:
        """The answer with the result, if that comes in time."""
        end = time.monotonic() + wait
        while answer["seq"] not in engine.results and time.monotonic() < end and not engine.failure:
            await asyncio.sleep(POLL)
        return {**answer, "result": engine.results.get(answer["seq"])}

    @app.post("/observe", responses=errors | _told(415), openapi_extra=bodies.described(bodies.LabelledImages))
    async def observe(request: Request, key: Key = None, wait: Wait = 0) -> models.Arrived:
        """Learn from a batch of labelled images. Once it is answered, it is on disk and will be learnt."""
        fields, images = await bodies.read(request, bodies.LabelledImages, shape)
        answer = await run_in_threadpool(engine.observe, images, fields.labels, fields.ids, key)
        return models.Arrived(**await finished(answer, wait))

    @app.post("/corrections", responses=errors)
    async def corrections(body: models.Corrections, key: Key = None, wait: Wait = 0) -> models.Changed:
        """Give samples of the memory the labels that a person has checked."""
        sent = [each.image for each in body.corrections if each.image is not None]
        images = await run_in_threadpool(bodies.from_base64, sent, shape) if sent else None
        numbers = iter(range(len(sent)))
        rows = [
            {**each.model_dump(), "image": None if each.image is None else next(numbers)} for each in body.corrections
        ]
        answer = await run_in_threadpool(engine.correct, rows, images, key)
        return models.Changed(**await finished(answer, wait))

    @app.post("/forget", responses=errors)
    async def forget(body: models.Takedown, key: Key = None, wait: Wait = 0) -> models.Changed:
        """Remove samples from the memory. Snapshots that are older keep them until they are removed."""
        return models.Changed(
            **await finished(await run_in_threadpool(engine.forget, body.arrivals, body.ids, key), wait)
        )

    @app.post("/consolidate", responses=errors)
    def consolidate(body: models.Training | None = None, key: Key = None) -> models.Trains:
        """Train on the memory, after what waits before it."""
        return models.Trains(**engine.consolidate(body.epochs if body else None, key))

    @app.post("/snapshots/{id}/restore", responses=errors | _told(404))
    def restore(id: str, key: Key = None) -> models.Restored:
        """Go back to a snapshot, after what waits before it. What came since is forgotten."""
        try:
            return models.Restored(**engine.restore(id, key))
        except (KeyError, DataError) as error:
            raise HTTPException(404, f"there is no whole snapshot {id!r:.80}: GET /snapshots lists them") from error


def _add_reading(app: FastAPI, engine: Engine, timer: Timer, registry: CollectorRegistry) -> None:
    """The routes that change nothing."""
    page = (files("puridiver.service") / "page.html").read_text()
    threads = CapacityLimiter(8)  # of predictions alone: those of the other routes may all wait for the disk

    def answer(images: np.ndarray, probabilities: bool) -> models.Predictions:
        predictor = engine.predictor
        if predictor is None:
            raise HTTPException(409, "the learner knows no class yet: observe a batch first")
        p = predictor.predict_proba(images)
        try:
            check_finite(p)
        except DivergedError:
            if predictor is engine.predictor:  # and not one from before a rollback
                engine.diverged = True
            raise
        classes, best = predictor.classes, p.argmax(axis=1)
        more = {"classes": classes, "probabilities": p.tolist()} if probabilities else {}
        return models.Predictions(labels=[classes[k] for k in best], p=p.max(axis=1).tolist(), **more)

    @app.post("/predict", responses=_told(409, 415, 503), openapi_extra=bodies.described(bodies.Images))
    async def predict(request: Request, probabilities: bool = False) -> models.Predictions:
        """The most likely label of each image. It waits neither for learning nor for the disk."""
        _, images = await bodies.read(request, bodies.Images, engine.learner.input_shape, threads)
        return await run_sync(answer, images, probabilities, limiter=threads)

    @app.get("/review")
    def review(limit: Annotated[int, Query(ge=1, le=200)] = 20) -> list[models.Doubt]:
        """Memory samples whose labels look wrong, the most doubtful first."""
        return [models.Doubt(**{**row, "image": _data_url(row["image"])}) for row in engine.review(limit)]

    @app.get("/status")
    def status(curve: bool = False) -> dict[str, Any]:
        """Figures to watch the service by; with its recent curve, if asked for."""
        more = {"curve": engine.figures["curve"]} if curve else {}
        return {**engine.status(), "latency": timer.latency(), "version": __version__, **more}

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    def metrics() -> Response:
        """The figures for Prometheus."""
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    @app.get("/healthz", responses=_told(503))
    async def healthz() -> dict[str, str]:
        """Whether it learns and answers."""
        if engine.failure:
            raise HTTPException(503, f"the worker has stopped: {engine.failure}")
        return {"status": "ok"}

    @app.get("/snapshots")
    def snapshots() -> list[models.SnapshotNote]:
        """States to roll back to, newest first."""
        return [models.SnapshotNote(**each) for each in engine.snapshots.listing()]

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def index() -> HTMLResponse:
        return HTMLResponse(page, headers=PAGE_HEADERS)


def _data_url(image: np.ndarray | None) -> str | None:
    if image is None:
        return None
    content = io.BytesIO()
    Image.fromarray(image[..., 0] if image.shape[2] == 1 else image).save(content, "PNG")
    return "data:image/png;base64," + base64.b64encode(content.getvalue()).decode()
