/* A node of a cluster: the thread that drives one role's state machine (cluster/) over the network.
 *
 * It has a loop of its own. Frames, links, visitors and wakes come in; after each turn of the loop
 * the role's due timer is served, what it left in its outbox is sent, and the timer is set anew
 * with the precision of the system's clock. The role itself is behind struct tt_fleet_role; there
 * is one file for each: frontend_node.c, scheduler_node.c, backend_node.c.
 *
 * A cluster that etcd describes is its coordination service, too: the node is a member there, and a
 * primary records its epoch. A running node does not need etcd.
 *
 * Life: _open (the models are loaded) -> _start (listens; the thread) -> requests -> _close.
 *
 * All functions of a role are called on the node's thread. Implemented in fleet_node.c. */
#ifndef TT_FLEET_FLEET_NODE_H
#define TT_FLEET_FLEET_NODE_H

#include "base/threads/flag.h"
#include "cluster/outbox.h"
#include "fleet/cluster_spec.h"
#include "fleet/command_inbox.h"
#include "fleet/fleet_models.h"
#include "fleet/model_exchange.h"
#include "fleet/node_links.h"
#include "fleet/node_memory.h"
#include "fleet/remote_engine.h"

#include <pthread.h>

struct tt_fleet_node;
struct tt_model_notice;
struct tt_model_service;
struct tt_scaling_options;
struct tt_serving;

/* A role, as the node drives it. */
struct tt_fleet_role {
    enum tt_err (*open)(struct tt_fleet_node *node, void **out_self, struct tt_error *why);
    /* On the node's thread, after the last turn. */
    void (*close)(void *take_self);
    void (*received)(void *self, int64_t now, uint16_t from, const struct tt_received *received);
    /* What the role began by tt_node_memory_fetch() has ended. NULL: it begins none. */
    void (*fetched)(void *self, int64_t now, uint16_t from, uint64_t id, uint16_t attempt,
                    const uint8_t *payload, size_t bytes);
    void (*linked)(void *self, int64_t now, uint16_t peer, enum tt_link link);
    void (*tick)(void *self, int64_t now);
    /* tt_fleet_node_wake was called. NULL: `settle` finds what there is. */
    void (*woken)(void *self);
    int64_t (*next_at)(const void *self);
    /* Datagrams are read at this instant, at which the role is called anyway; INT64_MIN: when they
     * come. NULL: the same. */
    int64_t (*datagrams_at)(const void *self);
    struct tt_outbox *(*outbox)(void *self);
    /* Once per turn, before it is sent: hands over what the turn left. NULL: nothing to do. */
    void (*settle)(void *self, int64_t now);
    /* The payload of a record of INPUT, RESULT or WORDS: its bytes. It may change the record. Then
     * it is written, unless `out` is NULL (no link), and let go. NULL: the role sends none. */
    size_t (*payload_bytes)(void *self, enum tt_frame_type type, struct tt_frame_record *record);
    void (*payload_write)(void *self, enum tt_frame_type type, const struct tt_frame_record *record,
                          uint8_t *out);
    /* The text that follows a record of WISH, SERVED or WISHED; borrowed until the next call. NULL:
     * the role sends none. */
    const char *(*text)(void *self, enum tt_frame_type type, const struct tt_frame_record *record);
    /* A model has come, the last one of the settings: from `peer`, or from this node for
     * TT_CLUSTER_NO_NODE; it serves at once, or waits for a client's command. */
    void (*model_came)(void *self, int64_t now, uint16_t peer, bool serves);
    /* The peer has, or has not, the model loaded. NULL: of no interest. */
    void (*model_held)(void *self, int64_t now, int32_t model, uint16_t peer, bool is_held);
    /* A backend states how long its model takes. NULL: of no interest. */
    void (*model_paced)(void *self, int64_t now, int32_t model, uint16_t peer,
                        const struct tt_model_notice *notice);
    /* The epoch that it obeys or has, and its state for people. */
    uint64_t (*epoch)(const void *self);
    const char *(*state)(const void *self);
    /* UNSUPPORTED: what it cannot do; the message says so. */
    enum tt_err (*drain)(void *self, int64_t now, struct tt_error *why);
    enum tt_err (*promote)(void *self, int64_t now, struct tt_error *why);
    /* A command about the placement (fleet/placement_service.h): appends the answer. NULL: the role
     * has none. */
    enum tt_err (*place)(void *self, int64_t now, const char *command, struct tt_text *out_answer,
                         struct tt_error *why);
    /* The same about scaling (fleet/scaling_service.h). */
    enum tt_err (*scale)(void *self, int64_t now, const char *command, struct tt_text *out_answer,
                         struct tt_error *why);
    /* This epoch is recorded by the coordination service. NULL: the role does not ask. */
    void (*recorded)(void *self, int64_t now, uint64_t epoch);
    /* The plan that it records is recorded, or one of a later primary is. NULL: the same. */
    void (*plan_recorded)(void *self, int64_t now, bool is_recorded);
    /* What loads and unloads models; visitors ask about it (fleet/model_visits.h). */
    struct tt_model_service *(*service)(void *self);
    /* Appends to a metrics page. Any thread, from _start to _close. NULL: nothing. */
    void (*metrics)(void *self, struct tt_text *page);
    /* Appends fields of its own, ", \"name\": value". */
    void (*count)(void *self, struct tt_text *out_json);
};

