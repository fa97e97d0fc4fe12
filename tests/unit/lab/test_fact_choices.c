/* How several runs become the value of a fact: alternatives, changes of both sides, seeds. */
#include "unit/lab/fact_files.h"

/* Goods per second at mean gaps of 0.5, 1 and 2 ms: 2083, 1250, 833. */
static void groups_of_runs_are_chosen_from(void **state) {
    (void)state;
    struct tt_text note;
    tt_text_init(&note);
    double best = value_of(HEAD "ours { experiment: \"example.pbtxt\" measure: GOOD_PER_S "
                                "any_of: [\"interval_us=1000\", \"interval_us=500\"] } "
                                "holds { at_least: 1 } }",
                           &note);
    assert_true(fabs(best - 5 / 0.0024) < 1e-6);
    double mean =
        value_of(HEAD "ours { experiment: \"example.pbtxt\" measure: GOOD_PER_S "
                      "any_of: [\"interval_us=1000\", \"interval_us=500\"] choose: MEAN } "
                      "holds { at_least: 1 } }",
                 &note);
    assert_true(fabs(mean - 4 / 0.0024) < 1e-6);
    double least = value_of(HEAD "ours { experiment: \"example.pbtxt\" measure: LATENCY_MEAN_MS "
                                 "any_of: [\"interval_us=500\", \"interval_us=2000\"] } "
                                 "holds { at_least: 1 } }",
                            &note);
    assert_true(fabs(least - 1) < 1e-9); /* no request waits for another */
    assert_string_equal(tt_text_string(&note), "");
    double ratio =
        value_of(HEAD "ours { experiment: \"example.pbtxt\" measure: GOOD_SHARE } "
                      "relative_to { experiment: \"example.pbtxt\" measure: GOOD_SHARE } "
                      "over: [\"interval_us=1000\", \"interval_us=500\"] "
                      "holds { at_least: 1 } }",
                 &note);
    assert_true(ratio == 1);
    assert_string_equal(tt_text_string(&note), "1 / 1, 1 / 1");
    tt_text_fini(&note);
}

static void the_worst_is_chosen_and_a_share_counted(void **state) {
    (void)state;
#define CHOICE(measure, choose)                                                                    \
    HEAD "ours { experiment: \"example.pbtxt\" measure: " measure                                  \
         " any_of: [\"interval_us=1000\", \"interval_us=500\", \"interval_us=2000\"] "             \
         "choose: " choose " } holds { at_least: 0.1 } }"
    assert_true(fabs(value_of(CHOICE("GOOD_PER_S", "WORST"), NULL) - 2 / 0.0024) < 1e-6);
    assert_true(fabs(value_of(CHOICE("GOOD_PER_S", "BEST"), NULL) - 5 / 0.0024) < 1e-6);
    assert_true(fabs(value_of(CHOICE("LATENCY_MEAN_MS", "WORST"), NULL) - 2.4) < 1e-9);
    double share = value_of(CHOICE("GOOD_PER_S", "SHARE_ABOVE above: 1000"), NULL);
    assert_true(fabs(share - 2.0 / 3) < 1e-9);
}

/* The value is the mean over the seeds, although the run's own median is that of one seed. */
static void seeds_are_averaged(void **state) {
    (void)state;
    static const char drawn[] = "duration_s: 0.2 device { count: 1 } model { name: \"M\" slo_ms: 4 "
                                "profile { linear { alpha_ms: 1 } } } load { rate: 900 } policy { "
                                "name: \"eager\" } seed: 1";
    put("drawn.pbtxt", drawn);
    static const char *const seeds[] = {"1", "2", "3", "4"};
    double sum = 0;
    char text[512];
    for (size_t i = 0; i < TT_COUNT(seeds); i++) {
        snprintf(text, sizeof(text),
                 HEAD "ours { experiment: \"drawn.pbtxt\" set: \"seed=%s\" measure: "
                      "LATENCY_MEAN_MS } holds { at_least: 0.1 } }",
                 seeds[i]);
        sum += value_of(text, NULL);
    }
    struct tt_text note;
    tt_text_init(&note);
    double mean = value_of(HEAD "ours { experiment: \"drawn.pbtxt\" measure: LATENCY_MEAN_MS } "
                                "seeds: 4 holds { at_least: 0.1 } }",
                           &note);
    assert_true(fabs(mean - sum / 4) < 1e-9);
    assert_memory_equal(tt_text_string(&note), "4 seeds, middle half: ", 22);
    tt_text_fini(&note);
    unlink(place("drawn.pbtxt"));
}

/* A run serves facts with and without seeds of their own; fewer than it has would not be averaged.
 */
