"""Command line of the local Functions host."""

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path

from tools.local.host.config import HostConfig, parse_host_json
from tools.local.host.errors import HostError
from tools.local.host.functions import IndexedFunction, index
from tools.local.host.host import Host, HostOptions
from tools.local.host.loading import load_app
from tools.local.host.logs import configure_logs
from tools.local.host.queues import TAKE_SECONDS
from tools.local.host.settings import read_settings

SETTINGS = "local.settings.json"


def main() -> int:
    """Run the host until a signal ends it. Exit code 2: it could not be started; one line says why."""
    arguments = _parser().parse_args()
    try:
        run(arguments)
    except HostError as error:
        print(f"local host: {error}", file=sys.stderr)
        return 2
    return 0


def run(arguments: argparse.Namespace) -> None:
    """Load the app and serve it. Raises HostError if that is not possible."""
    directory = arguments.app_dir.resolve()
    # The environment wins over the file, as with Core Tools; the app reads os.environ, as deployed.
    for name, value in _read_settings(directory, arguments.settings).items():
        os.environ.setdefault(name, value)
    config = _read_config(directory)
    configure_logs(config.log_level)
    os.chdir(directory)
    functions = index(load_app(directory))
    options = HostOptions(
        address=arguments.host,
        port=arguments.port,
        path_mode="local" if arguments.core_tools_paths else "azure",
        take_visibility=arguments.take_visibility,
        grace=arguments.grace,
        sign_in_codes=arguments.sign_in_codes,
    )
    asyncio.run(_serve(functions, config, options))


async def _serve(functions: list[IndexedFunction], config: HostConfig, options: HostOptions) -> None:
    host = Host(functions, config, os.environ, options)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)

    def ready(port: int) -> None:
        print(f"local host: {len(functions)} functions on http://{options.address}:{port}", flush=True)

    await host.serve(stop, ready)


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
        "--take-visibility",
        type=_seconds,
        default=TAKE_SECONDS,
        help="seconds that a queue message is hidden when it is taken (the platform's: 600)",
    )
    parser.add_argument("--sign-in-codes", type=Path, help="folder of the codes that sign in to the app's console")
    parser.add_argument("--grace", type=float, default=5.0, help="seconds for running functions when stopped")
    return parser


def _seconds(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 7 * 86_400:
        raise argparse.ArgumentTypeError("must be between 1 and 604800")
    return value


if __name__ == "__main__":
    sys.exit(main())
