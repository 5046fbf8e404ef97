"""Commands under test see no settings, variables or history of this machine."""

from tests.scenarios.conftest import alone

__all__ = ["alone"]
