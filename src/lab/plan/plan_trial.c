#include "lab/plan/plan_trial.h"

#include "base/clock.h"
#include "base/instant.h"
#include "client/http_fetch.h"
#include "client/metrics_page.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_ARGS = 64, LOG_BYTES = 1 << 20, ANSWER_BYTES = 16 << 20 };
#define START_NS (120 * TT_S) /* a server may measure its models first */
#define STOP_NS (15 * TT_S)
#define POLL_NS (10 * TT_MS)
#define FETCH_NS (5 * TT_S)

enum tt_err tt_plan_trial_open(struct tt_plan_trial *self, struct tt_error *why) {
    enum tt_err err = tt_trial_folder_open(&self->folder, why);
    if (err)
        return err;
    snprintf(self->log, sizeof(self->log), "%s/.server.log", self->folder.path);
    snprintf(self->recording, sizeof(self->recording), "%s/.recording", self->folder.path);
    snprintf(self->temporary, sizeof(self->temporary), "%s/.temporary", self->folder.path);
    if (mkdir(self->temporary, 0700) != 0) {
        err = tt_fail(TT_ERR_IO, why, "%s: %s", self->temporary, strerror(errno));
        tt_trial_folder_close(&self->folder);
    }
    return err;
}

void tt_plan_trial_close(struct tt_plan_trial *self) {
    tt_plan_trial_stop(self);
    tt_trial_folder_close(&self->folder);
}

/* ---- the repository ---- */

static enum tt_err link_entry(const char *from, const char *to, struct tt_error *why) {
    char *real = realpath(from, NULL);
    int made = real ? symlink(real, to) : -1;
    free(real);
    return made == 0 ? TT_OK
                     : tt_fail(TT_ERR_IO, why, "%s: cannot link %s: %s", to, from, strerror(errno));
}

enum tt_err tt_plan_trial_add(struct tt_plan_trial *self, const struct tt_repository_model *model,
                              const char *profile, struct tt_error *why) {
    char to[4096], from[4096];
    snprintf(to, sizeof(to), "%s/%s", self->folder.path, model->name);
    DIR *directory = opendir(model->directory);
    if (!directory || mkdir(to, 0700) != 0) {
        enum tt_err err =
            tt_fail(TT_ERR_IO, why, "%s: cannot copy the model: %s", to, strerror(errno));
        if (directory)
            closedir(directory);
        return err;
    }
    enum tt_err err = TT_OK;
    struct dirent *entry;
    while (!err && (entry = readdir(directory))) {
        const char *name = entry->d_name;
        bool is_given = profile && strcmp(name, "profile.pbtxt") == 0;
        bool is_dots = strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
        if (is_dots || is_given || strcmp(name, "tutti.pbtxt") == 0)
            continue;
        snprintf(from, sizeof(from), "%s/%s", model->directory, name);
        snprintf(to, sizeof(to), "%s/%s/%s", self->folder.path, model->name, name);
        err = link_entry(from, to, why);
    }
    closedir(directory);
    snprintf(to, sizeof(to), "%s/%s/profile.pbtxt", self->folder.path, model->name);
    if (!err && profile)
        err = link_entry(profile, to, why);
    return err;
}

enum tt_err tt_plan_trial_set(struct tt_plan_trial *self, const char *model,
                              const struct tt_text *settings, struct tt_error *why) {
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s/tutti.pbtxt", self->folder.path, model);
    return tt_text_write_file(path, settings, why);
}

/* ---- children ---- */

