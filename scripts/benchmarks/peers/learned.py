"""tomotopy with the alpha that it learns: python learned.py EXPORTED_CORPUS OUT.npz TOPICS
ITERATIONS SEED (export_corpus.py)

One thread, alpha from 0.1 a topic on, eta 0.01; OUT holds phi (counts [W, K] without the prior) and
alpha [K]."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from trainers import Data, Setting, tomotopy_model, tomotopy_phi

folder, out = map(Path, sys.argv[1:3])
topics, iterations, seed = map(int, sys.argv[3:])
data = Data.read(folder, len((folder / "words.txt").read_text(encoding="utf-8").splitlines()))
setting = Setting(topics, 0.1, 0.01, iterations, 1, seed)
model, _ = tomotopy_model(data, setting)
model.optim_interval = 10  # its default; the trainers of the other benchmarks hold the priors
model.train(iterations, workers=1)
np.savez(out, phi=tomotopy_phi(model, data, setting), alpha=np.asarray(model.alpha))
