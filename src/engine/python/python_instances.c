#include "engine/python/python_instances.h"

#include "base/clock.h"
#include "base/threads/eventcount.h"
#include "base/threads/lock.h"
#include "engine/python/python_output.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define FIRST_DELAY_NS (100 * TT_MS)
#define LAST_DELAY_NS (30 * TT_S)
#define LONG_LIFE_NS (60 * TT_S) /* after it, a failure counts as the first again */
#define GRACE_NS (5 * TT_S)      /* for `finalize` */

enum { MAX_WAIT_MS = 1000000 };

enum state { AWAY, STARTING, IDLE, BUSY, GONE, ENDING };

struct instance {
    struct tt_python_process process; /* of its executor while BUSY, else of the thread */
    enum state state;                 /* under the lock */
    bool is_shut;                     /* it ended while it was BUSY; under the lock */
    /* The thread's: */
    int64_t until_at; /* AWAY: when to start it; STARTING, ENDING: when to kill it */
    int64_t serves_since;
    int32_t failures; /* one after another */
    struct tt_python_output output;
};

struct tt_python_instances {
    struct tt_python_instances_options options;
    struct instance *instances;
    struct pollfd *files; /* [3 * count + 1]; the thread's */
    int wake;             /* makes the thread look */
    pthread_t thread;
    struct tt_eventcount opened; /* waited for by _open() */
    struct tt_lock lock;
    /* Under the lock: */
    bool is_opening, is_closing;
    enum tt_err err;     /* why it cannot be opened */
    struct tt_error why; /* the same; later why the last process ended */
};

/* ---- log lines ---- */

static void say(const struct tt_python_instances *self, enum tt_log_level level,
                const struct instance *instance, const char *text) {
    char line[TT_PYTHON_LINE_BYTES + TT_MAX_NAME_BYTES + 64];
    if (!self->options.say)
        return;
    snprintf(line, sizeof(line), "model %s: Python process %d: %s", self->options.program.name,
             (int)(instance - self->instances), text);
    self->options.say(self->options.say_context, level, line);
}

struct speaker {
    const struct tt_python_instances *instances;
    const struct instance *instance;
};

static void on_line(void *context, enum tt_log_level level, const char *line) {
    const struct speaker *speaker = context;
    say(speaker->instances, level, speaker->instance, line);
}

static void read_output(const struct tt_python_instances *self, struct instance *instance) {
    struct speaker speaker = {self, instance};
    if (instance->process.output < 0)
        return;
    if (tt_python_output_read(&instance->output, instance->process.output, on_line, &speaker))
        return;
    close(instance->process.output);
    instance->process.output = -1;
}

/* ---- the life of one process, on the thread ---- */

static enum state state_of(struct tt_python_instances *self, const struct instance *instance) {
    tt_lock_take(&self->lock);
    enum state state = instance->state;
    tt_lock_give(&self->lock);
    return state;
}

static void set_state(struct tt_python_instances *self, struct instance *instance,
                      enum state state) {
    tt_lock_take(&self->lock);
    instance->state = state;
    instance->is_shut = false;
    tt_lock_give(&self->lock);
}

/* The process is away, as `how` says. While the model is being loaded that fails; later the process
 * is started again. */
static void note_failure(struct tt_python_instances *self, struct instance *instance,
                         enum tt_err err, const struct tt_error *how) {
    int64_t now = tt_clock_now(), delay_ns = FIRST_DELAY_NS;
    if (instance->serves_since > 0 && now - instance->serves_since >= LONG_LIFE_NS)
        instance->failures = 0;
    for (int32_t i = 0; i < instance->failures && delay_ns < LAST_DELAY_NS; i++)
        delay_ns *= 2;
    delay_ns = tt_instant_min(delay_ns, LAST_DELAY_NS);
    instance->failures++;
    instance->serves_since = 0;
    instance->until_at = tt_instant_add(now, delay_ns);
    tt_lock_take(&self->lock);
    bool is_opening = self->is_opening, is_closing = self->is_closing;
    instance->state = AWAY;
    if (is_opening && !self->err)
        self->err = err;
    if (!is_closing)
        self->why = *how;
    self->is_closing |= is_opening;
    tt_lock_give(&self->lock);
    if (is_opening || is_closing)
        return;
    char line[TT_PYTHON_LINE_BYTES];
    snprintf(line, sizeof(line), "it %.480s; it is started again in %.1f s", how->text,
             (double)delay_ns / 1e9);
    say(self, TT_LOG_WARNING, instance, line);
}

