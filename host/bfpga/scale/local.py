"""Workers of this machine: processes that listen on 127.0.0.1 alone, show no dashboard and leave no files.

Other users of the machine reach 127.0.0.1 too, and whoever talks to a worker runs programs in it: all talk is TLS with
a key that is made for this cluster and that only its processes have.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import dask
from distributed import Client, Nanny, Scheduler, SpecCluster, Worker
from distributed.security import Security
from distributed.system import MEMORY_LIMIT

from bfpga.scale.threads import THREADS_VARIABLE, cores

HOST, PROTOCOL = "127.0.0.1", "tls://"
#: Variables by which libraries of numerics choose their threads.
THREAD_VARIABLES = (THREADS_VARIABLE, "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
#: A worker that ends a part so often with its own end is not the cause: the part is.
ALLOWED_FAILURES = 3


class _NoPage:
    """Servers of Dask without their page and its port."""

    def start_http_server(self, *arguments: Any, **options: Any) -> None:
        """Dask opens a port for it, dashboard or not."""


class QuietScheduler(_NoPage, Scheduler):  # type: ignore[misc]
    """A scheduler that talks to its workers and its client only."""


class QuietWorker(_NoPage, Worker):  # type: ignore[misc]
    """A worker that talks to its scheduler and to other workers only."""


@contextmanager
def local_client(workers: int, resources: Mapping[str, int]) -> Iterator[Client]:
    """A client of ``workers`` processes, each with a share of cores and memory and with ``resources``.

    Processes that end are started again; all of them end with the block. No client without its key is let in.
    """
    security = Security.temporary()
    threads = max(1, cores() // workers)
    variables = dict.fromkeys(THREAD_VARIABLES, str(threads))
    settings = {
        "distributed.nanny.pre-spawn-environ": variables,
        "distributed.scheduler.allowed-failures": ALLOWED_FAILURES,
        "distributed.admin.tick.limit": "1h",  # a busy machine is no news
        "distributed.comm.timeouts.connect": "5s",  # to a worker that has ended; 30 of Dask's held up the others
    }
    with tempfile.TemporaryDirectory(prefix="bfpga_workers_", ignore_cleanup_errors=True) as folder:
        options = {
            "host": HOST,
            "protocol": PROTOCOL,
            "security": security,
            "nthreads": 1,
            "memory_limit": MEMORY_LIMIT // workers,
            "local_directory": folder,
            "resources": dict(resources),
            "env": variables,
            "silence_logs": logging.CRITICAL,
            "worker_class": QuietWorker,
        }
        with dask.config.set(settings), _interrupts_held():
            cluster = SpecCluster(
                workers={number: {"cls": Nanny, "options": options} for number in range(workers)},
                scheduler={
                    "cls": QuietScheduler,
                    "options": {"host": HOST, "protocol": PROTOCOL, "security": security, "dashboard": False},
                },
                security=security,
                silence_logs=logging.CRITICAL,
            )
            client = Client(cluster, set_as_default=False)
        try:
            yield client
        finally:
            with _interrupts_held(), suppress(TimeoutError, asyncio.TimeoutError):
                client.close()
                cluster.close()


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C waits for the end of the block. Processes and threads that are started in it never receive it.

    The terminal sends it to all processes; this one ends the workers, so they need not receive it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
