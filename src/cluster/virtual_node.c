/* The nodes of a virtual cluster: their lives, turns and links. */
#include "cluster/virtual_node.h"

#include "base/instant.h"

enum { SLOWNESS = 20 };

/* ---- what the roles ask for ---- */

static void on_words(void *context, void *user, uint16_t backend, int32_t count) {
    struct tt_virtual_node *node = context;
    struct tt_virtual_cluster *self = node->cluster;
    struct tt_virtual_client *request = &self->requests[(intptr_t)user];
    if (request->is_answered || request->is_gone)
        tt_virtual_violate(self, self->network.now, "request %d gets words after its end",
                           (int)(intptr_t)user);
    if (request->words > 0 && request->backend != backend)
        tt_virtual_violate(self, self->network.now, "request %d gets words of nodes %d and %d",
                           (int)(intptr_t)user, (int)request->backend, (int)backend);
    request->backend = backend;
    request->words += count;
    self->result->words += count;
}

static void check_words(struct tt_virtual_cluster *self, const struct tt_virtual_client *request,
                        enum tt_answer answer) {
    bool is_cut = answer == TT_ANSWER_BROKEN || answer == TT_ANSWER_TIMED_OUT ||
                  answer == TT_ANSWER_CANCELLED;
    int64_t wanted =
        answer == TT_ANSWER_DONE && request->streams ? tt_virtual_words(request->id) : 0;
    self->result->broken += answer == TT_ANSWER_BROKEN;
    if (is_cut ? answer == TT_ANSWER_BROKEN && request->words == 0 : request->words != wanted)
        tt_virtual_violate(self, self->network.now, "a request with answer %d has %d words of %d",
                           (int)answer, (int)request->words, (int)wanted);
}

static void on_answered(void *context, void *user, enum tt_answer answer, int32_t reason) {
    (void)reason;
    struct tt_virtual_node *node = context;
    struct tt_virtual_cluster *self = node->cluster;
    struct tt_virtual_client *request = &self->requests[(intptr_t)user];
    int64_t now = self->network.now;
    if (request->is_answered || request->is_gone)
        tt_virtual_violate(self, now, "request %d is answered twice", (int)(intptr_t)user);
    request->is_answered = true;
    check_words(self, request, answer);
    answer == TT_ANSWER_CANCELLED ? self->result->cancelled++ : self->result->answered++;
    if (self->options->ended)
        self->options->ended(self->options->context,
                             &(struct tt_virtual_ending){.accepted_at = request->accepted_at,
                                                         .ended_at = now,
                                                         .deadline_at = request->deadline_at,
                                                         .answer = answer});
}

/* Each member emits its words in the course of the run; some have their answer then. */
static void plan_words(struct tt_virtual_node *node, int64_t now, int64_t run, int32_t device,
                       const struct tt_plan *plan) {
    struct tt_virtual_cluster *self = node->cluster;
    for (int32_t i = 0; i < plan->count; i++) {
        int64_t count = plan->members[i].is_here ? tt_virtual_words(plan->members[i].id) : 0;
        for (int64_t k = 1; k <= count; k++)
            tt_virtual_network_schedule(
                &self->network,
                (struct tt_virtual_event){
                    .at = now + run * k / (count + 1),
                    .kind = TT_EVENT_EMITTED,
                    .to = node->number,
                    .from = (uint16_t)i,
                    .life = node->life,
                    .number = device,
                    .length = k < count ? 0 : 1 + (size_t)tt_prng_below(&self->prng, 2)});
    }
}

void tt_virtual_node_emitted(struct tt_virtual_node *node, const struct tt_virtual_event *event) {
    struct tt_backend *backend = &node->as.backend;
    const struct tt_backend_device *device = &backend->devices[event->number];
    const struct tt_plan *plan = &device->plans[device->oldest];
    struct tt_plan_member *member = &plan->members[event->from];
    tt_backend_emitted(backend, plan, member, 1);
    if (event->length == 2)
        tt_backend_answer(backend, plan, member, true);
}

