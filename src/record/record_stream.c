#include "record/record_stream.h"

#include "base/array.h"
#include "base/instant.h"
#include "record/record_cells.h"

#include <stdlib.h>

/* See the assertions of record_setup.c. */
_Static_assert(sizeof(void *) != 8 || sizeof(struct tt_arrival) == 56,
               "a new field of tt_arrival: record it here"); /* the graph follows from its specs */

/* The file holds these numbers; a change of one is a new version of the format. */
_Static_assert(TT_OUTCOME_DONE == 0 && TT_OUTCOME_PREEMPTED == 1 && TT_OUTCOME_DIVERGED == 2 &&
                   TT_OUTCOME_ABORTED == 3 && TT_OUTCOME_FAILED == 4,
               "recorded");
_Static_assert(TT_FATE_GOES_ON == 0 && TT_FATE_LEAVES == 1 && TT_FATE_JUMPS == 2 &&
                   TT_FATE_FAILS == 3,
               "recorded");
_Static_assert(TT_WALK_TOGETHER == 0 && TT_WALK_DIVERGING == 1 && TT_WALK_ONCE == 2, "recorded");
_Static_assert(TT_DROP_DEADLINE == 1 && TT_DROP_EARLY == 2 && TT_DROP_QUEUE_FULL == 3 &&
                   TT_DROP_WITHDRAWN == 4,
               "recorded");
_Static_assert(TT_CHANGE_ADDED == 0 && TT_CHANGE_DRAINING == 1 && TT_CHANGE_GONE == 2 &&
                   TT_CHANGE_MOVED == 3,
               "recorded");

enum {
    GAP_BYTES = 2 + TT_VARINT_BYTES,      /* kind, no time, how many */
    HEAD_BYTES = 1 + 16 * TT_VARINT_BYTES /* kind and the fields of any event but for its items */
};

/* ---- putting ---- */

static uint8_t *begin(const struct tt_record_stream *self, enum tt_record_kind kind, int64_t now) {
    tt_assert(self->scratch != NULL);
    uint8_t *to = self->scratch + GAP_BYTES;
    tt_assert(now >= self->last_at);
    *to++ = (uint8_t)kind;
    return tt_varint_put(to, (uint64_t)(now - self->last_at));
}

static void lose(struct tt_record_stream *self) {
    self->gap++;
    tt_counter_add(&self->lost, 1);
}

/* Puts [event, end), before which GAP_BYTES are free. False: lost. */
static bool put(struct tt_record_stream *self, uint8_t *event, const uint8_t *end, int64_t now) {
    uint8_t *from = event;
    tt_assert(end > event);
    tt_assert(self->gap >= 0);
    if (self->gap > 0) {
        uint8_t gap[GAP_BYTES] = {TT_RECORD_GAP, 0};
        size_t length = (size_t)(tt_varint_put(gap + 2, (uint64_t)self->gap) - gap);
        from -= length;
        memcpy(from, gap, length);
    }
    if (!self->sink.put(self->sink.context, from, (size_t)(end - from))) {
        lose(self);
        return false;
    }
    self->gap = 0;
    self->last_at = now;
    return true;
}

static bool put_scratch(struct tt_record_stream *self, const uint8_t *end, int64_t now) {
    tt_assert(end <= self->scratch + self->scratch_bytes);
    return put(self, self->scratch + GAP_BYTES, end, now);
}

/* ---- requests ---- */

static uint8_t *put_age(const struct tt_record_stream *self, uint8_t *to,
                        const struct tt_request *request) {
    /* Arrivals that were lost are newer than next_number: their age is not positive. */
    return tt_varint_put(to, tt_zigzag(self->next_number - tt_request_arrival(request)));
}

