#include "lab/sweep/jobs.h"

#include "base/processors.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MAX_WORKERS = 64,
    LOOK_MS = 200 /* a signal may come between reading `stop` and the wait */
};

struct child {
    pid_t pid;
    int fd;        /* its socket; -1: no child */
    int32_t index; /* of its job; -1: none */
    bool ends;     /* it gets no more jobs */
    struct tt_text answer;
};

/* What a child sends before the text of a result. */
struct head {
    size_t length;
};

static void run_here(const struct tt_jobs *jobs, int32_t index) {
    struct tt_text result;
    tt_text_init(&result);
    jobs->work(jobs->context, index, &result);
    jobs->done(jobs->context, index, tt_text_string(&result));
    tt_text_fini(&result);
}

static bool send_all(int fd, const void *bytes, size_t length) {
    for (size_t sent = 0; sent < length;) {
        ssize_t wrote = send(fd, (const char *)bytes + sent, length - sent, MSG_NOSIGNAL);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return false;
        sent += (size_t)wrote;
    }
    return true;
}

/* Waits for the next job. False: there is none, or the parent is gone. */
static bool receive_job(int fd, int32_t *out_index) {
    ssize_t got;
    do
        got = recv(fd, out_index, sizeof(*out_index), MSG_WAITALL);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof(*out_index);
}

_Noreturn static void run_in_child(const struct tt_jobs *jobs, int fd) {
    int32_t index;
    while (receive_job(fd, &index)) {
        struct tt_text result;
        tt_text_init(&result);
        jobs->work(jobs->context, index, &result);
        struct head head = {.length = result.length};
        if (!send_all(fd, &head, sizeof(head)) || !send_all(fd, result.bytes, result.length))
            break;
        tt_text_fini(&result);
    }
    _exit(0);
}

static enum tt_err start_child(const struct tt_jobs *jobs, struct child *children, int32_t workers,
                               int32_t at, struct tt_error *why) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        return tt_fail(TT_ERR_IO, why, "no socket to a worker process: %s", strerror(errno));
    fflush(NULL); /* else the child would write it again */
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* no one else would end it */
        if (getppid() != parent)
            _exit(1);
        close(ends[0]);
        for (int32_t w = 0; w < workers; w++)
            if (children[w].fd >= 0)
                close(children[w].fd);
        run_in_child(jobs, ends[1]);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return tt_fail(TT_ERR_IO, why, "no worker process: %s", strerror(errno));
    }
    children[at] = (struct child){.pid = pid, .fd = ends[0], .index = -1};
    tt_text_init(&children[at].answer);
    return TT_OK;
}

/* Its end is seen when its socket is read. */
static void give_no_more(struct child *child) {
    child->ends = true;
    shutdown(child->fd, SHUT_WR);
}

static void give(const struct tt_jobs *jobs, struct child *child, int32_t index) {
    child->index = index;
    if (jobs->starts)
        jobs->starts(jobs->context, index);
    (void)send_all(child->fd, &index, sizeof(index)); /* a child that died is seen by reading */
    if (!jobs->keeps_context)
        give_no_more(child);
}

/* Forwards the signal to the children: it may have been sent to this process alone. */
static void interrupt(const struct child *children, int32_t workers) {
    for (int32_t w = 0; w < workers; w++)
        if (children[w].fd >= 0)
            kill(children[w].pid, SIGINT);
}

/* The text of the result, if all of it has come; NULL: not yet. */
static const char *whole_result(const struct child *child) {
    struct head head;
    if (child->answer.length < sizeof(head))
        return NULL;
    memcpy(&head, child->answer.bytes, sizeof(head));
    return child->answer.length - sizeof(head) == head.length ? child->answer.bytes + sizeof(head)
                                                              : NULL;
}

static void job_done(const struct tt_jobs *jobs, struct child *child, const char *result) {
    int32_t index = child->index;
    child->index = -1;
    jobs->done(jobs->context, index, result);
    tt_text_fini(&child->answer);
    tt_text_init(&child->answer);
}

static void bury(const struct tt_jobs *jobs, struct child *child) {
    close(child->fd);
    child->fd = -1;
    while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    if (child->index >= 0)
        job_done(jobs, child, "");
    tt_text_fini(&child->answer);
}

/* Reads what has come from the child. */
static void take(const struct tt_jobs *jobs, struct child *child) {
    enum { PIECE = 65536 };
    char *to = tt_text_reserve(&child->answer, PIECE);
    ssize_t got = to ? read(child->fd, to, PIECE) : 0;
    if (got < 0 && errno == EINTR)
        return;
    if (!to) /* out of memory */
        kill(child->pid, SIGKILL);
    if (got <= 0) {
        bury(jobs, child);
        return;
    }
    child->answer.length += (size_t)got;
    to[got] = '\0';
    const char *result = whole_result(child);
    if (result)
        job_done(jobs, child, result);
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
    int32_t workers = worker_count(jobs), next = 0;
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
        int32_t living = 0;
        for (int32_t w = 0; w < workers; w++) {
            struct child *child = &children[w];
            bool more = !err && next < jobs->count && !(jobs->stop && *jobs->stop);
            if (child->fd < 0 && more)
                err = start_child(jobs, children, workers, w, why);
            bool idle = child->fd >= 0 && child->index < 0;
            if (idle && more && !err && !child->ends)
                give(jobs, child, next++);
            else if (idle && !child->ends)
                give_no_more(child);
            living += child->fd >= 0;
            fds[w] = (struct pollfd){.fd = child->fd, .events = POLLIN};
        }
        if (living == 0)
            return err;
        if (!forwarded && jobs->stop && *jobs->stop) {
            forwarded = true;
            interrupt(children, workers);
        }
        if (poll(fds, (nfds_t)workers, LOOK_MS) < 0)
            continue;
        for (int32_t w = 0; w < workers; w++)
            if (children[w].fd >= 0 && fds[w].revents)
                take(jobs, &children[w]);
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
