"""The commands of `./dev`."""

import importlib.util
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from tools.local.output import prepare
from tools.local.ports import DEFAULT_PORT
from tools.local.state import ROOT

app = typer.Typer(
    help="Taskcluster's Queue on Azure: the local stack, the demo and the tests.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: the boxes give flags a value
)

Port = Annotated[int, typer.Option("--port", help="The API's port; it moves the whole stack and names it.")]
Hosts = Annotated[int, typer.Option(help="Host processes, on this port and the following ones.")]
Subscriptions = Annotated[
    list[str] | None,
    typer.Option("--subscription", help="Declare a subscription of this name on every topic (repeatable)."),
]
CoreToolsPaths = Annotated[
    bool, typer.Option("--core-tools-paths", help="Treat paths as Core Tools do, not as deployed Functions do.")
]
ByGroup = Annotated[
    bool,
    typer.Option("--by-group", help="A process for HTTP, and one for each queue function and timer, as on Azure."),
]
NoHost = Annotated[
    bool, typer.Option("--no-host", help="Storage and Service Bus alone, for `func start` or a debugger.")
]
Uploads = Annotated[
    bool, typer.Option("--uploads", help="Take relayed uploads with an app of their own: for scriptworker's packages.")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Forget the data of an earlier stack on this port.")]
StackPort = Annotated[
    int | None, typer.Option("--port", help="The stack on this port, whatever the environment names.")
]
PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


ELSEWHERE = ("STORAGE_ACCOUNT_NAME", "SERVICEBUS_NAMESPACE", "TASKCLUSTER_CERTIFICATE")
"""Variables that name a deployment on Azure, or somebody there; a stack's own variables do not replace them."""


@dataclass(frozen=True)
class Tool:
    """A command of another module, which works on the stack on the default port unless variables say otherwise."""

    name: str
    module: str
    help: str


TOOLS = (
    Tool("worker", "worker", "Run a reference worker (try --help)."),
    Tool("workers", "tools.local.workers", "Start workers when tasks wait, and end them when idle (try --help)."),
    Tool("listen", "tools.listen", "Print events of an exchange as they come (try --help)."),
    Tool("deployment", "tools.local.deployments", "Change what a deployment on Azure is to be (try --help)."),
    Tool("drill", "tools.local.drill", "Restore a backup of a deployment into a second stack, and compare (--help)."),
    Tool("admin", "tools.admin", "Manage clients, roles, pools, backups … (try --help)."),
)


@app.command()
def up(
    port: Port = DEFAULT_PORT,
    detach: Annotated[bool, typer.Option("--detach", help="Leave it running; ./dev down ends it.")] = False,
    hosts: Hosts = 1,
    subscription: Subscriptions = None,
    core_tools_paths: CoreToolsPaths = False,
    fresh: Fresh = False,
    no_host: NoHost = False,
    uploads: Uploads = False,
    by_group: ByGroup = False,
    app_dir: Annotated[Path, typer.Option(help="Serve another function app.", hidden=True)] = ROOT,
    apart: Annotated[bool, typer.Option("--apart", hidden=True, help="Outlive the process that started this.")] = False,
) -> None:
    """Start the local stack. Its parts are Azurite, the Service Bus broker and the Functions host."""
    from tools.local import run

    options = run.options(
        port,
        hosts=hosts,
        subscriptions=tuple(subscription or ()),
        azure_paths=not core_tools_paths,
        fresh=fresh,
        with_host=not no_host,
        uploads=uploads,
        by_group=by_group,
        app_dir=app_dir,
    )
    if detach:
        run.up_detached(options)
    else:
        run.up(options, with_parent=not apart)


@app.command()
def down(port: Port = DEFAULT_PORT) -> None:
    """End the stack on this port, and only what it started."""
    from tools.local import control

    control.down(port)


@app.command()
def env(port: Port = DEFAULT_PORT) -> None:
    """Print `export` lines for clients: eval "$(./dev env)"."""
    from tools.local import control

    for name, value in control.running(port).environment.items():
        print(f"export {name}={shlex.quote(value)}")


@app.command()
def logs(
    port: Port = DEFAULT_PORT,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on printing what is added.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", help="Lines of each log to begin with.")] = 100,
) -> None:
    """Print the logs of the stack, each line with its process."""
    from tools.local import control

    control.logs(port, follow=follow, lines=lines)


@app.command(hidden=True)
def loads() -> None:
    """Import the app with the settings on standard input, and say what keeps it from starting."""
    from tools.local import loads as importing

    sys.exit(importing.main())


@app.command()
def restart_host(port: Port = DEFAULT_PORT) -> None:
    """Restart the hosts, with the code of now. They end in order, and the stack starts them again."""
    from tools.local import control

    control.restart_host(port)


@app.command()
def ui(
    port: Port = DEFAULT_PORT,
    show: Annotated[bool, typer.Option("--open/--no-open", help="Open a browser, where there is a desktop.")] = True,
) -> None:
    """Open the console of the stack, signed in for an hour, and print its address."""
    from tools.local import ui as console

    console.main(port, show=show)


@app.command()
def demo(
    port: Port = DEFAULT_PORT,
    stay: Annotated[bool, typer.Option("--stay", help="Keep the stack afterwards, until Ctrl-C.")] = False,
) -> None:
    """Show the main job, on a stack made for it. Workers come and go; tasks complete, fail, are retried and expire."""
    from tools.local import demo as main_job

    sys.exit(main_job.main(port, stay=stay))


@app.command()
def chaos(
    port: Port = DEFAULT_PORT,
    tasks: Annotated[int, typer.Option(help="Tasks in chains, diamonds and fans.")] = 400,
    workers: Annotated[int, typer.Option(help="Worker processes.")] = 12,
    seed: Annotated[int | None, typer.Option(help="Repeat the faults of another run.")] = None,
    by_group: ByGroup = False,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="A soak: virtual weeks in the simulator, without a stack.")
    ] = False,
    minutes: Annotated[float, typer.Option(help="How long a soak goes on.", min=0)] = 60.0,
) -> None:
    """Kill workers and hosts, let storage and the broker fail. Exit code 0 only if no task and no event was lost.

    With `--simulated` week after week of a deployment, with faults, restarts and expiry, in the simulator: exit code 0
    only if all invariants held, and neither rows, messages, blobs nor memory have grown.
    """
    from tools.local.chaos import command

    if simulated:
        sys.exit(command.soak(minutes=minutes, seed=seed))
    sys.exit(command.main(port, tasks=tasks, workers=workers, seed=seed, by_group=by_group))


