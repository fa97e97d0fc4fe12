"""deferred and adaptive with every option, written from the rules below in plain Python. Queues, rates, timers, messages and the world
are those of naive_symphony.py; it shares nothing with the program. Whole graphs of one step.

    tasks, outcomes = simulate(models, requests, Rules("adaptive"), executors=2)

1. Batches are formed as in naive_symphony.py, rules 1 and 7, with minimum size m. A model forms its candidate as in rule 3. latest =
   d - l(size). The key is latest, with `key: deadline` d, less credit_step per hundred of credit, rounded towards 0: a drop adds 100,
   an arrival takes 1, within +-1000. Without a deadline exec = start(size), and the key is the largest.
2. exec = start(size) if more rows wait than fit, or if the batch has the model's largest size. Otherwise with `defer: full`
   max(start(size), d - l(size + 1)); with `none` start(size); with `partial` max(start(size), a + wait), where s = max(0, d - l(size + 1)
   - a), wait = min(s - min(gap_factor gap, slack_limit s), beta_limit beta); a beta_limit of 0 is none. With `full` rows that do not fit
   count as in rule 7 there.
3. gap is the mean time between two dispatches of all executors: each adds 1/100 of its difference, from 0, in units of 1/1024 ns.
   More than 100 ms count as 100 ms. Models know it as of the last grant (which does not count itself) or of the last count of rates.
4. At each count of rates (naive_symphony.py, rule 6), with r in rows per 1000 s and N executors:
   gather is the quotient of rule 5 there, in thousandths of a row, from one row to the model's largest batch.
   Shares of the executors, in 1e-9: alpha r and beta r. need = sum of alpha r + beta r / gather, over N, in ppm.
   psi is the smallest share of gather, in ppm, with which the sum of alpha r + beta r / max(1, psi gather) is at most N; else 1. psi
   gather is in whole thousandths of a row, rounded down. Models without an objective do not count.
   bmax: m is gather, rounded down. sustainable: m = max(1, min(psi, psi_cap) gather), rounded to nearest. staggered: as in rule 5 there.
   fixed: the model's target, else the option's, at most its largest batch.
5. Overload: e = (need - 1.03) / 0.07, from 0 to 1, in ppm. `sustainable`: m rises by e of its distance to the gather of rate r / need.
   partial: the wait grows by e of its distance to s, in whole us. With e = 1 skipped heads are dropped when the candidate has been formed.
6. adaptive keeps a share of the wait of rule 2: min(1, x / psi_cap), in ppm, x = (psi gather - 1) / (gather - 1); of a gather of one row
   x is 1 if psi > 0, else 0. The share is 1 if 2 l(1) > D. While it is 0, psi is 0 and r > 0, a batch has at most
   max(1, 20 beta / alpha) rows, rounded up.
7. A candidate is granted as in naive_symphony.py, rules 4 and 7, by key. It is formed anew; with `full` it waits if its exec is
   after start(size) (before lookahead). Skipped heads are dropped. Of the rest it takes min(size, max(m, 2 beta / alpha rounded up,
   rows / executors that could be chosen, rounded up)) rows, and at least one request.
8. Lookahead, unless minimum sizes are off or there are more than 64 executors: if rows wait behind the batch of a candidate, before
   the grant and when it is formed anew, its grant skips k more heads first: the fewest with which the fewest rows are lost, if none
   arrived any more. See `lookahead`.
9. With `closed_loop` exec = start(size) also if at least as many requests wait, skipped ones included, as each of the last five batches
   had, and each of the last four left none waiting and had no arrival in the first half of its run.
10. The same with adaptive, `partial`, and one executor that is up. From the middle of a batch's run, or the grant of the next one, its
   requests count as awaited, until the middle of the run of the next one; arrivals from then on as returned. When the next one's
   middle has come, it is seen whether as many returned as were awaited. If so after each of the last four batches, and while the last
   batch is past its middle and fewer have returned, the wait is at least min(s - min(gap_factor gap, slack_limit s), e + run / 2 - a),
   e the end of its run, before rule 5 extends it. A batch whose exec is after start(size) when it is formed anew waits then.
   Middles are seen at arrivals, and where a model forms its candidate as of start(0).
11. Lulls. During overload (e > 0) a model with waiting requests looks each time when it forms its candidate. The first look of an
   overload sees no lull. From then on, if start(0) is at least SLO / 4 after the last look, it has a lull if fewer than half as
   many rows arrived since as its rate predicts, and that prediction is at least 64 rows; both rounded down. With a lull and e > 0,
   rule 5 does not extend its wait and drops none of its skipped heads, and with `sustainable` m is 1. If e > 0 and its rows since
   the last count of rates are as few in the same sense, its average begins anew with this count.
"""
import dataclasses

