/* A node in the coordination service of its cluster: the service, and the node's membership there.
 *
 * A cluster that a file describes has no service: then all of this does nothing. One that etcd
 * describes has it there. Life: _open -> _turn, at least when `wake` was called and at the instant
 * that the last one returned -> _close, which ends the membership.
 *
 * One thread, the node's. Implemented in node_coordination.c. */
#ifndef TT_FLEET_NODE_COORDINATION_H
#define TT_FLEET_NODE_COORDINATION_H

#include "cluster/plan_record.h"
#include "etcd/etcd_service.h"
#include "fleet/cluster_file.h"

struct tt_node_coordination_options {
    const char *spec;
    const struct tt_etcd_tls_files *tls; /* of etcd */
    const struct tt_cluster_file *file;  /* borrowed, as all of these */
    uint16_t number;                     /* of the node */
    struct tt_log *log;
    void (*wake)(void *context); /* on another thread */
    /* This epoch is recorded. */
    void (*recorded)(void *context, int64_t now, uint64_t epoch);
    /* The plan is recorded / one of a later primary is. */
    void (*plan_recorded)(void *context, int64_t now, bool is_recorded);
    void *context;
};

struct tt_node_coordination {
    struct tt_node_coordination_options options;
    struct tt_etcd_address address;
    struct tt_etcd_service *service; /* NULL: there is none */
    struct tt_coordination coordination;
    struct tt_membership membership;
    struct tt_plan_record plan;
    char value[TT_CLUSTER_HOST_BYTES + 64]; /* of the member */
    bool *is_member;                        /* [file->count]: as the service says */
};

/* The service need not answer. Errors: INVALID (the spec), NO_MEMORY, IO. */
TT_MUST_CHECK enum tt_err
tt_node_coordination_open(struct tt_node_coordination *self,
                          const struct tt_node_coordination_options *options, struct tt_error *why);
/* Zero-initialized: nothing. */
void tt_node_coordination_close(struct tt_node_coordination *self);
/* Returns when the next turn is due; TT_NEVER. */
int64_t tt_node_coordination_turn(struct tt_node_coordination *self, int64_t now);
void tt_node_coordination_record(struct tt_node_coordination *self, int64_t now, uint64_t epoch);
/* Records the plan of a primary; without a service it counts as recorded at once. */
void tt_node_coordination_record_plan(struct tt_node_coordination *self, int64_t now,
                                      uint64_t epoch, const char *text);
/* Appends ", "member": true", where there is a service. */
void tt_node_coordination_show(const struct tt_node_coordination *self, struct tt_text *out_json);

#endif
