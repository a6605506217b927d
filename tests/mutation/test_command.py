"""./dev mutate: how mutants are named, chosen and judged, and whole runs over a tiny project."""

import subprocess
import textwrap
import tomllib
from pathlib import Path

import pytest

from local.mutation import command
from local.mutation.explanations import Explanations
from local.mutation.mutants import Mutant, change_of, choose, forget_removed, read_mutants
from local.mutation.type_check import mutated_file
from local.state import ROOT


def _mutant(number: int, *, function: str = "app.sums.add", status: str = "survived") -> Mutant:
    return Mutant(
        name=f"app.sums.x_add__mutmut_{number}",
        path=Path("app/sums.py"),
        function=function,
        change=f"- return a + {number}\n+ return a - {number}",
        original=f"def add(a):\n    return a + {number}\n",
        mutated=f"def add(a):\n    return a - {number}\n",
        status=status,
    )


def _explained(*mutants: Mutant) -> Explanations:
    return Explanations({mutant.key: "because" for mutant in mutants}, ())


def test_a_change_is_the_lines_that_differ_without_indentation() -> None:
    assert change_of("def f():\n    a = 1\n    b = 2\n", "def f():\n    a = 1\n    b = 3\n") == "- b = 2\n+ b = 3"
    assert change_of("f(\n  1,\n  2,\n)\n", "f(\n  1,\n)\n") == "- 2,"
    assert change_of("a\na\n", "a\na\na\n") == "+ a"


def test_a_sample_stays_the_same_when_mutants_are_renumbered_and_others_are_added() -> None:
    before = [_mutant(number) for number in range(50)]
    sample = choose(before, (), 10, seed=7)
    renumbered = [Mutant(**{**vars(mutant), "name": f"{mutant.name}9"}) for mutant in reversed(before)]
    assert [mutant.key for mutant in choose(renumbered, (), 10, seed=7)] == [mutant.key for mutant in sample]
    more = [*before, *(_mutant(number, function="app.other") for number in range(5))]
    old = [mutant for mutant in choose(more, (), 10, seed=7) if mutant.function == "app.sums.add"]
    assert {mutant.key for mutant in old} <= {mutant.key for mutant in sample}
    assert choose(before, (), 10, seed=8) != sample


def test_a_sample_is_of_the_functions_that_match_a_pattern() -> None:
    mutants = [_mutant(1), _mutant(2, function="app.other")]
    assert choose(mutants, ("app.s*",), None, seed=0) == [mutants[0]]
    assert len(choose(mutants, (), None, seed=0)) == 2


@pytest.mark.parametrize(
    ("status", "good"),
    [("killed", True), ("timeout", True), ("survived", False), ("no tests", False), ("not checked", False)],
)
def test_an_unexplained_mutant_that_is_not_killed_fails_the_run(status: str, good: bool) -> None:
    mutants = [*(_mutant(number, status="killed") for number in range(99)), _mutant(99, status=status)]
    assert command.judge(mutants, mutants, _explained(), set()).is_good is good


def test_a_mutant_that_the_type_check_refuses_is_killed() -> None:
    mutant = _mutant(1)
    assert command.judge([mutant], [mutant], _explained(), {mutant.name}).killed == [mutant]


def test_explained_survivors_count_against_the_score() -> None:
    mutants = [_mutant(number, status="survived" if number < 5 else "killed") for number in range(100)]
    assert command.judge(mutants, mutants, _explained(*mutants[:5]), set()).is_good
    assert not command.judge(mutants[:99], mutants, _explained(*mutants[:5]), set()).is_good


def test_functions_that_other_suites_test_are_apart_only_if_no_quick_test_reaches_them() -> None:
    mutants = [_mutant(1, status="no tests"), _mutant(2, status="survived")]
    judgement = command.judge(mutants, mutants, Explanations({}, [("app.*", "tested with a server")]), set())
    assert (judgement.elsewhere, judgement.unexplained) == (mutants[:1], mutants[1:])


def test_an_explanation_of_a_mutant_that_is_gone_fails_the_run() -> None:
    mutant = _mutant(1, status="killed")
    judgement = command.judge([mutant], [mutant], Explanations({("app.gone", "- a"): "x"}, [("lib.*", "x")]), set())
    assert judgement.stale == ["app.gone\n- a", "lib.*"]
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


def test_a_mutant_is_put_into_its_file_only_if_the_file_is_the_one_it_was_made_of(tmp_path: Path) -> None:
    mutant = _mutant(1)
    (tmp_path / "app").mkdir()
    (tmp_path / mutant.path).write_text("A = 1\n\n\n" + mutant.original)
    assert mutated_file(tmp_path, mutant) == "A = 1\n\n\n" + mutant.mutated
    (tmp_path / mutant.path).write_text("A = 1\n")
    with pytest.raises(ValueError, match="has changed"):
        mutated_file(tmp_path, mutant)


def test_copies_of_removed_files_are_removed(tmp_path: Path) -> None:
    for name in ("app/kept.py", "mutants/app/kept.py", "mutants/app/gone.py", "mutants/app/gone.py.meta"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    forget_removed(tmp_path)
    assert sorted(path.name for path in (tmp_path / "mutants/app").iterdir()) == ["gone.py.meta", "kept.py"]


FILES = {
    "pyproject.toml": """
        [tool.mutmut]
        source_paths = ["app"]
        pytest_add_cli_args_test_selection = ["tests"]
        pytest_add_cli_args = ["-p", "no:cacheprovider"]
        [tool.mypy]
        strict = true
        """,
    "app/__init__.py": "",
    "app/sums.py": """
        class Sums:
            def add(self, one: int, other: int) -> int:
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


def test_quick_tests_find_the_whole_repository_beside_the_mutants() -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutmut"]
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    tracked = {path.partition("/")[0] for path in listed.splitlines()}
    by_itself = {"tests", "pyproject.toml"}
    assert {*options["also_copy"], *options["source_paths"], *by_itself} == tracked


@pytest.mark.large
@pytest.mark.timeout(600)
def test_a_run_goes_on_where_the_last_one_ended_and_fails_until_all_survivors_are_killed_or_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(content).lstrip())
    file = tmp_path / "survivors.toml"

    def run(*patterns: str) -> tuple[int, str]:
        code = command.main(patterns, size=None, seed=1, children=1, root=tmp_path, explained=file)
        return code, capsys.readouterr().out

    code, out = run("app.sums.Sums.*")
    assert (code, "100.0%" in out) == (0, True), out
    assert {one.function for one in read_mutants(tmp_path) if one.status == "killed"} == {"app.sums.Sums.add"}

    code, out = run()
    assert code == 1
    entries = out[out.index("[[survivor]]") : out.index("killed (")].rpartition("\n")[0]
    for change in ("- return number < 0\n+ return number <= 0", "- return number + 1\n+ return number - 1"):
        assert change in entries
    assert "app.sums.Sums.add" not in entries

    (tmp_path / "tests/test_more.py").write_text(
        "from app.sums import negative, text\n\n"
        "def test_more() -> None:\n    assert not negative(0) and negative(-1) and not negative(1)\n"
        "    assert text(3) == '3'\n"
    )
    settings = tmp_path / "pyproject.toml"
    settings.write_text(settings.read_text().replace('"no:cacheprovider"', '"no:cacheprovider", "-q"'))
    file.write_text("[[elsewhere]]\nfunctions = 'app.sums.untested'\nwhy = 'it would need a server'\n")
    code, out = run()
    assert code == 0, out
    assert "0 survived" in out
    assert "2 are of functions that only tests with a server reach" in out
