"""(large) A sample of the mutants of modules whose survivors are killed or explained."""

import pytest

from local.mutation import command

SAMPLED = ("shared.domain.*",)
"""Add a module once `./dev mutate --seed 1 'MODULE.*'` passes."""


@pytest.mark.large
@pytest.mark.timeout(5400)  # the first run makes all mutants, and asks of every quick test what it reaches
def test_the_quick_tests_kill_a_sample_of_mutants() -> None:
    assert command.main(SAMPLED, size=30, seed=1, children=1) == 0
