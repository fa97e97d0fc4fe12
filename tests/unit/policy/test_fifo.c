/* The queue of a model: its order against a sorted array, with levels, deadlines and requests that
 * were made late; and many late ones, behind which nothing is looked for. */
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

/* The queue holds just the requests that are marked, in order. */
static void compare(const struct tt_fifo *fifo, struct tt_request *requests, const bool *is_in) {
    int32_t count = 0;
    const struct tt_request *previous = NULL;
    tt_fifo_check(fifo, 0);
    for (struct tt_request *r = tt_fifo_first(fifo); r; r = tt_fifo_next(fifo, r)) {
        assert_true(is_in[r - requests]);
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
    static struct tt_request requests[COUNT];
    for (int32_t world = 0; world < 300; world++) {
        struct tt_fifo fifo;
        bool is_in[COUNT] = {false};
        tt_fifo_init(&fifo, (enum tt_fifo_order)(world % 3));
        int32_t levels = 1 + (int32_t)tt_prng_below(&prng, 40);
        int64_t number = 0;
        for (int32_t step = 0; step < 400; step++) {
            int32_t i = (int32_t)tt_prng_below(&prng, COUNT);
            if (is_in[i]) {
                tt_fifo_remove(&fifo, &requests[i]);
            } else {
                bool is_late = tt_prng_below(&prng, 3) == 0;
                int64_t deadline_at = (int64_t)tt_prng_below(&prng, 100);
                bool has_none = is_late || tt_prng_below(&prng, 8) == 0;
                /* Some return with an older number. */
                int64_t older = (int64_t)tt_prng_below(&prng, 2) * COUNT * 1000;
                requests[i] = (struct tt_request){.state = TT_REQUEST_QUEUED};
                requests[i].number = (++number + older) | (is_late ? TT_REQUEST_LATE : 0);
                requests[i].rows = 1;
                requests[i].priority = (int32_t)tt_prng_below(&prng, (uint64_t)levels) - 1;
                requests[i].deadline_at = has_none ? TT_NEVER : deadline_at;
                tt_fifo_insert(&fifo, &requests[i]);
            }
            is_in[i] = !is_in[i];
            compare(&fifo, requests, is_in);
        }
    }
}

/* Each arrival stands before all late requests. Passing them one by one would take 10^10 steps. */
static void late_requests_cost_arrivals_nothing(void **state) {
    (void)state;
    struct tt_request *requests = calloc(LATE + 1, sizeof(*requests));
    assert_non_null(requests);
    for (int32_t order = 0; order <= TT_FIFO_DEADLINE; order++) {
        struct tt_fifo fifo;
        tt_fifo_init(&fifo, (enum tt_fifo_order)order);
        for (int32_t i = 0; i < LATE; i++) {
            requests[i] = (struct tt_request){.state = TT_REQUEST_QUEUED};
            requests[i].number = i | TT_REQUEST_LATE;
            requests[i].rows = 1;
            requests[i].deadline_at = TT_NEVER;
            tt_fifo_insert(&fifo, &requests[i]);
        }
        struct tt_request first = {.state = TT_REQUEST_QUEUED};
        first.rows = 1;
        tt_fifo_insert(&fifo, &first);
        for (int32_t i = 1; i < LATE; i++) {
            struct tt_request *request = &requests[LATE];
            *request = (struct tt_request){.state = TT_REQUEST_QUEUED};
            request->number = LATE + i;
            request->rows = 1;
            request->deadline_at = i;
            tt_fifo_insert(&fifo, request);
            assert_ptr_equal(tt_fifo_next(&fifo, &first), request);
            tt_fifo_remove(&fifo, request);
        }
        tt_fifo_check(&fifo, 0);
    }
    free(requests);
}

static void a_tail_that_is_none(void) {
    struct tt_fifo fifo;
    struct tt_request request = {.state = TT_REQUEST_QUEUED};
    tt_fifo_init(&fifo, TT_FIFO_ARRIVAL);
    tt_fifo_insert(&fifo, &request);
    fifo.groups = 0;
    tt_fifo_check(&fifo, 0);
}

static void the_check_sees_a_broken_one(void **state) {
    (void)state;
    assert_breaks(a_tail_that_is_none, "a tail that is none", "groups == self->groups");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_requests_stand_in_order),
        cmocka_unit_test(late_requests_cost_arrivals_nothing),
        cmocka_unit_test(the_check_sees_a_broken_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
