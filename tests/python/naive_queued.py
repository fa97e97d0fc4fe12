"""L4, S5, D9: serial, clockwork and window, written from the rules below in plain Python. It shares nothing with the program. Whole
graphs of one step, l(b) = alpha b + beta; models as in naive_symphony.py, with a window and preferred sizes.

    tasks, outcomes = simulate(models, requests, Rules("window", order="round_robin"), executors=2)

1. A message of b rows takes c + e b (Network), and a batch starts when it has arrived. t(b) = l(b) + c + e b. A batch runs on the
   executor of the smallest number that has no task.
2. Each model has a queue, in order of arrival (serial), of deadline, then arrival (clockwork), or of priority, then arrival (window).
   With clockwork, and with `drop: deadline`, the first request of a queue is dropped when it would be late alone, as of any instant
   after its deadline - t(its rows), and after each batch.
3. serial runs the first request to arrive, alone.
4. clockwork: the candidate of a model is the longest prefix, of at most its largest batch, that meets all its deadlines if it starts
   now; with `batch_of_one` the first request alone. The one with the smallest earliest deadline - t(rows) runs, then that of the smaller
   model; those without deadlines come last.
5. window: the limit is the option's max_batch or the model's, if that is smaller, but at least the first request's rows. The candidate is
   the longest prefix within the limit. With `same_length` it has only requests as long as the first, of the first 4 limit + 64.
   - Unless `static` is on or padded: it is due at once if some prefix of it has exactly a preferred size, cut to the largest such one.
   - It is due at once when it has `limit` rows, or the next one that may join does not fit.
   - Otherwise it is due when its oldest member has waited for max_delay; if this is not given, for the model's window.
   With `padded` it takes as long as `limit` rows.
   Of models that are due the one whose first request came first runs; with `round_robin` the first one by number, cyclically, behind
   the one that ran last.
"""
import collections
import dataclasses

import naive_symphony
import naive_world

NEVER = naive_world.NEVER


@dataclasses.dataclass
class Rules:
    policy: str
    drop: bool = False
    reading: str = "letter"
    max_delay: int = -1  # not given
    max_batch: int = 4096
    static: str = "off"
    order: str = "oldest"
    same_length: bool = False


@dataclasses.dataclass
class Model(naive_symphony.Model):
    window: int = 0
    preferred: tuple = ()


@dataclasses.dataclass
class Batch:
    requests: list
    due: int = 0
    limit: int = 0

    @property
    def rows(self):
        return sum(request.rows for request in self.requests)


class World(naive_world.World):
    def __init__(self, models, requests, rules, **world):
        super().__init__(requests, **world)
        self.models, self.rules, self.last = models, rules, -1
        self.queues = [[] for _ in models]
        self.effects = collections.Counter()
        self.drops = rules.drop or rules.policy == "clockwork"

    def arrived(self, request):
        orders = {"serial": lambda r: r.number, "clockwork": lambda r: (r.deadline, r.number), "window": lambda r: r.goes_before()}
        queue = self.queues[request.model.number]
        queue.append(request)
        queue.sort(key=orders[self.rules.policy])

    def withdrawn(self, request):
        """One that runs leaves at the end of its task."""
        if not request.began:
            self.queues[request.model.number].remove(request)
            self.leave(request, "cancelled")

    def finished(self, worker, task):
        for request in task.requests:
            self.leave(request, "cancelled" if request.cancel < self.now else None)

    def latest(self, requests):
        """When it must start to meet all its deadlines."""
        rows, deadline = sum(request.rows for request in requests), min(request.deadline for request in requests)
        return NEVER if deadline == NEVER else deadline - requests[0].model.latency(rows) - self.network.delay(rows)

    def idle(self):
        return [worker for worker in self.up() if not self.executors[worker].tasks]

    # Rule 2.
    def drop_late(self):
        for queue in self.queues if self.drops else []:
            while queue and self.latest(queue[:1]) < self.now:
                self.leave(queue.pop(0), "dropped")

    def timers(self):
        firsts = [queue[:1] for queue in self.queues if queue and self.drops]
        instants = [self.latest(first) + 1 for first in firsts if first[0].deadline < NEVER]
        if self.rules.policy == "window" and self.idle():
            instants += [self.candidate(queue).due for queue in self.queues if queue]
        return instants

    def decide(self):
        while True:
            self.drop_late()
            filled = [queue for queue in self.queues if queue]
            if not filled or not self.idle():
                return
            batch = getattr(self, self.rules.policy)(filled)
            if not batch:
                return
            self.last, rows = batch.requests[0].model.number, batch.rows
            if self.rules.static == "padded" and self.rules.policy == "window":
                rows = batch.limit
            for request in batch.requests:
                self.queues[self.last].remove(request)
            task = naive_world.Task(self.models[self.last], batch.requests, [(0, self.models[self.last].latency(rows))])
            self.submit(self.idle()[0], task)

    # Rules 3 to 5.
    def serial(self, filled):
        return Batch([min((queue[0] for queue in filled), key=lambda request: request.number)])

    def clockwork(self, filled):
        candidates = []
        for queue in filled:
            batch = queue[:1]
            for request in queue[1:] if self.rules.reading == "letter" else []:
                if sum(r.rows for r in batch) + request.rows > request.model.largest or self.latest(batch + [request]) < self.now:
                    break
                batch.append(request)
            candidates.append(batch)
        best = min(candidates, key=lambda batch: (self.latest(batch), batch[0].model.number))
        self.effects["latest"] += best[0].deadline > min(batch[0].deadline for batch in candidates)
        return Batch(best)

    def candidate(self, queue):
        model, rules, first = queue[0].model, self.rules, queue[0]
        limit = max(first.rows, min(rules.max_batch, model.largest))
        looked = [r for r in queue[: 4 * limit + 64] if r.length == first.length] if rules.same_length else queue
        batch, preferred, full = Batch([], limit=limit), None, False
        for request in looked:
            full = full or batch.rows + request.rows > limit
            if full:
                break
            batch.requests.append(request)
            if batch.rows in model.preferred and rules.static == "off":
                preferred = Batch(list(batch.requests), 0, limit)
        if preferred or full or batch.rows == limit:
            self.effects["preferred"] += bool(preferred)
            return preferred or batch
        delay = model.window if rules.max_delay < 0 else rules.max_delay
        batch.due = min(request.at for request in batch.requests) + delay
        return batch

    def window(self, filled):
        due = [batch for batch in map(self.candidate, filled) if batch.due <= self.now]
        if not due:
            return None
        oldest = min(due, key=lambda batch: batch.requests[0].number)
        turn = min(due, key=lambda batch: (batch.requests[0].model.number - self.last - 1) % len(self.models))
        self.effects["turns"] += self.rules.order == "round_robin" and turn is not oldest
        chosen = turn if self.rules.order == "round_robin" else oldest
        self.effects["waited"] += chosen.due == self.now
        first = self.queues[chosen.requests[0].model.number][: len(chosen.requests)]
        self.effects["same_length"] += self.rules.same_length and chosen.requests != first
        self.effects["padded"] += self.rules.static == "padded" and chosen.rows < chosen.limit
        return chosen


def simulate(models, requests, rules, **world):
    """([(start, end, executor, model's name, step, request numbers)] by start and executor, [(ended or None, outcome)])."""
    return World(models, requests, rules, **world).run()
