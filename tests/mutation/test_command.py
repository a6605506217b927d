"""./dev mutate: how mutants are made, named, chosen and judged, and whole runs over a tiny project."""

import ast
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from tools.local.mutation import command
from tools.local.mutation.copies import FOLDER, Copy
from tools.local.mutation.explanations import Explanations
from tools.local.mutation.mutants import Mutant, Spot, build, change_of, choose, lines_of_statement, spots
from tools.local.mutation.reached import Reach
from tools.local.mutation.settings import Settings
from tools.local.mutation.trials import Fate
from tools.local.state import ROOT

PATH = Path("app/sums.py")


def _mutant(number: int, *, function: str = "app.sums.add") -> Mutant:
    return Mutant(
        path=PATH,
        function=function,
        change=f"- return a + {number}\n+ return a - {number}",
        original=f"def add(a):\n    return a + {number}",
        mutated=f"def add(a):\n    return a - {number}",
        source=f"def add(a):\n    return a - {number}\n",
        lines=frozenset({2}),
    )


def _spot(number: int, *, function: str = "app.sums.add", at: int = 0) -> Spot:
    return Spot(path=PATH, number=at + number, function=function, before=f"a + {number}", after=f"a - {number}")


def _fates(mutants: list[Mutant], survivors: int, fate: Fate = Fate.SURVIVED) -> dict[Mutant, Fate]:
    return {mutant: fate if number < survivors else Fate.KILLED for number, mutant in enumerate(mutants)}


def _explained(*mutants: Mutant) -> Explanations:
    return Explanations({mutant.key: "because" for mutant in mutants})


def test_a_change_is_the_lines_that_differ_without_indentation() -> None:
    assert change_of("def f():\n    a = 1\n    b = 2\n", "def f():\n    a = 1\n    b = 3\n") == "- b = 2\n+ b = 3"
    assert change_of("f(\n  1,\n  2,\n)\n", "f(\n  1,\n)\n") == "- 2,"
    assert change_of("a\na\n", "a\na\na\n") == "+ a"


def test_a_sample_stays_the_same_when_mutants_are_renumbered_and_others_are_added() -> None:
    before = [_spot(number) for number in range(50)]
    sample = [spot.before for spot in choose(before, (), 10, seed=7)]
    renumbered = [_spot(number, at=1000) for number in reversed(range(50))]
    assert [spot.before for spot in choose(renumbered, (), 10, seed=7)] == sample
    more = [*before, *(_spot(number, function="app.other") for number in range(5))]
    old = [spot.before for spot in choose(more, (), 10, seed=7) if spot.function == "app.sums.add"]
    assert set(old) <= set(sample)
    assert [spot.before for spot in choose(before, (), 10, seed=8)] != sample


def test_a_sample_is_of_the_functions_that_match_a_pattern() -> None:
    found = [_spot(1), _spot(2, function="app.other")]
    assert choose(found, ("app.s*",), None, seed=0) == [found[0]]
    assert len(choose(found, (), None, seed=0)) == 2


@pytest.mark.parametrize(("fate", "good"), [(Fate.KILLED, True), (Fate.SURVIVED, False), (Fate.UNREACHED, False)])
def test_an_unexplained_mutant_that_is_not_killed_fails_the_run(fate: Fate, good: bool) -> None:
    mutants = [_mutant(number) for number in range(100)]
    assert command.judge(mutants, _fates(mutants, 1, fate), _explained(), set()).is_good is good


def test_a_mutant_that_the_type_check_refuses_is_killed() -> None:
    mutants = [_mutant(1)]
    assert command.judge(mutants, _fates(mutants, 1), _explained(), {mutants[0].key}).killed == mutants


def test_mutants_with_the_same_change_at_two_places_are_told_apart() -> None:
    first, second = _mutant(1), replace(_mutant(1), mutated="def add(a):\n    a - 1", lines=frozenset({3}))
    judgement = command.judge([first, second], {first: Fate.SURVIVED, second: Fate.KILLED}, _explained(), set())
    assert (judgement.killed, judgement.unexplained) == ([second], [(first, Fate.SURVIVED)])


