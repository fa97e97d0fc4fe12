#include "cluster/model_set.h"

#include <stdlib.h>

enum tt_err tt_model_set_init(struct tt_model_set *self, const struct tt_cluster_settings *settings,
                              uint16_t number, struct tt_outbox *outbox) {
    tt_assert(settings->model_count > 0 && settings->node_count > 0);
    size_t models = (size_t)tt_cluster_model_capacity(settings);
    size_t nodes = (size_t)settings->node_count;
    *self = (struct tt_model_set){.settings = settings,
                                  .outbox = outbox,
                                  .number = number,
                                  .front = calloc(models, sizeof(*self->front)),
                                  .back = calloc(models, sizeof(*self->back)),
                                  .absent = calloc(models, sizeof(*self->absent)),
                                  .has_joined = calloc(nodes, sizeof(*self->has_joined)),
                                  .awaited = calloc(nodes, sizeof(*self->awaited)),
                                  .pools = calloc(models, sizeof(*self->pools))};
    if (!self->front || !self->back || !self->absent || !self->has_joined || !self->awaited ||
        !self->pools || tt_placement_init(&self->placement, settings)) {
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
    free(self->absent);
    free(self->has_joined);
    free(self->awaited);
    free(self->pools);
    tt_placement_fini(&self->placement);
    *self = (struct tt_model_set){0};
}

static enum tt_cluster_role role_of(const struct tt_model_set *self, int32_t node) {
    return self->settings->nodes[node].role;
}

/* ---- sending ---- */

static void send_set(struct tt_model_set *self, uint16_t peer) {
    bool is_backend = role_of(self, peer) == TT_ROLE_BACKEND;
    const struct tt_model_state *states = is_backend ? self->back : self->front;
    uint16_t pool = self->settings->nodes[peer].pool;
    for (int32_t i = 0; i < self->settings->model_count; i++) {
        bool is_here = !is_backend || tt_placement_holds(&self->placement, pool, i);
        const struct tt_frame_record record = {.id = self->version,
                                               .length = (uint32_t)self->placement.version,
                                               .model = (uint16_t)i,
                                               .rows = !is_backend && self->absent[i],
                                               .attempt = states[i].generation,
                                               .device =
                                                   tt_placement_announced(&self->placement, i),
                                               .code = states[i].serves && is_here};
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
    if (self->placement.stage == TT_PLACEMENT_NOTIFYING)
        return role_of(self, node) == TT_ROLE_SCHEDULER;
    if (self->placement.stage != TT_PLACEMENT_NONE)
        return is_backend &&
               tt_placement_concerns(&self->placement, self->settings->nodes[node].pool);
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

void tt_model_set_add(struct tt_model_set *self, bool serves, uint16_t pool) {
    int32_t model = self->settings->model_count - 1;
    tt_placement_add(&self->placement, pool);
    self->front[model] = self->back[model] = (struct tt_model_state){.serves = serves};
}

static void send_anew(struct tt_model_set *self, bool with_backends) {
    self->version++;
    for (uint16_t i = 0; i < self->settings->node_count; i++) {
        if (!self->has_joined[i] || (!with_backends && role_of(self, i) == TT_ROLE_BACKEND))
            continue;
        send_set(self, i);
        if (self->awaited[i] != 0)
            await(self, i);
    }
}

void tt_model_set_announce(struct tt_model_set *self) {
    if (self->epoch != 0)
        send_anew(self, true);
}

bool tt_model_set_absent(struct tt_model_set *self, int32_t model, bool is_absent) {
    bool has_changed = self->absent[model] != is_absent;
    self->absent[model] = is_absent;
    return has_changed;
}

void tt_model_set_announce_absent(struct tt_model_set *self) {
    if (self->epoch != 0)
        send_anew(self, false);
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

static bool has_backend(const struct tt_model_set *self, uint16_t pool) {
    for (int32_t i = 0; i < self->settings->node_count; i++)
        if (self->has_joined[i] && role_of(self, i) == TT_ROLE_BACKEND &&
            self->settings->nodes[i].pool == pool)
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
        if (!has_backend(self, self->placement.homes[wish->model]))
            self->failure = (uint16_t)-TT_ERR_UNAVAILABLE;
    } else {
        self->front[wish->model].serves = false;
        send_stage(self, TT_MODEL_STAGE_FRONTENDS);
    }
}

static void advance_wish(struct tt_model_set *self) {
    const struct tt_model_wish *wish = current(self);
    enum tt_model_stage last = wish->is_load ? TT_MODEL_STAGE_FRONTENDS : TT_MODEL_STAGE_BACKENDS;
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

/* ---- plans ---- */

static bool awaits_nodes(const struct tt_placement *placement) {
    return placement->stage == TT_PLACEMENT_LOADING || placement->stage == TT_PLACEMENT_NOTIFYING ||
           placement->stage == TT_PLACEMENT_UNLOADING;
}

static void report_plan(struct tt_model_set *self, struct tt_placement_outcome outcome) {
    outcome.moves = self->placement.moves;
    tt_placement_end(&self->placement);
    if (self->placed)
        self->placed(self->context, &outcome);
}

/* Nothing is awaited: the next stage. */
static void advance_plan(struct tt_model_set *self) {
    if (self->placement.stage == TT_PLACEMENT_UNLOADING) {
        report_plan(self, (struct tt_placement_outcome){.end = TT_PLACEMENT_DONE});
        return;
    }
    tt_placement_advance(&self->placement);
    if (self->placement.stage != TT_PLACEMENT_DRAINING)
        send_stage(self, TT_MODEL_STAGE_NONE);
}

/* Goes on as far as no answer is awaited. */
static void advance(struct tt_model_set *self) {
    while (self->awaited_count == 0 && self->placement.stage != TT_PLACEMENT_RECORDING &&
           self->placement.stage != TT_PLACEMENT_DRAINING) {
        if (self->placement.stage != TT_PLACEMENT_NONE)
            advance_plan(self);
        else if (self->wish_count > 0)
            advance_wish(self);
        else
            return;
    }
}

enum tt_err tt_model_set_place(struct tt_model_set *self, const uint16_t *homes,
                               struct tt_error *why) {
    tt_assert(self->epoch != 0);
    if (self->wish_count > 0)
        return tt_fail(TT_ERR_BUSY, why, "a model is being loaded or unloaded");
    enum tt_err err = tt_placement_begin(&self->placement, homes, why);
    if (err)
        return err;
    for (int32_t i = 0; i < self->settings->model_count; i++)
        if (!has_backend(self, self->placement.others[i])) {
            uint16_t pool = self->placement.others[i];
            tt_placement_end(&self->placement);
            return tt_fail(TT_ERR_UNAVAILABLE, why, "no backend of pool %s is there",
                           tt_cluster_pool_name(self->settings, pool));
        }
    return TT_OK;
}

void tt_model_set_recorded(struct tt_model_set *self) {
    tt_assert(self->placement.stage == TT_PLACEMENT_RECORDING);
    advance_plan(self);
    advance(self);
}

/* The nodes that were asked so far return to the placement in force. They are not awaited. */
static void drop_plan(struct tt_model_set *self, const struct tt_placement_outcome *outcome) {
    report_plan(self, *outcome);
    for (int32_t i = 0; i < self->settings->node_count; i++)
        forgo(self, i);
    self->version++;
    for (uint16_t i = 0; i < self->settings->node_count; i++)
        if (self->has_joined[i] && role_of(self, i) != TT_ROLE_FRONTEND)
            send_set(self, i);
    advance(self);
}

void tt_model_set_drop_plan(struct tt_model_set *self, enum tt_placement_end end, uint16_t node) {
    if (tt_placement_is_open(&self->placement))
        drop_plan(self, &(struct tt_placement_outcome){.end = end, .node = node});
}

void tt_model_set_drained(struct tt_model_set *self) {
    tt_assert(self->placement.stage == TT_PLACEMENT_DRAINING);
    advance_plan(self);
    advance(self);
}

uint16_t tt_model_set_awaited(const struct tt_model_set *self) {
    for (int32_t i = 0; i < self->settings->node_count; i++)
        if (self->awaited[i] != 0)
            return (uint16_t)i;
    return TT_CLUSTER_NO_NODE;
}

/* What a node could not load of what it gains: then the plan is dropped. */
static bool fails_plan(const struct tt_model_set *self, uint16_t from, const struct tt_frame *frame,
                       uint16_t *out_model) {
    const struct tt_placement *placement = &self->placement;
    uint16_t pool = self->settings->nodes[from].pool;
    for (int32_t i = 1; placement->stage == TT_PLACEMENT_LOADING && i < frame->count; i++) {
        uint16_t model = frame->records[i].model;
        if (model >= self->settings->model_count || placement->homes[model] == pool ||
            placement->others[model] != pool || frame->records[i].code == 0)
            continue;
        *out_model = model;
        return true;
    }
    return false;
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
    uint16_t model;
    if (fails_plan(self, from, frame, &model)) {
        drop_plan(self, &(struct tt_placement_outcome){
                            .end = TT_PLACEMENT_FAILED, .node = from, .model = model});
        return true;
    }
    for (int32_t i = 1; self->stage != TT_MODEL_STAGE_NONE && i < frame->count; i++)
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
    bool is_of_plan = awaits_nodes(&self->placement) && is_of_stage(self, peer);
    if (self->stage != TT_MODEL_STAGE_NONE || is_of_plan)
        await(self, peer);
}

void tt_model_set_part(struct tt_model_set *self, uint16_t peer) {
    self->has_joined[peer] = false;
    if (role_of(self, peer) != TT_ROLE_FRONTEND)
        tt_model_set_drop_plan(self, TT_PLACEMENT_LOST, peer);
    if (self->awaited[peer] == 0)
        return;
    forgo(self, peer);
    if (self->stage == TT_MODEL_STAGE_BACKENDS && current(self)->is_load &&
        !has_backend(self, self->placement.homes[current(self)->model]))
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
    if (self->placement.stage != TT_PLACEMENT_NONE)
        report_plan(self, (struct tt_placement_outcome){
                              .end = tt_placement_is_open(&self->placement) ? TT_PLACEMENT_DEPOSED
                                                                            : TT_PLACEMENT_DONE});
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
    for (int32_t i = 0; i < frame->count; i++)
        self->pools[i] = frame->records[i].device == TT_CLUSTER_NO_POOL
                             ? self->placement.homes[i] /* the primary does not know the model */
                             : frame->records[i].device;
    if (!tt_placement_follow(&self->placement, self->pools, frame->records[0].length))
        return false;
    self->version = frame->records[0].id;
    for (int32_t i = 0; i < frame->count; i++) {
        self->front[i] = (struct tt_model_state){.serves = frame->records[i].code == 1,
                                                 .generation = frame->records[i].attempt};
        self->absent[i] = frame->records[i].rows == 1;
    }
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
    tt_placement_check(&self->placement);
    bool plans = self->placement.stage != TT_PLACEMENT_NONE;
    tt_assert((self->stage == TT_MODEL_STAGE_NONE) == (self->wish_count == 0 || plans));
    bool waits = self->stage != TT_MODEL_STAGE_NONE || awaits_nodes(&self->placement);
    tt_assert(waits == (awaited > 0));
    tt_assert(self->epoch != 0 || (self->wish_count == 0 && !plans));
    for (int32_t i = 0; self->epoch != 0 && i < self->settings->model_count; i++)
        tt_assert(!self->front[i].serves || self->back[i].serves);
}
