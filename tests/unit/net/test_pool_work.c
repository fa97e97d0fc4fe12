/* threaded */
/* Work beside a loop: it runs on another thread and comes home to the thread of its own loop, also
 * from several loops, again from within, and without a descriptor. */
#include "net/sockets/pool_work.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

enum { WORKS = 300 };

struct item {
    struct tt_pool_work work;
    struct caller *caller;
    pthread_t ran_on;
    int runs;
};

struct caller {
    uv_loop_t loop;
    pthread_t thread;
    int done, again; /* again: how often each is queued once more */
    int wrong;
    struct item items[WORKS];
};

static void run(struct tt_pool_work *work) {
    struct item *item = work->data;
    item->runs++;
    item->ran_on = pthread_self();
}

static void on_done(struct tt_pool_work *work) {
    struct item *item = work->data;
    struct caller *self = item->caller;
    self->wrong += !pthread_equal(pthread_self(), self->thread);
    self->wrong += pthread_equal(item->ran_on, self->thread) != 0;
    self->done++;
    if (item->runs <= self->again)
        tt_pool_work_queue(&self->loop, work, run, on_done);
}

static void queue(struct caller *self, int count) {
    self->thread = pthread_self();
    for (int i = 0; i < count; i++) {
        self->items[i].work.data = &self->items[i];
        self->items[i].caller = self;
        tt_pool_work_queue(&self->loop, &self->items[i].work, run, on_done);
    }
}

static void count_own(uv_handle_t *handle, void *context) {
    *(int *)context += tt_pool_work_owns(handle);
}

static int owned(struct caller *self) {
    int count = 0;
    uv_walk(&self->loop, count_own, &count);
    return count;
}

/* The loop ends by itself after its last work. */
static void *serve(void *context) {
    struct caller *self = context;
    self->wrong += uv_loop_init(&self->loop) != 0;
    queue(self, WORKS);
    self->wrong += owned(self) != 1;
    uv_run(&self->loop, UV_RUN_DEFAULT);
    self->wrong += owned(self) != 0 || self->loop.data != NULL;
    self->wrong += uv_loop_close(&self->loop) != 0;
    return NULL;
}

static void test_two_loops(void **state) {
    static struct caller callers[2];
    pthread_t threads[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        callers[i].again = i;
        assert_int_equal(pthread_create(&threads[i], NULL, serve, &callers[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(callers[i].wrong, 0);
        assert_int_equal(callers[i].done, WORKS * (1 + i));
    }
}

static void test_without_descriptors(void **state) {
    static struct caller caller;
    struct rlimit former;
    (void)state;
    assert_int_equal(uv_loop_init(&caller.loop), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &former), 0);
    struct rlimit none = {.rlim_cur = 0, .rlim_max = former.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    queue(&caller, 3);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &former), 0);
    assert_int_equal(owned(&caller), 0);
    uv_run(&caller.loop, UV_RUN_DEFAULT);
    assert_int_equal(caller.done, 3);
    assert_int_equal(caller.wrong, 0);
    assert_int_equal(uv_loop_close(&caller.loop), 0);
}

static void test_freeing(void **state) {
    (void)state;
    static struct caller caller;
    struct tt_text text;
    assert_int_equal(uv_loop_init(&caller.loop), 0);
    tt_pool_work_free(&caller.loop, NULL);
    for (size_t bytes = 1; bytes <= 2 * TT_POOL_FREE_BYTES; bytes += 2 * TT_POOL_FREE_BYTES - 1)
        for (int i = 0; i < 2; i++) {
            tt_text_init(&text);
            char *at = tt_text_reserve(&text, bytes);
            assert_non_null(at);
            memset(at, 'x', bytes);
            text.length = bytes;
            tt_pool_work_free(i ? &caller.loop : NULL, &text);
            assert_null(text.bytes);
            assert_int_equal(text.length, 0);
            assert_int_equal(owned(&caller), i && bytes > 1);
        }
    uv_run(&caller.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&caller.loop), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_loops),
        cmocka_unit_test(test_without_descriptors),
        cmocka_unit_test(test_freeing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
