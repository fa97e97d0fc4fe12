#include "policy/batch_table.h"

#include <stdlib.h>
#include <string.h>

static struct tt_request *request_at(struct tt_list_node *node) {
    return TT_CONTAINER_OF(node, struct tt_request, link);
}

/* ---- queues of parts ---- */

static void push(struct tt_batch_table *self, struct tt_part_queue *queue, int32_t part) {
    self->parts[part].next = -1;
    if (queue->last >= 0)
        self->parts[queue->last].next = part;
    else
        queue->first = part;
    queue->last = part;
}

static void take(struct tt_batch_table *self, struct tt_part_queue *queue, int32_t part) {
    int32_t before = -1, at = queue->first;
    while (at != part) {
        before = at;
        at = self->parts[at].next;
        tt_assert(at >= 0);
    }
    int32_t next = self->parts[part].next;
    if (before >= 0)
        self->parts[before].next = next;
    else
        queue->first = next;
    if (queue->last == part)
        queue->last = before;
    self->parts[part].next = -1;
}

/* ---- memory ---- */

enum tt_err tt_batch_table_init(struct tt_batch_table *self, int32_t capacity) {
    *self = (struct tt_batch_table){.capacity = capacity};
    self->parts = calloc((size_t)capacity, sizeof(*self->parts));
    self->batches = calloc((size_t)capacity, sizeof(*self->batches));
    if (self->parts && self->batches)
        return TT_OK;
    tt_batch_table_fini(self);
    return TT_ERR_NO_MEMORY;
}

void tt_batch_table_fini(struct tt_batch_table *self) {
    free(self->parts);
    free(self->batches);
    *self = (struct tt_batch_table){0};
}

void tt_batch_table_start(struct tt_batch_table *self, int32_t stages, int32_t pairs) {
    tt_assert(stages >= 1 && stages <= TT_BATCH_STAGES && pairs >= 1);
    self->stage_count = stages;
    self->pair_count = pairs;
    self->next_id = 0;
    self->active_rows = self->active_count = 0;
    self->ended = (struct tt_part_queue){-1, -1};
    for (int32_t s = 0; s < TT_BATCH_STAGES; s++) {
        self->queues[s] = (struct tt_part_queue){-1, -1};
        self->buffers[s] = self->owed[s] = self->written[s] = self->read[s] = 0;
    }
    self->free_part = -1;
    for (int32_t p = self->capacity - 1; p >= 0; p--) {
        self->parts[p] = (struct tt_part){.next = self->free_part};
        self->free_part = p;
    }
    for (int32_t b = 0; b < self->capacity; b++)
        self->batches[b].id = -1;
}

/* The table has as many parts and batches as requests fit, and each part holds a request. */
static int32_t take_part(struct tt_batch_table *self, int32_t batch, enum tt_part_state state,
                         int32_t stage) {
    int32_t part = self->free_part;
    tt_assert(part >= 0);
    self->free_part = self->parts[part].next;
    self->parts[part] = (struct tt_part){.batch = batch,
                                         .start = self->batches[batch].rows,
                                         .stage = stage,
                                         .state = state,
                                         .elder = -1,
                                         .younger = -1,
                                         .next = -1};
    tt_list_init(&self->parts[part].requests);
    self->batches[batch].live++;
    return part;
}

/* ---- buffers ---- */

/* How many of the boundary are in the state. Of those that are available, some hold a result. */
static int32_t in_state(const struct tt_batch_table *self, int32_t boundary,
                        enum tt_stage_buffer_state state) {
    int32_t others = self->written[boundary] + self->read[boundary] + self->owed[boundary];
    switch (state) {
    case TT_STAGE_BUFFER_INWRITING: return self->written[boundary];
    case TT_STAGE_BUFFER_INREADING: return self->read[boundary];
    case TT_STAGE_BUFFER_INVALID: return self->owed[boundary];
    case TT_STAGE_BUFFER_AVAILABLE:
    case TT_STAGE_BUFFER_STATES: break;
    }
    return self->pair_count - others;
}

