"""The files of a training run: record, history, block memory, checkpoints."""
