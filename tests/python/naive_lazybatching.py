"""L1-L4: LazyBatching, written from the paper and the rules below in plain Python: one model, one device, lists instead of
ranges, every sum added up again. It shares nothing with the program but the CSV of step times. A figure that both give is
thus no defect of either's bookkeeping.

    requests = simulate(Model.read("data/npu-gnmt.csv", 64, output_quantiles), arrivals, Rules(slack="curves"))

Virtual time in whole nanoseconds. Within an instant: endings, then arrivals, then decisions.

The rules (one executor; with several each has a stack, idle ones go first, and one is asked to yield at a time):

1. At a boundary, when no task runs, the two topmost entries merge while they are of one model and at one step, whatever
   their rounds. If the stack is empty, all waiting requests of the model with the oldest one come in, up to the largest
   batch, unchecked. Otherwise the queue of the top entry's model is asked, in order of arrival: the longest prefix of which
   every prefix passes the check comes in as a new entry (and merges at once with an entry that has not run yet). Then, or
   after an empty stack was filled, the queue of another model is asked: with `foreign: shorter` the one whose head needs
   least alone, with `slack` the one whose head is oldest, with `never` and `turns` none. Then the top entry runs.
2. Rows of one model on the whole stack never exceed its largest batch (`max_batch` of the model, or of the option if less).
3. A task runs up to the step at which the entry below waits, if that is of the same model, else to the end. It ends early
   where a recurrent block ends for some members. Members with most rounds to go are then on top.
4. The check of a group g that would come in at `now`. `remaining`: for each voter on the stack and in g, now + the sum over
   all requests of what each still needs alone <= its deadline. `published`: T_wait + the sum of what each needs alone from
   its beginning <= its SLA; T_wait is the time until it came onto the stack (for g: until now). `curves`: g runs to the
   entry below, both run on together, and so forth; entries of other models follow whole; each request ends with its batch,
   which must not be after its deadline. No vote: a deadline before arrival + what the request needs alone from its
   beginning (`votes: feasible`); a request that is lost now, now + what it still needs alone > its deadline (`timely`); none
   (`all`).
5. Alone: algorithm 1 with the profile's times at the request's rows. Encoder steps run as often as the input is long,
   decoder steps `dec_timesteps` times. With r words of the output done, max(1, dec_timesteps - r) more. If the length is
   from quantiles (1 .. 100 percent), at least as many more as outputs longer than r have on average, rounded up.
6. While a task runs, the head of a queue is looked at on arrival, on any other event, and when time alone may change the
   answer. YIELD if the check lets it in alone, assuming that the running entry's sum shrinks evenly from the task's start
   to its predicted end (`remaining`). `curves` computes from the next boundary on and does not ask again because time
   passes; `published` does not change. With `votes: timely` members of the running batch that were not lost at its start
   vote. `shorter` also requires less work than the running batch has left. At the boundary only rules 1 to 5 count.
"""
import csv
import dataclasses
import functools

NEVER = 1 << 62


# ---- the model ----


class Table:
    """Step times of one step: {length: [ns of batch 0, 1, ..]}."""

    def __init__(self, points, max_batch):
        self.rows = {length: self.filled(sorted(at.items()), max_batch) for length, at in sorted(points.items())}
        self.lengths = list(self.rows)

    @staticmethod
    def filled(points, max_batch):
        """Between two points the line, above the last the last slope; never less than for a smaller batch."""
        row = [0]
        for batch in range(1, max_batch + 1):
            right = next((i for i, point in enumerate(points) if point[0] >= batch), len(points) - 1)
            (b0, t0), (b1, t1) = points[max(right - 1, 0)], points[right]
            value = t1 if b0 == b1 else t0 + (t1 - t0) * (batch - b0) // (b1 - b0)
            row.append(max(value, row[-1]))
        return row

    def ns(self, rows, length):
        held = next((own for own in self.lengths if own >= length), self.lengths[-1])
        return self.rows[held][rows]


