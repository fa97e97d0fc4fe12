/* Loading and unloading in a virtual cluster: it takes a while, and a load may fail. */
#include "cluster/virtual_node.h"

#include "base/instant.h"

#define LONGEST_NS (20 * TT_MS)
#define LOOK_NS TT_MS

struct tt_model_duty *tt_virtual_models_duty(struct tt_virtual_node *node) {
    tt_assert(node->role != TT_ROLE_SCHEDULER);
    return node->role == TT_ROLE_FRONTEND ? &node->as.frontend.models : &node->as.backend.models;
}

static void plan_end(struct tt_virtual_node *node, int64_t at) {
    tt_virtual_network_schedule(
        &node->cluster->network,
        (struct tt_virtual_event){
            .at = at, .kind = TT_EVENT_ACTED, .to = node->number, .life = node->life});
}

static void on_act(void *context, int32_t model, bool is_load) {
    (void)model;
    (void)is_load;
    struct tt_virtual_node *node = context;
    struct tt_virtual_cluster *self = node->cluster;
    int64_t longest = self->options->load_ns > 0 ? self->options->load_ns : LONGEST_NS;
    plan_end(node, self->network.now + (int64_t)tt_prng_below(&self->prng, (uint64_t)longest));
}

/* Requests, or plans, of the model that the node has. */
static bool has_work(const struct tt_virtual_node *node, int32_t model) {
    const struct tt_cluster_settings *settings = node->cluster->settings;
    bool has = false;
    for (int32_t i = 0; node->role == TT_ROLE_FRONTEND && i < settings->request_limit; i++)
        has |=
            node->as.frontend.requests[i].id != 0 && node->as.frontend.requests[i].model == model;
    for (int32_t d = 0; node->role == TT_ROLE_BACKEND && d < node->as.backend.device_count; d++)
        for (int32_t p = 0; p < settings->depth; p++)
            has |= node->as.backend.devices[d].plans[p].state != TT_PLAN_FREE &&
                   node->as.backend.devices[d].plans[p].model == model;
    return has;
}

void tt_virtual_models_acted(struct tt_virtual_cluster *self, int64_t now,
                             struct tt_virtual_node *node) {
    struct tt_model_duty *duty = tt_virtual_models_duty(node);
    tt_assert(duty->busy >= 0);
    if (!duty->busy_with.serves && has_work(node, duty->busy)) {
        plan_end(node, now + LOOK_NS);
        return;
    }
    bool fails = duty->busy_with.serves && self->options->failure_permille > 0 &&
                 tt_prng_below(&self->prng, 1000) < (uint64_t)self->options->failure_permille;
    tt_model_duty_acted(duty, fails ? (uint16_t)-TT_ERR_IO : 0);
}

/* ---- wishes ---- */

void tt_virtual_models_wish(struct tt_virtual_cluster *self, int64_t now,
                            struct tt_virtual_node *frontend) {
    uint16_t model = (uint16_t)tt_prng_below(&self->prng, (uint64_t)self->settings->model_count);
    bool is_load = tt_prng_below(&self->prng, 2) == 0;
    int64_t gap = 1 + (int64_t)tt_prng_below(&self->prng, 2 * (uint64_t)self->options->wish_gap_ns);
    if (now + gap < self->options->until_at)
        tt_virtual_network_schedule(
            &self->network, (struct tt_virtual_event){.at = now + gap, .kind = TT_EVENT_WISH});
    if (!frontend)
        return;
    bool is_sent =
        tt_frontend_wish(&frontend->as.frontend, (uint64_t)++self->result->wishes, model, is_load);
    self->result->unwished += !is_sent;
}

static void on_wished(void *context, uint64_t number, uint16_t failure) {
    (void)number;
    const struct tt_virtual_node *node = context;
    failure ? node->cluster->result->unwished++ : node->cluster->result->wished++;
}

/* The node's process has got the primary's set, and did what it says of the model. */
static bool agrees(struct tt_virtual_node *node, const struct tt_model_set *set, int32_t model) {
    const struct tt_model_duty *duty = tt_virtual_models_duty(node);
    bool is_backend = node->role == TT_ROLE_BACKEND;
    const struct tt_model_state *states = is_backend ? set->back : set->front;
    uint16_t pool = node->cluster->settings->nodes[node->number].pool;
    bool is_here = !is_backend || tt_placement_holds(&set->placement, pool, model);
    return duty->epoch != set->epoch || duty->failures[model] != 0 ||
           tt_model_duty_serves(duty, model) == (states[model].serves && is_here);
}

