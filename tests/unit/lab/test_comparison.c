/* The words of `tutti compare`: which contender is best where, and where none can be called so. */
#include "lab/report/comparison.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { CONTENDERS = 2, VALUES = 2 };

/* "a" has the lower mean at 50, "b" at 100; all else is equal. */
static const char *words(bool doubtful_at_50, bool doubtful_at_100) {
    static struct tt_text text;
    static const char *contenders[CONTENDERS] = {"a", "b"};
    static const char *const values[VALUES] = {"50", "100"};
    double numbers[VALUES] = {50, 100};
    double figures[TT_COMPARISON_FIGURES * CONTENDERS * VALUES];
    bool doubtful[CONTENDERS * VALUES] = {false, doubtful_at_100, doubtful_at_50, false};
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
        figures[i] = 1;
    double *means = &figures[TT_COMPARISON_MEAN_MS * CONTENDERS * VALUES];
    means[0] = 1, means[1] = 4; /* of a */
    means[2] = 2, means[3] = 3; /* of b */
    const struct tt_comparison comparison = {.parameter = "rate",
                                             .contenders = contenders,
                                             .contender_count = CONTENDERS,
                                             .value_count = VALUES,
                                             .value_texts = values,
                                             .values = numbers,
                                             .figures = figures,
                                             .doubtful = doubtful};
    tt_text_clear(&text);
    tt_comparison_words(&comparison, &text);
    return tt_text_string(&text);
}

static void all_can_be_judged(void **state) {
    (void)state;
    const char *said = words(false, false);
    assert_null(strstr(said, "Not judged"));
    assert_non_null(strstr(said, "a: lowest mean"));
    assert_non_null(strstr(said, " at rate 50.\n"));
    assert_non_null(strstr(said, "b: lowest mean"));
    assert_non_null(strstr(said, " at rate 100.\n"));
}

static void one_value_is_doubtful(void **state) {
    (void)state;
    const char *said = words(false, true);
    assert_non_null(strstr(said, "Not judged: the load generator fell behind at rate 100; "));
    assert_non_null(strstr(said, "a: lowest mean"));
    assert_non_null(strstr(said, "b: nowhere better than all others.\n"));
}

static void all_are_doubtful(void **state) {
    (void)state;
    const char *said = words(true, true);
    assert_non_null(strstr(said, "Not judged: the load generator fell behind at every rate; "));
    assert_null(strstr(said, "a: "));
    assert_null(strstr(said, "nowhere better"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_can_be_judged),
        cmocka_unit_test(one_value_is_doubtful),
        cmocka_unit_test(all_are_doubtful),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
