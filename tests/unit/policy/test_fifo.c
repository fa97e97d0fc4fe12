/* The queue of a model: its order against a sorted array, with levels, deadlines and requests that
 * were made late; and many late ones, among which no place is looked for one by one. */
#include "base/instant.h"
#include "base/prng.h"
#include "policy/fifo.h"
#include "unit/breach.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { COUNT = 64, LATE = 100000 };

static bool goes_before(enum tt_fifo_order order, const struct tt_request *a,
                        const struct tt_request *b) {
    if (order == TT_FIFO_PRIORITY && a->priority != b->priority)
        return a->priority < b->priority;
    if (order == TT_FIFO_DEADLINE && a->deadline_at != b->deadline_at)
        return a->deadline_at < b->deadline_at;
    return a->number < b->number;
}

struct bench {
    struct tt_request_pool pool;
    struct tt_late_order late;
};

/* `count` requests, to be had by index. */
static void bench_init(struct bench *self, int32_t count) {
    assert_int_equal(tt_request_pool_init(&self->pool, count, count), TT_OK);
    self->late = (struct tt_late_order){
        .requests = &self->pool, .nodes = calloc((size_t)count, sizeof(struct tt_late_node))};
    assert_non_null(self->late.nodes);
}

static void bench_fini(struct bench *self) {
    tt_late_order_fini(&self->late);
    tt_request_pool_fini(&self->pool);
}

/* Request `i`, made anew. */
static struct tt_request *fresh(const struct bench *self, int32_t i, int64_t number,
                                int64_t deadline_at) {
    struct tt_request *request = tt_request_pool_at(&self->pool, (uint32_t)i);
    *request = (struct tt_request){.state = TT_REQUEST_QUEUED, .handle.index = (uint32_t)i};
    request->number = number;
    request->deadline_at = deadline_at;
    request->rows = 1;
    return request;
}

/* The queue holds just the requests that are marked, in order. */
static void compare(const struct tt_fifo *fifo, const bool *is_in) {
    int32_t count = 0;
    const struct tt_request *previous = NULL;
    tt_fifo_check(fifo, 0);
    for (struct tt_request *r = tt_fifo_first(fifo); r; r = tt_fifo_next(fifo, r)) {
        assert_true(is_in[r->handle.index]);
        assert_true(!previous || goes_before(fifo->order, previous, r));
        previous = r;
        count++;
    }
    for (int32_t i = 0; i < COUNT; i++)
        count -= is_in[i];
    assert_int_equal(count, 0);
}

static void random_requests_stand_in_order(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(1), 0);
    struct bench bench;
    bench_init(&bench, COUNT);
    for (int32_t world = 0; world < 300; world++) {
        struct tt_fifo fifo;
        bool is_in[COUNT] = {false};
        tt_fifo_init(&fifo, (enum tt_fifo_order)(world % 3), &bench.late);
        int32_t levels = 1 + (int32_t)tt_prng_below(&prng, 40);
        int64_t number = 0;
        for (int32_t step = 0; step < 400; step++) {
            int32_t i = (int32_t)tt_prng_below(&prng, COUNT);
            struct tt_request *request = tt_request_pool_at(&bench.pool, (uint32_t)i);
            if (is_in[i]) {
                tt_fifo_remove(&fifo, request);
            } else {
                bool is_late = tt_prng_below(&prng, 3) == 0;
                int64_t deadline_at = (int64_t)tt_prng_below(&prng, 100);
                bool has_none = is_late || tt_prng_below(&prng, 8) == 0;
                /* Some return with an older number. */
                int64_t older = (int64_t)tt_prng_below(&prng, 2) * COUNT * 1000;
                int64_t mark = is_late ? TT_REQUEST_LATE : 0;
                fresh(&bench, i, (++number + older) | mark, has_none ? TT_NEVER : deadline_at);
                request->priority = (int32_t)tt_prng_below(&prng, (uint64_t)levels) - 1;
                tt_fifo_insert(&fifo, request);
            }
            is_in[i] = !is_in[i];
            compare(&fifo, is_in);
        }
    }
    bench_fini(&bench);
}

/* Each arrival stands before all late requests. Passing them one by one would take 10^10 steps. */
static void late_requests_cost_arrivals_nothing(void **state) {
    (void)state;
    struct bench bench;
    bench_init(&bench, LATE + 2);
    for (int32_t order = 0; order <= TT_FIFO_DEADLINE; order++) {
        struct tt_fifo fifo;
        tt_fifo_init(&fifo, (enum tt_fifo_order)order, &bench.late);
        for (int32_t i = 0; i < LATE; i++)
            tt_fifo_insert(&fifo, fresh(&bench, i, i | TT_REQUEST_LATE, TT_NEVER));
        struct tt_request *first = fresh(&bench, LATE + 1, 0, 0);
        tt_fifo_insert(&fifo, first);
        for (int32_t i = 1; i < LATE; i++) {
            struct tt_request *request = fresh(&bench, LATE, LATE + i, i);
            tt_fifo_insert(&fifo, request);
            assert_ptr_equal(tt_fifo_next(&fifo, first), request);
            tt_fifo_remove(&fifo, request);
        }
        tt_fifo_check(&fifo, 0);
    }
    bench_fini(&bench);
}

/* Requests with much time are made late after younger ones. Passing these would take 5 * 10^9
 * steps: from the youngest to the oldest, and in any order. */
static void late_requests_cost_each_other_little(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(1), 0);
    struct bench bench;
    bench_init(&bench, LATE);
    for (int32_t round = 0; round < 2; round++) {
        struct tt_fifo fifo;
        tt_fifo_init(&fifo, TT_FIFO_PRIORITY, &bench.late);
        for (int32_t i = 0; i < LATE; i++) {
            int64_t number = round ? (int64_t)tt_prng_below(&prng, 1 << 30) * LATE + i : LATE - i;
            tt_fifo_insert(&fifo, fresh(&bench, i, number | TT_REQUEST_LATE, TT_NEVER));
        }
        tt_fifo_check(&fifo, 0);
        for (int32_t i = 0; i < LATE; i++)
            tt_fifo_remove(&fifo, tt_request_pool_at(&bench.pool, (uint32_t)i));
        tt_fifo_check(&fifo, 0);
    }
    bench_fini(&bench);
}

static void a_tail_that_is_none(void) {
    struct tt_fifo fifo;
    struct tt_request request = {.state = TT_REQUEST_QUEUED};
    tt_fifo_init(&fifo, TT_FIFO_ARRIVAL, NULL);
    tt_fifo_insert(&fifo, &request);
    fifo.groups = 0;
    tt_fifo_check(&fifo, 0);
}

static void a_late_one_out_of_order(void) {
    struct bench bench;
    struct tt_fifo fifo;
    bench_init(&bench, 2);
    tt_fifo_init(&fifo, TT_FIFO_ARRIVAL, &bench.late);
    for (int32_t i = 0; i < 2; i++)
        tt_fifo_insert(&fifo, fresh(&bench, i, (i + 1) | TT_REQUEST_LATE, TT_NEVER));
    fifo.late_root = TT_LATE_NONE;
    tt_fifo_check(&fifo, 0);
}

static void the_check_sees_a_broken_one(void **state) {
    (void)state;
    assert_breaks(a_late_one_out_of_order, "a late one out of order", "first == request");
    assert_breaks(a_tail_that_is_none, "a tail that is none", "groups == self->groups");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_requests_stand_in_order),
        cmocka_unit_test(late_requests_cost_arrivals_nothing),
        cmocka_unit_test(late_requests_cost_each_other_little),
        cmocka_unit_test(the_check_sees_a_broken_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
