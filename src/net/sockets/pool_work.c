#include "net/sockets/pool_work.h"

#include "base/err.h"
#include "base/threads/time_slice.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { NICENESS = 5, ENDED_AT_ONCE = 64 };

/* Where the works of a loop come back: as pointers, in a pipe. It exists while any is under way. */
struct tt_pool_home {
    uv_poll_t poll;
    int ended[2];
    int32_t running;
};

/* Pointers to works, for whichever thread reads them first; -1: there is no thread. */
static int waiting[2] = {-1, -1};
static uv_once_t is_started = UV_ONCE_INIT;

/* --- a thread of the pool --- */

/* A pipe gives a pointer whole, and to one reader. A call that fails did nothing: it is made again.
 */
static struct tt_pool_work *take(void) {
    struct tt_pool_work *work;
    while (read(waiting[0], &work, sizeof(work)) != (ssize_t)sizeof(work))
        continue;
    return work;
}

/* The work is its loop's from here on. */
static void bring_home(struct tt_pool_work *work) {
    int fd = work->home->ended[1];
    while (write(fd, &work, sizeof(work)) != (ssize_t)sizeof(work))
        continue;
}

static void be_modest(void) {
    tt_time_slice_be_usual(); /* a connections' thread created it */
    /* Of this thread only; where it is not allowed, the work competes with the rest. */
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICENESS);
}

static void *serve(void *context) {
    (void)context;
    be_modest();
    for (;;) {
        struct tt_pool_work *work = take();
        work->run(work);
        bring_home(work);
    }
    return NULL;
}

static int create_thread(void) {
    pthread_t thread;
    int failed = pthread_create(&thread, NULL, serve, NULL);
    if (failed)
        return failed;
    pthread_setname_np(thread, "tutti-bodies");
    return pthread_detach(thread);
}

static void start(void) {
    int fds[2];
    int count = 0;
    if (pipe2(fds, O_CLOEXEC) != 0)
        return;
    (void)fcntl(fds[1], F_SETFL, O_NONBLOCK); /* a loop never waits for the pool */
    waiting[0] = fds[0];
    while (count < TT_POOL_THREADS && create_thread() == 0)
        count++;
    if (count > 0) {
        waiting[1] = fds[1];
    } else {
        close(fds[0]);
        close(fds[1]);
    }
}

/* --- on the loop --- */

static void on_closed(uv_handle_t *handle) {
    struct tt_pool_home *self = handle->data;
    close(self->ended[0]);
    close(self->ended[1]);
    free(self);
}

static void leave(struct tt_pool_home *self) {
    if (--self->running > 0)
        return;
    self->poll.loop->data = NULL;
    uv_close((uv_handle_t *)&self->poll, on_closed);
}

static void on_ended(uv_poll_t *poll, int status, int events) {
    (void)status;
    (void)events;
    struct tt_pool_home *self = poll->data;
    struct tt_pool_work *works[ENDED_AT_ONCE];
    ssize_t bytes = read(self->ended[0], works, sizeof(works));
    size_t count = bytes > 0 ? (size_t)bytes / sizeof(works[0]) : 0;
    for (size_t i = 0; i < count; i++) {
        works[i]->done(works[i]); /* which may queue more */
        leave(self);
    }
}

/* NULL: no memory, or no descriptor. */
static struct tt_pool_home *home_new(uv_loop_t *loop) {
    struct tt_pool_home *self = calloc(1, sizeof(*self));
    if (!self)
        return NULL;
    if (pipe2(self->ended, O_CLOEXEC) != 0) {
        free(self);
        return NULL;
    }
    /* libuv makes the end that it watches non-blocking, and no other. */
    if (uv_poll_init(loop, &self->poll, self->ended[0]) < 0) {
        close(self->ended[0]);
        close(self->ended[1]);
        free(self);
        return NULL;
    }
    self->poll.data = self;
    loop->data = self;
    return self;
}

/* False: it is not under way. */
static bool give(struct tt_pool_work *work) {
    uv_once(&is_started, start);
    struct tt_pool_home *home = work->loop->data;
    if (waiting[1] < 0)
        return false;
    if (!home)
        home = home_new(work->loop);
    if (!home)
        return false;
    work->home = home;
    bool is_sent =
        (home->running++ > 0 || uv_poll_start(&home->poll, UV_READABLE, on_ended) == 0) &&
        write(waiting[1], &work, sizeof(work)) == (ssize_t)sizeof(work);
    if (!is_sent)
        leave(home);
    return is_sent;
}

static void run_other(uv_work_t *other) {
    struct tt_pool_work *work = other->data;
    work->run(work);
}

static void on_other(uv_work_t *other, int status) {
    struct tt_pool_work *work = other->data;
    tt_assert(status == 0); /* nothing is cancelled */
    work->done(work);
}

void tt_pool_work_queue(uv_loop_t *loop, struct tt_pool_work *work, tt_pool_work_fn *run,
                        tt_pool_work_fn *done) {
    work->loop = loop;
    work->run = run;
    work->done = done;
    if (give(work))
        return;
    work->other.data = work;
    uv_queue_work(loop, &work->other, run_other, on_other);
}

/* --- memory --- */

struct freeing {
    struct tt_pool_work work;
    struct tt_text text;
};

static void free_text(struct tt_pool_work *work) {
    struct freeing *self = work->data;
    tt_text_fini(&self->text);
}

static void on_freed(struct tt_pool_work *work) { free(work->data); }

void tt_pool_work_free(uv_loop_t *loop, struct tt_text *text) {
    struct freeing *self = NULL;
    if (!text)
        return;
    if (loop && text->length > TT_POOL_FREE_BYTES) /* what was never written takes no memory */
        self = malloc(sizeof(*self));
    if (!self) {
        tt_text_fini(text);
        return;
    }
    self->text = *text;
    tt_text_init(text);
    self->work.data = self;
    tt_pool_work_queue(loop, &self->work, free_text, on_freed);
}

bool tt_pool_work_owns(const uv_handle_t *handle) {
    const struct tt_pool_home *home = handle->loop->data;
    return home && handle == (const uv_handle_t *)&home->poll;
}