/* The batch takes its share of what its profile says, within 2 %. */
static void on_run(void *context, int64_t now, int32_t device, const struct tt_plan *plan) {
    struct tt_virtual_node *node = context;
    struct tt_virtual_cluster *self = node->cluster;
    bool serves = node->as.backend.models.actual[plan->model].serves;
    self->result->unserved += !serves;
    if (!serves && self->options->fault_count == 0)
        tt_virtual_violate(self, now, "node %d runs model %d, which it does not serve",
                           (int)node->number, (int)plan->model);
    const bool *lacks = self->options->lacks;
    if (lacks && lacks[node->number * self->settings->model_count + plan->model])
        tt_virtual_violate(self, now, "node %d runs model %d, which it lacks", (int)node->number,
                           (int)plan->model);
    int32_t rows = 0;
    for (int32_t i = 0; i < plan->count; i++)
        rows += plan->members[i].is_here ? plan->members[i].rows : 0;
    int64_t run = tt_profile_latency(self->settings->models[plan->model]->whole, rows, 0);
    run = run * (980 + (int64_t)tt_prng_below(&self->prng, 41)) / 1000;
    if (self->options->run_permille > 0)
        run = run * self->options->run_permille / 1000;
    if (node->slow_until_at > now)
        run *= SLOWNESS;
    if (serves && self->options->emits && plan->model == 0)
        plan_words(node, now, run, device, plan);
    tt_virtual_network_schedule(
        &self->network,
        (struct tt_virtual_event){.at = now + run,
                                  .kind = serves ? TT_EVENT_RAN : TT_EVENT_RAN_IN_VAIN,
                                  .to = node->number,
                                  .life = node->life,
                                  .number = device});
}

static bool is_drawn(struct tt_virtual_cluster *self, int32_t permille) {
    return permille > 0 && tt_prng_below(&self->prng, 1000) < (uint64_t)permille;
}

/* A frontend need not run for this, but must not have ended. */
static bool is_readable(struct tt_virtual_cluster *self, uint16_t backend, uint16_t number,
                        uint64_t id) {
    struct tt_virtual_node *frontend = &self->nodes[number];
    const struct tt_virtual_link *link = tt_virtual_network_link(&self->network, backend, number);
    return frontend->is_alive && link->cuts == 0 && !link->is_lost &&
           tt_frontend_find(&frontend->as.frontend, id);
}

/* Some inputs are read at once, as between two processes of one host; some take a while, as between
 * two hosts, and their frontend may end meanwhile. */
static void on_read_inputs(void *context, struct tt_plan *plan) {
    struct tt_virtual_node *node = context;
    struct tt_virtual_cluster *self = node->cluster;
    for (int32_t i = 0; i < plan->count; i++) {
        struct tt_plan_member *member = &plan->members[i];
        bool is_shared = is_drawn(self, self->options->shared_permille);
        member->is_here =
            is_shared && is_readable(self, node->number, member->frontend, member->id);
        self->result->shared += member->is_here;
        member->is_reading = !member->is_here && is_drawn(self, self->options->remote_permille);
        if (!member->is_reading)
            continue;
        uint64_t most = 2 * (uint64_t)self->options->delay_ns + 1;
        tt_virtual_network_schedule(
            &self->network, (struct tt_virtual_event){
                                .at = self->network.now + (int64_t)tt_prng_below(&self->prng, most),
                                .kind = TT_EVENT_READ,
                                .from = member->frontend,
                                .to = node->number,
                                .life = node->life,
                                .number = (int64_t)member->id,
                                .length = member->attempt});
    }
}

void tt_virtual_node_read(struct tt_virtual_cluster *self, struct tt_virtual_node *node,
                          int64_t now, const struct tt_virtual_event *event) {
    uint64_t id = (uint64_t)event->number;
    bool is_read = is_readable(self, node->number, event->from, id);
    is_read ? self->result->read++ : self->result->unread++;
    tt_backend_read(&node->as.backend, now, event->from, id, (uint16_t)event->length, is_read);
}

