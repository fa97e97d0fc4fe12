#include "lab/sweep/jobs.h"

#include "base/processors.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MAX_WORKERS = 64,
    LOOK_MS = 200 /* a signal may come between reading `stop` and the wait */
};

struct child {
    pid_t pid;
    int fd; /* -1: no child */
    int32_t index;
    struct tt_text result;
};

static void run_here(const struct tt_jobs *jobs, int32_t index) {
    struct tt_text result;
    tt_text_init(&result);
    jobs->work(jobs->context, index, &result);
    jobs->done(jobs->context, index, tt_text_string(&result));
    tt_text_fini(&result);
}

_Noreturn static void run_in_child(const struct tt_jobs *jobs, int32_t index, int fd) {
    struct tt_text result;
    tt_text_init(&result);
    jobs->work(jobs->context, index, &result);
    for (size_t sent = 0; sent < result.length;) {
        ssize_t wrote = write(fd, result.bytes + sent, result.length - sent);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            break;
        sent += (size_t)wrote;
    }
    _exit(0);
}

static enum tt_err start(const struct tt_jobs *jobs, struct child *child, int32_t index,
                         struct tt_error *why) {
    int ends[2];
    if (jobs->starts)
        jobs->starts(jobs->context, index);
    if (pipe(ends) != 0)
        return tt_fail(TT_ERR_IO, why, "no pipe to a worker process: %s", strerror(errno));
    fflush(NULL); /* else the child would write it again */
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* no one else would end it */
        if (getppid() != parent)
            _exit(1);
        close(ends[0]);
        run_in_child(jobs, index, ends[1]);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return tt_fail(TT_ERR_IO, why, "no worker process: %s", strerror(errno));
    }
    *child = (struct child){.pid = pid, .fd = ends[0], .index = index};
    tt_text_init(&child->result);
    return TT_OK;
}

/* Forwards the signal to the children: it may have been sent to this process alone. */
static void interrupt(const struct child *children, int32_t workers) {
    for (int32_t w = 0; w < workers; w++)
        if (children[w].fd >= 0)
            kill(children[w].pid, SIGINT);
}

/* Reads available output. True at the end of the child's output, after waiting for the child. */
static bool take(struct child *child) {
    char *to = tt_text_reserve(&child->result, 65536);
    char spill[4096]; /* out of memory: continue to read, so that the child can end */
    ssize_t got = to ? read(child->fd, to, 65536) : read(child->fd, spill, sizeof(spill));
    if (got < 0)
        return false;
    if (to) {
        child->result.length += (size_t)got;
        to[got] = '\0';
    }
    if (got > 0)
        return false;
    close(child->fd);
    child->fd = -1;
    while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return true;
}

static int32_t worker_count(const struct tt_jobs *jobs) {
    long workers = jobs->workers > 0 ? jobs->workers : tt_processors_usable();
    if (workers > MAX_WORKERS)
        workers = MAX_WORKERS;
    if (workers > jobs->count)
        workers = jobs->count;
    return workers > 1 ? (int32_t)workers : 1;
}

enum tt_err tt_jobs_run(const struct tt_jobs *jobs, struct tt_error *why) {
    int32_t workers = worker_count(jobs), next = 0, running = 0;
    if (jobs->count == 1 && !(jobs->stop && *jobs->stop)) {
        run_here(jobs, 0);
        return TT_OK;
    }
    struct child children[MAX_WORKERS];
    for (int32_t w = 0; w < workers; w++)
        children[w].fd = -1;
    enum tt_err err = TT_OK;
    bool forwarded = false;
    for (;;) {
        struct pollfd fds[MAX_WORKERS];
        for (int32_t w = 0; w < workers; w++) {
            bool more = !err && next < jobs->count && !(jobs->stop && *jobs->stop);
            if (children[w].fd < 0 && more) {
                err = start(jobs, &children[w], next, why);
                next += !err;
                running += !err;
            }
            fds[w] = (struct pollfd){.fd = children[w].fd, .events = POLLIN};
        }
        if (running == 0)
            return err;
        if (!forwarded && jobs->stop && *jobs->stop) {
            forwarded = true;
            interrupt(children, workers);
        }
        if (poll(fds, (nfds_t)workers, LOOK_MS) < 0)
            continue;
        for (int32_t w = 0; w < workers; w++)
            if (children[w].fd >= 0 && fds[w].revents && take(&children[w])) {
                running--;
                jobs->done(jobs->context, children[w].index, tt_text_string(&children[w].result));
                tt_text_fini(&children[w].result);
            }
    }
}

void tt_jobs_answer(json_t *take_value, enum tt_err err, const struct tt_error *why,
                    struct tt_text *result) {
    json_t *value = take_value;
    if (!value)
        value = json_pack("{s:s,s:i}", "error", err ? why->text : "out of memory", "code",
                          err ? (int)err : (int)TT_ERR_NO_MEMORY);
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    if (text)
        tt_text_puts(result, text);
    free(text);
    json_decref(value);
}