def test_explained_survivors_count_against_the_score_of_a_large_sample() -> None:
    mutants = [_mutant(number) for number in range(100)]
    assert command.judge(mutants, _fates(mutants, 5), _explained(*mutants[:5]), set()).is_good
    assert not command.judge(mutants, _fates(mutants, 6), _explained(*mutants[:6]), set()).is_good
    assert command.judge(mutants[:99], _fates(mutants, 6), _explained(*mutants[:6]), set()).is_good


def test_an_explanation_of_a_mutant_that_is_gone_fails_the_run() -> None:
    mutant = _mutant(1)
    judgement = command.judge([mutant], _fates([mutant], 0), _explained(), set())
    judgement.stale = Explanations({mutant.key: "x", ("app.gone", "- a"): "x"}).stale([mutant])
    assert judgement.stale == ["app.gone\n- a"]
    assert not judgement.is_good


def test_the_file_of_explanations_refuses_entries_without_words_and_entries_twice(tmp_path: Path) -> None:
    file = tmp_path / "survivors.toml"
    entry = "[[survivor]]\nfunction = 'app.add'\nchange = '''\n  - a\n\n  + b\n'''\nwhy = 'equal'\n"
    file.write_text(entry)
    assert Explanations.load(file).survivors == {("app.add", "- a\n+ b"): "equal"}
    file.write_text(entry + entry)
    with pytest.raises(ValueError, match="two entries"):
        Explanations.load(file)
    file.write_text(entry.replace("equal", " "))
    with pytest.raises(ValueError, match="lacks `why`"):
        Explanations.load(file)


CODE = """\
def one(a, b=1):
    if a > b:
        return call(
            a,
            b,
        )
    return b
"""


@pytest.mark.parametrize(
    ("first", "last", "lines"), [(2, 2, {2}), (4, 4, {3, 4, 5, 6}), (7, 7, {7}), (1, 1, {*range(1, 8)})]
)
def test_a_mutant_is_tried_against_tests_of_its_statement(first: int, last: int, lines: set[int]) -> None:
    assert lines_of_statement(ast.parse(CODE), first, last) == lines


def test_the_quickest_tests_come_first() -> None:
    reach = Reach({"slow": 2.0, "quick": 0.1, "elsewhere": 0.0}, {str(PATH): {2: {"slow", "quick"}, 3: {"elsewhere"}}})
    assert reach.tests(_mutant(1)) == ["quick", "slow"]