struct tt_fleet_options {
    const char *cluster;               /* "static:FILE", or "etcd://..." (etcd/etcd_address.h) */
    const char *node;                  /* its name there */
    const char *key;                   /* a file; NULL: none, which only loopback addresses allow */
    struct tt_cluster_tls_files tls;   /* none: no TLS between nodes */
    enum tt_cluster_role role;         /* the one that the file states */
    const struct tt_fleet_role *steps; /* of that role; borrowed (fleet/fleet_roles.h) */
    const char *version;               /* of the program */
    int32_t request_limit;             /* of a frontend */
    enum tt_memory_use memory_use;
    const struct tt_ucx_library *ucx;         /* NULL: without */
    bool accepts_emulated;                    /* lanes of UCX that are not one-sided */
    const struct tt_scaling_options *scaling; /* of a scheduler; NULL: it does not scale */
    int32_t scheduler_threads;                /* of each pool of a scheduler; 0: none */
    int32_t learn_percent;                    /* of a scheduler (struct tt_cluster_settings) */
    struct tt_serving *serving;               /* with its models; borrowed, as all of these */
    struct tt_remote_engine *remote;          /* frontends: where requests come from */
    struct tt_command_inbox *commands;        /* of clients, to load and unload models */
    struct tt_log *log;
};

/* Everything but the network. Errors: as above, and those of the models. */
TT_MUST_CHECK enum tt_err tt_fleet_node_open(const struct tt_fleet_options *options,
                                             struct tt_fleet_node **out_node, struct tt_error *why);
/* Listens and starts the thread. Errors: IO. */
TT_MUST_CHECK enum tt_err tt_fleet_node_start(struct tt_fleet_node *self, struct tt_error *why);
/* Where the process answers clients, for people; "" before. Once, any thread. */
void tt_fleet_node_show_address(struct tt_fleet_node *self, const char *host, int32_t tcp_port);
/* The process will end: a backend takes no new batches, a primary hands over. A frontend goes on:
 * its listeners refuse clients in time. Any thread, or a signal handler. */
void tt_fleet_node_retire(struct tt_fleet_node *self);
/* Appends the role's families to a metrics page; `node` is a struct tt_fleet_node. Any thread,
 * until _close. */
void tt_fleet_node_metrics(const void *node, struct tt_text *page);
/* Ends the thread. A frontend answers what is left with an error. NULL-safe. */
void tt_fleet_node_close(struct tt_fleet_node *take_self);

/* ---- for roles ---- */

const struct tt_fleet_options *tt_fleet_node_options(const struct tt_fleet_node *self);
const struct tt_cluster_settings *tt_fleet_node_settings(const struct tt_fleet_node *self);
struct tt_fleet_models *tt_fleet_node_models(struct tt_fleet_node *self);
/* The group was loaded or unloaded here, or has just come to the table: the peers get notice. */
void tt_fleet_node_model_changed(struct tt_fleet_node *self, int32_t group);
/* The name of the node with this number. */
const char *tt_fleet_node_name(const struct tt_fleet_node *self, uint16_t number);
/* What the description says of times and plans. */
const struct tt_cluster_times *tt_fleet_node_times(const struct tt_fleet_node *self);
/* One line to another node, and its answer (fleet/visit.h). Any thread; blocks. */
TT_MUST_CHECK enum tt_err tt_fleet_node_visit(struct tt_fleet_node *self, uint16_t peer,
                                              const char *line, int64_t timeout_ns,
                                              struct tt_text *out_answer, struct tt_error *why);
/* For work beside the node's thread; before the role closes it has ended or is forgotten. */
uv_loop_t *tt_fleet_node_loop(struct tt_fleet_node *self);
uint16_t tt_fleet_node_number(const struct tt_fleet_node *self);
uint64_t tt_fleet_node_incarnation(const struct tt_fleet_node *self);
/* Records the epoch at the coordination service, if there is one. */
void tt_fleet_node_record(struct tt_fleet_node *self, int64_t now, uint64_t epoch);
/* Records the plan of a primary; `plan_recorded` follows, at once if there is no service. */
void tt_fleet_node_record_plan(struct tt_fleet_node *self, int64_t now, uint64_t epoch,
                               const char *text);
/* The latest plan that was recorded when the process started; NULL: none. */
const char *tt_fleet_node_recorded_plan(const struct tt_fleet_node *self);
/* Any thread: a turn follows. `context` is the node. */
void tt_fleet_node_wake(void *context);
/* Empty before the node has started. */
struct tt_node_memory *tt_fleet_node_memory(struct tt_fleet_node *self);
bool tt_fleet_node_is_linked(const struct tt_fleet_node *self, uint16_t peer);

#endif
