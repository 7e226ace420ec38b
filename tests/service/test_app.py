"""The routes: what they take, what they refuse, and that refusals change nothing."""

from __future__ import annotations

import base64
import io
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from PIL import Image

from puridiver import Learner
from puridiver.service import bodies
from puridiver.service.app import make_app
from puridiver.service.client import Client, ServiceError
from puridiver.service.engine import Engine
from puridiver.service.intake import Policy
from tests.service.conftest import Served, batches, tiny


def png(image: np.ndarray) -> bytes:
    content = io.BytesIO()
    Image.fromarray(image.squeeze()).save(content, "PNG")
    return content.getvalue()


def npy(array: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.save(content, array, allow_pickle=True)
    return content.getvalue()


def text(content: bytes) -> str:
    return base64.b64encode(content).decode()


IMAGES, LABELS = batches(1)[0]
BLACK, BOMB = (png(np.zeros((side, side), np.uint8)) for side in (8, 6000))
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return Engine(tmp_path_factory.mktemp("service"), tiny, Policy(every=0, epochs=1, queue=64), "cpu")


@pytest.fixture(scope="module")
def http(engine: Engine) -> Iterator[TestClient]:
    with TestClient(make_app(engine, most_bytes=200_000), base_url="http://localhost") as client:
        client.post("/observe?wait=30", json={"npy": text(npy(IMAGES)), "labels": LABELS})
        yield client


def test_images_come_as_files_as_base64_or_as_arrays_and_are_the_same(http: TestClient, engine: Engine) -> None:
    files = [png(image) for image in IMAGES]
    ways: list[dict[str, Any]] = [
        {"json": {"images": [text(each) for each in files]}},
        {"json": {"npy": text(npy(IMAGES))}},
        {"json": {"npy": text(npy(np.asfortranarray(IMAGES)))}},
        {"json": {"npy": text(npy(IMAGES.astype(np.float32) / 255))}},
        {"files": [("images", ("a.png", each)) for each in files]},
        {"files": {"npy": ("a.npy", npy(IMAGES))}},
    ]
    answers = [http.post("/predict?probabilities=true", **way).json() for way in ways]
    assert all(answer == answers[0] for answer in answers)
    assert len(answers[0]["labels"]) == len(answers[0]["p"]) == len(answers[0]["probabilities"]) == 8
    assert set(answers[0]["labels"]) <= set(answers[0]["classes"])
    before = engine.tail.seen
    for way in ways[0], ways[4]:
        extra = {"labels": LABELS, "ids": [f"{k}.png" for k in range(8)]}
        sent = {"json": way["json"] | extra} if "json" in way else {**way, "data": extra}
        answer = http.post("/observe?wait=30", **sent)
        assert answer.status_code == 200, answer.text
        assert len(answer.json()["result"]["verdicts"]) == 8
    assert engine.tail.seen == before + 16


BAD: list[tuple[int, str, dict[str, Any]]] = [
    (422, "image 1: not an image", {"json": {"images": [text(BLACK), text(b"no image")], "labels": ["a", "b"]}}),
    (422, "image 0 ('x.png'): not an image", {"files": {"images": ("x.png", b"none")}, "data": {"labels": ["cat"]}}),
    (422, "36,000,000 pixels|6000 x 6000 pixels are more", {"json": {"images": [text(BOMB)], "labels": ["cat"]}}),
    (422, "image 0 is not base64", {"json": {"images": ["*"], "labels": ["cat"]}}),
    (422, "of the shape", {"json": {"npy": text(npy(IMAGES)), "labels": ["cat"]}}),
    (422, "all integers or all strings", {"json": {"npy": text(npy(IMAGES[:2])), "labels": ["cat", 1]}}),
    (422, "labels", {"json": {"npy": text(npy(IMAGES[:1])), "labels": [True]}}),
    (422, "either images or npy", {"json": {"labels": ["cat"]}}),
    (422, "more: Extra inputs", {"json": {"npy": "", "labels": [], "more": 1}}),
    (422, "Invalid JSON", {"content": b"{", "headers": JSON}),
    (422, "uint8 or floats", {"json": {"npy": text(npy(np.array([{}]))), "labels": ["cat"]}}),
    (422, "bytes after its header", {"json": {"npy": text(npy(IMAGES)[:-1]), "labels": LABELS}}),
    (422, "not a .npy file", {"json": {"npy": text(b"PK"), "labels": LABELS}}),
    (422, "the form cannot be read", {"content": b"x", "headers": {"Content-Type": "multipart/form-data"}}),
    (422, "the form's fields should be", {"files": {"path": ("x", b"y")}}),
    (415, "application/json or multipart/form-data", {"content": b"x", "headers": {"Content-Type": "text/plain"}}),
    (413, "a body may have 200,000 bytes", {"content": b"x" * 200_001}),
    (413, "a body may have 200,000 bytes", {"content": iter([b"x" * 150_000] * 2), "headers": JSON}),
]  # fmt: skip


@pytest.mark.parametrize(("status", "why", "sent"), BAD, ids=[f"{status} {why}"[:40] for status, why, _ in BAD])
def test_what_cannot_be_used_is_named_and_changes_nothing(
    http: TestClient, engine: Engine, status: int, why: str, sent: dict[str, Any]
) -> None:
    before = engine.tail.seq
    answer = http.post("/observe", **sent)
    assert answer.status_code == status, answer.text
    assert any(part in answer.json()["detail"] for part in why.split("|")), answer.text
    assert engine.tail.seq == before


def test_too_many_images_are_refused() -> None:
    huge = io.BytesIO()
    np.lib.format.write_array_header_1_0(huge, {"descr": "|u1", "fortran_order": False, "shape": (1 << 40, 8, 8)})
    with pytest.raises(ValueError, match="bytes after its header"):
        bodies.read_npy(huge.getvalue())
    with pytest.raises(ValueError, match="at most 1,024 images"):
        bodies._pixels(None, npy(np.zeros((1025, 8, 8), np.uint8)), (8, 8, 1))


def test_a_repeated_request_gets_the_first_answer(http: TestClient, engine: Engine) -> None:
    sent = {"json": {"npy": text(npy(IMAGES)), "labels": LABELS}, "headers": {"Idempotency-Key": "once"}}
    first, second = http.post("/observe", **sent), http.post("/observe", **sent)
    assert first.json()["seq"] == second.json()["seq"]
    assert engine.tail.seen == first.json()["first"] + 8
    other = http.post("/observe", **{**sent, "json": {"npy": text(npy(IMAGES[:1])), "labels": ["cat"]}})
    assert (other.status_code, "belongs to another request" in other.text) == (422, True)


def test_a_full_queue_says_when_to_come_again(http: TestClient, engine: Engine) -> None:
    many = {"npy": text(npy(np.repeat(IMAGES, 7, axis=0))), "labels": LABELS * 7}
    answers = [http.post("/observe", json=many) for _ in range(6)]
    full = next(answer for answer in answers if answer.status_code == 429)
    assert int(full.headers["Retry-After"]) >= 1
    assert engine.drain(60)


def test_a_full_disk_answers_507_and_predictions_go_on(http: TestClient, engine: Engine) -> None:
    real, engine.log.reserve = engine.log.reserve, 1 << 60
    sent = {"npy": text(npy(IMAGES)), "labels": LABELS}
    refused = http.post("/observe", json=sent)
    assert (refused.status_code, "No space left" in refused.text) == (507, True)
    assert http.post("/predict", json={"npy": sent["npy"]}).status_code == 200
    assert "log" in http.get("/status").json()["problems"]
    engine.log.reserve = real
    assert http.post("/observe", json=sent).status_code == 200


def test_samples_are_corrected_forgotten_and_rolled_back(http: TestClient, engine: Engine) -> None:
    assert engine.drain(60)
    engine.checkpoint()
    snapshot = http.get("/snapshots").json()[0]
    assert snapshot["seen"] == engine.learner.seen
    arrival = int(engine.learner.memory.samples.arrivals[0])
    rows = [{"arrival": arrival, "label": "owl"}, {"id": "none", "label": "cat", "image": text(png(IMAGES[0]))}]
    found = http.post("/corrections?wait=30", json={"corrections": rows}).json()
    assert found["result"] == {"applied": [arrival], "dropped": [], "unknown": ["none"]}
    assert http.post("/corrections", json={"corrections": [{"label": "cat"}]}).status_code == 422
    assert http.post("/forget?wait=30", json={"arrivals": [arrival]}).json()["result"] == {"forgotten": 1}
    assert http.post("/consolidate", json={"epochs": 1}).json()["epochs"] == 1
    assert http.post(f"/snapshots/{snapshot['id']}/restore").json()["seen"] == snapshot["seen"]
    assert http.post("/snapshots/none/restore").status_code == 404
    assert engine.drain(60)
    assert arrival in engine.learner.memory.samples.arrivals.tolist()


def test_figures_for_people_and_for_prometheus(http: TestClient, engine: Engine) -> None:
    assert engine.drain(60)
    status = http.get("/status?curve=true").json()
    assert status["samples_seen"] == engine.learner.seen
    assert status["curve"]
    assert status["latency"]["/observe"]["p99_ms"] >= status["latency"]["/observe"]["median_ms"] > 0
    metrics = http.get("/metrics").text
    assert f"puridiver_samples_learnt_total {float(engine.learner.seen)}" in metrics
    assert 'puridiver_request_seconds_count{route="/observe",status="200"}' in metrics
    assert 'puridiver_memory_samples{label="cat"}' in metrics
    assert http.get("/healthz").json() == {"status": "ok"}


def test_only_its_own_page_and_programs_may_ask(http: TestClient) -> None:
    assert http.get("/status", headers={"Host": "evil.example"}).status_code == 403  # a name that points here
    assert http.get("/status", headers={"Origin": "http://evil.example"}).status_code == 403
    assert http.get("/status", headers={"Origin": "http://localhost"}).status_code == 200
    page = http.get("/")
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert not [word for word in ("http://", "https://") if word in page.text.replace("http://www.w3.org/2000/svg", "")]


def test_a_token_is_asked_for_where_there_is_one(tmp_path: Path) -> None:
    engine = Engine(tmp_path, tiny, Policy(), "cpu")
    with TestClient(make_app(engine, token="secret", host="0.0.0.0"), base_url="http://shop") as http:
        assert (http.get("/").status_code, http.get("/healthz").status_code) == (200, 200)
        for given in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "secret"}):
            answer = http.get("/status", headers=given)
            assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
            assert http.post("/observe", headers=given).status_code == 401
        assert http.get("/status", headers={"Authorization": "Bearer secret"}).status_code == 200
        assert http.post("/predict", json={}, headers={"Authorization": "Bearer secret"}).status_code == 422
        body = {"npy": text(npy(IMAGES))}
        assert http.post("/predict", json=body, headers={"Authorization": "Bearer secret"}).status_code == 409


