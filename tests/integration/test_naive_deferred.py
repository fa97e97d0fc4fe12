#!/usr/bin/env python3
"""deferred and adaptive run the same batches at the same nanoseconds as an independent Python program
(tests/python/naive_deferred.py), for seconds of load below and above what the executors can serve: several models and executors, rows,
deadlines, cancellations, executors that come later, messages that take time, closed loops, lulls, every option."""
# plain build only: minutes of simulation, whose unit tests run under sanitizers
import collections
import dataclasses
import os
import pathlib
import random
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
import drawn_worlds  # noqa: E402
import naive_deferred as naive  # noqa: E402
import naive_symphony  # noqa: E402
import naive_world  # noqa: E402

SEED = int(os.environ.get("TUTTI_SEED", "20221122"))
CASES = int(os.environ.get("TUTTI_TEST_CASES", "60"))
SWITCHES = "overload", "lookahead", "split", "credit", "closed_loop"
SHARES = "psi_cap", "gap_factor", "slack_limit", "beta_limit"
DEFAULTS = naive.Rules("deferred")


class Counting(naive.World):
    """Counts the decisions that a rule changed."""

    def without(self, queue, free_at, ahead, **rules):
        kept, self.rules = self.rules, dataclasses.replace(self.rules, **rules)
        other = super().candidate(queue, free_at, ahead)
        self.rules = kept
        return other

    def candidate(self, queue, free_at, ahead=0):
        found = super().candidate(queue, free_at, ahead)
        for name in (*SHARES, "target"):
            given = getattr(DEFAULTS, name)
            if getattr(self.rules, name) != given:
                self.effects[name] += found != self.without(queue, free_at, ahead, **{name: given})
        if self.rules.floor in ("staggered", "fixed"):
            self.effects[self.rules.floor] += found != self.without(queue, free_at, ahead, floor="off")
        if self.is_lulled(queue):
            queue.lull = False
            self.effects["lull"] += found != super().candidate(queue, free_at, ahead)
            queue.lull = True
        if self.awaits(queue):
            returns, queue.returns = queue.returns, 0
            self.effects["awaits"] += found != super().candidate(queue, free_at, ahead)
            queue.returns = returns
        return found

    def grant(self, queue, workers):
        ready, chosen = self.ready(), queue.model.number
        self.effects["key"] += self.rules.key == "deadline" and chosen != self.first(ready, lambda c: c.latest - self.earned(c))
        self.effects["credit"] += chosen != self.first(ready, lambda c: c.key + self.earned(c))
        super().grant(queue, workers)

    def first(self, ready, key):
        return min((key(queue.candidate), queue.model.number) for queue in ready)[1]

    def earned(self, candidate):
        """By how much credit makes its key smaller."""
        return (candidate.batch[0].deadline if self.rules.key == "deadline" else candidate.latest) - candidate.key

    def lookahead(self, queue, worker):
        found = super().lookahead(queue, worker)
        self.effects["looks ahead"] += found > 0
        return found

    def is_open(self, queue):
        if queue.candidate and not self.rules.reform and queue.candidate.latest - queue.candidate.lead < self.now:
            self.effects["reform"] += bool(self.offered())
        return super().is_open(queue)

    def must_wait(self, queue, is_early):
        found = super().must_wait(queue, is_early)
        self.effects["waits"] += found and self.rules.defer != "full"
        return found


def drawn_models(prng):
    models = []
    for number in range(prng.randrange(1, 4)):
        alpha, beta, largest = 1000 * prng.randrange(1000, 8000), 1000 * prng.randrange(1000, 30000), prng.choice((4, 16, 64))
        slo = 1000 * int((alpha * prng.randrange(1, 20) + prng.choice((1, 2, 4)) * beta) / 1000)
        slo = naive_world.NEVER if prng.random() < 0.05 else slo
        target = prng.choice((0, 0, prng.randrange(1, 20)))
        models.append(naive_symphony.Model(f"m{number}", number, alpha, beta, slo, largest, target=target))
    return models


def fast_models(prng):
    """Models that can have 64 rows in 100 ms, from which on lulls count."""
    models = []
    for number in range(prng.randrange(1, 4)):
        alpha, beta, largest = 1000 * prng.randrange(100, 1000), 1000 * prng.randrange(500, 8000), prng.choice((32, 64, 128))
        slo = 1000 * int((alpha * prng.randrange(10, 100) + prng.choice((2, 4, 8)) * beta) / 1000)
        models.append(naive_symphony.Model(f"m{number}", number, alpha, beta, slo, largest))
    return models


