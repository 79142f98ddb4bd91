"""Loss curves are drawn by the tests of the command only: a picture takes as long as a small model's training."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _undrawn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.path.name != "test_command.py":
        monkeypatch.setattr("core.alignment.running.draw_curve", lambda *_, **__: None)
