"""An executor that makes every visit in a process of its own, and adds up what the processes send
back.

A visit shares nothing with its surroundings: what it is given goes in, what it made comes out. So
it runs anywhere that numbers can be sent to; here they go through a pipe.
"""

from __future__ import annotations

import os
import pickle

from topicstream.training.threads import Threads


class Processes(Threads):
    """``topicstream.train(..., executor="processes")``."""

    def compute(self, visit, out):
        receive, send = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(receive)
            made = super().compute(visit, out)
            with os.fdopen(send, "wb") as pipe:
                pickle.dump((made.delta, made.state, made.stats), pipe)
            os._exit(0)
        os.close(send)
        with os.fdopen(receive, "rb") as pipe:
            deltas, out.state, out.stats = pickle.load(pipe)
        if os.waitpid(child, 0)[1]:
            raise RuntimeError("a visit failed in its process")
        for name, delta in deltas.items():
            if name in out.delta:  # dense rows: into the buffer that the sum is taken from
                out.delta[name][:] = delta
            else:
                out.delta[name] = delta
        return out