static void on_record(void *context, int64_t now, uint64_t epoch) {
    struct tt_virtual_node *node = context;
    struct tt_virtual_cluster *self = node->cluster;
    self->result->claims++;
    if (self->options->claimed)
        self->options->claimed(self->options->context, now, epoch);
    tt_membership_record(&node->member, now, epoch);
    tt_virtual_member_plan(node);
}

/* ---- life of a node ---- */

enum tt_err tt_virtual_node_start(struct tt_virtual_cluster *self, struct tt_virtual_node *node,
                                  int64_t now) {
    enum tt_err err = TT_OK;
    node->life++;
    node->claimed = node->obeyed = 0;
    node->tick_at = TT_NEVER;
    if (node->role == TT_ROLE_FRONTEND) {
        err = tt_frontend_init(&node->as.frontend, self->settings, node->number,
                               (uint16_t)node->life, now);
        node->as.frontend.context = node;
        node->as.frontend.answered = on_answered;
        node->as.frontend.words = on_words;
    } else if (node->role == TT_ROLE_BACKEND) {
        err = tt_backend_init(&node->as.backend, self->settings, node->number);
        node->as.backend.context = node;
        node->as.backend.run = on_run;
        if (self->options->shared_permille > 0 || self->options->remote_permille > 0)
            node->as.backend.read_inputs = on_read_inputs;
    } else {
        err = tt_scheduler_role_init(&node->as.scheduler, self->settings, node->number, now,
                                     self->options->policy, self->why);
        node->as.scheduler.context = node;
        node->as.scheduler.record = on_record;
    }
    if (!err) {
        tt_virtual_models_start(node);
        tt_virtual_member_start(node, now);
    }
    node->is_alive = err == TT_OK;
    return err;
}

static void add_counts(struct tt_virtual_cluster *self, const struct tt_virtual_node *node) {
    if (node->role == TT_ROLE_SCHEDULER) {
        self->result->returned += node->as.scheduler.returned;
        self->result->suspected += node->as.scheduler.suspected;
        self->result->avoided += node->as.scheduler.avoided;
    } else if (node->role == TT_ROLE_BACKEND) {
        self->result->stale += node->as.backend.refused;
    }
}

void tt_virtual_node_stop(struct tt_virtual_cluster *self, struct tt_virtual_node *node) {
    if (!node->is_alive)
        return;
    add_counts(self, node);
    node->is_alive = false;
    tt_plan_record_fini(&node->plan);
    if (node->role == TT_ROLE_FRONTEND)
        tt_frontend_fini(&node->as.frontend);
    else if (node->role == TT_ROLE_BACKEND)
        tt_backend_fini(&node->as.backend);
    else
        tt_scheduler_role_fini(&node->as.scheduler);
}

static struct tt_outbox *outbox_of(struct tt_virtual_node *node) {
    if (node->role == TT_ROLE_FRONTEND)
        return &node->as.frontend.outbox;
    return node->role == TT_ROLE_BACKEND ? &node->as.backend.outbox : &node->as.scheduler.outbox;
}

static int64_t next_at(const struct tt_virtual_node *node) {
    if (node->role == TT_ROLE_FRONTEND)
        return tt_frontend_next_at(&node->as.frontend);
    return node->role == TT_ROLE_BACKEND ? tt_backend_next_at(&node->as.backend)
                                         : tt_scheduler_role_next_at(&node->as.scheduler);
}

static bool is_datagram(enum tt_frame_type type) {
    return type == TT_FRAME_BEAT || type == TT_FRAME_ASK || type == TT_FRAME_OPINION;
}

