#include "lab/autoscale/process_fleet.h"

#include "base/clock.h"
#include "base/spawn.h"
#include "lab/scenario/allocate.h"
#include "profile/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SCHEDULER, FIRST_FRONTEND, LOG_BYTES = 1 << 20, SAID_BYTES = 300 };

static const int64_t visit_ns = 5 * TT_S, start_ns = 120 * TT_S, end_ns = 30 * TT_S;
static const int64_t wait_ns = 50 * TT_MS;

static void wait_a_little(void) {
    const struct timespec time = {.tv_nsec = wait_ns};
    nanosleep(&time, NULL);
}

/* ---- processes ---- */

static enum tt_err start(struct tt_process_fleet *self, const char *node, const char *role,
                         const char *const *more, struct tt_error *why) {
    enum { WORDS = 32 };
    char nodes[TT_PROCESS_PATH_BYTES], models[TT_PROCESS_PATH_BYTES], log[TT_PROCESS_PATH_BYTES];
    char name[TT_CLUSTER_NAME_BYTES + 8], spec[TT_PROCESS_PATH_BYTES + 8];
    snprintf(spec, sizeof(spec), "static:%s", tt_process_path(self, "nodes", nodes));
    snprintf(name, sizeof(name), "%s.log", node);
    const char *words[WORDS] = {"tutti",
                                "serve",
                                "--role",
                                role,
                                "--node",
                                node,
                                "--cluster",
                                spec,
                                "--model-repository",
                                tt_process_path(self, "models", models),
                                "--http-port",
                                "0",
                                "--grpc-port",
                                "0"};
    int32_t count = 14;
    while (*more && count < WORDS - 1)
        words[count++] = *more++;
    int fd =
        open(tt_process_path(self, name, log), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return tt_fail(TT_ERR_IO, why, "%s: %s", log, strerror(errno));
    const int files[] = {TT_SPAWN_NULL, fd, fd};
    int error = tt_spawn("/proc/self/exe", words, files, TT_COUNT(files),
                         &self->children[self->child_count]);
    close(fd);
    if (error)
        return tt_fail(TT_ERR_IO, why, "node %s cannot be started: %s", node, strerror(error));
    self->child_count++;
    return TT_OK;
}

/* The last lines of its log. */
static enum tt_err has_ended(const struct tt_process_fleet *self, int32_t child,
                             struct tt_error *why) {
    char name[TT_CLUSTER_NAME_BYTES + 8], path[TT_PROCESS_PATH_BYTES];
    struct tt_text log;
    struct tt_error ignored;
    snprintf(name, sizeof(name), "%s.log", self->file.places[child].name);
    enum tt_err err =
        tt_text_read_file(tt_process_path(self, name, path), LOG_BYTES, &log, &ignored);
    const char *text = err ? "" : tt_text_string(&log);
    size_t length = strlen(text);
    text += length > SAID_BYTES ? length - SAID_BYTES : 0;
    tt_fail(TT_ERR_UNAVAILABLE, why, "node %s has ended; it said: %s",
            self->file.places[child].name, text);
    if (!err)
        tt_text_fini(&log);
    return TT_ERR_UNAVAILABLE;
}

static enum tt_err check_children(struct tt_process_fleet *self, struct tt_error *why) {
    for (int32_t i = 0; i < self->child_count; i++)
        if (self->children[i] > 0 && waitpid(self->children[i], NULL, WNOHANG) != 0) {
            self->children[i] = 0;
            return has_ended(self, i, why);
        }
    return TT_OK;
}

static enum tt_err start_all(struct tt_process_fleet *self,
                             const struct tt_process_fleet_options *options, struct tt_error *why) {
    char folder[TT_PROCESS_PATH_BYTES], hold[32], limits[64];
    snprintf(hold, sizeof(hold), "%.3f", options->hold_s);
    snprintf(limits, sizeof(limits), "default=1:%d", options->devices);
    const char *const scaling[] = {"--scale-emulated",
                                   tt_process_path(self, "backends", folder),
                                   "--scale-hold-s",
                                   hold,
                                   "--scale-limits",
                                   limits,
                                   "--scale-retry-s",
                                   "1",
                                   NULL};
    const char *const none[] = {NULL};
    enum tt_err err = start(self, "s1", "scheduler", scaling, why);
    for (int32_t i = 1; !err && i <= TT_PROCESS_FRONTENDS; i++)
        err = start(self, self->file.places[i].name, "frontend", none, why);
    return err;
}

/* ---- visits ---- */

/* *out_json: a new reference. */
static enum tt_err ask(const struct tt_process_fleet *self, int32_t node, const char *line,
                       json_t **out_json, struct tt_error *why) {
    static const char error[] = "error: ";
    const struct tt_visit visit = {.file = &self->file,
                                   .number = (uint16_t)node,
                                   .key = &self->key,
                                   .tls = &self->tls,
                                   .release = tt_release_parse(TUTTI_VERSION),
                                   .timeout_ns = visit_ns};
    struct tt_text text;
    json_error_t ignored;
    tt_text_init(&text);
    enum tt_err err = tt_visit(&visit, line, &text, why);
    const char *said = tt_text_string(&text);
    if (!err && strncmp(said, error, sizeof(error) - 1) == 0)
        err = tt_fail(TT_ERR_UNAVAILABLE, why, "node %s: %s", self->file.places[node].name,
                      said + sizeof(error) - 1);
    *out_json = err ? NULL : json_loads(said, 0, &ignored);
    if (!err && !*out_json)
        err = tt_fail(TT_ERR_INVALID, why, "node %s does not answer in JSON",
                      self->file.places[node].name);
    tt_text_fini(&text);
    return err;
}

static int32_t number_of(const json_t *object, const char *key) {
    return (int32_t)json_integer_value(json_object_get(object, key));
}

enum tt_err tt_process_fleet_look(struct tt_process_fleet *self, struct tt_process_view *out_view,
                                  struct tt_error *why) {
    json_t *status;
    enum tt_err err = check_children(self, why);
    if (!err)
        err = ask(self, SCHEDULER, "status", &status, why);
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

/* False: it does not serve yet. */
static bool find_url(struct tt_process_fleet *self, int32_t frontend) {
    json_t *status;
    struct tt_error ignored;
    if (self->urls[frontend])
        return true;
    if (ask(self, FIRST_FRONTEND + frontend, "status", &status, &ignored))
        return false;
    const char *state = json_string_value(json_object_get(status, "state"));
    const char *url = json_string_value(json_object_get(status, "http"));
    if (state && strcmp(state, "READY") == 0 && url && *url)
        self->urls[frontend] = tt_copy_text(url);
    json_decref(status);
    return self->urls[frontend] != NULL;
}

static bool are_ready(struct tt_process_fleet *self, int32_t devices) {
    struct tt_process_view view;
    struct tt_error ignored;
    if (tt_process_fleet_look(self, &view, &ignored) || view.ready < devices)
        return false;
    for (int32_t i = 0; i < TT_PROCESS_FRONTENDS; i++)
        if (!find_url(self, i))
            return false;
    return true;
}

static enum tt_err command(struct tt_process_fleet *self, const char *line, struct tt_error *why) {
    json_t *answer;
    enum tt_err err = ask(self, SCHEDULER, line, &answer, why);
    if (!err)
        json_decref(answer);
    return err;
}

/* Pinned devices come at once; the advice would begin with one backend. */
static enum tt_err await(struct tt_process_fleet *self,
                         const struct tt_process_fleet_options *options, struct tt_error *why) {
    char line[64];
    bool is_pinned = false;
    int64_t until_at = tt_instant_add(tt_clock_now(), start_ns);
    snprintf(line, sizeof(line), "scale pin\tdefault\t%d", options->first);
    while (!is_pinned || !are_ready(self, options->first)) {
        struct tt_error ignored;
        enum tt_err err = check_children(self, why);
        if (err)
            return err;
        if (options->stop && *options->stop)
            return tt_fail(TT_ERR_CANCELLED, why, "interrupted while processes start");
        if (tt_clock_now() > until_at)
            return tt_fail(TT_ERR_TIMEOUT, why, "%d devices do not serve within %lld s",
                           options->first, (long long)(start_ns / TT_S));
        if (!is_pinned)
            is_pinned = !command(self, line, &ignored);
        wait_a_little();
    }
    return command(self, "scale resume\tdefault", why);
}

/* ---- life ---- */

enum tt_err tt_process_fleet_open(struct tt_process_fleet *self,
                                  const struct tt_process_fleet_options *options,
                                  struct tt_error *why) {
    tt_assert(options->backends >= 1 && options->backends <= TT_PROCESS_MOST_BACKENDS);
    tt_assert(options->devices % options->backends == 0);
    *self = (struct tt_process_fleet){.backends = options->backends};
    enum tt_err err = tt_process_files_write(self, options, why);
    if (!err)
        err = start_all(self, options, why);
    if (!err)
        err = await(self, options, why);
    struct tt_error ignored;
    if (err && tt_process_fleet_close(self, &ignored))
        return tt_fail_in(err, why, "%s", ignored.text);
    return err;
}

static void end_children(struct tt_process_fleet *self) {
    int64_t until_at = tt_instant_add(tt_clock_now(), end_ns);
    for (int32_t i = 0; i < self->child_count; i++)
        if (self->children[i] > 0)
            kill(self->children[i], SIGTERM);
    for (int32_t i = 0; i < self->child_count; i++) {
        bool has_ended = self->children[i] <= 0;
        while (!has_ended && tt_clock_now() < until_at) {
            has_ended = waitpid(self->children[i], NULL, WNOHANG) != 0;
            if (!has_ended)
                wait_a_little();
        }
        if (!has_ended) {
            kill(self->children[i], SIGKILL);
            waitpid(self->children[i], NULL, 0);
        }
        self->children[i] = 0;
    }
}

static enum tt_err always(void *context, struct tt_error *why) {
    (void)context;
    (void)why;
    return TT_OK;
}

/* The scheduler has ended; its backends end by the same means by which it ends them. */
static enum tt_err end_backends(const struct tt_process_fleet *self, struct tt_error *why) {
    char folder[TT_PROCESS_PATH_BYTES];
    const char *names[TT_PROCESS_MOST_BACKENDS];
    const char *const args[] = {"tutti", NULL}; /* it starts nothing */
    const struct tt_emulated_options options = {.folder = tt_process_path(self, "backends", folder),
                                                .args = args,
                                                .program = "/proc/self/exe"};
    struct tt_scale_provider provider;
    enum tt_err err = tt_emulated_provider_open(&options, &provider, why);
    if (err)
        return err;
    for (int32_t i = 0; i < self->backends; i++)
        names[i] = self->file.places[FIRST_FRONTEND + TT_PROCESS_FRONTENDS + i].name;
    const struct tt_scale_request request = {.pool = "default",
                                             .names = names,
                                             .node_count = self->backends,
                                             .epoch = UINT64_MAX,
                                             .confirm = always};
    int64_t until_at = tt_instant_add(tt_clock_now(), end_ns);
    int32_t found = 0;
    do {
        err = provider.scale(provider.self, &request, &found, why);
        if (!err || err == TT_ERR_UNAVAILABLE)
            err = provider.look(provider.self, &request, &found, why);
        if (!err && found > 0)
            wait_a_little();
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
    end_children(self);
    if (self->file.count > 0)
        err = end_backends(self, why);
    for (int32_t i = 0; i < self->reserved_count; i++)
        close(self->reserved[i]);
    for (int32_t i = 0; i < TT_PROCESS_FRONTENDS; i++)
        free(self->urls[i]);
    tt_cluster_file_fini(&self->file);
    if (!err && self->folder[0])
        tt_machine_remove(self->folder);
    *self = (struct tt_process_fleet){.backends = 0};
    return err;
}