class Model:
    def __init__(self, kinds, tables, max_batch, output_quantiles=None, dec_timesteps=0):
        self.kinds, self.tables, self.max_batch, self.steps = kinds, tables, max_batch, len(kinds)
        self.quantiles = None if dec_timesteps else output_quantiles
        self.predicted = dec_timesteps or (output_quantiles[90] if output_quantiles else 1)
        self.span = functools.lru_cache(None)(self._span)

    @classmethod
    def read(cls, path, max_batch, output_quantiles=None, dec_timesteps=0):
        names, kinds, points = [], [], []
        with open(path, encoding="ascii", newline="") as file:
            for row in csv.DictReader(file):
                if not names or names[-1] != row["step"]:
                    names.append(row["step"])
                    kinds.append(row["kind"])
                    points.append({})
                points[-1].setdefault(int(row["length"]), {})[int(row["batch"])] = int(row["latency_ns"])
        return cls(kinds, [Table(own, max_batch) for own in points], max_batch, output_quantiles, dec_timesteps)

    def block_first(self, step):
        while step > 0 and self.kinds[step - 1] == self.kinds[step]:
            step -= 1
        return step

    def ends_block(self, step):
        return self.kinds[step] != "static" and (step + 1 == self.steps or self.kinds[step + 1] != self.kinds[step])

    def output_left(self, behind):
        """Rounds that an output is expected to have before it: what covers 90 %, and as many as those that are longer
        than `behind` had on average."""
        left = max(1, self.predicted - behind)
        longer = [q - behind for q in self.quantiles[1:] if q > behind] if self.quantiles else []
        return max(left, -(-sum(longer) // len(longer))) if longer else left

    def predicted_walk(self, length, step, behind):
        """(step, rounds behind) of a batch as predicted, from there to its end."""
        left = None
        while step < self.steps:
            yield step, behind
            kind = self.kinds[step]
            if kind == "static":
                step, behind = step + 1, 0
                continue
            if left is None:
                left = self.output_left(behind) if kind == "decoder" else max(1, length - behind)
            if not self.ends_block(step):
                step += 1
            elif left > 1:
                left, step, behind = left - 1, self.block_first(step), behind + 1
            else:
                left, step, behind = None, step + 1, 0

    def _span(self, rows, length, step, behind, to):
        """Algorithm 1, from a place until the batch stands at `to` for the first time."""
        total = 0
        for at, _ in self.predicted_walk(length, step, behind):
            if at == to:
                break
            total += self.tables[at].ns(rows, length)
        return total


@dataclasses.dataclass
class Rules:
    slack: str = "remaining"  # or published, curves
    patience: int = 0  # permille
    max_batch: int = 64
    votes: str = "feasible"  # or timely, all


@dataclasses.dataclass
class Request:
    number: int
    at: int
    length: int
    output: int
    deadline: int
    step: int = 0
    behind: int = 0  # rounds of the block in which it stands
    issued_at: int = 0
    full: int = 0  # what it needed by itself when it was issued
    alone: int = 0  # what it still needs by itself, at the last boundary
    since: int = 0
    started_at: int = -1
    ended_at: int = -1

    def rounds(self, kind):
        return self.length if kind == "encoder" else self.output


# ---- the scheduler ----


class Scheduler:
    def __init__(self, model, rules):
        self.model, self.rules = model, rules
        self.most = min(rules.max_batch, model.max_batch)
        self.queue, self.stack = [], []  # entries, bottom first; an entry is a list of requests
        self.running, self.yielding, self.retry_at = False, False, NEVER
        self.let_in_at = -NEVER
        self.run_at = self.predicted = self.consumed = 0

    # What an entry is.
    def place(self, entry):
        return entry[0].step, min(r.behind for r in entry)

    def span(self, entry, to, rows=None, place=None):
        step, behind = place or self.place(entry)
        return self.model.span(rows or len(entry), max(r.length for r in entry), step, behind, to)

    def alone(self, r):
        return self.model.span(1, r.length, r.step, r.behind, self.model.steps)

    def next_boundary(self, now):
        """Where the running entry will stand next, as predicted, and when."""
        entry, clock = self.stack[-1], self.run_at
        place = (self.model.steps, 0)
        walk = self.model.predicted_walk(max(r.length for r in entry), *self.place(entry))
        for step, behind in walk:
            place = (step, behind)
            if clock > now:
                return place, clock
            clock += self.model.tables[step].ns(len(entry), max(r.length for r in entry))
        return (self.model.steps, 0), max(clock, now)

    # Slack, equation 2.
    def voters(self, group, now):
        """Requests that may refuse, and until when: those that could have been in time, or (timely) those that still can."""
        if self.rules.votes != "timely":
            for r in [r for entry in self.stack for r in entry] + group:
                if self.rules.votes == "all" or r.at + self.model.span(1, r.length, 0, 0, self.model.steps) <= r.deadline:
                    yield r, NEVER
            return
        for entry in self.stack:
            runs = self.running and entry is self.stack[-1]
            for r in entry:
                latest = r.deadline - r.alone
                if (self.run_at if runs else now) <= latest:
                    yield r, NEVER if runs else latest + 1
        for r in group:
            if now <= r.deadline - self.alone(r):
                yield r, r.deadline - self.alone(r) + 1

    def sum_allows(self, group, now):
        voters = [r for r, _ in self.voters(group, now)]
        if not voters:
            return True
        members = [r for entry in self.stack for r in entry]
        own = sum(self.alone(r) for r in group)
        if self.rules.slack == "published":
            key = min(r.deadline - (r.issued_at if r in members else now) for r in voters)
            return sum(r.full for r in members) + own <= key
        done = 0
        if self.running and now > self.run_at:
            done = self.consumed * min(now - self.run_at, self.predicted) // self.predicted
        return now + sum(r.alone for r in members) - done + own <= min(r.deadline for r in voters)

    def curves_allow(self, newcomers, now):
        """The batches as they would run: newcomers on top, merging with what they catch up with."""
        lost = {r.number for entry in self.stack + [newcomers] for r in entry}
        lost -= {r.number for r, _ in self.voters(newcomers, now)}
        group, place, clock = list(newcomers), self.place(newcomers), now
        for entry in reversed(self.stack):
            own = self.place(entry)
            if self.running and entry is self.stack[-1]:
                own, clock = self.next_boundary(now)
            merges = place[0] <= own[0] < self.model.steps and len(group) + len(entry) <= self.most
            clock += self.span(group, own[0] if merges else self.model.steps, place=place)
            if not merges and any(clock > r.deadline for r in group if r.number not in lost):
                return False
            behind = min(place[1] if place[0] == own[0] else 0, own[1]) if merges else own[1]
            group, place = (group if merges else []) + entry, (own[0], behind)
        if place[0] < self.model.steps:
            clock += self.span(group, self.model.steps, place=place)
        return all(clock <= r.deadline for r in group if r.number not in lost)

    def allows(self, group, now):
        return self.curves_allow(group, now) if self.rules.slack == "curves" else self.sum_allows(group, now)

    def next_chance(self, group, now):
        """Sums shrink while a batch runs, and votes lapse: from when on the check passes, if nothing happens."""
        if self.rules.slack == "curves":
            return NEVER
        predicted_end = self.run_at + self.predicted
        shrinks = self.rules.slack == "remaining" and self.consumed > self.predicted
        starts = sorted({now + 1} | {lapse for _, lapse in self.voters(group, now) if now < lapse < NEVER})
        for start, end in zip(starts, starts[1:] + [NEVER]):
            if self.allows(group, start):
                return start
            low, high = start, min(end - 1, predicted_end)
            if not shrinks or high <= low or not self.allows(group, high):
                continue
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if self.allows(group, middle) else (middle, high)
            return high
        return NEVER

    # Patience: beyond the paper.
    def missing(self, group, count, now):
        if self.rules.patience == 0:
            return 0
        top = self.stack[-1]
        place = self.next_boundary(now)[0] if self.running else self.place(top)
        if place[0] >= self.model.steps or place[0] < group[0].step:
            return NEVER
        end, both = self.model.steps, min(self.most, len(top) + count)
        length, behind = max(r.length for r in group), min(r.behind for r in group)
        held_up = self.model.span(count, length, group[0].step, behind, place[0])
        held_up += self.span(top, end, both, place) - self.span(top, end, place=place)
        price = held_up * sum(len(entry) for entry in self.stack) * self.rules.patience // 1000
        waited = sum(now - max(r.since, self.let_in_at) for r in self.queue)
        return price - waited * count // len(self.queue)

    # Decisions.
    def admissible(self, now):
        room = self.most - sum(len(entry) for entry in self.stack)
        group = self.queue[:room]
        if not group or not self.stack:
            return group
        passed = 0
        while passed < len(group) and self.allows(group[: passed + 1], now):
            passed += 1
        group = group[:passed]
        return [] if group and self.missing(group, len(group), now) > 0 else group

    def merge(self):
        while len(self.stack) >= 2 and self.stack[-1][0].step == self.stack[-2][0].step:
            self.stack[-2:] = [self.stack[-2] + self.stack[-1]]

    def begin(self, now):
        self.merge()
        group = self.admissible(now)
        if group:
            self.queue = self.queue[len(group) :]
            for r in group:
                r.issued_at, r.full, r.alone = now, self.alone(r), self.alone(r)
            self.let_in_at = now
            self.stack.append(group)
            self.merge()
        if not self.stack:
            return None
        top = self.stack[-1]
        meets = len(self.stack) >= 2 and self.stack[-2][0].step >= top[0].step
        to = self.stack[-2][0].step if meets else self.model.steps
        rest = sum(self.model.span(1, r.length, to, 0, self.model.steps) for r in top) if meets else 0
        self.run_at, self.running, self.yielding = now, True, False
        self.predicted = max(1, self.span(top, to))
        self.consumed = sum(r.alone for r in top) - rest
        return to

    def look(self, now):
        """While a batch runs: is it to make room?"""
        self.retry_at = NEVER
        if not self.queue or self.yielding:
            return
        room = self.most - sum(len(entry) for entry in self.stack)
        top = self.stack[-1]
        if room < 1 or (top[0].step == self.model.steps - 1 and self.model.kinds[-1] == "static"):
            return
        head = self.queue[:1]
        count = len(self.queue) if len(self.queue) <= room else room
        missing = self.missing(head, count, now)
        if missing > 0:
            self.retry_at = NEVER if missing >= NEVER else now - -missing // count
        elif self.allows(head, now):
            self.yielding = True
        else:
            self.retry_at = self.next_chance(head, now)

    def settle(self, batch):
        """The top entry ran: members that stay are at their own steps; those with most steps to go are on top."""
        self.stack.pop()
        self.running = self.yielding = False
        stays = [r for r in batch if r.ended_at < 0]
        for r in stays:
            r.alone = self.alone(r)
        for step in sorted({r.step for r in stays}, reverse=True):
            self.stack.append([r for r in stays if r.step == step])


# ---- the world ----


class Task:
    """The top entry on its way: it ends at `to`, where members part, or at a boundary when asked to yield."""

    def __init__(self, model, batch, to, now):
        self.model, self.batch, self.to, self.step = model, batch, to, batch[0].step
        self.enter(fresh=False)
        self.begin_step(now)

    def enter(self, fresh):
        """Rounds that each member has before it in the block at `step`, and has behind it."""
        kind = self.model.kinds[self.step]
        self.behind = [0 if fresh else r.behind for r in self.batch]
        self.left = [r.rounds(kind) - behind for r, behind in zip(self.batch, self.behind)]

    def begin_step(self, now):
        length = max(r.length for r in self.batch)
        self.step_ends_at = now + max(1, self.model.tables[self.step].ns(len(self.batch), length))

    def step_done(self, now, yielding):
        """True: the task has ended, and its members stand where they go on."""
        model, done = self.model, self.step
        ends_round, parts, onward = model.ends_block(done), False, done + 1
        if ends_round:
            self.left = [left - 1 for left in self.left]
            self.behind = [behind + 1 for behind in self.behind]
            if min(self.left) > 0:
                onward = model.block_first(done)
            parts = min(self.left) <= 0 < max(self.left)
        ends = parts or yielding or onward == self.to and not (ends_round and min(self.left) > 0)
        if not ends:
            fresh = ends_round and min(self.left) <= 0 or model.kinds[done] == "static"
            self.step = onward
            if fresh:
                self.enter(fresh=True)
            self.begin_step(now)
            return False
        for r, left, behind in zip(self.batch, self.left, self.behind):
            if model.kinds[done] == "static" or ends_round and left <= 0:
                r.step, r.behind = done + 1, 0
            else:
                r.step, r.behind = (model.block_first(done) if ends_round else done + 1), behind
            if r.step == model.steps:
                r.ended_at = now
        return True


def simulate(model, arrivals, rules, scheduler_class=Scheduler, task_class=Task):
    """`arrivals`: (at, input length, output length, deadline), ascending. Returns the requests, ended all."""
    requests = [Request(i, at, n, m, deadline, since=at) for i, (at, n, m, deadline) in enumerate(arrivals)]
    scheduler, task, coming = scheduler_class(model, rules), None, 0
    while coming < len(requests) or task:
        now = requests[coming].at if coming < len(requests) else NEVER
        now = min(now, task.step_ends_at, scheduler.retry_at) if task else now
        heard = now == scheduler.retry_at  # while a batch goes from step to step nothing is decided
        if task and task.step_ends_at == now and task.step_done(now, scheduler.yielding):
            scheduler.settle(task.batch)
            task, heard = None, True
        while coming < len(requests) and requests[coming].at == now:
            scheduler.queue.append(requests[coming])
            coming, heard = coming + 1, True
        if not task:
            to = scheduler.begin(now)
            if to is not None:
                batch = scheduler.stack[-1]
                task = task_class(model, batch, to, now)
                for r in batch:
                    r.started_at = now if r.started_at < 0 else r.started_at
        if task and heard:
            scheduler.look(now)
    return requests