static void count_state(struct tt_batch_table *self, int32_t boundary,
                        enum tt_stage_buffer_state state, int32_t change) {
    self->written[boundary] += state == TT_STAGE_BUFFER_INWRITING ? change : 0;
    self->read[boundary] += state == TT_STAGE_BUFFER_INREADING ? change : 0;
    self->owed[boundary] += state == TT_STAGE_BUFFER_INVALID ? change : 0;
}

/* D3: the only place where buffers change their state. */
static void move(struct tt_batch_table *self, int32_t boundary, int32_t count,
                 enum tt_stage_buffer_state from, enum tt_stage_buffer_state to) {
    if (count == 0)
        return;
    tt_assert(tt_stage_buffer_may(from, to));
    tt_assert(in_state(self, boundary, from) >= count);
    count_state(self, boundary, from, -count);
    count_state(self, boundary, to, count);
    if (self->moved)
        self->moved(self->moved_context, boundary, count, from, to);
}

/* The stage takes a free buffer behind it. */
static void begin_writing(struct tt_batch_table *self, int32_t stage) {
    if (stage == self->stage_count - 1)
        return;
    self->buffers[stage]++;
    move(self, stage, 1, TT_STAGE_BUFFER_AVAILABLE, TT_STAGE_BUFFER_INWRITING);
}

/* The stage begins to read the results before it. */
static void begin_reading(struct tt_batch_table *self, const struct tt_part *part) {
    if (part->stage > 0)
        move(self, part->stage - 1, part->pairs, TT_STAGE_BUFFER_AVAILABLE,
             TT_STAGE_BUFFER_INREADING);
}

/* Gives buffers back to the stage before once their reader is active again. */
static void settle(struct tt_batch_table *self) {
    for (int32_t s = self->stage_count - 2; s >= 0; s--)
        if (self->owed[s] > 0 && tt_batch_table_has_buffer(self, s + 1)) {
            self->buffers[s] -= self->owed[s];
            move(self, s, self->owed[s], TT_STAGE_BUFFER_INVALID, TT_STAGE_BUFFER_AVAILABLE);
        }
}

/* The boundary at which the part's rows lie: the number of the stage before it. -1: before the
 * first stage, or behind the last. */
static int32_t boundary_of(const struct tt_batch_table *self, const struct tt_part *part) {
    bool behind = part->state == TT_PART_ENDED || part->state == TT_PART_HELD;
    int32_t boundary = behind ? part->stage : part->stage - 1;
    return boundary < self->stage_count - 1 ? boundary : -1;
}

/* The part's results will not be read: their buffers are free. */
static void return_buffers(struct tt_batch_table *self, struct tt_part *part) {
    int32_t boundary = boundary_of(self, part);
    if (boundary >= 0)
        self->buffers[boundary] -= part->pairs;
    part->pairs = 0;
    settle(self);
}

/* ---- parts that go ---- */

static void free_part(struct tt_batch_table *self, int32_t number) {
    struct tt_part *part = &self->parts[number];
    struct tt_batch_row *batch = &self->batches[part->batch];
    if (part->younger >= 0)
        self->parts[part->younger].elder = part->elder;
    if (part->elder >= 0)
        self->parts[part->elder].younger = part->younger;
    part->state = TT_PART_FREE;
    part->next = self->free_part;
    self->free_part = number;
    if (--batch->live == 0)
        batch->id = -1;
}

/* No newcomers are catching up: the held part continues. */
static void release_held(struct tt_batch_table *self, struct tt_batch_row *batch) {
    int32_t held = batch->held;
    if (held < 0)
        return;
    batch->held = -1;
    self->parts[held].state = TT_PART_ENDED;
    push(self, &self->ended, held);
}