/* Forks `tutti ARGS` with the given descriptors for its output and its errors. */
static pid_t spawn(const struct tt_plan_trial *self, const char *const *args, int out, int errors) {
    char *argv[MAX_ARGS] = {"tutti"};
    for (int i = 0; args[i]; i++) {
        tt_assert(i + 2 < MAX_ARGS);
        argv[i + 1] = (char *)args[i];
    }
    pid_t parent = getpid(), child = fork();
    if (child != 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    signal(SIGINT, SIG_IGN); /* a terminal's SIGINT is for the caller, which ends its children */
    setenv("TMPDIR", self->temporary, 1);
    dup2(out, STDOUT_FILENO);
    dup2(errors, STDERR_FILENO);
    execv("/proc/self/exe", argv);
    _exit(127);
}

/* The last line of the text that is not empty, without a log line's prefix. */
static void last_line(const struct tt_text *text, char *out, size_t capacity) {
    const char *at = text->length ? text->bytes : "", *end = at + text->length;
    while (end > at && (end[-1] == '\n' || end[-1] == ' '))
        end--;
    const char *start = end;
    while (start > at && start[-1] != '\n')
        start--;
    const char *bracket = memchr(start, ']', (size_t)(end - start));
    if (bracket && bracket + 2 < end && strchr("IWE", *start))
        start = bracket + 2;
    snprintf(out, capacity, "%.*s", (int)(end - start), start);
}

static enum tt_err read_all(struct tt_plan_trial *self, int fd, struct tt_text *out,
                            struct tt_error *why) {
    char bytes[4096];
    for (;;) {
        ssize_t got = read(fd, bytes, sizeof(bytes));
        if (got == 0)
            return out->failed ? tt_fail(TT_ERR_NO_MEMORY, why, "out of memory") : TT_OK;
        if (got > 0)
            tt_text_append(out, bytes, (size_t)got);
        else if (errno != EINTR)
            return tt_fail(TT_ERR_IO, why, "cannot read from a child: %s", strerror(errno));
        if (self->stop && *self->stop)
            return tt_fail(TT_ERR_CANCELLED, why, "interrupted");
        if (out->length > ANSWER_BYTES)
            return tt_fail(TT_ERR_INTERNAL, why, "a child printed too much");
    }
}

enum tt_err tt_plan_trial_run(struct tt_plan_trial *self, const char *const *args, int also_good,
                              bool shows_errors, struct tt_text *out_text, struct tt_error *why) {
    char path[640];
    snprintf(path, sizeof(path), "%s/.child.log", self->folder.path);
    int pipes[2], errors = shows_errors
                               ? dup(STDERR_FILENO)
                               : open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    if (errors < 0 || pipe2(pipes, O_CLOEXEC) != 0) {
        enum tt_err err = tt_fail(TT_ERR_IO, why, "cannot start a child: %s", strerror(errno));
        if (errors >= 0)
            close(errors);
        return err;
    }
    pid_t child = spawn(self, args, pipes[1], errors);
    close(pipes[1]);
    close(errors);
    enum tt_err err = child > 0 ? read_all(self, pipes[0], out_text, why)
                                : tt_fail(TT_ERR_IO, why, "cannot fork: %s", strerror(errno));
    close(pipes[0]);
    if (child <= 0)
        return err;
    int status = 0;
    if (err)
        kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    bool good = WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == also_good);
    if (err || good)
        return err;
    struct tt_text log;
    tt_text_init(&log);
    char line[600] = "";
    if (!shows_errors && tt_text_read_file(path, LOG_BYTES, &log, NULL) == TT_OK)
        last_line(&log, line, sizeof(line));
    tt_text_fini(&log);
    return tt_fail(TT_ERR_INVALID, why, "tutti %s failed%s%s", args[0], *line ? ": " : "", line);
}

/* ---- the server ---- */

/* TT_ERR_UNAVAILABLE: not yet. */
static enum tt_err look_at_log(struct tt_plan_trial *self) {
    static const char serving[] = " models at http://127.0.0.1:";
    struct tt_text log;
    tt_text_init(&log);
    enum tt_err err = tt_text_read_file(self->log, LOG_BYTES, &log, NULL);
    const char *at = err ? NULL : strstr(tt_text_string(&log), serving);
    self->port = at ? atoi(at + sizeof(serving) - 1) : 0;
    tt_text_fini(&log);
    return self->port > 0 ? TT_OK : TT_ERR_UNAVAILABLE;
}

static enum tt_err not_served(const struct tt_plan_trial *self, struct tt_error *why) {
    struct tt_text log;
    char line[600] = "it ended";
    tt_text_init(&log);
    if (tt_text_read_file(self->log, LOG_BYTES, &log, NULL) == TT_OK) {
        char *reason = log.bytes ? strstr(log.bytes, " does not serve: ") : NULL;
        if (reason) /* the message about the first model, to its end */
            log.length = (size_t)(reason - log.bytes) + strcspn(reason, "\n");
        last_line(&log, line, sizeof(line));
    }
    tt_text_fini(&log);
    return tt_fail(TT_ERR_INVALID, why, "the server does not start: %s", line);
}

static enum tt_err await(struct tt_plan_trial *self, struct tt_error *why) {
    for (int64_t until = tt_clock_now() + START_NS; tt_clock_now() < until;) {
        int status;
        if (look_at_log(self) == TT_OK)
            return TT_OK;
        if (self->stop && *self->stop)
            return tt_fail(TT_ERR_CANCELLED, why, "interrupted");
        if (waitpid(self->server, &status, WNOHANG) == self->server) {
            self->server = 0;
            return not_served(self, why);
        }
        struct timespec pause = {.tv_nsec = POLL_NS};
        nanosleep(&pause, NULL);
    }
    return tt_fail(TT_ERR_TIMEOUT, why, "the server does not start in %d s",
                   (int)(START_NS / TT_S));
}

