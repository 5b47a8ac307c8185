"""Gaussian mixtures of image patches: what responsibilities cost and give (Hughes & Sudderth 2016,
Figs. 1 and 2).

    python scripts/benchmarks/bench_mixtures.py patches IMAGES --work DIR [--test 20] python
    scripts/benchmarks/bench_mixtures.py sweep --work DIR -K 200 -L 1 -L 8 -L 200 --passes 4
    [--schedule stochastic]
    python scripts/benchmarks/bench_mixtures.py peer --work DIR -K 50 --seconds 150 [--init kmeans]
    (has scikit-learn)
    python scripts/benchmarks/bench_mixtures.py bnpy --work DIR -K 50 --passes 8      (has bnpy)
    python scripts/benchmarks/bench_mixtures.py wide --work DIR -K 4 --passes 1 [--gib 20] [--limit
    1G]

``sweep`` prints a line a run: seconds of the processor for each part of a pass (one thread), of
each pass (the start within the first; what is held out is judged within every --every th), held-out
nats a patch by pass, peak memory in MB. ``peer`` resumes where it was stopped; it prints a line an
iteration. ``wide`` makes a store of GiB of vectors of 512 numbers (four ingests, each file deleted
when read) and trains diagonal components in a memory cgroup; it prints the seconds of the
processor, and the largest resident memory in each tenth of the run."""

from __future__ import annotations

import argparse
import json
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np


