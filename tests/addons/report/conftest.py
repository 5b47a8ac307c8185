"""Fixtures of reports: a planted store and model, and a browser."""

from tests.report_browser import browser, expect, visit  # noqa: F401
from tests.report_fixtures import stored, written  # noqa: F401
