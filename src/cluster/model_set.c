#include "cluster/model_set.h"

#include <stdlib.h>

enum tt_err tt_model_set_init(struct tt_model_set *self, const struct tt_cluster_settings *settings,
                              uint16_t number, struct tt_outbox *outbox) {
    tt_assert(settings->model_count > 0 && settings->node_count > 0);
    size_t models = (size_t)settings->model_count, nodes = (size_t)settings->node_count;
    *self = (struct tt_model_set){.settings = settings,
                                  .outbox = outbox,
                                  .number = number,
                                  .front = calloc(models, sizeof(*self->front)),
                                  .back = calloc(models, sizeof(*self->back)),
                                  .has_joined = calloc(nodes, sizeof(*self->has_joined)),
                                  .awaited = calloc(nodes, sizeof(*self->awaited))};
    if (!self->front || !self->back || !self->has_joined || !self->awaited) {
        tt_model_set_fini(self);
        return TT_ERR_NO_MEMORY;
    }
    for (int32_t i = 0; i < settings->model_count; i++)
        self->front[i].serves = self->back[i].serves = true;
    return TT_OK;
}

void tt_model_set_fini(struct tt_model_set *self) {
    free(self->front);
    free(self->back);
    free(self->has_joined);
    free(self->awaited);
    *self = (struct tt_model_set){0};
}

static enum tt_cluster_role role_of(const struct tt_model_set *self, int32_t node) {
    return self->settings->nodes[node].role;
}

/* ---- sending ---- */

static void send_set(struct tt_model_set *self, uint16_t peer) {
    const struct tt_model_state *states =
        role_of(self, peer) == TT_ROLE_BACKEND ? self->back : self->front;
    for (int32_t i = 0; i < self->settings->model_count; i++) {
        const struct tt_frame_record record = {.id = self->version,
                                               .model = (uint16_t)i,
                                               .attempt = states[i].generation,
                                               .code = states[i].serves};
        if (i == 0)
            tt_outbox_begin(self->outbox, peer, TT_FRAME_SERVE, self->epoch, &record);
        else
            tt_outbox_add(self->outbox, peer, TT_FRAME_SERVE, self->epoch, &record);
    }
}

/* The node's answer to what was sent last is awaited / not any more. */
static void await(struct tt_model_set *self, uint16_t peer) {
    self->awaited_count += self->awaited[peer] == 0;
    self->awaited[peer] = self->version;
}

static void forgo(struct tt_model_set *self, int32_t peer) {
    self->awaited_count -= self->awaited[peer] != 0;
    self->awaited[peer] = 0;
}

static bool is_of_stage(const struct tt_model_set *self, int32_t node) {
    bool is_backend = role_of(self, node) == TT_ROLE_BACKEND;
    return is_backend == (self->stage == TT_MODEL_STAGE_BACKENDS);
}

/* To all joined nodes of the stage, which are awaited. */
static void send_stage(struct tt_model_set *self, enum tt_model_stage stage) {
    self->stage = stage;
    self->version++;
    for (uint16_t i = 0; i < self->settings->node_count; i++) {
        if (!self->has_joined[i] || !is_of_stage(self, i))
            continue;
        send_set(self, i);
        await(self, i);
    }
}

/* ---- wishes ---- */

static struct tt_model_wish *current(struct tt_model_set *self) {
    return &self->wishes[self->first_wish];
}

static void end_wish(struct tt_model_set *self) {
    const struct tt_model_wish wish = *current(self);
    self->stage = TT_MODEL_STAGE_NONE;
    self->first_wish = (self->first_wish + 1) % TT_MODEL_SET_WISHES;
    self->wish_count--;
    if (self->ended)
        self->ended(self->context, &wish, self->failure);
    tt_outbox_begin(
        self->outbox, wish.frontend, TT_FRAME_WISHED, self->epoch,
        &(struct tt_frame_record){.id = wish.number, .model = wish.model, .code = self->failure});
}

/* The nodes that were asked so far return to what they served. */
static void revert(struct tt_model_set *self) {
    uint16_t model = current(self)->model;
    if (self->stage == TT_MODEL_STAGE_FRONTENDS) {
        self->front[model] = self->before;
        send_stage(self, TT_MODEL_STAGE_FRONTENDS);
    }
    self->back[model] = self->before; /* what was loaded before serves on */
    send_stage(self, TT_MODEL_STAGE_BACKENDS);
    for (int32_t i = 0; i < self->settings->node_count; i++)
        forgo(self, i);
}

static bool has_backend(const struct tt_model_set *self) {
    for (int32_t i = 0; i < self->settings->node_count; i++)
        if (self->has_joined[i] && role_of(self, i) == TT_ROLE_BACKEND)
            return true;
    return false;
}

static void begin_wish(struct tt_model_set *self) {
    const struct tt_model_wish *wish = current(self);
    self->failure = 0;
    self->before = self->front[wish->model];
    if (wish->is_load) {
        self->back[wish->model].serves = true;
        self->back[wish->model].generation++;
        send_stage(self, TT_MODEL_STAGE_BACKENDS);
        if (!has_backend(self))
            self->failure = (uint16_t)-TT_ERR_UNAVAILABLE;
    } else {
        self->front[wish->model].serves = false;
        send_stage(self, TT_MODEL_STAGE_FRONTENDS);
    }
}

