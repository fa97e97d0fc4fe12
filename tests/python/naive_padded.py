"""C7: padding and bucketing, written from src/policy/padded.h and docs/FORMATS.md in plain Python: the buckets are filled anew for
every batch.

    tasks, outcomes = simulate(models, requests, Rules(width=10), executors=1)
"""
import dataclasses

import naive_world

BUCKETS = 512  # of a model


@dataclasses.dataclass
class Rules:
    width: int = 10
    max_batch: int = 0


@dataclasses.dataclass
class Step:
    kind: str
    times: dict  # {length: [ns by rows, from 1]}

    def at(self, length):
        return self.times[min((known for known in self.times if known >= length), default=max(self.times))]


class Model:
    def __init__(self, name, steps, longest_output=1, max_batch=0):
        self.name, self.steps, self.longest_output = name, steps, longest_output
        largest = min(len(row) for step in steps for row in step.times.values())
        self.largest = min(largest, max_batch or largest)

    def blocks(self):
        """Neighbouring recurrent steps of a kind go round together."""
        blocks = []
        for number, step in enumerate(self.steps):
            if blocks and step.kind != "static" and blocks[-1][0] == step.kind:
                blocks[-1][1].append(number)
            else:
                blocks.append((step.kind, [number]))
        return blocks


class World(naive_world.World):
    def __init__(self, models, requests, rules, **world):
        super().__init__(requests, **world)
        self.models, self.rules, self.waiting, self.turn = models, rules, [], -1

    def bucket(self, request):
        """(model, bucket): the buckets of the first model come first."""
        width = self.rules.width
        number = min((max(1, request.length) - 1) // width, BUCKETS - 1) if width else 0
        return self.models.index(request.model) * BUCKETS + number

    def next(self):
        filled = sorted({self.bucket(request) for request in self.waiting})
        return next((bucket for bucket in filled if bucket > self.turn), filled[0])

    def batch(self, bucket):
        batch, rows = [], 0
        for request in sorted(self.waiting, key=lambda r: r.goes_before()):
            if self.bucket(request) == bucket:
                rows += request.rows
                if batch and rows > min(self.rules.max_batch or request.model.largest, request.model.largest):
                    break
                batch.append(request)
        return batch

    def task(self, batch):
        model, number = batch[0].model, self.bucket(batch[0]) % BUCKETS
        length = max(max(1, request.length) for request in batch)
        if self.rules.width and number < BUCKETS - 1:
            length = (number + 1) * self.rules.width
        rounds = {"static": 1, "encoder": length, "decoder": max(max(1, min(r.output, model.longest_output)) for r in batch)}
        rows = sum(request.rows for request in batch)
        steps = []
        for kind, block in model.blocks():
            for _ in range(rounds[kind]):
                steps += [(step, model.steps[step].at(length)[rows - 1]) for step in block]
        return naive_world.Task(model, batch, steps)

    def arrived(self, request):
        self.waiting.append(request)

    def withdrawn(self, request):
        """One that runs leaves at the end of its task."""
        if not request.began:
            self.waiting.remove(request)
            self.leave(request, "cancelled")

    def finished(self, worker, task):
        for request in task.requests:
            self.leave(request, "cancelled" if request.cancel < self.now else None)

    def decide(self):
        for worker in self.up():
            if self.waiting and not self.executors[worker].tasks:
                self.turn = self.next()
                batch = self.batch(self.turn)
                self.waiting = [request for request in self.waiting if request not in batch]
                self.submit(worker, self.task(batch))


def simulate(models, requests, rules, **world):
    """([(start, end, executor, model's name, step, request numbers)] by start and executor, [(ended or None, outcome)])."""
    return World(models, requests, rules, **world).run()
