"""D2, D3, D5-D8: DVABatch's pipeline, written from the paper and the rules below in plain Python: models in stages on one device, lists
instead of ranges, every sum added up again. It shares nothing with the program.

    log = simulate([stages], requests, Rules(pairs=2), executors=4)

Virtual time in whole nanoseconds. Within an instant: endings, then arrivals, then cancellations, then decisions.

The rules:

1. Executor e runs stage e mod S; with fewer executors than stages every stage s with s mod E = e, the last of them first. Several
   models have pipelines of their own on the same executors; decisions are made for one after the other, by number.
2. `pairs` buffers lie behind each stage but the last. A stage that begins takes one behind itself. It is given back once the
   next stage has read it, that is has ended, and is active again: has a free buffer behind itself, which the last always has.
3. With `input: on` a batch has requests of one class of lengths, of `width` lengths each (1 .. w, w + 1 .. 2 w, ..), or those of the
   profile. It takes as long as the profile says for its longest. The class of the oldest pending request goes first, in order of
   arrival among the first 4 bs_max + 64. All batches together have at most `bs_max` rows, and none is stretched.
4. Requests of several rows are not divided: a batch is the first of them whose rows fit, a half the first that have half of the rows.
5. At the end of a stage that a request exits from, or if it was cancelled, it leaves. If it skips stages, it goes on before a later
   one, in a batch of its own, which holds no buffer and is not stretched. Waiting requests that are cancelled leave at once. `drop`:
   before all else, the oldest pending request leaves that would be late even if it began alone now.
6. Decisions. First, parts that have ended a stage, those that ended first first:
   - stretch: a part that is all of the latest batch is held while the pending requests catch up from the first stage, as many
     as `bs_max` allows. The batch is not older than `comp_wait`, has fewer than `bs_max` rows, is not split and would not be at
     its present size at a later boundary; an executor of the first stage is idle; a buffer is free behind the first stage and
     one where the part is held. When the newcomers have ended that stage both go on as one part. With `pays` only if the sum of
     the ends of all rows is then not larger than if the two went on by themselves: beside each other, slowing each other down by
     their demands, if their stages have different idle executors, else one behind the other.
   - split: a part of b rows is halved while T(b) >= T(ceil(b / 2)) + T(floor(b / 2)), T being the time that the remaining
     stages take. Each half is tested again. A piece waits in its queue, and all behind it, until those before it have left.
   - else the part goes to the queue of the next stage.
   Then idle executors, the last stages first, run the front of their queue. Then, while an executor of the first stage is idle,
   its queue is empty and a buffer is free behind it, the pending requests (of the class) become a batch of at most `bs_max` rows
   if so many wait or the oldest has waited for `window`. With `beside: pays` only if nothing runs, or if that lowers the sum of
   the ends, in units of a batch: n that run end after max(1, D), it 1 later; or all n + 1 after max(1, D + d). With `input: pays`
   it ends before the first request with which the sum of the squared latencies of all that were looked at would be larger.
"""
import dataclasses

from naive_device import NEVER, WHOLE, Device


@dataclasses.dataclass
class Rules:
    bs_max: int = 64
    pairs: int = 2
    window: int = -1  # 0, or the first stage at bs_max with `input`
    comp_wait: int = -1  # the whole model's time at bs_max
    stretch: str = "on"  # or off, pays
    split: bool = True
    input: str = "off"  # or on, pays
    width: int = 0  # 0: the profile's lengths
    beside: str = "always"  # or pays
    drop: bool = False


@dataclasses.dataclass(eq=False)
class Request:
    number: int
    at: int
    model: int = 0
    length: int = 1
    rows: int = 1
    deadline: int = NEVER
    cancel: int = NEVER
    exit_step: int = -1
    exit_to: int = 0
    started_at: int = -1
    ended_at: int = -1
    cancelled: bool = False


def rows_of(requests):
    return sum(request.rows for request in requests)


@dataclasses.dataclass(eq=False)
class Batch:
    created_at: int
    parts: list = dataclasses.field(default_factory=list)
    splits: bool = False

    @property
    def rows(self):
        return sum(part.rows for part in self.parts)


@dataclasses.dataclass(eq=False)
class Part:
    batch: Batch
    requests: list
    stage: int = 0  # to run, or that has ended
    buffers: int = 0  # that hold its input
    before: object = None  # the piece that must leave the model first
    held: object = None  # of newcomers: the part that waits for them
    has_left: bool = False

    @property
    def rows(self):
        return rows_of(self.requests)


