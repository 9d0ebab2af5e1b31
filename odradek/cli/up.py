"""`odradek up`: ZooKeeper and brokers on this machine, until Ctrl-C."""

import asyncio
import contextlib
import errno
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence, Set
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from odradek.cli.console import check_installed
from odradek.cli.options import Json, settings
from odradek.cli.zookeeper import zookeeper_option

if TYPE_CHECKING:
    from odradek.console.life import RunningConsole
    from odradek.local.cluster import BrokerStatus, ClusterPlan, LocalCluster
    from odradek.local.report import Report
    from odradek.local.secure import SecureFiles

PORT_MAX = 65535
USUAL_PORT, USUAL_METRICS_PORT = 9092, 7071
READY = re.compile(r'^(ready |{"event": *"ready")', re.MULTILINE)
"""Pattern of the line that a cluster prints when it is ready, as text or as JSON."""
LOOK_SECONDS = 0.05
CHANGED_USER = (
    "ZooKeeper does not have user {0} with the password in users.json: clients with {0}.properties cannot log in"
)
UNUSABLE = {errno.ENOTDIR, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM}
"""Errors which mean that a directory cannot be used for a cluster."""
HOST, SUPER_USER = "127.0.0.1", "broker"


def up(
    brokers: Annotated[int, typer.Option(min=1, max=100, help="number of brokers")] = 3,
    port: Annotated[
        int, typer.Option(min=1, max=PORT_MAX, help="port of broker 0; the others use the next ones")
    ] = USUAL_PORT,
    zookeeper_port: Annotated[int, typer.Option(min=1, max=PORT_MAX, help="port of the embedded ZooKeeper")] = 2181,
    zookeeper: Annotated[str | None, zookeeper_option("use this ZooKeeper instead of the embedded one")] = None,
    data: Annotated[Path, typer.Option(metavar="DIR", help="directory for data, logs, settings")] = Path(
        "odradek-data"
    ),
    override: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="a setting for every broker, by Kafka's name")
    ] = None,
    secure: Annotated[
        bool, typer.Option("--secure", help="use TLS, SCRAM and access lists; creates keys, users and client files")
    ] = False,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=PORT_MAX, help="metrics and journal port of broker 0; default 7071 or a free one; 0: none"
        ),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="return when the cluster is ready; `odradek stop` stops it")
    ] = False,
    console: Annotated[
        bool, typer.Option("--console", help="serve a web page that shows the cluster and can kill or freeze brokers")
    ] = False,
    console_port: Annotated[
        int, typer.Option(min=0, max=PORT_MAX, help="port of the web page; 0 takes a free one")
    ] = 9090,
    as_json: Json = False,
) -> None:
    """Start ZooKeeper and brokers, print `ready` when the cluster serves; SIGINT, SIGTERM and SIGHUP shut it down."""
    from odradek.local.cluster import ClusterPlan

    _check_folder(data)
    if detach:
        raise typer.Exit(_detached(data))
    _check_ports(
        {
            "--port": range(port, port + brokers),
            "--zookeeper-port": range(zookeeper_port, zookeeper_port + (zookeeper is None)),
            "--metrics-port": range(metrics_port, metrics_port + brokers) if metrics_port else (),
            "--console-port": [console_port] if console and console_port else (),
        }
    )
    if metrics_port is None:
        metrics_port = _metrics_port(port, brokers, {zookeeper_port, console_port})
    plan = ClusterPlan(
        directory=data,
        brokers=brokers,
        port=port,
        zookeeper_port=zookeeper_port,
        zookeeper=zookeeper,
        overrides=settings(override, "--override"),
        secure=_secure_files(data, brokers) if secure else None,
        metrics_port=metrics_port,
        console_port=console_port if console else None,
    )
    if console:
        check_installed()
        import_module("odradek.console.life")  # now: later it would hold up the loop, which watches over the brokers
    _print_warnings(plan)
    raise typer.Exit(run(plan, as_json=as_json))


def _detached(data: Path) -> int:
    """Run the same command in the background; return the exit code. Raises OSError."""
    arguments = [one for one in sys.argv[1:] if one not in ("--detach", "-d")]
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # after nohup SIGHUP is ignored
            signal.signal(number, signal.default_int_handler)
    try:
        return run_detached(arguments, data / "logs")
    except OSError as error:
        raise error if error.errno not in UNUSABLE else OSError(_no_room(data, error)) from None


