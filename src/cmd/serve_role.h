/* What `tutti serve --role` adds: the loader's settings for the role, and the node of the cluster.
 *
 * Life: _check (flags) -> _new, before models are loaded: it changes the options of the loader ->
 * _join, when they are: the node listens and the role begins -> requests -> _retire -> _leave ->
 * the models are closed -> _free. All are no-ops without a role. Implemented in serve_role.c. */
#ifndef TT_CMD_SERVE_ROLE_H
#define TT_CMD_SERVE_ROLE_H

#include "cmd/serve_scale.h"
#include "control/control.h"
#include "fleet/cluster_tls.h"

struct tt_limits;
struct tt_log;
struct tt_serve_role;

enum tt_serve_role_name { TT_SERVE_ALONE, TT_SERVE_FRONTEND, TT_SERVE_SCHEDULER, TT_SERVE_BACKEND };

/* Between a frontend and a backend of one host (fleet/node_memory.h). */
enum tt_serve_memory { TT_SERVE_MEMORY_AUTO, TT_SERVE_MEMORY_OFF, TT_SERVE_MEMORY_REQUIRED };

/* In its place, also between hosts (fleet/remote_memory.h). */
enum tt_serve_ucx { TT_SERVE_UCX_OFF, TT_SERVE_UCX_ON, TT_SERVE_UCX_EMULATED };

struct tt_serve_role_flags {
    int32_t role;   /* enum tt_serve_role_name */
    int32_t memory; /* enum tt_serve_memory */
    int32_t ucx;    /* enum tt_serve_ucx */
    const char *cluster, *node, *key;
    struct tt_cluster_tls_files tls;
    bool emulated;
    struct tt_serve_scale_flags scale; /* of a scheduler */
};

/* INVALID: the flags do not go together. */
TT_MUST_CHECK enum tt_err tt_serve_role_check(const struct tt_serve_role_flags *flags,
                                              const struct tt_control_options *control,
                                              struct tt_error *why);
/* *out_role: NULL without a role. Errors: those of the description (fleet/fleet_node.h). */
TT_MUST_CHECK enum tt_err tt_serve_role_new(const struct tt_serve_role_flags *flags,
                                            struct tt_control_options *control,
                                            struct tt_limits *limits,
                                            struct tt_serve_role **out_role, struct tt_error *why);
/* Errors: those of the node. */
TT_MUST_CHECK enum tt_err tt_serve_role_join(struct tt_serve_role *self, struct tt_serving *serving,
                                             struct tt_log *log, struct tt_error *why);
/* Where clients are answered; `tutti cluster` shows it. */
void tt_serve_role_listens(struct tt_serve_role *self, const char *host, int32_t tcp_port);
/* Appends the node's metrics to a page; `role` is a struct tt_serve_role. From _join to _leave. */
void tt_serve_role_metrics(const void *role, struct tt_text *page);
/* A signal to stop came; the time of --drain-ms begins. For signal handlers. */
void tt_serve_role_retire(struct tt_serve_role *self);
void tt_serve_role_leave(struct tt_serve_role *self);
void tt_serve_role_free(struct tt_serve_role *take_self); /* NULL-safe */

#endif
