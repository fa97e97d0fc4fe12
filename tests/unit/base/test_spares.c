/* Spare objects: the last one given is the next one taken, a limited number is kept, and under
 * AddressSanitizer nothing reads a spare one. */
#include "base/spares.h"

#include "unit/breach.h"

#include <stdbool.h>
#include <stdlib.h>

enum { LIMIT = 3, MORE = 5, BYTES = 2000 };

static void keeps_a_limited_number(void **state) {
    (void)state;
    struct tt_spares spares;
    void *objects[MORE];
    tt_spares_init(&spares, BYTES, LIMIT);
    for (int i = 0; i < MORE; i++) {
        objects[i] = tt_spares_take(&spares);
        assert_non_null(objects[i]);
        memset(objects[i], i, BYTES);
    }
    assert_int_equal(spares.count, 0);
    for (int i = 0; i < MORE; i++) {
        tt_spares_give(&spares, objects[i]);
        assert_int_equal(spares.count, i < LIMIT ? i + 1 : LIMIT);
    }
    for (int i = LIMIT - 1; i >= 0; i--)
        assert_ptr_equal(tt_spares_take(&spares), objects[i]);
    assert_int_equal(spares.count, 0);
    for (int i = 0; i < LIMIT; i++) {
        memset(objects[i], 0xff, BYTES); /* usable again as a whole */
        tt_spares_give(&spares, objects[i]);
    }
    tt_spares_fini(&spares);
    assert_null(spares.first);
}

#ifdef __SANITIZE_ADDRESS__
static void use_after_give(void) {
    struct tt_spares spares;
    tt_spares_init(&spares, BYTES, LIMIT);
    volatile char *object = tt_spares_take(&spares);
    tt_spares_give(&spares, (void *)(uintptr_t)object);
    object[BYTES - 1] = 1;
}

static void finds_uses_of_spare_ones(void **state) {
    (void)state;
    char said[16384];
    assert_int_not_equal(in_a_child(use_after_give, said, sizeof(said)), 0);
    assert_non_null(strstr(said, "use-after-poison"));
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_a_limited_number),
#ifdef __SANITIZE_ADDRESS__
        cmocka_unit_test(finds_uses_of_spare_ones),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
