"""How the cells of a grid run: in threads that share a GPU, in processes that share the cores, or on a Ray cluster."""

import logging
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import torch

from puridiver import data
from puridiver.data.base import DataSource
from puridiver.discovery import import_extra
from puridiver.errors import DataError
from puridiver.files import write_atomically
from puridiver.plugins import ENVIRONMENT
from puridiver.runs import folder as runs
from puridiver.runs.config import RunConfig
from puridiver.runs.experiment import Experiment
from puridiver.runs.resolve import COMMIT, data_of
from puridiver.runtime.capture import lane
from puridiver.runtime.device import choose_runtime, cores

EngineName = Literal["auto", "lanes", "processes", "ray"]
LANES_ON_GPU = 8
RETRIES = 2  # by Ray, of a cell whose worker dies
PATIENCE_SECONDS = 5.0  # for the checkpoint of a worker that is stopped
# Every library that torch or NumPy may count threads with. Without this, processes slow each other down many times.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")

Load = Callable[..., DataSource]  # `data.load`, or one that remembers what it has loaded
Result = dict[str, Any]  # the summary of a finished job; `error` and `traceback` of a failed one


class Job(NamedTuple):
    """One run: its id, its config, the folder it writes to, and how many runs share the device."""

    id: str
    config: RunConfig
    folder: Path
    lanes: int = 1


def run_job(job: Job, stopping: threading.Event, load: Load = data.load) -> Result:
    """Run one cell to its end, from its checkpoint if there is one; once `stopping` is set, to a checkpoint."""
    try:
        experiment = Experiment(job.config, source=load(*data_of(job.config)))
        experiment.lanes, experiment.stopping = job.lanes, stopping
        return experiment.run(job.folder, resume=True)
    except Exception as error:
        return failed(error)


def failed(error: BaseException) -> Result:
    text = "".join(traceback.format_exception(error))
    return {"error": f"{type(error).__name__}: {error}", "traceback": text}


class Engine(ABC):
    """Runs each job once. `workers` run at a time, and `lanes` of them share a device."""

    def __init__(self, workers: int, lanes: int = 1) -> None:
        self.workers, self.lanes, self.stopping = workers, lanes, threading.Event()

    def run(self, jobs: Sequence[Job]) -> Generator[tuple[Job, Result], None, None]:
        """Run all jobs and yield each with its result when it ends. Closing the iterator stops those that still run."""
        with ThreadPoolExecutor(self.workers) as threads:
            running = {threads.submit(self.run_one, job): job for job in jobs}
            try:
                for ended in as_completed(running):
                    error = ended.exception()
                    yield running[ended], failed(error) if error else ended.result()
            finally:
                self.stopping.set()
                threads.shutdown(wait=False, cancel_futures=True)
                self.stop()

    @abstractmethod
    def run_one(self, job: Job) -> Result:
        """Run a job in the calling thread until it ends, or until `self.stopping` is set."""

    def stop(self) -> None:  # noqa: B027
        """Stop what does not poll `self.stopping`; also called when all jobs are done."""


class LaneEngine(Engine):
    """Runs cells in threads of this process that share one GPU (or, slowly, a CPU) and the loaded data."""

    def __init__(self, workers: int, device: torch.device, load: Load = data.load) -> None:
        super().__init__(workers, lanes=workers)
        self.device, self.load = device, load

    def run_one(self, job: Job) -> Result:
        with lane(self.device):
            return run_job(job, self.stopping, self.load)


