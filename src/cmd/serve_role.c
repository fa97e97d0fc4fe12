#include "cmd/serve_role.h"

#include "fleet/fleet_roles.h"
#include "net/ucx/ucx_library.h"
#include "policy/policy.h"
#include "serve/limits.h"

#include <stdlib.h>

/* Requests that a frontend has in the cluster at once are tasks of so many executors; a request
 * beyond them waits in the frontend. */
enum { FRONTEND_EXECUTORS = 1024, FRONTEND_DEPTH = 1, REQUEST_LIMIT = 4096, QUEUE = 1 << 14 };

struct tt_serve_role {
    struct tt_serve_role_flags flags;
    struct tt_serving_policy policy;
    struct tt_option option;
    struct tt_remote_engine *remote; /* NULL: a backend */
    struct tt_command_inbox commands;
    struct tt_ucx_library ucx; /* loaded, if the flags ask for it */
    struct tt_serve_scale scale;
    int32_t scheduler_threads, learn_percent; /* of the cluster's policy */
    struct tt_fleet_node *node;
};

static enum tt_cluster_role role_of(const struct tt_serve_role_flags *flags) {
    return flags->role == TT_SERVE_FRONTEND    ? TT_ROLE_FRONTEND
           : flags->role == TT_SERVE_SCHEDULER ? TT_ROLE_SCHEDULER
                                               : TT_ROLE_BACKEND;
}

static enum tt_memory_use memory_use_of(const struct tt_serve_role_flags *flags) {
    return flags->memory == TT_SERVE_MEMORY_OFF        ? TT_MEMORY_OFF
           : flags->memory == TT_SERVE_MEMORY_REQUIRED ? TT_MEMORY_REQUIRED
                                                       : TT_MEMORY_AUTO;
}

enum tt_err tt_serve_role_check(const struct tt_serve_role_flags *flags,
                                const struct tt_control_options *control, struct tt_error *why) {
    bool has_role = flags->role != TT_SERVE_ALONE;
    if (has_role && (!flags->cluster || !flags->node))
        return tt_fail(TT_ERR_INVALID, why, "--role needs --cluster SPEC and --node NAME");
    bool has_tls = flags->tls.certificate || flags->tls.key || flags->tls.ca ||
                   flags->tls.etcd.ca || flags->tls.etcd.certificate || flags->tls.etcd.key;
    if (!has_role && (has_tls || flags->cluster || flags->node || flags->key || flags->emulated ||
                      flags->memory != TT_SERVE_MEMORY_AUTO || flags->ucx != TT_SERVE_UCX_OFF))
        return tt_fail(TT_ERR_INVALID, why,
                       "--cluster, --node, the other --cluster-... flags, --etcd-... and "
                       "--emulated need --role");
    if (flags->ucx != TT_SERVE_UCX_OFF && flags->memory == TT_SERVE_MEMORY_OFF)
        return tt_fail(TT_ERR_INVALID, why,
                       "--cluster-ucx and --cluster-memory off exclude each other: UCX shares "
                       "memory");
    if (control->scheduler_threads > 0 && has_role && flags->role != TT_SERVE_SCHEDULER)
        return tt_fail(TT_ERR_INVALID, why,
                       "--scheduler-threads needs --role scheduler, or no role: a frontend and a "
                       "backend do not schedule");
    if (flags->emulated && flags->role != TT_SERVE_BACKEND)
        return tt_fail(TT_ERR_INVALID, why, "--emulated needs --role backend");
    enum tt_err err = tt_serve_scale_check(&flags->scale, flags->role == TT_SERVE_SCHEDULER, why);
    if (err)
        return err;
    if (has_role && (control->mode == TT_CONTROL_POLL || control->load_count > 0))
        return tt_fail(TT_ERR_INVALID, why,
                       "--role needs --model-control-mode none, or explicit without --load-model: "
                       "the nodes of a cluster load all models when they start");
    return TT_OK;
}

/* What the loader does with every model. */
static void set_loader(struct tt_serve_role *self, const struct tt_cluster_place *place,
                       struct tt_control_options *control, struct tt_limits *limits) {
    static const char *const all[] = {"*"};
    bool is_backend = self->flags.role == TT_SERVE_BACKEND;
    control->load = all; /* the nodes agree upon what the repository has */
    control->load_count = 1;
    control->forward = tt_command_inbox_put;
    control->forward_context = &self->commands;
    /* Whole batches come to a backend, so nothing waits there for company. Policies that compose
     * decide what runs within those batches. */
    self->option = (struct tt_option){.key = "max_delay", .value = "0"};
    self->policy = is_backend
                       ? (struct tt_serving_policy){.name = "window",
                                                    .options = &self->option,
                                                    .option_count = 1}
                       : (struct tt_serving_policy){.name = "serial", .depth = FRONTEND_DEPTH};
    control->loader.policy = &self->policy;
    control->loader.keeps_composing = is_backend;
    control->loader.needs_composing = place->grants > 1;
    self->scheduler_threads = control->scheduler_threads;
    control->scheduler_threads = 0; /* the cluster's policy has them, not this process's */
    /* Only the cluster's policy decides by run times. */
    self->learn_percent = (int32_t)limits->learn_percent;
    limits->learn_percent = 0;
    control->loader.executors = is_backend ? place->devices * place->executors
                                : self->flags.role == TT_SERVE_FRONTEND ? FRONTEND_EXECUTORS
                                                                        : 1;
    if (!is_backend) {
        control->loader.engine = &tt_remote_engine_kind;
        control->loader.engine_context = self->remote;
    } else if (self->flags.emulated) {
        control->loader.engine = tt_engine_kind_emulating();
    }
}

