"""S1-S5: Symphony's rule, eager and timeout with each form of the early drop, written from the rules below in plain Python: no timers,
no heaps. It shares nothing with the program. Whole graphs of one step.

    tasks, outcomes = simulate(models, requests, Rules("symphony", drop="target"), executors=2)

1. A queue is in order of deadline, then of arrival. When a model forms its candidate at t, heads that would be late even alone are
   dropped. Then heads are skipped while t + l(min(m, rows of the queue from the head on)) is after the head's deadline; if that
   would skip all, none is. The batch is the longest prefix behind them that ends in time: t + l(size) <= d, d its head's deadline.
2. latest = d - l(size). exec = t if more rows wait than fit, if the batch has the model's largest size, or if there is no deadline.
   Otherwise it is t of eager; max(t, min(a + delay, latest)) of timeout, a the head's arrival; max(t, d - l(size + 1)) of symphony.
   delay is the model's own, or the share of d - a, or the option of that name, in this order.
3. A model forms its candidate at each arrival and cancellation, when it has been granted, at the deadline of the first of its queue,
   and with `reform_at_latest` 1 ns after latest.
4. While an executor is free, the candidate with exec <= t <= latest of the smallest latest, then of the smaller model, is granted: it is
   formed anew. If its exec is after t then, it waits. Otherwise its skipped heads are dropped and it runs on the free executor of the
   smallest number.
5. m is 1 with `prefix`. With `staggered` it is the largest b, at least 1, with (1 + 1/N) l(b) <= SLO on the N executors that are up.
   With `target` it is the number of rows that arrive at the measured rate r while a head waits until frontrun:
   (SLO - beta) / (alpha + 1/r), rounded down, from 1 to the model's largest batch; l(b) = alpha b + beta, 1/r in whole ns, rounded
   down. A model without an objective has m = 1.
6. r is in rows per 1000 s, rounded down. The first event starts a clock. The first event at or after each multiple of 100 ms counts
   the rows since the last count, those of its own instant included, and divides them by the exact time since. That rate enters the
   average as often as 100 ms fit into that time, rounded to nearest, but at least once: the n-th of the first ten with weight 1/n,
   later ones with 0.095163. An event is the start of an executor, an arrival, a cancellation, the end of a task, an instant of rule 3,
   or one at which rule 4 or 7 may grant for the first time.
7. Messages take c + e rows. In rules 1 and 2 a batch of b rows starts at start(b) = t + c + e b: it stands for t beside l(b), and
   start(size) for the t of exec. In rule 5 the numerator is less by c, and the denominator more by e. The lead of a candidate is
   c + e size. It is ready from exec - lead on; it is too late, and formed anew, after latest - lead. With symphony and e > 0 a
   batch that more rows would make late may wait for them, because they start later: exec = max(start(size), d - l(size + b)),
   b the rows of the next request, if the model's largest batch has room for these.
   With a depth of 2 or more an executor that runs one task may take another one, for the end of the first. Candidates count that are
   ready, not too late, and whose latest is not before the first executor is free. The one of the smallest latest goes to the executor
   of the smallest number that is free by the longest lead of these candidates from t on, and by its own latest. It is formed anew for
   that executor: start(b) is not before its end. It waits if its exec is after start(size) then, and is the candidate, formed so,
   until rule 3 forms another one.
"""
import collections
import dataclasses

import naive_world

WINDOW = 100_000_000
NEVER = naive_world.NEVER


@dataclasses.dataclass
class Rules:
    policy: str
    drop: str = "prefix"
    reform: bool = False
    delay: int = 0
    share: int = 0  # thousandths


@dataclasses.dataclass
class Model:
    """l(b) = alpha b + beta."""

    name: str
    number: int
    alpha: int
    beta: int
    slo: int
    largest: int
    delay: int = 0
    target: int = 0

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
    lead: int

    @property
    def size(self):
        return sum(request.rows for request in self.batch)


