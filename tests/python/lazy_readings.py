#!/usr/bin/env python3
"""L1: what other readings of LazyBatching give for GNMT, in the naive model. The paper does not say whether requests at the
same node of a recurrent block but at different timesteps share a batch, nor which go first when members of a batch end
the block at different times.

    tests/python/lazy_readings.py [SECONDS [RATE ..]]     mean latency, p99 and late share of each; some minutes

  as built    the same node is the same weights: any timestep merges; members with more of the block to go are on top
  unrolled    every timestep is a node of its own: newcomers catch up to it, too
  through     as built, but members that are through a block continue first, and the others after them
  even        as built, with every sentence of 15 words, input and output
"""
import csv
import pathlib
import random
import sys

import naive_lazybatching as naive

DATA = pathlib.Path(__file__).resolve().parents[2] / "data"
SLO_NS = 100000000
EVEN = 15


def progress(entry):
    step, behind, model = entry[0].step, entry[0].behind, entry[0].model
    return (step if model.kinds[step] == "static" else model.block_first(step), behind, step)


class UnrolledStack(naive.Stack):
    @staticmethod
    def same_place(below, top):
        return progress(below) == progress(top)

    @staticmethod
    def rank(request):
        return progress([request])


class Unrolled(naive.Scheduler):
    stack_class = UnrolledStack

    def start(self, stack, now):
        super().start(stack, now)
        top, below = stack.entries[-1], stack.entries[-2] if len(stack.entries) >= 2 else None
        stack.predicted = max(1, stack.span(top, top[0].model.steps))
        stack.consumed = sum(r.alone for r in top)
        meets = below and progress(below) >= progress(top)
        stack.to = (below[0].step, below[0].behind) if meets else (top[0].model.steps, 0)
        return stack.to


class UnrolledTask(naive.Task):
    def ends(self):
        done, behind = self.step, self.behind[0] if self.model.kinds[self.step] != "static" else 0
        onward = (done + 1, behind)
        if self.model.ends_block(done):
            onward = (self.model.block_first(done), behind + 1) if min(self.left) > 1 else (done + 1, 0)
        return self.parts() or onward == self.to or onward[0] == self.model.steps


class ThroughStack(naive.Stack):
    def settle(self, batch):
        super().settle(batch)
        parts = len({r.step for r in batch if r.ended_at < 0})
        if parts > 1:
            self.entries[-parts:] = self.entries[-parts:][::-1]


class Through(naive.Scheduler):
    stack_class = ThroughStack


def simulated(model, arrivals, rules, scheduler=naive.Scheduler, task=naive.Task):
    requests = naive.simulate(model, arrivals, rules, scheduler, task)
    latencies = sorted((r.ended_at - r.at) / 1e6 for r in requests)
    late = sum(r.ended_at > r.deadline for r in requests) / len(requests)
    p99 = latencies[len(latencies) * 99 // 100]
    return f"{sum(latencies) / len(latencies):8.1f} {p99:8.1f} {late:6.3f}"


def drawn(rate, seconds, english, german):
    prng, at, arrivals = random.Random(f"readings {rate}"), 0, []
    while True:
        at += max(1, int(prng.expovariate(rate) * 1e9))
        if at > seconds * 1e9:
            return arrivals
        percentile = prng.randrange(1, 101)
        arrivals.append((at, english[percentile], german[percentile], at + SLO_NS))


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    rates = [float(word) for word in sys.argv[2:]] or [256, 500, 1000]
    with open(DATA / "wmt19-lengths.csv", encoding="ascii", newline="") as file:
        rows = list(csv.DictReader(file))
    english, german = ([int(row[column]) for row in rows] for column in ("english", "german"))
    model = naive.Model.read(DATA / "npu-gnmt.csv", 64, german)
    even_model = naive.Model.read(DATA / "npu-gnmt.csv", 64, [EVEN] * 101)
    print("  r/s  slack, patience   reading       mean ms   p99 ms   late")
    for rate in rates:
        arrivals = drawn(rate, seconds, english, german)
        even = [(at, EVEN, EVEN, deadline) for at, _, _, deadline in arrivals]
        for rules in (naive.Rules(), naive.Rules(slack="curves"), naive.Rules(slack="curves", patience=1000)):
            head = f"{rate:5.0f}  {rules.slack + ', ' + str(rules.patience // 1000):17s} "
            print(head, f"{'as built':10s}", simulated(model, arrivals, rules), flush=True)
            if rules.patience == 0:  # its price is reckoned for entries that merge at any timestep
                print(head, f"{'unrolled':10s}", simulated(model, arrivals, rules, Unrolled, UnrolledTask), flush=True)
            print(head, f"{'through':10s}", simulated(model, arrivals, rules, Through), flush=True)
            print(head, f"{'even':10s}", simulated(even_model, even, rules), flush=True)


if __name__ == "__main__":
    main()
