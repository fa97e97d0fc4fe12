/* Crashes, freezes, cuts and the rest: what happens to the nodes of a virtual cluster. */
#include "cluster/virtual_node.h"

#include "base/instant.h"

#include <inttypes.h>
#include <stdio.h>

static void mark_gone(struct tt_virtual_cluster *self, uint16_t frontend) {
    for (int64_t i = 0; i < self->request_count; i++) {
        struct tt_virtual_client *request = &self->requests[i];
        if (request->frontend == frontend && !request->is_answered && !request->is_gone) {
            request->is_gone = true;
            self->result->gone++;
        }
    }
}

static void crash(struct tt_virtual_cluster *self, int64_t now, uint16_t number) {
    struct tt_virtual_node *node = &self->nodes[number];
    if (!node->is_alive)
        return;
    tt_virtual_node_stop(self, node);
    node->frozen_until_at = now;
    if (node->role == TT_ROLE_FRONTEND)
        mark_gone(self, number);
    for (uint16_t peer = 0; peer < self->settings->node_count; peer++) {
        if (!tt_virtual_may_talk(self, number, peer))
            continue;
        *tt_virtual_sees(self, number, peer) = false;
        bool is_cut = tt_virtual_network_link(&self->network, number, peer)->cuts > 0;
        if (*tt_virtual_sees(self, peer, number) && !is_cut)
            tt_virtual_tell(self, now + self->options->delay_ns, peer, number, TT_LINK_CLOSED);
        tt_virtual_pair_disconnect(self, number, peer);
    }
}

static bool is_cut_by(const struct tt_virtual_cluster *self, const struct tt_fault *fault,
                      uint16_t a, uint16_t b) {
    bool is_pair = fault->other == TT_CLUSTER_NO_NODE ? a == fault->node || b == fault->node
                                                      : (a == fault->node && b == fault->other) ||
                                                            (b == fault->node && a == fault->other);
    return is_pair && tt_virtual_may_talk(self, a, b);
}

static void for_cut_pairs(struct tt_virtual_cluster *self, int64_t now,
                          const struct tt_fault *fault,
                          void (*act)(struct tt_virtual_cluster *self, int64_t now,
                                      const struct tt_fault *fault, uint16_t a, uint16_t b)) {
    for (uint16_t a = 0; a < self->settings->node_count; a++)
        for (uint16_t b = 0; b < a; b++)
            if (is_cut_by(self, fault, a, b))
                act(self, now, fault, a, b);
}

static void cut_pair(struct tt_virtual_cluster *self, int64_t now, const struct tt_fault *fault,
                     uint16_t a, uint16_t b) {
    (void)fault;
    tt_virtual_network_cut(&self->network, now, a, b);
}

/* The connections of a pair that is cut since this fault began, or longer, give up. */
static void time_out_pair(struct tt_virtual_cluster *self, int64_t now,
                          const struct tt_fault *fault, uint16_t a, uint16_t b) {
    const struct tt_virtual_link *link = tt_virtual_network_link(&self->network, a, b);
    if (link->cuts == 0 || link->cut_since > fault->at)
        return;
    tt_virtual_pair_disconnect(self, a, b);
    for (int32_t i = 0; i < 2; i++) {
        uint16_t observer = i ? a : b, peer = i ? b : a;
        if (*tt_virtual_sees(self, observer, peer))
            tt_virtual_tell(self, now, observer, peer, TT_LINK_LOST);
    }
}

static void heal_pair(struct tt_virtual_cluster *self, int64_t now, const struct tt_fault *fault,
                      uint16_t a, uint16_t b) {
    (void)fault;
    tt_virtual_network_heal(&self->network, now, a, b);
    if (tt_virtual_network_link(&self->network, a, b)->cuts > 0)
        return;
    for (int32_t i = 0; i < 2; i++) { /* a peer that died meanwhile answers with a reset */
        uint16_t observer = i ? a : b, peer = i ? b : a;
        if (*tt_virtual_sees(self, observer, peer) && !self->nodes[peer].is_alive)
            tt_virtual_tell(self, now + self->options->delay_ns, observer, peer, TT_LINK_CLOSED);
    }
    tt_virtual_pair_connect(self, now, a, b);
}

