#include "cluster/model_duty.h"

#include <stdlib.h>

enum { NONE = -1 };

enum tt_err tt_model_duty_init(struct tt_model_duty *self, int32_t model_count, int32_t capacity,
                               struct tt_outbox *outbox) {
    tt_assert(model_count > 0 && model_count <= capacity);
    *self = (struct tt_model_duty){.model_count = model_count,
                                   .capacity = capacity,
                                   .busy = NONE,
                                   .outbox = outbox,
                                   .wanted = calloc((size_t)capacity, sizeof(*self->wanted)),
                                   .actual = calloc((size_t)capacity, sizeof(*self->actual)),
                                   .failures = calloc((size_t)capacity, sizeof(*self->failures))};
    if (!self->wanted || !self->actual || !self->failures) {
        tt_model_duty_fini(self);
        return TT_ERR_NO_MEMORY;
    }
    for (int32_t i = 0; i < model_count; i++)
        self->wanted[i].serves = self->actual[i].serves = true;
    return TT_OK;
}

void tt_model_duty_fini(struct tt_model_duty *self) {
    free(self->wanted);
    free(self->actual);
    free(self->failures);
    *self = (struct tt_model_duty){0};
}

void tt_model_duty_add(struct tt_model_duty *self) {
    tt_assert(self->model_count < self->capacity);
    self->model_count++; /* neither wanted nor there, as the memory says already */
}

static bool differs(struct tt_model_state a, struct tt_model_state b) {
    return a.serves != b.serves || (a.serves && a.generation != b.generation);
}

static int32_t find_work(const struct tt_model_duty *self) {
    for (int32_t i = 0; i < self->model_count; i++)
        if (differs(self->wanted[i], self->actual[i]) && self->failures[i] == 0)
            return i;
    return NONE;
}

/* A record for the set, and one for each model of it that could not be loaded. */
static void answer(struct tt_model_duty *self) {
    self->must_answer = false;
    tt_outbox_begin(self->outbox, self->primary, TT_FRAME_SERVED, self->epoch,
                    &(struct tt_frame_record){.id = self->version});
    for (int32_t i = 0; i < self->model_count; i++)
        if (self->failures[i] != 0)
            tt_outbox_add(self->outbox, self->primary, TT_FRAME_SERVED, self->epoch,
                          &(struct tt_frame_record){.id = self->version,
                                                    .model = (uint16_t)i,
                                                    .code = self->failures[i]});
}

static void go_on(struct tt_model_duty *self) {
    if (self->busy != NONE)
        return;
    int32_t model;
    while ((model = find_work(self)) != NONE && !self->act)
        self->actual[model] = self->wanted[model];
    self->busy = model;
    if (model != NONE) {
        self->busy_with = self->wanted[model];
        self->act(self->context, model, self->busy_with.serves);
    } else if (self->must_answer) {
        answer(self);
    }
}

bool tt_model_duty_receive(struct tt_model_duty *self, uint16_t from,
                           const struct tt_frame *frame) {
    if (frame->count != self->model_count)
        return false;
    for (int32_t i = 0; i < frame->count; i++)
        if (frame->records[i].model != i || frame->records[i].code > 1)
            return false;
    bool is_first = self->epoch == 0;
    for (int32_t i = 0; i < frame->count; i++) {
        const struct tt_model_state state = {.serves = frame->records[i].code == 1,
                                             .generation = frame->records[i].attempt};
        if (is_first)
            self->actual[i].generation = state.generation;
        if (differs(state, self->wanted[i]))
            self->failures[i] = 0;
        self->wanted[i] = state;
    }
    self->primary = from;
    self->epoch = frame->epoch;
    self->version = frame->records[0].id;
    self->must_answer = true;
    go_on(self);
    return true;
}

void tt_model_duty_lost(struct tt_model_duty *self, int32_t model) {
    self->actual[model].serves = false;
}

void tt_model_duty_acted(struct tt_model_duty *self, uint16_t failure) {
    int32_t model = self->busy;
    tt_assert(model != NONE);
    self->busy = NONE;
    if (failure == 0)
        self->actual[model] = self->busy_with;
    if (!differs(self->busy_with, self->wanted[model]))
        self->failures[model] = failure;
    go_on(self);
}

bool tt_model_duty_is_done(const struct tt_model_duty *self) {
    return self->epoch != 0 && !self->must_answer;
}

void tt_model_duty_check(const struct tt_model_duty *self) {
    tt_assert(self->model_count > 0 && self->model_count <= self->capacity);
    tt_assert(self->busy >= NONE && self->busy < self->model_count);
    tt_assert(self->busy != NONE || !self->must_answer);
    tt_assert(self->busy != NONE || find_work(self) == NONE);
}
