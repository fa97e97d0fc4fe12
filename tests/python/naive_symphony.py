"""S1-S3, S5: Symphony's rule, eager and timeout with each form of the early drop, written from the rules below in plain Python: no
timers, no heaps. It shares nothing with the program. Whole graphs of one step; no messages take time.

    tasks, outcomes = simulate(models, requests, Rules("symphony", drop="target"), executors=2)

1. A queue is in order of deadline, then of arrival. When a model forms its candidate at t, heads that would be late even alone are
   dropped. Then heads are skipped while t + l(min(m, rows of the queue from the head on)) is after the head's deadline; if that
   would skip all, none is. The batch is the longest prefix behind them that ends in time: t + l(size) <= d, d its head's deadline.
2. latest = d - l(size). exec = t if more rows wait than fit, or if the batch has the model's largest size. Otherwise it is t of eager;
   max(t, min(a + delay, latest)) of timeout, a the head's arrival; max(t, d - l(size + 1)) of symphony.
3. A model forms its candidate at each arrival, when it has been granted, at the deadline of the first of its queue, and with
   `reform_at_latest` 1 ns after latest.
4. While an executor is free, the candidate with exec <= t <= latest of the smallest latest, then of the smaller model, is granted: it is
   formed anew. If its exec is after t then, it waits. Otherwise its skipped heads are dropped and it runs on the free executor of the
   smallest number.
5. m is 1 with `prefix`. With `staggered` it is the largest b, at least 1, with (1 + 1/N) l(b) <= SLO on N executors. With `target` it
   is the number of rows that arrive at the measured rate r while a head waits until frontrun: (SLO - beta) / (alpha + 1/r), rounded
   down, from 1 to the model's largest batch; l(b) = alpha b + beta.
6. r is in rows per 1000 s, rounded down. The start of the executors starts a clock. The first event at or after each multiple of 100 ms counts the
   rows since the last count, those of its own instant included, and divides them by the exact time since. That rate enters the average
   as often as 100 ms fit into that time, rounded to nearest, but at least once: the n-th of the first ten with weight 1/n, later ones
   with 0.095163. An event is an arrival, the end of a task, an instant of rule 3, or an exec while an executor is free.
"""
import dataclasses

import naive_world

WINDOW = 100_000_000


@dataclasses.dataclass
class Rules:
    policy: str
    drop: str = "prefix"
    reform: bool = False
    delay: int = 0


@dataclasses.dataclass
class Model:
    """l(b) = alpha b + beta."""

    name: str
    number: int
    alpha: int
    beta: int
    slo: int
    largest: int

    def latency(self, rows):
        return self.alpha * rows + self.beta


class Queue:
    def __init__(self, model):
        self.model, self.waiting, self.candidate = model, [], None
        self.arrived, self.rate, self.windows = 0, 0, 0


@dataclasses.dataclass
class Candidate:
    skipped: list
    batch: list
    exec_at: int
    latest: int


