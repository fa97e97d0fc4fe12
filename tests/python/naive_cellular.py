"""C1, C3-C5: cellular batching, written from the paper's algorithm 1 and src/policy/cellular.h in plain Python: no queue by
type, no list per executor; every count is made again over all subgraphs. It shares nothing with the program but the step
times. A schedule that both give is thus no defect of either's bookkeeping.

    tasks, outcomes = simulate(models, requests, Rules(max_tasks=5), executors=2)
"""
import dataclasses

import naive_cells
import naive_world

PUBLISHED_TASKS = 5  # MaxTasksToSubmit
STAND_FOR_ALL = 64  # requests whose rest is looked at


@dataclasses.dataclass
class Rules:
    max_tasks: int = 0
    min_batch: int = 1
    ahead: int = 0
    choose: str = "type"
    drop: str = "none"


class World(naive_cells.World):
    def __init__(self, models, requests, rules, **world):
        super().__init__(models, requests, **world)
        self.models, self.rules, self.waiting, self.pins = models, rules, [], {}

    # Algorithm 1.
    def available(self, kind, worker):
        """Subgraphs whose ready nodes the worker may run, in order."""
        ready = (s for s in self.subgraphs if s.type is kind and s.ready and (not s.flying or self.pins[s] == worker))
        return sorted(ready, key=naive_cells.Subgraph.goes_before)

    def ready_rows(self, kind, worker):
        return sum(len(s.ready) * s.request.rows for s in self.available(kind, worker))

    def running(self, kind):
        return sum(task.type is kind for executor in self.executors for task in executor.tasks)

    def first(self, kind, worker):
        return self.available(kind, worker)[0]

    def urgency(self, kind, worker):
        return self.first(kind, worker).request.deadline if self.rules.choose == "slack" else 0

    def outdone(self, kind, chosen, worker):
        """In each of its models a later type goes before it."""
        mine = self.urgency(kind, worker)
        before = [other for other in chosen if self.urgency(other, worker) <= mine]
        return all(any(other.follows(kind, model) for other in before) for model, _ in kind.places)

    # choose: pays.
    def nodes_left(self, subgraph):
        """That it has, or is believed to have."""
        left, percentiles = len(subgraph.nodes) - len(subgraph.taken), subgraph.request.model.percentiles
        if not subgraph.is_open or not percentiles:
            return left
        longer = [p for p in range(101) if percentiles[p] > len(subgraph.taken)] or [100]
        return min(left, max(1, percentiles[(longer[0] + 100) // 2] - len(subgraph.taken)))

    def rest(self, kind, worker):
        """Time per request that the type lets go on, if it runs until the k-th has: the least over k."""
        lefts, seen, last, length = [], 0, None, 0
        for subgraph in self.available(kind, worker):
            if len(lefts) == STAND_FOR_ALL or seen >= kind.largest:
                break
            if subgraph.request is not last:
                lefts.append(self.nodes_left(subgraph))
            seen += len(subgraph.ready) * subgraph.request.rows
            last = subgraph.request
        rows = min(self.ready_rows(kind, worker), kind.largest)
        task = sum(step.times[rows] for step in kind.steps)
        least = min(left * task // (k + 1) for k, left in enumerate(sorted(lefts)))
        return least * seen // rows if seen < rows else least

    def paying(self, kinds, worker):
        """One type of each model; of one that models share, if it is so in any of them."""
        chosen = set()
        for model in self.models:
            mine = [(first, kind) for kind in kinds for m, first in kind.places if m is model]
            full = [(first, kind) for first, kind in mine if self.ready_rows(kind, worker) >= kind.largest]
            if full:
                chosen.add(max(full, key=lambda place: place[0])[1])
            elif mine:
                chosen.add(min(mine, key=lambda place: (self.rest(place[1], worker), -place[0]))[1])
        return [kind for kind in kinds if kind in chosen]

    def schedule(self, worker):
        kinds = [kind for kind in self.types if self.ready_rows(kind, worker) > 0]
        if self.rules.choose == "pays":
            kinds = self.paying(kinds, worker)
        chosen = [kind for kind in kinds if self.ready_rows(kind, worker) >= kind.largest]
        chosen = chosen or [kind for kind in kinds if self.running(kind) == 0]
        chosen = chosen or kinds
        best = [kind for kind in chosen if self.rules.choose == "pays" or not self.outdone(kind, chosen, worker)]
        return min(best, key=lambda kind: (self.urgency(kind, worker), self.first(kind, worker).released), default=None)

    def visit(self, worker, kind):
        least = max(kind.steps[0].min_batch, self.rules.min_batch)
        for count in range(self.rules.max_tasks or min(PUBLISHED_TASKS, self.depth)):
            ready = self.ready_rows(kind, worker)
            if len(self.executors[worker].tasks) == self.depth or ready == 0:
                break
            if count > 0 and ready < min(least, kind.largest):
                break
            task = naive_cells.CellTask(kind, naive_cells.filled(kind, self.available(kind, worker)))
            for subgraph, _ in task.items:
                self.pins[subgraph] = worker
            self.take(worker, task)

    # Requests that have not begun.
    def latest(self, request):
        """When it may start alone and be in time, at the latest."""
        if request.deadline == naive_world.NEVER:
            return naive_world.NEVER
        return request.deadline - self.network.delay(request.rows) - request.model.alone(request.rows, request.length)

    def heads(self):
        """The first of each model's queue, by deadline."""
        for model in self.models:
            waiting = [r for r in self.waiting if r.model is model and not r.began and not r.left]
            yield from sorted(waiting, key=lambda r: (r.deadline, r.number))[:1]

    def timers(self):
        return [self.latest(head) + 1 for head in self.heads()] if self.rules.drop == "deadline" else []

    def drop(self):
        while self.rules.drop == "deadline" and (hopeless := [head for head in self.heads() if self.now > self.latest(head)]):
            for request in hopeless:
                self.leave(request, "dropped")

    def arrived(self, request):
        super().arrived(request)
        self.waiting.append(request)

    def decide(self):
        self.drop()
        for worker in self.up():
            while len(self.executors[worker].tasks) <= self.rules.ahead:
                kind = self.schedule(worker)
                if kind is None:
                    break
                self.visit(worker, kind)
        self.drop()  # others are the first now


def simulate(models, requests, rules, **world):
    """([(start, end, executor, model's name, step, request numbers)] by start and executor, [(ended or None, outcome)])."""
    return World(models, requests, rules, **world).run()
