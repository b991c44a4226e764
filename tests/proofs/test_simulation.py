"""Simulations of many seeds, in which every rule holds; the same seed gives the same course of events."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.node import ROOT


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command that people use."""
    command = [sys.executable, "-m", "tests.proofs.simulation", *arguments]
    return subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False)


def test_replays_a_seed_exactly() -> None:
    first, again = simulate("--seed", "2", "--log"), simulate("--seed", "2", "--log")

    assert first.returncode == 0, first.stdout[-3000:] + first.stderr[-3000:]
    assert "succeeds with" in first.stdout
    assert first.stdout.splitlines()[:-1] == again.stdout.splitlines()[:-1]  # the last line has the time that it took


@pytest.mark.prove
def test_holds_all_rules_for_20_seeds() -> None:
    run = simulate("--seeds", "20")

    assert run.returncode == 0, "\n".join(line for line in run.stdout.splitlines() if "BROKEN" in line) + run.stderr
    assert "20 seeds, 0 broken" in run.stdout