static uint8_t *put_arrival(uint8_t *to, int64_t now, const struct tt_arrival *arrival) {
    tt_assert(arrival->model >= 0);
    tt_assert(arrival->rows >= 1);
    tt_assert(arrival->length >= 0);
    to = tt_varint_put(to, (uint64_t)arrival->model);
    to = tt_varint_put(to, (uint64_t)arrival->rows);
    to = tt_varint_put(to, (uint64_t)arrival->length);
    to = tt_varint_put(to, tt_zigzag(arrival->priority));
    if (arrival->deadline_at == TT_NEVER)
        return tt_varint_put(to, 0);
    return tt_varint_put(to, 1 + tt_zigzag(arrival->deadline_at - now));
}

/* True if there is room for the arrival in the scratch. Without memory the event is lost. */
static bool reserve(struct tt_record_stream *self, const struct tt_arrival *arrival) {
    size_t bytes = GAP_BYTES + HEAD_BYTES;
    if (arrival->spec_count)
        bytes += tt_record_cells_bound(arrival->specs, arrival->spec_count);
    if (TT_ARRAY_RESERVE(self->scratch, &self->scratch_bytes, (int64_t)bytes))
        return true;
    lose(self);
    return false;
}

/* Puts an arrival, accepted or rejected, and its cells if it has any. */
static void arrived(struct tt_record_stream *self, const struct tt_event *event) {
    static const enum tt_record_kind kinds[2][2] = {{TT_RECORD_ARRIVED, TT_RECORD_ARRIVED_CELLS},
                                                    {TT_RECORD_REFUSED, TT_RECORD_REFUSED_CELLS}};
    const struct tt_arrival *arrival = event->arrival;
    bool is_in = event->kind == TT_EVENT_ARRIVED, is_of_cells = arrival->spec_count > 0;
    if (!reserve(self, arrival))
        return;
    uint8_t *to = begin(self, kinds[!is_in][is_of_cells], event->now);
    tt_assert(!is_in || event->request->number >= self->next_number);
    if (is_in)
        to = tt_varint_put(to, (uint64_t)(event->request->number - self->next_number));
    to = put_arrival(to, event->now, arrival);
    if (is_of_cells)
        to = tt_record_cells_put(to, arrival->specs, arrival->spec_count);
    if (put_scratch(self, to, event->now) && is_in)
        self->next_number = event->request->number + 1;
}

static void request_event(struct tt_record_stream *self, enum tt_record_kind kind,
                          const struct tt_event *event) {
    uint8_t *to = put_age(self, begin(self, kind, event->now), event->request);
    if (kind == TT_RECORD_DROP)
        to = tt_varint_put(to, (uint64_t)event->reason);
    else if (kind == TT_RECORD_READY)
        to = tt_varint_put(to, tt_zigzag(event->request->slot));
    put_scratch(self, to, event->now);
}

/* ---- tasks ---- */

static uint8_t *put_instant(uint8_t *to, int64_t now, int64_t at) {
    return tt_varint_put(to, at < 0 ? 0 : 1 + tt_zigzag(now - at));
}

static bool just_goes_on(const struct tt_task_item *item) {
    return item->fate == TT_FATE_GOES_ON && item->round == 0;
}

static void received(struct tt_record_stream *self, int64_t now, const struct tt_task *task) {
    uint8_t *to = begin(self, TT_RECORD_RECEIVED, now);
    to = tt_varint_put(to, (uint64_t)task->executor);
    put_scratch(self, put_instant(to, now, task->received_at), now);
}

