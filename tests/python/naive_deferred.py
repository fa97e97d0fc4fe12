"""deferred and adaptive with the minimum sizes `sustainable`, `bmax` and `off`, written from the rules below in plain Python. Queues,
rates, timers and the world are those of naive_symphony.py; it shares nothing with the program. Whole graphs of one step; no messages
take time. No model has 64 rows in 100 ms, from which on the policy also looks for lulls.

    tasks, outcomes = simulate(models, requests, Rules("adaptive"), executors=2)

1. Batches are formed as in naive_symphony.py, rule 1, with minimum size m. A model forms its candidate as in rule 3, always with
   `reform_at_latest`. latest = d - l(size). The key is latest - 1000 ns per hundredth of credit: a drop adds 100, an arrival takes 1,
   within +-1000.
2. exec = t if more rows wait than fit, or if the batch has the model's largest size. Otherwise with `defer: full` max(t, d - l(size + 1));
   with `none` t; with `partial` max(t, a + wait), where s = max(0, d - l(size + 1) - a), wait = min(s - min(3 gap, s / 2), 3/2 beta).
3. gap is the mean time between two dispatches of all executors: each adds 1/100 of its difference, from 0, in units of 1/1024 ns.
   More than 100 ms count as 100 ms. Models know it as of the last grant (which does not count itself) or of the last count of rates.
4. At each count of rates (naive_symphony.py, rule 6), with r in rows per 1000 s and N executors:
   gather = (D - beta) / (alpha + 1/r), in thousandths of a row, from one row to the model's largest batch.
   Shares of the executors, in 1e-9: alpha r and beta r. need = sum of alpha r + beta r / gather, over N, in ppm.
   psi is the smallest share of gather, in ppm, with which the sum of alpha r + beta r / max(1, psi gather) is at most N; else 1. psi
   gather is in whole thousandths of a row, rounded down.
   bmax: m is gather, rounded down. sustainable: m = max(1, min(psi, 0.8) gather), rounded to nearest.
5. Overload: e = (need - 1.03) / 0.07, from 0 to 1, in ppm. `sustainable`: m rises by e of its distance to the gather of rate r / need.
   partial: the wait grows by e of its distance to s, in whole us. With e = 1 skipped heads are dropped when the candidate is formed.
6. adaptive keeps a share of the wait of rule 2: min(1, x / 0.8), in ppm, x = (psi gather - 1) / (gather - 1); of a gather of one row x
   is 1 if psi > 0, else 0. The share is 1 if 2 l(1) > D. While it is 0 and psi is 0, a batch has at most
   max(1, 20 beta / alpha) rows, rounded up.
7. While an executor is free, the candidate with exec <= t <= latest of the smallest key, then of the smaller model, is granted: it is
   formed anew; with `full` it waits if its exec is after t (before lookahead). Skipped heads are dropped. Of the rest it takes min(size,
   max(m, 2 beta / alpha rounded up, rows / free executors rounded up)) rows, and at least one request, on
   the free executor of the smallest number.
8. Lookahead, unless minimum sizes are off: if rows wait behind the batch of a candidate, before the grant and when it is formed anew, its
   grant skips k more heads first: the fewest with which the fewest rows are lost, if none arrived any more. See `lookahead`.
9. With `closed_loop` exec = t also if as many requests wait as each of the last five batches had, and each of the last four left none
   waiting and had no arrival in the first half of its run. (adaptive on one executor does more, which is not here.)
"""
import dataclasses

import naive_symphony
import naive_world

MILLION = 10**6


@dataclasses.dataclass
class Rules:
    policy: str  # deferred or adaptive
    floor: str = "sustainable"
    defer: str = "partial"
    overload: bool = True
    lookahead: bool = True
    split: bool = True
    credit: bool = True
    reform: bool = True
    closed_loop: bool = False


@dataclasses.dataclass
class Candidate(naive_symphony.Candidate):
    key: int
    left: int  # rows that wait


class Queue(naive_symphony.Queue):
    def __init__(self, model):
        super().__init__(model)
        self.minimum, self.credit, self.share, self.is_light = 1, 0, 0, False
        self.last_count, self.alike, self.quiet_until = 0, 0, 0