/* Frees an empty part that does not run and is in no queue. */
static void free_empty_part(struct tt_batch_table *self, int32_t number) {
    struct tt_part *part = &self->parts[number];
    struct tt_batch_row *batch = &self->batches[part->batch];
    return_buffers(self, part);
    if (part->state == TT_PART_HELD)
        batch->held = -1;
    else
        release_held(self,
                     batch); /* a batch with a held part has exactly one other part: this one */
    free_part(self, number);
}

static void drop_rows(struct tt_batch_table *self, struct tt_part *part, int32_t rows,
                      int32_t count) {
    part->rows -= rows;
    part->count -= count;
    self->batches[part->batch].rows -= rows;
    self->active_rows -= rows;
    self->active_count -= count;
}

void tt_batch_table_remove(struct tt_batch_table *self, int32_t number,
                           struct tt_request *request) {
    struct tt_part *part = &self->parts[number];
    tt_assert(part->state != TT_PART_FREE && part->state != TT_PART_RUNNING);
    tt_list_remove(&request->link);
    drop_rows(self, part, request->rows, 1);
    if (part->count > 0)
        return;
    if (part->state == TT_PART_QUEUED)
        take(self, &self->queues[part->stage], number);
    else if (part->state == TT_PART_ENDED)
        take(self, &self->ended, number);
    free_empty_part(self, number);
}

/* ---- the three operations ---- */

static int32_t take_batch(struct tt_batch_table *self, int32_t id, int64_t created_at) {
    int32_t batch = 0;
    while (self->batches[batch].id >= 0) {
        batch++;
        tt_assert(batch < self->capacity);
    }
    self->batches[batch] = (struct tt_batch_row){.id = id, .created_at = created_at, .held = -1};
    return batch;
}

int32_t tt_batch_table_new(struct tt_batch_table *self, int64_t now) {
    tt_assert(tt_batch_table_room(self) > 0);
    int32_t part = take_part(self, take_batch(self, self->next_id++, now), TT_PART_QUEUED, 0);
    push(self, &self->queues[0], part);
    return part;
}

void tt_batch_table_add(struct tt_batch_table *self, int32_t number, struct tt_request *request) {
    struct tt_part *part = &self->parts[number];
    tt_assert(part->state == TT_PART_QUEUED && part->stage == 0);
    tt_list_push_back(&part->requests, &request->link);
    request->policy_word = number;
    drop_rows(self, part, -request->rows, -1);
}

bool tt_batch_table_may_stretch(const struct tt_batch_table *self, int32_t number) {
    const struct tt_part *part = &self->parts[number];
    const struct tt_batch_row *batch = &self->batches[part->batch];
    return (part->state == TT_PART_ENDED || part->state == TT_PART_RUNNING) &&
           batch->id == self->next_id - 1 && batch->live == 1 && !batch->splits &&
           part->stage < self->stage_count - 1;
}

/* D2: the newcomers become a part of the same batch. */
int32_t tt_batch_table_stretch(struct tt_batch_table *self, int32_t number) {
    struct tt_part *part = &self->parts[number];
    tt_assert(part->state == TT_PART_ENDED);
    tt_assert(tt_batch_table_may_stretch(self, number) && tt_batch_table_room(self) > 0);
    int32_t newcomers = take_part(self, part->batch, TT_PART_QUEUED, 0);
    part->state = TT_PART_HELD;
    self->batches[part->batch].held = number;
    push(self, &self->queues[0], newcomers);
    return newcomers;
}

