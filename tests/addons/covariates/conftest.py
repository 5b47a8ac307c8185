"""Fixtures of reports: a planted store and model."""

from tests.report_fixtures import stored, written  # noqa: F401