/* Goes on as far as no answer is awaited. */
static void advance(struct tt_model_set *self) {
    while (self->wish_count > 0 && self->awaited_count == 0) {
        const struct tt_model_wish *wish = current(self);
        enum tt_model_stage last =
            wish->is_load ? TT_MODEL_STAGE_FRONTENDS : TT_MODEL_STAGE_BACKENDS;
        if (self->stage == TT_MODEL_STAGE_NONE) {
            begin_wish(self);
        } else if (self->failure && wish->is_load) {
            revert(self);
            end_wish(self);
        } else if (self->stage == last) {
            end_wish(self);
        } else if (wish->is_load) {
            self->front[wish->model] = self->back[wish->model];
            send_stage(self, TT_MODEL_STAGE_FRONTENDS);
        } else {
            self->back[wish->model].serves = false;
            send_stage(self, TT_MODEL_STAGE_BACKENDS);
        }
    }
}

bool tt_model_set_wish(struct tt_model_set *self, uint16_t from,
                       const struct tt_frame_record *record) {
    if (self->epoch == 0 || record->model >= self->settings->model_count || record->code > 1 ||
        role_of(self, from) != TT_ROLE_FRONTEND ||
        tt_cluster_group(self->settings, record->model) != record->model)
        return false;
    if (self->wish_count == TT_MODEL_SET_WISHES) {
        tt_outbox_begin(self->outbox, from, TT_FRAME_WISHED, self->epoch,
                        &(struct tt_frame_record){.id = record->id,
                                                  .model = record->model,
                                                  .code = (uint16_t)-TT_ERR_BUSY});
        return true;
    }
    self->wishes[(self->first_wish + self->wish_count++) % TT_MODEL_SET_WISHES] =
        (struct tt_model_wish){.number = record->id,
                               .frontend = from,
                               .model = record->model,
                               .is_load = record->code == 1};
    advance(self);
    return true;
}

bool tt_model_set_admits(const struct tt_model_set *self, uint16_t model) {
    bool is_leaving =
        self->stage == TT_MODEL_STAGE_FRONTENDS && self->wishes[self->first_wish].model == model;
    return self->front[model].serves || is_leaving;
}

bool tt_model_set_served(struct tt_model_set *self, uint16_t from, const struct tt_frame *frame) {
    if (self->epoch == 0)
        return false;
    if (self->awaited[from] == 0 || frame->records[0].id != self->awaited[from])
        return true; /* of an earlier set */
    forgo(self, from);
    for (int32_t i = 1; i < frame->count; i++)
        if (frame->records[i].model == current(self)->model)
            self->failure = frame->records[i].code;
    advance(self);
    return true;
}

/* ---- nodes and primaries ---- */

void tt_model_set_join(struct tt_model_set *self, uint16_t peer) {
    if (self->epoch == 0)
        return;
    self->has_joined[peer] = true;
    send_set(self, peer);
    if (self->stage != TT_MODEL_STAGE_NONE)
        await(self, peer);
}

void tt_model_set_part(struct tt_model_set *self, uint16_t peer) {
    self->has_joined[peer] = false;
    if (self->awaited[peer] == 0)
        return;
    forgo(self, peer);
    if (self->stage == TT_MODEL_STAGE_BACKENDS && current(self)->is_load && !has_backend(self))
        self->failure = (uint16_t)-TT_ERR_UNAVAILABLE;
    advance(self);
}

void tt_model_set_lead(struct tt_model_set *self, uint64_t epoch) {
    tt_model_set_yield(self);
    self->epoch = epoch;
    self->version++;
    for (int32_t i = 0; i < self->settings->model_count; i++)
        self->back[i] = self->front[i];
}

void tt_model_set_yield(struct tt_model_set *self) {
    self->epoch = 0;
    self->stage = TT_MODEL_STAGE_NONE;
    self->wish_count = self->awaited_count = 0;
    for (int32_t i = 0; i < self->settings->node_count; i++) {
        self->has_joined[i] = false;
        self->awaited[i] = 0;
    }
}

bool tt_model_set_follow(struct tt_model_set *self, const struct tt_frame *frame) {
    if (self->epoch != 0 || frame->count != self->settings->model_count)
        return false;
    for (int32_t i = 0; i < frame->count; i++)
        if (frame->records[i].model != i || frame->records[i].code > 1)
            return false;
    self->version = frame->records[0].id;
    for (int32_t i = 0; i < frame->count; i++)
        self->front[i] = (struct tt_model_state){.serves = frame->records[i].code == 1,
                                                 .generation = frame->records[i].attempt};
    return true;
}

void tt_model_set_check(const struct tt_model_set *self) {
    int32_t awaited = 0;
    for (int32_t i = 0; i < self->settings->node_count; i++) {
        awaited += self->awaited[i] != 0;
        tt_assert(self->awaited[i] <= self->version);
        tt_assert(self->awaited[i] == 0 || self->has_joined[i]);
        tt_assert(!self->has_joined[i] || i != self->number);
    }
    tt_assert(awaited == self->awaited_count);
    tt_assert((self->stage == TT_MODEL_STAGE_NONE) == (self->wish_count == 0));
    tt_assert(self->stage == TT_MODEL_STAGE_NONE || awaited > 0);
    tt_assert(self->epoch != 0 || self->wish_count == 0);
    for (int32_t i = 0; self->epoch != 0 && i < self->settings->model_count; i++)
        tt_assert(!self->front[i].serves || self->back[i].serves);
}