class Pipeline:
    def __init__(self, number, stages, rules, world):
        """stages: for each stage {length: [ns by rows, from 1]}; a length between two takes as long as the next one. And the demand in
        millionths of the device, by rows from 1."""
        self.stages, self.demands = stages
        self.number, self.rules, self.last, self.world = number, rules, len(self.stages) - 1, world
        self.pending, self.ended, self.batches = [], [], []
        self.latest = None  # the batch that was made last
        self.queues = [[] for _ in self.stages]
        self.used, self.read = [0] * len(self.stages), [0] * len(self.stages)
        self.retry_at = NEVER

    def ns(self, stage, rows, longest):
        own = self.stages[stage]
        return own[min((length for length in own if length >= longest), default=max(own))][rows - 1]

    def whole(self, rows, longest, first=0):
        return sum(self.ns(stage, rows, longest) for stage in range(first, len(self.stages)))

    @staticmethod
    def longest(requests):
        return max(request.length for request in requests)

    # Stages and buffers.
    def executors_of(self, stage):
        count = len(self.stages)
        executors = len(self.world.running)
        return [e for e in range(executors) if (e % count == stage if executors >= count else stage % executors == e)]

    def idle(self, stage):
        return next((e for e in self.executors_of(stage) if self.world.running[e] is None), None)

    def has_buffer(self, stage):
        return stage == self.last or self.used[stage] < self.rules.pairs

    def give_back(self):
        for stage in reversed(range(self.last)):
            if self.read[stage] and self.has_buffer(stage + 1):
                self.used[stage] -= self.read[stage]
                self.read[stage] = 0

    def run(self, executor, part, now):
        stage = part.stage
        if stage < self.last:
            self.used[stage] += 1
        for request in part.requests:
            request.started_at = now if request.started_at < 0 else request.started_at
        ns = self.ns(stage, part.rows, self.longest(part.requests))
        self.world.device.start(now, executor, ns, self.demands[part.rows - 1])
        self.world.running[executor] = (now, part, self)

    # Requests and parts that leave.
    def leave(self, part):
        """The part has no request any more."""
        part.has_left = True
        part.batch.parts.remove(part)
        if not part.batch.parts:
            self.batches.remove(part.batch)
        for other in part.batch.parts:
            if other.held is part:
                other.held = None
            if other.before is part:
                other.before = part.before
        if part.held:
            self.ended.append(part.held)

    def skip(self, request, now):
        """It goes on in a batch of its own, as if it had ended the stage before."""
        batch = Batch(now, splits=True)
        batch.parts.append(Part(batch, [request], request.exit_to - 1))
        self.batches.append(batch)
        self.ended.append(batch.parts[0])

    def keep(self, part, now):
        """Those of its requests stay that go on with the next stage."""
        stays = []
        for request in part.requests:
            exits = 0 <= request.exit_step <= part.stage
            if part.stage == self.last or request.cancelled or exits and request.exit_to == 0:
                request.ended_at = now
            elif exits and request.exit_to > part.stage + 1:
                self.skip(request, now)
            else:
                stays.append(request)
        part.requests = stays

    def end(self, part, now):
        if part.stage > 0:
            self.read[part.stage - 1] += part.buffers
        part.buffers = 1 if part.stage < self.last else 0
        self.keep(part, now)
        if not part.requests:
            self.lose_buffers(part)
            self.leave(part)
        elif part.held and part.held.stage == part.stage:
            part.held.requests += part.requests
            part.held.buffers += 1
            part.batch.parts.remove(part)
            self.ended.append(part.held)
        else:
            self.ended.append(part)
        self.give_back()

    def lose_buffers(self, part):
        """No stage will read what it has written."""
        if part.buffers:
            self.used[part.stage] -= part.buffers

    def cancel(self, request, now):
        if request.ended_at >= 0:
            return
        request.cancelled = True
        if request in self.pending:
            self.pending.remove(request)
            request.ended_at = now
        for part in [part for batch in self.batches for part in batch.parts]:
            if request in part.requests and not any(task and task[1] is part for task in self.world.running):
                self.remove(part, request, now)

    def remove(self, part, request, now):
        part.requests.remove(request)
        request.ended_at = now
        if part.requests:
            return
        for queue in self.queues:
            if part in queue:
                queue.remove(part)
                part.stage -= 1  # behind which its input lies
        if part in self.ended:
            self.ended.remove(part)
        self.lose_buffers(part)
        self.leave(part)
        self.give_back()

    # Decisions.
    def splits_behind(self, stage, part):
        rows, longest = part.rows, self.longest(part.requests)
        if not self.rules.split or rows == 1:
            return False
        halves = self.whole(rows - rows // 2, longest, stage + 1) + self.whole(rows // 2, longest, stage + 1)
        return self.whole(rows, longest, stage + 1) >= halves

    def comp_wait(self, part):
        if self.rules.comp_wait >= 0:
            return self.rules.comp_wait
        return self.whole(self.rules.bs_max, self.longest(part.requests))

    def may_stretch(self, part, now):
        batch = part.batch
        return (
            self.rules.stretch != "off"
            and self.rules.input == "off"
            and self.fitting(self.pending, self.rules.bs_max - part.rows)
            and batch is self.latest
            and batch.parts == [part]
            and now - batch.created_at <= self.comp_wait(part)
            and not batch.splits
            and not any(self.splits_behind(stage, part) for stage in range(part.stage, self.last))
            and self.idle(0) is not None
            and self.has_buffer(0)
            and self.has_buffer(part.stage)
            and (self.rules.stretch == "on" or self.stretch_pays(part))
        )

    def stretch_pays(self, part):
        """The sum of the ends of all rows: newcomers catch up and all go on, or two batches beside or behind each other."""
        coming, held = self.fitting(self.pending, self.rules.bs_max - part.rows), part.requests
        catch_up = sum(self.ns(stage, rows_of(coming), self.longest(coming)) for stage in range(part.stage + 1))
        both = held + coming
        stretched = (catch_up + self.whole(rows_of(both), self.longest(both), part.stage + 1)) * rows_of(both)
        a, b = self.whole(part.rows, self.longest(held), part.stage + 1), self.whole(rows_of(coming), self.longest(coming))
        if self.idle(part.stage + 1) == self.idle(0):
            return stretched <= a * part.rows + (a + b) * rows_of(coming)
        first = min(a, b) * max(WHOLE, self.demands[part.rows - 1] + self.demands[rows_of(coming) - 1]) // WHOLE
        last = first + abs(a - b)
        ends = (first, last) if a <= b else (last, first)
        return stretched <= ends[0] * part.rows + ends[1] * rows_of(coming)

    def near(self):
        return self.pending[: None if self.rules.input == "off" else 4 * self.rules.bs_max + 64]

    def candidates(self):
        """The pending requests that may share a batch with the oldest."""
        return [request for request in self.near() if self.class_of(request) == self.class_of(self.pending[0])]

    @staticmethod
    def fitting(requests, rows):
        taken = []
        for request in requests:
            if rows_of(taken) + request.rows > rows:
                break
            taken.append(request)
        return taken

    def joining_pays(self, batch, request, now):
        """The sum over all near rows of the squared latencies: the request joins, or all others run alone, in order."""

        def squares(batch):
            clock, total = now + self.whole(rows_of(batch), self.longest(batch)), 0
            total += sum(r.rows * (clock - r.at) ** 2 for r in batch)
            for r in (r for r in self.near() if r not in batch):
                clock += self.whole(r.rows, r.length)
                total += r.rows * (clock - r.at) ** 2
            return total

        return squares(batch + [request]) <= squares(batch)

    def take(self, rows, now):
        taken = self.fitting(self.candidates(), rows)
        if self.rules.input == "pays":
            count = 1
            while count < len(taken) and self.joining_pays(taken[:count], taken[count], now):
                count += 1
            taken = taken[:count]
        self.pending = [request for request in self.pending if request not in taken]
        return taken

    def class_of(self, request):
        if self.rules.input == "off":
            return 0
        if self.rules.width > 0:
            return (request.length - 1) // self.rules.width
        own = sorted(self.stages[0])
        return min((length for length in own if length >= request.length), default=own[-1])

    def pieces(self, part):
        """The part and what is split off it, in order."""
        if not self.splits_behind(part.stage, part):
            return [part]
        keep, half = 0, part.rows - part.rows // 2
        while rows_of(part.requests[:keep]) < half:
            keep += 1
        if keep == len(part.requests):
            return [part]
        younger = Part(part.batch, part.requests[keep:], part.stage)
        del part.requests[keep:]
        part.batch.parts.append(younger)
        younger.buffers, part.buffers = part.buffers, 0  # all is read when the younger has read
        part.batch.splits = True
        return self.pieces(part) + self.pieces(younger)

    def decide_ended(self, part, now):
        if self.may_stretch(part, now):
            newcomers = Part(part.batch, self.take(self.rules.bs_max - part.rows, now), held=part)
            part.batch.parts.append(newcomers)
            self.queues[0].append(newcomers)
            return
        row = [part] if part.held else self.pieces(part)
        for older, younger in zip(row, row[1:]):
            younger.before = older
        for behind in sum(self.queues, []):  # a piece of an earlier split waits for all of these
            behind.before = row[-1] if behind.before is part else behind.before
        for piece in row:
            piece.stage += 1
            self.queues[piece.stage].append(piece)

    def run_front(self, stage, now):
        executor, queue = self.idle(stage), self.queues[stage]
        if executor is None or not queue or not self.has_buffer(stage):
            return False
        if queue[0].before and not queue[0].before.has_left:
            return False
        self.run(executor, queue.pop(0), now)
        return True

    def window(self):
        if self.rules.window >= 0:
            return self.rules.window
        return self.ns(0, self.rules.bs_max, self.pending[0].length) if self.rules.input != "off" else 0

    def beside_pays(self):
        """n that run end after max(1, D) batches, and it 1 later, or all after max(1, D + d)."""
        tasks = [task for task in self.world.running if task]
        if self.rules.beside == "always" or not tasks:
            return True
        demand = sum(pipeline.demands[part.rows - 1] for _, part, pipeline in tasks)
        coming = self.demands[min(rows_of(self.pending), self.rules.bs_max) - 1]
        apart = len(tasks) * max(WHOLE, demand) + max(WHOLE, demand) + WHOLE
        return (len(tasks) + 1) * max(WHOLE, demand + coming) <= apart

    def make(self, now):
        if not self.pending or self.idle(0) is None or self.queues[0] or not self.has_buffer(0):
            return False
        if not self.beside_pays():
            return False
        active = sum(batch.rows for batch in self.batches) if self.rules.input != "off" else 0
        due_at = self.pending[0].at + self.window()
        if rows_of(self.candidates()) < self.rules.bs_max and now < due_at:
            self.retry_at = min(self.retry_at, due_at)
            return False
        requests = self.take(self.rules.bs_max - active, now)
        if not requests:
            return False
        batch = Batch(now)
        batch.parts.append(Part(batch, requests))
        self.batches.append(batch)
        self.latest = batch
        self.run(self.idle(0), batch.parts[0], now)
        return True

    def lost_at(self):
        """From when on the oldest could not be in time even if it began then."""
        if not self.rules.drop or not self.pending:
            return NEVER
        head = self.pending[0]
        return head.deadline - self.whole(head.rows, head.length) + 1 if head.deadline < NEVER else NEVER

    def drop(self, now):
        while self.lost_at() <= now:
            self.pending.pop(0).ended_at = now

    def decide(self, now):
        self.retry_at = NEVER
        ended, self.ended = self.ended, []
        for part in ended:
            self.decide_ended(part, now)
        for stage in reversed(range(len(self.stages))):
            while self.run_front(stage, now):
                pass
        while self.make(now):
            pass


class World:
    def __init__(self, models, requests, rules, executors):
        self.device, self.running, self.log = Device(), [None] * executors, []  # running: (start, part, pipeline)
        self.pipelines = [Pipeline(number, stages, rules, self) for number, stages in enumerate(models)]
        self.coming = list(requests)
        self.cancels = sorted((r.cancel, r.number, r) for r in requests if r.cancel < NEVER)

    def next_at(self):
        timers = [at for own in self.pipelines for at in (own.retry_at, own.lost_at())]
        return min(timers + [self.device.next_at()] + [r.at for r in self.coming[:1]] + [c[0] for c in self.cancels[:1]])

    def instant(self, now):
        while (executor := self.device.take_ended(now)) is not None:
            start, part, pipeline = self.running[executor]
            self.running[executor] = None
            self.log.append((start, now, executor, str(pipeline.number), part.stage, [r.number for r in part.requests]))
            pipeline.end(part, now)
        while self.coming and self.coming[0].at == now:
            self.pipelines[self.coming[0].model].pending.append(self.coming.pop(0))
        while self.cancels and self.cancels[0][0] <= now:
            _, _, request = self.cancels.pop(0)
            self.pipelines[request.model].cancel(request, now)
        for pipeline in self.pipelines:
            pipeline.drop(now)
        for pipeline in self.pipelines:
            pipeline.decide(now)


def simulate(models, requests, rules, executors):
    """Serves the requests, ascending in time. Returns [(start, end, executor, model's number, stage, numbers)], sorted."""
    world, now = World(models, requests, rules, executors), 0
    while (at := world.next_at()) < NEVER:
        now = max(now, at)
        world.instant(now)
    return sorted(world.log, key=lambda row: (row[0], row[2]))


def outcome(request):
    if request.cancelled:
        return "cancelled"
    if request.started_at < 0:
        return "dropped"
    return "ok" if request.ended_at <= request.deadline else "late"