def ratio(a, b):
    return -(-a // b)


class World(naive_symphony.World):
    def __init__(self, models, requests, rules, **world):
        super().__init__(models, requests, rules, **world)
        self.queues = [Queue(model) for model in models]
        self.gap, self.known_gap, self.dispatched_at, self.excess = 0, 0, None, 0
        for queue in self.queues:
            self.keep_share(queue, 0, 1000)

    def arrived(self, request):
        super().arrived(request)
        queue = self.queues[request.model.number]
        self.earn(queue, -1)
        if self.now < queue.quiet_until:
            queue.alike = 0

    def earn(self, queue, hundredths):
        queue.credit = max(-1000, min(1000, queue.credit + hundredths))

    def drop(self, queue, request):
        queue.waiting.remove(request)
        self.leave(request, "dropped")
        self.earn(queue, 100)

    # Rules 4 to 6.
    def gather(self, model, rate):
        gather = 1000 * (model.slo - model.beta) * rate // (model.alpha * rate + 10**12)
        return max(1000, min(gather, 1000 * model.largest))

    def used(self, psi):
        total = 0
        for queue in self.queues:
            rows = max(1000, psi * self.gather(queue.model, queue.rate) // MILLION)
            total += queue.rate * queue.model.alpha // 1000 + queue.rate * queue.model.beta // 1000 * 1000 // rows
        return total

    def count(self):
        before = self.counted_at
        super().count()
        if before is None or self.counted_at == before:
            return
        self.known_gap = self.gap >> 10
        devices = len(self.up()) * 10**9
        low, high = 0, MILLION
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.used(middle) <= devices else (middle + 1, high)
        psi, need = low, self.used(MILLION) * MILLION // devices
        self.excess = max(0, min(MILLION, (need - 1030000) * MILLION // 70000)) if self.rules.overload else 0
        for queue in self.queues:
            gather = self.gather(queue.model, queue.rate)
            if self.rules.floor == "bmax":
                queue.minimum = gather // 1000
            elif self.rules.floor == "sustainable":
                queue.minimum = max(1, (min(psi, 800000) * gather // MILLION + 500) // 1000)
                if self.excess:
                    served = self.gather(queue.model, queue.rate * MILLION // need) // 1000
                    queue.minimum += max(0, served - queue.minimum) * self.excess // MILLION
            queue.minimum = min(queue.minimum, queue.model.largest)
            self.keep_share(queue, psi, gather)

    def keep_share(self, queue, psi, gather):
        model = queue.model
        if gather > 1000:
            share = max(0, psi * gather // MILLION - 1000) * MILLION // (gather - 1000) * MILLION // 800000
        else:
            share = MILLION if psi else 0
        queue.share = MILLION if 2 * model.latency(1) > model.slo else min(MILLION, share)
        queue.is_light = self.rules.policy == "adaptive" and queue.share == 0 and psi == 0

    # Rules 1 and 2.
    def skip(self, queue, first):
        """The first request that is not skipped."""
        model, rows, start = queue.model, [request.rows for request in queue.waiting], first
        for first in range(start, len(rows)):
            size = max(rows[first], min(queue.minimum, sum(rows[first:])))
            if self.now + model.latency(size) <= queue.waiting[first].deadline:
                return first
        return start

    def form(self, queue, ahead=0):
        model, now, waiting = queue.model, self.now, queue.waiting
        while waiting and now + model.latency(waiting[0].rows) > waiting[0].deadline:
            self.drop(queue, waiting[0])
        queue.candidate = None
        if not waiting:
            return
        first = self.skip(queue, ahead)
        if self.excess == MILLION:
            for request in waiting[:first]:
                self.drop(queue, request)
            first = 0
        head, size, count = waiting[first], 0, 0
        while (
            first + count < len(waiting)
            and size + waiting[first + count].rows <= model.largest
            and now + model.latency(size + waiting[first + count].rows) <= head.deadline
        ):
            size, count = size + waiting[first + count].rows, count + 1
        latest, exec_at = head.deadline - model.latency(size), now
        all_wait = self.rules.closed_loop and queue.alike >= 4 and len(waiting) - first == queue.last_count
        if first + count == len(waiting) and size < model.largest and not all_wait:
            frontrun = head.deadline - model.latency(size + 1)
            if self.rules.defer == "full":
                exec_at = max(now, frontrun)
            elif self.rules.defer == "partial":
                exec_at = max(now, head.at + self.wait(queue, max(0, frontrun - head.at)))
        key = latest - (queue.credit * 1000 if self.rules.credit else 0)
        left = sum(request.rows for request in waiting[first:])
        queue.candidate = Candidate(waiting[:first], waiting[first : first + count], exec_at, latest, key, left)

    def wait(self, queue, slack):
        wait = min(slack - min(3 * self.known_gap, slack // 2), 3 * queue.model.beta // 2)
        if self.rules.policy == "adaptive":
            wait = wait * queue.share // MILLION
        return wait + (slack - wait) // 1000 * self.excess // 1000

    # Rule 8.
    def lookahead(self, queue):
        """How many heads to skip more. Requests count in groups: one begins where a deadline is more than 1/64 of the time between
        the first and the last after that of the group before it, and counts with its first deadline. k ends at a group."""
        model, waiting = queue.model, queue.waiting[len(queue.candidate.skipped) :][:512]
        span, groups = (waiting[-1].deadline - waiting[0].deadline) // 64, []
        for request in waiting:
            if not groups or request.deadline > groups[-1][0] + span:
                groups.append([request.deadline, 0, 0])
            groups[-1][1] += request.rows
            groups[-1][2] += 1
        if not self.lost(model, queue.minimum, [[waiting[0].deadline, sum(rows for _, rows, _ in groups), 0]]):
            return 0
        losses = [
            sum(rows for _, rows, _ in groups[:k]) + self.lost(model, queue.minimum, [list(group) for group in groups[k:]])
            for k in range(len(groups))
        ]
        best = losses.index(min(losses))
        return sum(count for _, _, count in groups[:best])

    def lost(self, model, minimum, groups):
        """Rows that are lost if the executors, in the order in which they become free, skip as in rule 1 and take the largest batches
        in time."""
        free = sorted(self.executors[worker].tasks[0].end if self.executors[worker].tasks else self.now for worker in self.up())
        lost, batches = 0, 0
        while groups and batches < 64:
            start = free.pop(0)
            rows = sum(rows for _, rows, _ in groups)
            while rows and start + model.latency(min(minimum, rows)) > groups[0][0]:
                self.take_rows(groups, 1)
                lost, rows = lost + 1, rows - 1
            if not rows:
                break
            size = 0
            while size < min(rows, model.largest) and start + model.latency(size + 1) <= groups[0][0]:
                size += 1
            free = sorted(free + [start + model.latency(size)])
            batches += 1
            self.take_rows(groups, size)
        return lost

    def take_rows(self, groups, count):
        while count:
            taken = min(count, groups[0][1])
            groups[0][1] -= taken
            count -= taken
            if not groups[0][1]:
                groups.pop(0)

    # Rule 7.
    def take(self, queue, free):
        """The requests that the grant runs."""
        model, taken, rows = queue.model, [], 0
        batch = queue.candidate.batch
        limit = sum(request.rows for request in batch)
        if self.rules.split:
            limit = min(limit, max(queue.minimum, ratio(2 * model.beta, model.alpha), ratio(queue.candidate.left, free)))
        if queue.is_light:
            limit = min(limit, max(1, ratio(20 * model.beta, model.alpha)))
        for request in batch:
            if taken and rows + request.rows > limit:
                break
            taken.append(request)
            rows += request.rows
        return taken, rows

    def order(self, queue):
        return queue.candidate.key

    def grant(self, queue, free):
        self.known_gap = self.gap >> 10
        behind = queue.candidate.left > sum(request.rows for request in queue.candidate.batch)
        self.form(queue)
        candidate = queue.candidate
        if not candidate or self.rules.defer == "full" and candidate.exec_at > self.now:
            return
        behind = behind and candidate.left > sum(request.rows for request in candidate.batch)
        if self.rules.lookahead and self.rules.floor != "off" and behind:
            self.form(queue, len(candidate.skipped) + self.lookahead(queue))
            candidate = queue.candidate
        taken, rows = self.take(queue, len(free))
        for request in candidate.skipped:
            self.drop(queue, request)
        for request in taken:
            queue.waiting.remove(request)
        self.submit(free[0], naive_world.Task(queue.model, taken, [(0, queue.model.latency(rows))]))
        self.close_loop(queue, len(taken), queue.model.latency(rows))
        if self.dispatched_at is not None:
            difference = (min(self.now - self.dispatched_at, 100 * MILLION) << 10) - self.gap
            self.gap += difference // 100 if difference >= 0 else -(-difference // 100)
        self.dispatched_at = self.now
        self.form(queue)

    # Rule 9.
    def close_loop(self, queue, count, span):
        queue.alike = 0 if queue.waiting else queue.alike + 1 if count == queue.last_count else 0
        queue.last_count, queue.quiet_until = count, self.now + span // 2


def simulate(models, requests, rules, **world):
    """([(start, end, executor, model's name, step, request numbers)] by start and executor, [(ended or None, outcome)])."""
    return World(models, requests, rules, **world).run()