def _check_ports(wanted: Mapping[str, Sequence[int]]) -> None:
    """Raise BadParameter if ports would be beyond the highest, or two options need the same one, as a broker would only
    find later."""
    taken: dict[int, str] = {}
    for option, ports in wanted.items():
        for port in ports:
            if port > PORT_MAX:
                said = f"{len(ports)} brokers need ports up to {ports[-1]}, and the highest is {PORT_MAX}"
                raise typer.BadParameter(said, param_hint=option)
            if port in taken:
                raise typer.BadParameter(f"port {port} is needed for {taken[port]}, too", param_hint=option)
            taken[port] = option


def _check_folder(data: Path) -> None:
    """Raise BadParameter if log.dirs cannot name folders in this one, so that brokers would write to others."""
    if "," in (folder := str(data.resolve())):
        said = f"{folder} has a comma, which ends a folder's name in log.dirs: give another place"
        raise typer.BadParameter(said, param_hint="--data")


def _no_room(data: Path, error: OSError) -> str:
    return f"{data} cannot hold the cluster ({error.strerror or error}): give another place with --data"


def _print_warnings(plan: "ClusterPlan") -> None:
    """Print warnings about the brokers' settings; exit with 2 if one of them is wrong."""
    from odradek.broker.config import ConfigError

    try:
        for remark in plan.remarks():
            print(f"odradek up: warning: {remark}", file=sys.stderr)
    except ConfigError as error:
        print(f"odradek up: {error} (see odradek up --help)", file=sys.stderr)
        raise typer.Exit(2) from None


def run_detached(arguments: Sequence[str], logs: Path) -> int:
    """Start the same command as a process of its own, which writes to `up.log`; return when it is ready or has ended.

    Returns 0, or the exit code of a cluster that did not start, and prints its output. Two in one folder start one
    after the other, since each would read the other's output.
    """
    from odradek.local.processes import lock

    logs.mkdir(parents=True, exist_ok=True)
    path = logs / "up.log"
    code = None
    said = ""
    # Nobody else may read the log: it may contain a token.
    with open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600)) as log, path.open("rb") as reading:
        lock(reading)  # a lock of this process alone, which the cluster does not inherit
        begins = log.seek(0, os.SEEK_END)
        command = [sys.executable, "-m", "odradek", *arguments]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        try:
            while code is None and not READY.search(said):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = process.wait(LOOK_SECONDS)
                reading.seek(begins)
                said = reading.read().decode(errors="replace")  # may end in the middle of a character
        except KeyboardInterrupt:
            process.terminate()  # otherwise the cluster would come up although its user has given up
            process.wait()
            raise
        if code and not said:
            os.write(log.fileno(), b"\n")  # raises OSError if the disk is full, which may be why it printed nothing
            said = f"odradek up: it has ended with code {code}, and printed nothing\n"
    print(said, end="", file=sys.stderr if code else sys.stdout)
    return code or 0


def _metrics_port(port: int, brokers: int, others: Set[int]) -> int:
    """Return the metrics port of broker 0 when none is given: without one, no broker can be asked for its journal.

    A cluster on the default port gets the usual metrics ports if these are free; any other gets free ports that neither
    its brokers nor `others` are about to use.
    """
    from odradek.local.ports import PortInUse, check_port_free, free_port_range

    taken = {*range(port, port + brokers), *others}
    usual = range(USUAL_METRICS_PORT, USUAL_METRICS_PORT + brokers)
    if port == USUAL_PORT and taken.isdisjoint(usual):
        with contextlib.suppress(PortInUse):
            for number in usual:
                check_port_free(HOST, number, "metrics")
            return USUAL_METRICS_PORT
    first = free_port_range(brokers)
    while not taken.isdisjoint(range(first, first + brokers)):
        first = free_port_range(brokers)
    return first


def _secure_files(data: Path, brokers: int) -> "SecureFiles":
    from odradek.local.secure import SecureFiles
    from odradek.security.errors import BadSecuritySetting

    directory = data.resolve() / "security"
    try:
        return SecureFiles.make(directory, brokers)
    except BadSecuritySetting as error:
        again = "restore the damaged file, or delete the folder to get new keys and passwords"
        raise OSError(f"{directory}: {error}: {again}") from None
    except OSError as error:
        raise error if error.errno not in UNUSABLE else OSError(_no_room(data, error)) from None


def run(plan: "ClusterPlan", *, as_json: bool = False) -> int:
    """Run a cluster from start to stop; return the exit code."""
    from odradek.local.report import choose

    with choose(as_json=as_json) as report:
        return asyncio.run(_Up(plan, report).run())


