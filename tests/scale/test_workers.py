"""Scale on an existing engine: work on several processes has the results of one, whoever did what."""

from __future__ import annotations

import asyncio
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kernel_pairs import PACKED, SMALL
from scale_parts import ANSWER, LOOK_UP, LOOK_UP_OR_DIE, REFUSE, set_environment
from vendor_tools.workshop import HERE, Workshop

import bfpga
from bfpga.accelerator.boards import load_board
from bfpga.cli import main
from bfpga.compiler.read.network import read_network
from bfpga.data import load_inputs, load_samples
from bfpga.errors import DataError, ScaleError
from bfpga.explore.front import Goal
from bfpga.explore.search import Search
from bfpga.explore.task import Task
from bfpga.scale.choice import open_workers
from bfpga.scale.cluster import Cluster
from bfpga.scale.work import IN_PROCESS, Workers
from bfpga.vendor.bitstream.failure import BuildError
from bfpga.vendor.bitstream.farm import BuildOrder, build_all, place_overlay
from bfpga.vendor.manifest import MANIFEST_NAME
from bfpga.verify.check import verify
from bfpga.verify.parts import CASES_A_PART, case_ranges, verify_spread

pytest.importorskip("distributed")

MODELS = Path(__file__).parents[2] / "examples" / "models"
TABLE = [7 * number for number in range(20)]


def shared(folder: Path) -> dict[str, object]:
    return {"table": TABLE, "log": folder / "log"}


