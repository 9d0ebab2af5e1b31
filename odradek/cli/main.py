"""`odradek COMMAND …`: finds the command's file and runs it.

Each command lives in the file of its name (`topics` in topics.py, `dump-log` in dump_log.py) as a function or a typer
app of the same name. A file is imported when its command is used, and imports what it needs when it runs: help is
quick, and a broker does not pay for clients.
"""

import sys

TYPE_CHECKING = False
"""Stands for `typing.TYPE_CHECKING`: nothing but `sys` is imported before `main`, which ends Ctrl-C quietly."""

if TYPE_CHECKING:
    from typing import Any

COMMANDS = {
    "up": "Start ZooKeeper and brokers on this machine; Ctrl-C shuts them down",
    "stop": "Shut down what `up` has started, or one of its brokers",
    "mock": "Run a cluster in memory for tests in any language, with faults over HTTP",
    "broker": "Run one broker in the foreground from a properties file",
    "console": "Show a cluster on one live web page",
    "topics": "Create, list, describe, alter and delete topics",
    "produce": "Send the lines of standard input to a topic",
    "consume": "Print the records of a topic",
    "groups": "Consumer groups: list, describe with lag, reset offsets, delete",
    "users": "Users that log in with SCRAM: add, list, delete",
    "configs": "Describe and alter settings of topics and brokers",
    "reassign": "Move partitions to other brokers",
    "elect-leaders": "Elect the preferred leaders of partitions",
    "why": "Explain the state of a topic, partition, broker or group, and what to do",
    "doctor": "Check a cluster: what is wrong, and the command that fixes it",
    "top": "Show brokers, throughput, partitions in trouble and the lag of groups, live",
    "transactions": "Transactions: list, find hanging ones, abort one",
    "pipeline": "Count flight delays with Spark: topic, Parquet, chart",
    "dump-log": "Print the contents of a log segment or index file, or check it",
    "perf": "Measure produce, consume and latency",
    "storage": "Log directories without a broker: format, info, check",
    "zk": "Look into the cluster's ZooKeeper; export and import its znodes",
}
COMMAND_CONFIG = "--command-config"
FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130


def main() -> None:
    """Run the console script, and end the process with its exit code: 0, or 1 with one line on stderr, 2 for wrong
    usage, 130 for Ctrl-C."""
    try:
        _open_closed_streams()
        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # while modules are imported, say
        code = INTERRUPTED
    sys.exit(code)


def _open_closed_streams() -> None:
    """Open /dev/null for each standard stream that is closed, for which Python has None: otherwise a log file might get
    its descriptor."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open("/dev/null", mode))  # noqa: SIM115 (for the whole life)


def run(arguments: list[str]) -> int:
    """Run a command, and flush its output; return the exit code."""
    try:
        code = _run(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()
        return 0
    except OSError as error:
        _forget_stdout()
        return _complain(_told(error), FAILED)
    return code


def _told(error: Exception) -> str:
    """Return an error's message; an error of a file begins with the file's name, as usual, and has no number."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        print(help_text())
        return 0 if arguments else WRONG_USAGE
    if arguments[0] == "--version":
        print(f"odradek {version()}")
        return 0
    name, rest = arguments[0], arguments[1:]
    if name not in COMMANDS:
        import difflib

        near = difflib.get_close_matches(name, COMMANDS, n=1)
        return _complain(f"no command {name!r}{f': did you mean {near[0]}?' if near else ''}", WRONG_USAGE)
    return run_command(name, rest)


def help_text() -> str:
    """Return what `odradek --help` prints."""
    width = max(map(len, COMMANDS)) + 2
    lines = [f"  {name:<{width}}{said}" for name, said in COMMANDS.items()]
    return "\n".join(
        [
            "Usage: odradek COMMAND [OPTIONS]",
            "",
            "Commands:",
            *lines,
            "",
            f"{COMMAND_CONFIG} FILE: client properties for any command, as for Kafka's tools (TLS, SASL).",
            "`odradek COMMAND --help` shows the options of a command.",
        ]
    )


def version() -> str:
    """Return the version of this installation."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed_version

    try:
        return installed_version("odradek")
    except PackageNotFoundError:
        return "unknown"


def run_command(name: str, arguments: list[str]) -> int:
    """Import a command's file and run it; return the exit code. An error becomes one line on stderr."""
    import typer

    from odradek.cli.options import origins
    from odradek.cli.output import heard_from
    from odradek.client.errors import ClientError, ConfigError
    from odradek.protocol.errors import KafkaError, MalformedMessage

    wrong_usage: Any = typer.BadParameter.__mro__[1]  # click's UsageError, which newer typers keep to themselves
    command = _click_command(name, typer)
    try:
        arguments = _take_command_config(arguments, wrong_usage)
        if not arguments and hasattr(command, "commands"):  # `odradek topics`: which of them?
            command.main(args=["--help"], prog_name=f"odradek {name}", standalone_mode=False)
            return WRONG_USAGE
        with heard_from("ERROR", "odradek.client"):  # the command itself reports errors, in one line
            result = command.main(args=arguments, prog_name=f"odradek {name}", standalone_mode=False)
    except wrong_usage as error:
        where = error.ctx.command_path if error.ctx is not None else f"odradek {name}"
        return _complain(f"{error.format_message()} (see {where} --help)", WRONG_USAGE)
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except SystemExit as ended:  # typer's answer to a broken pipe
        if isinstance(ended.__context__, BrokenPipeError):
            raise ended.__context__ from None
        raise
    except BrokenPipeError:
        raise
    except ConfigError as error:
        words = {word.strip(":,") for word in str(error).split()}
        named = f"{name} {arguments[0]}" if hasattr(command, "commands") else name
        given = [f"{where}: " for setting, where in origins.items() if setting in words]
        return _complain(f"{''.join(given[:1])}{error} (see odradek {named} --help)", WRONG_USAGE)
    except (ClientError, KafkaError, MalformedMessage, OSError) as error:
        return _complain(_told(error), FAILED)
    return result if isinstance(result, int) else 0


def _take_command_config(arguments: list[str], wrong_usage: "Any") -> list[str]:
    """Read the file of `--command-config`, which every command accepts; return the arguments without that option.

    Raises OSError, and `wrong_usage` if no file is named.
    """
    from odradek.cli import options

    options.command_config.clear()
    options.command_config_files.clear()
    options.origins.clear()
    left: list[str] = []
    rest = iter(arguments)
    for one in rest:
        name, equals, path = one.partition("=")
        if name == COMMAND_CONFIG:
            file = path if equals else next(rest, "")
            if not file:
                raise wrong_usage(f"{COMMAND_CONFIG} needs a file")
            options.read_command_config(file)
        else:
            left.append(one)
    return left


def _click_command(name: str, typer: "Any") -> "Any":
    from importlib import import_module

    module_name = name.replace("-", "_")
    found = getattr(import_module(f"odradek.cli.{module_name}"), module_name)
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(name)(found)
    return typer.main.get_command(app)


def _complain(message: str, code: int) -> int:
    from odradek.cli.output import printable

    print(printable(f"odradek: {' '.join(message.split())}"), file=sys.stderr)
    return code


def _forget_stdout() -> None:
    """Send further output to /dev/null, such as the interpreter's last flush: the reader has gone (`| head`)."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