def patches(images: Path, work: Path, test: int) -> None:
    """DIR/all.zarr: patches of all images but the last ``test``, which are held out; DIR/train.npy,
    test.npy.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from topicstream import ingest
    from topicstream.corpus.reader import Corpus

    names = sorted(images.iterdir())
    parts = []
    for part, some in (("train", names[:-test]), ("test", names[-test:])):
        ingest(
            some,
            work / f"{part}.zarr",
            patches=8,
            stride=4,
            heldout="0",
            progress=False,
            force=True,
        )
        store = Corpus.open(work / f"{part}.zarr", dense=True)
        x = np.concatenate(
            [
                b.column("counts").values.to_numpy().reshape(-1, store.width)
                for b in store.documents([])
            ]
        )
        np.save(work / f"{part}.npy", x)
        values = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), x.shape[1])
        parts.append(pa.table({"patch": values, "part": pa.repeat(part, len(x))}))
    pq.write_table(pa.concat_tables(parts), work / "patches.parquet")
    ingest(
        work / "patches.parquet",
        work / "all.zarr",
        vector_field="patch",
        meta={"origin": "part"},
        heldout="origin=test",
        progress=False,
        force=True,
    )


def watched() -> dict[str, float]:
    """Seconds of the processor within the parts of a visit, counted from now on."""
    import topicstream.addons.clusters.clusters as clusters
    import topicstream.addons.clusters.gaussians as gaussians
    import topicstream.addons.clusters.gmm as gmm

    spent: dict[str, float] = {}

    def watch(where: Any, name: str, part: str) -> None:
        inner = getattr(where, name)

        def outer(*args: Any, **kwargs: Any) -> Any:
            began = time.thread_time()
            try:
                return inner(*args, **kwargs)
            finally:
                spent[part] = spent.get(part, 0.0) + time.thread_time() - began

        setattr(where, name, outer)

    watch(gmm, "best_density", "weights")
    watch(clusters, "respond", "selection")
    watch(clusters, "changes", "selection")
    watch(gaussians, "sum_statistics", "summary")
    watch(gmm.GaussianMixture, "components", "global")
    watch(gmm.GaussianMixture, "statistics", "global")
    return spent


def sweep(
    work: Path, components: int, most: list[int], passes: int, schedule: str, every: int
) -> None:
    from topicstream import train

    spent = watched()
    for L in most:
        model = work / f"m{components}-{L}-{schedule}"
        laps = []
        shutil.rmtree(model, ignore_errors=True)
        marks: list[tuple[float, dict[str, float]]] = []

        def tell(what: str, *_: Any, marks: list[Any] = marks) -> None:
            marks.append((time.process_time(), dict(spent)))

        for upto in range(0, passes + 1):  # a pass at a time: what is measured is that pass
            before = dict(spent)
            began = time.process_time()
            train(
                work / "all.zarr",
                model,
                algo="gmm",
                topics=components,
                passes=max(upto, 1),
                threads=1,
                tol=0,
                seed=1,
                eval_every=every,
                progress=False,
                options={"sparsity": L, "mean": "zero", "schedule": schedule},
            ) if upto else None
            if upto:
                laps.append(
                    (time.process_time() - began, {k: spent[k] - before.get(k, 0.0) for k in spent})
                )
        history = [json.loads(line) for line in (model / "history.jsonl").read_text().splitlines()][
            1:
        ]
        mean = {
            k: round(float(np.mean([lap[1].get(k, 0.0) for lap in laps[1:] or laps])), 2)
            for k in spent
        }
        print(
            json.dumps(
                {
                    "K": components,
                    "L": L,
                    "schedule": schedule,
                    "parts": mean,
                    "cpu": [round(lap[0], 2) for lap in laps],
                    "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
                    "seconds": [round(h["seconds"], 2) for h in history],
                    "heldout": [
                        round(h["heldout"]["nats a point"], 3) if "heldout" in h else None
                        for h in history
                    ],
                    "bound": [h.get("bound") for h in history][-1:],
                    "empty": history[-1]["empty"],
                }
            ),
            flush=True,
        )


def peer(work: Path, components: int, init: str, seconds: float) -> None:
    from sklearn.mixture import GaussianMixture

    x, y = (np.load(work / f"{part}.npy").astype(np.float64) for part in ("train", "test"))
    kept = work / f"peer-{init}-{components}.npz"
    state = None
    spent = iterations = 0.0
    began = time.process_time()
    asides = 0.0
    bound = -np.inf
    if kept.exists():
        state = np.load(kept)
        spent = float(state["spent"])
        iterations = float(state["iterations"])
        bound = float(state["bound"])

    class Stop(Exception):
        pass

    class Watched(GaussianMixture):
        def _m_step(self, X: Any, log_resp: Any, xp: Any = None) -> None:
            nonlocal asides, iterations
            super()._m_step(X, log_resp, xp=xp)
            iterations += 1
            aside = time.process_time()
            score = self.score(y) if iterations <= 4 or iterations % 4 == 0 else None
            used = spent + aside - began - asides
            np.savez(
                kept,
                weights=self.weights_,
                means=self.means_,
                chol=self.precisions_cholesky_,
                spent=used,
                iterations=iterations,
                bound=bound,
            )
            asides += time.process_time() - aside
            print(
                json.dumps({"iteration": iterations, "cpu": round(used, 1), "heldout": score}),
                flush=True,
            )
            if time.process_time() - began > seconds:
                raise Stop

    start = (
        {}
        if state is None
        else {
            "weights_init": state["weights"],
            "means_init": state["means"],
            "precisions_init": state["chol"] @ state["chol"].transpose(0, 2, 1),
        }
    )
    mixture = Watched(
        components,
        random_state=0,
        init_params=init if state is None else "random_from_data",
        max_iter=200,
        **start,
    )
    try:
        mixture.fit(x)
    except Stop:
        return
    print(
        json.dumps(
            {"iterations": iterations, "converged": mixture.converged_, "heldout": mixture.score(y)}
        ),
        flush=True,
    )


def bnpy(work: Path, components: int, laps: int) -> None:
    """Its memoized algorithm under the same prior, dense: the sparse one is in a library that its
    wheel does not compile.
    """
    import inspect

    inspect.getargspec = lambda f: inspect.getfullargspec(f)[:4]  # type: ignore[attr-defined]  # gone since Python 3.11
    import bnpy as peer
    from bnpy.learnalg.LearnAlg import LearnAlg
    from scipy.special import logsumexp

    x, y = (np.load(work / f"{part}.npy").astype(np.float64) for part in ("train", "test"))
    began = 0.0
    asides = 0.0

    def heldout(model: Any) -> float:
        post = model.obsModel.Post
        theta = model.allocModel.theta
        found = np.empty((len(y), components))
        for k in range(components):
            factor = np.linalg.cholesky(post.B[k] / (post.nu[k] - y.shape[1] - 1))
            z = np.linalg.solve(factor, y.T)
            found[:, k] = (
                np.log(theta[k] / theta.sum())
                - 0.5 * (z * z).sum(axis=0)
                - np.log(np.diag(factor)).sum()
            )
        return float(np.mean(logsumexp(found, axis=1)) - 0.5 * y.shape[1] * np.log(2 * np.pi))

    def watch(self: Any, lap: float, model: Any, *_: Any, **__: Any) -> None:
        nonlocal asides
        aside = time.process_time()
        if lap == round(lap):
            line = {"lap": lap, "cpu": round(aside - began - asides, 1), "heldout": heldout(model)}
            print(json.dumps(line), flush=True)
        asides += time.process_time() - aside

    LearnAlg.saveParams = watch
    data = peer.data.XData(x)
    began = time.process_time()
    peer.run(
        data,
        "FiniteMixtureModel",
        "ZeroMeanGauss",
        "memoVB",
        K=components,
        nLap=laps,
        nBatch=20,
        gamma0=10.0,
        sF=1.0,
        ECovMat="covdata",
        initname="bregmankmeans",
        saveEvery=1,
        printEvery=laps,
        output_path=str(work / "bnpy"),
    )


def wide(work: Path, components: int, passes: int, gib: float, limit: str, n: int = 512) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
    from measure import MemoryGroup

    draw = np.random.default_rng(0)
    means = draw.normal(0, 2, (8, n)).astype(np.float32)
    pool = (
        draw.standard_normal((1 << 16, n), dtype=np.float32) + means[draw.integers(0, 8, 1 << 16)]
    )
    # a quarter's pools
    store = work / "wide.zarr"
    rows = int(gib * 2**28 / n) // len(pool) // 4
    spent = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])  # noqa: E731
    topics = [sys.executable, "-m", "topicstream"]
    for part in range(0 if store.exists() else 4):
        file = work / f"wide-{part}.npy"
        x = np.lib.format.open_memmap(file, "w+", np.float32, (rows * len(pool), n))
        for i in range(rows):
            x[i * len(pool) : (i + 1) * len(pool)] = np.roll(
                pool, i, axis=1
            )  # other vectors of the same kind
        del x
        subprocess.run(
            [
                *topics,
                "ingest",
                file,
                "--out",
                store,
                "--heldout",
                "0",
                "-q",
                *["--append"] * (part > 0),
            ],
            check=True,
        )
        file.unlink()
        print(json.dumps({"files": part + 1, "ingest cpu": round(spent(), 1)}), flush=True)
    size = sum(f.stat().st_size for f in store.rglob("*") if f.is_file())
    before = spent()
    command = [
        "train",
        "--corpus",
        store,
        "--model",
        work / "wide-model",
        "--algo",
        "gmm",
        "-K",
        components,
        "--covariance",
        "diag",
        "--passes",
        passes,
        "--tol",
        0,
        "--threads",
        1,
        "--mem-limit",
        limit,
        "--force",
    ]
    seen: list[int] = []
    with MemoryGroup(limit) as group:
        process = subprocess.Popen(group.command([*topics, *map(str, command)]))
        while process.poll() is None:
            fields = dict(
                re.findall(
                    r"(VmRSS|VmHWM):\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text()
                )
            )
            seen.append(int(fields.get("VmRSS", 0)) >> 10)
            time.sleep(1)
        print(
            json.dumps(
                {
                    "vectors": 4 * rows * len(pool),
                    "store GB": round(size / 1e9, 1),
                    "code": process.returncode,
                    "cpu": round(spent() - before, 1),
                    "MB by tenth": [
                        max(part.tolist(), default=0) for part in np.array_split(seen, 10)
                    ],
                    "cgroup peak MB, page cache too": group.peak() >> 20,
                }
            )
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("patches", "sweep", "peer", "bnpy", "wide"))
    parser.add_argument("images", nargs="?", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--test", type=int, default=20)
    parser.add_argument("-K", type=int, default=50)
    parser.add_argument("-L", type=int, action="append")
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument("--every", type=int, default=2)
    parser.add_argument("--schedule", default="memoized")
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--init", default="kmeans")
    parser.add_argument("--gib", type=float, default=20)
    parser.add_argument("--limit", default="1G")
    a = parser.parse_args()
    if a.what == "patches":
        patches(a.images, a.work, a.test)
    elif a.what == "sweep":
        sweep(a.work, a.K, a.L or [8], a.passes, a.schedule, a.every)
    elif a.what == "wide":
        wide(a.work, a.K, a.passes, a.gib, a.limit)
    elif a.what == "bnpy":
        bnpy(a.work, a.K, a.passes)
    else:
        peer(a.work, a.K, a.init, a.seconds)


if __name__ == "__main__":
    main()