int32_t tt_batch_table_split(struct tt_batch_table *self, int32_t number, int32_t rows) {
    struct tt_part *part = &self->parts[number];
    tt_assert(part->state == TT_PART_ENDED);
    int32_t kept_rows = 0, kept = 0;
    struct tt_list_node *node = tt_list_first(&part->requests);
    for (; node && kept_rows < rows; node = tt_list_next(&part->requests, node)) {
        kept_rows += request_at(node)->rows;
        kept++;
    }
    if (!node)
        return -1;
    int32_t younger = take_part(self, part->batch, TT_PART_ENDED, part->stage);
    struct tt_part *rest = &self->parts[younger];
    while (node) {
        struct tt_list_node *next = tt_list_next(&part->requests, node);
        tt_list_remove(node);
        tt_list_push_back(&rest->requests, node);
        request_at(node)->policy_word = younger;
        node = next;
    }
    rest->start = part->start + kept_rows;
    rest->rows = part->rows - kept_rows;
    rest->count = part->count - kept;
    part->rows = kept_rows;
    part->count = kept;
    rest->pairs = part->pairs; /* given back when the youngest part has been read */
    part->pairs = 0;
    rest->elder = number;
    rest->younger = part->younger;
    if (part->younger >= 0)
        self->parts[part->younger].elder = younger;
    part->younger = younger;
    self->batches[part->batch].splits = true;
    return younger;
}

/* ---- moving through the stages ---- */

void tt_batch_table_push(struct tt_batch_table *self, int32_t number) {
    struct tt_part *part = &self->parts[number];
    tt_assert(part->state == TT_PART_ENDED && part->stage < self->stage_count - 1);
    part->state = TT_PART_QUEUED;
    part->stage++;
    push(self, &self->queues[part->stage], number);
}

int32_t tt_batch_table_front(const struct tt_batch_table *self, int32_t stage) {
    int32_t part = self->queues[stage].first;
    if (part < 0 || self->parts[part].elder >= 0 || !tt_batch_table_has_buffer(self, stage))
        return -1;
    return part;
}

void tt_batch_table_run(struct tt_batch_table *self, int32_t number) {
    struct tt_part *part = &self->parts[number];
    tt_assert(tt_batch_table_front(self, part->stage) == number);
    take(self, &self->queues[part->stage], number);
    part->state = TT_PART_RUNNING;
    begin_reading(self, part);
    begin_writing(self, part->stage);
}

void tt_batch_table_follow(struct tt_batch_table *self, int32_t number) {
    struct tt_part *part = &self->parts[number];
    tt_assert(part->state == TT_PART_RUNNING && !part->is_followed);
    tt_assert(part->stage < self->stage_count - 1);
    tt_assert(tt_batch_table_has_buffer(self, part->stage + 1));
    part->is_followed = true;
    begin_writing(self, part->stage + 1);
}

/* The stage has read the part's input and written its output. */
static void end_stage(struct tt_batch_table *self, struct tt_part *part) {
    self->batches[part->batch].done[part->stage] += part->rows;
    if (part->stage > 0)
        move(self, part->stage - 1, part->pairs, TT_STAGE_BUFFER_INREADING,
             TT_STAGE_BUFFER_INVALID);
    part->pairs = part->stage < self->stage_count - 1 ? 1 : 0;
    if (part->pairs > 0)
        move(self, part->stage, 1, TT_STAGE_BUFFER_INWRITING, TT_STAGE_BUFFER_AVAILABLE);
}

void tt_batch_table_advance(struct tt_batch_table *self, int32_t number) {
    struct tt_part *part = &self->parts[number];
    tt_assert(part->state == TT_PART_RUNNING && part->is_followed);
    end_stage(self, part);
    part->stage++;
    part->is_followed = false;
    begin_reading(self, part);
    settle(self);
}

void tt_batch_table_ended(struct tt_batch_table *self, int32_t number) {
    struct tt_part *part = &self->parts[number];
    tt_assert(part->state == TT_PART_RUNNING && tt_list_empty(&part->requests));
    tt_assert(!part->is_followed);
    end_stage(self, part);
    part->state = TT_PART_ENDED;
    drop_rows(self, part, part->rows, part->count);
    settle(self);
}

void tt_batch_table_keep(struct tt_batch_table *self, int32_t number, struct tt_request *request) {
    struct tt_part *part = &self->parts[number];
    tt_list_push_back(&part->requests, &request->link);
    request->policy_word = number;
    drop_rows(self, part, -request->rows, -1);
}