enum tt_err tt_serve_role_new(const struct tt_serve_role_flags *flags,
                              struct tt_control_options *control, struct tt_limits *limits,
                              struct tt_serve_role **out_role, struct tt_error *why) {
    *out_role = NULL;
    if (flags->role == TT_SERVE_ALONE)
        return TT_OK;
    struct tt_cluster_file file;
    struct tt_cluster_key key;
    uint16_t number;
    enum tt_err err = tt_fleet_describe(flags->cluster, &flags->tls.etcd, flags->node, flags->key,
                                        &file, &key, &number, why);
    if (err)
        return err;
    const struct tt_cluster_place place = file.places[number];
    enum tt_cluster_role stated = place.role;
    tt_cluster_file_fini(&file);
    if (stated != role_of(flags))
        return tt_fail(TT_ERR_INVALID, why, "node %s is a %s in %s, and --role says %s",
                       flags->node, tt_cluster_role_name(stated), flags->cluster,
                       tt_cluster_role_name(role_of(flags)));
    struct tt_serve_role *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    self->flags = *flags;
    if (flags->ucx != TT_SERVE_UCX_OFF && flags->role != TT_SERVE_SCHEDULER)
        err = tt_ucx_library_load(NULL, &self->ucx, why);
    if (err) {
        free(self);
        return err;
    }
    tt_command_inbox_init(&self->commands);
    if (flags->role != TT_SERVE_BACKEND) {
        self->remote = tt_remote_engine_new(QUEUE);
        if (!self->remote) {
            free(self);
            return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
        }
    }
    const struct tt_serve_scale_context context = {.cluster = flags->cluster,
                                                   .key = flags->key,
                                                   .tls = &self->flags.tls,
                                                   .repositories = control->repositories,
                                                   .repository_count = control->repository_count,
                                                   .is_explicit =
                                                       control->mode == TT_CONTROL_EXPLICIT};
    err = tt_serve_scale_open(&self->scale, &flags->scale, &context, why);
    if (err) {
        tt_serve_role_free(self);
        return err;
    }
    set_loader(self, &place, control, limits);
    *out_role = self;
    return TT_OK;
}

enum tt_err tt_serve_role_join(struct tt_serve_role *self, struct tt_serving *serving,
                               struct tt_log *log, struct tt_error *why) {
    if (!self)
        return TT_OK;
    const struct tt_fleet_options options = {
        .cluster = self->flags.cluster,
        .node = self->flags.node,
        .key = self->flags.key,
        .tls = self->flags.tls,
        .role = role_of(&self->flags),
        .steps = tt_fleet_role_of(role_of(&self->flags)),
        .version = TUTTI_VERSION,
        .request_limit = REQUEST_LIMIT,
        .memory_use = memory_use_of(&self->flags),
        .ucx = self->ucx.major ? &self->ucx : NULL,
        .accepts_emulated = self->flags.ucx == TT_SERVE_UCX_EMULATED,
        .scaling = self->scale.has_provider ? &self->scale.options : NULL,
        .scheduler_threads = self->scheduler_threads,
        .learn_percent = self->learn_percent,
        .serving = serving,
        .remote = self->remote,
        .commands = &self->commands,
        .log = log};
    enum tt_err err = tt_fleet_node_open(&options, &self->node, why);
    return err ? err : tt_fleet_node_start(self->node, why);
}

void tt_serve_role_listens(struct tt_serve_role *self, const char *host, int32_t tcp_port) {
    if (self)
        tt_fleet_node_show_address(self->node, host, tcp_port);
}

void tt_serve_role_retire(struct tt_serve_role *self) {
    if (self)
        tt_fleet_node_retire(self->node);
}

void tt_serve_role_metrics(const void *role, struct tt_text *page) {
    const struct tt_serve_role *self = role;
    tt_fleet_node_metrics(self->node, page);
}

void tt_serve_role_leave(struct tt_serve_role *self) {
    if (!self)
        return;
    tt_fleet_node_close(self->node);
    self->node = NULL;
}

void tt_serve_role_free(struct tt_serve_role *take_self) {
    if (!take_self)
        return;
    tt_remote_engine_free(take_self->remote);
    tt_command_inbox_fini(&take_self->commands);
    tt_serve_scale_close(&take_self->scale);
    free(take_self);
}
