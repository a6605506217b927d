"""Command line of the local Functions host."""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

from tools.local.host.config import HostConfig, parse_host_json
from tools.local.host.errors import HostError
from tools.local.host.forks import Forks
from tools.local.host.functions import HttpTrigger
from tools.local.host.host import Host, HostOptions, Started
from tools.local.host.logs import configure_logs
from tools.local.host.settings import positive, read_settings
from tools.local.host.times import Times, parse_times
from tools.local.host.worker import work
from tools.local.host.workers import Launch, forking, here

SETTINGS = "local.settings.json"


def main() -> int:
    """Runs the host until SIGINT or a fault ends it (exit code 0). Exit code 2: it could not be started."""
    arguments = _parser().parse_args()
    try:
        run(arguments)
    except HostError as error:
        print(f"local host: {error}", file=sys.stderr)
        return 2
    return 0


def run(arguments: argparse.Namespace) -> None:
    """Serves the app. Raises HostError if that is not possible."""
    directory = arguments.app_dir.resolve()
    # The environment wins over the file, as with Core Tools; the app reads os.environ, as deployed.
    for name, value in _read_settings(directory, arguments.settings).items():
        os.environ.setdefault(name, value)
    config = _read_config(directory)
    configure_logs(config.log_level)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the real host, too, heeds SIGINT alone
    os.chdir(directory)
    threads = positive(os.environ, "PYTHON_THREADPOOL_THREAD_COUNT")
    options = HostOptions(
        address=arguments.host,
        port=arguments.port,
        path_mode="local" if arguments.core_tools_paths else "azure",
        times=arguments.times,
        sign_in_codes=arguments.sign_in_codes,
    )
    if arguments.in_process:
        asyncio.run(_serve(here(directory, threads), config, options))
        return
    with contextlib.closing(Forks(lambda connection: work(connection, directory, threads))) as forks:
        asyncio.run(_serve(forking(forks), config, options))


async def _serve(launch: Launch, config: HostConfig, options: HostOptions) -> None:
    host = Host(launch, config, os.environ, options)
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, host.stop)

    def ready(started: Started) -> None:
        if started.problem:
            print(f"local host: {started.problem}\nThe host serves no function.", file=sys.stderr, flush=True)
        names = " ".join(each.name for each in started.functions if not isinstance(each.trigger, HttpTrigger))
        address = f"http://{options.address}:{started.port}"
        print(f"local host: {len(started.functions)} functions on {address} ({names})", flush=True)

    await host.serve(ready)


def _read_config(directory: Path) -> HostConfig:
    try:
        return parse_host_json((directory / "host.json").read_text(encoding="utf-8-sig"), os.environ)
    except OSError as error:
        raise HostError(f"{directory / 'host.json'}: {error.strerror}") from None


def _read_settings(directory: Path, named: Path | None) -> dict[str, str]:
    if named is not None:
        return read_settings(named.resolve())
    default = directory / SETTINGS
    return read_settings(default) if default.exists() else {}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.local.host", description="Serve a function app on this machine."
    )
    parser.add_argument("--app-dir", type=Path, default=Path(), help="folder of function_app.py and host.json")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=7071, help="0 for any free port")
    parser.add_argument("--settings", type=Path, help=f"default: {SETTINGS} of the app, if it exists")
    parser.add_argument(
        "--core-tools-paths",
        action="store_true",
        help="treat paths as Core Tools do: decode all but %%2F, and do not pass on the path as it came",
    )
    parser.add_argument(
        "--times",
        type=parse_times,
        default=Times(),
        help="seconds in the place of the platform's, such as take=5,calls=1; see tools/local/host/times.py",
    )
    parser.add_argument("--in-process", action="store_true", help="run the app in this process, for a debugger")
    parser.add_argument("--sign-in-codes", type=Path, help="folder of the codes that sign in to the app's console")
    return parser


if __name__ == "__main__":
    sys.exit(main())