void tt_batch_table_skip(struct tt_batch_table *self, int32_t number, int32_t stage,
                         struct tt_request *request) {
    struct tt_part *part = &self->parts[number];
    tt_assert(stage >= -1 && stage < self->stage_count - 1);
    const struct tt_batch_row *batch = &self->batches[part->batch];
    int32_t alone = take_batch(self, batch->id, batch->created_at);
    self->batches[alone].splits = true;
    int32_t own = take_part(self, alone, TT_PART_ENDED, stage);
    tt_batch_table_keep(self, own, request);
    push(self, &self->ended, own);
}

void tt_batch_table_kept(struct tt_batch_table *self, int32_t number) {
    struct tt_part *part = &self->parts[number];
    struct tt_batch_row *batch = &self->batches[part->batch];
    if (part->count == 0) {
        free_empty_part(self, number);
        return;
    }
    struct tt_part *held = batch->held >= 0 ? &self->parts[batch->held] : NULL;
    if (!held || held->stage != part->stage) {
        push(self, &self->ended, number);
        return;
    }
    struct tt_list_node *node;
    while ((node = tt_list_first(&part->requests))) {
        tt_list_remove(node);
        tt_list_push_back(&held->requests, node);
        request_at(node)->policy_word = batch->held;
    }
    held->rows += part->rows;
    held->count += part->count;
    held->pairs += part->pairs;
    part->rows = part->count = part->pairs = 0;
    release_held(self, batch);
    free_part(self, number);
}

int32_t tt_batch_table_take_ended(struct tt_batch_table *self) {
    int32_t part = self->ended.first;
    if (part >= 0)
        take(self, &self->ended, part);
    return part;
}

/* ---- invariants ---- */

/* What the parts say of the buffers of each boundary. */
struct held {
    int32_t written[TT_BATCH_STAGES], read[TT_BATCH_STAGES], results[TT_BATCH_STAGES];
};

static void note_held(const struct tt_batch_table *self, const struct tt_part *part,
                      struct held *held) {
    int32_t boundary = boundary_of(self, part);
    if (boundary >= 0)
        *(part->state == TT_PART_RUNNING ? &held->read[boundary] : &held->results[boundary]) +=
            part->pairs;
    if (part->state == TT_PART_RUNNING && part->stage < self->stage_count - 1)
        held->written[part->stage]++;
    tt_assert(!part->is_followed || part->state == TT_PART_RUNNING);
    if (part->is_followed && part->stage + 1 < self->stage_count - 1)
        held->written[part->stage + 1]++;
}

static void check_buffers(const struct tt_batch_table *self, const struct held *held) {
    for (int32_t s = 0; s < self->stage_count - 1; s++) {
        tt_assert(self->owed[s] >= 0);
        tt_assert(self->written[s] == held->written[s]);
        tt_assert(self->read[s] == held->read[s]);
        tt_assert(self->buffers[s] ==
                  held->written[s] + held->read[s] + held->results[s] + self->owed[s]);
        tt_assert(self->owed[s] == 0 || !tt_batch_table_has_buffer(self, s + 1));
    }
}

void tt_batch_table_check(const struct tt_batch_table *self) {
    int32_t rows = 0, count = 0;
    struct held held = {0};
    for (int32_t p = 0; p < self->capacity; p++) {
        const struct tt_part *part = &self->parts[p];
        if (part->state == TT_PART_FREE)
            continue;
        tt_assert(part->count > 0);
        tt_assert(self->batches[part->batch].id >= 0);
        tt_assert(part->elder < 0 || self->parts[part->elder].younger == p);
        tt_assert(part->younger < 0 || self->parts[part->younger].elder == p);
        rows += part->rows;
        count += part->count;
        note_held(self, part, &held);
        if (part->state == TT_PART_HELD)
            tt_assert(self->batches[part->batch].held == p && self->batches[part->batch].live == 2);
    }
    tt_assert(rows == self->active_rows && count == self->active_count);
    check_buffers(self, &held);
}
