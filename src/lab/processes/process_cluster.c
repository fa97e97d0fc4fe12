#include "lab/processes/process_cluster.h"

#include "base/clock.h"
#include "base/instant.h"
#include "base/spawn.h"
#include "lab/scenario/allocate.h"
#include "profile/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    LOG_BYTES = 1 << 20,
    SAID_BYTES = 300,
    LOG_NAME_BYTES = TT_CLUSTER_NAME_BYTES + 8,
    SPARE_FILES = 128 /* that are no connections */
};

static const int64_t visit_ns = 5 * TT_S, start_ns = 120 * TT_S, end_ns = 30 * TT_S;
static const int64_t pause_ns = 50 * TT_MS;

const char *tt_process_path(const struct tt_process_cluster *self, const char *name,
                            char out[TT_PROCESS_PATH_BYTES]) {
    int length = snprintf(out, TT_PROCESS_PATH_BYTES, "%s/%s", self->folder, name);
    tt_assert(length < TT_PROCESS_PATH_BYTES); /* the folder's name is short */
    return out;
}

void tt_process_pause(void) {
    const struct timespec time = {.tv_nsec = pause_ns};
    nanosleep(&time, NULL);
}

/* ---- processes ---- */

static const char *log_path(const struct tt_process_cluster *self, int32_t node,
                            char out[TT_PROCESS_PATH_BYTES]) {
    char name[LOG_NAME_BYTES];
    snprintf(name, sizeof(name), "%s.log", self->file.places[node].name);
    return tt_process_path(self, name, out);
}