class World(naive_world.World):
    def __init__(self, models, requests, rules, **world):
        super().__init__(requests, **world)
        self.rules, self.queues, self.fresh, self.counted_at = rules, [Queue(model) for model in models], [], None

    def arrived(self, request):
        queue = self.queues[request.model.number]
        queue.waiting.append(request)
        queue.waiting.sort(key=lambda r: (r.deadline, r.number))
        queue.arrived += request.rows
        if queue not in self.fresh:
            self.fresh.append(queue)

    def withdrawn(self, request):
        raise NotImplementedError

    def finished(self, worker, task):
        for request in task.requests:
            self.leave(request)

    # Rules 5 and 6.
    def count(self):
        if self.counted_at is not None and self.now // WINDOW == self.counted_at // WINDOW:
            return
        passed = 0 if self.counted_at is None else self.now - self.counted_at
        self.counted_at = self.now
        for queue in self.queues if passed else []:
            rate = queue.arrived * 10**12 // passed
            queue.arrived = 0
            for _ in range(max(1, (passed + WINDOW // 2) // WINDOW)):
                queue.windows += 1
                weight = 10**6 // queue.windows if queue.windows <= 10 else 95163
                queue.rate += int((rate - queue.rate) * weight / 10**6)

    def minimum(self, queue):
        model, rows = queue.model, 1
        if self.rules.drop == "staggered":
            count = len(self.executors)
            while rows < model.largest and (count + 1) * model.latency(rows + 1) <= count * model.slo:
                rows += 1
        elif self.rules.drop == "target" and queue.rate:
            rows = int((model.slo - model.beta) / (model.alpha + 10**12 / queue.rate))
        return min(max(rows, 1), model.largest)

    # Rules 1 and 2.
    def form(self, queue):
        model, now, waiting = queue.model, self.now, queue.waiting
        while waiting and now + model.latency(waiting[0].rows) > waiting[0].deadline:
            self.leave(waiting.pop(0), "dropped")
        queue.candidate = None
        if not waiting:
            return
        least, first, rows = self.minimum(queue), 0, [request.rows for request in waiting]
        while first < len(waiting) and now + model.latency(max(rows[first], min(least, sum(rows[first:])))) > waiting[first].deadline:
            first += 1
        first = first if first < len(waiting) else 0
        head, size, count = waiting[first], 0, 0
        while (
            first + count < len(waiting)
            and size + rows[first + count] <= model.largest
            and now + model.latency(size + rows[first + count]) <= head.deadline
        ):
            size, count = size + rows[first + count], count + 1
        latest = head.deadline - model.latency(size)
        exec_at = now
        if first + count == len(waiting) and size < model.largest:
            if self.rules.policy == "timeout":
                exec_at = max(now, min(head.at + self.rules.delay, latest))
            elif self.rules.policy == "symphony":
                exec_at = max(now, head.deadline - model.latency(size + 1))
        queue.candidate = Candidate(waiting[:first], waiting[first : first + count], exec_at, latest)

    # Rules 3 and 4.
    def due(self, queue):
        """The instant of the next forming without an arrival."""
        if not queue.waiting:
            return naive_world.NEVER
        reform = queue.candidate.latest + 1 if self.rules.reform else naive_world.NEVER
        return min(queue.waiting[0].deadline, reform)

    def timers(self):
        idle = any(not self.executors[worker].tasks for worker in self.up())
        instants = [self.due(queue) for queue in self.queues if queue.candidate]
        return instants + [queue.candidate.exec_at for queue in self.queues if queue.candidate and idle]

    def decide(self):
        self.count()
        fresh, self.fresh = self.fresh, []
        for queue in fresh:
            self.form(queue)
        for queue in sorted((q for q in self.queues if self.due(q) <= self.now), key=lambda q: (self.due(q), q.model.number)):
            self.form(queue)
        while True:
            free = [worker for worker in self.up() if not self.executors[worker].tasks]
            ready = [q for q in self.queues if q.candidate and q.candidate.exec_at <= self.now <= q.candidate.latest]
            if not free or not ready:
                return
            self.grant(min(ready, key=lambda q: (self.order(q), q.model.number)), free)

    def order(self, queue):
        """The smallest one of those that are ready is granted first."""
        return queue.candidate.latest

    def grant(self, queue, free):
        self.form(queue)
        taken = queue.candidate
        if not taken or taken.exec_at > self.now:
            return
        for request in taken.skipped:
            queue.waiting.remove(request)
            self.leave(request, "dropped")
        for request in taken.batch:
            queue.waiting.remove(request)
        rows = sum(request.rows for request in taken.batch)
        self.submit(free[0], naive_world.Task(queue.model, taken.batch, [(0, queue.model.latency(rows))]))
        self.form(queue)


def simulate(models, requests, rules, **world):
    """([(start, end, executor, model's name, step, request numbers)] by start and executor, [(ended or None, outcome)])."""
    return World(models, requests, rules, **world).run()