class _Up:
    """Starts a cluster, reports what happens to it, and stops it when asked."""

    def __init__(self, plan: "ClusterPlan", report: "Report") -> None:
        self._plan = plan
        self._console: RunningConsole | None = None
        self._report = report
        self._asked_to_stop = asyncio.Event()
        self._told_to_stop = False
        self._shown: Sequence[BrokerStatus] = ()
        self._zookeeper_ended = False
        self._cluster: LocalCluster

    async def run(self) -> int:
        from odradek.local.cluster import LocalCluster

        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # after nohup it is ignored
            loop.add_signal_handler(signal.SIGHUP, self._asked_to_stop.set)
        self._cluster = LocalCluster(self._plan, self._show)
        code = 1
        try:
            code = await self._until_stopped()
        finally:
            if self._console is not None:
                await self._console.close()
            await self._cluster.stop()
        if code == 0:
            self._report.say({"event": "stopped"})
        return code

    def _stop(self) -> None:
        """Begin to stop; at the second signal end at once. SIGHUP does not count as one: a closed terminal sends it
        twice, from the kernel and from the shell."""
        if self._told_to_stop:
            self._cluster.kill()
            os._exit(130)
        self._told_to_stop = True
        self._asked_to_stop.set()

    async def _until_stopped(self) -> int:
        tasks = self._cluster.tasks
        starting = tasks.result_of("start", self._start)
        stopping = tasks.result_of("stop", self._asked_to_stop.wait)
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            return 0
        failure = starting.result()
        if failure is not None:
            stopping.cancel()
            print(f"odradek up: {failure}", file=sys.stderr)
            return 1
        await stopping
        return 0

    async def _start(self) -> Exception | None:
        """Start the cluster; return why it did not start, or None when it is ready."""
        from odradek.local.cluster import ClusterFailure
        from odradek.local.java import NoZooKeeper
        from odradek.local.ports import PortInUse, check_port_free

        try:
            if self._plan.console_port:
                check_port_free(HOST, self._plan.console_port, "the console")
            await self._cluster.start()
        except PortInUse as failure:
            options = "--port, --zookeeper-port" + (", --console-port" if self._plan.console_port else "")
            return ClusterFailure(f"{failure}: choose another ({options}), or stop the process that uses it")
        except (ClusterFailure, NoZooKeeper) as failure:
            return failure
        except BlockingIOError:
            where = self._plan.directory.resolve()
            said = f"{where} is in use by another `odradek up`, which was started at the same moment"
            return ClusterFailure(f"{said}: end that with `odradek stop`, or use another folder (--data)")
        except OSError as error:
            if error.errno not in UNUSABLE:
                raise
            return ClusterFailure(_no_room(self._plan.directory, error))
        self._shown = self._cluster.statuses()
        plan = self._plan
        ready: dict[str, Any] = {"event": "ready", "bootstrap": plan.bootstrap, "zookeeper": plan.zookeeper_connect}
        if plan.secure is not None:
            ready["clients"] = str(plan.secure.directory)
            for user in self._cluster.changed_users:
                print(f"odradek up: warning: {CHANGED_USER.format(user)}", file=sys.stderr)
        if plan.console_port is not None:
            self._console = await self._open_console(plan.console_port)
            ready["console"] = self._console.url
        self._report.say(ready)
        return None

    async def _open_console(self, port: int) -> "RunningConsole":
        from odradek.console.life import ConsolePlan, RunningConsole
        from odradek.local.in_hand import BrokersInHand
        from odradek.world.clock import LoopClock

        secure = self._plan.secure
        settings = {} if secure is None else secure.client_settings(SUPER_USER)
        plan = ConsolePlan(self._plan.bootstrap, settings, HOST, port)
        console = RunningConsole(plan, LoopClock(asyncio.get_running_loop()), BrokersInHand(self._cluster))
        return await console.start()

    def _show(self) -> None:
        """Show what has changed."""
        from odradek.local.report import changes

        statuses = self._cluster.statuses()
        self._report.show(statuses)
        if not self._cluster.ready or self._asked_to_stop.is_set():
            return
        zookeeper = self._cluster.zookeeper
        if zookeeper is not None and zookeeper.end and not self._zookeeper_ended:
            self._zookeeper_ended = True
            self._report.say({"event": "zookeeper", "state": zookeeper.end})
        for event in changes(self._shown, statuses):
            self._report.say(event)
        self._shown = statuses