static void finished(struct tt_record_stream *self, int64_t now, const struct tt_task *task) {
    uint8_t *to = begin(self, TT_RECORD_FINISHED, now);
    tt_assert(task->count >= 1);
    tt_assert(task->count <= self->max_batch);
    tt_assert(task->executor >= 0);
    to = tt_varint_put(to, (uint64_t)task->executor);
    to = tt_varint_put(to, (uint64_t)task->outcome);
    to = tt_varint_put(to, tt_zigzag(task->last_step_done));
    to = put_instant(to, now, task->started_at);
    to = put_instant(to, now, task->ended_at);
    uint64_t fates = 0;
    for (int32_t i = 0; i < task->count; i++)
        fates += !just_goes_on(&task->items[i]);
    to = tt_varint_put(to, fates);
    for (int32_t i = 0; fates > 0 && i < task->count; i++) {
        const struct tt_task_item *item = &task->items[i];
        if (just_goes_on(item))
            continue;
        to = tt_varint_put(to, (uint64_t)i);
        to = tt_varint_put(to, (uint64_t)item->fate);
        to = tt_varint_put(to, tt_zigzag(item->fate == TT_FATE_JUMPS ? item->jump : 0));
        to = tt_varint_put(to, (uint64_t)item->round);
    }
    put_scratch(self, to, now);
}

/* The subgraph of all cells of the task; -1: there are several. */
static int32_t subgraph_of_all(const struct tt_task *task) {
    int32_t first = tt_record_subgraph(&task->items[0]);
    tt_assert(first >= 0);
    for (int32_t i = 1; i < task->count; i++)
        if (tt_record_subgraph(&task->items[i]) != first)
            return -1;
    return first;
}

static uint8_t *put_place(uint8_t *to, const struct tt_task *task) {
    tt_assert(task->executor >= 0);
    tt_assert(task->first_step >= 0);
    tt_assert(task->last_step >= task->first_step);
    to = tt_varint_put(to, (uint64_t)task->executor);
    to = tt_varint_put(to, (uint64_t)task->model);
    to = tt_varint_put(to, (uint64_t)task->first_step);
    return tt_varint_put(to, (uint64_t)task->last_step);
}

/* Puts the item's request as its distance from `*expected`: members usually came in succession. */
static uint8_t *put_member(uint8_t *to, const struct tt_task_item *item, int64_t *expected) {
    int64_t number = tt_request_arrival(item->request);
    tt_assert(item->request->state == TT_REQUEST_RUNNING);
    to = tt_varint_put(to, tt_zigzag(*expected - number));
    *expected = number + 1;
    return to;
}

static void run_cells(struct tt_record_stream *self, int64_t now, const struct tt_task *task) {
    int32_t of_all = subgraph_of_all(task);
    uint8_t *to = put_place(begin(self, TT_RECORD_RUN_CELLS, now), task);
    to = tt_varint_put(to, tt_zigzag(task->start_at - now));
    to = tt_varint_put(to, (uint64_t)of_all + 1);
    to = tt_varint_put(to, (uint64_t)task->count);
    int64_t expected = self->next_number - 1;
    for (int32_t i = 0; i < task->count; i++) {
        to = put_member(to, &task->items[i], &expected);
        if (of_all < 0)
            to = tt_varint_put(to, (uint64_t)tt_record_subgraph(&task->items[i]));
    }
    put_scratch(self, to, now);
}

static void run(struct tt_record_stream *self, int64_t now, const struct tt_task *task) {
    tt_assert(task->count >= 1);
    tt_assert(task->count <= self->max_batch);
    if (task->items[0].subgraph) {
        run_cells(self, now, task);
        return;
    }
    uint8_t *to = put_place(begin(self, TT_RECORD_RUN, now), task);
    to = tt_varint_put(to, (uint64_t)task->repeat);
    to = tt_varint_put(to, (uint64_t)task->walk);
    to = tt_varint_put(to, (uint64_t)task->length);
    to = tt_varint_put(to, tt_zigzag(task->start_at - now));
    to = tt_varint_put(to, (uint64_t)task->count);
    int64_t expected = self->next_number - 1;
    for (int32_t i = 0; i < task->count; i++)
        to = put_member(to, &task->items[i], &expected);
    put_scratch(self, to, now);
}

/* ---- the rest ---- */