def capacity_of(models, executors):
    """In rows per ns."""
    size = {m.name: max(1, min(m.largest, (m.slo - m.beta) // 2 // m.alpha)) for m in models}
    return sum(executors * size[m.name] / m.latency(size[m.name]) for m in models) / len(models)


def drawn_requests(prng, models, executors):
    """From a tenth of what the executors can do to twice as much, in bursts or not, for two seconds or so."""
    capacity, wide = capacity_of(models, executors), prng.random() < 0.2
    pace = min(prng.choice((0.1, 0.4, 0.8, 1.0, 1.2, 2.0)) * capacity, 250e-9 / (2 if wide else 1))
    bursts = prng.random() < 0.3
    requests, at = [], 0
    for number in range(prng.randrange(50, 700)):
        at += int(prng.expovariate(pace)) * (prng.choice((0, 0, 3)) if bursts else 1) + 1
        if at > 3_000_000_000:
            break
        model = prng.choice(models)
        rows = prng.randrange(1, min(3, model.largest) + 1) if wide else 1
        requests.append(naive_world.Request(number, at, model, rows=rows, deadline=min(at + model.slo, naive_world.NEVER)))
    drawn_worlds.vary(prng, requests)
    return requests


def drawn_lulls(prng, models, executors):
    """Overloads, after each of which little comes, or nothing, for a while. Requests have several rows, so that they are few."""
    capacity, requests, at, until = capacity_of(models, executors), [], 0, 0
    most = min(8, *(model.largest for model in models))
    for turn in range(prng.randrange(3, 9)):
        pace = capacity * (prng.uniform(1.0, 2.5) if turn % 2 == 0 else prng.choice((0.05, 0.2, 0.4, 0.8)))
        until += prng.randrange(100_000_000, 700_000_000)
        while at < until and len(requests) < 700:
            model, rows = prng.choice(models), prng.randrange(1, most + 1)
            requests.append(naive_world.Request(len(requests), at, model, rows=rows, deadline=at + model.slo))
            at += int(prng.expovariate(pace / (most / 2))) + 1
    return requests


def drawn_groups(prng, models):
    """Requests as in closed loops: groups of mostly as many, one after another."""
    requests, at, model, count, jitter = [], 0, models[0], prng.randrange(1, 5), prng.choice((1, 1_000_000))
    for _ in range(prng.randrange(10, 60)):
        at += int(model.latency(count) * prng.choice((0.4, 1.2, 1.2, 1.2, 2.0))) + min(model.slo, 10**9) // 2
        for _ in range(count if prng.random() < 0.9 else prng.randrange(1, 5)):
            at += prng.randrange(jitter) + 1
            requests.append(naive_world.Request(len(requests), at, model, deadline=min(at + model.slo, naive_world.NEVER)))
    return requests


def drawn_turns(prng, models):
    """Clients in two groups, of which one waits while the other's batch runs. Each sends its next request soon after the answer."""
    requests, model, at = [], models[0], 0
    sizes = [prng.randrange(1, min(5, model.largest) + 1) for _ in range(2)]
    model.slo = model.latency(max(sizes)) * prng.randrange(2, 8)
    for turn in range(prng.randrange(15, 60)):
        for _ in range(sizes[turn % 2] if prng.random() < 0.98 else prng.randrange(1, 6)):
            late = prng.choice((0, 0, 0, 0, 0, prng.randrange(model.latency(1))))
            requests.append(naive_world.Request(0, at + late + prng.randrange(model.latency(1) // 4), model))
        at += model.latency(sizes[turn % 2]) + prng.choice((0, 0, 0, 0, model.latency(1)))
    requests.sort(key=lambda request: request.at)
    for number, request in enumerate(requests):
        request.number, request.deadline = number, request.at + model.slo
    return requests


def drawn_rules(prng):
    often = lambda: prng.random() < 0.8  # noqa: E731
    rules = naive.Rules(
        prng.choice(("deferred", "adaptive")),
        prng.choice(("sustainable", "sustainable", "bmax", "off", "staggered", "fixed")),
        prng.choice(("partial", "partial", "full", "none")),
        overload=often(),
        lookahead=often(),
        split=often(),
        credit=often(),
        reform=often(),
        closed_loop=prng.random() < 0.5,
        target=prng.randrange(1, 20),
        key=prng.choice(("latest", "latest", "deadline")),
    )
    if prng.random() < 0.5:
        rules.psi_cap = prng.choice((0, 1000, prng.randrange(1001)))
        rules.gap_factor = prng.choice((0, prng.randrange(1000), prng.randrange(20000)))
        rules.slack_limit = prng.choice((0, 1000, prng.randrange(1001)))
        rules.beta_limit = prng.choice((0, prng.randrange(1, 5000)))
        rules.credit_step = prng.choice((0, prng.randrange(10**4), prng.randrange(10**8)))
    return rules


def served(models, asked, rules, around):
    options = {"floor": rules.floor, "defer": rules.defer, "key": rules.key, "target": rules.target}
    options.update((switch, "on" if getattr(rules, switch) else "off") for switch in SWITCHES)
    options.update((share, getattr(rules, share) / 1000) for share in SHARES)
    options.update(reform_at_latest="on" if rules.reform else "off", credit_step=f"{rules.credit_step}ns")
    return drawn_worlds.run_linear(models, asked, rules.policy, options, **around)


def drawn_load(prng):
    """Any world."""
    models, rules, around = drawn_models(prng), drawn_rules(prng), drawn_worlds.drawn_around(prng, 20_000_000, 3_000_000)
    if prng.random() < 0.1:
        around["executors"] = [0] * prng.choice((18, 24, 66))
    if prng.random() < 0.2:
        return models, rules, around, drawn_groups(prng, models)
    return models, rules, around, drawn_requests(prng, models, len(around["executors"]))


def drawn_clients(prng):
    """adaptive with closed loops on one executor."""
    models, rules, around = drawn_models(prng), drawn_rules(prng), drawn_worlds.drawn_around(prng, 5_000_000, 1_000_000)
    rules.policy, rules.closed_loop, around["executors"] = "adaptive", True, around["executors"][:1]
    rules.defer = prng.choice(("partial", "partial", rules.defer))
    return models, rules, around, drawn_turns(prng, models) if prng.random() < 0.8 else drawn_groups(prng, models)


def drawn_bursts(prng):
    """Lulls."""
    models, rules, around = fast_models(prng), drawn_rules(prng), drawn_worlds.drawn_around(prng, 5_000_000, 500_000, 0.7)
    rules.floor, rules.overload = prng.choice(("sustainable", "sustainable", rules.floor)), prng.random() < 0.9
    around["executors"] = around["executors"][:2]
    return models, rules, around, drawn_lulls(prng, models, len(around["executors"]))


def drawn_crowds(prng):
    """Many requests at once, most of which are lost, so that lookahead counts: more than 512, or more than 17 or 64 executors."""
    rules, count = drawn_rules(prng), prng.choice((1, 2, 3, 18, 24, 66))
    alpha, beta, largest = 1000 * prng.randrange(500, 4000), 1000 * prng.randrange(1000, 30000), prng.choice((4, 8, 16))
    largest = min(largest, 256 // count)
    slo = (alpha * largest + beta) * prng.randrange(2, 5)
    model = naive_symphony.Model("m", 0, alpha, beta, slo, largest)
    rules.floor, rules.target, rules.lookahead = prng.choice(("fixed", "staggered", "sustainable")), prng.randrange(1, largest + 1), True
    requests, at = [], 0
    for _ in range(prng.randrange(1, 4)):
        at += prng.randrange(2 * slo)
        spread = slo // prng.choice((200, 500, 1000, 2000))
        for _ in range(prng.randrange(*((500, 900) if count < 3 or count > 64 else (50, 400)))):
            at += prng.randrange(spread) + 1
            requests.append(naive_world.Request(len(requests), at, model, rows=prng.choice((1, 1, 2)), deadline=at + slo))
    return [model], rules, {"executors": [0] * count, "depth": 1}, requests


class NaiveDeferred(unittest.TestCase):
    def setUp(self):
        self.outcomes, self.effects = set(), collections.Counter()

    def agree(self, drawn, cases):
        count = 0
        for seed in range(SEED, SEED + cases):
            models, rules, around, asked = drawn(random.Random(seed))
            world = Counting(models, asked, rules, **around)
            expected, found = world.run(), served(models, asked, rules, around)
            for ours, theirs in zip(found, expected):
                drawn_worlds.compare(self, f"{drawn.__name__}, seed {seed}: {rules}, {around}", ours, theirs)
            count += len(found[0])
            self.outcomes |= {(rules.floor, outcome) for _, outcome in found[1]}
            self.effects += world.effects
        print(f"{drawn.__name__}: {cases} worlds, {count} batches alike")
        self.assertGreater(count, 10 * cases)

    def test_drawn_worlds(self):
        self.agree(drawn_load, CASES + CASES // 3)
        self.agree(drawn_clients, CASES)
        self.agree(drawn_bursts, CASES // 2)
        self.agree(drawn_crowds, CASES // 4)
        print(dict(self.effects))
        for floor in "sustainable", "bmax", "off", "staggered", "fixed":
            self.assertIn((floor, "dropped"), self.outcomes)
        self.assertIn("cancelled", {outcome for _, outcome in self.outcomes})
        for rule in (*SHARES, "credit", "key", "target", "staggered", "fixed", "reform", "ahead", "passed", "rest"):
            self.assertGreater(self.effects[rule], 0, rule)
        for rule in "awaits", "waits", "kept", "lull", "restart", "looks ahead":
            self.assertGreater(self.effects[rule], 0, rule)


if __name__ == "__main__":
    print(f"seed {SEED}")
    unittest.main()