def test_a_service_with_a_token_answers_behind_a_proxy_on_its_own_machine(tmp_path: Path) -> None:
    app = make_app(Engine(tmp_path, tiny, Policy(), "cpu"), token="secret")
    with TestClient(app, base_url="http://shop.example", headers={"Authorization": "Bearer secret"}) as http:
        assert http.get("/status", headers={"Origin": "https://shop.example"}).status_code == 200
        assert http.get("/status", headers={"Origin": "https://evil.example"}).status_code == 403


def test_predictions_and_health_wait_for_no_request_that_waits(served: Served) -> None:
    with ThreadPoolExecutor(60) as pool, Client(served.url, timeout=20, patience=0) as client:
        with served.engine._changed:  # as while a slow disk writes
            waiting = [pool.submit(_status, served.url) for _ in range(60)]
            time.sleep(1)
            assert not any(each.done() for each in waiting)
            assert len(client.predict(IMAGES)["labels"]) == len(IMAGES)
            assert client._ask("GET", "/healthz") == {"status": "ok"}
        assert all(each.result()["samples_seen"] == 80 for each in waiting)


def _status(url: str) -> dict[str, Any]:
    with Client(url) as client:
        return client.status()


def test_the_client_does_all_of_it(served: Served, tmp_path: Path) -> None:
    with Client(served.url) as client:
        _use(client, served, tmp_path)
    with pytest.raises(OSError, match=r"refused"):
        Client("127.0.0.1:9", patience=0).status()


