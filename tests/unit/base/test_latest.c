/* A register and the set that marks it as changed, used together. The reader never sees half a
 * value or an older value after a newer one, and always sees the last (S6). */
#include "base/threads/latest.h"

#include "base/clock.h"
#include "base/threads/dirty_set.h"
#include "base/threads/eventcount.h"
#include "base/threads/flag.h"
#include "base/threads/perturb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <pthread.h>

struct value {
    int64_t a, b, c, d, e, f, g;
};
_Static_assert(sizeof(struct value) == TT_LATEST_BYTES, "the largest");

static struct value value_of(int64_t i) { return (struct value){i, 2 * i, 3 * i, ~i, i, -i, i}; }

static void test_nothing_then_the_newest(void **state) {
    (void)state;
    struct tt_latest latest = {0};
    struct value in, out = value_of(77);
    assert_false(tt_latest_read(&latest, &out, sizeof(out)));
    assert_int_equal(out.a, 77);
    in = value_of(1);
    tt_latest_write(&latest, &in, sizeof(in));
    uint64_t version = tt_latest_version(&latest);
    in = value_of(2);
    tt_latest_write(&latest, &in, sizeof(in));
    assert_true(tt_latest_version(&latest) > version);
    assert_true(tt_latest_read(&latest, &out, sizeof(out)));
    assert_int_equal(out.b, 4);
    assert_true(tt_latest_read(&latest, &out, sizeof(out))); /* reading takes nothing out */
}

static void test_being_written(void **state) {
    (void)state;
    struct tt_latest latest = {0};
    struct value out, in = value_of(5);
    tt_latest_write(&latest, &in, sizeof(in));
    atomic_fetch_add(&latest.version, 1); /* a writer that lost its processor in the middle */
    assert_false(tt_latest_read(&latest, &out, sizeof(out)));
}

static void test_set(void **state) {
    (void)state;
    enum { CAPACITY = 10000 };
    struct tt_dirty_set set;
    int32_t ids[(CAPACITY + 63) / 64 * 64];
    assert_int_equal(tt_dirty_set_init(&set, CAPACITY), TT_OK);
    assert_true(tt_dirty_set_empty(&set));
    assert_int_equal(tt_dirty_set_take(&set, ids), 0);
    tt_dirty_set_add(&set, 9999 / 64, UINT64_C(1) << (9999 % 64));
    tt_dirty_set_add(&set, 0, 5);
    tt_dirty_set_add(&set, 0, 4); /* there already */
    assert_false(tt_dirty_set_empty(&set));
    assert_int_equal(tt_dirty_set_take(&set, ids), 3);
    assert_int_equal(ids[0], 0);
    assert_int_equal(ids[1], 2);
    assert_int_equal(ids[2], 9999);
    assert_true(tt_dirty_set_empty(&set));
    tt_dirty_set_fini(&set);
}

enum { MODELS = 130, ROUNDS = 20000 };

struct shared {
    struct tt_latest registers[MODELS];
    struct tt_dirty_set changed;
    struct tt_eventcount eventcount;
    struct tt_flag done;
};

static void *write_all(void *context) {
    struct shared *shared = context;
    for (int64_t round = 1; round <= ROUNDS; round++) {
        for (int32_t m = (int32_t)round % 7; m < MODELS; m += 7) {
            struct value value = value_of(round);
            tt_latest_write(&shared->registers[m], &value, sizeof(value));
            tt_dirty_set_add(&shared->changed, m / 64, UINT64_C(1) << (m % 64));
        }
        tt_eventcount_notify_by(&shared->eventcount, TT_EVENTCOUNT_AT_ONCE);
    }
    tt_flag_raise(&shared->done);
    tt_eventcount_notify_by(&shared->eventcount, TT_EVENTCOUNT_AT_ONCE);
    return NULL;
}

/* The reader sleeps until it is notified: a lost notification hangs the test. */
static void read_all(struct shared *shared, int64_t *seen) {
    int32_t ids[MODELS + 64];
    for (bool last = false; !last;) {
        last = tt_flag_is_raised(&shared->done);
        int32_t count = tt_dirty_set_take(&shared->changed, ids);
        for (int32_t i = 0; i < count; i++) {
            struct value value;
            if (!tt_latest_read(&shared->registers[ids[i]], &value, sizeof(value)))
                continue;
            struct value whole = value_of(value.a);
            assert_memory_equal(&value, &whole, sizeof(value));
            assert_true(value.a >= seen[ids[i]]);
            seen[ids[i]] = value.a;
        }
        if (count > 0 || last)
            continue;
        tt_eventcount_prepare(&shared->eventcount, TT_NEVER);
        if (!tt_dirty_set_empty(&shared->changed) || tt_flag_is_raised(&shared->done))
            tt_eventcount_cancel(&shared->eventcount);
        else
            tt_eventcount_commit(&shared->eventcount, TT_NEVER);
    }
}

static void test_two_threads(void **state) {
    (void)state;
    for (uint32_t one_in = 0; one_in <= 200; one_in += 100) {
        struct shared *shared = aligned_alloc(64, (sizeof(*shared) + 63) / 64 * 64);
        int64_t seen[MODELS] = {0};
        pthread_t writer;
        assert_non_null(shared);
        for (int32_t m = 0; m < MODELS; m++)
            shared->registers[m] = (struct tt_latest){0};
        shared->done = (struct tt_flag){0};
        tt_eventcount_init(&shared->eventcount);
        assert_int_equal(tt_dirty_set_init(&shared->changed, MODELS), TT_OK);
        tt_perturb_set(one_in);
        assert_int_equal(pthread_create(&writer, NULL, write_all, shared), 0);
        read_all(shared, seen);
        pthread_join(writer, NULL);
        for (int32_t m = 0; m < MODELS; m++) /* the last round that wrote it */
            assert_int_equal(seen[m], ROUNDS - ((ROUNDS - m) % 7 + 7) % 7);
        tt_dirty_set_fini(&shared->changed);
        free(shared);
    }
    tt_perturb_set(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_then_the_newest),
        cmocka_unit_test(test_being_written),
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
