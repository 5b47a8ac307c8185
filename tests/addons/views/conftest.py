"""Fixtures of reports: a planted store and model."""

from tests.report_fixtures import model_and_rows, stored, written  # noqa: F401