void tt_virtual_fault_begin(struct tt_virtual_cluster *self, int64_t now, int64_t index) {
    const struct tt_fault *fault = &self->options->faults[index];
    struct tt_virtual_node *node = &self->nodes[fault->node];
    if (fault->kind == TT_FAULT_CRASH) {
        crash(self, now, fault->node);
    } else if (fault->kind == TT_FAULT_FREEZE) {
        node->frozen_until_at = tt_instant_max(node->frozen_until_at, now + fault->duration_ns);
    } else if (fault->kind == TT_FAULT_CUT) {
        for_cut_pairs(self, now, fault, cut_pair);
        if (fault->duration_ns >= self->options->link_timeout_ns)
            tt_virtual_network_schedule(
                &self->network,
                (struct tt_virtual_event){.at = now + self->options->link_timeout_ns,
                                          .kind = TT_EVENT_TIMEOUT,
                                          .number = index});
    } else if (fault->kind == TT_FAULT_SLOW) {
        node->slow_until_at = tt_instant_max(node->slow_until_at, now + fault->duration_ns);
    } else if (fault->kind == TT_FAULT_RECORD) {
        self->service.faults++;
    } else if (fault->kind == TT_FAULT_LEAVE) {
        if (node->is_alive && node->role == TT_ROLE_BACKEND) {
            tt_backend_leave(&node->as.backend);
            tt_virtual_node_end_turn(self, node, now);
        }
    } else if (node->is_alive && node->role == TT_ROLE_SCHEDULER) {
        tt_scheduler_role_resign(&node->as.scheduler, now);
        tt_virtual_node_end_turn(self, node, now);
    }
}

void tt_virtual_fault_end(struct tt_virtual_cluster *self, int64_t now, int64_t index) {
    const struct tt_fault *fault = &self->options->faults[index];
    struct tt_virtual_node *node = &self->nodes[fault->node];
    bool is_replaced = fault->kind == TT_FAULT_LEAVE && node->role == TT_ROLE_BACKEND;
    if (is_replaced)
        crash(self, now, fault->node);
    if ((fault->kind == TT_FAULT_CRASH || is_replaced) && !node->is_alive) {
        enum tt_err err = tt_virtual_node_start(self, node, now);
        tt_assert(err == TT_OK); /* it started once */
        for (uint16_t peer = 0; peer < self->settings->node_count; peer++)
            tt_virtual_pair_connect(self, now, fault->node, peer);
        tt_virtual_node_end_turn(self, node, now);
    } else if (fault->kind == TT_FAULT_CUT) {
        for_cut_pairs(self, now, fault, heal_pair);
    } else if (fault->kind == TT_FAULT_RECORD) {
        self->service.faults--;
    }
}

void tt_virtual_fault_time_out(struct tt_virtual_cluster *self, int64_t now, int64_t index) {
    for_cut_pairs(self, now, &self->options->faults[index], time_out_pair);
}

const char *tt_fault_text(const struct tt_fault *fault, char *out, size_t capacity) {
    static const char *const kinds[TT_FAULT_KINDS] = {
        [TT_FAULT_CRASH] = "crash of node",
        [TT_FAULT_FREEZE] = "freeze of node",
        [TT_FAULT_CUT] = "cut of node",
        [TT_FAULT_RECORD] = "no coordination service; node",
        [TT_FAULT_RESIGN] = "resignation of node",
        [TT_FAULT_LEAVE] = "drain of node",
        [TT_FAULT_SLOW] = "slowness of node",
    };
    char other[32] = "";
    if (fault->kind == TT_FAULT_CUT && fault->other != TT_CLUSTER_NO_NODE)
        snprintf(other, sizeof(other), " from node %d", (int)fault->other);
    snprintf(out, capacity, "%s %d%s at %" PRId64 " us for %" PRId64 " us", kinds[fault->kind],
             (int)fault->node, other, fault->at / TT_US, fault->duration_ns / TT_US);
    return out;
}