/* An event that ends with a message; `bytes` has room for the event before it. */
static void put_message(struct tt_record_stream *self, uint8_t *bytes, size_t count,
                        const uint8_t *head, size_t head_bytes, int64_t now) {
    uint8_t size[TT_VARINT_BYTES];
    size_t size_bytes = (size_t)(tt_varint_put(size, count) - size);
    uint8_t *message = bytes + GAP_BYTES + HEAD_BYTES;
    tt_assert(head_bytes + size_bytes <= HEAD_BYTES);
    memcpy(message - size_bytes, size, size_bytes);
    uint8_t *event = message - size_bytes - head_bytes;
    memcpy(event, head, head_bytes);
    put(self, event, message + count, now);
}

static void model(struct tt_record_stream *self, const struct tt_event *event) {
    if (event->change == TT_CHANGE_BELIEF)
        return; /* follows from the tasks that finished */
    uint8_t *head = self->scratch + GAP_BYTES;
    uint8_t *to = begin(self, TT_RECORD_MODEL, event->now);
    tt_assert(event->index >= 0);
    tt_assert(event->index < event->domain->model_capacity);
    to = tt_varint_put(to, (uint64_t)event->index);
    to = tt_varint_put(to, (uint64_t)event->change);
    if (event->change != TT_CHANGE_ADDED) {
        put_scratch(self, to, event->now);
        return;
    }
    size_t count = 0;
    tt_assert(event->domain->models[event->index] != NULL);
    uint8_t *bytes =
        tt_record_model_pack(event->domain->models[event->index], GAP_BYTES + HEAD_BYTES, &count);
    if (bytes)
        put_message(self, bytes, count, head, (size_t)(to - head), event->now);
    else
        lose(self);
    free(bytes);
}

static void executor(struct tt_record_stream *self, const struct tt_event *event) {
    if (event->change == TT_CHANGE_BELIEF)
        return; /* follows from the tasks that finished */
    uint8_t *to = begin(self, TT_RECORD_EXECUTOR, event->now);
    tt_assert(event->index >= 0);
    tt_assert(event->index < event->domain->executor_capacity);
    to = tt_varint_put(to, (uint64_t)event->index);
    to = tt_varint_put(to, (uint64_t)event->change);
    to = tt_varint_put(to, (uint64_t)event->domain->executors[event->index].device);
    put_scratch(self, to, event->now);
}

static void stops(struct tt_record_stream *self, enum tt_record_kind kind,
                  const struct tt_event *event) {
    uint8_t *to = begin(self, kind, event->now);
    put_scratch(self, tt_varint_put(to, (uint64_t)event->index), event->now);
}

static void observe(struct tt_observer *observer, const struct tt_event *event) {
    struct tt_record_stream *self = TT_CONTAINER_OF(observer, struct tt_record_stream, observer);
    switch (event->kind) {
    case TT_EVENT_ARRIVED:
    case TT_EVENT_REFUSED: arrived(self, event); break;
    case TT_EVENT_READY: request_event(self, TT_RECORD_READY, event); break;
    case TT_EVENT_CANCELLED: request_event(self, TT_RECORD_CANCELLED, event); break;
    case TT_EVENT_FINISHED:
        if (event->domain->delays && event->task->received_at >= 0)
            received(self, event->now, event->task);
        finished(self, event->now, event->task);
        break;
    case TT_EVENT_MODEL: model(self, event); break;
    case TT_EVENT_EXECUTOR: executor(self, event); break;
    case TT_EVENT_DECIDE:
        put_scratch(self, begin(self, TT_RECORD_DECIDE, event->now), event->now);
        break;
    case TT_EVENT_RUN: run(self, event->now, event->task); break;
    case TT_EVENT_DROP: request_event(self, TT_RECORD_DROP, event); break;
    case TT_EVENT_YIELD: stops(self, TT_RECORD_YIELD, event); break;
    case TT_EVENT_ABORT: stops(self, TT_RECORD_ABORT, event); break;
    case TT_EVENT_STAGE:
    case TT_EVENT_ENDED: break; /* follows from the others */
    }
}

