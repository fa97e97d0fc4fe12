"""E1, E2, E4-E6: E2bird's elastic batching, written from the documents and the rules below in plain Python: lists instead of sets of
bits, every sum added up again, every choice of workers tried. It shares nothing with the program.

    log = run(models, requests, Rules(workers=[1, 2, 4]), Setting(...))

The rules (the world below keeps those of a device, of the ring of inputs and of requests that are late):

1. An executor is a worker of one size. Requests whose inputs are on the device wait, in order of arrival. The first of a model's queue
   is dropped once it would be late even if it began alone now (`drop: deadline`), before all else, those first that were lost first.
2. A range is what waits of a model from its oldest request on, as long as the requests lie side by side in the ring.
3. A pass over a model: R = min(rows of its range, max_inf - rows that run). Of the idle workers the largest, then the one of the
   smallest number, whose size is at most R and the model's largest batch takes the first whole requests of the range, at most its size
   in rows. R falls by their rows, and so on until no worker fits. A request is never divided: a worker must hold it, and the smallest
   workers that do take it even if their size is above R. What no worker holds goes to the largest ones, alone.
4. A turn of a model: passes until one assigns nothing. If then nothing runs, the smallest idle worker that holds the whole range takes
   it, else the largest. The model with the oldest waiting request has the first turn, then the others by number.
5. `enhanced`: turns are repeated until none assigns anything. Only workers of the configuration of the load take part, and the smallest
   that hold the oldest request if none of the configuration does. The load is the model's rows that wait, with `pending` also all rows
   that run; of a range that is cut, its own rows. The configuration is that of the largest total at most the load; below the smallest
   total, one worker of 1 and one of 2; without both, one of the smallest size.
6. Totals are 4, 8, 16, 32 and 64 where some of the workers sum to them. The choice with the lowest mean latency, all beginning full at
   once on one device with the longest inputs, is the configuration; of equal ones the fewest workers, then the larger ones. `qos`:
   first those whose workers keep the objective whichever begins last: the others together, then it alone, one after the other, end in
   time.
"""
import dataclasses

from naive_device import NEVER, Copies, Device

TOTALS = (4, 8, 16, 32, 64)


@dataclasses.dataclass
class Rules:
    workers: list
    max_inf: int = 0  # the sum of the sizes
    variant: str = "naive"
    load: str = "pending"
    configurations: list = None  # sizes at each load; None: from the profile
    qos: bool = False
    drop: bool = False


@dataclasses.dataclass
class Setting:
    """`devices`: (executors, the instant at which they appear). Copies: (fixed ns, bytes per ns), None: they cost nothing."""

    devices: list
    pool_slots: int = 0
    copy_in: tuple = None
    copy_out: tuple = None
    delay: tuple = (0, 0)  # of a message: fixed, and per row