static void fewer_seeds_than_the_experiment_has_are_refused(void **state) {
    (void)state;
#define SEEDED(id, said)                                                                           \
    "fact { id: \"" id "\" what: \"w\" published: 10 ours { experiment: \"seeded.pbtxt\" "         \
    "measure: GOODPUT } " said "holds { at_least: 0.1 } }\n"
    static const struct {
        const char *facts;
        enum tt_err expected;
    } cases[] = {
        {SEEDED("a", "seeds: 2 ") SEEDED("b", "seeds: 3 "), TT_OK},
        {SEEDED("a", "") SEEDED("b", "seeds: 2 "), TT_OK},
        {SEEDED("a", "") "\n" SEEDED("b", "seeds: 1 "), TT_ERR_INVALID},
    };
    put("seeded.pbtxt", "duration_s: 1 device { count: 1 } model { name: \"M\" slo_ms: 4 profile { "
                        "linear { alpha_ms: 1 } } } load { rate: 900 } policy { name: \"eager\" } "
                        "goodput { seeds: 2 }");
    for (size_t i = 0; i < 2 * TT_COUNT(cases); i++) {
        bool chosen[2] = {true, true};
        struct tt_facts facts;
        struct tt_fact_runs *runs;
        struct tt_error why = {""};
        struct tt_fact_runs_options options = {.workers = 1, .quick = i % 2};
        put("facts.pbtxt", cases[i / 2].facts);
        assert_int_equal(tt_facts_open(&facts, place("facts.pbtxt"), &why), TT_OK);
        assert_int_equal(tt_fact_runs_new(&facts, chosen, &options, &runs, &why),
                         cases[i / 2].expected);
        if (cases[i / 2].expected == TT_OK) {
            tt_fact_runs_free(runs);
        } else if (!strstr(why.text, "facts.pbtxt:3: seeds is 1, but seeded.pbtxt has 2 of its "
                                     "own (goodput.seeds); it must be at least that, or absent")) {
            fail_msg("%s", why.text);
        }
        tt_facts_close(&facts);
    }
    unlink(place("seeded.pbtxt"));
}

/* Two requests per gap: goods per second at gaps of 0.5 and 1 ms are 2083 and 1250. */
static void the_results_of_over_become_one_value(void **state) {
    (void)state;
#define OVER(reduce)                                                                               \
    HEAD "ours { experiment: \"example.pbtxt\" measure: GOOD_PER_S } "                             \
         "over: [\"interval_us=1000\", \"interval_us=500\"] " reduce " holds { at_least: 1 } }"
    assert_true(fabs(value_of(OVER("reduce: LEAST_OF_ALL"), NULL) - 3 / 0.0024) < 1e-6);
    assert_true(fabs(value_of(OVER("reduce: MOST_OF_ALL"), NULL) - 5 / 0.0024) < 1e-6);
    assert_true(fabs(value_of(OVER(""), NULL) - 4 / 0.0024) < 1e-6);
    assert_true(fabs(value_of(OVER("reduce: DIFFERENCE"), NULL) + 2 / 0.0024) < 1e-6);
}

/* Also where a quotient is compared: the setting of the most is 500, that of the least 1000. */
static void the_best_setting_is_found(void **state) {
    (void)state;
    assert_true(value_of(OVER("reduce: WHERE_LEAST at: [1000, 500]"), NULL) == 1000);
    assert_true(value_of(OVER("reduce: WHERE_MOST at: [1000, 500]"), NULL) == 500);
    struct tt_text note;
    tt_text_init(&note);
    double first =
        value_of(HEAD "ours { experiment: \"example.pbtxt\" measure: GOOD_SHARE } "
                      "relative_to { experiment: \"example.pbtxt\" measure: GOOD_SHARE } "
                      "over: [\"interval_us=1000\", \"interval_us=500\"] "
                      "reduce: WHERE_MOST at: [1000, 500] holds { at_least: 1 } }",
                 &note);
    assert_true(first == 1000); /* both are 1 */
    assert_string_equal(tt_text_string(&note), "1 / 1, 1 / 1");
    tt_text_fini(&note);
}

/* S6: only a scheduler that loses little has a value. */
static void the_scheduler_alone_is_measured(void **state) {
    (void)state;
#define SCHEDULER(rate)                                                                            \
    HEAD "ours { experiment: \"alone.pbtxt\" set: \"rate=" rate                                    \
         "\" measure: SCHEDULER_PER_S } holds { at_least: 0.1 } }"
    put("alone.pbtxt", "duration_s: 0.2 warm_up_s: 0.1 device { count: 4 } load { rate: 1 } "
                       "model { name: \"M\" copies: 2 slo_ms: 50 profile { linear { alpha_ms: 0.1 "
                       "beta_ms: 5 } } } policy { name: \"symphony\" }");
    assert_true(value_of(SCHEDULER("2000"), NULL) > 0);
    assert_true(isnan(value_of(SCHEDULER("1000000"), NULL)));
    unlink(place("alone.pbtxt"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_runs_are_chosen_from),
        cmocka_unit_test(the_results_of_over_become_one_value),
        cmocka_unit_test(the_best_setting_is_found),
        cmocka_unit_test(the_worst_is_chosen_and_a_share_counted),
        cmocka_unit_test(seeds_are_averaged),
        cmocka_unit_test(fewer_seeds_than_the_experiment_has_are_refused),
        cmocka_unit_test(the_scheduler_alone_is_measured),
    };
    return cmocka_run_group_tests(tests, fact_files_make, fact_files_remove);
}