/* It has ended, or was killed. `reason`: why it was; NULL: as its end says. */
static void take_away(struct tt_python_instances *self, struct instance *instance,
                      const struct tt_error *reason) {
    struct speaker speaker = {self, instance};
    struct tt_error how;
    read_output(self, instance);
    tt_python_output_end(&instance->output, on_line, &speaker);
    tt_python_process_reap(&instance->process, &how);
    note_failure(self, instance, TT_ERR_INVALID, reason ? reason : &how);
}

static void start(struct tt_python_instances *self, struct instance *instance) {
    struct tt_python_program program = self->options.program;
    struct tt_error why;
    program.instance = (int32_t)(instance - self->instances);
    set_state(self, instance, STARTING);
    enum tt_err err = tt_python_process_start(&instance->process, &program, &why);
    if (err) {
        tt_fail_in(err, &why, "did not start");
        note_failure(self, instance, err, &why);
        return;
    }
    int64_t max_ms = self->options.max_start_ms;
    instance->until_at =
        max_ms > 0 ? tt_instant_add(tt_clock_now(), max_ms * (int64_t)TT_MS) : TT_NEVER;
}

static void serve(struct tt_python_instances *self, struct instance *instance) {
    instance->serves_since = tt_clock_now();
    set_state(self, instance, IDLE);
    bool serves = true;
    tt_lock_take(&self->lock);
    bool is_opening = self->is_opening;
    for (int32_t i = 0; i < self->options.count; i++)
        serves = serves && self->instances[i].state >= IDLE;
    if (serves && !self->is_closing)
        self->is_opening = false;
    tt_lock_give(&self->lock);
    if (is_opening && serves)
        tt_eventcount_notify(&self->opened);
    if (!is_opening)
        say(self, TT_LOG_INFO, instance, "it serves again");
}

static bool is_readable(int fd) {
    struct pollfd file = {.fd = fd, .events = POLLIN};
    return poll(&file, 1, 0) > 0;
}

static void look_at_start(struct tt_python_instances *self, struct instance *instance,
                          int64_t now) {
    struct tt_error why;
    if (now >= instance->until_at) {
        tt_fail(TT_OK, &why, "did not load the model within %lld ms (--max-load-ms)",
                (long long)self->options.max_start_ms);
        tt_python_process_kill(&instance->process);
        take_away(self, instance, &why);
    } else if (is_readable(instance->process.socket)) {
        switch (tt_python_process_started(&instance->process, &why)) {
        case TT_PYTHON_READY: serve(self, instance); break;
        case TT_PYTHON_FAILED:
            tt_fail_in(TT_OK, &why, "could not load the model");
            take_away(self, instance, &why);
            break;
        case TT_PYTHON_DONE:
        case TT_PYTHON_GONE: take_away(self, instance, NULL); break;
        }
    }
}

/* An executor may take the process meanwhile. */
static void look_at_idle(struct tt_python_instances *self, struct instance *instance) {
    bool has_ended = tt_python_process_has_ended(&instance->process);
    tt_lock_take(&self->lock);
    if (instance->state == IDLE && (has_ended || self->is_closing)) {
        instance->state = has_ended ? GONE : ENDING;
        instance->until_at = tt_instant_add(tt_clock_now(), GRACE_NS);
        if (!has_ended)
            tt_python_process_ask_to_end(&instance->process);
    } else if (instance->state == BUSY && has_ended && !instance->is_shut) {
        /* A process that it started may hold the other end of the socket. */
        shutdown(instance->process.socket, SHUT_RDWR);
        instance->is_shut = true;
    }
    tt_lock_give(&self->lock);
}

