#include "lab/autoscale/process_fleet.h"

#include "base/clock.h"
#include "base/instant.h"
#include "lab/scenario/allocate.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static const int64_t end_ns = 30 * TT_S;

/* ---- starting ---- */

static enum tt_err start_all(struct tt_process_fleet *self,
                             const struct tt_process_fleet_options *options, struct tt_error *why) {
    char folder[TT_PROCESS_PATH_BYTES], hold[32], limits[64];
    snprintf(hold, sizeof(hold), "%.3f", options->hold_s);
    snprintf(limits, sizeof(limits), "default=1:%d", options->devices);
    const char *const scaling[] = {"--scale-emulated",
                                   tt_process_path(&self->cluster, "backends", folder),
                                   "--scale-hold-s",
                                   hold,
                                   "--scale-limits",
                                   limits,
                                   "--scale-retry-s",
                                   "1",
                                   NULL};
    const char *const none[] = {NULL};
    struct tt_process_cluster *cluster = &self->cluster;
    enum tt_err err = tt_process_cluster_start(cluster, TT_PROCESS_SCHEDULER, scaling, why);
    for (int32_t i = 0; !err && i < TT_PROCESS_FRONTENDS; i++)
        err = tt_process_cluster_start(cluster, TT_PROCESS_FIRST_FRONTEND + i, none, why);
    return err;
}

/* ---- looking ---- */

static int32_t number_of(const json_t *object, const char *key) {
    return (int32_t)json_integer_value(json_object_get(object, key));
}

enum tt_err tt_process_fleet_look(struct tt_process_fleet *self, struct tt_process_view *out_view,
                                  struct tt_error *why) {
    json_t *status;
    enum tt_err err = tt_process_cluster_check(&self->cluster, why);
    if (!err)
        err = tt_process_cluster_ask(&self->cluster, TT_PROCESS_SCHEDULER, "status", &status, why);
    if (err)
        return err;
    const json_t *pool = json_array_get(json_object_get(status, "scaling"), 0);
    *out_view = (struct tt_process_view){
        .ready = number_of(pool, "ready"),
        .asked = number_of(pool, "asked"),
        .wanted = number_of(pool, "wanted"),
        .busy = number_of(status, "busy"),
        .confidence = json_number_value(json_object_get(status, "confidence")),
        .granted = json_integer_value(json_object_get(status, "granted")),
        .suspected = json_integer_value(json_object_get(status, "suspected")),
        .start_up_s = json_number_value(json_object_get(pool, "start_up_s"))};
    json_decref(status);
    return TT_OK;
}

static enum tt_err command(struct tt_process_fleet *self, const char *line, struct tt_error *why) {
    json_t *answer;
    enum tt_err err =
        tt_process_cluster_ask(&self->cluster, TT_PROCESS_SCHEDULER, line, &answer, why);
    if (!err)
        json_decref(answer);
    return err;
}

/* Pinned devices come at once; the advice would begin with one backend. */
static bool is_ready(void *context) {
    struct tt_process_fleet *self = context;
    struct tt_process_view view;
    struct tt_error ignored;
    char line[64];
    snprintf(line, sizeof(line), "scale pin\tdefault\t%d", self->options->first);
    if (!self->is_pinned)
        self->is_pinned = !command(self, line, &ignored);
    return self->is_pinned && !tt_process_fleet_look(self, &view, &ignored) &&
           view.ready >= self->options->first && tt_process_cluster_serves(&self->cluster);
}

static enum tt_err await(struct tt_process_fleet *self, struct tt_error *why) {
    char what[64];
    snprintf(what, sizeof(what), "%d devices do not serve", self->options->first);
    const struct tt_process_wait wait = {
        .is_over = is_ready, .context = self, .what = what, .stop = self->options->stop};
    enum tt_err err = tt_process_cluster_await(&self->cluster, &wait, why);
    return err ? err : command(self, "scale resume\tdefault", why);
}

/* ---- life ---- */

