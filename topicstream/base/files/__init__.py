"""Files on disk: made, replaced and removed only where they are ours (owned), never seen
half-written (durable), read without trust (plain).
"""
