"""Opens the workers that a user asks for: this process, processes of this machine, or those of a scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec

from bfpga.errors import ScaleError, ToolError
from bfpga.scale.work import IN_PROCESS, Workers
from bfpga.scale.worker_side import source_digest

#: Seconds in which a scheduler must answer, and one worker of it be there.
CONNECT_SECONDS = 10
#: What a worker of this machine has: one part of each kind at a time.
RESOURCES = {"vivado": 1, "board": 1}
#: Variables of Dask's configuration that name the files of a scheduler's TLS, and how their names end.
CERTIFICATE_VARIABLE = "DASK_DISTRIBUTED__COMM__TLS__"
CERTIFICATE_FILES = ("CA_FILE", "CLIENT__CERT", "CLIENT__KEY")


@contextmanager
def open_workers(
    workers: int | None = None, scheduler: str | None = None, resources: Mapping[str, int] = RESOURCES
) -> Iterator[Workers]:
    """Workers until the end of the block: ``workers`` processes, those of ``scheduler``, or this process for neither.

    resources: of each local process. ToolError without Dask, ScaleError for both at once, for a scheduler that does not
    answer or has no worker, and for one of `tls://` without certificates in Dask's configuration.
    """
    check_choice(workers, scheduler)
    if workers is None and scheduler is None:
        yield IN_PROCESS
        return
    from bfpga.scale.cluster import Cluster

    if workers is not None:
        from bfpga.scale.local import local_client

        with local_client(workers, resources) as client:
            yield Cluster(client)
        return
    assert scheduler is not None
    from distributed import Client

    _check_certificates(scheduler)
    try:
        client = Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise ScaleError(f"no scheduler answers at {scheduler}: {str(error).splitlines()[0]}") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except (TimeoutError, asyncio.TimeoutError):  # one from Python 3.11 on
            raise ScaleError(
                f"{scheduler} has no workers: start some with `dask worker {scheduler} --nthreads 1`"
            ) from None
        yield Cluster(client, source_digest())


def check_choice(workers: int | None, scheduler: str | None) -> None:
    """Refuse what ``open_workers`` would refuse before it looks at a network: ToolError, ScaleError."""
    if workers is not None and scheduler is not None:
        raise ScaleError("give either a number of workers or a scheduler: its workers are started with it")
    if workers is not None and workers < 1:
        raise ScaleError(f"{workers} workers cannot do anything; give 1 or more")
    if (workers is not None or scheduler is not None) and find_spec("distributed") is None:
        raise ToolError("work on several processes or machines needs Dask: pip install 'bfpga[scale]'")
    if workers is not None and find_spec("cryptography") is None:
        raise ToolError("processes of this machine need cryptography for their keys: pip install 'bfpga[scale]'")


def _check_certificates(scheduler: str) -> None:
    """ScaleError if a `tls://` address is given and Dask's configuration has no certificates that can be used."""
    if not scheduler.startswith("tls://"):
        return
    from distributed.security import Security

    try:
        context = Security().get_connection_args("client")["ssl_context"]
    except (OSError, ValueError, TypeError) as error:
        raise ScaleError(f"{scheduler}: the TLS files of Dask's configuration cannot be used: {error}") from None
    if context is None:
        raise ScaleError(
            f"{scheduler} is reached with certificates, and Dask's configuration names none: set "
            + ", ".join(f"{CERTIFICATE_VARIABLE}{name}" for name in CERTIFICATE_FILES)
            + " to the files that its scheduler was started with (docs/scale.md)"
        )