/* What a frame takes more than others: the way of far nodes, and the bytes of inputs. */
static int64_t extra_of(const struct tt_virtual_cluster *self, uint16_t from, uint16_t to,
                        const struct tt_frame *frame) {
    const int64_t *far_ns = self->options->far_ns;
    int64_t extra_ns = far_ns ? far_ns[from] + far_ns[to] : 0;
    return frame->type == TT_FRAME_INPUT ? extra_ns + frame->count * self->options->input_ns
                                         : extra_ns;
}

/* Sends what the node left in its outbox, and plans its next tick. */
void tt_virtual_node_end_turn(struct tt_virtual_cluster *self, struct tt_virtual_node *node,
                              int64_t now) {
    struct tt_outbox *outbox = outbox_of(node);
    for (int64_t i = 0; i < outbox->frame_count; i++) {
        struct tt_frame frame = tt_outbox_frame(outbox, i);
        tt_frame_write(&frame, self->bytes);
        uint16_t to = outbox->frames[i].to;
        tt_virtual_network_send(&self->network, now, node->number, to, self->bytes,
                                tt_frame_bytes(frame.count), is_datagram(frame.type),
                                extra_of(self, node->number, to, &frame));
    }
    tt_outbox_clear(outbox);
    int64_t at = next_at(node);
    if (at == TT_NEVER || (node->tick_at > now && node->tick_at <= at))
        return;
    node->tick_at = tt_instant_max(at, now);
    tt_virtual_network_schedule(&self->network, (struct tt_virtual_event){.at = node->tick_at,
                                                                          .kind = TT_EVENT_TICK,
                                                                          .to = node->number,
                                                                          .life = node->life});
}

/* ---- links ---- */

bool *tt_virtual_sees(struct tt_virtual_cluster *self, uint16_t observer, uint16_t peer) {
    return &self->sees[(size_t)observer * (size_t)self->settings->node_count + peer];
}

void tt_virtual_tell(struct tt_virtual_cluster *self, int64_t at, uint16_t observer, uint16_t peer,
                     enum tt_link link) {
    struct tt_virtual_node *node = &self->nodes[observer];
    if (!node->is_alive)
        return;
    *tt_virtual_sees(self, observer, peer) = link == TT_LINK_UP;
    tt_virtual_network_schedule(&self->network, (struct tt_virtual_event){.at = at,
                                                                          .kind = TT_EVENT_LINK,
                                                                          .from = peer,
                                                                          .to = observer,
                                                                          .life = node->life,
                                                                          .number = link});
}

/* Two roles talk to each other unless they are of the same kind; schedulers always do. */
bool tt_virtual_may_talk(const struct tt_virtual_cluster *self, uint16_t a, uint16_t b) {
    return a != b &&
           (self->nodes[a].role != self->nodes[b].role || self->nodes[a].role == TT_ROLE_SCHEDULER);
}

void tt_virtual_pair_connect(struct tt_virtual_cluster *self, int64_t now, uint16_t a, uint16_t b) {
    struct tt_virtual_link *there = tt_virtual_network_link(&self->network, a, b);
    struct tt_virtual_link *back = tt_virtual_network_link(&self->network, b, a);
    if (!tt_virtual_may_talk(self, a, b) || !there->is_lost || there->cuts > 0 ||
        !self->nodes[a].is_alive || !self->nodes[b].is_alive)
        return;
    int64_t at = now + 2 * self->options->delay_ns;
    for (int32_t i = 0; i < 2; i++) {
        uint16_t observer = i ? a : b, peer = i ? b : a;
        if (*tt_virtual_sees(self, observer, peer))
            tt_virtual_tell(self, at, observer, peer, TT_LINK_LOST);
        tt_virtual_tell(self, at, observer, peer, TT_LINK_UP);
    }
    there->is_lost = back->is_lost = false;
    there->last_at = back->last_at = at;
}

void tt_virtual_pair_disconnect(struct tt_virtual_cluster *self, uint16_t a, uint16_t b) {
    tt_virtual_network_reset(&self->network, a, b);
    tt_virtual_network_link(&self->network, a, b)->is_lost = true;
    tt_virtual_network_link(&self->network, b, a)->is_lost = true;
}
