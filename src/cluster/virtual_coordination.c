#include "cluster/virtual_coordination.h"

#include "base/instant.h"
#include "cluster/virtual_node.h"

#include <stdlib.h>
#include <string.h>

#define LEASE_NS (30 * TT_S)
#define TIMEOUT_NS (2 * TT_S)
#define LONGEST_NS (10 * TT_MS)

enum { STREAM = 9 };

enum tt_err tt_virtual_coordination_init(struct tt_virtual_coordination *self, int32_t node_count,
                                         uint64_t seed) {
    *self = (struct tt_virtual_coordination){.leases =
                                                 calloc((size_t)node_count, sizeof(*self->leases))};
    tt_prng_init(&self->prng, seed, STREAM);
    return self->leases ? TT_OK : TT_ERR_NO_MEMORY;
}

void tt_virtual_coordination_fini(struct tt_virtual_coordination *self) { free(self->leases); }

/* A message between a node and the service. */
static void post(struct tt_virtual_node *node, int64_t now, enum tt_virtual_event_kind kind,
                 const void *message, size_t length) {
    struct tt_virtual_cluster *cluster = node->cluster;
    uint8_t *bytes = malloc(length);
    tt_assert(bytes != NULL);
    memcpy(bytes, message, length);
    int64_t takes = TT_MS + (int64_t)tt_prng_below(&cluster->service.prng, LONGEST_NS);
    tt_virtual_network_schedule(&cluster->network, (struct tt_virtual_event){.at = now + takes,
                                                                             .kind = kind,
                                                                             .to = node->number,
                                                                             .life = node->life,
                                                                             .bytes = bytes,
                                                                             .length = length});
}

/* ---- a node ---- */

static void on_send(void *context, const struct tt_coordination_request *request) {
    struct tt_virtual_node *node = context;
    post(node, node->cluster->network.now, TT_EVENT_ASKED, request, sizeof(*request));
}

static void on_recorded(void *context, int64_t now, uint64_t epoch) {
    struct tt_virtual_node *node = context;
    if (node->role == TT_ROLE_SCHEDULER)
        tt_scheduler_role_recorded(&node->as.scheduler, now, epoch);
}

static void on_plan_recorded(void *context, int64_t now, bool is_recorded) {
    struct tt_virtual_node *node = context;
    tt_scheduler_role_plan_recorded(&node->as.scheduler, now, is_recorded);
}

static void on_record_plan(void *context, int64_t now) {
    struct tt_virtual_node *node = context;
    tt_plan_record_write(&node->plan, now, node->as.scheduler.primary.epoch, "");
    tt_virtual_member_plan(node);
}

void tt_virtual_member_start(struct tt_virtual_node *node, int64_t now) {
    tt_plan_record_init(&node->plan, TIMEOUT_NS);
    node->plan.context = node;
    node->plan.send = on_send;
    node->plan.ended = on_plan_recorded;
    if (node->role == TT_ROLE_SCHEDULER)
        node->as.scheduler.record_plan = on_record_plan;
    tt_membership_init(&node->member, now, "", "", LEASE_NS, TIMEOUT_NS);
    node->member.context = node;
    node->member.send = on_send;
    node->member.recorded = on_recorded;
    node->member_at = TT_NEVER;
    tt_virtual_member_plan(node);
}

void tt_virtual_member_plan(struct tt_virtual_node *node) {
    struct tt_virtual_cluster *cluster = node->cluster;
    tt_membership_check(&node->member);
    tt_plan_record_check(&node->plan);
    int64_t next_at =
        tt_instant_min(tt_membership_next_at(&node->member), tt_plan_record_next_at(&node->plan));
    int64_t at = tt_instant_max(next_at, cluster->network.now);
    if (at == TT_NEVER || at == node->member_at)
        return;
    node->member_at = at;
    tt_virtual_network_schedule(
        &cluster->network,
        (struct tt_virtual_event){
            .at = at, .kind = TT_EVENT_MEMBER, .to = node->number, .life = node->life});
}

void tt_virtual_member_look(struct tt_virtual_node *node, int64_t now) {
    tt_membership_tick(&node->member, now);
    tt_plan_record_tick(&node->plan, now);
}

void tt_virtual_member_told(struct tt_virtual_node *node, int64_t now,
                            const struct tt_virtual_event *event) {
    struct tt_coordination_answer answer;
    memcpy(&answer, event->bytes, sizeof(answer));
    tt_membership_answered(&node->member, now, &answer);
    tt_plan_record_answered(&node->plan, now, &answer);
}

/* ---- the service ---- */

static void swap(struct tt_virtual_coordination *self,
                 const struct tt_coordination_request *request,
                 struct tt_coordination_answer *answer) {
    answer->is_done = request->revision == self->revision[request->key];
    if (answer->is_done) {
        self->epoch[request->key] = request->epoch;
        self->revision[request->key]++;
    }
    answer->epoch = self->epoch[request->key];
    answer->revision = self->revision[request->key];
}

void tt_virtual_coordination_asked(struct tt_virtual_cluster *cluster,
                                   const struct tt_virtual_event *event) {
    struct tt_virtual_coordination *self = &cluster->service;
    struct tt_coordination_request request;
    memcpy(&request, event->bytes, sizeof(request));
    if (self->faults > 0)
        return;
    struct tt_virtual_lease *lease = &self->leases[event->to];
    struct tt_coordination_answer answer = {
        .number = request.number, .ttl_ns = LEASE_NS, .lease = lease->id};
    bool lives = lease->id != 0 && lease->id == request.lease && event->at < lease->ends_at;
    switch (request.verb) {
    case TT_COORDINATION_LEASE:
        *lease =
            (struct tt_virtual_lease){.id = ++self->lease_count, .ends_at = event->at + LEASE_NS};
        answer.lease = lease->id;
        break;
    case TT_COORDINATION_JOIN:
    case TT_COORDINATION_KEEP:
        answer.err = lives ? TT_OK : TT_ERR_NOT_FOUND;
        if (lives && request.verb == TT_COORDINATION_JOIN)
            lease->has_joined = true;
        else if (lives)
            lease->ends_at = event->at + LEASE_NS;
        break;
    case TT_COORDINATION_LEAVE:
        if (lives)
            lease->ends_at = event->at;
        break;
    case TT_COORDINATION_SWAP: swap(self, &request, &answer); break;
    }
    post(&cluster->nodes[event->to], event->at, TT_EVENT_TOLD, &answer, sizeof(answer));
}

int32_t tt_virtual_coordination_members(const struct tt_virtual_cluster *cluster, int64_t now) {
    int32_t count = 0;
    for (int32_t i = 0; i < cluster->settings->node_count; i++)
        count += cluster->service.leases[i].has_joined && now < cluster->service.leases[i].ends_at;
    return count;
}