def test_the_client_takes_numbers_of_numpy_and_torch_and_the_path_of_a_proxy() -> None:
    client = Client("http://shop.example/learner/")
    with mock.patch.object(client, "_connection") as connection:
        connection.getresponse.return_value.status = 200
        connection.getresponse.return_value.read.return_value = b"{}"
        client.observe(IMAGES[:2], torch.tensor([3, 4]), ids=list(np.arange(2)))
        method, path, content, _ = connection.request.call_args.args
        sent = json.loads(content)
        assert (method, path, sent["labels"], sent["ids"]) == ("POST", "/learner/observe?wait=0.0", [3, 4], [0, 1])
        with pytest.raises(ValueError, match="strings or numbers, but got a object"):
            client.observe(IMAGES[:1], [object()])


def _use(client: Client, served: Served, tmp_path: Path) -> None:
    path = tmp_path / "cat.png"
    path.write_bytes(png(IMAGES[0]))
    first = client.observe([path, png(IMAGES[1])], ["cat", "dog"], ids=["one", "two"], wait=30, key="mine")
    assert client.observe([path, png(IMAGES[1])], ["cat", "dog"], ids=["one", "two"], key="mine")["seq"] == first["seq"]
    assert client.predict(IMAGES)["labels"] == client.predict([png(image) for image in IMAGES])["labels"]
    found = client.correct({"one": "dog", "none": "dog"}, by_id=True, images=[path, path], wait=30)["result"]
    assert found["unknown"] == ["none"]
    with mock.patch.object(served.engine, "correct", wraps=served.engine.correct) as correct:
        for images in (IMAGES[:2], IMAGES[:2].astype(np.float32) / 255):
            client.correct({0: "dog", 1: "dog"}, images=images, wait=30)
            assert np.array_equal(correct.call_args.args[1], IMAGES[:2])
    assert client.forget(ids=["one"], wait=30)["result"]["forgotten"] <= 1
    assert client.consolidate(1)["epochs"] == 1
    assert served.engine.drain(60)
    assert client.status()["samples_seen"] == 82  # of the service and these two
    assert client.restore(client.snapshots()[-1]["id"])["seen"] == 0
    assert client.review() == [] or client.review()[0]["image"].startswith("data:image/png;base64,")
    with pytest.raises(ServiceError, match="422: 1 of 1 images cannot be used"):
        client.observe([b"none"], ["cat"])
    with pytest.raises(ValueError, match="a list of paths or bytes"):
        client.predict("cat.png")