static enum tt_err write_files(struct tt_process_fleet *self, struct tt_error *why) {
    const struct tt_process_fleet_options *options = self->options;
    struct tt_process_model *models = tt_allocate((size_t)options->model_count, sizeof(*models));
    for (int32_t m = 0; m < options->model_count; m++)
        models[m] = (struct tt_process_model){.name = options->models[m].name,
                                              .profile = options->models[m].profile,
                                              .max_batch = options->models[m].max_batch,
                                              .slo_ns = options->models[m].slo_ns};
    const struct tt_process_cluster_options cluster = {.models = models,
                                                       .model_count = options->model_count,
                                                       .frontends = TT_PROCESS_FRONTENDS,
                                                       .backends = options->backends,
                                                       .devices = options->devices,
                                                       .slower = options->slower};
    enum tt_err err = tt_process_cluster_init(&self->cluster, &cluster, why);
    free(models);
    return err;
}

enum tt_err tt_process_fleet_open(struct tt_process_fleet *self,
                                  const struct tt_process_fleet_options *options,
                                  struct tt_error *why) {
    tt_assert(options->devices % options->backends == 0);
    *self = (struct tt_process_fleet){.options = options};
    enum tt_err err = write_files(self, why);
    if (!err)
        err = start_all(self, options, why);
    if (!err)
        err = await(self, why);
    self->options = NULL;
    struct tt_error ignored;
    if (err && tt_process_fleet_close(self, &ignored))
        return tt_fail_in(err, why, "%s", ignored.text);
    return err;
}

static enum tt_err always(void *context, struct tt_error *why) {
    (void)context;
    (void)why;
    return TT_OK;
}

/* The scheduler has ended; its backends end by the same means by which it ends them. */
static enum tt_err end_backends(const struct tt_process_fleet *self, struct tt_error *why) {
    char folder[TT_PROCESS_PATH_BYTES];
    const char *names[TT_PROCESS_BACKENDS];
    const char *const args[] = {"tutti", NULL}; /* it starts nothing */
    const struct tt_emulated_options options = {
        .folder = tt_process_path(&self->cluster, "backends", folder),
        .args = args,
        .program = "/proc/self/exe"};
    struct tt_scale_provider provider;
    enum tt_err err = tt_emulated_provider_open(&options, &provider, why);
    if (err)
        return err;
    const struct tt_process_cluster *cluster = &self->cluster;
    int32_t first = TT_PROCESS_FIRST_FRONTEND + cluster->frontends;
    for (int32_t i = 0; i < cluster->backends; i++)
        names[i] = cluster->file.places[first + i].name;
    const struct tt_scale_request request = {.pool = "default",
                                             .names = names,
                                             .node_count = cluster->backends,
                                             .epoch = UINT64_MAX,
                                             .confirm = always};
    int64_t until_at = tt_instant_add(tt_clock_now(), end_ns);
    int32_t found = 0;
    do {
        err = provider.scale(provider.self, &request, &found, why);
        if (!err || err == TT_ERR_UNAVAILABLE)
            err = provider.look(provider.self, &request, &found, why);
        if (!err && found > 0)
            tt_process_pause();
    } while (!err && found > 0 && tt_clock_now() < until_at);
    provider.close(provider.self);
    if (!err && found > 0)
        err = tt_fail(TT_ERR_TIMEOUT, why,
                      "backends do not end within %lld s of SIGTERM; %s/*.lock have their numbers",
                      (long long)(end_ns / TT_S), folder);
    return err;
}

enum tt_err tt_process_fleet_close(struct tt_process_fleet *self, struct tt_error *why) {
    enum tt_err err = TT_OK;
    (void)tt_process_cluster_end(&self->cluster);
    if (self->cluster.file.count > 0)
        err = end_backends(self, why);
    if (err)
        self->cluster.folder[0] = '\0'; /* it has the numbers of the processes */
    tt_process_cluster_fini(&self->cluster);
    return err;
}
