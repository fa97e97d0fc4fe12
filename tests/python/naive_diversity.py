"""D2, D3, D5, D6, D7: DVABatch's pipeline, written from the paper and the rules below in plain Python: one model in stages, a device
on which tasks do not slow each other down, lists instead of ranges, every sum added up again. It shares nothing with the program.

    requests = simulate(Model(stages), arrivals, Rules(pairs=2), executors=4)

Virtual time in whole nanoseconds. Within an instant: endings, then arrivals, then decisions.

The rules:

1. Executor e runs stage e mod S; with fewer executors than stages every stage s with s mod E = e, the last of them first.
2. `pairs` buffers lie behind each stage but the last. A stage that begins takes one behind itself. It is given back once the
   next stage has read it, that is has ended, and is active again: has a free buffer behind itself, which the last always has.
3. With `input: on` a batch has requests of one class of lengths, of `width` lengths each (1 .. w, w + 1 .. 2 w, ..), and takes
   as long as the profile says for its longest. The class of the oldest pending request goes first, in order of arrival among the
   first 4 bs_max + 64. All batches together have at most `bs_max` rows, and none is stretched.
4. Decisions. First, parts that have ended a stage, those that ended first first:
   - stretch: a part that is all of the latest batch is held while the pending requests catch up from the first stage, as many
     as `bs_max` allows. The batch is younger than `comp_wait`, has fewer than `bs_max` rows, is not split and would not be at
     its present size at a later boundary; an executor of the first stage is idle; a buffer is free behind the first stage and
     one where the part is held. When the newcomers have ended that stage both go on as one part.
   - split: a part of b rows is halved while T(b) >= T(ceil(b / 2)) + T(floor(b / 2)), T being the time that the remaining
     stages take. Each half is tested again. A piece waits in its queue, and all behind it, until those before it have left.
   - else the part goes to the queue of the next stage.
   Then idle executors, the last stages first, run the front of their queue. Then, while an executor of the first stage is idle,
   its queue is empty and a buffer is free behind it, the pending requests (of the class) become a batch of at most `bs_max` rows
   if so many wait or the oldest has waited for `window`.
"""
import dataclasses

@dataclasses.dataclass
class Rules:
    bs_max: int = 64
    pairs: int = 2
    window: int = 0
    comp_wait: int = -1  # the whole model's time at bs_max
    stretch: bool = True
    split: bool = True
    width: int = 0  # 0: lengths do not count


@dataclasses.dataclass
class Request:
    number: int
    at: int
    length: int = 1
    started_at: int = -1
    ended_at: int = -1


@dataclasses.dataclass
class Batch:
    created_at: int
    rows: int
    splits: bool = False


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
        return len(self.requests)