def test_vectors_are_learnt_corrected_and_reviewed_like_images(tmp_path: Path) -> None:
    def learner() -> Learner:
        return Learner(["cat", "owl"], (4,), 16, device="cpu", epochs=1, batch_size=4)

    vectors = np.random.default_rng(0).normal(size=(24, 4)).astype(np.float32)
    labels = np.where(vectors[:, 0] > 0, "cat", "owl").tolist()
    engine = Engine(tmp_path / "service", learner, Policy(every=0), "cpu")
    with TestClient(make_app(engine), base_url="http://localhost") as client:
        assert client.post("/observe?wait=30", json={"npy": text(npy(vectors)), "labels": labels}).status_code == 200
        found = client.post("/predict", json={"npy": text(npy(vectors[:3]))})
        assert len(found.json()["labels"]) == 3
        assert all(row["image"] is None for row in client.get("/review").json())
        changed = {"corrections": [{"arrival": 0, "label": "owl", "image": text(npy(vectors[0]))}]}
        assert client.post("/corrections?wait=30", json=changed).status_code == 200
        changed["corrections"][0]["image"] = text(npy(vectors[:2]))
        two = client.post("/corrections", json=changed)
        assert (two.status_code, "should be one vector, but 1 hold 2" in two.text) == (422, True)
        for wrong in (npy(vectors[:, :3]), BLACK):
            refused = client.post("/predict", json={"npy": text(wrong)})
            assert refused.status_code == 422
        assert client.post("/predict", json={"images": [text(BLACK)]}).status_code == 422
        assert engine.learner.seen == 24


def test_nobody_corrects_a_sample_twice_in_a_request(http: TestClient, engine: Engine) -> None:
    before, image = engine.tail.seq, text(png(IMAGES[0]))
    for name, key in (("arrival", 0), ("id", "a")):
        rows = [{name: key, "label": "cat", "image": image}, {name: key, "label": "owl", "image": None}]
        answer = http.post("/corrections", json={"corrections": rows})
        assert (answer.status_code, f"several are of {name} {key!r}" in answer.text) == (422, True)
    assert engine.tail.seq == before


def test_a_learner_that_has_diverged_says_so_until_it_is_rolled_back(tmp_path: Path) -> None:
    def learner() -> Learner:
        return Learner(["cat", "dog", "owl"], (8, 8, 1), 12, device="cpu", online_lr=1e9, batch_size=4)

    engine, body = Engine(tmp_path, learner, Policy(every=0), "cpu"), {"npy": text(npy(IMAGES)), "labels": LABELS}
    with TestClient(make_app(engine), base_url="http://localhost") as client:
        for _ in range(3):
            client.post("/observe?wait=30", json=body)
        assert client.post("/predict", json={"npy": body["npy"]}).status_code == 503
        assert client.get("/status").json()["diverged"]
        assert "puridiver_diverged 1.0" in client.get("/metrics").text
        client.post(f"/snapshots/{client.get('/snapshots').json()[-1]['id']}/restore")
        assert engine.drain(60)
        assert client.post("/predict", json={"npy": body["npy"]}).status_code == 200
        assert not client.get("/status").json()["diverged"]


def test_errors_of_the_service_itself_are_counted(http: TestClient, engine: Engine) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine, "review", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            http.get("/review")
    assert 'puridiver_request_seconds_count{route="/review",status="500"} 1.0' in http.get("/metrics").text
