/* threaded */
/* Emissions beside a naive queue; what finds no room; and one thread that puts while another takes,
 * with the messages that a mailbox would carry. */
#include "serve/emissions.h"

#include "base/prng.h"
#include "base/threads/ring.h"
#include "unit/breach.h"
#include "unit/seed.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Row `number`: every byte follows from it, so that halves of two rows do not look like one. */
static void make_row(int64_t number, size_t row_bytes, unsigned char *out_row) {
    for (size_t i = 0; i < row_bytes; i++)
        out_row[i] = (unsigned char)((uint64_t)number * 31 + i * 7);
}

static void rows_come_as_from_a_queue(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(41), 0);
    for (int round = 0; round < 300; round++) {
        size_t row_bytes = 1 + tt_prng_below(&prng, 40);
        int64_t rows = 1 + (int64_t)tt_prng_below(&prng, 20), put = 0, taken = 0;
        struct tt_emissions *emissions;
        unsigned char row[64], expected[64];
        assert_int_equal(tt_emissions_new(rows, row_bytes, &emissions), TT_OK);
        int64_t capacity = tt_emissions_capacity(emissions);
        assert_true(capacity >= rows);
        bool lost = false, has_message = false;
        for (int step = 0; step < 200; step++) {
            bool announces;
            if (tt_prng_below(&prng, 100) < 55) {
                make_row(put, row_bytes, row);
                bool fits = !lost && put - taken < capacity;
                assert_int_equal(tt_emissions_put(emissions, row, &announces), fits);
                /* A message only if none is under way, and only for a row that is there. */
                assert_int_equal(announces, fits && !has_message);
                has_message = has_message || announces;
                put += fits;
                lost = lost || !fits;
            } else if (tt_prng_below(&prng, 4) == 0) {
                if (has_message)
                    tt_emissions_begin_reading(emissions);
                has_message = false;
            } else {
                const void *found = tt_emissions_take(emissions);
                assert_int_equal(found != NULL, taken < put);
                make_row(taken, row_bytes, expected);
                if (found)
                    assert_memory_equal(found, expected, row_bytes);
                taken += found != NULL;
            }
            assert_int_equal(tt_emissions_is_empty(emissions), taken == put);
            tt_emissions_check(emissions);
        }
        tt_emissions_free(emissions);
    }
}

/* Also if there is room again: words must not be missing in the middle. */
static void after_a_lost_row_there_is_no_other(void **state) {
    (void)state;
    struct tt_emissions *emissions;
    bool announces;
    int64_t row = 7;
    assert_int_equal(tt_emissions_new(2, sizeof(row), &emissions), TT_OK);
    assert_int_equal(tt_emissions_capacity(emissions), 2);
    assert_true(tt_emissions_put(emissions, &row, &announces));
    assert_true(announces);
    assert_true(tt_emissions_put(emissions, &row, &announces));
    assert_false(announces);
    assert_false(tt_emissions_put(emissions, &row, &announces));
    assert_non_null(tt_emissions_take(emissions));
    assert_false(tt_emissions_put(emissions, &row, &announces));
    assert_false(announces);
    assert_non_null(tt_emissions_take(emissions));
    assert_null(tt_emissions_take(emissions));
    tt_emissions_check(emissions);
    tt_emissions_free(emissions);
}

static void too_many_rows_are_refused(void **state) {
    (void)state;
    struct tt_emissions *emissions = NULL;
    assert_int_equal(tt_emissions_new(INT64_MAX, 1 << 20, &emissions), TT_ERR_NO_MEMORY);
    assert_null(emissions);
    tt_emissions_free(NULL);
}

static void forget_a_row(void) {
    struct tt_emissions *emissions;
    bool announces;
    int64_t row = 1;
    if (tt_emissions_new(4, sizeof(row), &emissions) ||
        !tt_emissions_put(emissions, &row, &announces))
        return;
    emissions->put_count++;
    tt_emissions_check(emissions);
}

static void the_check_sees_a_wrong_count(void **state) {
    (void)state;
    assert_breaks(forget_a_row, "forget_a_row", "put_count");
}

/* --- two threads --- */

enum { ROWS = 20000, ROW_BYTES = 24, ROOM = 64 };

struct shared {
    struct tt_emissions *emissions;
    struct tt_ring mail; /* as a port's mailbox: room for one message */
};

/* Reads after messages only. A message that is missing shows itself, because the writer waits. */
static void *read_all(void *context) {
    struct shared *shared = context;
    unsigned char expected[ROW_BYTES];
    for (int64_t number = 0; number < ROWS;) {
        if (!tt_ring_pop(&shared->mail)) {
            sched_yield();
            continue;
        }
        tt_emissions_begin_reading(shared->emissions);
        const void *row;
        while ((row = tt_emissions_take(shared->emissions))) {
            make_row(number++, ROW_BYTES, expected);
            assert_memory_equal(row, expected, ROW_BYTES);
        }
    }
    return NULL;
}

static void no_row_waits_without_a_message(void **state) {
    (void)state;
    struct shared shared;
    assert_int_equal(tt_emissions_new(ROOM, ROW_BYTES, &shared.emissions), TT_OK);
    assert_int_equal(tt_ring_init(&shared.mail, 1), TT_OK);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, read_all, &shared), 0);
    for (int64_t number = 0; number < ROWS; number++) {
        unsigned char row[ROW_BYTES];
        struct tt_byte_piece pieces[2];
        bool announces;
        make_row(number, ROW_BYTES, row);
        while (tt_byte_ring_peek(&shared.emissions->ring, pieces) + ROW_BYTES >
               shared.emissions->ring.capacity)
            sched_yield();
        assert_true(tt_emissions_put(shared.emissions, row, &announces));
        if (announces)
            assert_true(tt_ring_push(&shared.mail, shared.emissions));
    }
    pthread_join(thread, NULL);
    tt_emissions_check(shared.emissions);
    tt_emissions_free(shared.emissions);
    tt_ring_fini(&shared.mail);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_as_from_a_queue),
        cmocka_unit_test(after_a_lost_row_there_is_no_other),
        cmocka_unit_test(too_many_rows_are_refused),
        cmocka_unit_test(the_check_sees_a_wrong_count),
        cmocka_unit_test(no_row_waits_without_a_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
