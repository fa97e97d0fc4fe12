/* An array grows, keeps what it had, and is zero beyond. */
#include "base/array.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void it_grows_and_what_is_new_is_zero(void **state) {
    (void)state;
    int32_t *array = NULL;
    int64_t capacity = 0;
    for (int64_t count = 1; count < 1000; count += count / 3 + 1) {
        int64_t before = capacity;
        assert_true(tt_array_reserve((void **)&array, &capacity, count, sizeof(*array)));
        assert_true(capacity >= count);
        assert_true(capacity == before || capacity >= 2 * before);
        for (int64_t i = before; i < capacity; i++)
            assert_int_equal(array[i], 0);
        for (int64_t i = before; i < capacity; i++)
            array[i] = (int32_t)i;
        for (int64_t i = 0; i < capacity; i++)
            assert_int_equal(array[i], i);
    }
    free(array);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_grows_and_what_is_new_is_zero)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