import naive_symphony

MILLION = 10**6
NEVER = naive_symphony.NEVER


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
    target: int = 1
    psi_cap: int = 800  # thousandths, as the next three
    gap_factor: int = 3000
    slack_limit: int = 500
    beta_limit: int = 1500
    credit_step: int = 100_000
    key: str = "latest"


@dataclasses.dataclass
class Candidate(naive_symphony.Candidate):
    key: int
    left: int  # rows that wait


class Queue(naive_symphony.Queue):
    def __init__(self, model):
        super().__init__(model)
        self.credit, self.last_count, self.alike, self.middle = 0, 0, 0, 0
        # Rule 10.
        self.awaited, self.returned, self.next_awaited, self.returns, self.back_at = 0, 0, 0, 0, 0
        # Rule 11.
        self.rows, self.looked_at, self.looked_rows, self.lull = 0, None, 0, False


def ratio(a, b):
    return -(-a // b)


def is_lull(rate, rows, passed):
    predicted = rate * passed // 10**12
    return predicted >= 64 and rows < predicted // 2


class World(naive_symphony.World):
    def __init__(self, models, requests, rules, **world):
        super().__init__(models, requests, rules, **world)
        self.queues = [Queue(model) for model in models]
        self.gap, self.known_gap, self.dispatched_at = 0, 0, None
        self.psi, self.need, self.excess = 0, 0, 0

    def arrived(self, request):
        super().arrived(request)
        queue = self.queues[request.model.number]
        queue.credit = max(-1000, queue.credit - 1)
        queue.rows += request.rows
        if self.now < queue.middle:
            queue.alike = 0
        self.settle(queue, self.now)
        queue.returned += 1

    def drop(self, queue, request):
        super().drop(queue, request)
        queue.credit = min(1000, queue.credit + 100)

    # Rules 4 to 6.
    def used(self, psi):
        total = 0
        for queue in self.queues:
            if queue.model.slo < NEVER:
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
        self.psi, self.need = low, self.used(MILLION) * MILLION // devices if devices else 0
        self.excess = max(0, min(MILLION, (self.need - 1030000) * MILLION // 70000)) if self.rules.overload else 0
        for queue in self.queues if not self.excess else []:
            queue.looked_at, queue.lull = None, False

    def is_restart(self, queue, rows, passed):
        restarts = self.excess > 0 and is_lull(queue.rate, rows, passed)
        self.effects["restart"] += restarts and queue.windows > 0
        return restarts

    def minimum(self, queue):
        model, floor = queue.model, self.rules.floor
        if floor == "staggered":
            return self.staggered(model)
        if floor == "fixed":
            return min(model.target or self.rules.target, model.largest)
        if floor == "off" or floor == "sustainable" and self.is_lulled(queue):
            return 1
        gather = self.gather(model, queue.rate)
        if floor == "bmax":
            return gather // 1000
        rows = max(1, (min(self.psi, 1000 * self.rules.psi_cap) * gather // MILLION + 500) // 1000)
        if self.excess and queue.rate:
            served = self.gather(model, max(1, queue.rate * MILLION // self.need)) // 1000
            rows += max(0, served - rows) * self.excess // MILLION
        return rows

    def share(self, queue):
        """How much of its wait adaptive keeps, in ppm."""
        gather, cap = self.gather(queue.model, queue.rate), 1000 * self.rules.psi_cap
        if 2 * queue.model.latency(1) > queue.model.slo:
            return MILLION
        if self.psi == 0:
            return 0
        share = max(0, self.psi * gather // MILLION - 1000) * MILLION // (gather - 1000) if gather > 1000 else MILLION
        return MILLION if share >= cap else share * MILLION // cap

    def is_light(self, queue):
        return self.rules.policy == "adaptive" and self.psi == 0 and queue.rate > 0 and self.share(queue) == 0

    # Rule 11.
    def look(self, queue):
        at = self.start(0, 0)
        if self.excess and (queue.looked_at is None or at - queue.looked_at >= queue.model.slo // 4):
            queue.lull = queue.looked_at is not None and is_lull(queue.rate, queue.rows - queue.looked_rows, at - queue.looked_at)
            queue.looked_at, queue.looked_rows = at, queue.rows

    def is_lulled(self, queue):
        return self.excess > 0 and queue.lull

    # Rules 1 and 2.
    def form(self, queue, free_at=0):
        """As of a grant; see `publish`."""
        if queue.waiting:
            self.settle(queue, self.start(0, 0))
            self.look(queue)
        super().form(queue, free_at)

    def publish(self, queue):
        self.form(queue)
        if queue.candidate and self.excess == MILLION and not queue.lull:
            for request in queue.candidate.skipped:
                self.drop(queue, request)
            queue.candidate.skipped = []

    def candidate(self, queue, free_at, ahead=0):
        model, waiting = queue.model, queue.waiting
        first = self.skip(queue, self.minimum(queue), ahead, free_at)
        head, (size, count) = waiting[first], self.prefix(queue, first, free_at)
        exec_at, latest, key, rest = self.start(size, free_at), NEVER, NEVER, waiting[first + count :]
        if head.deadline < NEVER:
            latest = head.deadline - model.latency(size)
            key = head.deadline if self.rules.key == "deadline" else latest
            if self.rules.credit:
                key -= int(queue.credit * self.rules.credit_step / 100)
            if not rest and size < model.largest and not self.all_wait(queue):
                exec_at = max(exec_at, self.deferred(queue, head, head.deadline - model.latency(size + 1)))
            elif self.rules.defer == "full":
                exec_at = max(exec_at, self.before_rest(queue, head, size, rest))
        left = sum(request.rows for request in waiting[first:])
        return Candidate(waiting[:first], waiting[first : first + count], exec_at, latest, self.network.delay(size), key, left)

    def deferred(self, queue, head, frontrun):
        if self.rules.defer != "partial":
            return frontrun if self.rules.defer == "full" else 0
        slack = max(0, frontrun - head.at)
        whole = slack - min(self.known_gap * self.rules.gap_factor // 1000, slack * self.rules.slack_limit // 1000)
        wait = min(whole, queue.model.beta * self.rules.beta_limit // 1000) if self.rules.beta_limit else whole
        if self.rules.policy == "adaptive":
            wait = wait * self.share(queue) // MILLION
        if self.awaits(queue):
            wait = max(wait, min(whole, queue.back_at - head.at))
        if not self.is_lulled(queue):
            wait += (slack - wait) // 1000 * self.excess // 1000
        return head.at + wait

    # Rule 8.
    def lookahead(self, queue, worker):
        """How many heads to skip more. The first 512 requests count, in groups: one begins where a deadline is more than 1/64 of the
        time between the first and the last of the queue after that of the group before it, and counts with its first deadline. k ends
        at a group. If no row is lost even if all had the first deadline, k is 0."""
        model, waiting = queue.model, queue.waiting[len(queue.candidate.skipped) :]
        span, groups = (waiting[-1].deadline - waiting[0].deadline) // 64, []
        if not self.lost(model, self.minimum(queue), [[waiting[0].deadline, sum(request.rows for request in waiting), 0]], worker):
            return 0
        for request in waiting[:512]:
            if not groups or request.deadline > groups[-1][0] + span:
                groups.append([request.deadline, 0, 0])
            groups[-1][1] += request.rows
            groups[-1][2] += 1
        losses = [
            sum(rows for _, rows, _ in groups[:k]) + self.lost(model, self.minimum(queue), [list(group) for group in groups[k:]], worker)
            for k in range(len(groups))
        ]
        best = losses.index(min(losses))
        return sum(count for _, _, count in groups[:best])

    def lost(self, model, minimum, groups, worker):
        """Rows that are lost if the executors, in the order in which they become free, skip as in rule 1 and take the largest batches
        in time, at most 64. The granted one is free for a message of one row. Of more than 16 others those count that are free first;
        what is in time after the last of them, or at that instant, is not lost."""
        first = self.start(1, self.free_at(worker))
        others = sorted(max(first, self.free_at(other)) for other in self.up() if other != worker)
        known_until = others[15] if len(others) > 16 else NEVER
        free, lost, batches = [first] + others[:16], 0, 0
        while groups and batches < 64:
            start = free.pop(0)
            rows = sum(rows for _, rows, _ in groups)
            while rows and start + model.latency(min(minimum, rows)) > groups[0][0]:
                self.take_rows(groups, 1)
                lost, rows = lost + 1, rows - 1
            if not rows or start >= known_until:
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
    def take(self, queue, count):
        """The requests that the grant runs."""
        model, taken, rows = queue.model, [], 0
        limit = queue.candidate.size
        if self.rules.split:
            limit = min(limit, max(self.minimum(queue), ratio(2 * model.beta, model.alpha), ratio(queue.candidate.left, count)))
        if self.is_light(queue):
            limit = min(limit, max(1, ratio(20 * model.beta, model.alpha)))
        for request in queue.candidate.batch:
            if taken and rows + request.rows > limit:
                break
            taken.append(request)
            rows += request.rows
        return taken

    def order(self, queue):
        return queue.candidate.key

    def grant(self, queue, workers):
        self.known_gap, free_at = self.gap >> 10, self.free_at(workers[0])
        behind = queue.candidate.left > queue.candidate.size
        self.form(queue, free_at)
        candidate = queue.candidate
        if candidate and self.must_wait(queue, candidate.exec_at > self.start(candidate.size, free_at)):
            self.effects["kept"] += 1
            return
        if candidate:
            if self.rules.lookahead and self.rules.floor != "off" and behind and candidate.left > candidate.size:
                if len(self.executors) <= 64 and (more := self.lookahead(queue, workers[0])):
                    queue.candidate = self.candidate(queue, free_at, len(candidate.skipped) + more)
            taken = self.take(queue, len(workers))
            for request in queue.candidate.skipped:
                self.drop(queue, request)
            start, span = self.run_batch(queue, workers[0], taken, free_at)
            self.close_loop(queue, len(taken), start, span)
            if self.dispatched_at is not None:
                difference = (min(self.now - self.dispatched_at, 100 * MILLION) << 10) - self.gap
                self.gap += difference // 100 if difference >= 0 else -(-difference // 100)
            self.dispatched_at = self.now
        self.publish(queue)

    def must_wait(self, queue, is_early):
        """True if a batch before its exec is not dispatched."""
        return is_early and (self.rules.defer == "full" or self.awaits(queue))

    # Rules 9 and 10.
    def all_wait(self, queue):
        return self.rules.closed_loop and queue.alike >= 4 and len(queue.waiting) >= queue.last_count

    def close_loop(self, queue, count, start, span):
        queue.alike = 0 if queue.waiting else queue.alike + 1 if count == queue.last_count else 0
        self.settle(queue, NEVER)
        queue.last_count, queue.next_awaited = count, count
        queue.middle, queue.back_at = start + span // 2, start + span + span // 2

    def settle(self, queue, at):
        if queue.next_awaited and at >= queue.middle:
            queue.returns = queue.returns + 1 if queue.returned == queue.awaited else 0
            queue.awaited, queue.returned, queue.next_awaited = queue.next_awaited, 0, 0

    def awaits(self, queue):
        expects = queue.returns >= 4 and not queue.next_awaited and queue.returned < queue.awaited
        return self.rules.closed_loop and self.rules.policy == "adaptive" and len(self.up()) == 1 and expects


def simulate(models, requests, rules, **world):
    """([(start, end, executor, model's name, step, request numbers)] by start and executor, [(ended or None, outcome)])."""
    return World(models, requests, rules, **world).run()
