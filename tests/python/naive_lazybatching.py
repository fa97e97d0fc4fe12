"""L1-L5: LazyBatching, written from the paper and the rules below in plain Python: lists instead of ranges, every sum added up
again. It shares nothing with the program but the CSV of step times. A figure that both give is
thus no defect of either's bookkeeping.

    requests = simulate(Model.read("data/npu-gnmt.csv", 64, output_quantiles), arrivals, Rules(slack="curves"))

Virtual time in whole nanoseconds. Within an instant: endings, then arrivals and cancellations, then decisions; then tasks that
are between two steps go on, unless they were just asked to yield.

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
   vote. `shorter` also requires less work than the running batch has left, here and for each prefix of rule 1. At the boundary
   only rules 1 to 5, 7 and 8 count.
7. `patience`: a group that passes comes in once it has waited, all its requests together, for `patience` times the delay of all
   requests on the stack: what catching up and the larger batch cost them, or what a batch of another model needs. Waiting counts
   from the last admission of the model on, the mean of its queue for each. While a task runs the group is the whole queue, or as
   many of mean size as there is room for, but at least the head.
8. `drop`: a head that could not be in time alone from now on is dropped, before each executor is given work and after. Here outputs
   are as long as nine in ten are, whatever the options say.
9. A request that is cancelled leaves its queue, or its entry unless that runs, at once; otherwise at the end of the task. One that
   exits leaves, or jumps to a later step, at the end of the task that ran its exit's step.
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
    def __init__(self, kinds, tables, max_batch, output_quantiles=None, dec_timesteps=0, coverage=90):
        self.kinds, self.tables, self.max_batch, self.steps = kinds, tables, max_batch, len(kinds)
        self.quantiles = None if dec_timesteps else output_quantiles
        self.predicted = dec_timesteps or (output_quantiles[coverage] if output_quantiles else 1)
        self.usual = output_quantiles[90] if output_quantiles else 1
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

    def whole(self, rows, length):
        """Alone, with the output that nine in ten do not exceed, whatever the options say."""
        often = {"static": 1, "encoder": length, "decoder": self.usual}
        return sum(often[kind] * table.ns(rows, length) for kind, table in zip(self.kinds, self.tables))

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
    foreign: str = "shorter"  # or slack, never, turns
    drop: bool = False
    coverage: int = 90  # percent
    dec_timesteps: int = 0


@dataclasses.dataclass(eq=False)
class Request:
    number: int
    at: int
    length: int
    output: int
    deadline: int
    model: Model = None
    rows: int = 1
    cancel: int = NEVER
    exit_step: int = -1  # it leaves with the task that runs this step, or goes on at `exit_to`
    exit_to: int = 0
    step: int = 0
    behind: int = 0  # rounds of the block in which it stands
    issued_at: int = -1  # its first task began
    full: int = 0  # what it needed by itself when it came onto the stack
    alone: int = 0  # what it still needs by itself, at the last boundary
    since: int = 0
    started_at: int = -1
    ended_at: int = -1
    cancelled: bool = False

    def rounds(self, kind):
        return self.length if kind == "encoder" else self.output

    def needs(self, step=0, behind=0):
        """Alone, from there to the end."""
        return self.model.span(self.rows, self.length, step, behind, self.model.steps)


def rows_of(requests):
    return sum(r.rows for r in requests)


# ---- the scheduler ----


class Stack:
    """The sub-batches of an executor, bottom first: lists of requests of one model each. The last one runs."""

    def __init__(self):
        self.entries, self.running, self.yielding = [], False, False
        self.run_at = self.predicted = self.consumed = 0
        self.to = None

    def members(self):
        return [r for entry in self.entries for r in entry]

    def rows(self, model):
        return rows_of(r for r in self.members() if r.model is model)

    @staticmethod
    def place(entry):
        return entry[0].step, min(r.behind for r in entry)

    @staticmethod
    def span(entry, to, rows=None, place=None):
        step, behind = place or Stack.place(entry)
        return entry[0].model.span(rows or rows_of(entry), max(r.length for r in entry), step, behind, to)

    def next_boundary(self, now):
        """Where the running entry will stand next, as predicted, and when; possibly now."""
        entry, clock = self.entries[-1], self.run_at
        model, length = entry[0].model, max(r.length for r in entry)
        for step, behind in model.predicted_walk(length, *self.place(entry)):
            if clock >= now and (step, behind) != self.place(entry):
                return (step, behind), clock
            clock += model.tables[step].ns(rows_of(entry), length)
        return (model.steps, 0), max(clock, now)

    def merge(self):
        while len(self.entries) >= 2 and self.same_place(*self.entries[-2:]):
            self.entries[-2:] = [self.entries[-2] + self.entries[-1]]

    @staticmethod
    def same_place(below, top):
        return below[0].model is top[0].model and below[0].step == top[0].step

    @staticmethod
    def rank(request):
        """What the members of an entry have in common; the greatest is on top."""
        return request.step

    def settle(self, batch):
        """The top entry ran: members that stay are at their own steps; those with most steps to go are on top."""
        self.entries.pop()
        self.running = self.yielding = False
        stays = [r for r in batch if r.ended_at < 0]
        for r in stays:
            r.alone = r.needs(r.step, r.behind)
        for rank in sorted({self.rank(r) for r in stays}, reverse=True):
            self.entries.append([r for r in stays if self.rank(r) == rank])


class Scheduler:
    stack_class = Stack

    def __init__(self, models, rules, executors):
        self.rules, self.models = rules, models
        self.queues = {model: [] for model in models}
        self.let_in_at = {model: -NEVER for model in models}
        self.stacks = [self.stack_class() for _ in range(executors)]
        self.retry_at = NEVER

    def room(self, stack, model):
        return min(self.rules.max_batch, model.max_batch) - stack.rows(model)

    def fits(self, stack, group):
        """A request of more rows than that goes alone, where there is no other of its model."""
        alone = len(group) == 1 and stack.rows(group[0].model) == 0
        return alone or rows_of(group) <= self.room(stack, group[0].model)

    # Slack, equation 2.
    def voters(self, stack, group, now):
        """Requests that may refuse, and until when: those that could have been in time, or (timely) those that still can."""
        if self.rules.votes != "timely":
            for r in stack.members() + group:
                if r.deadline < NEVER and self.rules.votes == "all" or r.at + r.needs() <= r.deadline:
                    yield r, NEVER
            return
        for entry in stack.entries:
            runs = stack.running and entry is stack.entries[-1]
            for r in entry:
                latest = r.deadline - r.alone
                if (stack.run_at if runs else now) <= latest:
                    yield r, NEVER if runs else latest + 1
        for r in group:
            if now <= r.deadline - r.needs(r.step, r.behind):
                yield r, r.deadline - r.needs(r.step, r.behind) + 1

    def sum_allows(self, stack, group, now):
        voters = [r for r, _ in self.voters(stack, group, now) if r.deadline < NEVER]
        if not voters:
            return True
        own = sum(r.needs(r.step, r.behind) for r in group)
        if self.rules.slack == "published":
            key = min(r.deadline - (r.issued_at if r.issued_at >= 0 else now) for r in voters)
            return sum(r.full for r in stack.members()) + own <= key
        done = 0
        if stack.running and now > stack.run_at:
            done = stack.consumed * min(now - stack.run_at, stack.predicted) // stack.predicted
        return now + sum(r.alone for r in stack.members()) - done + own <= min(r.deadline for r in voters)

    def curves_allow(self, stack, newcomers, now):
        """The batches as they would run: newcomers on top, merging with what they catch up with."""
        votes = {r.number for r, _ in self.voters(stack, newcomers, now)}
        group, place, clock = list(newcomers), stack.place(newcomers), now
        model = newcomers[0].model
        for entry in reversed(stack.entries):
            own = stack.place(entry)
            if stack.running and entry is stack.entries[-1]:
                own, clock = stack.next_boundary(now)
            fits = rows_of(group) + rows_of(entry) <= min(self.rules.max_batch, model.max_batch)
            merges = entry[0].model is model and place[0] <= own[0] < model.steps and fits
            clock += stack.span(group, own[0] if merges else model.steps, place=place)
            if not merges and any(clock > r.deadline for r in group if r.number in votes):
                return False
            behind = min(place[1] if place[0] == own[0] else 0, own[1]) if merges else own[1]
            group, place, model = (group if merges else []) + entry, (own[0], behind), entry[0].model
        if place[0] < model.steps:
            clock += stack.span(group, model.steps, place=place)
        return all(clock <= r.deadline for r in group if r.number in votes)

    def allows(self, stack, group, now):
        return self.curves_allow(stack, group, now) if self.rules.slack == "curves" else self.sum_allows(stack, group, now)

    def next_chance(self, stack, group, now):
        """Sums shrink while a batch runs, and votes lapse: from when on the check passes, if nothing happens."""
        if self.rules.slack == "curves":
            return NEVER
        predicted_end = stack.run_at + stack.predicted
        shrinks = self.rules.slack == "remaining" and stack.consumed > stack.predicted
        starts = sorted({now + 1} | {lapse for _, lapse in self.voters(stack, group, now) if now < lapse < NEVER})
        for start, end in zip(starts, starts[1:] + [NEVER]):
            if self.allows(stack, group, start):
                return start
            low, high = start, min(end - 1, predicted_end)
            if not shrinks or high <= low or not self.allows(stack, group, high):
                continue
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if self.allows(stack, group, middle) else (middle, high)
            return high
        return NEVER

    # Patience and `foreign`: beyond the paper.
    def missing(self, stack, group, count, rows, now):
        """How much longer `count` requests of so many rows must wait in all, of which the group is the first."""
        if self.rules.patience == 0:
            return 0
        top, model = stack.entries[-1], group[0].model
        length, behind = max(r.length for r in group), min(r.behind for r in group)
        if model is not top[0].model:
            held_up = model.span(rows, length, group[0].step, behind, model.steps)
        else:
            place = stack.next_boundary(now)[0] if stack.running else stack.place(top)
            if place[0] >= model.steps or place[0] < group[0].step:
                return NEVER
            both = min(self.rules.max_batch, model.max_batch, rows_of(top) + rows)
            held_up = model.span(rows, length, group[0].step, behind, place[0])
            held_up += stack.span(top, model.steps, both, place) - stack.span(top, model.steps, place=place)
        price = held_up * len(stack.members()) * self.rules.patience // 1000
        queue = self.queues[model]
        waited = sum(now - max(r.since, self.let_in_at[model]) for r in queue)
        return price - waited * count // len(queue)

    def preempts(self, stack, group, now):
        """May the group, of another model, go before the top entry?"""
        if self.rules.foreign == "slack":
            return True
        top = stack.entries[-1]
        left = stack.span(top, top[0].model.steps) - (now - stack.run_at if stack.running else 0)
        return stack.span(group, group[0].model.steps) < left

    def foreign_head(self, stack):
        heads = [queue[0] for model, queue in self.queues.items() if queue and model is not stack.entries[-1][0].model]
        if not heads or self.rules.foreign in ("never", "turns"):
            return None
        return min(heads, key=lambda r: r.number if self.rules.foreign == "slack" else r.needs(r.step, r.behind))

    def in_turn(self, queue):
        """Those of the running model that came before all waiting requests of other models."""
        if self.rules.foreign != "turns":
            return queue
        others = [other[0].number for other in self.queues.values() if other and other is not queue]
        return [r for r in queue if not others or r.number < min(others)]

    # Decisions.
    def admissible(self, stack, model, now):
        queue, group = self.queues[model], []
        if stack.entries and stack.entries[-1][0].model is model:
            queue = self.in_turn(queue)
        for r in queue:
            if not self.fits(stack, group + [r]) or (group and r.step != group[0].step):
                break
            if stack.entries and not self.allows(stack, group + [r], now):
                break
            if stack.entries and stack.entries[-1][0].model is not model and not self.preempts(stack, group + [r], now):
                break
            group = group + [r]
        if not group or not stack.entries:
            return group
        return [] if self.missing(stack, group, len(group), rows_of(group), now) > 0 else group

    def admit(self, stack, group, now):
        self.let_in_at[group[0].model] = now
        for r in group:
            self.queues[r.model].remove(r)
            r.full = r.alone = r.needs(r.step, r.behind)
        stack.entries.append(group)
        stack.merge()

    def begin(self, stack, now):
        stack.merge()
        own = stack.entries[-1][0].model if stack.entries else self.oldest()
        for turn in range(2):
            if turn == 1:
                head = self.foreign_head(stack) if stack.entries else None
                own = head.model if head else None
            group = self.admissible(stack, own, now) if own else []
            if group:
                self.admit(stack, group, now)
        return self.start(stack, now) if stack.entries else None

    def oldest(self):
        heads = [queue[0] for queue in self.queues.values() if queue]
        return min(heads, key=lambda r: r.number).model if heads else None

    def start(self, stack, now):
        top, below = stack.entries[-1], stack.entries[-2] if len(stack.entries) >= 2 else None
        model = top[0].model
        meets = below and below[0].model is model and below[0].step >= top[0].step
        stack.to = below[0].step if meets else model.steps
        rest = sum(r.needs(stack.to) for r in top) if meets else 0
        stack.run_at, stack.running, stack.yielding = now, True, False
        stack.predicted = max(1, stack.span(top, stack.to))
        stack.consumed = sum(r.alone for r in top) - rest
        for r in top:
            r.issued_at = now if r.issued_at < 0 else r.issued_at
        return stack.to

    def look(self, stack, now):
        """While a batch runs: is it to make room? One executor at a time is asked to."""
        top = stack.entries[-1]
        model = top[0].model
        if any(other.yielding for other in self.stacks) or (top[0].step == model.steps - 1 and model.kinds[-1] == "static"):
            return
        heads = [self.in_turn(self.queues[model])[:1], [self.foreign_head(stack)]]
        for head in ([r for r in row if r] for row in heads):
            if not head or not self.fits(stack, head):
                continue
            if head[0].model is not model and not self.preempts(stack, head, now):
                continue
            room, queue = self.room(stack, head[0].model), self.queues[head[0].model]
            count, rows = len(queue), rows_of(queue)
            if rows > room:  # as many of mean size as there is room for, at least the head
                count, rows = (max(1, room * count // rows), room) if room > head[0].rows else (1, head[0].rows)
            missing = self.missing(stack, head, count, rows, now)
            if missing > 0:
                again = NEVER if missing >= NEVER else now - -missing // count
            elif self.allows(stack, head, now):
                stack.yielding = True
                return
            else:
                again = self.next_chance(stack, head, now)
            self.retry_at = min(self.retry_at, again)

    def lost_at(self, r):
        """From when on it could not be in time even if it began then."""
        return r.deadline - r.model.whole(r.rows, r.length) + 1 if self.rules.drop and r.deadline < NEVER else NEVER

    def heads(self):
        return [queue[0] for queue in self.queues.values() if queue]

    def drop(self, now):
        """Heads only. They end as dropped."""
        while lost := [r for r in self.heads() if self.lost_at(r) <= now]:
            self.queues[lost[0].model].remove(lost[0])
            lost[0].ended_at = now

    def dropped_at(self):
        return min((self.lost_at(r) for r in self.heads()), default=NEVER)

    def cancel(self, r, now):
        if r.ended_at >= 0:
            return
        r.cancelled = True
        if r in self.queues[r.model]:
            self.queues[r.model].remove(r)
            r.ended_at = now
        for stack in self.stacks:
            for entry in stack.entries[: -1 if stack.running else None]:
                if r in entry:
                    entry.remove(r)
                    r.ended_at = now
            stack.entries = [entry for entry in stack.entries if entry]


# ---- the world ----


class Task:
    """The top entry on its way: it ends at `to`, where members part, or at a boundary when asked to yield."""

    def __init__(self, model, batch, to, now):
        self.model, self.batch, self.to, self.step = model, batch, to, batch[0].step
        self.first = self.step
        self.log = []  # (start, end, step) of each step
        self.enter(fresh=False)
        self.begin_step(now)

    def enter(self, fresh):
        """Rounds that each member has before it in the block at `step`, and has behind it."""
        kind = self.model.kinds[self.step]
        self.behind = [0 if fresh else r.behind for r in self.batch]
        self.left = [r.rounds(kind) - behind for r, behind in zip(self.batch, self.behind)]

    def begin_step(self, now):
        length = max(r.length for r in self.batch)
        self.step_ends_at = now + max(1, self.model.tables[self.step].ns(rows_of(self.batch), length))
        self.log.append((now, self.step_ends_at, self.step))

    def outlook(self):
        """Where the end of this step leaves the batch: (rounds that each member has left, has behind it, the next step)."""
        if not self.model.ends_block(self.step):
            return self.left, self.behind, self.step + 1
        left, behind = [left - 1 for left in self.left], [behind + 1 for behind in self.behind]
        return left, behind, self.model.block_first(self.step) if min(left) > 0 else self.step + 1

    def parts(self):
        left, _, _ = self.outlook()
        return self.model.ends_block(self.step) and min(left) <= 0 < max(left)

    def ends(self):
        """Does the task end with this step, even if it is not asked to yield?"""
        left, _, onward = self.outlook()
        return self.parts() or onward == self.to and not (self.model.ends_block(self.step) and min(left) > 0)

    def go_on(self, now):
        fresh = self.model.kinds[self.step] == "static" or self.outlook()[2] > self.step and self.model.ends_block(self.step)
        self.left, self.behind, self.step = self.outlook()
        if fresh:
            self.enter(fresh=True)
        self.begin_step(now)

    def end(self, now):
        """Its members stand where they go on."""
        model, done = self.model, self.step
        ends_round = model.ends_block(done)
        for r, left, behind in zip(self.batch, *self.outlook()[:2]):
            if model.kinds[done] == "static" or ends_round and left <= 0:
                r.step, r.behind = done + 1, 0
            else:
                r.step, r.behind = (model.block_first(done) if ends_round else done + 1), behind
            if self.first <= r.exit_step <= done:
                r.step = max(r.step, r.exit_to) if r.exit_to > 0 else model.steps
            if r.step == model.steps or r.cancelled:
                r.ended_at = now


class World:
    """Requests, ascending in time, their scheduler, and a task or None for each executor."""

    def __init__(self, models, requests, rules, executors, scheduler_class, task_class):
        self.models, self.coming, self.task_class = models, list(requests), task_class
        self.scheduler, self.tasks, self.log = scheduler_class(models, rules, executors), [None] * executors, []
        self.cancels = sorted((r.cancel, r.number, r) for r in requests if r.cancel < NEVER)

    def next_at(self):
        events = [task.step_ends_at for task in self.tasks if task] + [r.at for r in self.coming[:1]]
        events += [cancel[0] for cancel in self.cancels[:1]]
        return min(events + [self.scheduler.retry_at, self.scheduler.dropped_at()])

    def complete(self, now, which):
        """Ends the tasks between two steps of which that is true."""
        ended = False
        for e, task in enumerate(self.tasks):
            if task and task.step_ends_at == now and which(e, task):
                self.log += [(*row[:2], e, self.models.index(task.model), row[2], [r.number for r in task.batch]) for row in task.log]
                task.end(now)
                self.scheduler.stacks[e].settle(task.batch)
                self.tasks[e], ended = None, True
        return ended

    def hear(self, now):
        heard = False
        while self.coming and self.coming[0].at == now:
            request = self.coming.pop(0)
            self.scheduler.queues[request.model].append(request)
            heard = True
        while self.cancels and self.cancels[0][0] == now:
            self.scheduler.cancel(self.cancels.pop(0)[2], now)
            heard = True
        return heard

    def decide(self, now):
        self.scheduler.retry_at = NEVER
        for e, stack in enumerate(self.scheduler.stacks):
            self.scheduler.drop(now)
            if not self.tasks[e] and self.scheduler.begin(stack, now) is not None:
                self.tasks[e] = self.task_class(stack.entries[-1][0].model, stack.entries[-1], stack.to, now)
                for r in stack.entries[-1]:
                    r.started_at = now if r.started_at < 0 else r.started_at
        self.scheduler.drop(now)
        for e, stack in enumerate(self.scheduler.stacks):
            if self.tasks[e]:
                self.scheduler.look(stack, now)

    def go_on(self, now):
        ended = self.complete(now, lambda e, task: self.scheduler.stacks[e].yielding)
        for task in self.tasks:
            if task and task.step_ends_at == now:
                task.go_on(now)
        return ended

    def instant(self, now):
        """Endings, arrivals, decisions; then tasks between two steps go on, unless they were asked to yield just now."""
        stacks = self.scheduler.stacks
        heard = self.complete(now, lambda e, task: stacks[e].yielding or task.ends())
        heard = self.hear(now) or heard or min(self.scheduler.retry_at, self.scheduler.dropped_at()) <= now
        if heard:
            self.decide(now)
        while self.go_on(now):
            self.decide(now)


def run(models, requests, rules, executors=1, scheduler_class=Scheduler, task_class=Task):
    """Serves the requests, ascending in time. Returns [(start, end, executor, model's place, step, numbers)], sorted."""
    world, now = World(models, requests, rules, executors, scheduler_class, task_class), 0
    while (at := world.next_at()) < NEVER:
        now = max(now, at)
        world.instant(now)
    return sorted(world.log, key=lambda row: (row[0], row[2]))


def simulate(model, arrivals, rules, scheduler_class=Scheduler, task_class=Task):
    """One model, one device. `arrivals`: (at, input length, output length, deadline), ascending. Returns the requests, ended all."""
    requests = [Request(i, at, n, m, deadline, model, since=at) for i, (at, n, m, deadline) in enumerate(arrivals)]
    run([model], requests, rules, scheduler_class=scheduler_class, task_class=task_class)
    return requests


def outcome(r):
    if r.cancelled:
        return "cancelled"
    if r.started_at < 0:
        return "dropped"
    return "ok" if r.ended_at <= r.deadline else "late"