@app.command(
    context_settings={**PASS_ON, "help_option_names": ["--help", "-h"]},
    options_metavar="[--quick] [--all] [--coverage] [PYTEST_ARGUMENT]...",
)
def test(context: typer.Context) -> None:
    """Check the repository: lint, formatting, types, imports, tests.

    `--quick` takes only tests that cost little and samples of the others, and names what it leaves out: for each
    change. `--all` adds the large and long tests. `--coverage` measures which lines and branches the tests reach.
    Other arguments go to pytest: ./dev test tests/promises/worker -k guard
    """
    from tools.local import checks

    sys.exit(checks.main(context.args))


@app.command(context_settings=PASS_ON)
def host_check(context: typer.Context) -> None:
    """Run the end-to-end tests on Microsoft's own host, by Azure Functions Core Tools, with the app's package.

    Beside it run the local storage and broker. Arguments go to pytest and name other tests.
    """
    from tools.local import host_check as check

    sys.exit(check.main(context.args))


@app.command()
def mutate(
    bug: Annotated[str | None, typer.Argument(help="Words from the name of one bug.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Plant each of them.")] = False,
    engines: Annotated[
        bool, typer.Option("--engines", help="Against the engines alone: tests that go through all cases themselves.")
    ] = False,
    tests: Annotated[list[str] | None, typer.Option(help="Files or folders of tests to run instead.")] = None,
) -> None:
    """Test the tests: plant a bug that is kept, and say whether they catch it. Without a name: list the bugs.

    `--all` runs the tests once, and then against each bug those that come to it; with it, a bug's words are a filter.
    The exit code is 0 only if all bugs that were planted are caught.
    """
    from tools.local import planting

    sys.exit(planting.main(bug, every=every, engines=engines, tests=tests or ()))


@app.command(context_settings=PASS_ON)
def bench(context: typer.Context) -> None:
    """Measure a deployment, or a local stack of its own: speed, cost, growth. Compare two runs (try --help)."""
    os.execv(sys.executable, [sys.executable, "-m", "tools.bench.load", *context.args])  # noqa: S606 - no shell is wanted


@app.command()
def package(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the zip and its bill of materials.")] = (
        ROOT / "dist"
    ),
    sources: Annotated[
        bool, typer.Option("--sources", help="Without dependencies: the app's own files alone.")
    ] = False,
    unpacked: Annotated[bool, typer.Option("--unpacked", help="Also as a folder, for azd.")] = False,
    notify: Annotated[bool, typer.Option("--notify", help="That of the notifier (docs/ecosystem.md).")] = False,
) -> None:
    """Make the package that is deployed to Azure."""
    from tools.local import package as packaging

    app_ = packaging.NOTIFIER if notify else packaging.QUEUE
    sys.exit(packaging.main(output, dependencies=not sources, unpacked=unpacked, app=app_))