static void on_ended(void *context, const struct tt_model_wish *wish, uint16_t failure) {
    struct tt_virtual_node *primary = context;
    struct tt_virtual_cluster *self = primary->cluster;
    const struct tt_model_set *set = &primary->as.scheduler.models;
    for (int32_t i = 0; failure == 0 && i < self->settings->node_count; i++) {
        struct tt_virtual_node *node = &self->nodes[i];
        if (node->is_alive && node->role != TT_ROLE_SCHEDULER && set->has_joined[i] &&
            !agrees(node, set, wish->model))
            tt_virtual_violate(self, self->network.now, "model %d is %s, but not at node %d",
                               (int)wish->model, wish->is_load ? "loaded" : "unloaded", (int)i);
    }
}

static void on_placed(void *context, const struct tt_placement_outcome *outcome) {
    const struct tt_virtual_node *primary = context;
    struct tt_virtual_cluster *self = primary->cluster;
    outcome->end == TT_PLACEMENT_DONE ? self->result->placed++ : self->result->unplaced++;
    if (self->options->placed)
        self->options->placed(self->options->context, self->network.now, primary->number, outcome);
}

/* The frontend refuses requests to the models that the primary finds absent. */
static bool knows_absent(const struct tt_virtual_node *node, const struct tt_model_set *set) {
    bool agrees = true;
    for (int32_t i = 0; node->role == TT_ROLE_FRONTEND && i < set->settings->model_count; i++)
        agrees &= node->as.frontend.absent[i] == (set->absent[i] && set->front[i].serves);
    return agrees;
}

bool tt_virtual_models_are_settled(struct tt_virtual_cluster *self) {
    const struct tt_model_set *set = NULL;
    for (int32_t i = 0; i < self->settings->node_count; i++)
        if (self->nodes[i].role == TT_ROLE_SCHEDULER && self->nodes[i].is_alive &&
            self->nodes[i].as.scheduler.is_primary)
            set = &self->nodes[i].as.scheduler.models;
    bool settled = set && set->wish_count == 0 && set->placement.stage == TT_PLACEMENT_NONE;
    for (int32_t i = 0; settled && i < self->settings->node_count; i++) {
        struct tt_virtual_node *node = &self->nodes[i];
        if (!node->is_alive || node->role == TT_ROLE_SCHEDULER)
            continue;
        const struct tt_model_duty *duty = tt_virtual_models_duty(node);
        settled =
            duty->epoch == set->epoch && tt_model_duty_is_done(duty) && knows_absent(node, set);
        for (int32_t model = 0; settled && model < self->settings->model_count; model++)
            settled = agrees(node, set, model);
    }
    return settled;
}

/* ---- models that some nodes lack, or that come ---- */

static void note_holders(struct tt_virtual_node *scheduler) {
    const struct tt_virtual_options *options = scheduler->cluster->options;
    const struct tt_cluster_settings *settings = options->settings;
    for (int32_t i = 0; options->lacks && i < settings->node_count; i++)
        for (int32_t m = 0; m < settings->model_count; m++)
            if (options->lacks[i * settings->model_count + m])
                tt_scheduler_role_hold(&scheduler->as.scheduler, (uint16_t)i, m, false);
}

/* As a driver does it: what the sender did not know is not to be served. */
void tt_virtual_models_complete(struct tt_virtual_cluster *self, struct tt_frame *frame) {
    for (; frame->type == TT_FRAME_SERVE && frame->count < self->settings->model_count;
         frame->count++)
        self->records[frame->count] = (struct tt_frame_record){.id = self->records[0].id,
                                                               .length = self->records[0].length,
                                                               .model = (uint16_t)frame->count,
                                                               .device = TT_CLUSTER_NO_POOL};
}

void tt_virtual_models_start(struct tt_virtual_node *node) {
    if (node->role == TT_ROLE_SCHEDULER) {
        note_holders(node);
        node->as.scheduler.models.context = node;
        node->as.scheduler.models.ended = on_ended;
        node->as.scheduler.models.placed = on_placed;
        return;
    }
    struct tt_model_duty *duty = tt_virtual_models_duty(node);
    duty->context = node;
    duty->act = on_act;
    if (node->role == TT_ROLE_FRONTEND)
        node->as.frontend.wished = on_wished;
}
