"""`puridiver serve`: a learner behind HTTP, in a folder of its own."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from puridiver.cli.flags import Arg, Assignments, Opt, Plugins, options_of, settings_flags
from puridiver.cli.output import note, say
from puridiver.discovery import import_extra
from puridiver.errors import DataError, few
from puridiver.files import read_regular
from puridiver.learner.learner import Learner
from puridiver.runtime.device import choose_runtime, steady_heap, steady_threads
from puridiver.service.engine import Engine
from puridiver.service.intake import Policy
from puridiver.service.snapshots import has_snapshot

TOKEN = "PURIDIVER_TOKEN"
MOST_CONNECTIONS = 64  # each may bring a body: further ones are answered 503
SHUTDOWN_SECONDS = 10  # that requests under way have to end


@settings_flags(("device",))
def serve(
    settings: dict[str, Any],
    folder: Annotated[Path, Arg("FOLDER", "folder of the service: its log and its snapshots; made if there is none")],
    learner: Annotated[Path | None, Opt("begin with this saved learner or run", "FOLDER", "--from")] = None,
    vectors: Annotated[int | None, Opt("a new learner takes vectors of length N instead of images", least=1)] = None,
    image_size: Annotated[int | None, Opt("side of a new learner's images in pixels (default: 32)", least=4)] = None,
    grey: Annotated[bool, Opt("a new learner sees one channel instead of three", name="--grey")] = False,
    memory: Annotated[int | None, Opt("samples that a new learner keeps (default: 500)", least=1)] = None,
    classes: Annotated[str, Opt("a new learner's classes, separated by commas (default: they join)", "NAMES")] = "",
    set_: Assignments = None,
    every: Annotated[int, Opt("train on the memory after every N samples; 0: never (default: 1000)", least=0)] = 1_000,
    minutes: Annotated[float, Opt("train every X minutes in which samples came (default: never)", "X")] = 0.0,
    drift: Annotated[float, Opt("train when the loss exceeds its lowest by the share X (default: never)", "X")] = 0.0,
    epochs: Annotated[int | None, Opt("epochs of such a training (default: the learner's)", least=1)] = None,
    queue: Annotated[int, Opt("samples that may wait to be learnt (default: 2048)", least=1)] = 2_048,
    checkpoint_seconds: Annotated[float, Opt("seconds between two snapshots (default: 60)", least=1)] = 60.0,
    keep: Annotated[int, Opt("snapshots to keep, fewer of older days (default: 20)", least=4)] = 20,
    host: Annotated[str, Opt("address to listen at (default: 127.0.0.1)", "ADDRESS")] = "127.0.0.1",
    port: Annotated[int, Opt("port to listen at (default: 8000)", least=0)] = 8_000,
    max_body: Annotated[int, Opt("largest body of a request in MiB (default: 32)", least=1)] = 32,
    token_file: Annotated[Path | None, Opt(f"file with the token that requests bring; or ${TOKEN}", "FILE")] = None,
    plugins: Plugins = None,
) -> int:
    """Serve a learner over HTTP. It learns and predicts at a time; what it has acknowledged survives a crash.

    The page at / shows its figures and suspect labels. Ctrl-C stops the service; the same command resumes it.

    Examples:
      puridiver serve shop                                   a new learner of 32 x 32 colour images
      puridiver serve shop --from runs/january --every 2000  begin with an existing learner
      PURIDIVER_TOKEN=secret puridiver serve shop --host 0.0.0.0
    """
    uvicorn, app = (import_extra(library, "serve") for library in ("uvicorn", "puridiver.service.app"))
    from puridiver.service.gate import LOCAL

    device, token = settings.get("device", "auto"), _token(token_file)
    if token is None and host not in LOCAL:
        note(f"whoever reaches {host}:{port} may teach the learner: set ${TOKEN} or --token-file")

    new = {"vectors": vectors, "image-size": image_size, "grey": grey, "memory": memory, "classes": classes}
    make = _maker(folder, learner, device, new, set_)
    policy = Policy(every, minutes, drift, epochs, queue, checkpoint_seconds, keep)
    runtime = choose_runtime(device)
    steady_heap()
    engine = Engine(folder, make, policy, device)
    with steady_threads(runtime.device, engine.learner.network):
        say(f"serving {folder} at http://{host}:{port}; {engine.learner.seen:,} samples learnt so far")
        sys.stdout.flush()  # now, also where nobody reads along on a terminal
        served = app.make_app(engine, token, max_body << 20, host)
        config = uvicorn.Config(
            served, host, port, log_level="warning", access_log=False, limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )  # fmt: skip
        uvicorn.Server(config).run()
    return 0


def _maker(
    folder: Path, learner: Path | None, device: str, new: dict[str, Any], options: Assignments
) -> Callable[[], Learner]:
    """A function that makes the learner of a new folder from the options that the user gave for a `new` one."""
    given = [f"--{name}" for name, value in {**new, "set": options}.items() if value]
    if given and (learner is not None or has_snapshot(folder)):
        raise DataError(f"{few(given)} are for a new learner: leave them out, or name a new folder and no --from")
    if learner is not None and has_snapshot(folder):
        raise DataError(f"{folder} has a learner already: leave out --from, or name a new folder")
    if new["vectors"] and (new["image-size"] or new["grey"]):
        raise DataError("--vectors is for a learner that takes no images: leave out --image-size and --grey")

    def make() -> Learner:
        if learner is not None:
            return Learner.load(learner, device)
        names = [int(name) if name.isdecimal() else name for name in new["classes"].split(",") if name]
        side = new["image-size"] or 32
        shape = (new["vectors"],) if new["vectors"] else (side, side, 1 if new["grey"] else 3)
        return Learner(names or None, shape, new["memory"] or 500, device=device, **options_of(options))

    return make


def _token(path: Path | None) -> str | None:
    """The token of a file or of the environment: command lines are seen by everybody on a machine."""
    found = read_regular(path).decode().strip() if path else os.environ.get(TOKEN, "").strip()
    if path and not found:
        raise DataError(f"{path} is empty: it should hold the token")
    return found or None