class Pipeline:
    def __init__(self, stages, rules, executors):
        """stages: for each stage {length: [ns by rows, from 1]}; a length between two takes as long as the next one."""
        self.stages, self.rules, self.last = stages, rules, len(stages) - 1
        self.running = [None] * executors  # (end, part)
        self.pending, self.ended, self.batches = [], [], []
        self.queues = [[] for _ in stages]
        self.used, self.read = [0] * len(stages), [0] * len(stages)
        whole = sum(own[max(own)][rules.bs_max - 1] for own in stages)
        self.comp_wait = rules.comp_wait if rules.comp_wait >= 0 else whole

    def ns(self, stage, rows, requests):
        own, longest = self.stages[stage], max(request.length for request in requests)
        return own[min(length for length in own if length >= longest)][rows - 1]

    # Stages and buffers.
    def executors_of(self, stage):
        count = len(self.stages)
        return [e for e in range(len(self.running)) if (e % count == stage if len(self.running) >= count else stage % len(self.running) == e)]

    def idle(self, stage):
        return next((e for e in self.executors_of(stage) if self.running[e] is None), None)

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
        self.running[executor] = (now + self.ns(stage, part.rows, part.requests), part)

    def end(self, executor, now):
        part = self.running[executor][1]
        self.running[executor] = None
        if part.stage > 0:
            self.read[part.stage - 1] += part.buffers
        part.buffers = 1
        self.give_back()
        if part.stage == self.last:
            for request in part.requests:
                request.ended_at = now
            part.batch.rows -= part.rows
            part.has_left = True
            if part.batch.rows == 0:
                self.batches.remove(part.batch)
        elif part.held and part.held.stage == part.stage:
            part.held.requests += part.requests
            part.held.buffers += 1
            self.ended.append(part.held)
        else:
            self.ended.append(part)

    # Decisions.
    def splits_behind(self, stage, requests):
        def remaining(rows):
            return sum(self.ns(later, rows, requests) for later in range(stage + 1, len(self.stages)))

        rows, half = len(requests), len(requests) // 2
        return self.rules.split and half > 0 and remaining(rows) >= remaining(rows - half) + remaining(half)

    def may_stretch(self, part, now):
        batch = part.batch
        return (
            self.rules.stretch
            and self.rules.width == 0
            and self.pending
            and batch is self.batches[-1]
            and part.rows == batch.rows < self.rules.bs_max
            and now - batch.created_at < self.comp_wait
            and not batch.splits
            and not any(self.splits_behind(stage, part.requests) for stage in range(part.stage, self.last))
            and self.idle(0) is not None
            and self.has_buffer(0)
            and self.has_buffer(part.stage)
        )

    def candidates(self):
        """The pending requests that may share a batch with the oldest."""
        if self.rules.width == 0:
            return self.pending
        near = self.pending[: 4 * self.rules.bs_max + 64]
        return [request for request in near if self.class_of(request) == self.class_of(near[0])]

    def take(self, count):
        taken = self.candidates()[:count]
        self.pending = [request for request in self.pending if request not in taken]
        return taken

    def class_of(self, request):
        return (request.length - 1) // self.rules.width

    def pieces(self, part):
        """The part and what is split off it, in order."""
        if not self.splits_behind(part.stage, part.requests):
            return [part]
        keep = part.rows - part.rows // 2
        younger = Part(part.batch, part.requests[keep:], part.stage)
        del part.requests[keep:]
        younger.buffers, part.buffers = part.buffers, 0  # all is read when the younger has read
        part.batch.splits = True
        return self.pieces(part) + self.pieces(younger)

    def decide_ended(self, part, now):
        if self.may_stretch(part, now):
            newcomers = Part(part.batch, self.take(self.rules.bs_max - part.rows), held=part)
            part.batch.rows += newcomers.rows
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

    def make(self, now):
        if not self.pending or self.idle(0) is None or self.queues[0] or not self.has_buffer(0):
            return False
        if len(self.candidates()) < self.rules.bs_max and now - self.pending[0].at < self.rules.window:
            return False
        active = sum(batch.rows for batch in self.batches) if self.rules.width > 0 else 0
        if active >= self.rules.bs_max:
            return False
        requests = self.take(self.rules.bs_max - active)
        self.batches.append(Batch(now, len(requests)))
        self.run(self.idle(0), Part(self.batches[-1], requests), now)
        return True

    def decide(self, now):
        ended, self.ended = self.ended, []
        for part in ended:
            self.decide_ended(part, now)
        for stage in reversed(range(len(self.stages))):
            while self.run_front(stage, now):
                pass
        while self.make(now):
            pass

    def next_at(self):
        ends = [task[0] for task in self.running if task]
        if self.pending and self.idle(0) is not None:
            ends.append(self.pending[0].at + self.rules.window)
        return ends


def simulate(stages, arrivals, rules, executors):
    """`arrivals`: (at, length), ascending. Returns the requests, ended all."""
    requests = [Request(number, at, length) for number, (at, length) in enumerate(arrivals)]
    pipeline, coming, now = Pipeline(stages, rules, executors), 0, -1
    while True:
        times = [at for at in pipeline.next_at() if at > now]
        times += [requests[coming].at] if coming < len(requests) else []
        if not times:
            return requests
        now = min(times)
        ending = sorted((task[0], executor) for executor, task in enumerate(pipeline.running) if task and task[0] <= now)
        for _, executor in ending:
            pipeline.end(executor, now)
        while coming < len(requests) and requests[coming].at == now:
            pipeline.pending.append(requests[coming])
            coming += 1
        pipeline.decide(now)
