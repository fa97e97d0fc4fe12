"""The world of the naive models by request and by cell, written from docs/FORMATS.md and src/sim/simulation.h in plain Python.
It shares nothing with the program but the step times.

A policy is a subclass with `arrived`, `finished`, `withdrawn` and `decide`; it answers by `submit` and `leave`. Virtual time
in whole nanoseconds. Within an instant: executors appear, endings in order of executor, arrivals, cancellations, one decision.
"""
import dataclasses

NEVER = 1 << 62


@dataclasses.dataclass(eq=False)
class Request:
    number: int
    at: int
    model: object
    length: int = 1
    output: int = 1
    rows: int = 1
    priority: int = 0
    deadline: int = NEVER
    cancel: int = NEVER
    tree: object = None  # nested pairs, a leaf is None
    exit_step: int = -1
    exit_to: int = 0
    began: bool = False
    left: bool = False
    ended: tuple = (None, None)  # (instant, outcome), as in the file of outcomes

    def goes_before(self):
        """Its place in a queue by priority."""
        return self.priority, self.number


@dataclasses.dataclass
class Network:
    """S4: between a decision and its executor."""

    control: int = 0
    data: int = 0

    def delay(self, rows):
        return self.control + self.data * rows


@dataclasses.dataclass(eq=False)
class Executor:
    appears: int = 0
    tasks: list = dataclasses.field(default_factory=list)
    last: object = None  # its last task that has begun


@dataclasses.dataclass(eq=False)
class Task:
    model: object
    requests: list  # of each row of the batch; by cells one may be there several times
    steps: list  # (step, ns)
    extra: int = 0  # what its first step takes besides
    ready: int = 0  # not before this instant
    start: int = -1

    @property
    def rows(self):
        return sum(request.rows for request in self.requests)

    @property
    def end(self):
        return self.start + self.extra + sum(ns for _, ns in self.steps)


class World:
    def __init__(self, requests, executors=1, depth=1, network=None):
        """executors: their number, or the instant at which each appears."""
        self.requests, self.depth, self.network = requests, depth, network or Network()
        self.executors = [Executor(at) for at in ([0] * executors if isinstance(executors, int) else executors)]
        self.now, self.log = -1, []

    # What a policy answers.
    def submit(self, worker, task, not_before=0):
        """Queues the task on the executor. Its message travels while earlier tasks run."""
        executor = self.executors[worker]
        assert len(executor.tasks) < self.depth
        task.ready = max(not_before, self.now + self.network.delay(task.rows))
        for request in task.requests:
            request.began = True
        executor.tasks.append(task)
        if len(executor.tasks) == 1:
            self.begin(executor)

    def leave(self, request, outcome=None):
        """The request ends now: computed, or as `outcome` says."""
        assert not request.left
        request.left = True
        request.ended = self.now, outcome or ("ok" if self.now <= request.deadline else "late")

    def up(self):
        return [worker for worker, executor in enumerate(self.executors) if executor.appears <= self.now]

    # What a policy may know or override.
    def extra(self, executor, task):
        """What the task takes besides its steps."""
        return 0

    def timers(self):
        """Instants at which to decide even if nothing happens."""
        return []

    # What happens.
    def begin(self, executor):
        task = executor.tasks[0]
        task.start = max(self.now, task.ready)
        task.extra = self.extra(executor, task)
        executor.last = task

    def end(self, worker):
        executor = self.executors[worker]
        task = executor.tasks.pop(0)
        numbers, at, extra = [request.number for request in task.requests], task.start, task.extra
        for step, ns in task.steps:
            self.log.append((at, at + extra + ns, worker, task.model.name, step, numbers))
            at, extra = at + extra + ns, 0
        self.finished(worker, task)
        if executor.tasks:
            self.begin(executor)

    def instants(self, coming, cancels):
        yield from (executor.appears for executor in self.executors if executor.appears > self.now)
        yield from (executor.tasks[0].end for executor in self.executors if executor.tasks)
        yield from (request.at for request in coming[:1])
        yield from (request.cancel for request in cancels if not request.left)
        yield from (at for at in self.timers() if at > self.now)

    def run(self):
        """Returns (tasks, outcomes), as drawn_worlds.served does."""
        coming = list(self.requests)
        cancels = sorted((r for r in self.requests if r.cancel < NEVER), key=lambda r: (r.cancel, r.number))
        while (now := min(self.instants(coming, cancels), default=NEVER)) < NEVER:
            self.now = now
            for worker, executor in enumerate(self.executors):
                if executor.tasks and executor.tasks[0].end == now:
                    self.end(worker)
            while coming and coming[0].at == now:
                self.arrived(coming.pop(0))
            while cancels and cancels[0].cancel <= now:
                request = cancels.pop(0)
                if not request.left:
                    self.withdrawn(request)
            self.decide()
        assert all(request.left for request in self.requests)
        return sorted(self.log, key=lambda row: (row[0], row[2])), [request.ended for request in self.requests]