class World(naive_world.World):
    def __init__(self, models, requests, rules, **world):
        super().__init__(requests, **world)
        self.rules, self.queues, self.fresh, self.counted_at = rules, [Queue(model) for model in models], [], None
        self.limit = 2 if self.network.delay(1) and self.depth > 1 else 1  # tasks on an executor
        self.effects = collections.Counter()  # decisions that rules changed, by name

    def refresh(self, queue):
        if queue not in self.fresh:
            self.fresh.append(queue)

    def arrived(self, request):
        queue = self.queues[request.model.number]
        queue.waiting.append(request)
        queue.waiting.sort(key=lambda r: (r.deadline, r.number))
        queue.arrived += request.rows
        self.refresh(queue)

    def withdrawn(self, request):
        """One that runs leaves at the end of its task."""
        if not request.began:
            self.queues[request.model.number].waiting.remove(request)
            self.leave(request, "cancelled")
            self.refresh(self.queues[request.model.number])

    def finished(self, worker, task):
        for request in task.requests:
            self.leave(request, "cancelled" if request.cancel < self.now else None)

    def drop(self, queue, request):
        queue.waiting.remove(request)
        self.leave(request, "dropped")

    # Rules 5 and 6.
    def count(self):
        if self.counted_at is not None and self.now // WINDOW == self.counted_at // WINDOW:
            return
        passed = 0 if self.counted_at is None else self.now - self.counted_at
        self.counted_at = self.now
        for queue in self.queues if passed else []:
            rows, queue.arrived = queue.arrived, 0
            if self.is_restart(queue, rows, passed):
                queue.windows = 0
            rate = rows * 10**12 // passed
            for _ in range(max(1, (passed + WINDOW // 2) // WINDOW)):
                queue.windows += 1
                weight = 10**6 // queue.windows if queue.windows <= 10 else 95163
                queue.rate += int((rate - queue.rate) * weight / 10**6)

    def is_restart(self, queue, rows, passed):
        """True if the average begins anew."""
        return False

    def gather(self, model, rate):
        """The rows that arrive until frontrun, in thousandths, rounded down."""
        if model.slo == NEVER or rate == 0:
            return 1000
        gather = 1000 * (model.slo - model.beta - self.network.control) // (model.alpha + self.network.data + 10**12 // rate)
        return max(1000, min(gather, 1000 * model.largest))

    def staggered(self, model):
        count, rows = len(self.up()), 1
        while model.slo < NEVER and rows < model.largest and (count + 1) * model.latency(rows + 1) <= count * model.slo:
            rows += 1
        return rows

    def minimum(self, queue):
        if self.rules.drop == "staggered":
            return self.staggered(queue.model)
        return self.gather(queue.model, queue.rate) // 1000 if self.rules.drop == "target" else 1

    # Rules 1, 2 and 7.
    def start(self, rows, free_at):
        return max(self.now + self.network.delay(rows), free_at)

    def is_late(self, queue, rows, head, free_at):
        return self.start(rows, free_at) + queue.model.latency(rows) > head.deadline

    def skip(self, queue, least, first, free_at):
        """The number of heads to skip, from `first` on."""
        rows = [request.rows for request in queue.waiting]
        while first < len(rows):
            if not self.is_late(queue, max(rows[first], min(least, sum(rows[first:]))), queue.waiting[first], free_at):
                return first
            first += 1
        return 0

    def prefix(self, queue, first, free_at):
        """The largest batch from there on: (rows, requests)."""
        size, waiting = 0, queue.waiting
        for count, request in enumerate(waiting[first:]):
            size += request.rows
            if size > queue.model.largest or self.is_late(queue, size, waiting[first], free_at):
                return size - request.rows, count
        return size, len(waiting) - first

    def form(self, queue, free_at=0):
        while queue.waiting and self.is_late(queue, queue.waiting[0].rows, queue.waiting[0], free_at):
            self.drop(queue, queue.waiting[0])
        queue.candidate = self.candidate(queue, free_at) if queue.waiting else None

    def publish(self, queue):
        """Forms the candidate for the executors that are free."""
        self.form(queue)

    def candidate(self, queue, free_at):
        model, waiting = queue.model, queue.waiting
        first = self.skip(queue, self.minimum(queue), 0, free_at)
        head, (size, count) = waiting[first], self.prefix(queue, first, free_at)
        exec_at, latest = self.start(size, free_at), NEVER
        if head.deadline < NEVER:
            latest = head.deadline - model.latency(size)
            if first + count == len(waiting) and size < model.largest:
                if self.rules.policy == "timeout":
                    exec_at = max(exec_at, min(head.at + self.timeout(head), latest))
                elif self.rules.policy == "symphony":
                    exec_at = max(exec_at, head.deadline - model.latency(size + 1))
            elif self.rules.policy == "symphony":
                exec_at = max(exec_at, self.before_rest(queue, head, size, waiting[first + count :]))
        return Candidate(waiting[:first], waiting[first : first + count], exec_at, latest, self.network.delay(size))

    def timeout(self, head):
        if head.model.delay or not self.rules.share or head.deadline == NEVER:
            return head.model.delay or self.rules.delay
        self.effects["share"] += 1
        return (head.deadline - head.at) * self.rules.share // 1000

    def before_rest(self, queue, head, size, rest):
        if self.network.data and rest and size + rest[0].rows <= queue.model.largest:
            frontrun = head.deadline - queue.model.latency(size + rest[0].rows)
            self.effects["rest"] += frontrun > self.start(size, 0)
            return frontrun
        return 0

    # Rules 3, 4 and 7.
    def due(self, queue):
        """The instant of the next forming without an arrival."""
        if not queue.waiting:
            return NEVER
        candidate = queue.candidate
        reform = candidate.latest - candidate.lead + 1 if self.rules.reform and candidate.latest < NEVER else NEVER
        return min(queue.waiting[0].deadline, reform)

    def free_at(self, worker):
        tasks, at = self.executors[worker].tasks, self.now
        for task in tasks:
            at = task.end if task is tasks[0] else max(at, task.ready) + sum(ns for _, ns in task.steps)
        return at

    def offered(self):
        return [worker for worker in self.up() if len(self.executors[worker].tasks) < self.limit]

    def is_open(self, queue):
        candidate = queue.candidate
        return candidate and candidate.exec_at - candidate.lead <= self.now <= candidate.latest - candidate.lead

    def ready(self):
        """The candidates that count."""
        first = min((self.free_at(worker) for worker in self.offered()), default=NEVER + 1)
        return [queue for queue in self.queues if self.is_open(queue) and queue.candidate.latest >= first]

    def timers(self):
        candidates, instants = [queue.candidate for queue in self.queues if queue.candidate], []
        if self.offered():
            instants += [candidate.exec_at - candidate.lead for candidate in candidates]
            lead = max((queue.candidate.lead for queue in self.ready()), default=-NEVER)
            instants += [self.free_at(worker) - lead for worker in self.offered() if self.executors[worker].tasks]
        return instants + [self.due(queue) for queue in self.queues if queue.candidate]

    def decide(self):
        self.count()
        fresh, self.fresh = self.fresh, []
        for queue in fresh:
            self.publish(queue)
        for queue in sorted((q for q in self.queues if self.due(q) <= self.now), key=lambda q: (self.due(q), q.model.number)):
            self.publish(queue)
        while ready := self.ready():
            first = min(ready, key=lambda q: (self.order(q), q.model.number))
            until = min(self.now + max(queue.candidate.lead for queue in ready), first.candidate.latest)
            workers = [worker for worker in self.offered() if self.free_at(worker) <= until]
            if not workers:
                return
            passed = [queue for queue in self.queues if self.is_open(queue) and queue not in ready]
            self.effects["passed"] += any(self.order(queue) < self.order(first) for queue in passed)
            self.grant(first, workers)

    def order(self, queue):
        """The smallest one of those that are ready is granted first."""
        return queue.candidate.latest

    def grant(self, queue, workers):
        free_at = self.free_at(workers[0])
        self.form(queue, free_at)
        taken = queue.candidate
        if taken and taken.exec_at > self.start(taken.size, free_at):
            self.effects["kept"] += 1
            return
        if taken:
            for request in taken.skipped:
                self.drop(queue, request)
            self.run_batch(queue, workers[0], taken.batch, free_at)
        self.publish(queue)

    def run_batch(self, queue, worker, batch, free_at):
        """Returns its start and how long it runs."""
        for request in batch:
            queue.waiting.remove(request)
        rows = sum(request.rows for request in batch)
        at, span = self.start(rows, free_at), queue.model.latency(rows)
        self.effects["ahead"] += free_at > self.now
        self.submit(worker, naive_world.Task(queue.model, batch, [(0, span)]), at)
        return at, span


def simulate(models, requests, rules, **world):
    """([(start, end, executor, model's name, step, request numbers)] by start and executor, [(ended or None, outcome)])."""
    return World(models, requests, rules, **world).run()