enum tt_err tt_plan_trial_start(struct tt_plan_trial *self, int32_t executors, bool records,
                                struct tt_error *why) {
    char count[16];
    snprintf(count, sizeof(count), "%d", executors);
    const char *args[MAX_ARGS] = {"serve",
                                  "--model-repository",
                                  self->folder.path,
                                  "--http-port",
                                  "0",
                                  "--grpc-port",
                                  "0",
                                  "--executors",
                                  count,
                                  "--exit-on-error",
                                  "true"};
    int used = 11;
    if (self->onnxruntime) {
        args[used++] = "--onnxruntime";
        args[used++] = self->onnxruntime;
    }
    if (records) {
        args[used++] = "--record";
        args[used++] = self->recording;
    }
    int log = open(self->log, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    if (log < 0)
        return tt_fail(TT_ERR_IO, why, "%s: %s", self->log, strerror(errno));
    pid_t child = spawn(self, args, log, log);
    close(log);
    if (child < 0)
        return tt_fail(TT_ERR_IO, why, "cannot fork: %s", strerror(errno));
    self->server = child;
    enum tt_err err = await(self, why);
    if (err)
        tt_plan_trial_stop(self);
    return err;
}

void tt_plan_trial_stop(struct tt_plan_trial *self) {
    if (self->server <= 0)
        return;
    int status;
    kill(self->server, SIGTERM);
    int64_t until = tt_clock_now() + STOP_NS;
    pid_t ended;
    while ((ended = waitpid(self->server, &status, WNOHANG)) == 0 && tt_clock_now() < until) {
        struct timespec pause = {.tv_nsec = POLL_NS};
        nanosleep(&pause, NULL);
    }
    if (ended == 0) {
        kill(self->server, SIGKILL);
        (void)waitpid(self->server, &status, 0);
    }
    self->server = 0;
}

/* ---- figures of the server ---- */

/* The time on a processor in ns, and the time waiting for one; 0: unknown. */
static int64_t thread_ns(const char *folder, const char *thread, char *out_name, size_t capacity,
                         int64_t *out_waited_ns) {
    char path[640];
    long long ran_ns = 0, waited_ns = 0;
    out_name[0] = '\0';
    snprintf(path, sizeof(path), "%s/%s/comm", folder, thread);
    FILE *file = fopen(path, "re");
    if (file && !fgets(out_name, (int)capacity, file))
        out_name[0] = '\0';
    if (file)
        fclose(file);
    snprintf(path, sizeof(path), "%s/%s/schedstat", folder, thread);
    file = fopen(path, "re");
    if (file && fscanf(file, "%lld %lld", &ran_ns, &waited_ns) != 2)
        ran_ns = waited_ns = 0;
    if (file)
        fclose(file);
    *out_waited_ns = waited_ns;
    return ran_ns;
}

struct tt_plan_trial_cpu tt_plan_trial_cpu(const struct tt_plan_trial *self) {
    struct tt_plan_trial_cpu out = {0};
    char folder[64], name[64];
    snprintf(folder, sizeof(folder), "/proc/%d/task", (int)self->server);
    DIR *threads = opendir(folder);
    struct dirent *entry;
    while (threads && (entry = readdir(threads))) {
        if (entry->d_name[0] == '.')
            continue;
        int64_t waited_ns;
        int64_t ran_ns = thread_ns(folder, entry->d_name, name, sizeof(name), &waited_ns);
        out.waited_ns += waited_ns;
        if (atoi(entry->d_name) == self->server)
            out.main_ns += ran_ns;
        else if (strncmp(name, "tutti-exec", 10) == 0)
            out.executors_ns += ran_ns;
        else
            out.others_ns += ran_ns;
    }
    if (threads)
        closedir(threads);
    return out;
}

double tt_plan_trial_metric(const struct tt_plan_trial *self, const char *name) {
    struct tt_http_address address;
    struct tt_text page;
    char url[64];
    double sum = 0;
    snprintf(url, sizeof(url), "http://127.0.0.1:%d", self->port);
    if (tt_http_address_parse(url, 0, &address, NULL) != TT_OK ||
        tt_http_fetch(&address, "/metrics", NULL, FETCH_NS, &page, NULL) != TT_OK)
        return 0;
    struct tt_metrics_page reader;
    struct tt_metric metric;
    tt_metrics_page_init(&reader, page.bytes, page.length);
    while (tt_metrics_page_next(&reader, &metric))
        if (tt_metric_is(&metric, name))
            sum += metric.value;
    tt_text_fini(&page);
    return sum;
}
