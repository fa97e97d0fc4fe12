/* Facts about a partition: the search and the best random one, on a problem small enough to know
 * the answer. */
#include "unit/lab/fact_files.h"

/* Rates 3, 2, 2 in two sub-clusters: 3 beside 4. Equal memory: 1 model beside 2. */
static const char problem[] = "sub_clusters: 2 seed: 1 "
                              "model { name: \"a\" rate_per_s: 3 static_mib: 1 } "
                              "model { name: \"b\" rate_per_s: 2 static_mib: 1 } "
                              "model { name: \"c\" rate_per_s: 2 static_mib: 1 }";

static double imbalance(const char *measure) {
    char text[256];
    snprintf(text, sizeof(text),
             HEAD "ours { experiment: \"problem.pbtxt\" measure: %s } holds { at_least: 0.1 } }",
             measure);
    return value_of(text, NULL);
}

static void both_find_the_best_of_a_small_problem(void **state) {
    (void)state;
    put("problem.pbtxt", problem);
    assert_true(fabs(imbalance("PLACE_IMBALANCE_RATE") - 1 / 3.5) < 1e-9);
    assert_true(fabs(imbalance("RANDOM_IMBALANCE_RATE") - 1 / 3.5) < 1e-9);
    assert_true(fabs(imbalance("PLACE_IMBALANCE_MEMORY") - 1 / 1.5) < 1e-9);
    assert_true(fabs(imbalance("RANDOM_IMBALANCE_MEMORY") - 1 / 1.5) < 1e-9);
    unlink(place("problem.pbtxt"));
}

static void a_problem_takes_no_changes(void **state) {
    (void)state;
    put("facts.pbtxt", HEAD "ours { experiment: \"problem.pbtxt\" set: \"rate=1\" "
                            "measure: PLACE_IMBALANCE_RATE } holds { at_least: 0.1 } }");
    struct tt_facts facts;
    struct tt_error why;
    struct tt_fact_runs *runs;
    bool chosen = true;
    assert_int_equal(tt_facts_open(&facts, place("facts.pbtxt"), &why), TT_OK);
    struct tt_fact_runs_options options = {.workers = 1};
    assert_int_equal(tt_fact_runs_new(&facts, &chosen, &options, &runs, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "a placement problem is used as it is; remove `rate=1`"));
    tt_facts_close(&facts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_find_the_best_of_a_small_problem),
        cmocka_unit_test(a_problem_takes_no_changes),
    };
    return cmocka_run_group_tests(tests, fact_files_make, fact_files_remove);
}
