#include "control/load_trial.h"

#include "base/clock.h"
#include "base/instant.h"
#include "base/spawn.h"
#include "base/text.h"
#include "model/text/json_arena.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MAX_ARGS = 20,
    LOOK_MS = 100, /* between two looks at `stop` */
    MAX_REPORT_BYTES = 1 << 16
};

static enum tt_err failed_call(struct tt_error *why, const char *what, int error) {
    return tt_fail(TT_ERR_IO, why, "the trial load cannot %s: %s", what, strerror(error));
}

/* A descriptor to read the configuration from. */
static enum tt_err open_config(const char *config_json, int *out_fd, struct tt_error *why) {
    if (!config_json) {
        *out_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        return *out_fd < 0 ? failed_call(why, "open /dev/null", errno) : TT_OK;
    }
    int fd = memfd_create("tutti-config", MFD_CLOEXEC);
    size_t left = strlen(config_json);
    while (fd >= 0 && left > 0) {
        ssize_t count = write(fd, config_json, left);
        if (count < 0 && errno != EINTR)
            break;
        config_json += count > 0 ? count : 0;
        left -= count > 0 ? (size_t)count : 0;
    }
    if (fd < 0 || left > 0 || lseek(fd, 0, SEEK_SET) != 0) {
        enum tt_err err = failed_call(why, "pass on the configuration", errno);
        if (fd >= 0)
            close(fd);
        return err;
    }
    *out_fd = fd;
    return TT_OK;
}

/* Starts the program; `*out_fd` reads its report. */
static enum tt_err spawn(const struct tt_load_trial *self, const char *repository, const char *name,
                         const char *config_json, pid_t *out_child, int *out_fd,
                         struct tt_error *why) {
    char parent[32], bytes[32];
    snprintf(parent, sizeof(parent), "%ld", (long)getpid());
    snprintf(bytes, sizeof(bytes), "%lld", (long long)self->max_bytes);
    const char *args[MAX_ARGS] = {"tutti", "models",   "try",  repository,    "--model",
                                  name,    "--parent", parent, "--max-bytes", bytes};
    int count = 10, pipes[2], in = -1;
    if (config_json)
        args[count++] = "--config-stdin";
    if (self->strict_profile)
        args[count++] = "--strict-profile";
    if (self->measure_stale)
        args[count++] = "--measure-stale";
    if (self->strict_gpu)
        args[count++] = "--strict-gpu";
    if (self->onnxruntime) {
        args[count++] = "--onnxruntime";
        args[count++] = self->onnxruntime;
    }
    tt_assert(count < MAX_ARGS);
    enum tt_err err = open_config(config_json, &in, why);
    if (err)
        return err;
    if (pipe2(pipes, O_CLOEXEC) != 0) {
        err = failed_call(why, "make a pipe", errno);
        close(in);
        return err;
    }
    const int files[] = {in, pipes[1], TT_SPAWN_NULL}; /* what goes wrong is in the report */
    int error = tt_spawn(self->program, args, files, TT_COUNT(files), out_child);
    close(in);
    close(pipes[1]);
    if (error) {
        close(pipes[0]);
        return failed_call(why, "start a process", error);
    }
    *out_fd = pipes[0];
    return TT_OK;
}

/* Reads the report to its end. */
static enum tt_err watch(const struct tt_load_trial *self, int fd, struct tt_text *out_report,
                         struct tt_error *why) {
    int64_t until_at = tt_instant_add(tt_clock_now(), self->max_ms * 1000000);
    for (;;) {
        char bytes[4096];
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int count = poll(&ready, 1, LOOK_MS);
        if (self->stop && tt_flag_is_raised(self->stop))
            return tt_fail(TT_ERR_CANCELLED, why, "the server stops");
        if (tt_clock_now() >= until_at)
            return tt_fail(TT_ERR_INVALID, why,
                           "its trial load took longer than %lld ms and was ended (--max-load-ms)",
                           (long long)self->max_ms);
        ssize_t got = count > 0 ? read(fd, bytes, sizeof(bytes)) : -1;
        if (got == 0)
            return TT_OK;
        if (got > 0 && out_report->length < MAX_REPORT_BYTES)
            tt_text_append(out_report, bytes, (size_t)got);
    }
}

/* The outcome that the report states; false: it states none. Its last version goes to
 * `out_version`. */
static bool read_report(const struct tt_text *report, enum tt_err *out_err, char *out_version,
                        size_t capacity, struct tt_error *why) {
    bool is_complete = false;
    const char *line = tt_text_string(report);
    for (size_t length; *line; line += length + (line[length] == '\n')) {
        length = strcspn(line, "\n");
        struct tt_json_arena arena;
        struct tt_error ignored;
        json_t *entry;
        if (tt_json_arena_open(&arena, line, length, &entry, &ignored))
            continue;
        const char *version = json_string_value(json_object_get(entry, "version"));
        const char *reason = json_string_value(json_object_get(entry, "reason"));
        json_t *error = json_object_get(entry, "error");
        if (version)
            snprintf(out_version, capacity, "%s", version);
        if (json_is_integer(error)) {
            int number = (int)json_integer_value(error);
            is_complete = number <= TT_OK && number >= TT_ERR_INTERNAL;
            *out_err = is_complete ? (enum tt_err)number : TT_ERR_INTERNAL;
            if (*out_err)
                tt_fail(*out_err, why, "%s", reason ? reason : "");
        }
        tt_json_arena_close(&arena, entry);
    }
    return is_complete;
}

static enum tt_err judge(int status, const struct tt_text *report, char *out_version,
                         size_t capacity, struct tt_error *why) {
    enum tt_err err = TT_OK;
    bool is_complete = read_report(report, &err, out_version, capacity, why);
    if (WIFSIGNALED(status))
        return tt_fail(TT_ERR_INVALID, why,
                       "its trial load crashed: the process ended by signal %d (%s)",
                       WTERMSIG(status), strsignal(WTERMSIG(status)));
    if (is_complete)
        return err;
    return tt_fail(TT_ERR_INVALID, why, "its trial load ended with exit code %d and no report",
                   WEXITSTATUS(status));
}

enum tt_err tt_load_trial_run(const struct tt_load_trial *self, const char *repository,
                              const char *name, const char *config_json, char *out_version,
                              size_t capacity, struct tt_error *why) {
    pid_t child = 0;
    int fd = -1, status = 0;
    *out_version = '\0';
    enum tt_err err = spawn(self, repository, name, config_json, &child, &fd, why);
    if (err)
        return err;
    struct tt_text report;
    tt_text_init(&report);
    err = watch(self, fd, &report, why);
    close(fd);
    if (err)
        kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    struct tt_error late; /* what ended it counts, not how */
    if (err)
        (void)read_report(&report, &(enum tt_err){TT_OK}, out_version, capacity, &late);
    else
        err = judge(status, &report, out_version, capacity, why);
    tt_text_fini(&report);
    return err;
}