FILES = {
    "pyproject.toml": """
        [tool.mutation]
        mutate = ["app/*.py"]
        leave = ['^\\s*raise ']
        tests = ["tests"]
        [tool.mypy]
        strict = true
        """,
    "app/__init__.py": "",
    "app/sums.py": """
        class Sums:
            def add(self, one: int, other: int) -> int:
                if one is None:
                    raise ValueError("nothing " + "there")
                return one + other

        def negative(number: int) -> bool:
            return number < 0

        def text(number: int) -> str:
            return str(number)

        def untested(number: int) -> int:
            return number + 1
        """,
    "tests/__init__.py": "",
    "tests/test_sums.py": """
        from app.sums import Sums, negative, text

        def test_sums() -> None:
            assert Sums().add(2, 3) == 5

        def test_negative() -> None:
            assert negative(-2) and not negative(2)

        def test_text() -> None:
            assert text(3)
        """,
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A tiny project."""
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(content).lstrip())
    return tmp_path


def test_a_mutant_has_one_change_in_the_whole_file(project: Path) -> None:
    settings = Settings.load(project)
    found = choose(spots(project, settings.sources(project), settings.leave), ("app.sums.Sums.*",), None, seed=0)
    mutants = build(project, found, settings.leave)
    assert {mutant.function for mutant in mutants} == {"app.sums.Sums.add"}
    assert not any("nothing" in mutant.change for mutant in mutants), "that line is left as it is"
    (mutant,) = [mutant for mutant in mutants if "one - other" in mutant.change]
    assert mutant.change == "- return one + other\n+ return one - other"
    assert mutant.source == (project / PATH).read_text().replace("one + other", "one - other")
    assert mutant.lines == {5}


@pytest.mark.parametrize(
    ("functions", "files"),
    [
        ((), ["app/__init__.py", "app/sums.py"]),
        (("app.s*",), ["app/sums.py"]),
        (("app.sums.Sums.add",), ["app/sums.py"]),
        (("*",), ["app/__init__.py", "app/sums.py"]),
        (("app.other.*",), []),
    ],
)
def test_only_files_are_read_that_may_have_the_functions(
    project: Path, functions: tuple[str, ...], files: list[str]
) -> None:
    assert [str(path) for path in Settings.load(project).sources(project, functions)] == files


def test_a_copy_has_the_mutant_only_for_as_long_as_it_is_tried(project: Path) -> None:
    copy, file = Copy(project, 0), FOLDER / "copy-0" / PATH
    (project / "app/gone.py").touch()
    copy.refresh()
    (project / "app/gone.py").unlink()
    copy.refresh()
    assert not (copy.path / "app/gone.py").exists()
    before = (project / file).stat().st_mtime_ns
    with copy.mutated(_mutant(1)):
        assert (project / file).read_text() == _mutant(1).source
        assert (project / file).stat().st_mtime_ns > before
    assert (project / file).read_text() == (project / PATH).read_text()
    assert (project / file).stat().st_mtime_ns == before


def test_a_copy_is_made_again_where_there_are_links_to_folders_and_other_environments(project: Path) -> None:
    for folder in (project / ".venv-3.13", project / "docs"):
        (folder / "lib").mkdir(parents=True)
        (folder / "lib64").symlink_to("lib")
    copy = Copy(project, 0)
    copy.refresh()
    (project / "docs/lib64").unlink()
    (project / "docs/lib64").symlink_to("..")
    copy.refresh()
    assert not (copy.path / ".venv-3.13").exists()
    assert (copy.path / "docs/lib64").readlink() == Path("..")


def test_the_settings_of_this_project_name_what_exists() -> None:
    settings = Settings.load(ROOT)
    assert all(list(ROOT.glob(pattern)) for pattern in (*settings.mutate, *settings.hosts))
    tests = [*settings.tests, *(test for some in settings.hosts.values() for test in some)]
    assert [test for test in tests if not (ROOT / test).exists()] == []


@pytest.mark.large
@pytest.mark.timeout(600)
def test_a_run_goes_on_where_the_last_one_ended_and_fails_until_all_survivors_are_killed_or_explained(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = project / "survivors.toml"

    def run(*patterns: str) -> tuple[int, str]:
        code = command.main(patterns, size=None, seed=1, children=1, root=project, explained=file)
        return code, capsys.readouterr().out

    code, out = run("app.sums.Sums.*")
    assert (code, "100.0%" in out) == (0, True), out

    code, out = run()
    assert code == 1
    entries = out[out.index("[[survivor]]") : out.index("killed (")].rpartition("\n")[0]
    for change in ("- return number < 0\n+ return number <= 0", "- return number + 1\n+ return number - 1"):
        assert change in entries
    assert "Sums.add" not in out, "killed before"

    (project / "tests/test_more.py").write_text(
        "from app.sums import negative, text\n\n"
        "def test_more() -> None:\n    assert not negative(0) and negative(-1) and not negative(1)\n"
        "    assert text(3) == '3'\n"
    )
    code, out = run("app.sums.negative", "app.sums.text")
    assert code == 0, out
    assert "what 1 test modules reach" in out
    survivors = entries.replace("why = ''", "why = 'no use'").split("[[survivor]]")
    file.write_text("[[survivor]]".join(["", *(entry for entry in survivors if "app.sums.untested" in entry)]))
    code, out = run()
    assert code == 0, out
    assert "0 of them unexplained" in out

    (project / "tests/test_more.py").write_text("def test_more() -> None:\n    assert False\n")
    assert run("app.sums.text")[0] == 0, "killed before"
    (project / PATH).write_text((project / PATH).read_text().replace("str(number)", "str(number + 0)"))
    code = command.main(("app.sums.text",), size=None, seed=1, children=1, root=project, explained=file)
    assert (code, "fail without a mutant" in capsys.readouterr().err) == (1, True)
