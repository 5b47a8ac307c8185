"""What the readers share: the protocol, cutting at records, numbers, JSON and CSV fields, columns,
rejected records.
"""
