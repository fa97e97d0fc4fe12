/* threaded */
/* Values that are replaced while threads read them: none is freed too early, none is kept. */
#include "base/threads/published.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <cmocka.h>

enum { READERS = 3, VALUES = 2000 };

static _Atomic int live_count;

struct value {
    struct tt_shared shared;
    int number, copy; /* equal as long as the value is alive */
};

static void value_free(struct tt_shared *shared) {
    struct value *self = TT_CONTAINER_OF(shared, struct value, shared);
    self->copy = -1;
    free(self);
    atomic_fetch_sub(&live_count, 1);
}

static struct tt_shared *value_new(int number) {
    struct value *self = calloc(1, sizeof(*self));
    assert_non_null(self);
    tt_shared_init(&self->shared, value_free);
    self->number = self->copy = number;
    atomic_fetch_add(&live_count, 1);
    return &self->shared;
}

static void *read_all(void *context) {
    struct tt_published *published = context;
    struct tt_published_view view = {0};
    int last = 0;
    while (last < VALUES) {
        struct tt_shared *found = tt_published_get(published, &view);
        if (!found)
            continue;
        const struct value *value = TT_CONTAINER_OF(found, struct value, shared);
        tt_assert(value->number == value->copy);
        tt_assert(value->number >= last); /* never an older one */
        last = value->number;
    }
    tt_published_view_fini(&view);
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    struct tt_published published;
    pthread_t readers[READERS];
    tt_published_init(&published);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_all, &published), 0);
    for (int i = 1; i <= VALUES; i++)
        tt_published_set(&published, value_new(i));
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    assert_int_equal(atomic_load(&live_count), 1);
    tt_published_fini(&published);
    assert_int_equal(atomic_load(&live_count), 0);
}

static void test_views(void **state) {
    (void)state;
    struct tt_published published;
    struct tt_published_view early = {0}, late = {0};
    tt_published_init(&published);
    assert_null(tt_published_get(&published, &early));
    struct tt_shared *one = value_new(1), *two = value_new(2);
    tt_published_set(&published, one);
    assert_ptr_equal(tt_published_get(&published, &early), one);
    tt_published_set(&published, two);
    assert_int_equal(atomic_load(&live_count), 2); /* the early view holds the first */
    assert_ptr_equal(tt_published_get(&published, &late), two);
    assert_ptr_equal(tt_published_get(&published, &early), two);
    assert_int_equal(atomic_load(&live_count), 1);
    tt_published_fini(&published);
    assert_int_equal(atomic_load(&live_count), 1); /* views outlive it */
    tt_published_view_fini(&early);
    tt_published_view_fini(&late);
    assert_int_equal(atomic_load(&live_count), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_views),
                                       cmocka_unit_test(test_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
