/* The latest requests of a model, against a list of all, and while they are written. */
#include "serve/recent_arrivals.h"

#include "base/instant.h"
#include "base/prng.h"
#include "base/threads/flag.h"
#include "unit/seed.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ALL = 3 * TT_RECENT_ARRIVALS };

static struct tt_recent_arrival arrival(int64_t number, int64_t at) {
    return (struct tt_recent_arrival){.at = at,
                                      .deadline_at = number % 3 ? at + number : TT_NEVER,
                                      .length = (int32_t)(number % 1000),
                                      .rows = (int16_t)(1 + number % 1024),
                                      .priority = (int16_t)(number % 33)};
}

static void agrees_with_a_list_of_all(void **state) {
    (void)state;
    struct tt_prng prng = {0};
    tt_prng_init(&prng, test_seed(1968), 0);
    struct tt_recent_arrivals *recent = tt_recent_arrivals_new();
    struct tt_recent_arrival *all = calloc(ALL, sizeof(*all));
    struct tt_recent_arrival *copy = calloc(TT_RECENT_ARRIVALS, sizeof(*copy));
    assert_non_null(recent);
    assert_non_null(all);
    assert_non_null(copy);
    assert_int_equal(tt_recent_arrivals_copy(recent, 0, copy, TT_RECENT_ARRIVALS), 0);
    int64_t at = 0;
    for (int32_t i = 0; i < ALL; i++) {
        at += (int64_t)tt_prng_below(&prng, 4);
        all[i] = arrival(i, at);
        tt_recent_arrivals_put(recent, &all[i]);
        if (tt_prng_below(&prng, 1000) > 0)
            continue;
        int64_t from_at = at - (int64_t)tt_prng_below(&prng, 2 * TT_RECENT_ARRIVALS);
        int32_t limit = 1 + (int32_t)tt_prng_below(&prng, TT_RECENT_ARRIVALS);
        int32_t first = i + 1, least = i + 1 > limit ? i + 1 - limit : 0;
        while (first > least && all[first - 1].at >= from_at)
            first--;
        int32_t count = tt_recent_arrivals_copy(recent, from_at, copy, limit);
        assert_int_equal(count, i + 1 - first);
        assert_memory_equal(copy, all + first, (size_t)count * sizeof(*copy));
    }
    tt_recent_arrivals_free(recent);
    free(all);
    free(copy);
}

struct shared {
    struct tt_recent_arrivals *recent;
    struct tt_flag done;
};

static void *write_all(void *context) {
    struct shared *shared = context;
    for (int64_t i = 0; i < ALL; i++) {
        struct tt_recent_arrival next = arrival(i, i);
        tt_recent_arrivals_put(shared->recent, &next);
    }
    tt_flag_raise(&shared->done);
    return NULL;
}

/* What is copied while requests arrive is whole, and without gaps. */
static void is_copied_while_it_is_written(void **state) {
    (void)state;
    struct shared shared = {.recent = tt_recent_arrivals_new()};
    struct tt_recent_arrival *copy = calloc(TT_RECENT_ARRIVALS, sizeof(*copy));
    pthread_t writer;
    assert_non_null(shared.recent);
    assert_non_null(copy);
    assert_int_equal(pthread_create(&writer, NULL, write_all, &shared), 0);
    for (bool done = false; !done;) {
        done = tt_flag_is_raised(&shared.done);
        int32_t count = tt_recent_arrivals_copy(shared.recent, 0, copy, TT_RECENT_ARRIVALS);
        for (int32_t i = 0; i < count; i++) {
            struct tt_recent_arrival expected = arrival(copy[0].at + i, copy[0].at + i);
            assert_memory_equal(&copy[i], &expected, sizeof(expected));
        }
        if (done)
            assert_int_equal(count, TT_RECENT_ARRIVALS);
    }
    pthread_join(writer, NULL);
    tt_recent_arrivals_free(shared.recent);
    free(copy);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_a_list_of_all),
        cmocka_unit_test(is_copied_while_it_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
