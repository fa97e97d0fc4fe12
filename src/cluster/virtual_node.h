/* What the files of the virtual cluster share: its nodes, clients and links. Only they include it.
 *
 * Implemented in virtual_node.c (a node's life, its turns, links), virtual_models.c (loading) and
 * virtual_faults.c (faults); virtual_cluster.c has clients, events and checks. */
#ifndef TT_CLUSTER_VIRTUAL_NODE_H
#define TT_CLUSTER_VIRTUAL_NODE_H

#include "cluster/plan_record.h"
#include "cluster/virtual_cluster.h"
#include "cluster/virtual_coordination.h"
#include "cluster/virtual_network.h"

struct tt_virtual_cluster;

struct tt_virtual_node {
    struct tt_virtual_cluster *cluster;
    union {
        struct tt_frontend frontend;
        struct tt_scheduler_role scheduler;
        struct tt_backend backend;
    } as;
    enum tt_cluster_role role;
    uint16_t number;
    bool is_alive;
    uint32_t life;
    int64_t frozen_until_at; /* in the past: it is not */
    int64_t slow_until_at;   /* the same */
    int64_t tick_at;         /* of the tick to come */
    struct tt_membership member;
    struct tt_plan_record plan;
    int64_t member_at; /* of its look to come */
    uint64_t claimed;  /* backend: the highest epoch of the claims delivered to this life */
    uint64_t obeyed;   /* backend: of the latest grant that it accepted */
};

struct tt_virtual_client {
    int64_t accepted_at, deadline_at;
    uint64_t id;                /* the frontend's */
    int64_t words;              /* that came */
    uint16_t frontend, backend; /* backend: of the words */
    bool is_answered, is_gone, streams;
};

struct tt_virtual_cluster {
    const struct tt_virtual_options *options;
    const struct tt_cluster_settings *settings;
    struct tt_virtual_network network;
    struct tt_prng prng;
    struct tt_virtual_node *nodes; /* [node_count] */
    bool *sees; /* [node_count][node_count]: the first knows of a link to the second */
    struct tt_virtual_client *requests;
    int64_t request_count, request_capacity;
    struct tt_virtual_coordination service;
    struct tt_frame_record records[TT_FRAME_MAX_RECORDS];
    uint8_t bytes[TT_FRAME_HEAD_BYTES + TT_FRAME_MAX_RECORDS * TT_FRAME_RECORD_BYTES];
    struct tt_virtual_result *result;
    struct tt_error *why;
};

/* Notes the first violation, which ends the run. Implemented in virtual_violation.c. */
void tt_virtual_violate(struct tt_virtual_cluster *self, int64_t now, const char *format, ...)
    TT_PRINTF(3, 4);

/* ---- virtual_node.c ---- */

TT_MUST_CHECK enum tt_err tt_virtual_node_start(struct tt_virtual_cluster *self,
                                                struct tt_virtual_node *node, int64_t now);
void tt_virtual_node_stop(struct tt_virtual_cluster *self, struct tt_virtual_node *node);
/* A backend has read an input, or could not. */
void tt_virtual_node_read(struct tt_virtual_cluster *self, struct tt_virtual_node *node,
                          int64_t now, const struct tt_virtual_event *event);
/* A member of a running plan has a word. */
void tt_virtual_node_emitted(struct tt_virtual_node *node, const struct tt_virtual_event *event);
/* Sends what the node left in its outbox, and plans its next tick. */
void tt_virtual_node_end_turn(struct tt_virtual_cluster *self, struct tt_virtual_node *node,
                              int64_t now);
/* Two roles talk to each other unless they are of the same kind; schedulers always do. */
bool tt_virtual_may_talk(const struct tt_virtual_cluster *self, uint16_t a, uint16_t b);
/* Whether the observer knows of a link to the peer. */
bool *tt_virtual_sees(struct tt_virtual_cluster *self, uint16_t observer, uint16_t peer);
void tt_virtual_tell(struct tt_virtual_cluster *self, int64_t at, uint16_t observer, uint16_t peer,
                     enum tt_link link);
void tt_virtual_pair_connect(struct tt_virtual_cluster *self, int64_t now, uint16_t a, uint16_t b);
void tt_virtual_pair_disconnect(struct tt_virtual_cluster *self, uint16_t a, uint16_t b);

/* ---- virtual_models.c ---- */

/* The node's models are loaded and unloaded from now on. */
void tt_virtual_models_start(struct tt_virtual_node *node);
/* A SERVE of a node that did not know all models gets records for the others. */
void tt_virtual_models_complete(struct tt_virtual_cluster *self, struct tt_frame *frame);
/* Of a frontend or a backend. */
struct tt_model_duty *tt_virtual_models_duty(struct tt_virtual_node *node);
/* A client of the frontend (NULL: there is none) loads or unloads a model. The frontend's turn
 * must be ended afterwards. */
void tt_virtual_models_wish(struct tt_virtual_cluster *self, int64_t now,
                            struct tt_virtual_node *frontend);
void tt_virtual_models_acted(struct tt_virtual_cluster *self, int64_t now,
                             struct tt_virtual_node *node);
/* No wish is under way, and each node serves what the primary says. */
bool tt_virtual_models_are_settled(struct tt_virtual_cluster *self);

/* ---- virtual_faults.c ---- */

void tt_virtual_fault_begin(struct tt_virtual_cluster *self, int64_t now, int64_t index);
void tt_virtual_fault_end(struct tt_virtual_cluster *self, int64_t now, int64_t index);
/* A cut has lasted so long that connections end. */
void tt_virtual_fault_time_out(struct tt_virtual_cluster *self, int64_t now, int64_t index);

#endif
