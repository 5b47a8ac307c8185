"""Fixtures of reports: a planted store and model."""

from tests.left_out import half_known, half_shown  # noqa: F401
from tests.report_fixtures import model_and_rows, stored, written  # noqa: F401