static void look(struct tt_python_instances *self, struct instance *instance, bool is_closing) {
    int64_t now = tt_clock_now();
    enum state state = state_of(self, instance);
    if (state == IDLE || state == BUSY) {
        look_at_idle(self, instance);
        state = state_of(self, instance);
    }
    if (is_closing && state == STARTING)
        tt_python_process_kill(&instance->process);
    read_output(self, instance);
    if (state == AWAY && !is_closing && now >= instance->until_at) {
        start(self, instance);
    } else if (state == STARTING) {
        look_at_start(self, instance, now);
    } else if ((state == GONE || state == ENDING) &&
               tt_python_process_has_ended(&instance->process)) {
        take_away(self, instance, NULL);
    } else if (state == ENDING && now >= instance->until_at) {
        say(self, TT_LOG_WARNING, instance, "it did not finalize the model within 5 s: killed");
        tt_python_process_kill(&instance->process);
        instance->until_at = TT_NEVER;
    }
}

/* ---- the thread ---- */

static void watch(struct pollfd *files, int32_t *count, int fd) {
    if (fd >= 0)
        files[(*count)++] = (struct pollfd){.fd = fd, .events = POLLIN};
}

/* Waits for news of any process, or for the next instant that one has. */
static void wait_for_news(struct tt_python_instances *self) {
    int64_t until_at = TT_NEVER;
    int32_t count = 0;
    watch(self->files, &count, self->wake);
    tt_lock_take(&self->lock);
    for (int32_t i = 0; i < self->options.count; i++) {
        struct instance *instance = &self->instances[i];
        bool is_timed = instance->state == STARTING || instance->state == ENDING ||
                        (instance->state == AWAY && !self->is_closing);
        if (is_timed)
            until_at = tt_instant_min(until_at, instance->until_at);
        watch(self->files, &count, instance->process.output);
        if (!instance->is_shut)
            watch(self->files, &count, instance->process.pidfd);
        if (instance->state == STARTING)
            watch(self->files, &count, instance->process.socket);
    }
    tt_lock_give(&self->lock);
    int64_t wait_ms = -1;
    if (until_at != TT_NEVER)
        wait_ms = tt_instant_max(0, (until_at - tt_clock_now()) / (int64_t)TT_MS + 1);
    (void)poll(self->files, (nfds_t)count, (int)tt_instant_min(wait_ms, MAX_WAIT_MS));
    uint64_t ignored;
    if (self->files[0].revents && read(self->wake, &ignored, sizeof(ignored)) < 0)
        tt_assert(errno == EAGAIN);
}

static bool closes(struct tt_python_instances *self) {
    tt_lock_take(&self->lock);
    bool is_closing = self->is_closing;
    tt_lock_give(&self->lock);
    return is_closing;
}

static void *instances_main(void *argument) {
    struct tt_python_instances *self = argument;
    pthread_setname_np(pthread_self(), "tutti-python");
    for (bool is_over = false; !is_over;) {
        bool is_closing = closes(self);
        is_over = is_closing;
        for (int32_t i = 0; i < self->options.count; i++) {
            look(self, &self->instances[i], is_closing);
            is_over = is_over && state_of(self, &self->instances[i]) == AWAY;
        }
        if (!is_over && is_closing == closes(self)) /* a failure while it opens closes it */
            wait_for_news(self);
    }
    tt_lock_take(&self->lock);
    self->is_opening = false;
    tt_lock_give(&self->lock);
    tt_eventcount_notify(&self->opened);
    return NULL;
}

static void wake(const struct tt_python_instances *self) {
    uint64_t one = 1;
    ssize_t written = write(self->wake, &one, sizeof(one));
    tt_assert(written == (ssize_t)sizeof(one));
}

/* ---- opening and closing ---- */

static void instances_free(struct tt_python_instances *self) {
    for (int32_t i = 0; self->instances && i < self->options.count; i++)
        tt_python_process_fini(&self->instances[i].process);
    if (self->wake >= 0)
        close(self->wake);
    tt_lock_fini(&self->lock);
    free(self->instances);
    free(self->files);
    free(self);
}