enum tt_err tt_process_cluster_start(struct tt_process_cluster *self, int32_t node,
                                     const char *const *more, struct tt_error *why) {
    enum { WORDS = 32 };
    const struct tt_cluster_place *place = &self->file.places[node];
    char nodes[TT_PROCESS_PATH_BYTES], models[TT_PROCESS_PATH_BYTES], log[TT_PROCESS_PATH_BYTES];
    char spec[TT_PROCESS_PATH_BYTES + 8];
    snprintf(spec, sizeof(spec), "static:%s", tt_process_path(self, "nodes", nodes));
    const char *words[WORDS] = {"tutti",
                                "serve",
                                "--role",
                                tt_cluster_role_name(place->role),
                                "--node",
                                place->name,
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
    tt_assert(!*more && self->children[node] == 0);
    int fd = open(log_path(self, node, log), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return tt_fail(TT_ERR_IO, why, "%s: %s", log, strerror(errno));
    const int files[] = {TT_SPAWN_NULL, fd, fd};
    int error = tt_spawn("/proc/self/exe", words, files, TT_COUNT(files), &self->children[node]);
    close(fd);
    if (!error)
        return TT_OK;
    self->children[node] = 0;
    return tt_fail(TT_ERR_IO, why, "node %s cannot be started: %s", place->name, strerror(error));
}

/* With the last lines of its log. */
static enum tt_err has_ended(const struct tt_process_cluster *self, int32_t node, int status,
                             struct tt_error *why) {
    char path[TT_PROCESS_PATH_BYTES], how[40];
    struct tt_text log;
    struct tt_error ignored;
    enum tt_err err = tt_text_read_file(log_path(self, node, path), LOG_BYTES, &log, &ignored);
    const char *text = err ? "" : tt_text_string(&log);
    size_t length = strlen(text);
    text += length > SAID_BYTES ? length - SAID_BYTES : 0;
    if (WIFSIGNALED(status))
        snprintf(how, sizeof(how), "by signal %d", WTERMSIG(status));
    else
        snprintf(how, sizeof(how), "with exit code %d", WEXITSTATUS(status));
    tt_fail(TT_ERR_UNAVAILABLE, why, "node %s has ended %s; it said: %s",
            self->file.places[node].name, how, text);
    if (!err)
        tt_text_fini(&log);
    return TT_ERR_UNAVAILABLE;
}

enum tt_err tt_process_cluster_check(struct tt_process_cluster *self, struct tt_error *why) {
    for (int32_t i = 0; i < TT_PROCESS_NODES; i++) {
        int status = 0;
        if (self->children[i] <= 0 || waitpid(self->children[i], &status, WNOHANG) == 0)
            continue;
        self->children[i] = 0;
        return has_ended(self, i, status, why);
    }
    return TT_OK;
}

/* ---- visits ---- */

enum tt_err tt_process_cluster_ask(const struct tt_process_cluster *self, int32_t node,
                                   const char *line, json_t **out_answer, struct tt_error *why) {
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
    *out_answer = err ? NULL : json_loads(said, 0, &ignored);
    if (!err && !*out_answer)
        err = tt_fail(TT_ERR_INVALID, why, "node %s does not answer in JSON",
                      self->file.places[node].name);
    tt_text_fini(&text);
    return err;
}

/* False: it does not serve yet. */
static bool find_url(struct tt_process_cluster *self, int32_t frontend) {
    json_t *status;
    struct tt_error ignored;
    if (self->urls[frontend])
        return true;
    if (tt_process_cluster_ask(self, TT_PROCESS_FIRST_FRONTEND + frontend, "status", &status,
                               &ignored))
        return false;
    const char *state = json_string_value(json_object_get(status, "state"));
    const char *url = json_string_value(json_object_get(status, "http"));
    if (state && strcmp(state, "READY") == 0 && url && *url)
        self->urls[frontend] = tt_copy_text(url);
    json_decref(status);
    return self->urls[frontend] != NULL;
}

bool tt_process_cluster_serves(struct tt_process_cluster *self) {
    for (int32_t i = 0; i < self->frontends; i++)
        if (!find_url(self, i))
            return false;
    return true;
}

enum tt_err tt_process_cluster_await(struct tt_process_cluster *self,
                                     const struct tt_process_wait *wait, struct tt_error *why) {
    int64_t until_at = tt_instant_add(tt_clock_now(), start_ns);
    while (!wait->is_over(wait->context)) {
        enum tt_err err = tt_process_cluster_check(self, why);
        if (err)
            return err;
        if (wait->stop && *wait->stop)
            return tt_fail(TT_ERR_CANCELLED, why, "interrupted while processes start");
        if (tt_clock_now() > until_at)
            return tt_fail(TT_ERR_TIMEOUT, why, "%s within %lld s", wait->what,
                           (long long)(start_ns / TT_S));
        tt_process_pause();
    }
    return TT_OK;
}

/* ---- life ---- */

enum tt_err tt_process_cluster_init(struct tt_process_cluster *self,
                                    const struct tt_process_cluster_options *options,
                                    struct tt_error *why) {
    tt_assert(options->backends >= 1 && options->backends <= TT_PROCESS_BACKENDS);
    tt_assert(options->frontends >= 1 && options->frontends <= TT_PROCESS_FRONTENDS);
    tt_assert(options->devices >= options->backends);
    *self =
        (struct tt_process_cluster){.frontends = options->frontends, .backends = options->backends};
    return tt_process_files_write(self, options, why);
}

/* True: it has ended, by itself. */
static bool await_end(pid_t child, int64_t until_at, int *out_status) {
    for (;;) {
        if (waitpid(child, out_status, WNOHANG) != 0)
            return true;
        if (tt_clock_now() >= until_at)
            return false;
        tt_process_pause();
    }
}

int32_t tt_process_connection_limit(int32_t frontends, int32_t wanted) {
    struct rlimit files;
    rlim_t all = (rlim_t)wanted * (rlim_t)frontends + SPARE_FILES;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return 1;
    rlim_t most = files.rlim_max < all ? files.rlim_max : all;
    if (files.rlim_cur < most) {
        files.rlim_cur = most;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    rlim_t each = most > SPARE_FILES ? (most - SPARE_FILES) / (rlim_t)frontends : 0;
    return each > 0 ? (int32_t)each : 1;
}

bool tt_process_cluster_end(struct tt_process_cluster *self) {
    bool is_orderly = true;
    int64_t until_at = tt_instant_add(tt_clock_now(), end_ns);
    for (int32_t i = 0; i < TT_PROCESS_NODES; i++)
        if (self->children[i] > 0)
            kill(self->children[i], SIGTERM);
    for (int32_t i = 0; i < TT_PROCESS_NODES; i++) {
        int status = 0;
        if (self->children[i] <= 0)
            continue;
        if (!await_end(self->children[i], until_at, &status)) {
            kill(self->children[i], SIGKILL);
            waitpid(self->children[i], &status, 0);
        }
        is_orderly = is_orderly && WIFEXITED(status) && WEXITSTATUS(status) == 0;
        self->children[i] = 0;
    }
    return is_orderly;
}

void tt_process_cluster_fini(struct tt_process_cluster *self) {
    for (int32_t i = 0; i < self->reserved_count; i++)
        close(self->reserved[i]);
    for (int32_t i = 0; i < TT_PROCESS_FRONTENDS; i++)
        free(self->urls[i]);
    tt_cluster_file_fini(&self->file);
    if (self->folder[0])
        tt_machine_remove(self->folder);
    *self = (struct tt_process_cluster){.frontends = 0};
}