class ProcessEngine(Engine):
    """Runs each cell in a process of its own, with its share of the cores.

    The process pools of the standard library do not suit: they import the user's script again, and one killed worker
    ends the cells of all others.
    """

    def __init__(self, workers: int, logs: Path) -> None:
        super().__init__(workers)
        self.log, self.running = logs / "workers.log", set[subprocess.Popen[bytes]]()

    def run_one(self, job: Job) -> Result:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        program = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; serve()"
        threads, answer = dict.fromkeys(THREAD_VARIABLES, str(max(1, cores() // self.workers))), b""
        with self.log.open("ab") as errors, suppress(BrokenPipeError), subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            env={**os.environ, **threads},
            start_new_session=True,  # Ctrl-C is for the grid, which then stops its workers
        ) as process:  # fmt: skip
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(pickle.dumps(job))
            process.stdin.flush()
            self.running.add(process)
            if self.stopping.is_set():  # `stop` may have missed it
                process.stdin.close()
            answer = process.stdout.read()
        self.running.discard(process)
        if self.stopping.is_set() or (answer and process.returncode == 0):
            return pickle.loads(answer) if answer else {}
        death = f"a worker process ended with code {process.returncode}; the workers said last:\n"
        death += self.log.read_text(errors="replace")[-2000:].strip()
        return {"error": death, "traceback": death}

    def stop(self) -> None:
        running = list(self.running)
        for process in running:
            if process.stdin is not None:
                process.stdin.close()  # all at once, so that they write their checkpoints side by side
        for process in running:
            try:
                process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def serve() -> None:
    """The main function of a worker process: run the job from standard input and write its result.

    When standard input ends, because the grid stops or was killed, the run saves itself and the worker ends.
    """
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints must not mix with the answer
    job, stopping = pickle.load(sys.stdin.buffer), threading.Event()

    def watch() -> None:
        os.read(sys.stdin.fileno(), 1)
        stopping.set()

    threading.Thread(target=watch, daemon=True).start()
    with out, suppress(KeyboardInterrupt):
        out.write(pickle.dumps(run_job(job, stopping)))


class RayEngine(Engine):
    """Runs each cell as a task of a Ray cluster, as many at a time as it has room for. Ray retries a cell that dies.

    A task runs in a folder of its own machine and returns the files of its run, so that machines share nothing. `gpus`
    is the share of a GPU that each task gets. A cluster that this starts ends with the program.
    """

    def __init__(self, gpus: float | None) -> None:
        self.ray = ray = import_extra("ray", "ray")
        if not ray.is_initialized():
            told = {name: os.environ[name] for name in (ENVIRONMENT, COMMIT) if name in os.environ}
            ray.init(log_to_driver=False, logging_level=logging.ERROR, runtime_env={"env_vars": told})
        has = {"CPU": 1.0, "GPU": 0.0, **ray.cluster_resources()}
        gpus = float(has["GPU"] > 0) if gpus is None else gpus
        if gpus > has["GPU"]:
            raise DataError(f"a run should have {gpus:g} GPUs, but the cluster has {has['GPU']:g}")
        self.task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=RETRIES)(run_remotely)
        super().__init__(int(has["GPU"] / gpus if gpus else has["CPU"]), lanes=int(1 / (gpus or 1)) or 1)

    def run_one(self, job: Job) -> Result:
        running = self.task.remote(job)
        while not self.ray.wait([running], timeout=1.0)[0]:
            if self.stopping.is_set():
                self.ray.cancel(running, force=True)
                return {}
        result, files = self.ray.get(running)
        for name, content in files.items():
            (job.folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(job.folder / name, content)
        return result


def run_remotely(job: Job) -> tuple[Result, dict[str, bytes]]:
    """Run a cell on whatever machine this is: its result, and the files of its run, the summary last."""
    with tempfile.TemporaryDirectory(prefix="puridiver-") as folder:
        here = Path(folder) / "run"
        result = run_job(job._replace(folder=here), threading.Event())
        kept = sorted(here.rglob("*"), key=lambda path: path.name == runs.SUMMARY)
        return result, {str(path.relative_to(here)): path.read_bytes() for path in kept if path.is_file()}


def make_engine(
    name: str = "auto", workers: int | None = None, *, device: str = "auto", load: Load = data.load,
    logs: Path = Path("logs"), gpus: float | None = None,
) -> Engine:  # fmt: skip
    """The engine of a name; `auto` takes lanes on a GPU and processes on a CPU.

    `workers` is how many cells run at a time. On Ray the cluster ($RAY_ADDRESS) decides that, by the share of a GPU
    that each cell gets (`gpus`).
    """
    if name not in get_args(EngineName):
        raise ValueError(f"engine should be one of {', '.join(get_args(EngineName))}, but got {name!r}")
    if name == "ray":
        return RayEngine(gpus)
    chosen = choose_runtime(device).device
    if name == "lanes" or (name == "auto" and chosen.type == "cuda"):
        return LaneEngine(workers or LANES_ON_GPU, chosen, load)
    return ProcessEngine(workers or cores(), logs)