static enum tt_err await_opening(struct tt_python_instances *self, struct tt_error *why) {
    for (;;) {
        tt_lock_take(&self->lock);
        bool is_opening = self->is_opening;
        enum tt_err err = self->err;
        if (!is_opening && err)
            *why = self->why;
        tt_lock_give(&self->lock);
        if (!is_opening)
            return err;
        tt_eventcount_sleep(&self->opened, TT_NEVER);
    }
}

enum tt_err tt_python_instances_open(const struct tt_python_instances_options *options,
                                     struct tt_python_instances **out_instances,
                                     struct tt_error *why) {
    tt_assert(options->count >= 1);
    struct tt_python_instances *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    self->options = *options;
    self->is_opening = true;
    self->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    tt_eventcount_init(&self->opened);
    tt_lock_init(&self->lock);
    self->instances = calloc((size_t)options->count, sizeof(*self->instances));
    self->files = calloc((size_t)options->count * 3 + 1, sizeof(*self->files));
    for (int32_t i = 0; self->instances && i < options->count; i++)
        tt_python_process_init(&self->instances[i].process);
    enum tt_err err = TT_OK;
    if (!self->instances || !self->files)
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %d instances", options->count);
    int failed = self->wake < 0 ? errno : 0;
    if (!err && !failed)
        failed = pthread_create(&self->thread, NULL, instances_main, self);
    if (!err && failed)
        err = tt_fail(TT_ERR_IO, why, "cannot start the thread of Python processes: %s",
                      strerror(failed));
    if (err) {
        instances_free(self);
        return err;
    }
    err = await_opening(self, why);
    if (err) {
        tt_python_instances_close(self);
        struct tt_error reason = *why;
        return tt_fail(err, why, "its Python process %.900s", reason.text);
    }
    *out_instances = self;
    return TT_OK;
}

void tt_python_instances_close(struct tt_python_instances *take_instances) {
    struct tt_python_instances *self = take_instances;
    if (!self)
        return;
    tt_lock_take(&self->lock);
    self->is_closing = true;
    tt_lock_give(&self->lock);
    wake(self);
    int failed = pthread_join(self->thread, NULL);
    tt_assert(failed == 0);
    instances_free(self);
}

/* ---- executors ---- */

enum tt_python_taking tt_python_instances_take(struct tt_python_instances *self,
                                               struct tt_python_process **out_process,
                                               struct tt_error *why) {
    enum tt_python_taking taking = TT_PYTHON_NONE;
    tt_lock_take(&self->lock);
    for (int32_t i = 0; taking != TT_PYTHON_TAKEN && i < self->options.count; i++) {
        struct instance *instance = &self->instances[i];
        if (instance->state == BUSY)
            taking = TT_PYTHON_ALL_BUSY;
        if (instance->state != IDLE)
            continue;
        taking = TT_PYTHON_TAKEN;
        instance->state = BUSY;
        *out_process = &instance->process;
    }
    if (taking == TT_PYTHON_NONE)
        tt_fail(TT_OK, why, "its Python process %.900s; it is started again", self->why.text);
    tt_lock_give(&self->lock);
    return taking;
}

void tt_python_instances_give(struct tt_python_instances *self, struct tt_python_process *process,
                              bool is_gone) {
    struct instance *instance = TT_CONTAINER_OF(process, struct instance, process);
    tt_lock_take(&self->lock);
    tt_assert(instance->state == BUSY);
    instance->state = is_gone ? GONE : IDLE;
    bool must_wake = is_gone || instance->is_shut;
    instance->is_shut = false;
    tt_lock_give(&self->lock);
    if (must_wake)
        wake(self);
}

void tt_python_instances_check(struct tt_python_instances *self) {
    tt_lock_take(&self->lock);
    for (int32_t i = 0; i < self->options.count; i++) {
        const struct instance *instance = &self->instances[i];
        bool serves = instance->state == IDLE || instance->state == BUSY;
        tt_assert(!instance->is_shut || instance->state == BUSY);
        tt_assert(!serves || instance->process.pid > 0);
        tt_assert(!serves || instance->process.pidfd >= 0);
        tt_assert(instance->state != AWAY || instance->process.pid == 0);
    }
    tt_lock_give(&self->lock);
}