@dataclasses.dataclass(eq=False)
class Model:
    number: int
    steps: list  # ({length: [ns by rows, from 1]}, [demand in millionths by rows, from 1])
    max_batch: int
    slo: int = NEVER
    late: str = None  # DROP, SERVE
    input_bytes: int = 0
    output_bytes: int = 0

    @staticmethod
    def at(table, rows, length):
        held = next((own for own in sorted(table) if own >= length), max(table))
        return table[held][rows - 1]

    def whole(self, rows, length):
        return sum(self.at(table, rows, length) for table, _ in self.steps)

    def demand(self, rows, length):
        """The mean over the time of its steps."""
        work = sum(self.at(table, rows, length) * demands[rows - 1] for table, demands in self.steps)
        return -(-work // self.whole(rows, length))


@dataclasses.dataclass(eq=False)
class Request:
    number: int
    at: int
    model: Model
    rows: int = 1
    length: int = 1
    deadline: int = NEVER
    cancel: int = NEVER
    slot: int = -1
    is_late: bool = False
    due: int = NEVER  # its deadline as it stands
    turned: bool = False
    started_at: int = -1
    ended_at: int = -1
    running: bool = False
    ready: bool = False
    cancelled: bool = False

    def alone(self):
        return self.model.whole(self.rows, self.length)

    def order(self):
        return self.is_late, self.number


def rows_of(requests):
    return sum(r.rows for r in requests)


# ---- the configurations ----


def latencies(model, sizes):
    """Of workers that begin full at once: all their ends."""
    device, ends = Device(), []
    for number, size in enumerate(sizes):
        device.start(0, number, model.whole(size, NEVER), model.demand(size, NEVER))
    while device.tasks:
        now = device.next_at()
        if device.take_ended(now) is not None:
            ends.append(now)
    return ends


def keeps(model, sizes):
    """Whichever begins last, at any time, all keep the objective."""
    for size in set(sizes):
        others = list(sizes)
        others.remove(size)
        if max(latencies(model, others), default=0) + model.whole(size, NEVER) > model.slo:
            return False
    return True


def choices(sizes, total):
    """All that sum to the total, of sizes that descend."""
    if total == 0:
        yield ()
    for i, size in enumerate(sizes):
        if size <= total and (i == 0 or sizes[i - 1] != size):
            for rest in choices(sizes[i + 1 :], total - size):
                yield (size, *rest)


def planned(model, rules):
    """The configuration of each load."""
    if rules.configurations:
        return {sum(sizes): sizes for sizes in rules.configurations}
    plans, available = {}, sorted((size for size in rules.workers if size <= model.max_batch), reverse=True)
    for total in TOTALS:
        found = list(choices(available, total))
        if rules.qos:
            found = [sizes for sizes in found if keeps(model, sizes)] or found
        # Means are compared as whole numbers: any count divides the product of all counts.
        every = 1
        for count in range(1, total + 1):
            every *= count
        if found:
            plans[total] = min(found, key=lambda s: (sum(latencies(model, s)) * (every // len(s)), len(s), tuple(-size for size in s)))
    return plans


# ---- the policy ----


class Elastic:
    def __init__(self, world, models, rules):
        self.world, self.models, self.rules = world, models, rules
        self.waiting = {model: [] for model in models}
        self.max_inf = rules.max_inf or sum(rules.workers)
        self.plans = {model: planned(model, rules) if rules.variant == "enhanced" else {} for model in models}
        self.by_size = sorted(range(len(rules.workers)), key=lambda e: (-rules.workers[e], e))

    def idle(self):
        return [e for e in self.by_size if e in self.world.up and not self.world.tasks.get(e)]

    def running(self):
        return sum(rows_of(t.batch) for t in self.world.tasks.values() if t)

    def range(self, model):
        queue = self.waiting[model]
        cut = next((i for i, (a, b) in enumerate(zip(queue, queue[1:]), 1) if a.slot >= 0 and a.slot + a.rows != b.slot), len(queue))
        return queue[:cut]

    def sizes_that_hold(self, rows):
        return {s for s in self.rules.workers if s >= rows} or {max(self.rules.workers)}

    def first_of(self, sizes):
        """The first workers of each size, as many as there are in `sizes`."""
        left, found = list(sizes), []
        for e in self.by_size:
            if self.rules.workers[e] in left:
                left.remove(self.rules.workers[e])
                found.append(e)
        return found

    def counted(self, model):
        """The workers of the configuration of the load."""
        if self.rules.variant == "naive":
            return self.by_size
        load = rows_of(self.range(model))
        if self.rules.load == "pending" and len(self.range(model)) == len(self.waiting[model]):
            load += self.running()
        total = max((t for t in self.plans[model] if t <= load), default=0)
        if total:
            return self.first_of(self.plans[model][total])
        return self.first_of([1, 2]) or self.first_of([min(self.rules.workers)])

    def fits(self, worker, counted, model, left):
        size, first = self.rules.workers[worker], self.range(model)[0].rows
        holding = self.sizes_that_hold(first)
        if first > left:
            return False
        if size == min(holding) and (worker in counted or not any(self.rules.workers[c] in holding for c in counted)):
            return True
        return worker in counted and size in holding and size <= min(left, model.max_batch)

    def take(self, model, worker, limit):
        size, batch = min(self.rules.workers[worker], limit, model.max_batch), []
        for r in self.range(model):
            if batch and rows_of(batch) + r.rows > size:
                break
            batch.append(r)
        self.waiting[model] = self.waiting[model][len(batch) :]
        self.world.start(worker, model, batch)
        return rows_of(batch)

    def one_pass(self, model):
        counted = self.counted(model)
        left = before = min(rows_of(self.range(model)), self.max_inf - self.running())
        while left > 0 and (able := [e for e in self.idle() if self.fits(e, counted, model, left)]):
            left -= self.take(model, able[0], left)
        return left < before

    def turn(self, model):
        """True: something was assigned."""
        before = self.running()
        while self.waiting[model]:
            if self.one_pass(model):
                continue
            if self.running() or not self.idle():
                break
            holding = [e for e in self.idle() if self.rules.workers[e] >= rows_of(self.range(model))]
            size = min((self.rules.workers[e] for e in holding), default=self.rules.workers[self.idle()[0]])
            self.take(model, next(e for e in self.idle() if self.rules.workers[e] == size), NEVER)
        return self.running() > before

    def heads(self):
        return sorted((queue[0] for queue in self.waiting.values() if queue), key=Request.order)

    def lost_at(self, r):
        fixed, per_row = self.world.setting.delay
        return r.due - r.alone() - fixed - per_row * r.rows + 1 if self.rules.drop and r.due < NEVER else NEVER

    def drop(self, now):
        while lost := [r for r in self.heads() if self.lost_at(r) <= now]:
            first = min(lost, key=lambda r: (self.lost_at(r), r.model.number))
            self.waiting[first.model].remove(first)
            self.world.policy_drops(first)

    def decide(self, now):
        self.drop(now)
        while self.heads():
            first = self.heads()[0].model
            turns = [self.turn(model) for model in [first] + [m for m in self.models if m is not first]]
            if self.rules.variant == "naive" or not any(turns):
                break

    def next_at(self):
        return min((self.lost_at(r) for r in self.heads()), default=NEVER)

    def put(self, r):
        self.waiting[r.model] = sorted(self.waiting[r.model] + [r], key=Request.order)

    def remove(self, r):
        if r in self.waiting[r.model]:
            self.waiting[r.model].remove(r)


# ---- the ring of inputs ----


class Ring:
    """Slots of a model's inputs, taken and freed in order; no range crosses the end. An empty ring begins anew."""

    def __init__(self, slots):
        self.slots, self.taken, self.next = slots, [], 0  # taken: [first, rows, held], oldest first

    def take(self, rows):
        if not self.taken:
            self.next = 0
        skipped = self.slots - self.next if self.next + rows > self.slots else 0
        if rows_of_taken(self.taken) + skipped + rows > self.slots:
            return -1
        if skipped:
            self.taken.append([self.next, skipped, False])
            self.next = 0
        self.taken.append([self.next, rows, True])
        first, self.next = self.next, (self.next + rows) % self.slots
        return first

    def free(self, first):
        next(own for own in self.taken if own[0] == first and own[2])[2] = False
        while self.taken and not self.taken[0][2]:
            self.taken.pop(0)


def rows_of_taken(taken):
    return sum(rows for _, rows, _ in taken)


class Pool:
    """Inputs on their way: each is sent alone once its model's ring has room and none that came before waits."""

    def __init__(self, world, models, slots):
        self.world, self.rings = world, {model: Ring(slots) for model in models}
        self.held_back, self.sent = {model: [] for model in models}, []  # sent: (ready at, slot, request)

    def arrived(self, r, now):
        self.held_back[r.model].append(r)
        self.fill(r.model, now)

    def fill(self, model, now):
        queue, ring = self.held_back[model], self.rings[model]
        while queue and (queue[0].ended_at >= 0 or (slot := ring.take(queue[0].rows)) >= 0):
            r = queue.pop(0)
            if r.ended_at < 0:
                size = r.rows * model.input_bytes
                ready_at = self.world.copies_in[0].add(now, size) if size else now
                self.sent.append((max([ready_at] + [at for at, _, _ in self.sent]), slot, r))

    def next_at(self):
        return self.sent[0][0] if self.sent else NEVER

    def take_ready(self, now):
        while self.sent and self.sent[0][0] <= now:
            _, slot, r = self.sent.pop(0)
            if r.ended_at < 0:
                r.slot = slot
                return r
            self.rings[r.model].free(slot)
            self.fill(r.model, now)
        return None

    def left(self, r, now):
        if r.slot >= 0:
            self.rings[r.model].free(r.slot)
        self.fill(r.model, now)


# ---- requests that wait, of models with `late` ----


class Waiting:
    """`late: DROP`: one that could not be in time alone, or behind all that wait, is refused or dropped. `SERVE`: it goes behind all
    others without a deadline. Each eight rows of others that begin give the oldest of them its place and its time back."""

    def __init__(self, world, models):
        self.world, self.late, self.passed = world, [], 0
        self.in_line, self.since_empty = {model: [] for model in models}, {model: [] for model in models}

    def ahead(self, r):
        """What must run before one that has the latest deadline of all since the line was empty."""
        line, since, model = self.in_line[r.model], self.since_empty[r.model], r.model
        if len(model.steps) > 1 or not line or any(length != r.length or due > r.due for length, due in since):
            return 0
        row = min(model.whole(b, 0) // b for b in range(1, model.max_batch + 1))
        return row * rows_of(line) // max(1, len(self.world.up))

    def begin(self, r):
        """True: it is admitted."""
        if r.model.late is None:
            return True
        hopeless = r.due < NEVER and r.due - r.alone() - self.ahead(r) < self.world.now
        if hopeless and r.model.late == "DROP":
            return False
        if hopeless:
            self.make_late(r)
        else:
            self.enter(r)
        return True

    def enter(self, r):
        since = self.since_empty[r.model]
        if not self.in_line[r.model]:
            since.clear()
        since.append((r.length, r.due))
        self.in_line[r.model].append(r)

    def leave(self, r):
        if r.model.late is None:
            return
        if r in self.in_line[r.model]:
            self.in_line[r.model].remove(r)
        if r in self.late:
            self.late.remove(r)
        if not self.late:
            self.passed = 0

    def begins_to_run(self, r):
        if r.model.late and self.late and not r.is_late:
            self.passed += r.rows
        self.leave(r)

    def make_late(self, r):
        if r in self.in_line[r.model]:
            self.in_line[r.model].remove(r)
        r.is_late, r.due = True, NEVER
        self.late.append(r)

    def latest(self, r):
        return r.due - r.alone() if r.due < NEVER else NEVER

    def next_at(self):
        return min((self.latest(r) + 1 for line in self.in_line.values() for r in line if r.due < NEVER), default=NEVER)

    def expire(self, now):
        line = [r for own in self.in_line.values() for r in own]
        for r in sorted(line, key=lambda r: (self.latest(r), r.number)):
            if self.latest(r) < now:
                self.world.policy.remove(r)
                if r.model.late == "DROP":
                    self.world.leaves(r, "dropped")
                else:
                    self.make_late(r)
                    self.world.again(r)
        while self.late and self.passed >= 8:
            self.passed -= 8
            r = min(self.late, key=lambda r: r.number)
            self.world.policy.remove(r)
            self.late.remove(r)
            if not self.late:
                self.passed = 0
            r.is_late = False
            r.due = now + max(r.deadline - r.at, 4 * r.alone())
            self.enter(r)
            self.world.again(r)


# ---- the world ----


@dataclasses.dataclass(eq=False)
class Task:
    executor: int
    model: Model
    batch: list
    due_at: int = NEVER  # the end of its message or of its copies
    phase: str = "message"  # in, step, between, out
    step: int = 0
    since: int = 0


class World:
    def __init__(self, models, requests, rules, setting):
        self.setting, self.now = setting, 0
        self.device_of = [d for d, (count, _) in enumerate(setting.devices) for _ in range(count)]
        self.appears = [at for count, at in setting.devices for _ in range(count)]
        self.up, self.tasks, self.log = [], {}, []
        self.devices = [Device() for _ in setting.devices]
        self.copies_in = [Copies(setting.copy_in) for _ in setting.devices]
        self.copies_out = [Copies(setting.copy_out) for _ in setting.devices]
        self.coming = list(requests)
        self.cancels = []
        self.pool = Pool(self, models, setting.pool_slots) if setting.pool_slots else None
        self.queue = Waiting(self, models)
        self.made_late, self.timer_at, self.heard = [], NEVER, False
        self.policy = Elastic(self, models, rules)

    # What requests do.
    def arrive(self, r):
        r.due = r.deadline
        if not self.queue.begin(r):
            r.ended_at, r.outcome = self.now, "dropped"
            return
        if self.pool:
            self.pool.arrived(r, self.now)
        else:
            self.ready(r)
        if r.cancel < NEVER:
            self.cancels = sorted(self.cancels + [(max(r.cancel, r.at), r.number, r)])

    def ready(self, r):
        r.ready = True
        self.policy.put(r)

    def again(self, r):
        if r.ready:
            self.policy.put(r)

    def leaves(self, r, outcome):
        self.queue.leave(r)
        r.ended_at, r.outcome = self.now, outcome
        if self.pool:
            size = r.rows * r.model.output_bytes
            if outcome == "done" and size:
                r.ended_at = self.copies_out[0].add(self.now, size)
            self.pool.left(r, self.now)

    def policy_drops(self, r):
        if r.model.late == "SERVE" and not r.is_late:
            self.queue.make_late(r)
            self.made_late.append(r)
        else:
            self.leaves(r, "dropped")

    def cancel(self, r):
        if r.ended_at >= 0 or r.cancelled:
            return
        if r.running:
            r.cancelled = True
        else:
            self.policy.remove(r)
            self.leaves(r, "cancelled")
        self.heard = True

    # What tasks do.
    def start(self, executor, model, batch):
        for r in batch:
            r.running = True
            self.queue.begins_to_run(r)
        fixed, per_row = self.setting.delay
        self.tasks[executor] = task = Task(executor, model, batch, self.now + fixed + per_row * rows_of(batch))
        if task.due_at <= self.now:
            self.come(task)

    def come(self, task):
        """The end of a message or of copies has come."""
        task.due_at, rows, device = NEVER, rows_of(task.batch), self.device_of[task.executor]
        if task.phase == "message" and not self.pool and task.model.input_bytes:
            task.phase = "in"
            task.due_at = self.copies_in[device].add(self.now, rows * task.model.input_bytes)
            if task.due_at > self.now:
                return
            task.due_at = NEVER
        if task.phase == "out":
            self.finish(task)
        else:
            self.run_step(task)

    def run_step(self, task):
        task.phase, task.since, rows = "step", self.now, rows_of(task.batch)
        table, demands = task.model.steps[task.step]
        ns = task.model.at(table, rows, max(r.length for r in task.batch))
        self.devices[self.device_of[task.executor]].start(self.now, task.executor, ns, demands[rows - 1])
        for r in task.batch:
            r.started_at = self.now if r.started_at < 0 else r.started_at

    def step_ended(self, task):
        self.log.append((task.since, self.now, task.executor, task.model.number, task.step, [r.number for r in task.batch]))
        task.step += 1
        if task.step < len(task.model.steps):
            task.phase = "between"
            return
        task.phase, size = "out", rows_of(task.batch) * task.model.output_bytes
        if size and not self.pool:
            task.due_at = self.copies_out[self.device_of[task.executor]].add(self.now, size)
        if not self.now < task.due_at < NEVER:
            task.due_at = NEVER
            self.finish(task)

    def finish(self, task):
        self.tasks[task.executor], self.heard = None, True
        for r in task.batch:
            self.leaves(r, "cancelled" if r.cancelled else "done")

    # One instant.
    def running(self):
        return [task for task in self.tasks.values() if task]

    def completions(self):
        for e, at in enumerate(self.appears):
            if at <= self.now and e not in self.up:
                self.up.append(e)
                self.heard = True
        while due := [(t.due_at, t.executor, t) for t in self.running() if t.due_at <= self.now]:
            self.come(min(due)[2])
        for device in self.devices:
            while device.next_at() <= self.now:
                executor = device.take_ended(self.now)
                if executor is not None:
                    self.step_ended(self.tasks[executor])

    def instant(self):
        self.heard = False
        self.completions()
        while self.coming and self.coming[0].at == self.now:
            self.arrive(self.coming.pop(0))
            self.heard = True
        while self.cancels and self.cancels[0][0] <= self.now:
            self.cancel(self.cancels.pop(0)[2])
        while self.pool and (r := self.pool.take_ready(self.now)):
            self.ready(r)
            self.heard = True
        if self.heard or self.timer_at <= self.now:
            self.decide()
        for task in self.running():
            if task.phase == "between":
                self.run_step(task)

    def decide(self):
        self.queue.expire(self.now)
        self.policy.decide(self.now)
        while self.made_late:
            again, self.made_late = self.made_late, []
            for r in again:
                self.again(r)
            self.policy.decide(self.now)
        self.timer_at = min(self.policy.next_at(), self.queue.next_at())

    def next_at(self):
        at = [r.at for r in self.coming[:1]] + [cancel[0] for cancel in self.cancels[:1]] + [self.timer_at]
        at += [t.due_at for t in self.running()] + [device.next_at() for device in self.devices]
        at += [own for e, own in enumerate(self.appears) if e not in self.up]
        return min(at + ([self.pool.next_at()] if self.pool else []))


def run(models, requests, rules, setting):
    """Serves the requests, ascending in time. Returns [(start, end, executor, model's number, step, numbers)], sorted."""
    world = World(models, requests, rules, setting)
    while (at := world.next_at()) < NEVER:
        world.now = max(world.now, at)
        world.instant()
    return sorted(world.log, key=lambda row: (row[0], row[2]))


def outcome(r):
    if r.outcome != "done":
        return r.outcome
    return "ok" if r.ended_at <= r.deadline else "late"