@pytest.mark.parametrize("where", ["here", "there"])
def test_results_come_in_order_and_progress_tells_all_of_it(
    where: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Later parts are done first; each process made its state once, however many of the two took part."""
    workers: Workers = IN_PROCESS if where == "here" else request.getfixturevalue("cluster")
    told: list[tuple[int, int]] = []
    found = list(workers.map(LOOK_UP, range(20), shared=shared(tmp_path), progress=lambda *now: told.append(now)))
    assert [entry for entry, _ in found] == TABLE
    assert [whole for _, whole in told] == [210] * 20
    assert told == sorted(told)
    assert told[-1] == (210, 210)
    made = (tmp_path / "log").read_text().splitlines()
    assert sorted(line for line in made if line.startswith("made")) == sorted({f"made {pid}" for _, pid in found})


def test_a_killed_worker_changes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    """Lost workers are survived: what the killed process had is done by the other."""
    found = list(cluster.map(LOOK_UP_OR_DIE, range(20), shared=shared(tmp_path)))
    assert (tmp_path / "log.killed").exists() or (tmp_path / "log").with_suffix(".killed").exists()
    assert [entry for entry, _ in found] == TABLE


def test_the_error_of_a_part_is_raised_as_it_is(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="part 2 is damaged"):
        list(cluster.map(REFUSE, range(4), shared=shared(tmp_path)))


def test_what_no_worker_has_is_named(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(ScaleError, match=r"has 'laser'(.|\n)*--resources laser=1"):
        next(cluster.map(LOOK_UP, range(1), shared=shared(tmp_path), needs={"laser": 1}))


def test_a_station_that_hangs_or_dies_is_started_again(cluster: Cluster, tmp_path: Path) -> None:
    """One worker that is asked for by its name, as the process of a board is."""
    [station] = cluster.stations("board", 1, ANSWER, shared(tmp_path))
    assert station.call("here", 60) == "here"
    with pytest.raises(TimeoutError, match="no answer within"):
        station.call("hang", 0.5)
    assert station.call("again", 120) == "again"
    with pytest.raises(ScaleError, match="has ended"):
        station.call("die", 120)
    with pytest.raises(ScaleError, match=r"[12] workers of tls.* have 'board', 3 are needed"):
        cluster.stations("board", 3, ANSWER, shared(tmp_path))


def test_shared_data_travels_once(cluster: Cluster, tmp_path: Path) -> None:
    """It is known by its content, and given back when other work needs it no more."""
    list(cluster.map(LOOK_UP, range(2), shared=shared(tmp_path)))
    before = dict(cluster._held)
    list(cluster.map(LOOK_UP, range(4), shared=shared(tmp_path)))
    assert {key: future for key, future in cluster._held.items() if before.get(key) is not future} == {}
    list(cluster.map(LOOK_UP, range(2), shared={"table": TABLE, "log": tmp_path / "other"}))
    assert len(cluster._held.keys() & before.keys()) == 1


def test_workers_take_their_share_of_the_cores_and_listen_on_this_machine_alone(cluster: Cluster) -> None:
    """No dashboard, no port of another interface; threads are shared out by the variables that libraries know."""
    variables = cluster.client.run(lambda: {key: os.environ[key] for key in ("BFPGA_THREADS", "OMP_NUM_THREADS")})
    share = str(max(1, len(os.sched_getaffinity(0)) // 2))
    assert set(map(str, variables.values())) == {str({"BFPGA_THREADS": share, "OMP_NUM_THREADS": share})}
    info = cluster.client.scheduler_info()
    assert info["services"] == {}
    assert all(worker["services"] == {} for worker in info["workers"].values())
    assert {address.split(":")[1] for address in (info["address"], *info["workers"])} == {"//127.0.0.1"}


def test_only_the_client_with_the_key_reaches_workers_of_this_machine(cluster: Cluster) -> None:
    """Whoever talks to a scheduler or a worker of Dask runs programs there."""
    from distributed import Client
    from distributed.security import Security

    addresses = [cluster.address, *cluster.workers()]
    assert {address.partition(":")[0] for address in addresses} == {"tls"}
    plain = cluster.address.replace("tls://", "tcp://")
    for address, security in ((plain, None), *((address, Security.temporary()) for address in addresses)):
        with pytest.raises((OSError, TypeError, asyncio.TimeoutError)):  # the last is no OSError before 3.11
            Client(address, timeout=1, set_as_default=False, security=security)
    assert cluster.client.submit(len, "abc").result() == 3


def test_a_scheduler_with_certificates_is_reached_by_those_of_the_configuration(
    cluster: Cluster, tmp_path: Path
) -> None:
    import dask

    keys = cluster.client.security
    files = {"ca-file": keys.tls_ca_file, "client.cert": keys.tls_client_cert, "client.key": keys.tls_client_key}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    named = {f"distributed.comm.tls.{name}": str(tmp_path / name) for name in files}
    with dask.config.set(named), open_workers(scheduler=cluster.address) as workers:
        found = list(workers.map(LOOK_UP, range(3), shared=shared(tmp_path)))
    assert [entry for entry, _ in found] == TABLE[:3]
    (tmp_path / "client.key").write_text("no key")
    refused = pytest.raises(ScaleError, match="the TLS files of Dask's configuration cannot be used")
    with dask.config.set(named), refused, open_workers(scheduler=cluster.address):
        pass


def test_an_evaluation_has_the_bits_of_one_process(cluster: Cluster) -> None:
    samples = load_samples(MODELS / "digits_test.npz", (64,), 200)
    program = bfpga.compile(MODELS / "mlp_digits.onnx", "tiny", samples.x[:32])
    model = MODELS / "mlp_digits.onnx"
    here = bfpga.evaluate(program, model, samples.x, samples.y, batch=16, traced=40)
    there = bfpga.evaluate(program, model, samples.x, samples.y, batch=16, traced=40, workers=cluster)
    for kind in ("outputs", "float_outputs"):
        for name, value in getattr(here, kind).items():
            assert np.array_equal(value, getattr(there, kind)[name])
            setattr(there, kind, getattr(here, kind))
    assert here == there
    assert here.sqnr_db


def test_a_verification_has_the_report_of_one_process(cluster: Cluster) -> None:
    configs = [SMALL, PACKED]
    here = verify(configs, ["native"], cases=5, seed=4)
    there = verify_spread(cluster, configs, ["native"], cases=5, seed=4)
    there.seconds = here.seconds
    assert here == there
    assert here.values > 1_000


@pytest.fixture
def workshop(cluster: Cluster, tmp_path: Path) -> Iterator[Workshop]:
    """Stand-ins of the vendor's tools on all workers, as long as a test runs."""
    made = Workshop(tmp_path)
    tools = {**made.environment, "CXX": str(HERE / "c++")}
    before = cluster.client.run(set_environment, tools)
    yield made
    for worker, variables in before.items():
        cluster.client.run(set_environment, variables, workers=[worker])


@pytest.mark.skipif(shutil.which("tclsh") is None, reason="the stand-ins run scripts in tclsh")
def test_accelerators_are_built_one_on_each_worker_that_has_vivado(
    cluster: Cluster, workshop: Workshop, tmp_path: Path
) -> None:
    """The overlays come back, whether the worker's files are seen here or not; a failed build stops no other."""
    build = workshop.new_build()
    workshop.fail("synthesis", "license")
    settings = [replace(build.settings, directory=tmp_path / name, overlays=tmp_path / name) for name in "abc"]
    settings[2] = replace(settings[2], directory=tmp_path / "a place with spaces")
    accelerator = workshop.design.accelerator
    failed, refused = build_all(cluster, [BuildOrder(accelerator, settings[number]) for number in (0, 2)])
    assert (failed.report.failed_stage, failed.report.error.kind) == ("synthesis", "license")
    assert "cannot be given to the vendor's tools" in str(refused.report.error)
    workshop.configure(failures={})
    told: list[tuple[int, int]] = []
    orders = [BuildOrder(accelerator, item) for item in settings[:2]]
    first, second = build_all(cluster, orders, lambda *now: told.append(now))
    assert first.report.error is second.report.error is None
    assert [item.status for item in first.report.outcomes][:4] == ["kept"] * 4
    assert told == [(1, 2), (2, 2)]
    whole = {path.name: path.read_bytes() for path in first.report.overlay.iterdir()}
    assert MANIFEST_NAME in whole
    shutil.rmtree(first.report.overlay)
    place_overlay(first)
    assert {path.name: path.read_bytes() for path in first.report.overlay.iterdir()} == whole


def test_errors_travel_with_all_that_they_keep() -> None:
    """Between processes, whatever the arguments of their kind."""
    error = pickle.loads(pickle.dumps(BuildError("timing", "too slow", Path("log"))))
    assert (str(error), error.kind, error.log) == ("too slow", "timing", Path("log"))


def test_every_case_is_in_one_part() -> None:
    for arrays, cases in ((1, 1), (3, 2), (3, 200), (7, 7 * CASES_A_PART + 3)):
        parts = case_ranges(arrays, cases)
        numbers = [part.array + turn * arrays for part in parts for turn in range(part.first, part.last)]
        assert sorted(numbers) == list(range(cases))
        assert max(part.last - part.first for part in parts) <= CASES_A_PART


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--workers", "2", "--scheduler", "tcp://127.0.0.1:1"], "either a number of workers or a scheduler"),
        (["--scheduler", "tcp://127.0.0.1:1"], "no scheduler answers at tcp://127.0.0.1:1"),
        (["--scheduler", "nowhere://x"], "no scheduler answers at nowhere://x"),
        (["--scheduler", "tls://127.0.0.1:1"], "names none: set DASK_DISTRIBUTED__COMM__TLS__CA_FILE"),
    ],
)
def test_workers_that_there_are_not_are_one_message(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bfpga.scale.choice.CONNECT_SECONDS", 0.5)
    assert main(["verify", "tiny", "--cases", "1", *arguments]) == 2
    shown = capsys.readouterr().err
    assert words in shown
    assert shown.count("\n") == 1


def test_without_dask_the_extra_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bfpga.scale.choice.find_spec", lambda name: None)
    assert main(["verify", "tiny", "--cases", "1", "--workers", "2"]) == 2
    assert "pip install 'bfpga[scale]'" in capsys.readouterr().err


def test_one_process_loads_no_dask() -> None:
    script = "import sys\nfrom bfpga.scale.choice import open_workers\nimport bfpga.runtime, bfpga.verify.parts\n"
    script += "with open_workers() as workers: list(workers.map)if 0 else 0\nprint('dask' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


def test_a_search_that_is_spread_finds_what_one_process_finds(cluster: Cluster) -> None:
    """`bfpga explore --workers`: trials are proposed in generations, so it does not matter who computes them."""
    network = read_network(MODELS / "mlp_digits.onnx")
    samples, board = load_inputs(MODELS / "digits_test.npz", network.inputs, 32), load_board("ultra96_v2")
    task = Task(network, board, board.name, Goal(drop=4.0), 150.0, samples.first(32), samples)
    here, there = (Search(task).run(5, workers=workers) for workers in (IN_PROCESS, cluster))
    assert here.front
    assert [point.content() for point in there.points] == [point.content() for point in here.points]
