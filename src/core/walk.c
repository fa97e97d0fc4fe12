#include "core/walk.h"

static int32_t rounds_behind(const struct tt_walk *self, const struct tt_request *request) {
    return self->began_inside ? request->round : 0;
}

/* The walk stands at the first step that it runs of a block, or outside of any. */
static void enter(struct tt_walk *self, const struct tt_walk_lengths *lengths) {
    self->rounds = 0;
    self->block = (struct tt_step_block){.first = -1, .last = -1};
    enum tt_step_kind kind = self->model->steps[self->step].kind;
    if (kind == TT_STEP_STATIC)
        return;
    self->block = tt_step_block_of(self->model, self->step);
    self->shortest = INT32_MAX;
    self->longest = 1;
    int32_t behind = 0;
    for (int32_t i = 0; i < self->task->count; i++) {
        const struct tt_request *request = self->task->items[i].request;
        int32_t left = lengths->rounds(lengths->context, request, kind);
        left -= rounds_behind(self, request);
        behind = rounds_behind(self, request) > behind ? rounds_behind(self, request) : behind;
        self->shortest = left < self->shortest ? left : self->shortest;
        self->longest = left > self->longest ? left : self->longest;
    }
    /* Inputs that are padded are walked to their padded end, by those who stay together. */
    int32_t padded = kind == TT_STEP_ENCODER ? self->task->length - behind : 0;
    self->longest = padded > self->longest ? padded : self->longest;
}

void tt_walk_begin(struct tt_walk *self, const struct tt_step_model *model,
                   const struct tt_task *task, const struct tt_walk_lengths *lengths) {
    *self = (struct tt_walk){
        .model = model, .task = task, .step = task->first_step, .began_inside = true};
    enter(self, lengths);
}

enum tt_walk_next tt_walk_step_done(struct tt_walk *self) {
    self->next = self->step + 1;
    if (self->step == self->block.last) {
        self->rounds++;
        enum tt_task_walk walk = self->task->walk;
        int32_t until = walk == TT_WALK_TOGETHER ? self->longest : self->shortest;
        if (walk != TT_WALK_ONCE && self->rounds < until) {
            self->next = self->block.first;
            return TT_WALK_GOES_ON;
        }
        if (walk == TT_WALK_PARTING && self->rounds < self->longest)
            return TT_WALK_PARTS;
    }
    if (self->step != self->task->last_step)
        return TT_WALK_GOES_ON;
    if (++self->repeats == self->task->repeat)
        return TT_WALK_ENDS;
    self->next = self->task->first_step;
    return TT_WALK_GOES_ON;
}

void tt_walk_go_on(struct tt_walk *self, const struct tt_walk_lengths *lengths) {
    bool inside =
        self->block.first >= 0 && self->next >= self->block.first && self->next <= self->block.last;
    self->step = self->next;
    if (inside)
        return;
    self->began_inside = false;
    enter(self, lengths);
}

/* The task ended in `block`, of which the member has `behind` rounds of its `total` behind it. */
static void settle_item(struct tt_task_item *item, struct tt_step_block block, int32_t behind,
                        int32_t total, int32_t last_step_done) {
    bool at_end = last_step_done == block.last;
    item->round = behind;
    if (behind < total && !at_end)
        return; /* in the middle of a round: on to the next step of it */
    if (behind < total) {
        item->fate = TT_FATE_JUMPS;
        item->jump = block.first;
        return;
    }
    item->round = 0;
    if (at_end)
        return;
    item->fate = TT_FATE_JUMPS; /* was through, and went along for the others' sake */
    item->jump = block.last + 1;
}

void tt_walk_settle(const struct tt_walk *self, struct tt_task *task,
                    const struct tt_walk_lengths *lengths) {
    int32_t last = task->last_step_done;
    struct tt_step_block block = tt_step_block_of(self->model, last);
    if (block.first < 0)
        return;
    enum tt_step_kind kind = self->model->steps[last].kind;
    for (int32_t i = 0; i < task->count; i++) {
        const struct tt_request *request = task->items[i].request;
        settle_item(&task->items[i], block, rounds_behind(self, request) + self->rounds,
                    lengths->rounds(lengths->context, request, kind), last);
    }
}
