"""Train another program on an exported corpus and keep its topics:

    python scripts/benchmarks/peers/run.py tomotopy_lda EXPORTED OUT -K 100 --alpha 0.1 --beta 0.01
    --passes 100 --save-at 20,100

writes OUT/phi-PASS.npy (float32[W, K], counts without the prior) at the asked passes and the last,
and OUT/run.json
(seconds of each pass, by the clock and of processor).  Runs under the peers' own Python; needs
nothing of topicstream.  Score with score_phi.py.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from trainers import TRAINERS, Data, Setting


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trainer", choices=sorted(TRAINERS))
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("-K", "--topics", type=int, default=100)
    parser.add_argument("--alpha", type=float, default=0.1, help="per topic")
    parser.add_argument("--beta", type=float, default=0.01, help="per word")
    parser.add_argument("--passes", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--save-at", default="", help="passes at which to write the topics, comma-separated"
    )
    parser.add_argument(
        "--carry",
        action="store_true",
        help="go on from where OUT stopped, in pieces (tomotopy_lda)",
    )
    args = parser.parse_args()
    args.out = args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    meta = json.loads((args.corpus / "meta.json").read_text())
    carry = args.out / "carry.bin"
    before = args.out / "run.json"
    seconds: list[float] = []
    processor: list[float] = []
    if args.carry and carry.exists():
        seconds, processor = (
            json.loads(before.read_text())[name] for name in ("seconds", "processor")
        )
    setting = Setting(args.topics, args.alpha, args.beta, args.passes, args.workers, args.seed)
    if args.carry:
        setting.carry = str(carry)
        setting.done = len(seconds)
    wanted = {int(p) for p in args.save_at.split(",") if p} | {args.passes}
    for step, phi in TRAINERS[args.trainer](Data.read(args.corpus, meta["words"]), setting):
        seconds.append(float(step[0]))
        processor.append(float(step[1]))
        if len(seconds) in wanted:
            np.save(args.out / f"phi-{len(seconds)}.npy", np.asarray(phi(), np.float32))
    record = {
        "trainer": args.trainer,
        "alpha": args.alpha,
        "beta": args.beta,
        "setting": vars(setting),
        "corpus": meta,
        "seconds": seconds,
        "processor": processor,
        "rss_peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    (args.out / "run.json").write_text(json.dumps(record) + "\n")
    print(f"{args.trainer}: {len(seconds)} passes, {sum(seconds):.1f} s, {args.out}")


if __name__ == "__main__":
    main()