releases = typer.Typer(help="Make a release: what keeps this commit from being one, its notes.", no_args_is_help=True)
app.add_typer(releases, name="release")


@releases.command("check")
def release_check(tag: Annotated[str, typer.Option(help="The tag of the release.")] = "") -> None:
    """Say what keeps this commit from being released. Exit code 0 only if nothing does."""
    from tools.local import release

    sys.exit(release.check(tag))


@releases.command("notes")
def release_notes(
    worker_image: Annotated[str, typer.Option(help="The worker's image, by digest.")] = "",
) -> None:
    """Print the text of the release: its section of CHANGELOG.md."""
    from tools.local import release

    print(release.notes(worker_image=worker_image), end="")


@releases.command("pin-images")
def release_pin_images() -> None:
    """Write the digest behind each image that has none. Needs docker, and the network."""
    from tools.local import release
    from tools.local.control import fail

    try:
        for image in release.pin_images():
            print(image)
    except release.NoDigestError as error:
        fail(str(error))


@releases.command("repository")
def release_repository(address: Annotated[str, typer.Argument(help="https://HOST/OWNER/NAME")]) -> None:
    """Say in every file which repository this is: for a fork, once."""
    from tools.local import release
    from tools.local.control import fail

    try:
        for file in release.set_repository(address):
            print(file)
    except ValueError as error:
        fail(str(error))


@app.command()
def docs(
    serve: Annotated[bool, typer.Option("--serve", help="Serve it on the loopback interface until Ctrl-C.")] = False,
    publish: Annotated[str, typer.Option(help="Push it to the branch gh-pages as this version.")] = "",
    alias: Annotated[str, typer.Option(help="Another name of the published version, such as latest.")] = "",
) -> None:
    """Build the documentation as a site, with search. A link that leads nowhere is an error."""
    from tools.local import docs_site

    sys.exit(docs_site.main(serve=serve, publish=publish, alias=alias))


class _PassOn(TyperCommand):
    """A command that passes on the arguments behind `--`, and the `--` itself."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the arguments before `--`."""
        own = args.index("--") if "--" in args else len(args)
        super().parse_args(ctx, args[:own])
        ctx.args = [*ctx.args, *args[own:]]
        return list(ctx.args)


def _register(tool: Tool) -> None:
    @app.command(tool.name, help=tool.help, context_settings=PASS_ON, cls=_PassOn)
    def command(context: typer.Context, port: StackPort = None) -> None:
        _run_tool(tool.name, tool.module, context.args, port)


@app.command(context_settings={**PASS_ON, "help_option_names": []}, options_metavar="[--port N] NAME [ARGUMENT]...")
def example(context: typer.Context, port: StackPort = None) -> None:
    """Run an example of docs/events.md against the stack (try statistics-monitor, or a name and --help)."""
    from tools.local.control import fail

    names = sorted(path.stem for path in (ROOT / "docs" / "examples").glob("*.py") if _is_program(path))
    name, arguments = (context.args[0].replace("-", "_"), context.args[1:]) if context.args else ("", [])
    if name not in names:
        fail(f"say which example: {', '.join(known.replace('_', '-') for known in names)}")
    _run_tool(f"example {name.replace('_', '-')}", f"docs.examples.{name}", arguments, port)


def _is_program(path: Path) -> bool:
    return '__name__ == "__main__"' in path.read_text(encoding="utf-8")


def _run_tool(name: str, module: str, arguments: list[str], port: int | None) -> None:
    """Replaces this process by the tool, which works on the environment's deployment, or on the local stack."""
    from tools.local import control
    from tools.local.state import StackState

    environment = {**os.environ}
    asks_for_help = not {"--help", "-h"}.isdisjoint(arguments)
    if asks_for_help and name != "deployment":  # which speaks to Azure alone
        said = f"With ./dev {name} --port N: the local stack on that port, whatever the environment names.\n"
        print(said, file=sys.stderr, flush=True)
    if port is not None and not asks_for_help:
        others = {variable: value for variable, value in environment.items() if variable not in ELSEWHERE}
        environment = {**others, **control.running(port).environment}
    # If the environment names a deployment, only that one is used: never the local account with the deployment's root
    # URL.
    elif not any(environment.get(variable) for variable in ("TASKCLUSTER_ROOT_URL", "STORAGE_ACCOUNT_NAME")):
        running = StackState.load(DEFAULT_PORT)
        environment = {**(running.environment if running else {}), **environment}
    environment["STARTED_AS"] = f"./dev {name}"
    os.execve(sys.executable, [sys.executable, "-m", module, *arguments], environment)  # noqa: S606 - no shell is wanted


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


for _tool in TOOLS:
    if _exists(_tool.module):
        _register(_tool)


if __name__ == "__main__":
    prepare()
    app(prog_name="./dev")