enum tt_err tt_record_stream_init(struct tt_record_stream *self,
                                  const struct tt_record_domain *domain,
                                  const struct tt_record_sink *sink, struct tt_error *why) {
    tt_assert(sink->put != NULL);
    tt_assert(domain->limits.max_batch >= 1);
    *self = (struct tt_record_stream){
        .observer = {.observe = observe}, .sink = *sink, .max_batch = domain->limits.max_batch};
    size_t items = (size_t)domain->limits.max_batch * 4 * TT_VARINT_BYTES, count = 0;
    (void)TT_ARRAY_RESERVE(self->scratch, &self->scratch_bytes,
                           (int64_t)(GAP_BYTES + HEAD_BYTES + items));
    uint8_t *bytes = tt_record_domain_pack(domain, GAP_BYTES + HEAD_BYTES, &count);
    if (self->scratch && bytes) {
        uint8_t *head = self->scratch + GAP_BYTES;
        uint8_t *to = begin(self, TT_RECORD_DOMAIN, 0);
        put_message(self, bytes, count, head, (size_t)(to - head), 0);
    }
    bool made = self->scratch && bytes;
    free(bytes);
    if (!made) {
        tt_record_stream_fini(self);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a recording");
    }
    return TT_OK;
}

/* ---- parties ---- */

/* A turn is over. Its numbers take the place of an event's message. */
static void turned(void *context, int64_t now, const uint8_t *bytes, size_t count) {
    struct tt_record_stream *self = context;
    tt_assert(bytes == self->turn_log.bytes); /* it has room before it */
    tt_assert(count <= self->turn_log.capacity);
    uint8_t *head = self->scratch + GAP_BYTES;
    uint8_t size[TT_VARINT_BYTES];
    size_t size_bytes = (size_t)(tt_varint_put(size, count) - size);
    size_t head_bytes = (size_t)(begin(self, TT_RECORD_TURN, now) - head);
    uint8_t *event = self->turn_log.bytes - size_bytes - head_bytes;
    memmove(event, head, head_bytes);
    memcpy(event + head_bytes, size, size_bytes);
    put(self, event, bytes + count, now);
}

enum tt_err tt_record_stream_init_party(struct tt_record_stream *self,
                                        const struct tt_record_party *party,
                                        const struct tt_record_sink *sink, struct tt_error *why) {
    tt_assert(sink->put != NULL);
    tt_assert(party->party >= 0);
    tt_assert(party->party < party->parties);
    *self = (struct tt_record_stream){.sink = *sink};
    size_t registers = (size_t)tt_turn_log_registers(party->models);
    size_t capacity = tt_turn_log_turn_bytes(party->models, party->batches, party->parties);
    self->scratch_bytes = (int64_t)(GAP_BYTES + HEAD_BYTES + capacity);
    self->scratch = malloc((size_t)self->scratch_bytes);
    self->turn_log.seen = calloc(registers, sizeof(*self->turn_log.seen));
    if (!self->scratch || !self->turn_log.seen) {
        tt_record_stream_fini(self);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a recording");
    }
    self->turn_log.party = party->party;
    self->turn_log.bytes = self->scratch + GAP_BYTES + HEAD_BYTES;
    self->turn_log.capacity = capacity;
    self->turn_log.turned = turned;
    self->turn_log.context = self;
    uint8_t *to = begin(self, TT_RECORD_THREAD, 0);
    to = tt_varint_put(to, party->domain);
    to = tt_varint_put(to, (uint64_t)party->party);
    put_scratch(self, tt_varint_put(to, (uint64_t)party->parties), 0);
    return TT_OK;
}

void tt_record_stream_fini(struct tt_record_stream *self) {
    free(self->turn_log.seen);
    self->turn_log.seen = NULL;
    free(self->scratch);
    self->scratch = NULL;
    self->scratch_bytes = 0;
}
