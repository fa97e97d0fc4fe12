#include "core/request.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void handles_outlive_requests_safely(void **state) {
    (void)state;
    struct tt_request_pool pool;
    assert_int_equal(tt_request_pool_init(&pool, 1, 1500), TT_OK);
    static struct tt_request *taken[1500];
    for (int i = 0; i < 1500; i++) {
        taken[i] = tt_request_pool_take(&pool);
        assert_non_null(taken[i]);
        assert_ptr_equal(tt_request_pool_find(&pool, taken[i]->handle), taken[i]);
    }
    assert_null(tt_request_pool_take(&pool)); /* the limit */
    struct tt_handle old = taken[1200]->handle;
    tt_request_pool_give(&pool, taken[1200]);
    assert_null(tt_request_pool_find(&pool, old));
    struct tt_request *again = tt_request_pool_take(&pool);
    assert_ptr_equal(again, taken[1200]);
    assert_null(tt_request_pool_find(&pool, old));
    assert_ptr_equal(tt_request_pool_find(&pool, again->handle), again);
    assert_int_equal(again->rows, 0);
    struct tt_handle nowhere = {.index = 1u << 30, .generation = 1};
    assert_null(tt_request_pool_find(&pool, nowhere));
    for (int i = 0; i < 1500; i++)
        tt_request_pool_give(&pool, taken[i]);
    assert_int_equal(pool.in_use, 0);
    tt_request_pool_fini(&pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handles_outlive_requests_safely),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
