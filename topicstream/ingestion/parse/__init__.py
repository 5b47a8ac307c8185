"""Shared by the readers: cutting at records, numbers, fields, columns, rejected records."""
